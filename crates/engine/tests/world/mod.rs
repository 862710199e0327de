//! A small world on virtual time: two brokers, any number of clients, connections that keep order. Bytes that a node
//! has handed over survive its death, as they do in a kernel.
#![allow(dead_code, reason = "each test file uses its own part of the world")]
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

pub mod alone;
pub mod coordination;
pub mod edge;
pub mod keepers;
pub mod lonely;
pub mod mqtt;
pub mod named;
mod place;
mod port;
pub mod run;
pub mod seat;
pub mod trial;
mod turn;

pub use place::Who;

use broker::{Settings, TopicRule};
use contract::{Contract, NodeId, Span, Time};
use endpoint::{Delivery, Endpoint, PublicationState, PublishError, Reigning, Unfit};
use engine::driving;
use engine::testing::{Disk, Log};
use engine::{
    Application, BrokerNode, ClientNode, ClientOutputs, Node, Uplink, UplinkNews, UplinkReporter,
    UplinkSettings,
};
use place::{Place, Program, Stranger};
use port::Port;
use simulation::Agenda;
use simulation::network::{self, Hosts, Network, Passing};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Effects, Farewell, Frame, LinkId, Message, MessageKind, PeerIndex, Shortfall};

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

/// What an uplink has told.
#[derive(Default)]
pub struct Told(pub Vec<String>);

impl UplinkReporter for Told {
    fn report(&mut self, news: &UplinkNews<'_>) {
        self.0.push(format!("{news:?}"));
    }
}

/// What can be on the agenda.
enum Happening {
    Passing(Passing),
    Wake { host: usize, life: u32 },
    Coordination(coordination::Step),
}

pub struct World {
    pub now: Time,
    /// Two for each pair.
    pub brokers: Vec<Option<BrokerNode<Log>>>,
    pub clients: Vec<ClientNode<Seen>>,
    /// The pair of each.
    homes: Vec<usize>,
    pub uplinks: Vec<Uplink<Told>>,
    pub keepers: Vec<keepers::Kept>,
    /// What each was told at start.
    joining: Vec<UplinkSettings>,
    /// The pair of each, and those of its routers.
    ends: Vec<Vec<usize>>,
    /// Hosts whose process has ended for good.
    ended: BTreeSet<usize>,
    /// How long the way is between an uplink and a router.
    pub wide: Span,
    /// The same for routers, by their pairs, whose way is another one.
    pub ways: BTreeMap<usize, Span>,
    pub mqtt: Vec<mqtt::MqttClient>,
    /// What the brokers' gateways are told, if they have any.
    pub gateway: Option<fn(&mut ::mqtt::Settings)>,
    /// Where they keep what must outlive them, if they do.
    pub stores: Vec<Option<Disk>>,
    pub delay: Span,
    strangers: Vec<Stranger>,
    /// The brokers' hosts, and then those of clients, as they came.
    places: Vec<Place>,
    network: Network<()>,
    agenda: Agenda<Happening>,
    random: fastrand::Rng,
    lives: u64,
    /// Processes that start from now on have lower numbers than those before.
    pub nodes_fall: bool,
    /// How long it takes until what was written has left.
    pub writing: Span,
    /// How much longer the way of what a node sends on a connection is than that of everything else. Connections are
    /// numbered as they are opened; the brokers' first two are 0 and 1.
    pub lag: BTreeMap<(usize, Who), Span>,
    /// Clients to which only so many bytes per second pass on each connection.
    pub narrow: BTreeMap<usize, u64>,
    /// Where nothing passes, by the number of the partition.
    walls: BTreeMap<(Who, Who), u32>,
    /// What names the routers, if anything does.
    pub service: Option<coordination::Service>,
    pub tune: fn(&mut Settings),
}

impl World {
    pub fn new(tune: fn(&mut Settings)) -> World {
        World::with_gateway(tune, None)
    }

    /// Brokers that serve clients of MQTT as well.
    pub fn with_gateway(tune: fn(&mut Settings), gateway: Option<fn(&mut ::mqtt::Settings)>) -> World {
        World::of_pairs(1, tune, gateway)
    }

    /// So many pairs, the first broker of each before the others.
    pub fn of_pairs(
        pairs: usize,
        tune: fn(&mut Settings),
        gateway: Option<fn(&mut ::mqtt::Settings)>,
    ) -> World {
        let mut world = World {
            now: START,
            brokers: (0..2 * pairs).map(|_| None).collect(),
            clients: Vec::new(),
            homes: Vec::new(),
            uplinks: Vec::new(),
            keepers: Vec::new(),
            joining: Vec::new(),
            ends: Vec::new(),
            ended: BTreeSet::new(),
            wide: Span::millis(10),
            ways: BTreeMap::new(),
            mqtt: Vec::new(),
            gateway,
            stores: (0..2 * pairs).map(|_| None).collect(),
            delay: Span::micros(100),
            strangers: Vec::new(),
            places: (0..2 * pairs).map(|index| Place::new(Who::Broker(index), START)).collect(),
            network: Network::new(network_settings()),
            agenda: Agenda::new(),
            random: fastrand::Rng::with_seed(0),
            lives: 0,
            nodes_fall: false,
            writing: Span::ZERO,
            lag: BTreeMap::new(),
            narrow: BTreeMap::new(),
            walls: BTreeMap::new(),
            service: None,
            tune,
        };
        (0..2 * pairs).for_each(|broker| world.start(broker));
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
        let number = self.lives * 10 + index as u64;
        let node = NodeId(if self.nodes_fall { 1_000_000 - number } else { number });
        let mut settings = settings(index % 2, node, self.now);
        (self.tune)(&mut settings);
        let disk = self.stores[index].clone();
        let mut kept: Vec<_> = disk.iter().flat_map(|disk| &disk.records).collect();
        kept.sort_by_key(|(key, _)| ::mqtt::rank(key));
        let mut records = Vec::new();
        kept.iter().for_each(|(key, value)| ::mqtt::append_record(&mut records, key, value));
        let mut broker = BrokerNode::new(settings, Log::with_disk(disk));
        if let Some(tune) = self.gateway {
            let mut gateway = mqtt::gateway(index % 2, node, tune);
            gateway.restore(&records);
            broker = broker.with_gateway(gateway);
        }
        self.brokers[index] = Some(broker);
        self.begin(index);
    }

    /// A process begins; its first turn comes before anything else happens.
    fn begin(&mut self, host: usize) {
        self.places[host].machine.start();
        self.wake_by(host, self.now);
    }

    /// Somebody has a host of his own.
    fn add_place(&mut self, who: Who) {
        self.places.push(Place::new(who, self.now));
        self.begin(self.places.len() - 1);
    }

    fn host(&self, who: Who) -> usize {
        self.places.iter().position(|place| place.who == who).unwrap()
    }

    fn port(&mut self, who: Who) -> &mut Port {
        let host = self.host(who);
        &mut self.places[host].port
    }

    /// A node's process takes a turn, if it can.
    fn settle(&mut self, who: Who) {
        let host = self.host(who);
        self.rouse(host);
    }

    pub fn add_client(&mut self, name: &str) -> usize {
        self.add_client_as(name, self.now.0)
    }

    pub fn add_client_as(&mut self, name: &str, incarnation: u64) -> usize {
        self.add_client_at(0, name, incarnation)
    }

    /// A client of another pair than the first.
    pub fn add_client_at(&mut self, pair: usize, name: &str, incarnation: u64) -> usize {
        let index = self.clients.len();
        self.homes.push(pair);
        let settings = endpoint::Settings::new(name, incarnation, 2);
        self.clients.push(ClientNode::new(settings, self.now, Seen::default()));
        self.add_place(Who::Client(index));
        index
    }

    /// Joins a pair to the routers that these pairs are: an uplink beside each of its brokers.
    pub fn add_site(
        &mut self,
        site: &str,
        pair: usize,
        routers: &[usize],
        tune: impl Fn(&mut UplinkSettings),
    ) {
        (0..2).for_each(|broker| self.add_uplink(site, 2 * pair + broker, routers, &tune));
    }

    /// The uplink beside a broker, to the routers that these pairs are.
    pub fn add_uplink(
        &mut self,
        site: &str,
        beside: usize,
        routers: &[usize],
        tune: impl FnOnce(&mut UplinkSettings),
    ) {
        let mut settings = UplinkSettings::new(site, beside as u8 % 2, 2, self.now.0);
        settings.routers = routers.iter().map(|pair| (format!("r{pair}"), 2)).collect();
        tune(&mut settings);
        self.ends.push([beside / 2].into_iter().chain(routers.iter().copied()).collect());
        self.joining.push(settings.clone());
        self.uplinks.push(Uplink::new(settings, self.now, Told::default()));
        self.add_place(Who::Uplink(self.uplinks.len() - 1));
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
        self.with_client(client, |e, out| e.advertise(topic, contract, out)).unwrap()
    }

    pub fn withdraw(&mut self, client: usize, publication: u32) {
        self.with_client(client, |e, out| e.withdraw(publication, out));
    }

    pub fn subscribe(&mut self, client: usize, filter: &str) -> u32 {
        self.with_client(client, |e, out| e.subscribe(&filter.parse().unwrap(), out)).unwrap()
    }

    /// The same with needs beyond the contracts.
    pub fn subscribe_needing(&mut self, client: usize, filter: &str, needs: contract::Needs) -> u32 {
        self.with_client(client, |e, out| e.subscribe_with(&filter.parse().unwrap(), needs, out)).unwrap()
    }

    pub fn unsubscribe(&mut self, client: usize, subscription: u32) {
        self.with_client(client, |e, out| e.unsubscribe(subscription, out));
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
        self.with_client(client, |e, out| e.publish(created, publication, payload, out))
    }

    pub fn request(&mut self, client: usize, broker: u8, frame: &Frame<'_>) {
        assert!(self.with_client(client, |e, out| e.request(PeerIndex(broker), frame, out)));
    }

    /// A client's application does something, and what comes of it leaves.
    fn with_client<T>(
        &mut self,
        client: usize,
        act: impl FnOnce(&mut Endpoint, &mut ClientOutputs<'_, Port, Seen>) -> T,
    ) -> T {
        let host = self.host(Who::Client(client));
        let result = self.clients[client].with(&mut self.places[host].port, act);
        self.rouse(host);
        result
    }

    /// Sends raw bytes to a broker on a new connection; returns what it answers within a millisecond.
    pub fn intrude(&mut self, broker: usize, bytes: &[u8]) -> Vec<u8> {
        let who = Who::Stranger(self.strangers.len());
        self.strangers.push(Stranger { says: bytes.to_vec(), heard: Vec::new() });
        self.add_place(who);
        self.port(who).dial(PeerIndex(broker as u8), Span::secs(1));
        self.run_for(Span::millis(1));
        self.strangers.last().unwrap().heard.clone()
    }

    /// A broker is given other contracts and gaps of topics.
    pub fn change_topics(&mut self, broker: usize, topics: Vec<TopicRule>) -> Result<(), String> {
        let host = self.host(Who::Broker(broker));
        let changed = self.with_node(host, |program, now, port| match program {
            Program::Broker(node) => node.change_topics(now, topics, port).map(drop),
            _ => panic!("no broker"),
        });
        self.rouse(host);
        changed.unwrap()
    }

    /// Bytes that wait on all connections of a broker.
    pub fn waiting(&self, broker: usize) -> usize {
        self.places[broker].port.sockets.unsent_bytes()
    }

    /// The process dies. What it has sent arrives; its connections break.
    pub fn kill(&mut self, broker: usize) {
        if let Some(disk) = self.brokers[broker].take().and_then(|mut node| node.reporter().disk.take()) {
            self.stores[broker] = Some(disk);
        }
        self.places[broker].clear();
        network::end_all(self, broker);
    }

    /// An uplink is configured otherwise when it begins anew.
    pub fn retune(&mut self, uplink: usize, tune: impl FnOnce(&mut UplinkSettings)) {
        tune(&mut self.joining[uplink]);
    }

    /// An uplink's process begins anew. What it has told stays.
    pub fn start_uplink(&mut self, uplink: usize) {
        let host = self.host(Who::Uplink(uplink));
        let told = std::mem::take(self.uplinks[uplink].reporter());
        let mut settings = self.joining[uplink].clone();
        settings.home.incarnation = self.now.0;
        self.uplinks[uplink] = Uplink::new(settings, self.now, told);
        self.ended.remove(&host);
        self.begin(host);
    }

    /// An uplink's process dies in the same way.
    pub fn kill_uplink(&mut self, uplink: usize) {
        let host = self.host(Who::Uplink(uplink));
        self.ended.insert(host);
        self.places[host].clear();
        network::end_all(self, host);
    }

    /// Somebody sets the clock of a broker's host.
    pub fn set_clock(&mut self, broker: usize, by: Span) {
        let now = self.now;
        self.places[broker].machine.clock.step(now, by);
        self.with_node(broker, |node, now, _| node.handle_clock_step(now, by));
        self.rouse(broker);
    }

    /// Somebody sets the clocks of these hosts at once, and their nodes hear of it.
    pub fn set_clocks(&mut self, hosts: &[Who], by: Span) {
        for who in hosts {
            let (now, host) = (self.now, self.host(*who));
            self.places[host].machine.clock.step(now, by);
            self.with_node(host, |node, now, _| node.handle_clock_step(now, by));
        }
        for who in hosts {
            let host = self.host(*who);
            self.rouse(host);
        }
    }

    /// A clock is so far ahead from now on, and its node is not told.
    pub fn skew(&mut self, who: Who, by: Span) {
        let (now, host) = (self.now, self.host(who));
        self.places[host].machine.clock.step(now, by);
        self.rouse(host);
    }

    /// What a clock shows.
    pub fn clock(&self, who: Who) -> Time {
        self.local(self.host(who))
    }

    /// The process stops for a while, and its connections stay up.
    pub fn pause(&mut self, who: Who) {
        let host = self.host(who);
        self.places[host].machine.pause();
    }

    pub fn resume(&mut self, who: Who) {
        let host = self.host(who);
        self.places[host].machine.resume();
        self.rouse(host);
    }

    /// Nothing passes between two of them, or it does again.
    fn set_apart(&mut self, one: Who, other: Who, apart: bool) {
        let (from, to) = (self.host(one), self.host(other));
        if !apart {
            let number = self.walls.remove(&(one, other));
            number.into_iter().for_each(|number| network::heal(self, number));
        } else if !self.walls.contains_key(&(one, other)) {
            let number = self.network.partitions.cut(vec![(from, to), (to, from)]);
            self.walls.insert((one, other), number);
        }
    }

    /// All connections between two of them break; the first learns of it at once, the other soon.
    fn break_between(&mut self, one: Who, other: Who) {
        let (from, to) = (self.host(one), self.host(other));
        network::break_between(self, from, to, false, false);
    }

    /// Nothing passes between the brokers any more, without either being told.
    pub fn cut_pair(&mut self) {
        self.set_apart(Who::Broker(0), Who::Broker(1), true);
    }

    /// Something passes again, on new connections; the old ones break.
    pub fn mend_pair(&mut self) {
        self.break_between(Who::Broker(0), Who::Broker(1));
        self.set_apart(Who::Broker(0), Who::Broker(1), false);
    }

    /// Nothing passes between an uplink and a broker any more, without either being told; or it does again.
    pub fn cut_uplink(&mut self, uplink: usize, broker: usize, cut: bool) {
        self.set_apart(Who::Uplink(uplink), Who::Broker(broker), cut);
    }

    /// Nothing passes between a client and a broker any more, without either being told.
    pub fn cut_client(&mut self, client: usize, broker: usize) {
        self.set_apart(Who::Client(client), Who::Broker(broker), true);
    }

    /// Something passes again, on new connections.
    pub fn mend_client(&mut self, client: usize, broker: usize) {
        self.break_between(Who::Client(client), Who::Broker(broker));
        self.set_apart(Who::Client(client), Who::Broker(broker), false);
    }

    /// A client cannot connect to a broker, or can again.
    pub fn wall(&mut self, client: usize, broker: usize, up: bool) {
        self.set_apart(Who::Client(client), Who::Broker(broker), up);
    }

    /// A client stops reading, or goes on.
    pub fn stall(&mut self, client: usize, stalled: bool) {
        (0..2).for_each(|broker| self.stall_who(Who::Client(client), broker, stalled));
    }

    /// What a broker writes to a client stays in its buffer, or leaves again.
    pub fn stall_at(&mut self, client: usize, broker: usize, stalled: bool) {
        self.stall_who(Who::Client(client), broker, stalled);
    }

    fn stall_who(&mut self, who: Who, broker: usize, stalled: bool) {
        let Some(link) = self.link_of(Who::Broker(broker), who) else { return };
        self.places[broker].port.sockets.get_mut(link).unwrap().own.stalled = stalled;
        self.rouse(broker);
    }

    fn link_of(&self, from: Who, to: Who) -> Option<LinkId> {
        let (from, to) = (self.host(from), self.host(to));
        let mut sockets = self.places[from].port.sockets.iter();
        sockets.find(|(_, socket)| socket.peer == to).map(|(link, _)| link)
    }

    /// Sends a frame that a well-behaved client would not send.
    pub fn send_raw(&mut self, client: usize, broker: usize, frame: &Frame<'_>) {
        let who = Who::Client(client);
        let link = self.link_of(who, Who::Broker(broker)).unwrap();
        self.port(who).send(link, frame);
        self.settle(who);
    }

    /// Publishes a number of the caller's choice.
    pub fn publish_raw(&mut self, client: usize, broker: usize, stream: u32, seq: u64) {
        let who = Who::Client(client);
        let link = self.link_of(who, Who::Broker(broker)).unwrap();
        let message =
            Message { stream, flags: wire::MessageFlags::NONE, seq, created: self.now, payload: b"x" };
        self.port(who).send_message(link, MessageKind::Publish, &message);
        self.settle(who);
    }

    /// Publishes several messages before any of them is sent.
    pub fn publish_batch(&mut self, client: usize, messages: &[(u32, Vec<u8>)]) {
        let now = self.now;
        self.with_client(client, |e, out| {
            messages.iter().for_each(|(publication, payload)| {
                e.publish(now, *publication, payload, out).unwrap();
            });
        });
    }

    /// The connection of a client to a broker breaks, for both.
    pub fn break_link(&mut self, client: usize, broker: usize) {
        self.break_between(Who::Client(client), Who::Broker(broker));
        self.run_for(Span(1));
    }

    /// A backup loses its connection to the primary, which learns of it after everything that the backup had sent.
    pub fn lose_primary(&mut self, backup: usize) {
        let mut links = self.places[backup].port.sockets.iter().map(|(link, _)| link);
        let link = links.find(|link| self.broker(backup).follows(*link)).unwrap();
        drop(links);
        network::give_up(self, backup, link);
        self.run_for(Span(1));
    }

    pub fn leave(&mut self, broker: usize) {
        let port = &mut self.places[broker].port;
        self.brokers[broker].as_mut().unwrap().leave(self.now, port);
        self.rouse(broker);
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// The next thing happens, if it does so by this time.
    pub fn step(&mut self, end: Time) -> bool {
        if self.agenda.next_at().is_none_or(|at| at > end) {
            return false;
        }
        let Some((at, happening)) = self.agenda.pop() else { return false };
        self.now = self.now.max(at);
        match happening {
            Happening::Passing(what) => network::happens(self, what),
            Happening::Coordination(step) => self.coordinate(step),
            Happening::Wake { host, life } => {
                let machine = &mut self.places[host].machine;
                if machine.life() == life && machine.wakes(at) {
                    self.rouse(host);
                }
            }
        }
        true
    }
}

fn network_settings() -> network::Settings {
    network::Settings {
        window_bytes: usize::MAX,
        outbox_bytes_max: driving::OUTBOX_BYTES_MAX,
        // Limits of backlogs are small in tests.
        drained_bytes: 1_000,
        closing_time: driving::CLOSING_TIME,
    }
}

/// What a broker of these worlds is told, unless a test tunes it.
pub fn settings(index: usize, node: NodeId, started: Time) -> Settings {
    let supply = contract::Supply { share_ppm: 900_000, blocking: Span::micros(100) };
    Settings { prefers_to_reign: index == 0, supply, ..Settings::new(["a", "b"][index], node, started) }
}
