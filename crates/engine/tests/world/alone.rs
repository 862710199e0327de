//! One node alone, on virtual time; the test plays everybody that it is connected to. For whatever depends on the order
//! in which words arrive on different connections.

use super::seat::Seat;
use super::{START, Seen, settings};
use broker::{Broker, Settings};
use contract::{Contract, Epoch, NodeId, Reign, Span};
use endpoint::Endpoint;
use engine::testing::Log;
use engine::{BrokerNode, ClientNode, Node};
use wire::{
    Decoded, Evidence, Frame, Hello, LinkChange, LinkId, Mark, MarkKind, Message, MessageFlags, MessageKind,
    Outbox, PeerIndex, Protocol, Secret, Standing, decode,
};

pub struct Alone<N> {
    pub seat: Seat<N>,
}

impl Alone<BrokerNode<Log>> {
    /// One of a pair; the first prefers to reign.
    pub fn broker(index: usize, tune: fn(&mut Settings)) -> Alone<BrokerNode<Log>> {
        let mut settings = settings(index, NodeId(50), START);
        tune(&mut settings);
        Alone::new(BrokerNode::new(settings, Log::default()))
    }

    pub fn state(&self) -> &Broker {
        self.seat.node.broker()
    }
}

impl Alone<ClientNode<Seen>> {
    pub fn client() -> Alone<ClientNode<Seen>> {
        let settings = endpoint::Settings::new("client", 1, 2);
        Alone::new(ClientNode::new(settings, START, Seen::default()))
    }

    pub fn subscribe(&mut self, filter: &str) {
        let filter = filter.parse().unwrap();
        self.seat
            .node
            .with(&mut self.seat.wires, |endpoint: &mut Endpoint, out| endpoint.subscribe(&filter, out))
            .unwrap();
    }

    pub fn advertise(&mut self, topic: &str, contract: Contract) {
        self.seat
            .node
            .with(&mut self.seat.wires, |endpoint: &mut Endpoint, out| {
                endpoint.advertise(topic, Some(contract), out)
            })
            .unwrap();
    }

    /// The payloads that its application got, in order.
    pub fn payloads(&mut self) -> Vec<String> {
        let messages = &self.seat.node.application().messages;
        messages.iter().map(|(.., payload)| String::from_utf8_lossy(payload).into_owned()).collect()
    }
}

impl<N: Node> Alone<N> {
    fn new(node: N) -> Alone<N> {
        let mut alone = Alone { seat: Seat::new(node, START) };
        alone.pass(Span::ZERO);
        alone
    }

    /// Somebody connects to the node.
    pub fn accept(&mut self) -> LinkId {
        self.open(LinkChange::Accepted(Protocol::Verge))
    }

    /// The connection that the node has asked for stands.
    pub fn connect(&mut self, peer: u8) -> LinkId {
        let asked = self.seat.wires.dials.iter().position(|asked| asked.0 == peer).expect("it has dialed");
        let peer = self.seat.wires.dials.remove(asked);
        self.open(LinkChange::Dialed(peer))
    }

    fn open(&mut self, change: LinkChange) -> LinkId {
        let link = self.seat.open(change);
        self.seat.rest();
        link
    }

    pub fn close(&mut self, link: LinkId) {
        self.seat.change(link, LinkChange::Closed);
        self.seat.rest();
    }

    /// What heartbeats say from now on.
    pub fn hear(&mut self, evidence: Option<Evidence>) {
        self.seat.wires.evidence = evidence;
    }

    /// Connections that the node has asked for and does not have yet.
    pub fn dials(&self) -> usize {
        self.seat.wires.dials.len()
    }

    /// Whether the node has asked for this connection and does not have it yet.
    pub fn is_dialing(&self, peer: PeerIndex) -> bool {
        self.seat.wires.dials.contains(&peer)
    }

    /// Nobody listens where the node wants to connect to.
    pub fn refuse_dials(&mut self) {
        for peer in std::mem::take(&mut self.seat.wires.dials) {
            self.seat.dial_failed(peer, true);
        }
        self.seat.rest();
    }

    /// Somebody says something to the node.
    pub fn tell(&mut self, link: LinkId, frame: &Frame<'_>) {
        let mut outbox = Outbox::default();
        outbox.push(frame);
        self.feed(link, outbox);
    }

    /// The same with a message, which is as old as the moment.
    pub fn send(&mut self, link: LinkId, kind: MessageKind, stream: u32, seq: u64, payload: &[u8]) {
        let mut outbox = Outbox::default();
        let message = Message { stream, flags: MessageFlags::NONE, seq, created: self.seat.now, payload };
        outbox.push_message(kind, &message);
        self.feed(link, outbox);
    }

    /// The same with flags.
    pub fn send_flagged(&mut self, link: LinkId, seq: u64, flags: MessageFlags, payload: &[u8]) {
        let mut outbox = Outbox::default();
        let message = Message { stream: 0, flags, seq, created: self.seat.now, payload };
        outbox.push_message(MessageKind::Publish, &message);
        self.feed(link, outbox);
    }

    /// The same with a mark.
    pub fn mark(&mut self, link: LinkId, kind: MarkKind, stream: u32, seq: u64) {
        let mut outbox = Outbox::default();
        outbox.push_mark(kind, Mark { stream, seq });
        self.feed(link, outbox);
    }

    fn feed(&mut self, link: LinkId, mut outbox: Outbox) {
        self.seat.bring(link, outbox.unsent());
        // A command may have to wait for the next turn.
        for _ in 0..100 {
            self.seat.rest();
            if !self.seat.kept.contains_key(&link) {
                return;
            }
        }
        panic!("{:?} are never consumed", self.seat.kept);
    }

    /// What the node has said on a link since the last look, in words; each message by its number.
    pub fn heard(&mut self, link: LinkId) -> Vec<String> {
        let bytes = self.seat.wires.take(link);
        let (mut rest, mut words) = (&bytes[..], Vec::new());
        while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
            rest = &rest[used..];
            match frame {
                Frame::Deliver(messages) => words.extend(messages.map(|m| format!("Deliver {}", m.seq))),
                Frame::Replicate(messages) => words.extend(messages.map(|m| format!("Replicate {}", m.seq))),
                // It follows the greeting of a broker to a broker, and says nothing of what happens.
                Frame::Heartbeats { .. } => {}
                frame => words.push(format!("{frame:?}")),
            }
        }
        words
    }

    /// The flags and payloads of messages that the node has said on a link since the last look.
    pub fn delivered(&mut self, link: LinkId) -> Vec<(MessageFlags, Vec<u8>)> {
        let bytes = self.seat.wires.take(link);
        let (mut rest, mut delivered) = (&bytes[..], Vec::new());
        while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
            rest = &rest[used..];
            if let Frame::Deliver(messages) = frame {
                delivered.extend(messages.map(|message| (message.flags, message.payload.to_vec())));
            }
        }
        delivered
    }

    /// Why the node wants a link closed; `None` if it does not.
    pub fn wants_closed(&self, link: LinkId) -> Option<&str> {
        let ended = self.seat.wires.ended.iter().find(|ended| ended.link == link)?;
        Some(ended.farewell.as_ref().map_or("", |(_, text)| text))
    }

    /// How often it has asked for that.
    pub fn times_closed(&self, link: LinkId) -> usize {
        self.seat.wires.ended.iter().filter(|ended| ended.link == link).count()
    }

    /// Time passes; the node wakes as often as it asks for.
    pub fn pass(&mut self, span: Span) {
        let end = self.seat.now + span;
        let mut wakes = 0;
        while self.seat.node.next_deadline() <= end {
            self.seat.now = self.seat.now.max(self.seat.node.next_deadline());
            self.seat.rest();
            wakes += 1;
            assert!(wakes <= 1_000, "it asks to be woken again and again");
        }
        self.seat.now = end;
    }
}

/// A greeting.
pub fn hello<'a>(standing: Standing, name: &'a str, node: u64, epoch: u64) -> Frame<'a> {
    let reign = Reign { epoch: Epoch(epoch), node: NodeId(node) };
    let node = NodeId(node);
    let (user, password) = ("", Secret(""));
    Frame::Hello(Hello {
        standing,
        prefers_to_reign: false,
        reign,
        node,
        incarnation: 1,
        name,
        user,
        password,
        knows: wire::Knows::NOTHING,
    })
}

/// News.
pub fn reign(standing: Standing, node: u64, epoch: u64) -> Frame<'static> {
    Frame::Reign { reign: Reign { epoch: Epoch(epoch), node: NodeId(node) }, standing }
}
