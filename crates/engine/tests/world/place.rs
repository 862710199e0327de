//! Who is where in these worlds, and the one face of all nodes.

use super::keepers::Kept;
use super::mqtt::MqttClient;
use super::port::Port;
use super::{Seen, Told};
use contract::{Span, Time};
use engine::driving::TurnState;
use engine::testing::Log;
use engine::{BrokerNode, ClientNode, Node, Uplink};
use simulation::network::{EndId, News};
use simulation::{Clock, Machine};
use wire::{Effects, LinkChange, LinkId, PeerIndex};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    Broker(usize),
    Client(usize),
    /// What joins a site to others.
    Uplink(usize),
    /// What keeps a site's messages.
    Keeper(usize),
    /// A client that speaks MQTT.
    Mqtt(usize),
    /// Somebody who speaks nothing that a broker knows.
    Stranger(usize),
}

/// A host with its one process, without the node in it.
pub struct Place {
    pub who: Who,
    pub machine: Machine,
    pub port: Port,
    /// What its node is still to be told.
    pub news: Vec<News>,
    /// Connections with something to read.
    pub ready: Vec<EndId>,
    pub turn: TurnState,
}

impl Place {
    pub fn new(who: Who, now: Time) -> Place {
        let clock = Clock::new(now, Span::ZERO, 0);
        Place {
            who,
            machine: Machine::new(&format!("{who:?}"), clock, 0),
            port: Port::default(),
            news: Vec::new(),
            ready: Vec::new(),
            turn: TurnState::default(),
        }
    }

    /// Its process is gone with all that it had.
    pub fn clear(&mut self) {
        (self.port, self.turn) = (Port::default(), TurnState::default());
        self.news.clear();
        self.ready.clear();
    }
}

/// Says its piece, and listens.
#[derive(Default)]
pub struct Stranger {
    pub says: Vec<u8>,
    pub heard: Vec<u8>,
}

impl Node for Stranger {
    fn handle_link(&mut self, _now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        if let LinkChange::Dialed(_) = change {
            net.append(link, wire::Order::Any, |out| out.extend_from_slice(&self.says));
        }
    }
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, _link: LinkId, bytes: &[u8], _net: &mut impl Effects) -> usize {
        self.heard.extend_from_slice(bytes);
        bytes.len()
    }
    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }
    fn handle_timeout(&mut self, _now: Time, _net: &mut impl Effects) {}
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

/// The node of some process.
pub enum Program<'a> {
    Broker(&'a mut BrokerNode<Log>),
    Client(&'a mut ClientNode<Seen>),
    Uplink(&'a mut Uplink<Told>),
    Keeper(&'a mut Kept),
    Mqtt(&'a mut MqttClient),
    Stranger(&'a mut Stranger),
}

macro_rules! each {
    ($program:expr, $node:ident => $act:expr) => {
        match $program {
            Program::Broker($node) => $act,
            Program::Client($node) => $act,
            Program::Uplink($node) => $act,
            Program::Keeper($node) => $act,
            Program::Mqtt($node) => $act,
            Program::Stranger($node) => $act,
        }
    };
}

impl Node for Program<'_> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        each!(self, node => node.handle_link(now, link, change, net));
    }
    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        each!(self, node => node.handle_dial_failed(now, peer, refused, net));
    }
    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        each!(self, node => node.handle_bytes(now, link, bytes, net))
    }
    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool {
        each!(self, node => node.run(now, net))
    }
    fn awaits_leaving(&self) -> bool {
        each!(self, node => node.awaits_leaving())
    }
    fn handle_left(&mut self, now: Time, net: &mut impl Effects) {
        each!(self, node => node.handle_left(now, net));
    }
    fn handle_clock_step(&mut self, now: Time, by: Span) {
        each!(self, node => node.handle_clock_step(now, by));
    }
    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        each!(self, node => node.handle_timeout(now, net));
    }
    fn next_deadline(&self) -> Time {
        each!(self, node => node.next_deadline())
    }
}
