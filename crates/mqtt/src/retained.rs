//! The last message of each topic, for subscribers to come.
//!
//! Topics are in the order of their bytes; how a filter is answered from that is in [`contract::names`].
//!
//! Invariant: a message that expires is entered in `expiring`, at its time or before it. Each new message of a topic would move
//! the entry; it is left where it is instead and looked at when its time comes.
//!
//! Left to the gateway: what is told to a backup, what is stored, and that a message without payload clears its topic.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use contract::{Span, Time, invariant};

use crate::packet::Qos;

/// What a topic takes besides its name and message, about: tables, counters, what the allocator adds.
pub const OVERHEAD_BYTES: usize = 280;

/// A buffer that is kept though its message is smaller, in bytes.
const SPARE_BYTES_MAX: usize = 256;

/// How much may be retained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Topics with a message.
    pub topics_max: usize,
    /// Bytes of names, payloads and properties, and [`OVERHEAD_BYTES`] for each topic.
    pub bytes_max: usize,
}

/// Why a message is not retained. What the topic had before is still there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No room for another topic.
    #[error(
        "{0} topics have a retained message, which is the limit: raise it, or clear topics by empty messages"
    )]
    Topics(usize),
    /// No room for so many bytes.
    #[error(
        "retained messages would take {needed} bytes, above the limit of {limit}: raise it, or clear topics by empty messages"
    )]
    Bytes {
        /// Bytes with the message.
        needed: usize,
        /// The limit.
        limit: usize,
    },
}

/// A message to be retained. `O` is what its owner knows about its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New<'a, O> {
    /// What it carries.
    pub payload: &'a [u8],
    /// Encoded properties that go on to subscribers.
    pub properties: &'a [u8],
    /// How surely it was published.
    pub qos: Qos,
    /// When it is no longer to be delivered.
    pub expires: Option<Time>,
    /// Where it is from.
    pub origin: O,
}

/// A retained message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<O> {
    /// Properties, then the payload: one buffer, used again by the next message of the topic.
    bytes: Vec<u8>,
    properties_len: usize,
    /// The entry in `expiring`.
    entered: Option<Time>,
    /// How surely it was published.
    pub qos: Qos,
    /// When it is no longer to be delivered.
    pub expires: Option<Time>,
    /// Where it is from.
    pub origin: O,
}

impl<O> Message<O> {
    /// What it carries.
    pub fn payload(&self) -> &[u8] {
        let payload = self.bytes.get(self.properties_len..);
        payload.unwrap_or_else(|| invariant!("a message ends with its payload", &[]))
    }

    /// Encoded properties that go on to subscribers.
    pub fn properties(&self) -> &[u8] {
        let properties = self.bytes.get(..self.properties_len);
        properties.unwrap_or_else(|| invariant!("a message begins with its properties", &[]))
    }

    /// Whether it is no longer to be delivered.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    fn fill(&mut self, new: New<'_, O>) {
        let len = new.properties.len() + new.payload.len();
        let capacity = self.bytes.capacity();
        if len > capacity || (capacity > SPARE_BYTES_MAX && capacity / 2 > len) {
            self.bytes = Vec::with_capacity(len);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(new.properties);
        self.bytes.extend_from_slice(new.payload);
        (self.properties_len, self.qos) = (new.properties.len(), new.qos);
        (self.expires, self.origin) = (new.expires, new.origin);
    }
}

/// The last message of each topic.
#[derive(Clone, Debug)]
pub struct Retained<O> {
    topics: BTreeMap<Arc<str>, Message<O>>,
    /// Topics by a time at which to see whether their message has expired.
    expiring: BTreeSet<(Time, Arc<str>)>,
    bytes: usize,
    limits: Limits,
}

impl<O> Retained<O> {
    /// Nothing, within limits.
    pub fn new(limits: Limits) -> Retained<O> {
        Retained { topics: BTreeMap::new(), expiring: BTreeSet::new(), bytes: 0, limits }
    }

    /// How many topics have a message.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// What counts for [`Limits::bytes_max`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Other limits. What is above them stays until it is cleared or replaced.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Retains a message of a plain topic name, instead of what there was. Allocates nothing where the topic has had one as
    /// long. A message that does not make it worse is taken although a limit has been passed.
    pub fn set(&mut self, topic: &str, new: New<'_, O>) -> Result<(), Refusal> {
        let size = size(topic, new.properties.len() + new.payload.len());
        let Limits { topics_max, bytes_max } = self.limits;
        let Some(message) = self.topics.get_mut(topic) else {
            if self.topics.len() >= topics_max {
                return Err(Refusal::Topics(topics_max));
            }
            return self.add(topic, size, new);
        };
        let before = size_of(topic, message);
        let needed = (self.bytes - before).saturating_add(size);
        if needed > bytes_max && size > before {
            return Err(Refusal::Bytes { needed, limit: bytes_max });
        }
        let earlier = new.expires.filter(|at| message.entered.is_none_or(|entered| *at < entered));
        message.fill(new);
        self.bytes = needed;
        if let Some(at) = earlier {
            let entry = match message.entered.replace(at) {
                None => None,
                Some(entered) => {
                    let entry = self.expiring.take(&(entered, topic.into()));
                    entry.or_else(|| invariant!("a message that expires is entered", None))
                }
            };
            let name = entry.map_or_else(|| topic.into(), |(_, name)| name);
            self.expiring.insert((at, name));
        }
        Ok(())
    }

    fn add(&mut self, topic: &str, size: usize, new: New<'_, O>) -> Result<(), Refusal> {
        let (needed, limit) = (self.bytes.saturating_add(size), self.limits.bytes_max);
        if needed > limit {
            return Err(Refusal::Bytes { needed, limit });
        }
        let name: Arc<str> = topic.into();
        if let Some(at) = new.expires {
            self.expiring.insert((at, name.clone()));
        }
        self.bytes = needed;
        let mut bytes = Vec::with_capacity(new.properties.len() + new.payload.len());
        bytes.extend_from_slice(new.properties);
        bytes.extend_from_slice(new.payload);
        let New { qos, expires, origin, .. } = new;
        let properties_len = new.properties.len();
        self.topics.insert(name, Message { bytes, properties_len, entered: expires, qos, expires, origin });
        Ok(())
    }

    /// Takes a topic's message away. Says whether there was one.
    pub fn clear(&mut self, topic: &str) -> bool {
        let Some((name, message)) = self.topics.remove_entry(topic) else { return false };
        self.bytes -= size_of(topic, &message);
        if let Some(entered) = message.entered {
            self.expiring.remove(&(entered, name));
        }
        true
    }

    /// A topic's message, unless it has expired.
    pub fn get(&self, topic: &str, now: Time) -> Option<&Message<O>> {
        self.topics.get(topic).filter(|message| !message.is_expired(now))
    }

    /// Hands over all messages that a valid filter means and that have not expired, by topic.
    pub fn matching(&self, filter: &str, now: Time, each: &mut impl FnMut(&str, &Message<O>)) {
        self.matching_portion(filter, now, &mut String::new(), usize::MAX, each);
    }

    /// The same, but looks at so many topics at most, so that a wide filter does not hold up a turn. Begins with an empty
    /// `place`. Says whether there is more; then `place` is where to go on, whatever is set and cleared in between.
    pub fn matching_portion(
        &self,
        filter: &str,
        now: Time,
        place: &mut String,
        looks_max: usize,
        each: &mut impl FnMut(&str, &Message<O>),
    ) -> bool {
        contract::names::walk(&self.topics, filter, place, looks_max, &mut |topic, message| {
            if !message.is_expired(now) {
                each(topic, message);
            }
        })
    }

    /// Everything by topic, also what has expired and is still there.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Message<O>)> {
        self.topics.iter().map(|(topic, message)| (&**topic, message))
    }

    /// What [`iter`](Self::iter) gives after a topic, which need not be there any more: to go on after a pause.
    pub fn iter_after(&self, topic: &str) -> impl Iterator<Item = (&str, &Message<O>)> {
        let rest = self.topics.range::<str, _>((Bound::Excluded(topic), Bound::Unbounded));
        rest.map(|(topic, message)| (&**topic, message))
    }

    /// The clock has been set: nothing expires sooner or later by that.
    pub fn move_times(&mut self, by: Span) {
        for message in self.topics.values_mut() {
            message.entered = message.entered.map(|at| at.moved(by));
            message.expires = message.expires.map(|at| at.moved(by));
        }
        self.expiring =
            std::mem::take(&mut self.expiring).into_iter().map(|(at, name)| (at.moved(by), name)).collect();
    }

    /// When to call [`expire`](Self::expire) next.
    pub fn next_expiry(&self) -> Option<Time> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Takes away what has expired and hands its topics over. Looks at so many entries at most, so that a turn stays short;
    /// [`next_expiry`](Self::next_expiry) says whether there are more.
    pub fn expire(&mut self, now: Time, looks_max: usize, gone: &mut impl FnMut(&str)) {
        for _ in 0..looks_max {
            if self.next_expiry().is_none_or(|at| at > now) {
                return;
            }
            let Some((_, name)) = self.expiring.pop_first() else {
                return invariant!("an entry that was seen is there");
            };
            let Some(message) = self.topics.get_mut(&name) else {
                invariant!("a topic that is entered has a message");
                continue;
            };
            message.entered = message.expires.filter(|at| *at > now);
            if let Some(later) = message.entered {
                self.expiring.insert((later, name));
            } else if message.expires.is_some() {
                self.bytes -= size_of(&name, message);
                self.topics.remove(&name);
                gone(&name);
            }
        }
    }
}

fn size(topic: &str, bytes: usize) -> usize {
    OVERHEAD_BYTES + topic.len() + bytes
}

fn size_of<O>(topic: &str, message: &Message<O>) -> usize {
    size(topic, message.bytes.len())
}
