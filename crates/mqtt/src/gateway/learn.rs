//! What a backup, or a process that starts again, is told of sessions and retained messages.

use super::connect::{remove_records, seconds};
use super::deliver::Source;
use super::{Gateway, Rules};
use crate::bodies::{Bodies, NewBody};
use crate::ids::{BodyId, NO_BODY, SessionId};
use crate::records::{Content, Key, Record, Waiting, records, write_record, write_session};
use crate::retained::New;
use crate::session::{Flight, Incoming, Queued, is_client_name};
use contract::{Time, invariant};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use wire::Effects;

/// Where the telling of retained messages begins; before it are the numbers of sessions, and one.
const RETAINED: u64 = 1 << 33;
/// Places among what a session was ever sent end here; no session gets so far.
const ORDER_END: u64 = 1 << 62;
/// Publishers of one topic whose numbers are remembered.
const PUBLISHERS_MAX: usize = 1_024;
/// A piece of telling has about so many bytes.
const PIECE_BYTES: usize = 48 << 10;

impl<R: Rules> Gateway<R> {
    /// Takes records over, as the primary or the store tells them. Another version may have written them, or a broker that lies, and what was
    /// told before may have had no room here: what cannot be read, or is about something that is not known, is left out.
    pub fn learn(&mut self, bytes: &[u8]) {
        for Record { key, value } in records(bytes) {
            let Some(key) = Key::read(key) else { continue };
            match (key, value) {
                (Key::Session(client), Some(value)) => self.learn_session(client, value),
                (Key::Session(client), None) => {
                    if let Some(index) = self.sessions.find(client) {
                        self.end_session(index);
                    }
                }
                (Key::Body(id), Some(value)) => self.learn_body(id, value),
                (Key::Body(id), None) => {
                    if let Some(index) = self.learnt.remove(&id) {
                        self.release_body(index);
                    }
                }
                (Key::Waiting(client, order), value) => self.learn_waiting(client, order, value),
                (Key::Incoming(client, id), value) => {
                    let session = self.sessions.find(client).and_then(|index| self.sessions.get_mut(index));
                    let Some(session) = session else { continue };
                    session.remove_incoming(id);
                    if value.is_some() {
                        session.add_incoming(Incoming { id, covered: true, earlier: true });
                    }
                }
                (Key::Retained(topic), Some(value)) => self.learn_retained(topic, value),
                (Key::Retained(topic), None) => _ = self.retained.clear(topic),
                (Key::Logged(_), _) => continue,
                (Key::Known(reign), value) => {
                    self.learn_known(reign, value);
                    continue;
                }
            }
            self.record_again(&key, value);
        }
    }

    /// What is learnt from the primary is kept in the store here as well.
    fn record_again(&mut self, key: &Key<'_>, value: Option<&[u8]>) {
        match value {
            Some(value) => self.records.put(key, |out| out.extend_from_slice(value)),
            None => self.records.remove(key),
        }
    }

    fn learn_session(&mut self, client: &str, value: &[u8]) {
        let Some((learnt, subscriptions)) = crate::records::read_session(client, value) else { return };
        let will = learnt.will.as_ref().map(|will| &*will.topic);
        let wrong = will.is_some_and(|topic| contract::check_name(topic).is_err());
        if !is_client_name(client) || wrong {
            return;
        }
        if self.before.sessions.remove(client)
            && let Some(index) = self.sessions.find(client)
        {
            self.empty(index);
        }
        let known = self.sessions.find(client).is_some();
        if !known && !self.has_room(|gateway| gateway.sessions.len() < gateway.settings.limits.sessions) {
            return;
        }
        let index = self.sessions.find(client).unwrap_or_else(|| {
            let mut session = learnt.clone();
            session.recorded = true;
            self.sessions.insert(session)
        });
        let longest = self.longest_expiry();
        if let Some(session) = self.sessions.get_mut(index) {
            session.version = learnt.version;
            session.expiry = learnt.expiry.min(longest);
            (session.ends_at, session.will_at) = (learnt.ends_at, learnt.will_at);
            (session.will, session.user) = (learnt.will, learnt.user);
            // Of one that has no connection and is kept for ever nobody has said since when.
            let lasts = seconds(learnt.expiry);
            let began = learnt.ends_at.filter(|_| !lasts.is_forever()).map(|ends_at| ends_at - lasts);
            session.since = began.unwrap_or_default();
            session.dropped = learnt.dropped;
            session.needs = learnt.needs;
            session.walks = learnt.walks;
        } else {
            invariant!("a session that was found or made is there");
        }
        let gone: Vec<Box<str>> = self
            .subscriptions
            .filters_of(index)
            .filter(|known| !subscriptions.iter().any(|(filter, _)| **filter == **known))
            .map(Box::from)
            .collect();
        for filter in &gone {
            if self.subscriptions.remove(filter, index) {
                self.count_share(index, filter, false);
            }
        }
        for (filter, entry) in subscriptions.into_iter().take(self.settings.limits.subscriptions_per_session)
        {
            // The primary has judged it; a limit that is lower here is a matter of configuration.
            if self.subscriptions.insert(&filter, index, entry) == Ok(false) {
                self.count_share(index, &filter, true);
            }
        }
    }

    fn learn_body(&mut self, id: u64, value: &[u8]) {
        let Some(content) = Content::read(value) else { return };
        let Content { topic, properties, payload, expires, .. } = content;
        let new = NewBody { id, topic, properties, payload, expires };
        if contract::check_name(topic).is_err() {
            return;
        }
        if self.before.bodies.remove(&id) {
            self.know_again(&new);
        } else if self.learnt.contains_key(&id) {
            return;
        }
        let needed = new.bytes();
        let room =
            |gateway: &Gateway<R>| gateway.bodies.bytes() + needed <= gateway.settings.limits.queue_bytes;
        if !self.learnt.contains_key(&id) {
            if !self.has_room(room) {
                return;
            }
            let index = self.bodies.insert(&new);
            match self.bodies.get_mut(index) {
                Some(body) => body.recorded = true,
                None => invariant!("a body that was kept is there"),
            }
            self.learnt.insert(id, index);
        }
        self.next_body = self.next_body.max(id.wrapping_add(1)).max(1);
        // Sessions that outlive their connections have been given it.
        let Content { topic, publisher, incarnation, seq, .. } = content;
        let number = Highest { incarnation, seq };
        note_given(&mut self.given, self.settings.limits.subscriptions, topic, publisher, number);
    }

    fn learn_waiting(&mut self, client: &str, order: u64, value: Option<&[u8]>) {
        let Some(index) = self.sessions.find(client) else { return };
        let waiting = value.and_then(Waiting::read);
        let body = waiting.as_ref().and_then(|waiting| self.learnt.get(&waiting.body)).copied();
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("a session that was found is there");
        };
        let mut before = None;
        if let Some(at) = session.flights.iter().position(|flight| flight.order == order) {
            before = session.flights.remove(at).map(|flight| flight.body);
        } else if let Ok(at) = session.queue.binary_search_by_key(&order, |queued| queued.order) {
            before = session.queue.remove(at).map(|queued| queued.body);
        }
        let limits = &self.settings.limits;
        if let Some(Waiting { id, qos, retain, received, subscriptions, .. }) = waiting
            && order < ORDER_END
        {
            session.next_order = session.next_order.max(order + 1);
            let held = body.filter(|_| !received).unwrap_or(NO_BODY);
            let known = received || held != NO_BODY;
            if id != 0 && known && session.flights.len() < usize::from(limits.inflight) {
                if held != NO_BODY {
                    self.bodies.hold(held);
                }
                let flight = Flight { id, order, body: held, qos, retain, received, subscriptions };
                let at = session.flights.partition_point(|flight| flight.order < order);
                session.flights.insert(at, flight);
                session.note_id(id);
            } else if id == 0 && held != NO_BODY && session.queue.len() < limits.queue_messages {
                self.bodies.hold(held);
                let at = session.queue.partition_point(|queued| queued.order < order);
                session.queue.insert(at, Queued { order, body: held, qos, retain, subscriptions });
            }
        }
        if let Some(before) = before {
            self.release_body(before);
        }
    }

    fn learn_retained(&mut self, topic: &str, value: &[u8]) {
        let Some(content) = Content::read(value) else { return };
        let Content { qos, created, expires, publisher, seq, properties, payload, .. } = content;
        if contract::check_name(topic).is_err() {
            return;
        }
        self.before.retained.remove(topic);
        let new = || {
            let origin = Source { publisher: publisher.into(), seq, created };
            New { payload, properties, qos, expires, origin }
        };
        if self.retained.set(topic, new()).is_err() && !self.before.is_empty() {
            self.end_before();
            // Where there is still no room, limits are lower here.
            let _ = self.retained.set(topic, new());
        }
    }

    /// Whether there is room for more. What has not been told again has to give way.
    fn has_room(&mut self, room: impl Fn(&Self) -> bool) -> bool {
        if !room(self) && !self.before.is_empty() {
            self.end_before();
        }
        room(self)
    }

    /// A body of this name was known before. Where it is another one, whoever waits for that keeps it without its name.
    fn know_again(&mut self, new: &NewBody<'_>) {
        // It may have been taken back since.
        let Some(&index) = self.learnt.get(&new.id) else { return };
        let Some(body) = self.bodies.get_mut(index) else { return invariant!("a body with a name is kept") };
        let content = (body.topic(), body.properties(), body.payload());
        if content != (new.topic, new.properties, new.payload) {
            body.recorded = false;
            self.learnt.remove(&new.id);
            self.release_body(index);
        }
    }

    /// Nothing waits for this session any more: what does is told anew.
    fn empty(&mut self, index: SessionId) {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("a session that was found is there");
        };
        remove_records(&mut self.records, session);
        let bodies: Vec<BodyId> = session.bodies().collect();
        session.flights.clear();
        session.queue.clear();
        session.forget_incoming();
        bodies.into_iter().for_each(|body| self.release_body(body));
    }

    /// From now on nobody tells: what was known before and has not been told again stays, and a body as long as a session waits for it.
    pub(super) fn end_learning(&mut self) {
        self.before = Before::default();
        while let Some((_, index)) = self.learnt.pop_first() {
            self.release_body(index);
        }
    }

    /// Another broker will tell everything. `keeps`: it knows all that is known here. Then that stays until it has been told again, or
    /// turns out to be gone when everything has been told ([`Gateway::told_everything`]): should the other broker die before, this one
    /// has what it had.
    pub fn begin_learning(&mut self, now: Time, keeps: bool, net: &mut impl Effects) {
        // Whoever is connected goes to the other broker, and finds its session there.
        self.set_reign(now, false, net);
        self.know_nothing();
        self.note_before();
        if !keeps {
            self.end_before();
            self.end_learning();
            self.given.clear();
        }
        self.drafts.clear();
    }

    /// Whoever tells has told everything.
    pub fn told_everything(&mut self) {
        self.end_before();
    }

    fn note_before(&mut self) {
        for index in self.sessions.numbers() {
            // Some are free.
            let Some(session) = self.sessions.get(index) else { continue };
            if !session.is_persistent() {
                self.end_session(index);
                continue;
            }
            let (ends_at, will_at) = (session.ends_at, session.will_at);
            self.before.sessions.insert(session.client.clone());
            for index in session.bodies() {
                // One that the client has is not kept, and one that was known by no name needs none.
                let Some(body) = self.bodies.get(index).filter(|body| body.recorded) else { continue };
                if let Entry::Vacant(unknown) = self.learnt.entry(body.id) {
                    unknown.insert(index);
                    self.bodies.hold(index);
                }
            }
            self.forget_times(index, ends_at, will_at);
        }
        self.before.bodies.extend(self.learnt.keys());
        self.before.retained.extend(self.retained.iter().map(|(topic, _)| Box::from(topic)));
    }

    /// What has not been told again has gone, unless it has ended by itself.
    fn end_before(&mut self) {
        let Before { sessions, bodies, retained } = std::mem::take(&mut self.before);
        for client in sessions {
            if let Some(index) = self.sessions.find(&client) {
                self.end_session(index);
            }
        }
        for id in bodies {
            if let Some(index) = self.learnt.remove(&id) {
                self.release_body(index);
            }
        }
        for topic in retained {
            self.retained.clear(&topic);
            self.records.remove(&Key::Retained(&topic));
        }
    }

    /// Appends some of what is to be known, from this place on, to `out`. Returns the place to go on with. What changes
    /// meanwhile is recorded as ever, so a place that has been passed needs no second look.
    pub fn tell(&mut self, from: u64, out: &mut Vec<u8>) -> Option<u64> {
        if from == 0 {
            let round = self.telling.round.wrapping_add(1);
            self.telling = Telling { round, ..Telling::default() };
        }
        if from < RETAINED {
            let mut index = u32::try_from(from.saturating_sub(1)).unwrap_or(u32::MAX);
            while index < self.sessions.end() && out.len() < PIECE_BYTES {
                index += u32::from(self.tell_session(SessionId(index), out));
            }
            return Some(if index < self.sessions.end() { u64::from(index) + 1 } else { RETAINED });
        }
        self.tell_retained(from, out)
    }

    fn tell_retained(&mut self, from: u64, out: &mut Vec<u8>) -> Option<u64> {
        let after = self.telling.topic.take().filter(|_| from > RETAINED);
        let mut last = None;
        let mut write = |(topic, message): (&str, &crate::retained::Message<Source>)| {
            let Source { publisher, seq, created } = &message.origin;
            let content = Content {
                topic,
                qos: message.qos,
                created: *created,
                expires: message.expires,
                publisher,
                incarnation: 0,
                seq: *seq,
                properties: message.properties(),
                payload: message.payload(),
            };
            write_record(out, &Key::Retained(topic), Some(|out: &mut Vec<u8>| content.write(out)));
            last = Some(Box::from(topic));
            out.len() < PIECE_BYTES
        };
        let whole = match &after {
            Some(topic) => self.retained.iter_after(topic).all(&mut write),
            None => self.retained.iter().all(&mut write),
        };
        self.telling.topic = last.filter(|_| !whole);
        if whole {
            self.tell_known(out);
            self.records.tell_log(out);
        }
        (!whole).then_some(RETAINED + 1)
    }

    /// Tells of a session and what waits for it. `false`: there is more, with which the next piece goes on.
    fn tell_session(&mut self, index: SessionId, out: &mut Vec<u8>) -> bool {
        let begun = self.telling.part.take().filter(|(part, _)| *part == index).map(|(_, order)| order);
        let Gateway { sessions, subscriptions, bodies, telling, .. } = self;
        // The number may be free, or the session nobody's concern.
        let Some(session) = sessions.get_mut(index).filter(|session| session.is_recorded()) else {
            return true;
        };
        let client = &session.client;
        if begun.is_none() {
            session.recorded = true;
            let write = |out: &mut Vec<u8>| write_session(out, session, subscriptions.of_session(index));
            write_record(out, &Key::Session(client), Some(write));
        }
        if !session.is_persistent() {
            return true;
        }
        let from = begun.unwrap_or(0);
        let flights = session.flights.range(session.flights.partition_point(|flight| flight.order < from)..);
        for flight in flights.filter(|flight| flight.body != NO_BODY || flight.received) {
            if out.len() >= PIECE_BYTES {
                telling.part = Some((index, flight.order));
                return false;
            }
            let waiting = Waiting::of_flight(flight, tell_body(bodies, telling.round, flight.body, out));
            let key = Key::Waiting(client, flight.order);
            write_record(out, &key, Some(|out: &mut Vec<u8>| waiting.write(out)));
        }
        for queued in session.queue.range(session.queue.partition_point(|queued| queued.order < from)..) {
            if out.len() >= PIECE_BYTES {
                telling.part = Some((index, queued.order));
                return false;
            }
            let Queued { order, body, qos, retain, ref subscriptions } = *queued;
            let body = tell_body(bodies, telling.round, body, out);
            let subscriptions = subscriptions.clone();
            let waiting = Waiting { body, id: 0, qos, retain, received: false, subscriptions };
            write_record(out, &Key::Waiting(client, order), Some(|out: &mut Vec<u8>| waiting.write(out)));
        }
        for incoming in session.incoming.iter().filter(|incoming| incoming.covered) {
            write_record(out, &Key::Incoming(client, incoming.id), Some(|_: &mut Vec<u8>| {}));
        }
        true
    }

    /// Which telling is under way, or was the last.
    pub fn telling_round(&self) -> u32 {
        self.telling.round
    }

    /// A session has ended; another may have its number.
    pub(super) fn stop_telling(&mut self, index: SessionId) {
        self.telling.part = self.telling.part.filter(|(part, _)| *part != index);
    }
}

/// What was known here when another broker began to tell, and has not been told again, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    sessions: BTreeSet<Box<str>>,
    bodies: BTreeSet<u64>,
    retained: BTreeSet<Box<str>>,
}

impl Before {
    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.bodies.is_empty() && self.retained.is_empty()
    }
}

/// How far a new backup has been told.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling {
    /// Counts backups. A body of which one has heard is not told again, however many sessions wait for it.
    pub(super) round: u32,
    /// The session of which a part has been told, and the place of what comes next.
    part: Option<(SessionId, u64)>,
    /// The topic of the retained message that was the last.
    topic: Option<Box<str>>,
}

/// Tells of a body, unless that has been done. Returns its name; zero for [`NO_BODY`].
fn tell_body(bodies: &mut Bodies, round: u32, body: BodyId, out: &mut Vec<u8>) -> u64 {
    if body == NO_BODY {
        return 0;
    }
    let Some(body) = bodies.get_mut(body) else {
        return invariant!("a body that somebody waits for is kept", 0);
    };
    if !body.recorded || body.told != round {
        (body.recorded, body.told) = (true, round);
        let content = Content {
            topic: body.topic(),
            qos: Default::default(),
            created: Time::ZERO,
            expires: body.expires,
            publisher: "",
            incarnation: 0,
            seq: 0,
            properties: body.properties(),
            payload: body.payload(),
        };
        write_record(out, &Key::Body(body.id), Some(|out: &mut Vec<u8>| content.write(out)));
    }
    body.id
}

/// By topic and publisher, the highest number that sessions which outlive their connections have been given.
pub(super) type Given = BTreeMap<Box<str>, BTreeMap<Box<str>, Highest>>;

/// The highest number of one life of a publisher; the next one numbers anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Highest {
    pub(super) incarnation: u64,
    pub(super) seq: u64,
}

impl Highest {
    pub(super) fn covers(&self, message: &wire::Routed<'_>) -> bool {
        self.incarnation == message.origin.incarnation && message.origin.seq <= self.seq
    }

    fn join(&mut self, other: Highest) {
        let seq = if self.incarnation == other.incarnation { self.seq.max(other.seq) } else { other.seq };
        *self = Highest { incarnation: other.incarnation, seq };
    }
}

pub(super) fn note_given(given: &mut Given, most: usize, topic: &str, publisher: &str, number: Highest) {
    if publisher.is_empty() {
        return;
    }
    if !given.contains_key(topic) {
        if given.len() >= most {
            given.pop_first();
        }
        given.insert(topic.into(), BTreeMap::new());
    }
    let Some(publishers) = given.get_mut(topic) else {
        return invariant!("a topic that was found or entered is there");
    };
    match publishers.get_mut(publisher) {
        Some(highest) => highest.join(number),
        None => {
            if publishers.len() >= PUBLISHERS_MAX {
                publishers.pop_first();
            }
            publishers.insert(publisher.into(), number);
        }
    }
}
