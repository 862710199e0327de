//! Subscribers come and go.

use crate::broker::{Broker, Outputs};
use crate::events::Event;
use crate::links::Party;
use crate::pace::Pace;
use crate::sessions::{Deferred, Session};
use crate::table::Topic;
use contract::{Mutant, Time, TopicFilter};
use std::collections::VecDeque;
use wire::{Frame, LinkId};

/// Subscribers of one confirmed topic: one bit each.
pub(crate) const CONFIRMING_MAX: usize = u64::BITS as usize;

impl Broker {
    /// A client wants the topics of a filter.
    pub(crate) fn subscribe(
        &mut self,
        now: Time,
        from: LinkId,
        number: u32,
        filter: &str,
        out: &mut impl Outputs,
    ) {
        let result = self.try_subscribe(now, from, number, filter, out);
        let result = result.as_ref().map_err(String::as_str).copied();
        self.answer_subscription(from, number, filter, result, out);
    }

    /// Says what came of a client's wish for a filter.
    pub(crate) fn answer_subscription(
        &mut self,
        from: LinkId,
        number: u32,
        filter: &str,
        result: Result<(), &str>,
        out: &mut impl Outputs,
    ) {
        let (admitted, text) = (result.is_ok(), result.err().unwrap_or(""));
        if !admitted {
            self.stats.refused += 1;
            let client = self.links.get(from).map_or("", |link| &link.name);
            out.report(&Event::SubscriptionRefused { client, filter, reason: text });
        }
        let reigns = self.pair.is_primary();
        out.send(from, &Frame::Subscribed { number, admitted, reigns, text });
    }

    fn try_subscribe(
        &mut self,
        now: Time,
        from: LinkId,
        number: u32,
        filter: &str,
        out: &mut impl Outputs,
    ) -> Result<(), String> {
        if Mutant::RefuseSubscriptions.is_on() {
            return Err(String::new());
        }
        let parsed: TopicFilter = filter.parse().map_err(|error: contract::TopicError| error.to_string())?;
        let Some(link) = self.links.get(from) else { return Ok(()) };
        let (client, incarnation) = (link.name.clone(), link.incarnation);
        let index = self.take_session(now, &client, incarnation, Some(from), out)?;
        if let Some(session) = self.sessions.get_mut(index) {
            session.numbers.retain(|(other, _)| *other != number);
            if session.numbers.len() >= self.settings.limits.filters_per_session {
                return Err(format!(
                    "the client has {} subscriptions, its limit: raise limits.filters_per_session",
                    session.numbers.len()
                ));
            }
            session.numbers.push((number, parsed.clone()));
        }
        if let Err(reason) = self.add_filter(now, index, &parsed) {
            if let Some(session) = self.sessions.get_mut(index) {
                session.numbers.retain(|(other, _)| *other != number);
            }
            return Err(reason);
        }
        if let Some(partner) = self.pair.backup() {
            out.send(partner.link, &Frame::Session { incarnation, present: true, client: &client, filter });
        }
        Ok(())
    }

    /// A client no longer wants the topics of a filter.
    pub(crate) fn unsubscribe(&mut self, from: LinkId, number: u32, out: &mut impl Outputs) {
        let Some(index) = self.links.get(from).and_then(|link| link.session()) else { return };
        let Some(session) = self.sessions.get_mut(index) else { return };
        let Some(at) = session.numbers.iter().position(|(other, _)| *other == number) else { return };
        let (_, filter) = session.numbers.swap_remove(at);
        if session.numbers.iter().any(|(_, other)| *other == filter) {
            return;
        }
        self.tell_backup_of_end(index, filter.as_str(), out);
        self.remove_filter(index, &filter, out);
    }

    /// A client has greeted; if it was here before, its session goes on where it stopped.
    pub(crate) fn attach(&mut self, now: Time, from: LinkId, out: &mut impl Outputs) {
        let Some(link) = self.links.get(from) else { return };
        let (name, incarnation) = (link.name.clone(), link.incarnation);
        if self.sessions.find(&name).is_none() {
            return;
        }
        if let Ok(index) = self.take_session(now, &name, incarnation, Some(from), out) {
            self.offer_again(now, index);
            self.send_deferred(now, index, out);
        }
    }

    /// The session of a client, made if need be. A new life of the client begins with nothing.
    fn take_session(
        &mut self,
        now: Time,
        client: &str,
        incarnation: u64,
        link: Option<LinkId>,
        out: &mut impl Outputs,
    ) -> Result<u32, String> {
        let known = self.sessions.find(client);
        let outlived =
            known.filter(|index| self.sessions.get(*index).is_some_and(|s| s.incarnation < incarnation));
        if let Some(index) = outlived {
            self.remove_session(index, out);
        }
        let index = match self.sessions.find(client) {
            Some(index) => index,
            None if self.sessions.len() >= self.settings.limits.sessions => {
                return Err(format!(
                    "the broker serves {} subscribers, its limit: raise limits.sessions",
                    self.sessions.len()
                ));
            }
            None => self.sessions.insert(Session {
                client: client.into(),
                incarnation,
                link: None,
                filters: Vec::new(),
                numbers: Vec::new(),
                deferred: VecDeque::new(),
                dropped: 0,
                pace: Pace::new(now, self.settings.limits.subscriber_backlog_bytes),
                shared: false,
                began: now,
                detached_at: now,
            }),
        };
        if let (Some(link), Some(session)) = (link, self.sessions.get_mut(index)) {
            if session.link != Some(link) {
                session.pace.reconnected(now, self.settings.limits.subscriber_backlog_bytes, session.dropped);
            }
            session.link = Some(link);
            if let Some(state) = self.links.get_mut(link) {
                state.party = Party::Client { session: Some(index) };
            }
        }
        Ok(index)
    }

    /// Adds a filter to a session, if what it adds to the load can be served.
    fn add_filter(&mut self, now: Time, index: u32, filter: &TopicFilter) -> Result<(), String> {
        let limit = self.settings.limits.filters_per_session;
        let Some(session) = self.sessions.get_mut(index) else { return Ok(()) };
        if session.filters.contains(filter) {
            return Ok(());
        }
        if session.filters.len() >= limit {
            return Err(format!(
                "the client has {limit} filters, its limit: raise limits.filters_per_session"
            ));
        }
        let wanted = |name: &str| filter.matches(name) && !session.wants(name);
        let topics: Vec<u32> = self
            .table
            .topics()
            .filter(|(_, topic)| wanted(topic.name.as_str()))
            .map(|(topic, _)| topic)
            .collect();
        let full = |topic: &u32| {
            self.table
                .topic(*topic)
                .is_some_and(|t| t.contract.confirm && t.subscribers.len() >= CONFIRMING_MAX)
        };
        if topics.iter().any(full) {
            return Err(format!("a confirmed topic has {CONFIRMING_MAX} subscribers, its limit"));
        }
        session.filters.push(filter.clone());
        session.began = now;
        topics
            .iter()
            .for_each(|topic| self.change_subscribers(*topic, |topic| topic.subscribers.push(index)));
        let checked = self.pair.is_primary() && self.settings.schedulability && !self.is_baseline();
        if checked && let Some(overload) = self.admission.overload() {
            topics.iter().for_each(|topic| {
                self.change_subscribers(*topic, |topic| {
                    topic.subscribers.pop();
                });
            });
            if let Some(session) = self.sessions.get_mut(index) {
                session.filters.pop();
            }
            return Err(format!(
                "not schedulable with one more subscriber of {} topics: {overload}; narrow the filter",
                topics.len()
            ));
        }
        Ok(())
    }

    /// Changes who subscribes a topic, and the load with it.
    pub(crate) fn change_subscribers(&mut self, topic: u32, change: impl FnOnce(&mut Topic)) {
        let Some(entry) = self.table.topic(topic) else { return };
        let (plan, contract, before) = (entry.plan, entry.contract, entry.receivers());
        let admitted = entry
            .streams
            .iter()
            .filter(|s| self.table.stream(**s).is_some_and(|s| s.record.admitted))
            .count();
        let Some(mut entry) = self.table.topic_mut(topic) else { return };
        change(&mut entry);
        let after = entry.receivers();
        drop(entry);
        for _ in 0..admitted {
            self.admission.uncount(&plan, &contract, before);
            self.admission.count(&plan, &contract, after);
        }
    }

    fn remove_filter(&mut self, index: u32, filter: &TopicFilter, out: &mut impl Outputs) {
        let Some(session) = self.sessions.get_mut(index) else { return };
        session.filters.retain(|other| other != filter);
        let dropped = |name: &str| filter.matches(name) && !session.wants(name);
        let topics: Vec<u32> = self
            .table
            .topics()
            .filter(|(_, topic)| dropped(topic.name.as_str()))
            .map(|(topic, _)| topic)
            .collect();
        topics.into_iter().for_each(|topic| self.remove_subscriber(topic, index, out));
    }

    /// Takes a session out of a topic. Messages that only it has not confirmed are settled.
    fn remove_subscriber(&mut self, topic: u32, session: u32, out: &mut impl Outputs) {
        let Some(entry) = self.table.topic(topic) else { return };
        let Some(position) = entry.subscribers.iter().position(|other| *other == session) else { return };
        let streams = entry.streams.clone();
        self.change_subscribers(topic, |topic| {
            topic.subscribers.remove(position);
        });
        for index in streams {
            let Some(stream) = self.table.stream_mut(index) else { continue };
            for ticket in stream.ring.tickets() {
                let Some(stream) = self.table.stream_mut(index) else { continue };
                let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
                slot.unconfirmed = without_bit(slot.unconfirmed, position);
                if slot.is_complete() {
                    self.settle(index, ticket, out);
                }
            }
        }
    }

    /// Forgets a session.
    pub(crate) fn end_session(&mut self, index: u32, out: &mut impl Outputs) {
        self.tell_backup_of_end(index, "", out);
        self.remove_session(index, out);
    }

    /// The same where the backup need not be told, since the client begins anew.
    fn remove_session(&mut self, index: u32, out: &mut impl Outputs) {
        let subscribed = self.table.topics().filter(|(_, topic)| topic.subscribers.contains(&index));
        let topics: Vec<u32> = subscribed.map(|(topic, _)| topic).collect();
        topics.into_iter().for_each(|topic| self.remove_subscriber(topic, index, out));
        self.sessions.remove(index);
    }

    fn tell_backup_of_end(&self, index: u32, filter: &str, out: &mut impl Outputs) {
        let Some(session) = self.sessions.get(index) else { return };
        if let Some(partner) = self.pair.backup() {
            let (incarnation, client) = (session.incarnation, &*session.client);
            out.send(partner.link, &Frame::Session { incarnation, present: false, client, filter });
        }
    }

    /// The primary tells of a client's subscription; an empty filter means all of them.
    #[expect(clippy::too_many_arguments, reason = "the fields of one frame")]
    pub(crate) fn learn_session(
        &mut self,
        now: Time,
        from: LinkId,
        client: &str,
        incarnation: u64,
        filter: &str,
        present: bool,
        out: &mut impl Outputs,
    ) {
        if self.pair.primary_link() != Some(from) || Mutant::IgnoreSessions.is_on() {
            return;
        }
        let parsed: Option<TopicFilter> = filter.parse().ok();
        if present {
            if let (Ok(index), Some(filter)) =
                (self.take_session(now, client, incarnation, None, out), parsed)
            {
                if let Some(session) = self.sessions.get_mut(index) {
                    session.shared = true;
                }
                // The primary has judged it; a limit that is lower here is a matter of configuration.
                let _ = self.add_filter(now, index, &filter);
            }
            return;
        }
        let Some(index) = self.sessions.find(client) else { return };
        let Some(session) = self.sessions.get(index) else { return };
        let here =
            session.numbers.iter().any(|(_, other)| Some(other) == parsed.as_ref()) && session.link.is_some();
        match parsed {
            Some(filter) if !here => self.remove_filter(index, &filter, out),
            None if session.link.is_none() => self.end_session(index, out),
            _ => {}
        }
    }

    /// Confirmed topics: what a subscriber had not confirmed when its connection broke is sent again.
    fn offer_again(&mut self, now: Time, index: u32) {
        let Broker { table, sessions, settings, .. } = self;
        let Some(session) = sessions.get_mut(index).filter(|_| !Mutant::OfferOnce.is_on()) else { return };
        for (_, topic) in table.topics().filter(|(_, topic)| topic.contract.confirm) {
            let Some(position) = topic.subscribers.iter().position(|other| *other == index) else { continue };
            let bit = 1_u64.checked_shl(position as u32).unwrap_or(0);
            for stream in &topic.streams {
                let Some(entry) = table.stream(*stream) else { continue };
                for ticket in entry.ring.tickets() {
                    let missing = |slot: &&crate::ring::Slot| slot.unconfirmed & bit != 0;
                    if entry.ring.slot(ticket).filter(missing).is_some() {
                        session.defer(
                            Deferred { stream: *stream, ticket, since: now },
                            settings.limits.deferred_per_subscriber,
                        );
                    }
                }
            }
        }
    }
}

/// The set without the bit at `position`; the bits above move down, as the subscribers do.
fn without_bit(set: u64, position: usize) -> u64 {
    if position >= CONFIRMING_MAX {
        return set;
    }
    let below = (1_u64 << position) - 1;
    (set & below) | (set >> 1 & !below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_bit_moves_the_higher_ones_down() {
        assert_eq!(without_bit(0b1011, 1), 0b101);
        assert_eq!(without_bit(0b1011, 0), 0b101);
        assert_eq!(without_bit(u64::MAX, 63), u64::MAX >> 1);
        assert_eq!(without_bit(0b1, 64), 0b1);
    }
}
