//! Messages that the broker dispatches, and those that are retained, to whoever wants them.

use super::giving::{Giving, Item};
use super::learn::Highest;
use super::publish::read_trailer;
use super::{Gateway, Routing, Rules};
use crate::ids::{GroupId, RouteId, SessionId};
use crate::packet::Qos;
use crate::records::{Key, Records};
use crate::retained;
use crate::session::{Sessions, Walk};
use crate::stats::Stats;
use crate::tree::{Entry, Matches, Subscriptions};
use contract::{Loss, Mutant, Time, invariant};
use wire::{Effects, MessageFlags, Origin, Routed};

/// What gives a message to sessions. It borrows all of the gateway but the sessions, and what finds them.
macro_rules! giving {
    ($gateway:ident, $now:ident) => {
        Giving {
            now: $now,
            clients: &$gateway.clients,
            bodies: &mut $gateway.bodies,
            round: $gateway.telling.round,
            next_body: &mut $gateway.next_body,
            records: &mut $gateway.records,
            stats: &mut $gateway.stats,
            limits: &$gateway.settings.limits,
            body: None,
            recorded: false,
            refusable: false,
            refused: false,
            troubles: &mut $gateway.troubles,
        }
    };
}

/// Retained messages that are looked at for one session before others have their turn.
const RETAINED_PER_TURN: usize = 64;

/// A message of the broker's own.
pub(super) struct Own<'a> {
    pub(super) topic: &'a str,
    pub(super) payload: &'a [u8],
    pub(super) retain: bool,
}

/// A user property `verge-mark`, as it is written, for each mark; and both.
const OUT_OF_DATE: &[u8] = b"\x26\x00\x0averge-mark\x00\x0bout-of-date";
const APART: &[u8] = b"\x26\x00\x0averge-mark\x00\x05apart";
const BOTH: &[u8] = b"\x26\x00\x0averge-mark\x00\x0bout-of-date\x26\x00\x0averge-mark\x00\x05apart";

/// What clients of MQTT 5 are told of a message's marks. What operators make has no other properties.
fn marked(marks: MessageFlags) -> &'static [u8] {
    match (marks.contains(MessageFlags::OUT_OF_DATE), marks.contains(MessageFlags::APART)) {
        (true, true) => BOTH,
        (true, false) => OUT_OF_DATE,
        (false, true) => APART,
        (false, false) => &[],
    }
}

/// Messages of other protocols whose losses are bounded are delivered as surely as subscribers want.
fn qos_of(message: &Routed<'_>) -> Qos {
    if message.truths.contains(MessageFlags::EXACTLY_ONCE) {
        Qos::ExactlyOnce
    } else if message.truths.contains(MessageFlags::AT_LEAST_ONCE) {
        Qos::AtLeastOnce
    } else if message.origin.publisher.starts_with("mqtt:") || message.contract.loss == Loss::Unbounded {
        Qos::AtMostOnce
    } else {
        Qos::AtLeastOnce
    }
}

impl<R: Rules> Gateway<R> {
    /// A topic of the broker has come. Returns its number here, and how many subscribers it has.
    pub fn route(&mut self, topic: &str) -> (RouteId, u32) {
        let receivers = self.receivers(topic);
        let routing = Routing { topic: topic.into(), matches: Matches::default(), generation: u64::MAX };
        let route = self.routes.insert(routing);
        self.routed.insert(topic.into(), route);
        (route, receivers)
    }

    /// The topic has gone.
    pub fn unroute(&mut self, route: RouteId) {
        let Some(routing) = self.routes.remove(route) else {
            return invariant!("a topic that was given a route has it");
        };
        self.given.remove(&routing.topic);
        self.routed.remove(&routing.topic);
    }

    /// Topics whose subscriptions have changed are matched anew.
    #[inline]
    fn match_anew(&mut self) {
        while let Some(topic) = self.subscriptions.take_changed() {
            // Nobody may have published on it yet.
            let Some(route) = self.routed.get(&topic) else { continue };
            match self.routes.get_mut(*route) {
                Some(routing) => routing.generation = u64::MAX,
                None => invariant!("a topic that was given a route has it"),
            }
        }
    }

    /// A topic is matched again if what was found may not be true any more.
    #[inline]
    fn match_route(&mut self, route: RouteId) {
        let Some(routing) = self.routes.get_mut(route) else {
            return invariant!("a topic that was given a route has it");
        };
        if routing.generation != self.subscriptions.generation() {
            self.subscriptions.matches(&routing.topic, &mut routing.matches);
            routing.generation = self.subscriptions.generation();
        }
    }

    /// A message is dispatched.
    pub fn deliver(&mut self, now: Time, route: RouteId, message: &Routed<'_>, net: &mut impl Effects) {
        self.match_anew();
        self.match_route(route);
        let (expires, properties) = read_trailer(self.steps.stamp(message.created), message.trailer);
        let properties = if properties.is_empty() { marked(message.marks) } else { properties };
        let Some(routing) = self.routes.get(route) else {
            return invariant!("a topic that was given a route has it");
        };
        if routing.matches.is_empty() && !message.truths.contains(MessageFlags::RETAIN) {
            return;
        }
        let item = Item {
            topic: &routing.topic,
            qos: qos_of(message),
            retain: message.truths.contains(MessageFlags::RETAIN),
            expires,
            properties,
            payload: message.payload,
            origin: message.origin,
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
        let highest = || self.given.get(&routing.topic)?.get(message.origin.publisher);
        let given = message.again && highest().is_some_and(|highest| highest.covers(message));
        let mut giving = giving!(self, now);
        giving.refusable = giving.limits.refuses_when_full
            && !message.again
            && message.truths.contains(MessageFlags::AT_LEAST_ONCE);
        for row in routing.matches.rows() {
            let Some(session) = self.sessions.get_mut(row.session) else {
                invariant!("who subscribes has a session");
                continue;
            };
            let own = *session.publisher == *message.origin.publisher;
            // Who has published it may not want it back.
            let Some(want) = (if own { row.own } else { Some(row.others) }) else { continue };
            if !(given && session.is_persistent()) {
                giving.give(session, &item, &want, routing.matches.subscriptions(&want), net);
            }
        }
        for &group in routing.matches.groups() {
            let chosen = next_of_group(&self.sessions, &mut self.subscriptions, group);
            let member = chosen.and_then(|(member, entry)| Some((self.sessions.get_mut(member)?, entry)));
            let Some((session, entry)) = member else {
                invariant!("a group that was found has a member, which has a session");
                continue;
            };
            if !(given && session.is_persistent()) {
                giving.give_entry(session, &item, &entry, net);
            }
        }
        giving.let_go();
        if giving.refused {
            // Clients of other protocols do not wait for word, and a session may have ended.
            let owner = self.owners.get(message.stream.place());
            let session = owner.and_then(|owner| self.sessions.get(*owner));
            if session.is_some_and(|session| session.pending.contains(message.stream, message.origin.seq)) {
                self.unheld.insert((message.stream, message.origin.seq));
            }
        }
        if giving.recorded {
            let most = self.settings.limits.subscriptions;
            let Origin { publisher, incarnation, seq } = message.origin;
            let highest = Highest { incarnation, seq };
            super::learn::note_given(&mut self.given, most, &routing.topic, publisher, highest);
        }
    }

    /// A session is to be given what is retained for a filter that it has just subscribed; [`Gateway::walk_retained`] does it.
    pub(super) fn give_retained(&mut self, index: SessionId, filter: &str, entry: &Entry) {
        let most = self.settings.limits.subscriptions_per_session;
        // Most filters mean one topic, and most topics retain nothing.
        if !filter.contains(['+', '#']) && self.retained.get(filter, Time::ZERO).is_none() {
            return;
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who subscribes has a session");
        };
        session.walks.retain(|walk| *walk.filter != *filter);
        if session.walks.len() >= most {
            return;
        }
        session.walks.push_back(Walk::new(filter, *entry));
    }

    /// Goes on with sessions that are being given what is retained. Returns how many units of work that was.
    pub fn walk_on(&mut self, now: Time, net: &mut impl Effects) -> usize {
        let Some(index) = self.walking.pop_front() else { return 0 };
        self.walk_retained(now, index, net);
        RETAINED_PER_TURN
    }

    /// Goes on giving a session what is retained: some of it now, and the rest in further turns.
    pub(super) fn walk_retained(&mut self, now: Time, index: SessionId, net: &mut impl Effects) {
        let Gateway { retained, sessions, walking, .. } = self;
        // Since it was put among those whose turn comes, it may have ended, or its client have gone.
        let Some(session) = sessions.get_mut(index).filter(|session| !session.walks.is_empty()) else {
            return;
        };
        let Some(link) = session.link else { return };
        let mut giving = giving!(self, now);
        let mut looks = 0;
        while let Some(mut walk) = session.walks.pop_front() {
            if looks == RETAINED_PER_TURN {
                if !walking.contains(&index) {
                    walking.push_back(index);
                }
                return session.walks.push_front(walk);
            }
            looks += 1;
            let answered = walk.entry.options.qos != Qos::AtMostOnce;
            if net.backlog(link) >= session.backlog_bytes(giving.limits.backlog_bytes)
                || (answered && !session.has_room())
            {
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
                    origin: Origin {
                        publisher: &message.origin.publisher,
                        incarnation: 0,
                        seq: message.origin.seq,
                    },
                    created: message.origin.created,
                };
                giving.give_entry(session, &item, entry, net);
                giving.let_go();
            });
            if more {
                session.walks.push_front(walk);
            }
        }
        if session.walks_recorded {
            self.record_session(index);
        }
    }

    /// Whose turn it is in a group.
    pub(super) fn next_of_group(&mut self, group: GroupId) -> Option<(SessionId, Entry)> {
        next_of_group(&self.sessions, &mut self.subscriptions, group)
    }

    /// Gives a session one message.
    pub(super) fn give_one(
        &mut self,
        now: Time,
        index: SessionId,
        item: &Item<'_>,
        entry: &Entry,
        net: &mut impl Effects,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who subscribes has a session");
        };
        let mut giving = giving!(self, now);
        giving.give_entry(session, item, entry, net);
        giving.let_go();
    }

    /// Gives a session a message of the broker's own.
    pub(super) fn give_own(
        &mut self,
        now: Time,
        index: SessionId,
        own: &Own<'_>,
        entry: &Entry,
        net: &mut impl Effects,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who subscribes has a session");
        };
        let mut giving = giving!(self, now);
        let entry = Entry {
            options: crate::packet::Options { retain_as_published: true, ..entry.options },
            ..*entry
        };
        let Own { topic, payload, retain } = *own;
        let (properties, origin) = (&[][..], Origin::default());
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
}

/// What is known of where a retained message is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub(crate) publisher: Box<str>,
    pub(crate) seq: u64,
    pub(crate) created: Time,
}

/// Whose turn it is in a group: one that is connected, or else any.
fn next_of_group(
    sessions: &Sessions,
    subscriptions: &mut Subscriptions,
    group: GroupId,
) -> Option<(SessionId, Entry)> {
    let connected = |member| sessions.get(member).is_some_and(|session| session.link.is_some());
    let chosen = subscriptions.next_member(group, connected);
    chosen.or_else(|| subscriptions.next_member(group, |member| sessions.get(member).is_some()))
}

/// Keeps a message for subscribers to come; an empty one clears the topic.
fn retain(
    retained: &mut retained::Retained<Source>,
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
    let Origin { publisher, seq, .. } = item.origin;
    let origin = Source { publisher: publisher.into(), seq, created: item.created };
    let Item { payload, properties, qos, expires, .. } = *item;
    if retained.set(item.topic, retained::New { payload, properties, qos, expires, origin }).is_err() {
        stats.retained_refused += 1;
        // What was there before would be taken for the newest.
        if retained.clear(item.topic) {
            records.remove(&Key::Retained(item.topic));
        }
        return;
    }
    if !Mutant::ForgetKept.is_on() {
        records.put(&Key::Retained(item.topic), |out| item.content().write(out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// User properties as they are read from a packet.
    fn read(mut bytes: &[u8]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        while let Some((kind, mut rest)) = bytes.split_first() {
            assert_eq!(*kind, 0x26, "a user property");
            let mut text = || {
                let (length, text) = rest.split_first_chunk::<2>().unwrap();
                let (text, more) = text.split_at(u16::from_be_bytes(*length).into());
                rest = more;
                String::from_utf8(text.to_vec()).unwrap()
            };
            found.push((text(), text()));
            bytes = rest;
        }
        found
    }

    #[test]
    fn marks_are_user_properties() {
        let marked = |marks: MessageFlags| {
            let found = read(marked(marks));
            found.into_iter().map(|(name, mark)| format!("{name} {mark}")).collect::<Vec<_>>()
        };
        let (late, apart) = (MessageFlags::OUT_OF_DATE, MessageFlags::APART);
        assert_eq!(marked(MessageFlags::NONE), Vec::<String>::new());
        assert_eq!(marked(late), ["verge-mark out-of-date"]);
        assert_eq!(marked(apart), ["verge-mark apart"]);
        assert_eq!(marked(late.with(apart)), ["verge-mark out-of-date", "verge-mark apart"]);
    }
}
