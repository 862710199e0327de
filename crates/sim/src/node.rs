//! A host with its process: a broker or a client, as the drivers of the product would run it.

use crate::checkers::is_of_device;
use crate::device::Device;
use crate::heart::Heart;
use crate::operators::{MIXED, Part, Workers, parts_of};
use crate::port::Port;
use crate::scene;
use broker::{Event, Loneliness, PromotionCause};
use contract::{Reign, Span, Time};
use endpoint::{Delivery, PublicationState, Reigning, Unfit};
use engine::driving::TurnState;
use engine::{
    Application, BrokerNode, ClientNode, KeepsNothing, KnowsEverybody, Node, Operators, Processor, Reporter,
};
use simulation::network::{EndId, News};
use simulation::{Clock, Latency, Machine};
use wire::{Effects, Farewell, Frame, LinkChange, LinkId, PeerIndex, Protocol};

/// What a broker told its operator, as far as checkers want to know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Promoted { reign: Reign, cause: PromotionCause, recovered: u64 },
    SteppedDown { reign: Reign },
    Joined { reign: Reign },
    Protected,
    Unprotected(Loneliness),
    HandedOver { forwarded: u64 },
    Expelled(String),
    ResultRefused(String),
    BudgetShort,
    Other,
}

/// Hears what a broker reports.
#[derive(Clone, Default)]
pub(crate) struct Ear {
    pub(crate) told: Vec<Told>,
    /// The same in words, when somebody wants to read it.
    pub(crate) words: Option<Vec<String>>,
}

impl KeepsNothing for Ear {}
impl KnowsEverybody for Ear {}

impl Reporter for Ear {
    fn report(&mut self, event: &Event<'_>) {
        if let Some(words) = &mut self.words {
            words.push(event.to_string());
        }
        self.told.push(match event {
            Event::Promoted { reign, cause, recovered } => {
                Told::Promoted { reign: *reign, cause: *cause, recovered: *recovered }
            }
            Event::SteppedDown { reign } => Told::SteppedDown { reign: *reign },
            Event::Joined { reign } => Told::Joined { reign: *reign },
            Event::Protected { .. } => Told::Protected,
            Event::Unprotected { cause } => Told::Unprotected(*cause),
            Event::HandedOver { forwarded } => Told::HandedOver { forwarded: *forwarded },
            Event::Expelled { reason, .. } => Told::Expelled((*reason).to_owned()),
            Event::ResultRefused { topic, .. } => Told::ResultRefused((*topic).to_owned()),
            Event::BudgetShort { .. } => Told::BudgetShort,
            _ => Told::Other,
        });
    }
    fn next_alarm(&mut self, _out: &mut String) -> bool {
        false
    }

    fn tidy(&mut self, _freed: usize) {}
}

/// A message as an application got it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Got {
    /// The simulator's number of the stream, from the payload.
    pub(crate) stream: u32,
    pub(crate) seq: u64,
    pub(crate) latency: Span,
    pub(crate) late: bool,
    /// The payload is what was published under this number.
    pub(crate) intact: bool,
    /// The client's number for the stream.
    pub(crate) inbound: u32,
    /// The length of its payload.
    pub(crate) bytes: usize,
}

/// A joined result as an application got it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joined {
    pub(crate) topic: String,
    pub(crate) created: Time,
    pub(crate) parts: Vec<Part>,
}

/// What an application heard, besides messages.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Heard {
    Judged {
        publication: u32,
        admitted: bool,
    },
    Subscribed {
        subscription: u32,
        admitted: bool,
        /// Whether it is served as best effort instead.
        instead: bool,
    },
    Reigning {
        reign: Option<Reign>,
        relayed: bool,
    },
    Dismissed(String),
    /// A broker, by its place among the addresses, is of another pair.
    Stranger(u8),
    HandedOver {
        done: bool,
    },
}

/// A client's application.
#[derive(Clone, Default)]
pub(crate) struct App {
    pub(crate) got: Vec<Got>,
    pub(crate) joined: Vec<Joined>,
    pub(crate) heard: Vec<Heard>,
    /// The topics of inbound streams, by the client's numbers, and which of our streams last came as them.
    pub(crate) inbound: Vec<(Option<String>, u32)>,
}

impl Application for App {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let (stream, seq, intact) = scene::read_payload(delivery.payload);
        if stream == MIXED {
            let (topic, created) = (delivery.topic.to_owned(), delivery.created);
            self.joined.push(Joined { topic, created, parts: parts_of(delivery.payload) });
            return;
        }
        let inbound = delivery.stream;
        // An inbound stream keeps its topic for good, so it is looked at once.
        while self.inbound.len() <= inbound as usize {
            self.inbound.push((None, crate::port::NO_STREAM));
        }
        self.inbound[inbound as usize].0.get_or_insert_with(|| delivery.topic.to_owned());
        // Messages of devices have numbers of their own.
        let intact = intact && (seq == delivery.seq || is_of_device(stream));
        let Delivery { latency, late, .. } = *delivery;
        let bytes = delivery.payload.len();
        self.got.push(Got { stream, seq, latency, late, intact, inbound, bytes });
    }

    fn judged(&mut self, publication: u32, state: &PublicationState) {
        let admitted = matches!(state, PublicationState::Admitted(_));
        self.heard.push(Heard::Judged { publication, admitted });
    }

    fn subscribed(&mut self, subscription: u32, result: Result<&str, &str>) {
        let instead = result.is_ok_and(|words| !words.is_empty());
        self.heard.push(Heard::Subscribed { subscription, admitted: result.is_ok() && !instead, instead });
    }

    fn reigning(&mut self, reigning: Reigning) {
        self.heard.push(match reigning {
            Reigning::Primary { reign, relayed, .. } => Heard::Reigning { reign: Some(reign), relayed },
            Reigning::Nobody => Heard::Reigning { reign: None, relayed: false },
        });
    }

    fn dismissed(&mut self, _broker: PeerIndex, farewell: &Farewell<'_>) {
        self.heard.push(Heard::Dismissed(farewell.text.to_owned()));
    }

    fn unfit(&mut self, broker: PeerIndex, why: &Unfit) {
        if *why == Unfit::Apart {
            self.heard.push(Heard::Stranger(broker.0));
        }
    }

    fn answered(&mut self, _broker: PeerIndex, frame: &Frame<'_>) {
        if let Frame::HandoverReply { done, .. } = frame {
            self.heard.push(Heard::HandedOver { done: *done });
        }
    }
}

/// What runs on a host.
#[derive(Clone)]
pub(crate) enum Program<O = Processor<Workers>> {
    Dead,
    Broker(Box<BrokerNode<Ear, O>>),
    Client(Box<ClientNode<App>>),
    Device(Box<Device>),
}

macro_rules! either {
    ($program:expr, $node:ident => $act:expr, $dead:expr) => {
        match $program {
            Program::Dead => $dead,
            Program::Broker($node) => $act,
            Program::Client($node) => $act,
            Program::Device($node) => $act,
        }
    };
}

impl<O: Operators> Node for Program<O> {
    fn is_open(&self, protocol: Protocol) -> bool {
        match self {
            Program::Broker(node) => node.is_open(protocol),
            _ => true,
        }
    }

    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        either!(self, node => node.handle_link(now, link, change, net), ());
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        either!(self, node => node.handle_dial_failed(now, peer, refused, net), ());
    }

    fn awaits_leaving(&self) -> bool {
        matches!(self, Program::Broker(node) if node.awaits_leaving())
    }

    fn handle_left(&mut self, now: Time, net: &mut impl Effects) {
        if let Program::Broker(node) = self {
            node.handle_left(now, net);
        }
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        either!(self, node => node.handle_bytes(now, link, bytes, net), bytes.len())
    }

    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool {
        either!(self, node => node.run(now, net), false)
    }

    fn handle_clock_step(&mut self, now: Time, by: Span) {
        either!(self, node => node.handle_clock_step(now, by), ());
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        either!(self, node => node.handle_timeout(now, net), ());
    }

    fn next_deadline(&self) -> Time {
        either!(self, node => node.next_deadline(), Time::NEVER)
    }
}

/// A host and its one process.
pub(crate) struct Host {
    pub(crate) machine: Machine,
    pub(crate) program: Program,
    pub(crate) port: Port,
    /// A living broker's heartbeats.
    pub(crate) heart: Option<Heart>,
    pub(crate) latency: Latency,
    /// Connections with something to read.
    pub(crate) ready: Vec<EndId>,
    pub(crate) news: Vec<News>,
    /// What is left over from the last turn.
    pub(crate) turn: TurnState,
    /// It dies in its next turn's writing.
    pub(crate) dying: Option<(u32, u32)>,
    /// What it took to make messages for those who are served last, since somebody looked.
    pub(crate) made_last: Span,
    /// How long after its death it is started again.
    pub(crate) restart: Option<Span>,
}

impl Host {
    pub(crate) fn new(name: &str, clock: Clock, latency: Latency, seed: u64) -> Host {
        Host {
            machine: Machine::new(name, clock, seed),
            program: Program::Dead,
            port: Port::default(),
            heart: None,
            latency,
            ready: Vec::new(),
            news: Vec::new(),
            turn: TurnState::default(),
            dying: None,
            made_last: Span::ZERO,
            restart: None,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.program, Program::Dead)
    }

    /// Whether it is a broker, or a client with connections to both.
    pub(crate) fn is_connected_to_both(&self) -> bool {
        match &self.program {
            Program::Dead => false,
            Program::Broker(_) => true,
            Program::Client(node) => node.endpoint().connected().count() == 2,
            Program::Device(_) => true,
        }
    }

    pub(crate) fn broker(&self) -> Option<&broker::Broker> {
        match &self.program {
            Program::Broker(node) => Some(node.broker()),
            _ => None,
        }
    }

    pub(crate) fn device(&self) -> Option<&Device> {
        match &self.program {
            Program::Device(device) => Some(device),
            _ => None,
        }
    }

    pub(crate) fn client(&self) -> Option<&endpoint::Endpoint> {
        match &self.program {
            Program::Client(node) => Some(node.endpoint()),
            _ => None,
        }
    }
}
