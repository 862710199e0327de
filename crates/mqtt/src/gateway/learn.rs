//! What a backup, or a process that starts again, is told of sessions and retained messages.

use super::deliver::Origin;
use super::{Gateway, Rules};
use crate::bodies::Body;
use crate::records::{Content, Key, Record, Waiting, records, write_record, write_session};
use crate::retained::New;
use crate::session::{Flight, Incoming, NO_BODY, Queued};
use contract::Time;
use std::collections::BTreeMap;
use wire::Effects;

/// Where the telling of retained messages begins; before it are the numbers of sessions.
const RETAINED: u64 = 1 << 32;
/// Publishers of one topic whose numbers are remembered.
const PUBLISHERS_MAX: usize = 1_024;
/// A piece of telling has about so many bytes.
const PIECE_BYTES: usize = 48 << 10;

impl<R: Rules> Gateway<R> {
    /// Takes records over, as the primary or the store tells them.
    pub fn learn(&mut self, bytes: &[u8]) {
        for Record { key, value } in records(bytes) {
            let Some(key) = Key::read(key) else { continue };
            match (key, value) {
                (Key::Session(client), Some(value)) => self.learn_session(client, value),
                (Key::Session(client), None) => {
                    if let Some(index) = self.sessions.find(client) {
                        if let Some(session) = self.sessions.get_mut(index) {
                            session.will = None;
                        }
                        self.end_session(index);
                    }
                }
                (Key::Body(id), Some(value)) => self.learn_body(id, value),
                // It has gone with the last that waited for it.
                (Key::Body(_), None) => {}
                (Key::Waiting(client, order), value) => self.learn_waiting(client, order, value),
                (Key::Incoming(client, id), value) => {
                    let session = self.sessions.find(client).and_then(|index| self.sessions.get_mut(index));
                    let Some(session) = session else { continue };
                    session.remove_incoming(id);
                    if value.is_some() {
                        session.add_incoming(Incoming { id, covered: true });
                    }
                }
                (Key::Retained(topic), Some(value)) => self.learn_retained(topic, value),
                (Key::Retained(topic), None) => _ = self.retained.clear(topic),
            }
            self.record_again(&key, value);
        }
        self.let_unwanted_bodies_go();
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
        let index = self.sessions.find(client).unwrap_or_else(|| {
            let mut session = learnt.clone();
            session.recorded = true;
            self.sessions.insert(session)
        });
        if let Some(session) = self.sessions.get_mut(index) {
            session.version = learnt.version;
            session.expiry = learnt.expiry;
            (session.ends_at, session.will_at) = (learnt.ends_at, learnt.will_at);
            (session.will, session.user) = (learnt.will, learnt.user);
            session.dropped = learnt.dropped;
        }
        let gone: Vec<Box<str>> = self
            .subscriptions
            .filters_of(index)
            .filter(|known| !subscriptions.iter().any(|(filter, _)| **filter == **known))
            .map(Box::from)
            .collect();
        gone.iter().for_each(|filter| _ = self.subscriptions.remove(filter, index));
        for (filter, entry) in subscriptions {
            // The primary has judged it; a limit that is lower here is a matter of configuration.
            let _ = self.subscriptions.insert(&filter, index, entry);
        }
    }

    fn learn_body(&mut self, id: u64, value: &[u8]) {
        let Some(content) = Content::read(value) else { return };
        if self.body_numbers.contains_key(&id) {
            return;
        }
        let mut body = Body::new(id, content.topic, content.payload, content.properties, content.expires);
        body.recorded = true;
        self.body_numbers.insert(id, self.bodies.insert(body));
        self.next_body = self.next_body.max(id.saturating_add(1));
        self.fresh.push(id);
        self.note_given(content.topic, content.publisher, content.seq);
    }

    /// Sessions that outlive their connections have been given this message.
    pub(super) fn note_given(&mut self, topic: &str, publisher: &str, seq: u64) {
        note_given(&mut self.given, self.settings.limits.subscriptions, topic, publisher, seq);
    }

    fn learn_waiting(&mut self, client: &str, order: u64, value: Option<&[u8]>) {
        let Some(index) = self.sessions.find(client) else { return };
        let waiting = value.and_then(Waiting::read);
        let body = waiting.as_ref().and_then(|waiting| self.body_numbers.get(&waiting.body)).copied();
        let Some(session) = self.sessions.get_mut(index) else { return };
        let mut before = None;
        if let Some(at) = session.flights.iter().position(|flight| flight.order == order) {
            before = session.flights.remove(at).map(|flight| flight.body);
        } else if let Ok(at) = session.queue.binary_search_by_key(&order, |queued| queued.order) {
            before = session.queue.remove(at).map(|queued| queued.body);
        }
        if let Some(Waiting { id, qos, retain, received, subscriptions, .. }) = waiting {
            session.next_order = session.next_order.max(order + 1);
            let held = body.unwrap_or(NO_BODY);
            self.bodies.hold(held);
            if id != 0 {
                let flight = Flight { id, order, body: held, qos, retain, received };
                let at = session.flights.partition_point(|flight| flight.order < order);
                session.flights.insert(at, flight);
                session.next_id = id.checked_add(1).unwrap_or(1);
            } else if body.is_some() {
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
        let origin = Origin { publisher: publisher.into(), seq, created };
        let _ = self.retained.set(topic, New { payload, properties, qos, expires, origin });
    }

    /// Bodies that nobody waits for: their session was not known. Those of one piece may be named in the next.
    fn let_unwanted_bodies_go(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        for id in std::mem::replace(&mut self.stale, fresh) {
            let Some(index) = self.body_numbers.get(&id).copied() else { continue };
            if self.bodies.get(index).is_some_and(Body::is_unwanted) {
                self.release_body(index);
            }
        }
    }

    /// Another broker will tell; what is known here is forgotten.
    pub fn forget(&mut self, now: Time, net: &mut impl Effects) {
        // Whoever is connected goes to the other broker, and finds its session there.
        self.set_reign(now, false, net);
        for index in 0..self.sessions.end() {
            if let Some(session) = self.sessions.get_mut(index).filter(|session| session.link.is_none()) {
                session.will = None;
                self.end_session(index);
            }
        }
        let topics: Vec<Box<str>> = self.retained.iter().map(|(topic, _)| topic.into()).collect();
        for topic in topics {
            self.retained.clear(&topic);
            self.records.remove(&Key::Retained(&topic));
        }
        self.drafts.clear();
        self.given.clear();
    }

    /// Appends some of what is to be known, from this place on, to `out`. Returns the place to go on with. What changes
    /// meanwhile is recorded as ever, so a place that has been passed needs no second look.
    pub fn tell(&mut self, from: u64, out: &mut Vec<u8>) -> Option<u64> {
        let mut index = u32::try_from(from).unwrap_or(u32::MAX);
        if index < self.sessions.end() {
            while index < self.sessions.end() && out.len() < PIECE_BYTES {
                self.tell_session(index, out);
                index += 1;
            }
            return Some(if index < self.sessions.end() { u64::from(index) } else { RETAINED });
        }
        let after = self.told.take().filter(|_| from > RETAINED);
        let mut last = None;
        let mut write = |(topic, message): (&str, &crate::retained::Message<Origin>)| {
            let Origin { publisher, seq, created } = &message.origin;
            let content = Content {
                topic,
                qos: message.qos,
                created: *created,
                expires: message.expires,
                publisher,
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
        self.told = last.filter(|_| !whole);
        (!whole).then_some(RETAINED + 1)
    }

    fn tell_session(&mut self, index: u32, out: &mut Vec<u8>) {
        let Gateway { sessions, subscriptions, bodies, .. } = self;
        let Some(session) = sessions.get_mut(index).filter(|session| session.is_recorded()) else { return };
        session.recorded = true;
        let client = &session.client;
        let write = |out: &mut Vec<u8>| write_session(out, session, subscriptions.of_session(index));
        write_record(out, &Key::Session(client), Some(write));
        if !session.is_persistent() {
            return;
        }
        let mut tell_body = |body: u32, out: &mut Vec<u8>| {
            let Some(body) = bodies.get_mut(body) else { return 0 };
            body.recorded = true;
            let content = Content {
                topic: &body.topic,
                qos: Default::default(),
                created: Time::ZERO,
                expires: body.expires,
                publisher: "",
                seq: 0,
                properties: &body.properties,
                payload: &body.payload,
            };
            write_record(out, &Key::Body(body.id), Some(|out: &mut Vec<u8>| content.write(out)));
            body.id
        };
        for flight in session.flights.iter().filter(|flight| flight.body != NO_BODY || flight.received) {
            let waiting = Waiting::of_flight(flight, tell_body(flight.body, out));
            let key = Key::Waiting(client, flight.order);
            write_record(out, &key, Some(|out: &mut Vec<u8>| waiting.write(out)));
        }
        for queued in &session.queue {
            let Queued { order, body, qos, retain, ref subscriptions } = *queued;
            let (body, subscriptions) = (tell_body(body, out), subscriptions.clone());
            let waiting = Waiting { body, id: 0, qos, retain, received: false, subscriptions };
            write_record(out, &Key::Waiting(client, order), Some(|out: &mut Vec<u8>| waiting.write(out)));
        }
        for incoming in session.incoming.iter().filter(|incoming| incoming.covered) {
            write_record(out, &Key::Incoming(client, incoming.id), Some(|_: &mut Vec<u8>| {}));
        }
    }
}

/// By topic and publisher, the highest number that sessions which outlive their connections have been given.
pub(super) type Given = BTreeMap<Box<str>, BTreeMap<Box<str>, u64>>;

pub(super) fn note_given(given: &mut Given, most: usize, topic: &str, publisher: &str, seq: u64) {
    if publisher.is_empty() {
        return;
    }
    if !given.contains_key(topic) {
        if given.len() >= most {
            given.pop_first();
        }
        given.insert(topic.into(), BTreeMap::new());
    }
    let Some(publishers) = given.get_mut(topic) else { return };
    match publishers.get_mut(publisher) {
        Some(highest) => *highest = seq.max(*highest),
        None => {
            if publishers.len() >= PUBLISHERS_MAX {
                publishers.pop_first();
            }
            publishers.insert(publisher.into(), seq);
        }
    }
}
