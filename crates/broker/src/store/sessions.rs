//! Subscribers. A session outlives its connection for a while, and a backup has the sessions of its primary, so that a
//! subscriber which is just changing brokers or reconnecting misses nothing that is still there.

use crate::store::ids::SessionId;
use crate::store::pace::Pace;
use crate::store::table::Subscribers;
use contract::rounds::LAST_BACKLOG;
use contract::{Filters, Mutant, Needs, StreamId, Ticket, Time, TopicFilter, TrafficClass};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use wire::LinkId;
use wire::limits::SITE_BULK;

/// A message that waits for a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deferred {
    pub(crate) stream: StreamId,
    pub(crate) ticket: Ticket,
    /// Since when it waits.
    pub(crate) since: Time,
}

/// A filter that a subscriber has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// How many of its subscriber's numbers mean it.
    pub(crate) uses: u32,
    pub(crate) needs: Needs,
}

#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Box<str>,
    pub(crate) incarnation: u64,
    pub(crate) link: Option<LinkId>,
    pub(crate) filters: BTreeMap<TopicFilter, Wanted>,
    /// What they would take alone; see [`contract::filter_bytes`].
    pub(crate) bytes: usize,
    /// Whether any of them needs something beyond contracts.
    pub(crate) needy: bool,
    /// Whether it is served as best effort: all of it, or nothing.
    pub(crate) best_effort: bool,
    /// The class that all of its filters are of.
    pub(crate) class: Option<TrafficClass>,
    /// Its turn among those comes.
    pub(crate) has_turn: bool,
    /// The subscriber's numbers for its filters, on its present link.
    pub(crate) numbers: BTreeMap<u32, TopicFilter>,
    /// Messages that wait until its connection has room, or is there at all. The oldest are dropped first.
    pub(crate) deferred: VecDeque<Deferred>,
    /// Messages dropped because it did not read.
    pub(crate) dropped: u64,
    /// How fast it reads.
    pub(crate) pace: Pace,
    /// Whether the primary has named it.
    pub(crate) shared: bool,
    /// It has just come back, and what it had not confirmed is being looked for; what is new waits behind that.
    pub(crate) resuming: bool,
    pub(crate) began: Time,
    /// Since when it has no connection.
    pub(crate) detached_at: Time,
    /// It is that of a site's link from which nothing has come for a while.
    pub(crate) away: bool,
}

impl Session {
    /// Keeps a message for later. Returns the oldest one if it had to go.
    pub(crate) fn defer(&mut self, message: Deferred, limit: usize) -> Option<Deferred> {
        let limit = if Mutant::DeferWithoutLimit.is_on() { usize::MAX } else { limit };
        let oldest = if self.deferred.len() >= limit { self.deferred.pop_front() } else { None };
        self.deferred.push_back(message);
        oldest
    }

    /// Its subscriber calls a filter by this number, and not the one any more that it called so before.
    pub(crate) fn bind(&mut self, number: u32, filter: &TopicFilter) {
        self.unbind(number);
        self.numbers.insert(number, filter.clone());
        self.want(filter).uses += 1;
    }

    /// What it wants of a filter, which it may not have had yet.
    pub(crate) fn want(&mut self, filter: &TopicFilter) -> &mut Wanted {
        if !self.filters.contains_key(filter) {
            self.bytes += contract::filter_bytes(filter.as_str());
        }
        self.filters.entry(filter.clone()).or_default()
    }

    /// It wants nothing of a filter any more.
    pub(crate) fn forget(&mut self, filter: &TopicFilter) {
        if self.filters.remove(filter).is_some() {
            self.bytes -= contract::filter_bytes(filter.as_str());
        }
    }

    /// Why it cannot have a filter besides those that it has, of which there may be so many.
    pub(crate) fn lacks_room(&self, filter: &TopicFilter, limit: usize) -> Option<String> {
        if self.filters.contains_key(filter) {
            return None;
        }
        if self.filters.len() >= limit {
            return Some(format!(
                "the client has {limit} filters, its limit: raise limits.filters_per_session"
            ));
        }
        let (needed, most) =
            (self.bytes + contract::filter_bytes(filter.as_str()), contract::filters_bytes_max(limit));
        (needed > most).then(|| {
            format!(
                "the client's filters would take {needed} bytes of memory, and limits.filters_per_session allows {most}: use shorter ones \
                 or ones with fewer levels, or raise it"
            )
        })
    }

    /// Its filters have changed.
    pub(crate) fn sum_up(&mut self) {
        self.needy = self.filters.values().any(|wanted| !wanted.needs.is_none());
        self.best_effort = self.needy && self.filters.values().any(|wanted| wanted.needs.best_effort);
        self.class = self.filters.values().find_map(|wanted| wanted.needs.class);
    }

    /// Whether it gets a topic of this class that its filters mean.
    pub(crate) fn takes(&self, topic: &str, class: TrafficClass) -> bool {
        !is_own(&self.client, topic) && self.class.is_none_or(|own| own == class)
    }

    /// Whether a message may go there as soon as it comes: nothing older waits, and it has no turn to wait for.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.deferred.is_empty() && !self.resuming && !self.best_effort
    }

    /// Bytes that may wait on its connection, where so many usually may.
    pub(crate) fn usual(&self, usual: usize) -> usize {
        if self.best_effort { usual.min(LAST_BACKLOG) } else { usual }
    }

    /// What it needs of a topic, of all its filters together that mean it.
    pub(crate) fn needs_of<'s>(&'s self, topic: &'s str) -> impl Iterator<Item = Needs> + 's {
        let filters = self.filters.iter().filter(|_| self.needy);
        let meant = filters.filter(move |(filter, wanted)| !wanted.needs.is_none() && filter.matches(topic));
        meant.map(|(_, wanted)| wanted.needs)
    }

    /// The number means nothing any more. Returns the filter that it meant, and whether no other number means that.
    pub(crate) fn unbind(&mut self, number: u32) -> Option<(TopicFilter, bool)> {
        let filter = self.numbers.remove(&number)?;
        let uses = self.filters.get_mut(&filter);
        let left = uses.map_or(0, |wanted| {
            wanted.uses = wanted.uses.saturating_sub(1);
            wanted.uses
        });
        Some((filter, left == 0))
    }

    /// It has lost its connection, and the numbers that meant something there.
    pub(crate) fn detach(&mut self, now: Time) {
        (self.link, self.detached_at) = (None, now);
        self.numbers.clear();
        self.filters.values_mut().for_each(|wanted| wanted.uses = 0);
    }

    /// Whether it has filters, and its subscriber calls none of them by a number: it has not asked for any since it came back.
    pub(crate) fn is_left(&self) -> bool {
        !self.filters.is_empty() && self.filters.values().all(|wanted| wanted.uses == 0)
    }

    /// Whether any of its subscriber's numbers means this filter.
    pub(crate) fn calls(&self, filter: &TopicFilter) -> bool {
        self.filters.get(filter).is_some_and(|wanted| wanted.uses > 0)
    }
}

/// Whether a topic is the own one of a site whose link subscribes it. At a router, a site's topics stand below its name; its links there are called
/// like the site, with `@` before it, and perhaps `/bulk` after it. At the site's own brokers they are called otherwise.
pub(crate) fn is_own(client: &str, topic: &str) -> bool {
    let site = client.strip_prefix('@').map(|name| name.strip_suffix(SITE_BULK).unwrap_or(name));
    let below = site.and_then(|site| topic.strip_prefix(site));
    below.is_some_and(|rest| rest.starts_with('/'))
}

/// All sessions, by a number that stays the same while they live.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Session>>,
    /// Numbers that may be given again, the lowest first.
    free: BinaryHeap<Reverse<SessionId>>,
    by_client: BTreeMap<Box<str>, SessionId>,
    /// Sessions by filter, to find those that want a topic. It may still have some that have ended.
    by_filter: Filters<BTreeSet<SessionId>>,
}

impl Sessions {
    pub(crate) fn find(&self, client: &str) -> Option<SessionId> {
        self.by_client.get(client).copied()
    }

    pub(crate) fn insert(&mut self, session: Session) -> SessionId {
        let index = self.free.pop().map_or(self.slots.len(), |Reverse(index)| index.place());
        if index == self.slots.len() {
            self.slots.push(None);
        }
        self.by_client.insert(session.client.clone(), SessionId(index as u32));
        self.slots[index] = Some(session);
        SessionId(index as u32)
    }

    /// Ends a session. Its filters still lead to its number, and topics still have it, so the number must not be given again
    /// before both have been cleared of it; see [`Sessions::release`].
    pub(crate) fn remove(&mut self, index: SessionId) -> Option<Session> {
        let session = self.slots.get_mut(index.place())?.take()?;
        self.by_client.remove(&session.client);
        Some(session)
    }

    /// Nothing leads to the number of an ended session any more.
    pub(crate) fn release(&mut self, index: SessionId) {
        self.free.push(Reverse(index));
    }

    pub(crate) fn get(&self, index: SessionId) -> Option<&Session> {
        self.slots.get(index.place())?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: SessionId) -> Option<&mut Session> {
        self.slots.get_mut(index.place())?.as_mut()
    }

    /// From now on a session is found by this filter.
    pub(crate) fn index(&mut self, index: SessionId, filter: &TopicFilter) {
        self.by_filter.change(filter.as_str(), |sessions| sessions.insert(index));
    }

    /// The filter does not lead to the session any more.
    pub(crate) fn unindex(&mut self, index: SessionId, filter: &TopicFilter) {
        self.by_filter.change(filter.as_str(), |sessions| sessions.remove(&index));
    }

    /// Those that want a topic, by number.
    pub(crate) fn wanting(&self, topic: &str, class: TrafficClass) -> Subscribers {
        let mut wanting = Subscribers::new();
        self.by_filter.each(topic, |sessions| wanting.extend(sessions.iter().copied()));
        wanting.sort_unstable();
        wanting.dedup();
        wanting.retain(|index| self.get(*index).is_some_and(|session| session.takes(topic, class)));
        wanting
    }

    /// Those that subscribe a filter, as it is.
    pub(crate) fn of_filter(&self, filter: &str) -> impl Iterator<Item = SessionId> {
        let sessions = self.by_filter.get(filter).into_iter().flatten();
        sessions.copied().filter(|index| self.get(*index).is_some())
    }

    /// Numbers that sessions have, or had.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// Whether one of a session's filters means a topic.
    pub(crate) fn wants(&self, index: SessionId, topic: &str) -> bool {
        self.by_filter.find(topic, &mut |sessions, _| sessions.contains(&index))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_client.len()
    }

    /// What the tree of filters takes of memory, about.
    pub(crate) fn tree_bytes(&self) -> usize {
        self.by_filter.bytes()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.iter_from(SessionId(0))
    }

    /// Those from this number on.
    pub(crate) fn iter_from(&self, first: SessionId) -> impl Iterator<Item = (SessionId, &Session)> {
        let slots = self.slots.iter().enumerate().skip(first.place());
        slots.filter_map(|(index, slot)| slot.as_ref().map(|session| (SessionId(index as u32), session)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut Session)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(index, slot)| slot.as_mut().map(|session| (SessionId(index as u32), session)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_gets_what_stands_below_other_names() {
        for (client, topic, own) in [
            ("@north", "north/pump", true),
            ("@north/bulk", "north/pump", true),
            ("@north/out", "north/pump", false),
            ("@north", "north", false),
            ("@north", "northern/pump", false),
            ("@north", "south/north/pump", false),
            ("north", "north/pump", false),
            ("@", "/pump", true),
        ] {
            assert_eq!(is_own(client, topic), own, "{client} {topic}");
        }
    }
}
