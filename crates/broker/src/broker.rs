//! The broker as a value: what comes in, and to whom it is given.

use crate::events::Event;
use crate::finished::Finished;
use crate::lazy::LazyCopies;
use crate::links::{Link, Links, Party};
use crate::pair::{Decision, News, Pair};
use crate::posting::{Route, Routed};
use crate::process::{Processed, Processing};
use crate::queue::Queue;
use crate::reign::Leaving;
use crate::sessions::{Deferred, Session, Sessions};
use crate::settings::{Policy, Replication, Settings};
use crate::status::{Stats, Survey};
use crate::table::{Stream, Table};
use contract::{Admission, Reign, Time};
use std::ops::Range;
use wire::{
    Effects, Farewell, FarewellReason, Frame, Hello, LinkChange, LinkId, PeerIndex, Secret, Standing,
};

/// What a broker asks of the world: frames sent, links opened and closed, and its operator told.
pub trait Outputs: Effects {
    /// Tells the operator.
    fn report(&mut self, event: &Event<'_>);

    /// A topic has come, or the graphs of operators have changed. `Some`: its messages are to be processed.
    fn bind(&mut self, topic: &str) -> Option<Processing> {
        let _ = topic;
        None
    }

    /// A topic has gone, or has been bound anew.
    fn unbind(&mut self, handle: u32) {
        let _ = handle;
    }

    /// A message for the operators that its topic feeds. `false`: they cannot take it.
    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool {
        let _ = (handle, message);
        false
    }

    /// Whether there still is an output of this number.
    fn has_output(&mut self, output: u32) -> bool {
        let _ = output;
        false
    }

    /// A result has been dispatched, or never will be.
    fn release(&mut self, lineage: u32) {
        let _ = lineage;
    }

    /// A topic has come. `Some`: its messages are given to whoever serves other protocols, under this number.
    fn route(&mut self, topic: &str) -> Option<Route> {
        let _ = topic;
        None
    }

    /// The topic has gone.
    fn unroute(&mut self, route: u32) {
        let _ = route;
    }

    /// A message for the subscribers of other protocols.
    fn deliver(&mut self, now: Time, route: u32, message: &Routed<'_>) {
        let _ = (now, route, message);
    }

    /// A message is covered whose publisher waits for word of it.
    fn covered(&mut self, stream: u32, seq: u64) {
        let _ = (stream, seq);
    }

    /// The primary tells what is to be remembered of other protocols.
    fn learn(&mut self, now: Time, records: &[u8]) {
        let _ = (now, records);
    }

    /// Tells the backup on this link at once of what has changed and was not told yet, before it takes the reign.
    fn tell_rest(&mut self, link: LinkId) {
        let _ = link;
    }

    /// Another broker will tell; what this one remembers is forgotten.
    fn forget(&mut self, now: Time) {
        let _ = now;
    }

    /// Tells a backup some of what is remembered, from this place on. Returns the place to go on with.
    fn tell(&mut self, link: LinkId, from: u64) -> Option<u64> {
        let _ = (link, from);
        None
    }

    /// Somebody wants to see what operators do: these of their rows, and levels with the first. It must not wait for them.
    fn survey(&mut self, wanted: Range<u32>) -> Survey {
        let _ = wanted;
        Survey::default()
    }
}

/// How full a broker's tables are; each is bounded by one of its [`crate::Limits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// Connections that are not being closed.
    pub links: usize,
    /// Those of clients that have greeted.
    pub clients: usize,
    /// Streams.
    pub streams: usize,
    /// Subscribing clients.
    pub sessions: usize,
    /// Jobs that wait.
    pub jobs: usize,
    /// Bytes of all messages.
    pub store_bytes: usize,
    /// Messages that wait for the subscriber for which most do.
    pub deferred: usize,
    /// The same among subscribers that are connected.
    pub owed: usize,
}

/// One broker of a pair.
#[derive(Clone)]
pub struct Broker {
    pub(crate) settings: Settings,
    pub(crate) admission: Admission,
    pub(crate) table: Table,
    pub(crate) links: Links,
    pub(crate) sessions: Sessions,
    pub(crate) queue: Queue,
    pub(crate) lazy: LazyCopies,
    pub(crate) finished: Finished,
    pub(crate) pair: Pair,
    pub(crate) stats: Stats,
    /// Bytes of all payloads in all rings.
    pub(crate) stored_bytes: usize,
    pub(crate) housekeeping_at: Time,
    /// The stream with which it goes on.
    pub(crate) next_look: usize,
    pub(crate) leaving: Leaving,
    /// Who asked for the handover that is under way.
    pub(crate) handover_asker: Option<LinkId>,
    /// The poll that was last sent before the latest message was forwarded. The answer to a later one says that the
    /// primary has everything that was.
    pub(crate) forwarded_after_poll: Option<u64>,
    /// Grows whenever messages are taken back from operators.
    pub(crate) round: u32,
    /// What was dropped for a subscriber while a message was dispatched; empty otherwise.
    pub(crate) dropped: Vec<(u32, Deferred)>,
    /// What the partner knows this broker by; empty where it need not.
    pub(crate) secret: Box<str>,
    /// Every message takes the way of those that are not plain.
    #[cfg(test)]
    pub(crate) nothing_is_plain: bool,
}

/// The partner's address, as the driver knows it.
pub(crate) const PARTNER: PeerIndex = PeerIndex(0);

impl Broker {
    /// A broker that has just started.
    pub fn new(settings: Settings) -> Broker {
        let now = settings.started;
        // The baselines copy at once.
        let replication =
            if settings.policy.is_by_deadline() { settings.replication } else { Replication::Eager };
        let settings = Settings { replication, ..settings };
        let admission =
            Admission::new(settings.delays, settings.links.clone(), settings.costs, settings.supply)
                .with_lazy(replication.lazy());
        let pair =
            Pair::new(settings.node, settings.prefers_to_reign, settings.has_peer, settings.detection, now);
        Broker {
            admission,
            table: Table::default(),
            links: Links::default(),
            sessions: Sessions::default(),
            queue: Queue::new(settings.limits.jobs),
            lazy: LazyCopies::new(replication),
            finished: Finished::new(),
            pair,
            stats: Stats::new(&settings),
            stored_bytes: 0,
            housekeeping_at: now,
            next_look: 0,
            leaving: Leaving::No,
            handover_asker: None,
            forwarded_after_poll: None,
            round: 0,
            dropped: Vec::new(),
            secret: Box::from(""),
            #[cfg(test)]
            nothing_is_plain: false,
            settings,
        }
    }

    /// Whether this broker reigns.
    pub fn is_primary(&self) -> bool {
        self.pair.is_primary()
    }

    /// Whether a crash of the primary would now be survived within every contract.
    pub fn is_protected(&self) -> bool {
        self.pair.is_protected()
    }

    /// The link to the backup, if one has joined. What it is told there it remembers.
    pub fn backup_link(&self) -> Option<LinkId> {
        self.pair.backup().map(|partner| partner.link)
    }

    /// The highest reign that it knows of; its own while it is primary.
    pub fn reign(&self) -> Reign {
        self.pair.reign
    }

    /// Whether it stands by for the broker on this link.
    pub fn follows(&self, link: LinkId) -> bool {
        self.pair.primary_link() == Some(link)
    }

    /// How full its tables are.
    pub fn occupancy(&self) -> Occupancy {
        let sessions = || self.sessions.iter().map(|(_, session)| session);
        let deferred = |session: &Session| session.deferred.len();
        let open = || self.links.iter().filter(|(_, link)| !link.closing);
        Occupancy {
            links: open().count(),
            clients: open().filter(|(_, link)| link.is_client()).count(),
            streams: self.table.len(),
            sessions: self.sessions.len(),
            jobs: self.queue.len(),
            store_bytes: self.stored_bytes,
            deferred: sessions().map(deferred).max().unwrap_or(0),
            owed: sessions().filter(|session| session.link.is_some()).map(deferred).max().unwrap_or(0),
        }
    }

    /// Places for messages in all rings.
    pub fn slots(&self) -> usize {
        self.table.streams().map(|(_, stream)| stream.ring.slots()).sum()
    }

    /// A link has changed.
    pub fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, out: &mut impl Outputs) {
        match change {
            LinkChange::Accepted(_) => {
                let full = self.links.len() >= self.settings.limits.links;
                self.links.insert(link, Link::new(now, false));
                if full {
                    self.expel(
                        link,
                        FarewellReason::Limit,
                        "the broker's limit of connections is reached",
                        out,
                    );
                }
            }
            LinkChange::Dialed(_) => {
                self.links.insert(link, Link::new(now, true));
                self.pair.on_dialed();
                self.greet(link, out);
            }
            LinkChange::Closed => self.forget_link(now, link, out),
            LinkChange::Drained => self.resume(now, link, out),
        }
    }

    /// The partner could not be connected to. `refused`: its host answered that nobody listens.
    pub fn handle_dial_failed(&mut self, now: Time, _peer: PeerIndex, refused: bool, out: &mut impl Outputs) {
        let follow = self.clients_follow();
        let decision = self.pair.on_dial_failed(now, refused, follow);
        self.carry_out(now, decision, out);
    }

    /// A frame has come. What a peer may not send ends its link; nothing it sends can do worse.
    pub fn handle_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        let Some(link) = self.links.get_mut(from) else { return };
        if link.closing {
            return;
        }
        link.heard = now;
        match (&link.party, frame) {
            (Party::Client { .. }, Frame::Publish(messages)) => self.arrive(now, from, messages, out),
            (Party::Client { .. }, Frame::Confirm(marks)) => self.confirm(from, marks, out),
            (_, Frame::Hello(hello)) => self.welcome(now, from, &hello, out),
            (_, Frame::Farewell(farewell)) => self.part(from, farewell.reason, out),
            (Party::Unknown, _) => {
                let text = "a connection begins with a greeting";
                self.expel(from, FarewellReason::Misbehaved, text, out);
            }
            (Party::Peer, Frame::Poll { .. }) if self.pair.is_primary() && !self.pair.is_backup(from) => {
                // It takes itself for our backup. We have taken it for dead meanwhile, or an older word of its own has
                // overtaken its last one; it has to join again.
                self.expel(from, FarewellReason::Silent, "it stands by here without having joined", out);
            }
            (_, Frame::Poll { number }) => {
                self.pair.on_polled(now, from);
                out.send(from, &Frame::PollReply { number });
                if self.pair.is_backup(from) {
                    out.put_first(from);
                    self.tell_finished(out);
                }
            }
            (_, Frame::StatusRequest { first_stream, rows }) => {
                self.send_status(now, from, first_stream, rows, out);
            }
            (Party::Client { .. }, frame) => self.client_frame(now, from, frame, out),
            (Party::Peer, frame) => self.peer_frame(now, from, frame, out),
        }
    }

    /// A peer says farewell. A client that ends does not come back to its session.
    fn part(&mut self, from: LinkId, reason: FarewellReason, out: &mut impl Outputs) {
        let Some(link) = self.links.get_mut(from) else { return };
        link.closing = true;
        let session = link.session().filter(|_| reason == FarewellReason::Leaving);
        out.close(from, &LEAVING);
        if let Some(session) = session {
            self.end_session(session, out);
        }
    }

    /// Something else than data from a client.
    fn client_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        match frame {
            Frame::Register(register) => self.register(now, from, &register, out),
            Frame::Unregister { stream } => self.unregister(now, from, stream, out),
            Frame::Subscribe { number, filter } => self.subscribe(now, from, number, filter, out),
            Frame::Unsubscribe { number } => self.unsubscribe(from, number, out),
            Frame::Handover => self.handover(now, Some(from), out),
            Frame::PollReply { .. } => {}
            Frame::Reign { reign, standing } => {
                if let Some(link) = self.links.get_mut(from) {
                    link.standing = standing;
                    link.reign = reign;
                }
                let decision = self.pair.on_client_reign(reign, standing == Standing::Following);
                self.carry_out(now, decision, out);
            }
            _ => self.expel(from, FarewellReason::Misbehaved, "a client may not send this frame", out),
        }
    }

    /// A frame from the other broker.
    fn peer_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        match frame {
            Frame::Replicate(messages) => self.keep_copies(from, messages),
            Frame::Prune(marks) => self.prune(from, marks),
            Frame::Forward(messages) if self.pair.primary_link() == Some(from) => {
                self.keep_copies(from, messages);
            }
            Frame::Forward(messages) => self.arrive(now, from, messages, out),
            Frame::PollReply { number } => {
                self.pair.on_poll_reply(from);
                let later = self.forwarded_after_poll.is_some_and(|poll| number > poll);
                // Whoever remembers may have to dispatch it all the same.
                if later && self.pair.primary_link() == Some(from) && !self.pair.remembers() {
                    self.forwarded_after_poll = None;
                    self.table.settle_forwarded();
                }
            }
            Frame::Announce(announce) => self.learn_stream(now, from, &announce, out),
            Frame::Retire { stream } => self.forget_peer_stream(from, stream, out),
            Frame::Session { incarnation, present, client, filter } => {
                self.learn_session(now, from, client, incarnation, filter, present, out);
            }
            Frame::Records(records) if self.pair.primary_link() == Some(from) => out.learn(now, records),
            Frame::Records(_) => {}
            Frame::Join => self.take_backup(now, from, out),
            Frame::Synced => self.know_everything(from, out),
            Frame::Standby => self.become_protected(from, out),
            Frame::TakeOver { epoch } => {
                let decision = self.pair.on_take_over(from, epoch);
                self.carry_out(now, decision, out);
            }
            Frame::Reign { reign, standing } => {
                let known = self.pair.news_of(from);
                if let Some(news) = known {
                    self.hear_news(now, News { reign, standing, ..news }, out);
                }
            }
            _ => self.expel(from, FarewellReason::Misbehaved, "a broker may not send this frame", out),
        }
    }

    /// When [`Broker::handle_timeout`] has something to do, or [`Broker::run`] a copy to make.
    pub fn next_deadline(&self) -> Time {
        self.housekeeping_at.min(self.pair.next_deadline()).min(self.next_copy())
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl Outputs) {
        self.keep_house(now, out);
        // Each decision changes what the next look at the clock finds; a handful settles it.
        for _ in 0..4 {
            let follow = !self.pair.is_primary() && self.clients_follow();
            match self.pair.tick(now, follow) {
                Decision::Stay => break,
                decision => self.carry_out(now, decision, out),
            }
        }
    }

    /// Whether any client follows a living primary elsewhere.
    pub(crate) fn clients_follow(&self) -> bool {
        let me = self.settings.node;
        let follows = |link: &Link| link.standing == Standing::Following && link.reign.node != me;
        self.links.iter().any(|(_, link)| link.is_client() && follows(link))
    }

    /// The first frame of a link.
    fn welcome(&mut self, now: Time, from: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        let Some(link) = self.links.get(from) else { return };
        if !matches!(link.party, Party::Unknown) {
            self.expel(from, FarewellReason::Misbehaved, "a connection has one greeting only", out);
        } else if hello.standing.is_broker() {
            self.welcome_broker(now, from, hello, out);
        } else {
            self.welcome_client(now, from, hello, out);
        }
    }

    fn welcome_broker(&mut self, now: Time, from: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        if hello.node == self.settings.node {
            let text = "a broker has reached itself: give the address of the other broker as its pair's";
            return self.expel(from, FarewellReason::Misbehaved, text, out);
        }
        if !self.pair.can_take_peer_link() {
            return self.expel(from, FarewellReason::Limit, "too many connections between the brokers", out);
        }
        if let Some(link) = self.links.get_mut(from) {
            link.party = Party::Peer;
            link.name = hello.name.into();
        }
        out.put_first(from);
        self.greet(from, out);
        let news = News {
            link: from,
            standing: hello.standing,
            reign: hello.reign,
            node: hello.node,
            prefers_to_reign: hello.prefers_to_reign,
        };
        self.hear_news(now, news, out);
    }

    fn hear_news(&mut self, now: Time, news: News, out: &mut impl Outputs) {
        let decision = self.pair.on_news(now, news);
        self.carry_out(now, decision, out);
    }

    fn welcome_client(&mut self, now: Time, from: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        if let Some(older) = self.links.find(hello.name) {
            let known = self.links.get(older).map_or(0, |link| link.incarnation);
            if known > hello.incarnation {
                let text = "a client of this name has started later: give every client a name of its own";
                return self.expel(from, FarewellReason::Replaced, text, out);
            }
            self.expel(older, FarewellReason::Replaced, "the client has connected again", out);
        }
        self.links.name(from, hello.name);
        if let Some(link) = self.links.get_mut(from) {
            link.party = Party::Client { session: None };
            link.incarnation = hello.incarnation;
            link.standing = hello.standing;
            link.reign = hello.reign;
        }
        self.greet(from, out);
        self.attach(now, from, out);
        let decision = self.pair.on_client_reign(hello.reign, hello.standing == Standing::Following);
        self.carry_out(now, decision, out);
    }

    /// Sends our greeting, once per link.
    fn greet(&mut self, link: LinkId, out: &mut impl Outputs) {
        let Some(state) = self.links.get_mut(link) else { return };
        if std::mem::replace(&mut state.greeted, true) {
            return;
        }
        let to_partner = state.dialed || matches!(state.party, Party::Peer);
        let hello = Hello {
            standing: self.pair.standing(),
            prefers_to_reign: self.settings.prefers_to_reign,
            reign: self.pair.reign,
            node: self.settings.node,
            incarnation: self.settings.started.0,
            name: &self.settings.name,
            user: "",
            password: Secret(if to_partner { &self.secret } else { "" }),
        };
        out.send(link, &Frame::Hello(hello));
    }

    /// Closes a link for a reason that the operator hears as well.
    pub(crate) fn expel(&mut self, link: LinkId, reason: FarewellReason, text: &str, out: &mut impl Outputs) {
        let Some(state) = self.links.get_mut(link) else { return };
        if std::mem::replace(&mut state.closing, true) {
            return;
        }
        out.report(&Event::Expelled { client: &state.name, reason: text });
        out.close(link, &Farewell { reason, text });
    }

    /// A peer sent what is no frame.
    pub fn handle_garbage(&mut self, link: LinkId, error: &wire::WireError, out: &mut impl Outputs) {
        let reason = match error {
            wire::WireError::Version(_) => FarewellReason::Version,
            _ => FarewellReason::Misbehaved,
        };
        // A stranger's first bytes are taken for whatever frame they happen to look like.
        let stranger = self.links.get(link).is_some_and(|link| matches!(link.party, Party::Unknown));
        let error = match error {
            wire::WireError::Version(_) => error,
            _ if stranger => &wire::WireError::NotVerge,
            _ => error,
        };
        self.expel(link, reason, &error.to_string(), out);
    }

    fn forget_link(&mut self, now: Time, link: LinkId, out: &mut impl Outputs) {
        let Some(gone) = self.links.remove(link) else { return };
        if self.handover_asker == Some(link) {
            self.handover_asker = None;
        }
        match gone.party {
            Party::Peer => {
                let decision = self.pair.on_closed(now, link);
                self.carry_out(now, decision, out);
            }
            Party::Client { session } => {
                for stream in gone.numbers.streams() {
                    if let Some(stream) =
                        self.table.stream_mut(stream).filter(|s| s.record.source == Some(link))
                    {
                        (stream.record.source, stream.record.silent_since) = (None, now);
                    }
                }
                if let Some(session) = session.and_then(|index| self.sessions.get_mut(index))
                    && session.link == Some(link)
                {
                    (session.link, session.detached_at) = (None, now);
                    session.numbers.clear();
                }
            }
            Party::Unknown if gone.dialed => {
                let decision = self.pair.on_dialed_closed(now);
                self.carry_out(now, decision, out);
            }
            Party::Unknown => {}
        }
    }

    /// A congested link has room again.
    fn resume(&mut self, now: Time, link: LinkId, out: &mut impl Outputs) {
        let Some(state) = self.links.get(link) else { return };
        match state.party {
            Party::Client { session: Some(session) } => self.send_deferred(now, session, out),
            Party::Peer => self.continue_sync(out),
            _ => {}
        }
    }

    /// Whether the baseline policies govern, which copy everything and refuse nothing.
    pub(crate) fn is_baseline(&self) -> bool {
        self.settings.policy != Policy::Frame
    }

    /// Whether topics are copied that need no copies.
    pub(crate) fn copies_everything(&self) -> bool {
        self.is_baseline() || matches!(self.settings.replication, Replication::Periodic { .. })
    }

    /// Names a stream on a link, unless that has been done.
    pub(crate) fn announce(&mut self, link: LinkId, index: u32, out: &mut impl Outputs) {
        let Some((stream, topic)) = self.table.pair(index) else { return };
        let Some(state) = self.links.get_mut(link) else { return };
        crate::register::announce(state, link, index, stream, topic, Stream::next_seq, out);
    }
}

/// What is said when the other side has said farewell.
const LEAVING: Farewell<'static> = Farewell { reason: FarewellReason::Leaving, text: "farewell" };
