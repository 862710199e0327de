//! One message on its way to sessions: sent at once, or kept until it can be.

use super::flights::release;
use super::{Client, Phase, TROUBLES_MAX, Trouble};
use crate::aliases::{Alias, Aliases};
use crate::bodies::{Bodies, Body, NewBody};
use crate::ids::{BodyId, NO_BODY};
use crate::packet::{Delivery, Qos, Version, delivery, delivery_bytes};
use crate::records::{Content, Key, Records, Waiting};
use crate::session::{Flight, Queued, Session};
use crate::settings::Limits;
use crate::stats::Stats;
use crate::tree::{Entry, Want};
use contract::{Mutant, Span, Time, invariant};
use wire::{Effects, LinkId, Order, Origin};

/// A message as a client gets it.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) topic: &'a str,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) expires: Option<Time>,
    pub(super) properties: &'a [u8],
    pub(super) payload: &'a [u8],
    pub(super) origin: Origin<'a>,
    pub(super) created: Time,
}

impl<'a> Item<'a> {
    pub(super) fn content(&self) -> Content<'a> {
        let Origin { publisher, incarnation, seq } = self.origin;
        let Item { topic, qos, created, expires, properties, payload, .. } = *self;
        Content { topic, qos, created, expires, publisher, incarnation, seq, properties, payload }
    }
}

/// One message on its way to sessions.
pub(super) struct Giving<'g> {
    pub(super) now: Time,
    pub(super) clients: &'g [Option<Box<Client>>],
    pub(super) bodies: &'g mut Bodies,
    /// Of telling a backup.
    pub(super) round: u32,
    pub(super) next_body: &'g mut u64,
    pub(super) records: &'g mut Records,
    pub(super) stats: &'g mut Stats,
    pub(super) limits: &'g Limits,
    /// The body that is kept of it, once somebody has to wait.
    pub(super) body: Option<BodyId>,
    /// Whether a session that outlives its connection has been given it.
    pub(super) recorded: bool,
    /// Whether its publisher can be told that a session has no room for it, where that is configured.
    pub(super) refusable: bool,
    /// Whether a session had none.
    pub(super) refused: bool,
    pub(super) troubles: &'g mut Vec<Trouble>,
}

/// Between two words to the admin about a session's queue.
const FULL_INTERVAL: Span = Span::secs(1);

impl Giving<'_> {
    pub(super) fn give_entry(
        &mut self,
        session: &mut Session,
        item: &Item<'_>,
        entry: &Entry,
        net: &mut impl Effects,
    ) {
        let want = Want::of(&entry.options);
        let number = entry.subscription;
        self.give(session, item, &want, number.as_slice(), net);
    }

    /// Sends a message to a session, or has it wait.
    pub(super) fn give(
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
            let Some(client) = self.clients.get(link.0 as usize).and_then(Option::as_deref) else {
                return invariant!("a session's link is a client's", None);
            };
            matches!(client.phase, Phase::Open { .. }).then_some((link, client))
        });
        if qos == Qos::AtMostOnce {
            // It is for those who are there.
            let Some((link, client)) = client else { return };
            if net.backlog(link) >= session.backlog_bytes(self.limits.backlog_bytes) {
                session.dropped += 1;
                self.stats.dropped += 1;
                return;
            }
            let order = order_of(item.qos);
            let outgoing = Outgoing { dup: false, qos, retain, id: 0, subscriptions: numbers, order };
            outgoing.send(self.now, (link, client), &mut session.aliases, item, self.stats, net);
            return;
        }
        let room = session.has_room();
        match client {
            Some((link, client))
                if room && net.backlog(link) < session.backlog_bytes(self.limits.backlog_bytes) =>
            {
                self.launch(session, link, client, item, (qos, retain, numbers), net);
            }
            Some(_) => self.queue(session, item, qos, retain, numbers),
            None if session.is_persistent() => self.queue(session, item, qos, retain, numbers),
            // It is known for its will alone, or for its client that had a connection to the primary before.
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
        let order = order_of(item.qos);
        let outgoing = Outgoing { dup: false, qos, retain, id, subscriptions, order };
        if !outgoing.send(self.now, (link, client), &mut session.aliases, item, self.stats, net) {
            return;
        }
        let order = session.take_order();
        let subscriptions = subscriptions.into();
        let mut flight = Flight { id, order, body: NO_BODY, qos, retain, received: false, subscriptions };
        // Where there is no room to keep it, it has been sent all the same, and its number is in use.
        if session.keeps_bodies()
            && let Some((body, name)) = self.keep(item, session.is_persistent())
        {
            flight.body = body;
            self.bodies.hold(body);
            if session.is_persistent() {
                self.recorded = true;
                let waiting = Waiting::of_flight(&flight, name);
                if !Mutant::ForgetWaiting.is_on() {
                    self.records.put(&Key::Waiting(&session.client, order), |out| waiting.write(out));
                }
            }
        }
        session.flights.push_back(flight);
    }

    fn queue(&mut self, session: &mut Session, item: &Item<'_>, qos: Qos, retain: bool, numbers: &[u32]) {
        let full = session.queue.len() >= self.limits.queue_messages;
        if full && self.refusable {
            self.refused = true;
            return self.count_lost(session, true);
        }
        if full {
            // There is none where none may wait.
            if let Some(oldest) = session.queue.pop_front() {
                self.records.remove(&Key::Waiting(&session.client, oldest.order));
                release(self.bodies, self.records, oldest.body);
            }
            self.count_lost(session, false);
        }
        let Some((body, name)) = self.keep(item, session.is_persistent()) else {
            self.refused |= self.refusable;
            return self.count_lost(session, self.refusable);
        };
        self.bodies.hold(body);
        let order = session.take_order();
        if session.is_persistent() {
            self.recorded = true;
            let waiting =
                Waiting { body: name, id: 0, qos, retain, received: false, subscriptions: numbers.into() };
            if !Mutant::ForgetWaiting.is_on() {
                self.records.put(&Key::Waiting(&session.client, order), |out| waiting.write(out));
            }
        }
        session.queue.push_back(Queued { order, body, qos, retain, subscriptions: numbers.into() });
    }

    /// A message for a session is lost, or refused to who has published it.
    fn count_lost(&mut self, session: &mut Session, refused: bool) {
        session.dropped += 1;
        self.stats.dropped += 1;
        self.stats.queue_full += 1;
        // A clock that went back must not silence it.
        session.full_told = session.full_told.min(self.now);
        if self.now < session.full_told + FULL_INTERVAL || self.troubles.len() >= TROUBLES_MAX {
            return;
        }
        session.full_told = self.now;
        let (client, dropped) = (session.client.clone(), session.dropped);
        self.troubles.push(Trouble::Full { client, dropped, refused });
    }

    /// Keeps the message for those who wait for it. `outlives`: one of them does not end with its connection, so others are
    /// told. `None`: there is no room.
    fn keep(&mut self, item: &Item<'_>, outlives: bool) -> Option<(BodyId, u64)> {
        let index = match self.body {
            Some(index) => index,
            None => self.insert(item)?,
        };
        self.body = Some(index);
        let Some(body) = self.bodies.get_mut(index) else {
            return invariant!("a body that was kept is there", None);
        };
        if outlives && !body.recorded && self.records.wanted {
            (body.recorded, body.told) = (true, self.round);
            self.records.put(&Key::Body(body.id), |out| item.content().write(out));
        }
        Some((index, body.id))
    }

    fn insert(&mut self, item: &Item<'_>) -> Option<BodyId> {
        let Item { topic, properties, payload, expires, .. } = *item;
        let new = NewBody { id: *self.next_body, topic, properties, payload, expires };
        if self.bodies.bytes() + new.bytes() > self.limits.queue_bytes {
            return None;
        }
        *self.next_body = self.next_body.wrapping_add(1).max(1);
        Some(self.bodies.insert(&new))
    }

    /// The message has been given to everybody.
    pub(super) fn let_go(&mut self) {
        if let Some(body) = self.body.take() {
            release(self.bodies, self.records, body);
        }
    }
}

/// How a message is sent to one client.
pub(super) struct Outgoing<'o> {
    pub(super) dup: bool,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) id: u16,
    pub(super) subscriptions: &'o [u32],
    pub(super) order: Order,
}

/// When a message leaves, by the QoS with which it was published. Who takes over must know of a message of QoS 2 whose it is
/// and which number it has, or it might come again under another.
pub(super) fn order_of(published: Qos) -> Order {
    if published == Qos::ExactlyOnce { Order::Last } else { Order::Any }
}

/// What a message has to say.
pub(super) trait Says {
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
    pub(super) fn send(
        &self,
        now: Time,
        (link, client): (LinkId, &Client),
        aliases: &mut Aliases,
        message: &impl Says,
        stats: &mut Stats,
        net: &mut impl Effects,
    ) -> bool {
        let (topic, expires, properties, payload) = message.says();
        // Rounded up: a message of which something is left is not of no use yet.
        let left =
            |at: Time| at.since(now).max(Span::ZERO).as_nanos_u64().div_ceil(Span::secs(1).as_nanos_u64());
        let mut sent = Delivery {
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
        let fits = |sent: &Delivery<'_>| {
            client.packet_bytes_max == usize::MAX
                || delivery_bytes(client.version, sent) <= client.packet_bytes_max
        };
        let alias = aliases.find(topic);
        match alias {
            Alias::None => {}
            Alias::New(number) => sent.alias = Some(number),
            Alias::Known(number) => (sent.topic, sent.alias) = ("", Some(number)),
        }
        if !fits(&sent) {
            // It may be the new number alone that does not fit.
            (sent.topic, sent.alias) = (topic, None);
            if !matches!(alias, Alias::New(_)) || !fits(&sent) {
                stats.dropped += 1;
                return false;
            }
        } else if let Alias::New(number) = alias {
            aliases.taught(topic, number);
        }
        stats.messages_sent += 1;
        stats.bytes_sent += payload.len() as u64;
        net.append(link, self.order, |out| delivery(out, client.version, &sent));
        true
    }
}
