//! Sessions: what outlives a connection.

use crate::aliases::Aliases;
use crate::gateway::Wish;
use crate::ids::{BodyId, SessionId};
use crate::packet::{Options, Qos, Version, Will};
use crate::slab::Slab;
use crate::tree::Entry;
use crate::unanswered::Unanswered;
use contract::rounds::LAST_BACKLOG;
use contract::{Contract, Needs, StreamId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use wire::LinkId;

/// The numbers of the subscriptions that want a message. One, which is usual, needs no room of its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Numbers {
    /// Zero: there is none, or they are in `many`.
    one: u32,
    many: Box<[u32]>,
}

impl Numbers {
    pub(crate) fn as_slice(&self) -> &[u32] {
        if self.one == 0 { &self.many } else { std::slice::from_ref(&self.one) }
    }
}

impl From<&[u32]> for Numbers {
    fn from(numbers: &[u32]) -> Numbers {
        match *numbers {
            [one] => Numbers { one, many: Box::default() },
            _ => Numbers { one: 0, many: numbers.into() },
        }
    }
}

/// A message that has been sent with QoS 1 or 2 and is not answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub(crate) id: u16,
    /// Its place among all that this session was ever sent.
    pub(crate) order: u64,
    pub(crate) body: BodyId,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    /// QoS 2: the subscriber has it; its number is to be released.
    pub(crate) received: bool,
    /// The numbers of the subscriptions that want it.
    pub(crate) subscriptions: Numbers,
}

/// A message that waits to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    pub(crate) order: u64,
    pub(crate) body: BodyId,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    /// The numbers of the subscriptions that want it.
    pub(crate) subscriptions: Numbers,
}

/// A way through what is retained, for a new subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Walk {
    pub(crate) filter: Box<str>,
    pub(crate) entry: Entry,
    /// Where it goes on.
    pub(crate) place: String,
}

impl Walk {
    /// One that begins.
    pub(crate) fn new(filter: &str, entry: Entry) -> Walk {
        // What was retained keeps its flag here, whatever the subscription says of later ones.
        let options = Options { retain_as_published: true, ..entry.options };
        Walk { filter: filter.into(), entry: Entry { options, ..entry }, place: String::new() }
    }

    /// Whether it goes on when its client comes back.
    pub(crate) fn is_kept(&self) -> bool {
        self.entry.options.qos != Qos::AtMostOnce
    }
}

/// A QoS 2 message from the client, until its number is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Incoming {
    pub(crate) id: u16,
    pub(crate) covered: bool,
    /// It came on an earlier connection.
    pub(crate) earlier: bool,
}

/// Where a client publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outlet {
    pub(crate) stream: StreamId,
    pub(crate) asked: Option<Contract>,
}

/// What was told to the operator last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) cause: u64,
    pub(crate) at: Time,
    /// So many of the same were not told since.
    pub(crate) left_out: u64,
}

/// The same for each topic, as far as it is remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlets {
    by_topic: BTreeMap<Box<str>, Outlet>,
    /// How long their topics are together.
    bytes: usize,
}

impl Outlets {
    pub(crate) fn get(&self, topic: &str) -> Option<Outlet> {
        self.by_topic.get(topic).copied()
    }

    /// Remembers one among so many at most; beyond, all others are forgotten.
    pub(crate) fn insert(&mut self, topic: &str, outlet: Outlet, most: usize) {
        if let Some(known) = self.by_topic.get_mut(topic) {
            *known = outlet;
            return;
        }
        let room = contract::names_bytes_max(most).saturating_sub(topic.len());
        if self.by_topic.len() >= most || self.bytes > room {
            self.clear();
        }
        self.by_topic.insert(topic.into(), outlet);
        self.bytes += topic.len();
    }

    pub(crate) fn clear(&mut self) {
        self.by_topic.clear();
        self.bytes = 0;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: Box<str>,
    /// Its name as a publisher.
    pub(crate) publisher: Box<str>,
    pub(crate) user: Option<Box<str>>,
    pub(crate) version: Version,
    pub(crate) link: Option<LinkId>,
    /// Of its connection.
    pub(crate) aliases: Aliases,
    /// Seconds for which it outlives its connection.
    pub(crate) expiry: u32,
    /// When it ends, while it has no connection.
    pub(crate) ends_at: Option<Time>,
    pub(crate) will: Option<Will>,
    /// When its will is published, while it has no connection.
    pub(crate) will_at: Option<Time>,
    /// By packet identifier.
    pub(crate) incoming: Vec<Incoming>,
    /// How many of them are covered.
    covered: usize,
    /// Since its client came back it has published nothing with QoS 2 but what had been under way.
    sends_again: bool,
    pub(crate) pending: Unanswered,
    /// Streams on which its client has published, with the newest number, that may not have been dispatched yet.
    pub(crate) ahead: Vec<(StreamId, u64)>,
    /// How often the broker had dispatched everything when the first of them came.
    ahead_since: u64,
    /// Messages that its client takes before it has answered them.
    pub(crate) window: usize,
    pub(crate) flights: VecDeque<Flight>,
    /// Flights from this place on have not been sent since the client came back.
    pub(crate) resend_from: u64,
    pub(crate) queue: VecDeque<Queued>,
    /// Filters for which not everything that is retained has been given yet, at most one of each.
    pub(crate) walks: VecDeque<Walk>,
    /// Whether others have been told that there are some.
    pub(crate) walks_recorded: bool,
    /// Since when it has a connection, or has none.
    pub(crate) since: Time,
    /// When the admin was told last that its queue is full.
    pub(crate) full_told: Time,
    /// What was refused to it and told to the operator last, and when.
    pub(crate) refused_told: Told,
    /// How many of its subscriptions are shared.
    pub(crate) shares: usize,
    next_id: u16,
    /// So many identifiers from `next_id` on are not in use.
    free_ids: u16,
    pub(crate) next_order: u64,
    pub(crate) outlets: Outlets,
    /// Messages dropped because it did not read, or did not come.
    pub(crate) dropped: u64,
    /// Whether others have been told of it.
    pub(crate) recorded: bool,
    pub(crate) needs: FilterNeeds,
}

/// What a client needs of the topics of a filter beyond their contracts, where it needs anything, by the filter as it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterNeeds {
    by_filter: BTreeMap<Box<str>, Needs>,
    /// How many of them are to be served as best effort: asked with each message.
    best_effort: usize,
}

impl FilterNeeds {
    pub(crate) fn get(&self, filter: &str) -> Option<&Needs> {
        self.by_filter.get(filter)
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = &str> {
        self.by_filter.keys().map(|filter| &**filter)
    }

    pub(crate) fn insert(&mut self, filter: Box<str>, needs: Needs) {
        self.best_effort += usize::from(needs.best_effort);
        let replaced = self.by_filter.insert(filter, needs);
        self.forget(replaced);
    }

    pub(crate) fn remove(&mut self, filter: &str) {
        let removed = self.by_filter.remove(filter);
        self.forget(removed);
    }

    fn forget(&mut self, gone: Option<Needs>) {
        self.best_effort -= usize::from(gone.is_some_and(|needs| needs.best_effort));
    }
}

impl Session {
    pub(crate) fn new(client: &str, version: Version) -> Session {
        Session {
            client: client.into(),
            publisher: publisher_name(client),
            user: None,
            version,
            link: None,
            aliases: Aliases::default(),
            expiry: 0,
            ends_at: None,
            will: None,
            will_at: None,
            incoming: Vec::new(),
            covered: 0,
            sends_again: false,
            pending: Unanswered::default(),
            ahead: Vec::new(),
            ahead_since: 0,
            window: usize::from(u16::MAX),
            flights: VecDeque::new(),
            resend_from: ALL_SENT,
            queue: VecDeque::new(),
            walks: VecDeque::new(),
            walks_recorded: false,
            since: Time::ZERO,
            full_told: Time::ZERO,
            refused_told: Told::default(),
            shares: 0,
            next_id: 1,
            free_ids: 0,
            next_order: 1,
            outlets: Outlets::default(),
            dropped: 0,
            recorded: false,
            needs: FilterNeeds::default(),
        }
    }

    /// Whether it is served as best effort: all of it, or nothing.
    pub(crate) fn is_best_effort(&self) -> bool {
        self.needs.best_effort > 0
    }

    /// Bytes that may wait on its connection, where so many usually may.
    pub(crate) fn backlog_bytes(&self, usual: usize) -> usize {
        if self.is_best_effort() { usual.min(LAST_BACKLOG) } else { usual }
    }

    /// What a subscription of this filter means to the broker.
    pub(crate) fn wish(&self, text: &str) -> Wish {
        let needs = self.needs.get(text).copied().unwrap_or_default();
        Wish { client: self.client.clone(), text: text.into(), needs }
    }

    /// Whether it outlives its connection.
    pub(crate) fn is_persistent(&self) -> bool {
        self.expiry > 0
    }

    /// Whether what has been sent to it is kept until it is answered: for its client that comes back, or for others of a group.
    pub(crate) fn keeps_bodies(&self) -> bool {
        self.is_persistent() || self.shares > 0
    }

    /// Whether anybody else has to know of it.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_persistent() || self.will.is_some()
    }

    /// Forgets what was published before the broker had dispatched everything, which it has done so many times.
    #[inline]
    pub(crate) fn forget_ahead(&mut self, dispatched: u64) {
        if self.ahead_since != dispatched {
            self.ahead_since = dispatched;
            self.ahead.clear();
        }
    }

    /// A packet identifier that is not in use.
    pub(crate) fn take_id(&mut self) -> u16 {
        // The window is smaller than the identifiers there are, so one is free. Looking at all flights is done once for as
        // many identifiers as are free in a row.
        while self.free_ids == 0 {
            let from = self.next_id;
            let distance = |flight: &Flight| {
                if flight.id >= from { flight.id - from } else { u16::MAX - from + flight.id }
            };
            self.free_ids = self.flights.iter().map(distance).min().unwrap_or(u16::MAX);
            if self.free_ids == 0 {
                self.next_id = next(self.next_id);
            }
        }
        let id = self.next_id;
        self.next_id = next(id);
        self.free_ids -= 1;
        id
    }

    /// The next so many identifiers may have been given by a primary that goes on for a while without knowing that its time
    /// is over: a client that has not released one of them would take a new message for an old one.
    pub(crate) fn skip_ids(&mut self, count: u16) {
        let at = (u32::from(self.next_id) + u32::from(count) - 1) % u32::from(u16::MAX) + 1;
        (self.next_id, self.free_ids) = (at as u16, 0);
    }

    /// An identifier has come into use that was given elsewhere.
    pub(crate) fn note_id(&mut self, id: u16) {
        (self.next_id, self.free_ids) = (next(id), 0);
    }

    /// A QoS 2 message of the client whose number it has not released.
    pub(crate) fn incoming(&self, id: u16) -> Option<Incoming> {
        let at = self.incoming.binary_search_by_key(&id, |incoming| incoming.id).ok()?;
        self.incoming.get(at).copied()
    }

    /// Its client has come back, and sends again what was under way.
    pub(crate) fn begin_again(&mut self) {
        self.sends_again = true;
        self.incoming.iter_mut().for_each(|incoming| incoming.earlier = true);
    }

    /// Whether a message is another one than that which has its number. A client that has begun anew does not release what it knows nothing
    /// of, and comes to that number again; what was under way it says to be sent again, and sends first.
    pub(crate) fn is_another(&self, known: Incoming, sent_again: bool) -> bool {
        known.covered && known.earlier && !sent_again && !self.sends_again
    }

    /// A QoS 2 message of the client has been taken.
    pub(crate) fn take_incoming(&mut self, id: u16) {
        self.sends_again = false;
        self.add_incoming(Incoming { id, covered: false, earlier: false });
    }

    pub(crate) fn add_incoming(&mut self, incoming: Incoming) {
        let at = self.incoming.partition_point(|other| other.id < incoming.id);
        self.incoming.insert(at, incoming);
        self.covered += usize::from(incoming.covered);
    }

    /// Says whether there was one.
    pub(crate) fn remove_incoming(&mut self, id: u16) -> bool {
        let found = self.incoming.binary_search_by_key(&id, |incoming| incoming.id);
        let removed = found.ok().map(|at| self.incoming.remove(at));
        self.covered -= usize::from(removed.is_some_and(|removed| removed.covered));
        removed.is_some()
    }

    /// What came from the client is known no more.
    pub(crate) fn forget_incoming(&mut self) {
        self.incoming.clear();
        self.covered = 0;
    }

    /// Says whether its number has not been released yet.
    pub(crate) fn cover_incoming(&mut self, id: u16) -> bool {
        let found = self.incoming.binary_search_by_key(&id, |incoming| incoming.id);
        let incoming = found.ok().and_then(|at| self.incoming.get_mut(at));
        let Some(incoming) = incoming else { return false };
        self.covered += usize::from(!incoming.covered);
        incoming.covered = true;
        true
    }

    /// Messages of the client that it has sent and may not forget yet.
    pub(crate) fn unanswered(&self) -> usize {
        self.pending.len() + self.covered
    }

    pub(crate) fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order - 1
    }

    /// The bodies of all that it has been sent and has not confirmed, and of all that waits to be sent.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = BodyId> {
        self.flights.iter().map(|flight| flight.body).chain(self.queue.iter().map(|queued| queued.body))
    }

    /// Whether a message may be sent that has to be answered, before any other.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.is_empty() && self.resend_from == ALL_SENT && self.flights.len() < self.window
    }
}

/// The packet identifier after this one.
fn next(id: u16) -> u16 {
    id.checked_add(1).unwrap_or(1)
}

/// A place after all flights.
pub(crate) const ALL_SENT: u64 = u64::MAX;

/// The longest client identifier: as a publisher's name it has the prefix.
pub(crate) const CLIENT_BYTES_MAX: usize = wire::limits::NAME_BYTES_MAX - PREFIX.len();

/// Whether a client may have this name.
pub(crate) fn is_client_name(name: &str) -> bool {
    name.len() <= CLIENT_BYTES_MAX && !name.chars().any(char::is_control)
}

/// Keeps clients of MQTT apart from others of the same name.
const PREFIX: &str = "mqtt:";

/// The name under which a client publishes.
pub(crate) fn publisher_name(client: &str) -> Box<str> {
    format!("{PREFIX}{client}").into()
}

/// All sessions, by number and by client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    all: Slab<SessionId, Session>,
    by_client: BTreeMap<Box<str>, SessionId>,
}

impl Sessions {
    pub(crate) fn find(&self, client: &str) -> Option<SessionId> {
        self.by_client.get(client).copied()
    }

    /// Those whose clients have names after this one, by name.
    pub(crate) fn after(&self, client: &str) -> impl Iterator<Item = (&str, SessionId)> {
        let from = if client.is_empty() { Bound::Unbounded } else { Bound::Excluded(client) };
        let rest = self.by_client.range::<str, _>((from, Bound::Unbounded));
        rest.map(|(name, index)| (&**name, *index))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.all.iter_mut()
    }

    pub(crate) fn insert(&mut self, session: Session) -> SessionId {
        let client = session.client.clone();
        let index = self.all.insert(session);
        self.by_client.insert(client, index);
        index
    }

    pub(crate) fn remove(&mut self, index: SessionId) -> Option<Session> {
        let session = self.all.remove(index)?;
        self.by_client.remove(&session.client);
        Some(session)
    }

    pub(crate) fn get(&self, index: SessionId) -> Option<&Session> {
        self.all.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: SessionId) -> Option<&mut Session> {
        self.all.get_mut(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn end(&self) -> u32 {
        self.all.end()
    }

    /// All numbers that were ever given; some have no session now.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = SessionId> + use<> {
        (0..self.all.end()).map(SessionId)
    }

    /// All sessions, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Version;

    #[test]
    fn identifiers_that_are_skipped_wrap_around_and_are_never_zero() {
        let mut session = Session::new("client", Version::V5);
        assert_eq!(session.take_id(), 1);
        session.skip_ids(256);
        assert_eq!(session.take_id(), 258);
        session.note_id(u16::MAX - 1);
        session.skip_ids(1);
        assert_eq!(session.take_id(), 1);
        session.note_id(u16::MAX - 1);
        session.skip_ids(256);
        assert_eq!(session.take_id(), 256);
    }
}
