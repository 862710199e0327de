//! The gateway: clients that speak MQTT on one side, calls of the broker on the other.
//!
//! Bytes of a client go in through [`Gateway::take`], one packet at a time. What only the broker can do (publish a message)
//! comes out as a [`Step`]; its result is told with [`Gateway::posted`] or [`Gateway::not_posted`]. Messages that the broker
//! dispatches go in through [`Gateway::deliver`] and leave as packets. A publisher is answered when [`Gateway::covered`] is
//! called, so that an answer means what the contract promises.
//!
//! What outlives a connection is recorded as it changes; the backup and the store are told the same.

mod asking;
mod connect;
mod deliver;
mod expel;
mod flights;
mod giving;
mod guests;
mod knowing;
mod learn;
mod loops;
mod orphans;
mod publish;
mod repeats;
mod subscribe;
mod sys;
mod timers;
mod words;

use publish::AHEAD_MAX;
pub use publish::{Buffers, Draft, Post};
pub use sys::BrokerFigures;

use crate::bodies::Bodies;
use crate::ids::{BodyId, RouteId, SessionId};
use crate::packet::{
    Acknowledge, Connect, Decoded, Head, Malformed, Packet, Reason, Version, decode, disconnect, oversized,
    pong,
};
use crate::records::Records;
use crate::retained::Retained;
use crate::session::{ALL_SENT, Session, Sessions};
use crate::settings::{Settings, Standby};
use crate::slab::Slab;
use crate::stats::Stats;
use crate::tree::{Matches, Subscriptions, parse_filter};
use contract::admission::Carriers;
use contract::{Needs, Span, StreamId, Time, invariant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use timers::Timer;
use wire::{Effects, Knowledge, LinkId, Order, Transport};
use words::append_with_words;

/// Whether one more subscriber of a filter can be served in time, and whether there is time to deal with it now. The broker judges.
pub trait Admits {
    /// A subscriber comes. `None`: ask again when there is room again, for the same link and wish.
    fn comes(&mut self, link: LinkId, wish: &Wish) -> Option<Result<(), String>>;

    /// Whether a subscription for which there is no time is served as best effort.
    fn serves_instead(&self) -> bool;

    /// So many clients are served in turn now, and so many last.
    fn shares(&mut self, carried: [&Carriers<u64>; 2]) {
        let _ = carried;
    }

    /// A subscriber goes.
    fn goes(&mut self, wish: &Wish);

    /// Whether there is room for another command now, or messages go first.
    fn has_room(&self) -> bool;

    /// Whether a message that was posted has been given to all who wanted its topic.
    fn was_dispatched(&self, stream: StreamId, seq: u64) -> bool;

    /// A command has taken so many units of work.
    fn spend(&mut self, units: usize);
}

/// What a subscription means to the broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Whose it is.
    pub client: Box<str>,
    /// Its filter as the client wrote it, with the group that shares it.
    pub text: Box<str>,
    /// What is needed of its topics, beyond their contracts.
    pub needs: Needs,
}

impl Wish {
    /// What the filter means, without the group that shares it.
    pub fn filter(&self) -> &str {
        parse_filter(&self.text).map_or(&self.text, |filter| filter.filter)
    }
}

/// Clients by how their bytes are carried.
#[derive(Clone, Debug, Default)]
struct Carried {
    in_turn: Carriers<u64>,
    /// Those that are served last.
    last: Carriers<u64>,
}

impl Carried {
    fn of(&mut self, last: bool) -> &mut Carriers<u64> {
        if last { &mut self.last } else { &mut self.in_turn }
    }
}

/// What letting a client in counts for, in units of work.
const CONNECT_UNITS: usize = 4;

/// Whether a packet is a CONNECT, SUBSCRIBE or UNSUBSCRIBE: something that takes longer than a message does.
fn is_command(bytes: &[u8]) -> bool {
    matches!(bytes.first().map_or(0, |first| first >> 4), 1 | 8 | 10)
}

/// Whether a client may do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Publish on a topic.
    Publish,
    /// Subscribe to a filter.
    Subscribe,
    /// Ask for a contract for a topic.
    Contract,
}

/// What a client asks of the process around the gateway: to know who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// Comes back with the answer, through [`Gateway::judged`].
    pub ticket: u64,
    /// The client.
    pub client: Box<str>,
    /// User name.
    pub user: Option<Box<str>>,
    /// Password.
    pub password: Option<Box<[u8]>>,
    /// The name in the client's certificate, if it has shown one.
    pub certificate: Option<Box<str>>,
}

/// Who may do what.
pub trait Rules {
    /// Whether somebody must be known before it may do anything. Otherwise nobody is asked who it is.
    fn are_there(&self) -> bool;

    /// Whether this user (nobody, where there are no rules) may do this, as this client.
    fn allow(&self, user: Option<&str>, client: &str, action: Action, topic: &str) -> bool;

    /// Why this is not allowed, with the rule that denies it and a remedy.
    fn why_not(&self, user: Option<&str>, client: &str, action: Action, topic: &str) -> String {
        let _ = (user, client, action, topic);
        "no rule allows it".to_owned()
    }

    /// Whether one more message of so many bytes is within what this user may publish in a second. If so, it is counted.
    fn spend(&mut self, now: Time, user: Option<&str>, bytes: usize) -> bool {
        let _ = (now, user, bytes);
        true
    }

    /// How many connections this user may have at once.
    fn connections(&self, user: Option<&str>) -> usize {
        let _ = user;
        usize::MAX
    }
}

/// Everybody may do everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Rules for Open {
    fn are_there(&self) -> bool {
        false
    }

    fn allow(&self, _user: Option<&str>, _client: &str, _action: Action, _topic: &str) -> bool {
        true
    }
}

/// What came of a packet.
#[derive(Clone, PartialEq, Debug)]
pub enum Step<'a> {
    /// There is no whole packet, or it has to wait.
    Wait,
    /// It has been dealt with.
    Done,
    /// It has to wait until messages before it are covered: let the broker work, and take it again.
    Crowded,
    /// It has to wait until messages before it are dispatched: let the broker work, and take it again.
    Behind,
    /// It is a command, and has to wait until there is room for it; see [`Admits::has_room`].
    Later,
    /// A message is to be published.
    Post(Post<'a>),
}

/// Something that whoever runs the broker may want to know of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A message was refused.
    Refused {
        /// The client.
        client: Box<str>,
        /// What it wanted to publish on.
        topic: String,
        /// Why, in words.
        reason: String,
    },
    /// A subscription was refused.
    RefusedFilter {
        /// The client.
        client: Box<str>,
        /// What it wanted to subscribe to.
        filter: Box<str>,
        /// Why, in words.
        reason: String,
    },
    /// A connection was refused, or closed by the gateway.
    Expelled {
        /// The client, with its user and where it comes from, as far as they are known.
        client: String,
        /// Why, in words.
        reason: String,
    },
    /// A client has been let in.
    Came {
        /// The client.
        client: Box<str>,
        /// Who it is.
        user: Option<Box<str>>,
        /// Where it comes from.
        address: String,
        /// What it speaks.
        version: Version,
        /// Whether its session was there.
        resumed: bool,
    },
    /// A client is connected no more.
    Gone {
        /// The client.
        client: Box<str>,
        /// Why, in words.
        reason: String,
    },
    /// A message was acknowledged and dropped, since it would come again and again.
    GivenUp {
        /// The client.
        client: Box<str>,
        /// Its topic.
        topic: String,
        /// Why it is refused.
        reason: String,
        /// How often it has come.
        times: u32,
    },
    /// Two bridges carry a message round and round.
    GoesRound {
        /// The one that brings it.
        client: Box<str>,
        /// The one that takes it away.
        other: Box<str>,
        /// Its topic.
        topic: String,
        /// How often it has come.
        times: u32,
        /// In which time.
        within: Span,
    },
    /// A session's queue is full.
    Full {
        /// The client.
        client: Box<str>,
        /// So many messages for it were lost, or refused.
        dropped: u64,
        /// Whether they are refused to their publishers.
        refused: bool,
    },
}

/// Troubles that are remembered until they are told; more are left out.
const TROUBLES_MAX: usize = 1_024;
/// Of those, so many are told at once.
const TROUBLES_PER_TURN: usize = 64;

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    phase: Phase,
    heard: Time,
    /// When it is looked at next, and why.
    timer: Option<(Time, Timer)>,
    version: Version,
    /// The kind of door by which it came in.
    transport: Transport,
    /// Whether it is served last.
    last: bool,
    /// At which address of this host, if that is known.
    reached: Option<IpAddr>,
    /// Where it comes from, if that is known.
    from: Option<IpAddr>,
    keep_alive: Span,
    packet_bytes_max: usize,
    /// Whether it wants reasons in words.
    problems: bool,
    /// Whether it is a bridge: it brings what it is given to another broker, and takes it back from there.
    bridge: bool,
    /// What it has brought lately, if it is a bridge.
    brought: Option<Box<loops::Recent>>,
    /// The name in its certificate.
    certificate: Option<Box<str>>,
    /// What it called itself in its CONNECT.
    name: Option<Box<str>>,
    /// So many bytes of a packet that is too large are still to come, and are thrown away.
    skips: usize,
    /// Topics by the numbers that the client has given them.
    aliases: Vec<Option<Box<str>>>,
    /// How long those are together.
    alias_bytes: usize,
    /// Bytes of it stay with the driver until something has happened.
    waits: bool,
    /// How far its SUBSCRIBE or UNSUBSCRIBE has come that is being dealt with.
    asking: Option<Box<subscribe::Asking>>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Has not said who it is.
    Fresh,
    /// Has, and waits until it is known, or until this broker reigns.
    Held {
        connect: Box<Connect>,
        ticket: Option<u64>,
    },
    Open {
        session: SessionId,
    },
    /// Nothing it sends matters any more.
    Closing,
}

/// A topic of the broker.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    topic: Box<str>,
    matches: Matches,
    /// Of the subscriptions for which `matches` is true.
    generation: u64,
}

/// All clients that speak MQTT.
#[derive(Clone, Debug)]
pub struct Gateway<R = Open> {
    settings: Settings,
    rules: R,
    clients: Vec<Option<Box<Client>>>,
    connections: usize,
    /// The same by how their bytes are carried.
    carried: Carried,
    /// The most that may wait on a connection, by the settings.
    backlog_most: usize,
    sessions: Sessions,
    subscriptions: Subscriptions,
    retained: Retained<deliver::Source>,
    routes: Slab<RouteId, Routing>,
    /// Those by topic.
    routed: BTreeMap<Box<str>, RouteId>,
    /// Sessions that are being given what is retained.
    walking: VecDeque<SessionId>,
    bodies: Bodies,
    /// Bodies of which the primary or the store has told, by name. They are kept until it says that they have gone, or this
    /// broker reigns.
    learnt: BTreeMap<u64, BodyId>,
    next_body: u64,
    /// Whose messages a stream carries.
    owners: Vec<SessionId>,
    timers: BTreeSet<(Time, Timer)>,
    steps: timers::Steps,
    /// What has been refused since it was last asked for.
    troubles: Vec<Trouble>,
    /// Messages that are refused again and again.
    repeated: repeats::Repeats,
    /// Messages, by stream and number, for which a session has no room and whose publishers are to hear so.
    unheld: BTreeSet<(StreamId, u64)>,
    /// How often the broker has dispatched everything that it had.
    dispatched: u64,
    /// What was for members of groups that are gone.
    orphans: VecDeque<orphans::Orphan>,
    records: Records,
    logins: VecDeque<Login>,
    /// Who waits to be known, by ticket.
    tickets: BTreeMap<u64, LinkId>,
    next_ticket: u64,
    next_name: u64,
    drafts: VecDeque<Draft>,
    reigns: bool,
    sys: sys::Sys,
    stats: Stats,
    /// Connections by user.
    connected: BTreeMap<Option<Box<str>>, usize>,
    scratch: Scratch,
    /// Subscriptions of sessions that have ended.
    gone: Vec<Wish>,
    /// Subscriptions that are served as best effort instead of being refused, and why; nobody has been told yet.
    instead: Vec<(Wish, String)>,
    given: learn::Given,
    before: learn::Before,
    telling: learn::Telling,
    knowledge: Knowledge,
    /// While this broker reigns.
    counting: Option<knowing::Counting>,
}

/// A client as whoever runs the broker is told of it.
fn label(name: &str, user: Option<&str>, from: Option<IpAddr>) -> String {
    let mut label = if name.is_empty() && from.is_some() { "a client".to_owned() } else { name.to_owned() };
    user.into_iter().for_each(|user| label += &format!(" as `{user}`"));
    from.into_iter().for_each(|from| label += &format!(" from {from}"));
    label
}

/// What is said to who has more waiting than there is memory for.
const NOT_READ: &str = "it does not read, and there are more subscribers now than memory for what waits on its connection: read faster, \
                        or have limits.memory raised";

/// What is said of an answer that the client would not take.
const ANSWER_TOO_LARGE: &str =
    "the answer to its packet is larger than it takes: have it take larger packets";

/// Buffers that are used again and again.
#[derive(Clone, Debug, Default)]
struct Scratch {
    matches: Matches,
}

impl<R: Rules> Gateway<R> {
    /// A gateway that has just started.
    pub fn new(settings: Settings, rules: R) -> Gateway<R> {
        let backlog_most = settings.limits.backlog_bytes;
        Gateway {
            subscriptions: Subscriptions::new(settings.limits.subscriptions)
                .within(settings.limits.filters_bytes),
            retained: Retained::new(crate::retained::Limits {
                topics_max: settings.limits.retained_messages,
                bytes_max: settings.limits.retained_bytes,
            }),
            // Names of bodies go on above those of the process before, which may still be in a store.
            next_body: (settings.node << 20).max(1),
            settings,
            rules,
            clients: Vec::new(),
            connections: 0,
            carried: Default::default(),
            backlog_most,
            sessions: Sessions::default(),
            routes: Slab::new(),
            routed: BTreeMap::new(),
            walking: VecDeque::new(),
            bodies: Bodies::default(),
            learnt: BTreeMap::new(),
            owners: Vec::new(),
            timers: BTreeSet::new(),
            steps: Default::default(),
            troubles: Vec::new(),
            repeated: Default::default(),
            unheld: BTreeSet::new(),
            dispatched: 0,
            orphans: VecDeque::new(),
            records: Records::default(),
            logins: VecDeque::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
            next_name: 1,
            drafts: VecDeque::new(),
            reigns: false,
            sys: Default::default(),
            stats: Stats::default(),
            connected: BTreeMap::new(),
            scratch: Scratch::default(),
            gone: Vec::new(),
            instead: Vec::new(),
            before: Default::default(),
            given: BTreeMap::new(),
            telling: Default::default(),
            knowledge: Knowledge::default(),
            counting: None,
        }
    }

    /// Counters and gauges.
    pub fn stats(&self) -> Stats {
        let limits = &self.settings.limits;
        Stats {
            connections: self.connections as u64,
            sessions: self.sessions.len() as u64,
            subscriptions: self.subscriptions.len() as u64,
            retained: self.retained.len() as u64,
            retained_bytes: self.retained.bytes() as u64,
            filters_bytes: self.subscriptions.bytes() as u64,
            most: [
                limits.sessions as u64,
                limits.subscriptions as u64,
                limits.filters_bytes as u64,
                limits.retained_messages as u64,
                limits.retained_bytes as u64,
            ],
            waiting: self.bodies.len() as u64,
            waiting_bytes: self.bodies.bytes() as u64,
            ..self.stats
        }
    }

    /// Whether clients have subscribed or given up a filter of which nobody has asked yet.
    #[inline]
    pub fn has_stirred(&self) -> bool {
        self.subscriptions.has_stirred()
    }

    /// A filter that clients have subscribed or given up, and whether any wants it now. `None`: there are no more.
    pub fn next_stirred(&mut self) -> Option<(Box<str>, bool)> {
        self.subscriptions.take_stirred()
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.connections
    }

    /// The same by how their bytes are carried.
    /// First those that are served in turn, then those that are served last.
    pub fn carried(&self) -> [&Carriers<u64>; 2] {
        [&self.carried.in_turn, &self.carried.last]
    }

    /// So much may wait on each connection from now on, and no more than its own limit. Who has more waiting than before and cannot
    /// keep it gives way: its connection ends, and what it has to have waits in its session.
    pub fn limit_backlogs(&mut self, now: Time, part: usize, net: &mut impl Effects) {
        let before = self.settings.limits.backlog_bytes;
        let part = part.min(self.backlog_most);
        self.settings.limits.backlog_bytes = part;
        if part < before {
            let links: Vec<LinkId> = self.sessions.iter().filter_map(|session| session.link).collect();
            for link in links {
                if net.backlog(link) > part {
                    self.refuse(now, link, Reason::QUOTA_EXCEEDED, NOT_READ, net);
                }
            }
        }
    }

    /// For each session for which something waits: its client, whether it is connected, what it has queued, and what is on its way to it;
    /// and last how many bodies there are. For whoever asks why nothing drains.
    pub fn explain(&self) -> String {
        let waits = |session: &&Session| !session.queue.is_empty() || !session.flights.is_empty();
        let one = |session: &Session| {
            let (client, queued, flights) = (&session.client, session.queue.len(), session.flights.len());
            let state = if session.link.is_some() { "connected" } else { "away" };
            let again = if session.resend_from == ALL_SENT { "" } else { ", which are sent again" };
            format!(
                "{client} ({state}): {queued} queued, {flights} of {} on their way{again}; ",
                session.window
            )
        };
        let all: String = self.sessions.iter().filter(waits).map(one).collect();
        format!("{all}{} bodies", self.bodies.len())
    }

    /// Whether it takes clients in: its broker reigns.
    pub fn reigns(&self) -> bool {
        self.reigns
    }

    /// Whether its doors are open: connections that come now are worth taking.
    pub fn is_open(&self) -> bool {
        self.reigns || self.settings.limits.standby != Standby::Closed
    }

    /// What is promised to topics of which nobody has said anything.
    pub fn fallback(&self) -> contract::Contract {
        self.settings.fallback
    }

    /// Whether this link is one of its clients'.
    pub fn owns(&self, link: LinkId) -> bool {
        self.client(link).is_some()
    }

    fn client(&self, link: LinkId) -> Option<&Client> {
        self.clients.get(link.0 as usize)?.as_deref()
    }

    fn client_mut(&mut self, link: LinkId) -> Option<&mut Client> {
        self.clients.get_mut(link.0 as usize)?.as_deref_mut()
    }

    /// The session of a link.
    fn session_of(&self, link: LinkId) -> Option<SessionId> {
        match self.client(link)?.phase {
            Phase::Open { session } => Some(session),
            _ => None,
        }
    }

    /// Somebody has connected.
    pub fn accept(&mut self, now: Time, link: LinkId, net: &mut impl Effects) {
        let index = link.0 as usize;
        if index >= self.clients.len() {
            self.clients.resize_with(index + 1, || None);
        }
        let client = Client {
            phase: Phase::Fresh,
            heard: now,
            timer: None,
            version: Version::V311,
            transport: Transport::Plain,
            last: false,
            reached: None,
            from: None,
            keep_alive: Span::FOREVER,
            packet_bytes_max: usize::MAX,
            problems: true,
            bridge: false,
            certificate: None,
            name: None,
            skips: 0,
            aliases: Vec::new(),
            alias_bytes: 0,
            brought: None,
            waits: false,
            asking: None,
        };
        match self.clients.get_mut(index) {
            Some(slot) => *slot = Some(Box::new(client)),
            None => invariant!("a client that comes has a place"),
        }
        self.connections += 1;
        self.carried.in_turn.tcp += 1;
        self.stats.accepted += 1;
        if self.connections > self.settings.limits.connections {
            self.stats.refused_full += 1;
            return self.hang_up(link, net);
        }
        self.set_timer(link, now + self.settings.limits.greeting, Timer::Greeting(link));
    }

    /// By which kind of door a client has come in; without a word it is [`Transport::Plain`]. The same is said of links that are not of a
    /// client of MQTT.
    pub fn carried_by(&mut self, link: LinkId, transport: Transport) {
        if let Some(client) = self.client_mut(link) {
            let before = std::mem::replace(&mut client.transport, transport);
            let last = client.last;
            let carried = self.carried.of(last);
            *before.of_mut(carried) -= 1;
            *transport.of_mut(carried) += 1;
        }
    }

    /// What is for a client leaves in the turn in which it was made, or after everything else: as its session is served.
    fn serve_in_turn(&mut self, link: LinkId, index: SessionId, net: &mut impl Effects) {
        let Some(last) = self.sessions.get(index).map(Session::is_best_effort) else {
            return invariant!("a client that is served has a session");
        };
        net.put_last(link, last);
        self.count_served(link, last);
    }

    /// From now on a client counts among those who are served in turn, or last.
    fn count_served(&mut self, link: LinkId, last: bool) {
        let Some(client) = self.client_mut(link) else {
            return invariant!("a client that is served is connected");
        };
        let (before, transport) = (std::mem::replace(&mut client.last, last), client.transport);
        *transport.of_mut(self.carried.of(before)) -= 1;
        *transport.of_mut(self.carried.of(last)) += 1;
    }

    /// At which address of this host a client has come in. The same is said of other links.
    pub fn reached_at(&mut self, link: LinkId, address: IpAddr) {
        if let Some(client) = self.client_mut(link) {
            client.reached = Some(address);
        }
    }

    /// Where a client comes from. The same is said of other links.
    pub fn come_from(&mut self, link: LinkId, address: IpAddr) {
        if let Some(client) = self.client_mut(link) {
            client.from = Some(address.to_canonical());
        }
    }

    /// A client as whoever runs the broker is told of it: its name, its user, and where it comes from.
    fn label(&self, link: LinkId) -> String {
        let Some(client) = self.client(link) else {
            return invariant!("a client that is told of is connected", String::new());
        };
        let (name, user) = match &client.phase {
            Phase::Open { session } => match self.sessions.get(*session) {
                Some(session) => (&*session.client, session.user.as_deref()),
                // A partner that reigns by now may end it before this broker has stepped down in the same turn.
                None => ("", None),
            },
            Phase::Held { connect, .. } => (&*connect.client, connect.user.as_deref()),
            Phase::Fresh | Phase::Closing => (client.name.as_deref().unwrap_or(""), None),
        };
        label(name, user, client.from)
    }

    /// Who is at the other end, as its certificate says. The same is said of other links.
    pub fn identify(&mut self, link: LinkId, name: &str) {
        if let Some(client) = self.client_mut(link) {
            client.certificate = Some(name.into());
        }
    }

    /// A link has gone. Its session goes on if it may, and its will is published if it has one.
    pub fn close(&mut self, now: Time, link: LinkId) {
        let Some(client) = self.clients.get_mut(link.0 as usize).and_then(Option::take) else {
            return invariant!("a link that closes is a client's");
        };
        self.connections -= 1;
        *client.transport.of_mut(self.carried.of(client.last)) -= 1;
        if let Some(timer) = client.timer {
            self.timers.remove(&timer);
        }
        if let Phase::Open { session } = client.phase {
            self.detach(now, session, link, "its connection has ended");
        }
    }

    /// Takes the first packet of `bytes`. Returns how many bytes it took. A message that is to be published borrows from `bytes` and `buffers`.
    pub fn take<'a>(
        &mut self,
        now: Time,
        link: LinkId,
        bytes: &'a [u8],
        buffers: &'a mut Buffers,
        load: &mut impl Admits,
        net: &mut impl Effects,
    ) -> (usize, Step<'a>) {
        let limit = self.settings.limits.packet_bytes;
        let Some(client) = self.client_mut(link) else {
            return invariant!("bytes come from a client", (bytes.len(), Step::Done));
        };
        client.heard = now;
        let version = match client.phase {
            Phase::Fresh => None,
            Phase::Open { .. } => Some(client.version),
            Phase::Held { .. } => {
                client.waits = true;
                if bytes.len() > limit {
                    self.refuse(
                        now,
                        link,
                        Reason::QUOTA_EXCEEDED,
                        "too much came before the answer to CONNECT",
                        net,
                    );
                    return (bytes.len(), Step::Done);
                }
                return (0, Step::Wait);
            }
            Phase::Closing => return (bytes.len(), Step::Done),
        };
        if client.skips > 0 {
            let skipped = client.skips.min(bytes.len());
            client.skips -= skipped;
            return (skipped, if bytes.is_empty() { Step::Wait } else { Step::Done });
        }
        if bytes.is_empty() {
            return (0, Step::Wait);
        }
        if version.is_some_and(|version| !version.is_5()) && self.is_crowded(link) {
            return (0, Step::Crowded);
        }
        if is_command(bytes) {
            if !load.has_room() {
                return (0, Step::Later);
            }
            if self.session_of(link).is_some_and(|session| self.is_behind(session, 0, load)) {
                return (0, Step::Behind);
            }
        }
        match decode(bytes, version, limit) {
            Ok(Decoded::Incomplete) => (0, Step::Wait),
            Ok(Decoded::Packet(packet, used)) => match self.handle(now, link, packet, buffers, load, net) {
                // The rest of it comes again.
                Step::Later => (0, Step::Later),
                Step::Behind => (0, Step::Behind),
                step => (used, step),
            },
            Err(malformed) if malformed.reason == Reason::PACKET_TOO_LARGE => {
                match version.map(|_| oversized(bytes)) {
                    Some(Head::Incomplete) => return (0, Step::Wait),
                    Some(Head::Message(oversized)) => {
                        self.refuse_oversized(now, link, &oversized, net);
                        return (0, Step::Done);
                    }
                    _ => self.expel_malformed(now, link, &malformed, net),
                }
                (bytes.len(), Step::Done)
            }
            Err(malformed) => {
                self.expel_malformed(now, link, &malformed, net);
                (bytes.len(), Step::Done)
            }
        }
    }

    fn handle<'a>(
        &mut self,
        now: Time,
        link: LinkId,
        packet: Packet<'a>,
        buffers: &'a mut Buffers,
        load: &mut impl Admits,
        net: &mut impl Effects,
    ) -> Step<'a> {
        self.stats.packets_received += 1;
        let Some(session) = self.session_of(link) else {
            match packet {
                Packet::Connect(connect) => {
                    load.spend(CONNECT_UNITS);
                    self.connect(now, link, connect, net);
                }
                _ => self.refuse(now, link, Reason::PROTOCOL_ERROR, "the first packet must be CONNECT", net),
            }
            return Step::Done;
        };
        match packet {
            Packet::Publish(_) if self.is_behind(session, AHEAD_MAX, load) => return Step::Behind,
            Packet::Publish(publish) => return self.publish(now, link, session, &publish, buffers, net),
            Packet::Acknowledge(acknowledge) => self.acknowledge(now, link, session, acknowledge, net),
            Packet::Ping => net.append(link, Order::Any, pong),
            Packet::Subscribe(subscribe) => {
                return self.subscribe(now, link, session, &subscribe, load, net);
            }
            Packet::Unsubscribe(unsubscribe) => {
                return self.unsubscribe(now, link, session, &unsubscribe, load, net);
            }
            Packet::Disconnect(word) => self.part(now, link, session, word, net),
            Packet::Connect(_) => self.refuse(now, link, Reason::PROTOCOL_ERROR, "CONNECT comes once", net),
            Packet::Auth(_) => {
                let text = "extended authentication has not been agreed on";
                self.refuse(now, link, Reason::PROTOCOL_ERROR, text, net);
            }
        }
        Step::Done
    }

    /// The four answers.
    fn acknowledge(
        &mut self,
        now: Time,
        link: LinkId,
        session: SessionId,
        acknowledge: Acknowledge,
        net: &mut impl Effects,
    ) {
        use crate::packet::Answer;
        let result = match acknowledge.answer {
            Answer::PubAck | Answer::PubComp => self.finish_flight(session, acknowledge),
            Answer::PubRec => self.receive_flight(session, acknowledge, net),
            Answer::PubRel => {
                self.release_incoming(link, session, acknowledge.id, net);
                Ok(())
            }
        };
        match result {
            Ok(()) => self.pump(now, session, net),
            Err(text) => self.refuse(now, link, Reason::PROTOCOL_ERROR, text, net),
        }
    }

    fn expel_malformed(&mut self, now: Time, link: LinkId, malformed: &Malformed, net: &mut impl Effects) {
        self.stats.malformed += 1;
        if let (Some(hint), Some(client)) = (malformed.version_hint, self.client_mut(link))
            && matches!(client.phase, Phase::Fresh)
        {
            client.version = hint;
            return self.refuse_connect(link, malformed.reason, Some(malformed.what), net);
        }
        self.refuse(now, link, malformed.reason, malformed.what, net);
    }

    /// Closes a connection for a reason, and tells the admin. A client that has been accepted hears it, if its version can.
    pub(crate) fn refuse(
        &mut self,
        now: Time,
        link: LinkId,
        reason: Reason,
        text: &str,
        net: &mut impl Effects,
    ) {
        let closing = self.client(link).is_none_or(|client| matches!(client.phase, Phase::Closing));
        // That this broker stands by is told once, and not of each client.
        if !closing && reason != Reason::USE_ANOTHER_SERVER && reason != Reason::SHUTTING_DOWN {
            let client = self.label(link);
            self.trouble(Trouble::Expelled { client, reason: text.to_owned() });
        }
        self.refuse_as_told(now, link, reason, text, net);
    }

    /// The same where the operator has been told already.
    pub(crate) fn refuse_as_told(
        &mut self,
        now: Time,
        link: LinkId,
        reason: Reason,
        text: &str,
        net: &mut impl Effects,
    ) {
        let reference = self.reference(link, reason);
        let Some(client) = self.client_mut(link) else {
            return invariant!("a client that is refused is connected");
        };
        let (words, version, most) = (client.words(text), client.version, client.packet_bytes_max);
        let open = match client.phase {
            Phase::Open { session } => Some(session),
            Phase::Closing => return,
            Phase::Fresh | Phase::Held { .. } => None,
        };
        self.stats.expelled += 1;
        if open.is_some() && version.is_5() {
            net.append(link, Order::Any, |out| {
                let _ = [reference.as_deref(), None].into_iter().any(|reference| {
                    append_with_words(out, most, words, |out, words| {
                        disconnect(out, reason, words, reference);
                    })
                });
            });
        }
        self.hang_up(link, net);
        if let Some(session) = open {
            self.detach(now, session, link, text);
        }
    }

    /// Remembers something to be told to whoever runs the broker.
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        if self.troubles.len() < TROUBLES_MAX {
            self.troubles.push(trouble);
        }
    }

    /// The next things to tell whoever runs the broker; the rest waits, so that telling holds nobody up.
    pub fn take_troubles(&mut self) -> std::vec::Drain<'_, Trouble> {
        let told = self.troubles.len().min(TROUBLES_PER_TURN);
        self.troubles.drain(..told)
    }

    fn hang_up(&mut self, link: LinkId, net: &mut impl Effects) {
        let Some(client) = self.client_mut(link) else {
            return invariant!("a connection that is ended is there");
        };
        client.phase = Phase::Closing;
        if let Some(timer) = client.timer.take() {
            self.timers.remove(&timer);
        }
        net.hang_up(link);
    }

    /// What has been recorded since the last time: for the backup, and for the store. Give the buffer back.
    pub fn take_records(&mut self) -> Vec<u8> {
        self.count_changes();
        self.records.take()
    }

    /// Whether anything has been recorded.
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// The buffer of [`Gateway::take_records`] comes back.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        self.records.give_back(bytes);
    }

    /// Whether there is anybody who is told what is recorded.
    pub fn record(&mut self, wanted: bool) {
        self.records.wanted = wanted || self.records.has_log();
    }

    /// The next client that wants to be known. Answer with [`Gateway::judged`].
    pub fn next_login(&mut self) -> Option<Login> {
        self.logins.pop_front()
    }
}
