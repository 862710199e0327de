//! Subscribers. A session outlives its connection for a while, and a backup has the sessions of its primary, so that a
//! subscriber which is just changing brokers or reconnecting misses nothing that is still there.

use crate::pace::Pace;
use contract::{Mutant, Time, TopicFilter};
use std::collections::{BTreeMap, VecDeque};
use wire::LinkId;

/// A message that waits for a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deferred {
    pub(crate) stream: u32,
    pub(crate) ticket: u32,
    /// Since when it waits.
    pub(crate) since: Time,
}

#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Box<str>,
    pub(crate) incarnation: u64,
    pub(crate) link: Option<LinkId>,
    pub(crate) filters: Vec<TopicFilter>,
    /// The subscriber's numbers for its filters, on its present link.
    pub(crate) numbers: Vec<(u32, TopicFilter)>,
    /// Messages that wait until its connection has room, or is there at all. The oldest are dropped first.
    pub(crate) deferred: VecDeque<Deferred>,
    /// Messages dropped because it did not read.
    pub(crate) dropped: u64,
    /// How fast it reads.
    pub(crate) pace: Pace,
    /// Whether the primary has named it.
    pub(crate) shared: bool,
    pub(crate) began: Time,
    /// Since when it has no connection.
    pub(crate) detached_at: Time,
}

impl Session {
    /// Keeps a message for later. Returns the oldest one if it had to go.
    pub(crate) fn defer(&mut self, message: Deferred, limit: usize) -> Option<Deferred> {
        let limit = if Mutant::DeferWithoutLimit.is_on() { usize::MAX } else { limit };
        let oldest = if self.deferred.len() >= limit { self.deferred.pop_front() } else { None };
        self.dropped += u64::from(oldest.is_some());
        self.deferred.push_back(message);
        oldest
    }

    pub(crate) fn wants(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }
}

/// All sessions, by a number that stays the same while they live.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Session>>,
    by_client: BTreeMap<Box<str>, u32>,
}

impl Sessions {
    pub(crate) fn find(&self, client: &str) -> Option<u32> {
        self.by_client.get(client).copied()
    }

    pub(crate) fn insert(&mut self, session: Session) -> u32 {
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.by_client.insert(session.client.clone(), index as u32);
        self.slots[index] = Some(session);
        index as u32
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Session> {
        let session = self.slots.get_mut(index as usize)?.take()?;
        self.by_client.remove(&session.client);
        Some(session)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Session> {
        self.slots.get(index as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Session> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_client.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Session)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| slot.as_ref().map(|session| (index as u32, session)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Session)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(index, slot)| slot.as_mut().map(|session| (index as u32, session)))
    }
}
