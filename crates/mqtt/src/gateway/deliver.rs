//! Messages to clients.

use super::learn::Highest;
use super::publish::read_trailer;
use super::{Client, Gateway, Phase, Routing, Rules};
use crate::bodies::{Bodies, Body, NewBody};
use crate::packet::{
    Acknowledge, Answer, Delivery, Qos, Reason, Version, acknowledge, delivery, delivery_bytes,
};
use crate::records::{Content, Key, Records, Waiting};
use crate::retained;
use crate::session::{ALL_SENT, Flight, NO_BODY, Queued, Session, Walk};
use crate::settings::Limits;
use crate::stats::Stats;
use crate::tree::{Entry, Matches, Want};
use contract::{Loss, Span, Time};
use wire::{Effects, LinkId, MessageFlags, Order};

/// A message that the broker dispatches.
#[derive(Clone, Copy, Debug)]
pub struct Dispatched<'a> {
    /// Who published it, by the name of its stream.
    pub publisher: &'a str,
    /// In which life.
    pub incarnation: u64,
    /// Its number there.
    pub seq: u64,
    /// When it was created.
    pub created: Time,
    /// Whether its subscribers may have it already.
    pub again: bool,
    /// Whether its contract bounds losses.
    pub loss: Loss,
    /// How it came, if through MQTT.
    pub truths: MessageFlags,
    /// What belongs to it besides the payload.
    pub trailer: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
}

/// A message as a client gets it.
#[derive(Clone, Copy)]
struct Item<'a> {
    topic: &'a str,
    qos: Qos,
    retain: bool,
    expires: Option<Time>,
    properties: &'a [u8],
    payload: &'a [u8],
    /// Its publisher, in which life, and its number.
    origin: (&'a str, u64, u64),
    created: Time,
}

/// A message of the broker's own.
pub(super) struct Own<'a> {
    pub(super) topic: &'a str,
    pub(super) payload: &'a [u8],
    pub(super) retain: bool,
}

impl Dispatched<'_> {
    /// Messages of other protocols whose losses are bounded are delivered as surely as subscribers want.
    fn qos(&self) -> Qos {
        if self.truths.contains(MessageFlags::EXACTLY_ONCE) {
            Qos::ExactlyOnce
        } else if self.truths.contains(MessageFlags::AT_LEAST_ONCE) {
            Qos::AtLeastOnce
        } else if self.publisher.starts_with("mqtt:") || self.loss == Loss::Unbounded {
            Qos::AtMostOnce
        } else {
            Qos::AtLeastOnce
        }
    }
}

impl<R: Rules> Gateway<R> {
    /// A topic of the broker has come. Returns its number here, and how many subscribers it has.
    pub fn route(&mut self, topic: &str) -> (u32, u32) {
        let receivers = self.receivers(topic);
        let routing = Routing { topic: topic.into(), matches: Matches::default(), generation: u64::MAX };
        (self.routes.insert(routing), receivers)
    }

    /// The topic has gone.
    pub fn unroute(&mut self, route: u32) {
        if let Some(routing) = self.routes.remove(route) {
            self.given.remove(&routing.topic);
        }
    }

    /// A message is dispatched.
    pub fn deliver(&mut self, now: Time, route: u32, message: &Dispatched<'_>, net: &mut impl Effects) {
        let Some(routing) = self.routes.get_mut(route) else { return };
        if routing.generation != self.subscriptions.generation() {
            self.subscriptions.matches(&routing.topic, &mut routing.matches);
            routing.generation = self.subscriptions.generation();
        }
        let (expires, properties) = read_trailer(message.created, message.trailer);
        let Some(routing) = self.routes.get(route) else { return };
        if routing.matches.is_empty() && !message.truths.contains(MessageFlags::RETAIN) {
            return;
        }
        let item = Item {
            topic: &routing.topic,
            qos: message.qos(),
            retain: message.truths.contains(MessageFlags::RETAIN),
            expires,
            properties,
            payload: message.payload,
            origin: (message.publisher, message.incarnation, message.seq),
            created: message.created,
        };
        if item.retain {
            retain(&mut self.retained, &mut self.records, &mut self.stats, &item, message.again);
        }
        if expires.is_some_and(|at| at <= now) {
            self.stats.expired += 1;
            return;
        }
        // Sessions that outlive their connections, and have outlived a primary, may have been given it there.
        let highest = || self.given.get(&routing.topic)?.get(message.publisher);
        let given = message.again && highest().is_some_and(|highest| highest.covers(message));
        let mut giving = Giving {
            now,
            clients: &self.clients,
            bodies: &mut self.bodies,
            round: self.telling.round,
            next_body: &mut self.next_body,
            records: &mut self.records,
            stats: &mut self.stats,
            limits: &self.settings.limits,
            body: None,
            recorded: false,
        };
        for row in routing.matches.rows() {
            let Some(session) = self.sessions.get_mut(row.session) else { continue };
            let own = *session.publisher == *message.publisher;
            let Some(want) = (if own { row.own } else { Some(row.others) }) else { continue };
            if !(given && session.is_persistent()) {
                giving.give(session, &item, &want, routing.matches.subscriptions(&want), net);
            }
        }
        for &group in routing.matches.groups() {
            let sessions = &self.sessions;
            let connected = |member| sessions.get(member).is_some_and(|session| session.link.is_some());
            let chosen = self
                .subscriptions
                .next_member(group, connected)
                .or_else(|| self.subscriptions.next_member(group, |member| sessions.get(member).is_some()));
            let Some((member, entry)) = chosen else { continue };
            if let Some(session) = self.sessions.get_mut(member)
                && !(given && session.is_persistent())
            {
                giving.give_entry(session, &item, &entry, net);
            }
        }
        giving.let_go();
        if giving.recorded {
            let most = self.settings.limits.subscriptions;
            let &Dispatched { publisher, incarnation, seq, .. } = message;
            let highest = Highest { incarnation, seq };
            super::learn::note_given(&mut self.given, most, &routing.topic, publisher, highest);
        }
    }

    /// Gives a session what is retained for a filter that it has just subscribed, as far as there is room; the rest follows
    /// when there is.
    pub(super) fn give_retained(
        &mut self,
        now: Time,
        index: u32,
        filter: &str,
        entry: &Entry,
        net: &mut impl Effects,
    ) {
        let most = self.settings.limits.subscriptions_per_session;
        let Some(session) = self.sessions.get_mut(index) else { return };
        session.walks.retain(|walk| *walk.filter != *filter);
        if session.walks.len() >= most {
            return;
        }
        // What was retained keeps its flag here, whatever the subscription says of later ones.
        let entry = Entry {
            options: crate::packet::Options { retain_as_published: true, ..entry.options },
            ..*entry
        };
        session.walks.push_back(Walk { filter: filter.into(), entry, place: String::new() });
        self.walk_retained(now, index, net);
    }

    /// Goes on giving a session what is retained.
    fn walk_retained(&mut self, now: Time, index: u32, net: &mut impl Effects) {
        let Gateway { retained, sessions, .. } = self;
        let Some(session) = sessions.get_mut(index).filter(|session| !session.walks.is_empty()) else {
            return;
        };
        let Some(link) = session.link else { return session.walks.clear() };
        let mut giving = Giving {
            now,
            clients: &self.clients,
            bodies: &mut self.bodies,
            round: self.telling.round,
            next_body: &mut self.next_body,
            records: &mut self.records,
            stats: &mut self.stats,
            limits: &self.settings.limits,
            body: None,
            recorded: false,
        };
        while let Some(mut walk) = session.walks.pop_front() {
            let answered = walk.entry.options.qos != Qos::AtMostOnce;
            if net.backlog(link) >= giving.limits.backlog_bytes || (answered && !session.has_room()) {
                return session.walks.push_front(walk);
            }
            let Walk { filter, entry, place } = &mut walk;
            let more = retained.matching_portion(filter, now, place, 1, &mut |topic, message| {
                let item = Item {
                    topic,
                    qos: message.qos,
                    retain: true,
                    expires: message.expires,
                    properties: message.properties(),
                    payload: message.payload(),
                    origin: (&message.origin.publisher, 0, message.origin.seq),
                    created: message.origin.created,
                };
                giving.give_entry(session, &item, entry, net);
                giving.let_go();
            });
            if more {
                session.walks.push_front(walk);
            }
        }
    }

    /// Gives a session a message of the broker's own.
    pub(super) fn give_own(
        &mut self,
        now: Time,
        index: u32,
        own: &Own<'_>,
        entry: &Entry,
        net: &mut impl Effects,
    ) {
        let Some(session) = self.sessions.get_mut(index) else { return };
        let mut giving = Giving {
            now,
            clients: &self.clients,
            bodies: &mut self.bodies,
            round: self.telling.round,
            next_body: &mut self.next_body,
            records: &mut self.records,
            stats: &mut self.stats,
            limits: &self.settings.limits,
            body: None,
            recorded: false,
        };
        let entry = Entry {
            options: crate::packet::Options { retain_as_published: true, ..entry.options },
            ..*entry
        };
        let Own { topic, payload, retain } = *own;
        let (properties, origin) = (&[][..], ("", 0, 0));
        let item = Item {
            topic,
            qos: Qos::AtMostOnce,
            retain,
            expires: None,
            properties,
            payload,
            origin,
            created: now,
        };
        giving.give_entry(session, &item, &entry, net);
        giving.let_go();
    }

    /// A link has room again.
    pub fn drained(&mut self, now: Time, link: LinkId, net: &mut impl Effects) {
        if let Some(session) = self.session_of(link) {
            self.pump(now, session, net);
        }
    }

    /// Sends what waits for a session, as far as its connection and its window have room.
    pub(super) fn pump(&mut self, now: Time, index: u32, net: &mut impl Effects) {
        self.send_again(now, index, net);
        let Gateway { sessions, clients, bodies, records, stats, settings, .. } = self;
        let Some(session) = sessions.get_mut(index).filter(|session| session.resend_from == ALL_SENT) else {
            return;
        };
        let Some(link) = session.link else { return };
        let Some(client) = clients.get(link.0 as usize).and_then(Option::as_deref) else { return };
        while session.flights.len() < session.window && net.backlog(link) < settings.limits.backlog_bytes {
            let Some(queued) = session.queue.pop_front() else { break };
            let Queued { order, qos, retain, body: number, subscriptions } = queued;
            let Some(body) = bodies.get(number) else { continue };
            let gone = body.expires.is_some_and(|at| at <= now);
            let id = if gone { 0 } else { session.take_id() };
            let numbers = subscriptions.as_slice();
            let outgoing = Outgoing { dup: false, qos, retain, id, subscriptions: numbers };
            if gone || !outgoing.send(now, link, client, body, stats, net) {
                stats.expired += u64::from(gone);
                records.remove(&Key::Waiting(&session.client, order));
                release(bodies, records, number);
                continue;
            }
            let keeps = session.is_persistent();
            let body_kept = if keeps { number } else { NO_BODY };
            let flight = Flight { id, order, body: body_kept, qos, retain, received: false, subscriptions };
            if keeps {
                let waiting = Waiting::of_flight(&flight, body.id);
                records.put(&Key::Waiting(&session.client, order), |out| waiting.write(out));
            } else {
                release(bodies, records, number);
            }
            session.flights.push_back(flight);
        }
        self.walk_retained(now, index, net);
    }

    /// After a client has come back: what it has not answered is sent again, in its order, as far as there is room.
    fn send_again(&mut self, now: Time, index: u32, net: &mut impl Effects) {
        let Gateway { sessions, clients, bodies, records, stats, settings, .. } = self;
        let Some(session) = sessions.get_mut(index) else { return };
        let Some(link) = session.link else { return };
        let Some(client) = clients.get(link.0 as usize).and_then(Option::as_deref) else { return };
        while session.resend_from != ALL_SENT {
            let at = session.flights.partition_point(|flight| flight.order < session.resend_from);
            let Some(flight) = session.flights.get(at) else {
                session.resend_from = ALL_SENT;
                break;
            };
            if net.backlog(link) >= settings.limits.backlog_bytes {
                break;
            }
            let after = flight.order.saturating_add(1);
            if flight.received {
                let (version, id) = (client.version, flight.id);
                net.append(link, Order::Any, |out| {
                    acknowledge(out, version, Answer::PubRel, id, Reason::SUCCESS);
                });
                session.resend_from = after;
                continue;
            }
            if at >= session.window {
                break;
            }
            let Flight { id, qos, retain, ref subscriptions, .. } = *flight;
            let outgoing = Outgoing { dup: true, qos, retain, id, subscriptions: subscriptions.as_slice() };
            let body = bodies.get(flight.body);
            if body.is_some_and(|body| outgoing.send(now, link, client, body, stats, net)) {
                session.resend_from = after;
            } else if let Some(flight) = session.flights.remove(at) {
                // It is larger than the client takes by now.
                records.remove(&Key::Waiting(&session.client, flight.order));
                release(bodies, records, flight.body);
            }
        }
    }

    /// A client has a message: PUBACK or PUBCOMP.
    pub(super) fn finish_flight(&mut self, index: u32, word: Acknowledge, _net: &mut impl Effects) {
        let Gateway { sessions, bodies, records, .. } = self;
        let Some(session) = sessions.get_mut(index) else { return };
        let wanted = |flight: &Flight| {
            flight.id == word.id
                && (flight.received == (word.answer == Answer::PubComp))
                && (flight.qos == Qos::ExactlyOnce) == (word.answer == Answer::PubComp)
        };
        let Some(at) = session.flights.iter().position(wanted) else { return };
        let Some(flight) = session.flights.remove(at) else { return };
        if session.is_persistent() {
            records.remove(&Key::Waiting(&session.client, flight.order));
        }
        release(bodies, records, flight.body);
    }

    /// A client has a QoS 2 message: PUBREC. Its number stays in use until the client has released it.
    pub(super) fn receive_flight(&mut self, index: u32, word: Acknowledge, net: &mut impl Effects) {
        let Gateway { sessions, bodies, records, .. } = self;
        let Some(session) = sessions.get_mut(index) else { return };
        let Some(link) = session.link else { return };
        let version = session.version;
        let flight =
            session.flights.iter().position(|flight| flight.id == word.id && flight.qos == Qos::ExactlyOnce);
        let Some(at) = flight else {
            let reason = Reason::PACKET_ID_NOT_FOUND;
            return net
                .append(link, Order::Any, |out| acknowledge(out, version, Answer::PubRel, word.id, reason));
        };
        if word.reason.is_error() {
            // It does not want it, and no PUBREL follows.
            if let Some(flight) = session.flights.remove(at) {
                records.remove(&Key::Waiting(&session.client, flight.order));
                release(bodies, records, flight.body);
            }
            return;
        }
        let persistent = session.is_persistent();
        if let Some(flight) = session.flights.get_mut(at) {
            let body = std::mem::replace(&mut flight.body, NO_BODY);
            flight.received = true;
            if persistent {
                let waiting = Waiting::of_flight(flight, 0);
                records.put(&Key::Waiting(&session.client, flight.order), |out| waiting.write(out));
            }
            release(bodies, records, body);
        }
        net.append(link, Order::Last, |out| {
            acknowledge(out, version, Answer::PubRel, word.id, Reason::SUCCESS);
        });
    }

    pub(super) fn release_body(&mut self, body: u32) {
        release(&mut self.bodies, &mut self.records, body);
    }
}

/// One less waits for a body.
fn release(bodies: &mut Bodies, records: &mut Records, body: u32) {
    if let Some(gone) = bodies.release(body).filter(|gone| gone.recorded) {
        records.remove(&Key::Body(gone.id));
    }
}

/// What is known of where a retained message is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub(crate) publisher: Box<str>,
    pub(crate) seq: u64,
    pub(crate) created: Time,
}

/// Keeps a message for subscribers to come; an empty one clears the topic.
fn retain(
    retained: &mut retained::Retained<Origin>,
    records: &mut Records,
    stats: &mut Stats,
    item: &Item<'_>,
    again: bool,
) {
    if again {
        // It may have been retained before, and something newer since.
        let newer =
            retained.get(item.topic, Time::ZERO).is_some_and(|kept| kept.origin.created > item.created);
        if newer {
            return;
        }
    }
    if item.payload.is_empty() {
        if retained.clear(item.topic) {
            records.remove(&Key::Retained(item.topic));
        }
        return;
    }
    let (publisher, _, seq) = item.origin;
    let origin = Origin { publisher: publisher.into(), seq, created: item.created };
    let Item { payload, properties, qos, expires, .. } = *item;
    if retained.set(item.topic, retained::New { payload, properties, qos, expires, origin }).is_err() {
        stats.retained_refused += 1;
        return;
    }
    records.put(&Key::Retained(item.topic), |out| item.content().write(out));
}

impl<'a> Item<'a> {
    fn content(&self) -> Content<'a> {
        let (publisher, incarnation, seq) = self.origin;
        let Item { topic, qos, created, expires, properties, payload, .. } = *self;
        Content { topic, qos, created, expires, publisher, incarnation, seq, properties, payload }
    }
}

/// One message on its way to sessions.
struct Giving<'g> {
    now: Time,
    clients: &'g [Option<Box<Client>>],
    bodies: &'g mut Bodies,
    /// Of telling a backup.
    round: u32,
    next_body: &'g mut u64,
    records: &'g mut Records,
    stats: &'g mut Stats,
    limits: &'g Limits,
    /// The body that is kept of it, once somebody has to wait.
    body: Option<u32>,
    /// Whether a session that outlives its connection has been given it.
    recorded: bool,
}

impl Giving<'_> {
    fn give_entry(&mut self, session: &mut Session, item: &Item<'_>, entry: &Entry, net: &mut impl Effects) {
        let want = Want::of(&entry.options);
        let number = entry.subscription;
        self.give(session, item, &want, number.as_slice(), net);
    }

    /// Sends a message to a session, or has it wait.
    fn give(
        &mut self,
        session: &mut Session,
        item: &Item<'_>,
        want: &Want,
        numbers: &[u32],
        net: &mut impl Effects,
    ) {
        let qos = item.qos.min(want.qos);
        let retain = item.retain && want.retain_as_published;
        let client = session.link.and_then(|link| {
            let client = self.clients.get(link.0 as usize)?.as_deref()?;
            matches!(client.phase, Phase::Open { .. }).then_some((link, client))
        });
        if qos == Qos::AtMostOnce {
            let Some((link, client)) = client else { return };
            if net.backlog(link) >= self.limits.backlog_bytes {
                session.dropped += 1;
                self.stats.dropped += 1;
                return;
            }
            let outgoing = Outgoing { dup: false, qos, retain, id: 0, subscriptions: numbers };
            outgoing.send(self.now, link, client, item, self.stats, net);
            return;
        }
        let room = session.has_room();
        match client {
            Some((link, client)) if room && net.backlog(link) < self.limits.backlog_bytes => {
                self.launch(session, link, client, item, (qos, retain, numbers), net);
            }
            Some(_) => self.queue(session, item, qos, retain, numbers),
            None if session.is_persistent() => self.queue(session, item, qos, retain, numbers),
            None => {}
        }
    }

    /// Sends a message that has to be answered.
    fn launch(
        &mut self,
        session: &mut Session,
        link: LinkId,
        client: &Client,
        item: &Item<'_>,
        (qos, retain, subscriptions): (Qos, bool, &[u32]),
        net: &mut impl Effects,
    ) {
        let id = session.take_id();
        let outgoing = Outgoing { dup: false, qos, retain, id, subscriptions };
        if !outgoing.send(self.now, link, client, item, self.stats, net) {
            return;
        }
        let order = session.take_order();
        let subscriptions = subscriptions.into();
        let mut flight = Flight { id, order, body: NO_BODY, qos, retain, received: false, subscriptions };
        // Where there is no room to keep it, it has been sent all the same, and its number is in use.
        if session.is_persistent()
            && let Some((body, name)) = self.keep(item, true)
        {
            flight.body = body;
            self.bodies.hold(body);
            self.recorded = true;
            let waiting = Waiting::of_flight(&flight, name);
            self.records.put(&Key::Waiting(&session.client, order), |out| waiting.write(out));
        }
        session.flights.push_back(flight);
    }

    fn queue(&mut self, session: &mut Session, item: &Item<'_>, qos: Qos, retain: bool, numbers: &[u32]) {
        if session.queue.len() >= self.limits.queue_messages {
            if let Some(oldest) = session.queue.pop_front() {
                self.records.remove(&Key::Waiting(&session.client, oldest.order));
                release(self.bodies, self.records, oldest.body);
            }
            session.dropped += 1;
            self.stats.dropped += 1;
        }
        let Some((body, name)) = self.keep(item, session.is_persistent()) else {
            session.dropped += 1;
            self.stats.dropped += 1;
            return;
        };
        self.bodies.hold(body);
        let order = session.take_order();
        if session.is_persistent() {
            self.recorded = true;
            let waiting =
                Waiting { body: name, id: 0, qos, retain, received: false, subscriptions: numbers.into() };
            self.records.put(&Key::Waiting(&session.client, order), |out| waiting.write(out));
        }
        session.queue.push_back(Queued { order, body, qos, retain, subscriptions: numbers.into() });
    }

    /// Keeps the message for those who wait for it. `outlives`: one of them does not end with its connection, so others are
    /// told. `None`: there is no room.
    fn keep(&mut self, item: &Item<'_>, outlives: bool) -> Option<(u32, u64)> {
        let index = match self.body {
            Some(index) => index,
            None => self.insert(item)?,
        };
        self.body = Some(index);
        let body = self.bodies.get_mut(index)?;
        if outlives && !body.recorded && self.records.wanted {
            (body.recorded, body.told) = (true, self.round);
            self.records.put(&Key::Body(body.id), |out| item.content().write(out));
        }
        Some((index, body.id))
    }

    fn insert(&mut self, item: &Item<'_>) -> Option<u32> {
        let Item { topic, properties, payload, expires, .. } = *item;
        let new = NewBody { id: *self.next_body, topic, properties, payload, expires };
        if self.bodies.bytes() + new.bytes() > self.limits.queue_bytes {
            return None;
        }
        *self.next_body = self.next_body.wrapping_add(1).max(1);
        Some(self.bodies.insert(&new))
    }

    /// The message has been given to everybody.
    fn let_go(&mut self) {
        if let Some(body) = self.body.take() {
            release(self.bodies, self.records, body);
        }
    }
}

/// How a message is sent to one client.
struct Outgoing<'o> {
    dup: bool,
    qos: Qos,
    retain: bool,
    id: u16,
    subscriptions: &'o [u32],
}

/// What a message has to say.
trait Says {
    fn says(&self) -> (&str, Option<Time>, &[u8], &[u8]);
}

impl Says for Item<'_> {
    fn says(&self) -> (&str, Option<Time>, &[u8], &[u8]) {
        (self.topic, self.expires, self.properties, self.payload)
    }
}

impl Says for Body {
    fn says(&self) -> (&str, Option<Time>, &[u8], &[u8]) {
        (self.topic(), self.expires, self.properties(), self.payload())
    }
}

impl Outgoing<'_> {
    /// `false`: it is larger than the client takes, and counts as delivered.
    fn send(
        &self,
        now: Time,
        link: LinkId,
        client: &Client,
        message: &impl Says,
        stats: &mut Stats,
        net: &mut impl Effects,
    ) -> bool {
        let (topic, expires, properties, payload) = message.says();
        // Rounded up: a message of which something is left is not of no use yet.
        let left =
            |at: Time| at.since(now).max(Span::ZERO).as_nanos_u64().div_ceil(Span::secs(1).as_nanos_u64());
        let sent = Delivery {
            dup: self.dup,
            qos: self.qos,
            retain: self.retain,
            topic,
            id: self.id,
            alias: None,
            expiry: expires.map(|at| left(at) as u32),
            subscriptions: if client.version == Version::V5 { self.subscriptions } else { &[] },
            properties,
            payload,
        };
        if client.packet_bytes_max != usize::MAX
            && delivery_bytes(client.version, &sent) > client.packet_bytes_max
        {
            stats.dropped += 1;
            return false;
        }
        stats.messages_sent += 1;
        stats.bytes_sent += payload.len() as u64;
        net.append(link, Order::Any, |out| delivery(out, client.version, &sent));
        true
    }
}
