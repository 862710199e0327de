//! A small world on virtual time: two brokers, any number of clients, connections that keep order. Bytes that a node
//! has handed over survive its death, as they do in a kernel.
#![allow(dead_code, reason = "each test file uses its own part of the world")]
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

pub mod alone;
pub mod mqtt;
pub mod run;

use broker::Settings;
use contract::{Contract, NodeId, Span, Time};
use endpoint::{Delivery, Endpoint, PublicationState, PublishError, Reigning, Unfit};
use engine::testing::{Disk, Log};
use engine::{Application, BrokerNode, ClientNode, Node};
use simulation::Agenda;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{
    Effects, Farewell, Frame, LinkChange, LinkId, Mark, MarkKind, Message, MessageKind, Order, Outbox,
    PeerIndex, Protocol, Shortfall,
};

pub const START: Time = Time(1_000_000_000_000);

/// What a client's application saw.
#[derive(Default)]
pub struct Seen {
    /// Topic, number, latency, payload.
    pub messages: Vec<(String, u64, Span, Vec<u8>)>,
    pub verdicts: BTreeMap<u32, PublicationState>,
    pub subscribed: Vec<Result<String, String>>,
    pub reigning: Vec<Reigning>,
    pub dismissed: Vec<String>,
    pub answers: Vec<String>,
    pub shortfalls: Vec<Shortfall>,
    pub unfit: Vec<(PeerIndex, Unfit)>,
}

impl Application for Seen {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.messages.push((
            delivery.topic.to_owned(),
            delivery.seq,
            delivery.latency,
            delivery.payload.to_vec(),
        ));
    }
    fn judged(&mut self, publication: u32, state: &PublicationState) {
        self.verdicts.insert(publication, state.clone());
    }
    fn subscribed(&mut self, _subscription: u32, result: Result<&str, &str>) {
        self.subscribed.push(result.map(str::to_owned).map_err(str::to_owned));
    }
    fn reigning(&mut self, reigning: Reigning) {
        self.reigning.push(reigning);
    }
    fn dismissed(&mut self, _broker: PeerIndex, farewell: &Farewell<'_>) {
        self.dismissed.push(farewell.text.to_owned());
    }
    fn unfit(&mut self, broker: PeerIndex, why: &Unfit) {
        self.unfit.push((broker, *why));
    }
    fn fell_short(&mut self, _broker: PeerIndex, shortfall: &Shortfall) {
        self.shortfalls.push(*shortfall);
    }
    fn answered(&mut self, _broker: PeerIndex, frame: &Frame<'_>) {
        self.answers.push(format!("{frame:?}"));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    Broker(usize),
    Client(usize),
    /// A client that speaks MQTT.
    Mqtt(usize),
}

/// One end of a connection.
struct End {
    conn: usize,
    outbox: Outbox,
    /// The peer does not read.
    stalled: bool,
    closing: bool,
    /// Bytes that have left.
    taken: u64,
    /// When a narrow way has room for more.
    free_at: Time,
}

/// A node's side of the network.
#[derive(Default)]
struct Port {
    ends: BTreeMap<LinkId, End>,
    next_link: u32,
    dials: Vec<(PeerIndex, Span)>,
    partial: BTreeMap<LinkId, Vec<u8>>,
    /// Links whose bytes are to be presented once more.
    again: Vec<LinkId>,
}

impl Effects for Port {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        if let Some(end) = self.ends.get_mut(&link) {
            end.outbox.push(frame);
        }
    }
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        if let Some(end) = self.ends.get_mut(&link) {
            end.outbox.push_message(kind, message);
        }
    }
    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        if let Some(end) = self.ends.get_mut(&link) {
            end.outbox.push_mark(kind, mark);
        }
    }
    fn backlog(&self, link: LinkId) -> usize {
        self.ends.get(&link).map_or(0, |end| end.outbox.len())
    }
    fn shed(&mut self, link: LinkId, keep: usize) -> u64 {
        self.ends.get_mut(&link).map_or(0, |end| end.outbox.shed(keep))
    }
    fn taken(&self, link: LinkId) -> u64 {
        self.ends.get(&link).map_or(0, |end| end.taken)
    }
    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}
    fn dial(&mut self, peer: PeerIndex, within: Span) {
        self.dials.push((peer, within));
    }
    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        if let Some(end) = self.ends.get_mut(&link) {
            end.outbox.push(&Frame::Farewell(*farewell));
            end.closing = true;
        }
    }
    fn append(&mut self, link: LinkId, _order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(end) = self.ends.get_mut(&link) {
            end.outbox.append(write);
        }
    }
    fn present_again(&mut self, link: LinkId) {
        self.again.push(link);
    }
    fn hang_up(&mut self, link: LinkId) {
        if let Some(end) = self.ends.get_mut(&link) {
            end.closing = true;
        }
    }
}

struct Conn {
    ends: [Option<(Who, LinkId)>; 2],
    /// Between the brokers, and cut: what is sent is gone.
    cut: bool,
}

enum Happening {
    Bytes {
        conn: usize,
        end: usize,
        bytes: Vec<u8>,
    },
    Closed {
        conn: usize,
        end: usize,
    },
    Dialed {
        from: Who,
        peer: PeerIndex,
        to: usize,
    },
    DialFailed {
        from: Who,
        peer: PeerIndex,
        refused: bool,
    },
    /// A narrow way has room again.
    Room {
        who: Who,
    },
}

pub struct World {
    pub now: Time,
    pub brokers: [Option<BrokerNode<Log>>; 2],
    pub clients: Vec<ClientNode<Seen>>,
    pub mqtt: Vec<mqtt::MqttClient>,
    /// What the brokers' gateways are told, if they have any.
    pub gateway: Option<fn(&mut ::mqtt::Settings)>,
    /// Where they keep what must outlive them, if they do.
    pub stores: [Option<Disk>; 2],
    pub delay: Span,
    ports: BTreeMap<Who, Port>,
    conns: Vec<Conn>,
    agenda: Agenda<Happening>,
    paused: BTreeSet<Who>,
    held: BTreeMap<Who, VecDeque<Happening>>,
    cut: bool,
    lives: u64,
    /// How long it takes until what was written has left.
    pub writing: Span,
    /// How far nodes' clocks are ahead.
    pub skew: BTreeMap<Who, Span>,
    /// How much longer the way of what a node sends on a connection is than that of everything else. Connections are
    /// numbered as they are opened; the brokers' first two are 0 and 1.
    pub lag: BTreeMap<(usize, Who), Span>,
    /// Clients to which only so many bytes per second pass on each connection.
    pub narrow: BTreeMap<usize, u64>,
    /// Clients that cannot connect to a broker.
    walls: BTreeSet<(usize, usize)>,
    pub tune: fn(&mut Settings),
}

impl World {
    pub fn new(tune: fn(&mut Settings)) -> World {
        World::with_gateway(tune, None)
    }

    /// Brokers that serve clients of MQTT as well.
    pub fn with_gateway(tune: fn(&mut Settings), gateway: Option<fn(&mut ::mqtt::Settings)>) -> World {
        let mut world = World {
            now: START,
            brokers: [None, None],
            clients: Vec::new(),
            mqtt: Vec::new(),
            gateway,
            stores: [None, None],
            delay: Span::micros(100),
            ports: BTreeMap::new(),
            conns: Vec::new(),
            agenda: Agenda::new(),
            paused: BTreeSet::new(),
            held: BTreeMap::new(),
            cut: false,
            lives: 0,
            writing: Span::ZERO,
            skew: BTreeMap::new(),
            lag: BTreeMap::new(),
            narrow: BTreeMap::new(),
            walls: BTreeSet::new(),
            tune,
        };
        world.start(0);
        world.start(1);
        world
    }

    /// A pair that is protected.
    pub fn protected(tune: fn(&mut Settings)) -> World {
        let mut world = World::new(tune);
        world.run_for(Span::secs(1));
        assert!(world.broker(0).is_primary() && world.broker(0).is_protected(), "{:?}", world.log(0));
        world
    }

    pub fn start(&mut self, index: usize) {
        self.lives += 1;
        let node = NodeId(self.lives * 10 + index as u64);
        let mut settings = settings(index, node, self.now);
        (self.tune)(&mut settings);
        let disk = self.stores[index].clone();
        let mut kept: Vec<_> = disk.iter().flat_map(|disk| &disk.records).collect();
        kept.sort_by_key(|(key, _)| ::mqtt::rank(key));
        let mut records = Vec::new();
        kept.iter().for_each(|(key, value)| ::mqtt::append_record(&mut records, key, value));
        let mut broker = BrokerNode::new(settings, Log::with_disk(disk));
        if let Some(tune) = self.gateway {
            let mut gateway = mqtt::gateway(index, node, tune);
            gateway.restore(&records);
            broker = broker.with_gateway(gateway);
        }
        self.brokers[index] = Some(broker);
        self.ports.insert(Who::Broker(index), Port::default());
        self.paused.remove(&Who::Broker(index));
    }

    pub fn add_client(&mut self, name: &str) -> usize {
        self.add_client_as(name, self.now.0)
    }

    pub fn add_client_as(&mut self, name: &str, incarnation: u64) -> usize {
        let index = self.clients.len();
        let settings = endpoint::Settings::new(name, incarnation, 2);
        self.clients.push(ClientNode::new(settings, self.now, Seen::default()));
        self.ports.insert(Who::Client(index), Port::default());
        index
    }

    pub fn broker(&self, index: usize) -> &broker::Broker {
        self.brokers[index].as_ref().unwrap().broker()
    }

    pub fn log(&mut self, index: usize) -> &[String] {
        &self.brokers[index].as_mut().unwrap().reporter().words
    }

    pub fn seen(&mut self, client: usize) -> &mut Seen {
        self.clients[client].application()
    }

    pub fn endpoint(&self, client: usize) -> &Endpoint {
        self.clients[client].endpoint()
    }

    pub fn advertise(&mut self, client: usize, topic: &str, contract: Contract) -> u32 {
        self.advertise_as(client, topic, Some(contract))
    }

    pub fn advertise_as(&mut self, client: usize, topic: &str, contract: Option<Contract>) -> u32 {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        let number = self.clients[client].with(port, |e, out| e.advertise(topic, contract, out)).unwrap();
        self.settle(Who::Client(client));
        number
    }

    pub fn withdraw(&mut self, client: usize, publication: u32) {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        self.clients[client].with(port, |e, out| e.withdraw(publication, out));
        self.settle(Who::Client(client));
    }

    pub fn subscribe(&mut self, client: usize, filter: &str) -> u32 {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        let number =
            self.clients[client].with(port, |e, out| e.subscribe(&filter.parse().unwrap(), out)).unwrap();
        self.settle(Who::Client(client));
        number
    }

    /// The same with needs beyond the contracts.
    pub fn subscribe_needing(&mut self, client: usize, filter: &str, needs: contract::Needs) -> u32 {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        let filter = filter.parse().unwrap();
        let number = self.clients[client].with(port, |e, out| e.subscribe_with(&filter, needs, out));
        self.settle(Who::Client(client));
        number.unwrap()
    }

    pub fn unsubscribe(&mut self, client: usize, subscription: u32) {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        self.clients[client].with(port, |e, out| e.unsubscribe(subscription, out));
        self.settle(Who::Client(client));
    }

    pub fn publish(&mut self, client: usize, publication: u32, payload: &[u8]) -> Result<u64, PublishError> {
        self.publish_created(client, publication, payload, self.now)
    }

    /// Publishes with a clock of the publisher's own.
    pub fn publish_created(
        &mut self,
        client: usize,
        publication: u32,
        payload: &[u8],
        created: Time,
    ) -> Result<u64, PublishError> {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        let result = self.clients[client].with(port, |e, out| e.publish(created, publication, payload, out));
        self.settle(Who::Client(client));
        result
    }

    pub fn request(&mut self, client: usize, broker: u8, frame: &Frame<'_>) {
        let port = self.ports.get_mut(&Who::Client(client)).unwrap();
        assert!(self.clients[client].with(port, |e, out| e.request(PeerIndex(broker), frame, out)));
        self.settle(Who::Client(client));
    }

    /// Sends raw bytes to a broker on a new connection; returns what it answers within a second.
    pub fn intrude(&mut self, broker: usize, bytes: &[u8]) -> Vec<u8> {
        let who = Who::Broker(broker);
        let conn = self.conns.len();
        self.conns.push(Conn { ends: [None, None], cut: false });
        let link = self.open(who, conn, 0, LinkChange::Accepted(Protocol::Verge));
        let mut node = self.brokers[broker].take().unwrap();
        let port = self.ports.get_mut(&who).unwrap();
        node.handle_bytes(self.now, link, bytes, port);
        let answer = port.ends.get_mut(&link).map(|end| end.outbox.unsent().to_vec()).unwrap_or_default();
        self.brokers[broker] = Some(node);
        self.settle(who);
        answer
    }

    /// The process dies. What it has sent arrives; its connections break.
    /// Bytes that wait on all connections of a broker.
    pub fn waiting(&self, broker: usize) -> usize {
        let port = self.ports.get(&Who::Broker(broker));
        port.map_or(0, |port| port.ends.values().map(|end| end.outbox.len()).sum())
    }

    pub fn kill(&mut self, broker: usize) {
        let who = Who::Broker(broker);
        if let Some(disk) = self.brokers[broker].take().and_then(|mut node| node.reporter().disk.take()) {
            self.stores[broker] = Some(disk);
        }
        let port = self.ports.remove(&who).unwrap();
        for end in port.ends.into_values() {
            self.hang_up(end.conn, who);
        }
        self.held.remove(&who);
    }

    /// Somebody sets the clock of a broker's host.
    pub fn set_clock(&mut self, broker: usize, by: Span) {
        let who = Who::Broker(broker);
        *self.skew.entry(who).or_insert(Span::ZERO) += by;
        self.with_node(who, |node, now, _| {
            if let Either::Broker(node) = node {
                node.handle_clock_step(now, by);
            }
        });
    }

    /// The process stops for a while, and its connections stay up.
    pub fn pause(&mut self, who: Who) {
        self.paused.insert(who);
    }

    pub fn resume(&mut self, who: Who) {
        self.paused.remove(&who);
        for happening in self.held.remove(&who).into_iter().flatten() {
            self.agenda.push(self.now, happening);
        }
    }

    /// Nothing passes between the brokers any more, without either being told.
    pub fn cut_pair(&mut self) {
        self.cut = true;
        for conn in &mut self.conns {
            conn.cut = conn.ends.iter().all(|end| matches!(end, Some((Who::Broker(_), _))));
        }
    }

    /// Nothing passes between a client and a broker any more, without either being told.
    pub fn cut_client(&mut self, client: usize, broker: usize) {
        self.wall(client, broker, true);
        let ends = [Who::Client(client), Who::Broker(broker)];
        for conn in &mut self.conns {
            conn.cut |= conn.ends.iter().all(|end| end.is_some_and(|(who, _)| ends.contains(&who)));
        }
    }

    /// Something passes again, on new connections.
    pub fn mend_client(&mut self, client: usize, broker: usize) {
        self.wall(client, broker, false);
    }

    /// Something passes again, on new connections; the old ones break.
    pub fn mend_pair(&mut self) {
        self.cut = false;
        for index in 0..self.conns.len() {
            if std::mem::take(&mut self.conns[index].cut) {
                self.push(self.delay, Happening::Closed { conn: index, end: 0 });
                self.push(self.delay, Happening::Closed { conn: index, end: 1 });
            }
        }
    }

    /// A client stops reading, or goes on.
    pub fn stall(&mut self, client: usize, stalled: bool) {
        for broker in 0..2 {
            let who = Who::Broker(broker);
            let Some(port) = self.ports.get_mut(&who) else { continue };
            for (link, end) in &mut port.ends {
                let other =
                    self.conns[end.conn].ends.iter().flatten().find(|(peer, _)| *peer == Who::Client(client));
                if other.is_some() {
                    let drained = end.stalled && !stalled;
                    end.stalled = stalled;
                    if drained {
                        let link = *link;
                        self.flush(who);
                        let mut node = self.brokers[broker].take().unwrap();
                        node.handle_link(
                            self.now,
                            link,
                            LinkChange::Drained,
                            self.ports.get_mut(&who).unwrap(),
                        );
                        self.brokers[broker] = Some(node);
                        self.settle(who);
                        break;
                    }
                }
            }
        }
    }

    fn link_of(&self, from: Who, to: Who) -> Option<LinkId> {
        let leads_there = |end: &&End| self.conns[end.conn].ends.iter().flatten().any(|(who, _)| *who == to);
        let mut ends = self.ports.get(&from)?.ends.iter();
        ends.find(|(_, end)| leads_there(end)).map(|(link, _)| *link)
    }

    /// Sends a frame that a well-behaved client would not send.
    pub fn send_raw(&mut self, client: usize, broker: usize, frame: &Frame<'_>) {
        let who = Who::Client(client);
        let link = self.link_of(who, Who::Broker(broker)).unwrap();
        self.ports.get_mut(&who).unwrap().send(link, frame);
        self.settle(who);
    }

    /// Publishes a number of the caller's choice.
    pub fn publish_raw(&mut self, client: usize, broker: usize, stream: u32, seq: u64) {
        let who = Who::Client(client);
        let link = self.link_of(who, Who::Broker(broker)).unwrap();
        let message =
            Message { stream, flags: wire::MessageFlags::NONE, seq, created: self.now, payload: b"x" };
        self.ports.get_mut(&who).unwrap().send_message(link, MessageKind::Publish, &message);
        self.settle(who);
    }

    /// Publishes several messages before any of them is sent.
    pub fn publish_batch(&mut self, client: usize, messages: &[(u32, Vec<u8>)]) {
        let (port, now) = (self.ports.get_mut(&Who::Client(client)).unwrap(), self.now);
        for (publication, payload) in messages {
            self.clients[client].with(port, |e, out| e.publish(now, *publication, payload, out)).unwrap();
        }
        self.settle(Who::Client(client));
    }

    /// The connection of a client to a broker breaks, for both.
    pub fn break_link(&mut self, client: usize, broker: usize) {
        let who = Who::Client(client);
        let Some(link) = self.link_of(who, Who::Broker(broker)) else { return };
        let conn = self.ports[&who].ends[&link].conn;
        self.push(Span(0), Happening::Closed { conn, end: 0 });
        self.push(Span(0), Happening::Closed { conn, end: 1 });
        self.run_for(Span(1));
    }

    /// A backup loses its connection to the primary, which learns of it after everything that the backup had sent.
    pub fn lose_primary(&mut self, backup: usize) {
        let who = Who::Broker(backup);
        let mut ends = self.ports[&who].ends.iter();
        let (_, end) = ends.find(|(link, _)| self.broker(backup).follows(**link)).unwrap();
        let conn = end.conn;
        let other = self.other_end(conn, who);
        self.push(Span(0), Happening::Closed { conn, end: 1 - other });
        self.push(self.way(conn, who), Happening::Closed { conn, end: other });
        self.run_for(Span(1));
    }

    /// A client cannot connect to a broker, or can again.
    pub fn wall(&mut self, client: usize, broker: usize, up: bool) {
        if up {
            self.walls.insert((client, broker));
        } else {
            self.walls.remove(&(client, broker));
        }
    }

    /// What a broker writes to a client stays in its buffer, or leaves again.
    pub fn stall_at(&mut self, client: usize, broker: usize, stalled: bool) {
        let link = self.link_of(Who::Broker(broker), Who::Client(client)).unwrap();
        self.ports.get_mut(&Who::Broker(broker)).unwrap().ends.get_mut(&link).unwrap().stalled = stalled;
        if !stalled {
            self.flush(Who::Broker(broker));
        }
    }

    pub fn leave(&mut self, broker: usize) {
        let port = self.ports.get_mut(&Who::Broker(broker)).unwrap();
        self.brokers[broker].as_mut().unwrap().leave(self.now, port);
        self.settle(Who::Broker(broker));
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// The next thing happens, if it does so by this time.
    pub fn step(&mut self, end: Time) -> bool {
        let Some(at) = self.next_at().filter(|at| *at <= end) else { return false };
        self.now = self.now.max(at);
        if self.agenda.next_at().is_some_and(|at| at <= self.now)
            && let Some((_, happening)) = self.agenda.pop()
        {
            self.happen(happening);
        } else {
            self.tick();
        }
        true
    }

    fn next_at(&self) -> Option<Time> {
        let nodes = self.names().into_iter().filter(|who| !self.paused.contains(who));
        let due = nodes.map(|who| match who {
            Who::Broker(index) => (who, self.brokers[index].as_ref().unwrap().next_deadline()),
            Who::Client(index) => (who, self.clients[index].next_deadline()),
            Who::Mqtt(index) => (who, self.mqtt[index].next_deadline()),
        });
        let skew = |who: Who| self.skew.get(&who).copied().unwrap_or(Span::ZERO);
        let due = due.map(|(who, at)| if at == Time::NEVER { at } else { at - skew(who) });
        due.chain(self.agenda.next_at()).min().filter(|at| *at != Time::NEVER)
    }

    fn names(&self) -> Vec<Who> {
        self.ports.keys().copied().collect()
    }

    fn tick(&mut self) {
        for who in self.names() {
            if !self.paused.contains(&who) {
                self.with_node(who, |node, now, port| match node {
                    Either::Broker(node) => node.handle_timeout(now, port),
                    Either::Client(node) => node.handle_timeout(now, port),
                    Either::Mqtt(node) => node.handle_timeout(now, port),
                });
                self.settle(who);
            }
        }
    }

    fn with_node<T>(&mut self, who: Who, act: impl FnOnce(Either<'_>, Time, &mut Port) -> T) -> Option<T> {
        let port = self.ports.get_mut(&who)?;
        let node = match who {
            Who::Broker(index) => Either::Broker(self.brokers[index].as_mut()?),
            Who::Client(index) => Either::Client(&mut self.clients[index]),
            Who::Mqtt(index) => Either::Mqtt(&mut self.mqtt[index]),
        };
        let skew = self.skew.get(&who).copied().unwrap_or(Span::ZERO);
        Some(act(node, self.now + skew, port))
    }

    /// Lets a node run, sends what it wrote, and starts its dials.
    fn settle(&mut self, who: Who) {
        while self.with_node(who, |node, now, port| match node {
            Either::Broker(node) => node.run(now, port),
            Either::Client(node) => node.run(now, port),
            Either::Mqtt(node) => node.run(now, port),
        }) == Some(true)
            || self.present_again(who)
        {}
        self.flush(who);
        let writing = self.writing;
        self.with_node(who, |node, now, port| match node {
            Either::Broker(node) if node.awaits_leaving() => node.handle_left(now + writing, port),
            _ => {}
        });
        let dials = self.ports.get_mut(&who).map(|port| std::mem::take(&mut port.dials)).unwrap_or_default();
        for (peer, within) in dials {
            let to = match who {
                Who::Broker(index) => 1 - index,
                Who::Client(_) | Who::Mqtt(_) => usize::from(peer.0) % 2,
            };
            let walled = matches!(who, Who::Client(client) if self.walls.contains(&(client, to)));
            let cut = walled || self.cut && matches!(who, Who::Broker(_));
            if cut {
                self.push(within, Happening::DialFailed { from: who, peer, refused: false });
            } else if self.brokers[to].is_none() {
                self.push(self.delay, Happening::DialFailed { from: who, peer, refused: true });
            } else {
                self.push(self.delay, Happening::Dialed { from: who, peer, to });
            }
        }
    }

    fn flush(&mut self, who: Who) {
        let Some(port) = self.ports.get_mut(&who) else { return };
        let (mut sent, mut closed, mut room) = (Vec::new(), Vec::new(), Vec::new());
        for (link, end) in &mut port.ends {
            let to = self.conns[end.conn].ends.iter().flatten().find(|(peer, _)| *peer != who);
            let rate = to.and_then(|(to, _)| match to {
                Who::Client(client) => self.narrow.get(client).copied(),
                _ => None,
            });
            while !end.stalled && !end.outbox.is_empty() && end.free_at <= self.now {
                let unsent = end.outbox.unsent();
                let bytes = unsent[..unsent.len().min(rate.map_or(usize::MAX, |_| SEGMENT_BYTES))].to_vec();
                end.outbox.consume(bytes.len());
                end.taken += bytes.len() as u64;
                if let Some(rate) = rate {
                    end.free_at = self.now + Span::nanos((bytes.len() as u64 * 1_000_000_000 / rate) as i64);
                    room.push(end.free_at);
                }
                sent.push((end.conn, bytes));
            }
            if end.closing {
                closed.push((*link, end.conn));
            }
        }
        for at in room {
            self.push(at.since(self.now), Happening::Room { who });
        }
        for (conn, bytes) in sent {
            let end = self.other_end(conn, who);
            if !self.conns[conn].cut {
                self.push(self.way(conn, who), Happening::Bytes { conn, end, bytes });
            }
        }
        for (link, conn) in closed {
            self.hang_up(conn, who);
            self.ports.get_mut(&who).unwrap().ends.remove(&link);
            self.with_node(who, |node, now, port| match node {
                Either::Broker(node) => node.handle_link(now, link, LinkChange::Closed, port),
                Either::Client(node) => node.handle_link(now, link, LinkChange::Closed, port),
                Either::Mqtt(node) => node.handle_link(now, link, LinkChange::Closed, port),
            });
            self.settle(who);
        }
    }

    fn other_end(&self, conn: usize, who: Who) -> usize {
        usize::from(matches!(self.conns[conn].ends[0], Some((end, _)) if end == who))
    }

    /// `who` has closed its end; the other learns of it after everything that was sent.
    fn hang_up(&mut self, conn: usize, who: Who) {
        let end = self.other_end(conn, who);
        self.conns[conn].ends[1 - end] = None;
        if !self.conns[conn].cut {
            self.push(self.way(conn, who), Happening::Closed { conn, end });
        }
    }

    /// How long what a node sends on a connection takes.
    fn way(&self, conn: usize, who: Who) -> Span {
        self.delay + self.lag.get(&(conn, who)).copied().unwrap_or(Span::ZERO)
    }

    fn push(&mut self, after: Span, happening: Happening) {
        self.agenda.push(self.now + after, happening);
    }

    fn open(&mut self, who: Who, conn: usize, end: usize, change: LinkChange) -> LinkId {
        let port = self.ports.get_mut(&who).unwrap();
        let link = LinkId(port.next_link);
        port.next_link += 1;
        port.ends.insert(
            link,
            End {
                conn,
                outbox: Outbox::default(),
                stalled: false,
                closing: false,
                taken: 0,
                free_at: Time::ZERO,
            },
        );
        self.conns[conn].ends[end] = Some((who, link));
        self.with_node(who, |node, now, port| match node {
            Either::Broker(node) => node.handle_link(now, link, change, port),
            Either::Client(node) => node.handle_link(now, link, change, port),
            Either::Mqtt(node) => node.handle_link(now, link, change, port),
        });
        link
    }

    /// Bytes come to a node, after those that it has not used yet.
    fn feed(&mut self, who: Who, link: LinkId, bytes: &[u8]) {
        self.with_node(who, |node, now, port| {
            let mut buffer = port.partial.remove(&link).unwrap_or_default();
            buffer.extend_from_slice(bytes);
            let used = match node {
                Either::Broker(node) => node.handle_bytes(now, link, &buffer, port),
                Either::Client(node) => node.handle_bytes(now, link, &buffer, port),
                Either::Mqtt(node) => node.handle_bytes(now, link, &buffer, port),
            };
            port.partial.insert(link, buffer.split_off(used));
        });
    }

    /// Presents bytes again where a node has asked for it. Returns whether one has.
    fn present_again(&mut self, who: Who) -> bool {
        let again = self.ports.get_mut(&who).map(|port| std::mem::take(&mut port.again)).unwrap_or_default();
        for link in &again {
            self.feed(who, *link, &[]);
        }
        !again.is_empty()
    }

    fn target(&self, happening: &Happening) -> Option<Who> {
        match happening {
            Happening::Bytes { conn, end, .. } | Happening::Closed { conn, end } => {
                self.conns[*conn].ends[*end].map(|(who, _)| who)
            }
            Happening::Dialed { from, .. } | Happening::DialFailed { from, .. } => Some(*from),
            Happening::Room { who } => Some(*who),
        }
    }

    fn happen(&mut self, happening: Happening) {
        let Some(who) = self.target(&happening).filter(|who| self.ports.contains_key(who)) else { return };
        if self.paused.contains(&who) {
            return self.held.entry(who).or_default().push_back(happening);
        }
        match happening {
            Happening::Room { .. } => {}
            Happening::Bytes { conn, end, bytes } => {
                let Some((_, link)) = self.conns[conn].ends[end].filter(|_| !self.conns[conn].cut) else {
                    return;
                };
                self.feed(who, link, &bytes);
            }
            Happening::Closed { conn, end } => {
                let Some((_, link)) = self.conns[conn].ends[end].take() else { return };
                self.ports.get_mut(&who).unwrap().ends.remove(&link);
                self.with_node(who, |node, now, port| match node {
                    Either::Broker(node) => node.handle_link(now, link, LinkChange::Closed, port),
                    Either::Client(node) => node.handle_link(now, link, LinkChange::Closed, port),
                    Either::Mqtt(node) => node.handle_link(now, link, LinkChange::Closed, port),
                });
            }
            Happening::Dialed { peer, to, .. } => {
                if self.brokers[to].is_none() {
                    return self.push(Span(1), Happening::DialFailed { from: who, peer, refused: true });
                }
                let conn = self.conns.len();
                self.conns.push(Conn { ends: [None, None], cut: false });
                let protocol = if matches!(who, Who::Mqtt(_)) { Protocol::Mqtt } else { Protocol::Verge };
                let link = self.open(Who::Broker(to), conn, 1, LinkChange::Accepted(protocol));
                if let (Who::Mqtt(client), Some(broker)) = (who, &mut self.brokers[to]) {
                    broker.handle_transport(link, self.mqtt[client].transport);
                }
                self.open(who, conn, 0, LinkChange::Dialed(peer));
                self.settle(Who::Broker(to));
            }
            Happening::DialFailed { peer, refused, .. } => {
                self.with_node(who, |node, now, port| match node {
                    Either::Broker(node) => node.handle_dial_failed(now, peer, refused, port),
                    Either::Client(node) => node.handle_dial_failed(now, peer, refused, port),
                    Either::Mqtt(node) => node.handle_dial_failed(now, peer, refused, port),
                });
            }
        }
        self.settle(who);
    }
}

/// What a narrow way carries at once.
const SEGMENT_BYTES: usize = 1_448;

/// What a broker of these worlds is told, unless a test tunes it.
pub fn settings(index: usize, node: NodeId, started: Time) -> Settings {
    let supply = contract::Supply { share_ppm: 900_000, blocking: Span::micros(100) };
    Settings { prefers_to_reign: index == 0, supply, ..Settings::new(["a", "b"][index], node, started) }
}

enum Either<'a> {
    Broker(&'a mut BrokerNode<Log>),
    Client(&'a mut ClientNode<Seen>),
    Mqtt(&'a mut mqtt::MqttClient),
}
