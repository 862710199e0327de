//! The broker as a value: what comes in, and to whom it is given.

mod carry;

use crate::commands::Promises;
use crate::commands::guests::CLIENT_ROWS;
use crate::commands::sites::Interest;
use crate::commands::tasks::{LINKS_PER_UNIT, Task, Tasks, UNITS_PER_SLICE};
use crate::housekeeping::House;
use crate::membership::Membership;
use crate::membership::pair::{Copies, Decision, News};
use crate::membership::reign::Beginning;
use crate::outputs::Outputs;
use crate::settings::{Limits, Replication, Settings};
use crate::steps::work::Flow;
use crate::store::links::{Link, Party};
use crate::store::sessions::Session;
use crate::watch::events::Event;
use crate::watch::silence::Silences;
use contract::{Reign, Span, StreamId, Time, invariant};
use wire::limits::ADMIN_NAMES;
use wire::{
    Farewell, FarewellReason, Frame, Hello, Knowledge, Knows, LinkChange, LinkId, PeerIndex, Secret,
    Standing, Transport,
};

/// A client that said something on its own way so recently does not need the one through the backup.
const HEARD_DIRECTLY: Span = Span::millis(500);

/// What somebody is told for whom there is no place.
const CROWDED: &str = "the broker's limit of connections is reached";

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
    /// Bytes for all messages: what contracts have reserved, and what best effort has.
    pub store_bytes: usize,
    /// Of those, what contracts have reserved.
    pub contract_bytes: usize,
    /// Messages that were not kept for want of memory: under a loss bound, and of best effort.
    pub unstored: [u64; 2],
    /// Messages that wait for the subscriber for which most do.
    pub deferred: usize,
    /// The same among subscribers that are connected.
    pub owed: usize,
}

/// One broker of a pair.
#[derive(Clone)]
pub struct Broker {
    pub(crate) settings: Settings,
    pub(crate) flow: Flow,
    pub(crate) membership: Membership,
    pub(crate) promises: Promises,
    pub(crate) tasks: Tasks,
    pub(crate) interest: Interest,
    pub(crate) silences: Silences,
    pub(crate) house: House,
}

/// Rows of a status that are made in one unit of work.
const ROWS_PER_UNIT: usize = 8;
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
        Broker {
            flow: Flow::new(&settings),
            membership: Membership::new(&settings),
            promises: Promises::new(&settings),
            tasks: Tasks::default(),
            interest: Interest::default(),
            silences: Silences::default(),
            house: House::new(now),
            settings,
        }
    }

    /// Whether this broker reigns.
    pub fn is_primary(&self) -> bool {
        self.membership.pair.is_primary()
    }

    /// Whether a crash of the primary would now be survived within every contract.
    pub fn is_protected(&self) -> bool {
        self.membership.pair.is_protected()
    }

    /// The link to the backup, if one has joined. What it is told there it remembers.
    pub fn backup_link(&self) -> Option<LinkId> {
        self.membership.pair.backup().map(|partner| partner.link)
    }

    /// The same once the backup knows every stream: what is said there of their messages before that, it cannot understand.
    pub fn backup_with_streams(&self) -> Option<LinkId> {
        self.membership.pair.backup().filter(|partner| partner.knows_streams).map(|partner| partner.link)
    }

    /// Whether a backup is being told what there is.
    pub fn is_telling(&self) -> bool {
        self.membership.pair.backup().is_some_and(|partner| !partner.told)
    }

    /// The link to a living primary that this broker stands by for, knowing everything. Clients that cannot reach the primary
    /// can be let through to it there.
    pub fn way_to_primary(&self) -> Option<LinkId> {
        self.membership.pair.primary_link().filter(|_| self.membership.pair.is_protected())
    }

    /// Whether this is a connection that somebody made and who has not said who it is.
    pub fn is_stranger(&self, link: LinkId) -> bool {
        let link = self.flow.store.links.get(link);
        link.is_some_and(|link| matches!(link.party, Party::Unknown) && !link.dialed && !link.closing)
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The highest reign that it knows of; its own while it is primary.
    pub fn reign(&self) -> Reign {
        self.membership.pair.reign
    }

    /// How its reign began; of use while it reigns.
    pub fn beginning(&self) -> Beginning {
        self.membership.beginning
    }

    /// Whether it may take longer than `network.failover` until the death of the partner is noticed. At the next look that is told, and
    /// contracts are at risk.
    pub fn notices_late(&self, now: Time) -> bool {
        self.membership.notices_late(now, &self.settings)
    }

    /// What it remembers of other protocols may be old. It must have just started.
    pub fn doubt(&mut self) {
        self.membership.pair.doubt();
    }

    /// Messages that have arrived, and those that have been dispatched, since the process started.
    pub fn traffic(&self) -> (u64, u64) {
        (self.flow.stats.arrived, self.flow.stats.dispatched)
    }

    /// When the process started.
    pub fn started(&self) -> Time {
        self.settings.started
    }

    /// Whether it stands by for the broker on this link.
    pub fn follows(&self, link: LinkId) -> bool {
        self.membership.pair.primary_link() == Some(link)
    }

    /// How full its tables are.
    pub fn occupancy(&self) -> Occupancy {
        let sessions = || self.flow.store.sessions.iter().map(|(_, session)| session);
        let deferred = |session: &Session| session.deferred.len();
        let open = || self.flow.store.links.iter().filter(|(_, link)| !link.closing);
        Occupancy {
            links: open().count(),
            clients: open().filter(|(_, link)| link.is_client()).count(),
            streams: self.flow.store.table.len(),
            sessions: self.flow.store.sessions.len(),
            jobs: self.flow.work.queue.len(),
            store_bytes: self.flow.store.memory.used(),
            contract_bytes: self.flow.store.memory.reserved,
            unstored: [self.flow.store.memory.unstored, self.flow.store.memory.squeezed],
            deferred: sessions().map(deferred).max().unwrap_or(0),
            owed: sessions().filter(|session| session.link.is_some()).map(deferred).max().unwrap_or(0),
        }
    }

    /// Bytes that messages have, reserved or in fact.
    pub fn stored_bytes(&self) -> usize {
        self.flow.store.memory.used()
    }

    /// Places for messages in all rings.
    pub fn slots(&self) -> usize {
        self.flow.store.table.streams().map(|(_, stream)| stream.ring.slots()).sum()
    }

    /// A link has changed.
    pub fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, out: &mut impl Outputs) {
        match change {
            LinkChange::Accepted(_) => {
                let full = self.flow.store.links.len() >= self.settings.limits.links;
                self.flow.store.links.insert(link, Link::new(now, false));
                if full {
                    self.expel(link, FarewellReason::Limit, CROWDED, out);
                }
            }
            LinkChange::Dialed(_) => {
                self.flow.store.links.insert(link, Link::new(now, true));
                self.membership.pair.on_dialed();
                self.greet(link, out);
            }
            LinkChange::Closed => self.forget_link(now, link, out),
            LinkChange::Drained => self.resume(now, link, out),
        }
    }

    /// A link that was just accepted has none of the places for clients, which are all taken. It may ask how this broker is, if it says
    /// by its name that it is an admin.
    pub fn handle_crowded(&mut self, link: LinkId) {
        // Those of other protocols are not here.
        if let Some(link) = self.flow.store.links.get_mut(link) {
            link.crowded = true;
        }
    }

    /// Whether a greeting is turned away since all places for clients are taken.
    pub fn crowds_out(&self, from: LinkId, hello: &Hello<'_>) -> bool {
        let asks = !hello.standing.is_broker() && hello.name.starts_with(ADMIN_NAMES);
        !asks && self.flow.store.links.get(from).is_some_and(|link| link.crowded)
    }

    /// How the bytes of somebody who has just come in are carried; without a word it is [`Transport::Plain`].
    pub fn carried_by(&mut self, link: LinkId, transport: Transport) {
        // Those of other protocols are not here.
        self.flow.store.links.get_mut(link).into_iter().for_each(|link| link.transport = transport);
    }

    /// The partner could not be connected to. `refused`: its host answered that nobody listens.
    pub fn handle_dial_failed(&mut self, now: Time, _peer: PeerIndex, refused: bool, out: &mut impl Outputs) {
        let follow = self.clients_follow();
        let decision = self.membership.pair.on_dial_failed(now, refused, follow, out.evidence());
        self.carry_out(now, decision, out);
    }

    /// A frame has come. What a peer may not send ends its link; nothing it sends can do worse.
    pub fn handle_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        // What came before a connection ended may be read after it.
        let Some(link) = self.flow.store.links.get_mut(from) else { return };
        if link.closing {
            return;
        }
        link.heard = now;
        match (&link.party, frame) {
            (Party::Client { .. }, Frame::Publish(messages)) => {
                let mut steps = self.steps();
                steps.arrive(now, from, messages, out);
                steps.tell_untaken(out);
            }
            (Party::Client { .. }, Frame::Confirm(marks)) => self.steps().confirm(from, marks, out),
            (_, Frame::Hello(hello)) => self.welcome(now, from, &hello, out),
            (_, Frame::Farewell(farewell)) => self.part(now, from, farewell.reason, out),
            (Party::Unknown, _) => {
                let text = "a connection begins with a greeting";
                self.expel(from, FarewellReason::Misbehaved, text, out);
            }
            (Party::Peer, Frame::Poll { .. })
                if self.membership.pair.is_primary() && !self.membership.pair.is_backup(from) =>
            {
                // It takes itself for our backup. We have taken it for dead meanwhile, or an older word of its own has
                // overtaken its last one; it has to join again.
                self.expel(from, FarewellReason::Silent, "it stands by here without having joined", out);
            }
            (_, Frame::Poll { number }) => {
                self.membership.pair.on_polled(now, from);
                out.send(from, &Frame::PollReply { number });
                if self.membership.pair.is_backup(from) {
                    out.put_first(from);
                    self.steps().tell_finished(out);
                }
            }
            (_, Frame::StatusRequest { first_stream, rows }) => {
                self.spend(self.flow.store.links.len() / LINKS_PER_UNIT + rows as usize / ROWS_PER_UNIT);
                self.send_status(now, from, first_stream, rows, out);
            }
            (_, Frame::ClientsRequest { after }) => {
                self.spend(self.flow.store.links.len() / LINKS_PER_UNIT + CLIENT_ROWS / ROWS_PER_UNIT);
                self.send_clients(from, after, out);
            }
            (Party::Client { .. }, Frame::DropClient { client, ends }) => {
                self.drop_client(now, (from, client), ends, out);
            }
            (Party::Client { .. }, frame) => self.client_frame(now, from, frame, out),
            (Party::Peer, frame) => self.peer_frame(now, from, frame, out),
        }
    }

    fn may_only_ask(&self, from: LinkId) -> bool {
        self.flow.store.links.get(from).is_some_and(|link| link.crowded)
    }

    /// A peer says farewell. A client that ends does not come back to its session.
    fn part(&mut self, now: Time, from: LinkId, reason: FarewellReason, out: &mut impl Outputs) {
        let Some(link) = self.flow.store.links.sender(from) else { return };
        link.closing = true;
        let session = link.session().filter(|_| reason == FarewellReason::Leaving);
        let ended: Vec<StreamId> = match reason {
            FarewellReason::Leaving => link.numbers.streams().collect(),
            _ => Vec::new(),
        };
        out.close(from, &LEAVING);
        ended.into_iter().for_each(|stream| self.silences.end(&mut self.flow.store.table, stream));
        if let Some(session) = session {
            self.end_session(now, session, out);
        }
    }

    /// Something else than data from a client.
    fn client_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        match frame {
            Frame::Register(_) | Frame::Subscribe { .. } | Frame::Carry(_) | Frame::AskInterest { .. }
                if self.may_only_ask(from) =>
            {
                self.expel(from, FarewellReason::Limit, CROWDED, out);
            }
            Frame::Register(register) => self.register(now, from, &register, out),
            Frame::Carry(carry) => self.carry(now, from, &carry, out),
            Frame::AskInterest { topics } => self.ask_interest(now, from, topics, out),
            // Who asks for it harms nobody but itself.
            Frame::Pace { rate } => out.pace(from, rate),
            Frame::Unregister { stream } => self.unregister(now, from, stream, out),
            Frame::Subscribe { number, needs, filter } => {
                self.subscribe(now, from, number, needs, filter, out);
            }
            Frame::Unsubscribe { number } => self.unsubscribe(now, from, number, out),
            Frame::Received(received) => {
                self.flow.stats.classes.count(received.class, |class| class.hear(&received));
            }
            Frame::Trouble(trouble) => {
                self.flow.stats.hear_trouble(now, from, &trouble, &mut self.flow.store, out);
            }
            Frame::Handover => self.handover(now, Some(from), out),
            Frame::ClockRequest { sent, known } => self.flow.stats.tell_time(
                now,
                from,
                (sent, known),
                (&mut self.flow.store, &self.settings),
                out,
            ),
            // Nobody asks clients; one may say so all the same.
            Frame::PollReply { .. } => {}
            Frame::Reign { reign, standing } => {
                if let Some(link) = self.flow.store.links.sender(from) {
                    link.standing = standing;
                    link.reign = reign;
                }
                let decision = self.membership.pair.on_client_reign(reign, standing == Standing::Following);
                self.carry_out(now, decision, out);
            }
            _ => self.expel(from, FarewellReason::Misbehaved, "a client may not send this frame", out),
        }
    }

    /// A frame from the other broker.
    fn peer_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        match frame {
            Frame::Replicate(messages) => self.steps().keep_copies(now, from, messages, out),
            Frame::Prune(marks) => self.steps().prune(from, marks),
            Frame::Forward(messages) if self.membership.pair.primary_link() == Some(from) => {
                self.steps().keep_copies(now, from, messages, out);
            }
            Frame::Forward(messages) => self.steps().arrive(now, from, messages, out),
            Frame::PollReply { number } => {
                self.membership.pair.on_poll_reply(from);
                let later = self.flow.work.forwarded_after_poll.is_some_and(|poll| number > poll);
                // Whoever remembers may have to dispatch it all the same.
                if later && self.follows(from) && !self.membership.pair.remembers() {
                    self.flow.work.forwarded_after_poll = None;
                    self.flow.store.table.settle_forwarded();
                }
            }
            Frame::Announce(announce) => self.learn_stream(now, from, &announce, out),
            Frame::Retire { stream } => self.forget_peer_stream(from, stream, out),
            Frame::Session { incarnation, present, needs, client, filter } => {
                self.learn_session(now, from, client, incarnation, (filter, needs), present, out);
            }
            Frame::Records(records) if self.follows(from) => out.learn(now, records),
            // They were on their way when we parted.
            Frame::Records(_) => {}
            Frame::Memory { instance, picture } => {
                if self.membership.pair.primary_link() == Some(from)
                    && let Some(link) = self.flow.store.links.sender(from)
                {
                    out.recall(now, instance, picture, &|number| link.stream(number));
                }
            }
            Frame::Heartbeats { nonce } => {
                if let Some(link) = self.flow.store.links.sender(from) {
                    link.nonce = Some(nonce);
                }
                if self.membership.pair.primary_link() == Some(from) || self.membership.pair.is_backup(from) {
                    self.membership.listen_for(from, &self.flow.store.links, &self.settings, out);
                }
            }
            Frame::Join => self.take_backup(now, from, false, out),
            Frame::JoinKnowing => self.take_backup(now, from, true, out),
            Frame::Knows(knows) => {
                if let Some(link) = self.flow.store.links.sender(from) {
                    link.knowledge = knows.read();
                }
            }
            Frame::Synced => self.know_everything(from, out),
            Frame::Standby => self.become_protected(now, from, out),
            Frame::TakeOver { epoch } => {
                let decision = self.membership.pair.on_take_over(from, epoch);
                self.carry_out(now, decision, out);
            }
            Frame::RelayOpen { channel, .. } if !self.membership.pair.is_backup(from) => {
                out.send(from, &Frame::RelayEnd { channel });
            }
            Frame::RelayOpen { .. }
            | Frame::Relay { .. }
            | Frame::RelayRoom { .. }
            | Frame::RelayEnd { .. } => out.relay(now, from, &frame, self.settings.limits.relayed),
            Frame::Reign { reign, standing } => {
                let known = self.membership.pair.news_of(from);
                if let Some(news) = known {
                    let copies = self.compare_copies(from, out);
                    self.hear_news(now, News { reign, standing, copies, ..news }, out);
                }
            }
            _ => self.expel(from, FarewellReason::Misbehaved, "a broker may not send this frame", out),
        }
    }

    /// When [`Broker::handle_timeout`] has something to do, or [`Broker::run`] a copy to make.
    pub fn next_deadline(&self) -> Time {
        if self.has_tasks() || self.membership.telling.goes_on || self.flow.work.last.waits() {
            return Time::ZERO;
        }
        self.house
            .next_deadline()
            .min(self.membership.pair.next_deadline())
            .min(self.flow.work.next_copy(&self.membership.pair))
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl Outputs) {
        self.work_on(now, UNITS_PER_SLICE, out);
        self.keep_house(now, out);
        if let Some(primary) =
            self.membership.pair.primary_link().and_then(|link| self.flow.store.links.get(link))
        {
            self.membership.pair.on_heard(primary.heard);
        }
        // Each decision changes what the next look at the clock finds; a handful settles it.
        for _ in 0..4 {
            let follow = !self.membership.pair.is_primary() && self.clients_follow();
            match self.membership.pair.tick(now, follow, out.evidence()) {
                Decision::Stay => break,
                decision => self.carry_out(now, decision, out),
            }
        }
    }

    /// Whether any client follows a living primary elsewhere.
    pub(crate) fn clients_follow(&self) -> bool {
        let me = self.settings.node;
        let follows = |link: &Link| link.standing == Standing::Following && link.reign.node != me;
        self.flow.store.links.iter().any(|(_, link)| link.is_client() && follows(link))
    }

    /// The first frame of a link.
    fn welcome(&mut self, now: Time, from: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("who sends a frame has a link");
        };
        if !matches!(link.party, Party::Unknown) {
            self.expel(from, FarewellReason::Misbehaved, "a connection has one greeting only", out);
        } else if self.crowds_out(from, hello) {
            self.expel(from, FarewellReason::Limit, CROWDED, out);
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
        if !self.membership.pair.can_take_peer_link() {
            return self.expel(from, FarewellReason::Limit, "too many connections between the brokers", out);
        }
        if let Some(link) = self.flow.store.links.sender(from) {
            link.party = Party::Peer;
            link.name = hello.name.into();
            link.knowledge = hello.knows.read();
        }
        out.put_first(from);
        self.greet(from, out);
        let news = News {
            link: from,
            standing: hello.standing,
            reign: hello.reign,
            node: hello.node,
            prefers_to_reign: hello.prefers_to_reign,
            copies: self.compare_copies(from, out),
        };
        self.hear_news(now, news, out);
    }

    /// What we remember, and what the broker on this link does.
    fn compare_copies(&self, link: LinkId, out: &impl Outputs) -> Copies {
        let (nothing, theirs) =
            (Knowledge::default(), self.flow.store.links.get(link).map(|link| &link.knowledge));
        Copies::compare(out.knowledge().unwrap_or(&nothing), theirs.unwrap_or(&nothing))
    }

    fn hear_news(&mut self, now: Time, news: News, out: &mut impl Outputs) {
        let decision = self.membership.pair.on_news(now, news);
        self.carry_out(now, decision, out);
    }

    fn welcome_client(&mut self, now: Time, from: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        if let Some(older) = self.flow.store.links.find(hello.name) {
            let known = self.flow.store.links.get(older).map_or(0, |link| link.incarnation);
            if known > hello.incarnation {
                let text = "a client of this name has started later: give every client a name of its own";
                return self.expel(from, FarewellReason::Replaced, text, out);
            }
            // Its greeting through the backup was overtaken by the one with which it came directly, and that connection lives.
            let directly =
                older.channel().is_none() && from.channel().is_some() && known == hello.incarnation;
            let heard = self.flow.store.links.get(older).map_or(Time::ZERO, |link| link.heard);
            if directly && now < heard + HEARD_DIRECTLY {
                let text = "the primary is reached without this way";
                return out.close(from, &Farewell { reason: FarewellReason::NoWay, text });
            }
            // One that came through the backup and now comes directly ends its old link by itself, when what was under way has come.
            let moves = older.channel().is_some() && from.channel().is_none() && known == hello.incarnation;
            if !moves {
                self.expel(older, FarewellReason::Replaced, "the client has connected again", out);
            }
        }
        self.flow.store.links.name(from, hello.name);
        if let Some(link) = self.flow.store.links.sender(from) {
            link.party = Party::Client { session: None };
            // What comes through the backup comes on its connection.
            if link.counted.is_none() && from.channel().is_none() {
                let io = *link.transport.of(&self.settings.costs.io);
                link.counted = Some(io);
                self.promises.admission.crowd_mut().add(io, 1);
            }
            link.incarnation = hello.incarnation;
            link.standing = hello.standing;
            link.reign = hello.reign;
        }
        self.greet(from, out);
        self.attach(now, from, out);
        let decision =
            self.membership.pair.on_client_reign(hello.reign, hello.standing == Standing::Following);
        self.carry_out(now, decision, out);
    }

    /// Sends our greeting, once per link.
    fn greet(&mut self, link: LinkId, out: &mut impl Outputs) {
        let Some(state) = self.flow.store.links.get_mut(link) else {
            return invariant!("who sends a frame has a link");
        };
        if std::mem::replace(&mut state.greeted, true) {
            return;
        }
        let to_partner = state.dialed || matches!(state.party, Party::Peer);
        let knows = if to_partner { self.membership.written_knowledge(out) } else { Vec::new() };
        let hello = Hello {
            standing: self.membership.pair.standing(),
            prefers_to_reign: self.settings.prefers_to_reign,
            reign: if to_partner { self.membership.pair.reign } else { self.membership.pair.followed() },
            node: self.settings.node,
            incarnation: self.settings.started.0,
            name: &self.settings.name,
            user: "",
            password: Secret(if to_partner { &self.membership.secret } else { "" }),
            knows: Knows::of(&knows),
        };
        out.send(link, &Frame::Hello(hello));
        if to_partner {
            out.send(link, &Frame::Heartbeats { nonce: self.settings.nonce });
        }
    }

    /// Closes a link for a reason that the admin hears as well.
    pub(crate) fn expel(&mut self, link: LinkId, reason: FarewellReason, text: &str, out: &mut impl Outputs) {
        // A backup may be dropped since its connection has ended.
        let Some(state) = self.flow.store.links.get_mut(link) else { return };
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
        let stranger =
            self.flow.store.links.get(link).is_some_and(|link| matches!(link.party, Party::Unknown));
        let error = match error {
            wire::WireError::Version(_) => error,
            _ if stranger => &wire::WireError::NotVerge,
            _ => error,
        };
        self.expel(link, reason, &error.to_string(), out);
    }

    fn forget_link(&mut self, now: Time, link: LinkId, out: &mut impl Outputs) {
        // A connection of another protocol ends here too, where that has given it up before.
        let Some(gone) = self.flow.store.links.remove(link) else { return };
        gone.counted.into_iter().for_each(|io| self.promises.admission.crowd_mut().remove(io, 1));
        if self.membership.handover_asker == Some(link) {
            self.membership.handover_asker = None;
        }
        match gone.party {
            Party::Peer => {
                let decision = self.membership.pair.on_closed(now, link);
                self.carry_out(now, decision, out);
            }
            Party::Client { session } => {
                self.interest.forget(link);
                let streams: Vec<StreamId> = gone.numbers.streams().collect();
                if !streams.is_empty() {
                    self.begin(now, Task::Orphan { link, streams, since: now }, out);
                }
                // It may have ended, or goes on elsewhere already.
                if let Some(session) = session.and_then(|index| self.flow.store.sessions.get_mut(index))
                    && session.link == Some(link)
                {
                    session.detach(now);
                }
            }
            Party::Unknown if gone.dialed => {
                let decision = self.membership.pair.on_dialed_closed(now);
                self.carry_out(now, decision, out);
            }
            Party::Unknown => {}
        }
    }

    /// The publisher of a stream has lost its connection. Another one may have the same number by now, and be the publisher's.
    pub(crate) fn orphan(&mut self, link: LinkId, stream: StreamId, since: Time) {
        let came_back = self.flow.store.links.get(link).is_some_and(|link| link.numbers.knows(stream));
        let orphaned = self.flow.store.table.stream_mut(stream).filter(|s| s.record.source == Some(link));
        if let Some(stream) = orphaned.filter(|_| !came_back) {
            (stream.record.source, stream.record.silent_since) = (None, since);
        }
    }

    /// A congested link has room again.
    fn resume(&mut self, now: Time, link: LinkId, out: &mut impl Outputs) {
        // The same holds for room.
        let Some(state) = self.flow.store.links.get(link) else { return };
        match state.party {
            Party::Client { session: Some(session) } => self.send_deferred(now, session, out),
            Party::Peer => self.continue_sync(UNITS_PER_SLICE, out),
            // Nothing waits for those who do not subscribe.
            Party::Client { session: None } | Party::Unknown => {}
        }
    }
}

/// What is said when the other side has said farewell.
const LEAVING: Farewell<'static> = Farewell { reason: FarewellReason::Leaving, text: "farewell" };
