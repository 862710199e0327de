//! Topics and their streams.

use crate::lazy::Copying;
use crate::plain::PlainTerms;
use crate::prefetch::fetch;
use crate::process::{Processing, ResultStream};
use crate::ring::{Ring, SlotFlags};
use contract::{Contract, Plan, Span, Time, TopicName};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use wire::LinkId;

/// Its fields are in the order of use: a plain message needs the first cache line, others the next as well, and one that is copied
/// needs what the third one has of the plan.
#[derive(Clone)]
#[repr(C, align(128))]
pub(crate) struct Topic {
    pub(crate) plain: PlainTerms,
    pub(crate) contract: Contract,
    /// Sessions that subscribe it. Their position is their bit among a message's missing confirmations.
    pub(crate) subscribers: Subscribers,
    /// Under which number subscribers of other protocols are given its messages.
    pub(crate) route: Option<u32>,
    pub(crate) plan: Plan,
    /// How operators take its messages, if they do.
    pub(crate) processing: Option<Processing>,
    pub(crate) name: TopicName,
    pub(crate) streams: Vec<u32>,
    /// How many subscribers of other protocols it has.
    pub(crate) others: u32,
    /// Whether its messages are results of an operator.
    pub(crate) made: bool,
}

/// The first of them lie in the topic itself.
pub(crate) type Subscribers = SmallVec<[u32; 4]>;

impl Topic {
    /// How many subscribers a message is dispatched to, as admission counts them.
    pub(crate) fn receivers(&self) -> u32 {
        self.subscribers.len() as u32 + self.others
    }
}

/// A topic that is being changed.
pub(crate) struct TopicMut<'a>(&'a mut Topic);

impl Deref for TopicMut<'_> {
    type Target = Topic;

    fn deref(&self) -> &Topic {
        self.0
    }
}

impl DerefMut for TopicMut<'_> {
    fn deref_mut(&mut self) -> &mut Topic {
        self.0
    }
}

impl Drop for TopicMut<'_> {
    fn drop(&mut self) {
        self.0.plain = PlainTerms::of(self.0);
    }
}

/// The messages of one topic from one publisher: what every message needs, in two neighbouring cache lines. Streams that were
/// registered one after the other mostly have messages one after the other, so they lie side by side, and what is seldom needed
/// lies elsewhere.
#[derive(Clone)]
#[repr(C, align(128))]
pub(crate) struct Stream {
    pub(crate) ring: Ring,
    /// The number after the highest that has arrived.
    pub(crate) next_seq: u64,
    pub(crate) topic: u32,
    /// Whether `next_seq` is a guess: a backup does not see the messages that need no copy.
    pub(crate) next_seq_unknown: bool,
    /// The creation time that deadlines were last counted from, and the true one.
    pub(crate) released: Time,
    pub(crate) created: Time,
    pub(crate) copying: Copying,
    pub(crate) counters: Counters,
    pub(crate) record: Box<Record>,
}

/// Who publishes a stream, and what became of it.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) publisher: Box<str>,
    pub(crate) incarnation: u64,
    pub(crate) registered: Time,
    /// The publisher's connection here, if it has one.
    pub(crate) source: Option<LinkId>,
    /// Its number for the stream there.
    pub(crate) source_number: u32,
    /// Since when it has none.
    pub(crate) silent_since: Time,
    /// Whether admission has counted it: by us as primary, or by the primary from which we copied it.
    pub(crate) admitted: bool,
    /// Whether a number that never comes is a loss.
    pub(crate) gapless: bool,
    /// The first number of its present life.
    pub(crate) first: u64,
    /// The streams of results that stand for its messages.
    pub(crate) results: Vec<ResultStream>,
    /// For results: the stream of the messages that they stand for.
    pub(crate) made_of: Option<u32>,
    pub(crate) troubles: Troubles,
}

impl Stream {
    /// The number after the highest that has arrived.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }
}

/// What happened to a stream's messages since it was registered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) arrived: u64,
    pub(crate) latency_last: Span,
    pub(crate) latency_max: Span,
}

/// What went wrong with a stream since it was registered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Troubles {
    pub(crate) lost: u64,
    pub(crate) longest_run: u32,
    pub(crate) late: u64,
    /// When the contract was last seen to be broken, or endangered.
    pub(crate) broken_at: Time,
    pub(crate) endangered_at: Time,
    /// When the operator was last told of losses and of late messages, and of how many of these.
    pub(crate) told_lost_at: Time,
    pub(crate) told_late_at: Time,
    pub(crate) told_late: u64,
}

impl Troubles {
    /// So many messages in a row are missing.
    pub(crate) fn lose(&mut self, now: Time, run: u64, contract: &Contract) {
        self.lost = self.lost.saturating_add(run);
        self.longest_run = self.longest_run.max(u32::try_from(run).unwrap_or(u32::MAX));
        if !contract.loss.tolerates(run) {
            self.broken_at = now;
        }
    }
}

/// All topics and streams, by numbers that stay the same while they live.
#[derive(Clone, Default)]
pub(crate) struct Table {
    pub(crate) topics: Vec<Option<Topic>>,
    pub(crate) streams: Vec<Option<Stream>>,
    free_streams: Vec<u32>,
    /// Where the rings of ended streams stopped counting, by their place.
    tickets: Vec<u32>,
    free_topics: Vec<u32>,
    by_name: BTreeMap<Box<str>, u32>,
}

impl Table {
    #[inline]
    pub(crate) fn topic(&self, index: u32) -> Option<&Topic> {
        self.topics.get(index as usize)?.as_ref()
    }

    /// A topic to be changed. What follows from its terms is renewed afterwards.
    pub(crate) fn topic_mut(&mut self, index: u32) -> Option<TopicMut<'_>> {
        self.topics.get_mut(index as usize)?.as_mut().map(TopicMut)
    }

    #[inline]
    pub(crate) fn stream(&self, index: u32) -> Option<&Stream> {
        self.streams.get(index as usize)?.as_ref()
    }

    pub(crate) fn stream_mut(&mut self, index: u32) -> Option<&mut Stream> {
        self.streams.get_mut(index as usize)?.as_mut()
    }

    /// A stream with its topic.
    pub(crate) fn pair(&self, stream: u32) -> Option<(&Stream, &Topic)> {
        let stream = self.stream(stream)?;
        Some((stream, self.topic(stream.topic)?))
    }

    /// A stream to be changed, with its topic.
    #[inline]
    pub(crate) fn pair_mut(&mut self, stream: u32) -> Option<(&mut Stream, &Topic)> {
        let stream = self.streams.get_mut(stream as usize)?.as_mut()?;
        let topic = self.topics.get(stream.topic as usize)?.as_ref()?;
        Some((stream, topic))
    }

    /// Fetches what a message needs of a stream itself.
    #[inline]
    pub(crate) fn prefetch(&self, stream: u32) {
        if let Some(stream) = self.streams.get(stream as usize) {
            fetch::<2, _>(stream);
        }
    }

    /// Fetches what the next message needs besides: its slot, and what it needs of the topic; more of that where it may be copied.
    /// The stream should have come by now.
    #[inline]
    pub(crate) fn prefetch_rest(&self, stream: u32, copied: bool) {
        let Some(stream) = self.stream(stream) else { return };
        stream.ring.prefetch();
        match self.topics.get(stream.topic as usize) {
            Some(topic) if copied => fetch::<3, _>(topic),
            Some(topic) => fetch::<1, _>(topic),
            None => {}
        }
    }

    pub(crate) fn find_topic(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn find_stream(&self, topic: u32, publisher: &str) -> Option<u32> {
        let topic = self.topic(topic)?;
        match topic.streams.as_slice() {
            // Nearly every topic has one publisher.
            [only] => Some(*only)
                .filter(|only| self.stream(*only).is_some_and(|s| &*s.record.publisher == publisher)),
            streams => streams
                .iter()
                .copied()
                .find(|index| self.stream(*index).is_some_and(|s| &*s.record.publisher == publisher)),
        }
    }

    pub(crate) fn insert_topic(&mut self, mut topic: Topic) -> u32 {
        topic.plain = PlainTerms::of(&topic);
        let name = Box::from(topic.name.as_str());
        let index = self.free_topics.pop().unwrap_or(self.topics.len() as u32);
        if index as usize == self.topics.len() {
            self.topics.push(None);
        }
        self.by_name.insert(name, index);
        self.topics[index as usize] = Some(topic);
        index
    }

    pub(crate) fn insert_stream(&mut self, stream: Stream) -> u32 {
        let index = self.free_streams.pop().unwrap_or(self.streams.len() as u32);
        if index as usize == self.streams.len() {
            self.streams.push(None);
        }
        if let Some(mut topic) = self.topic_mut(stream.topic) {
            topic.streams.push(index);
        }
        self.streams[index as usize] = Some(stream);
        index
    }

    /// The next ticket of the ring at the place that the next stream will take.
    pub(crate) fn next_ticket(&self) -> u32 {
        self.free_streams.last().and_then(|index| self.tickets.get(*index as usize)).copied().unwrap_or(0)
    }

    /// The primary has what was forwarded to it.
    pub(crate) fn settle_forwarded(&mut self) {
        for stream in self.streams.iter_mut().flatten() {
            stream.ring.slots_mut().filter(|slot| slot.flags.has(SlotFlags::FORWARDED)).for_each(|slot| {
                slot.forget();
            });
        }
    }

    /// Takes a stream out, and its topic if that has no other.
    pub(crate) fn remove_stream(&mut self, index: u32) -> Option<(Stream, Option<Topic>)> {
        let stream = self.streams.get_mut(index as usize)?.take()?;
        self.free_streams.push(index);
        if self.tickets.len() <= index as usize {
            self.tickets.resize(index as usize + 1, 0);
        }
        self.tickets[index as usize] = stream.ring.next_ticket();
        let mut topic = self.topic_mut(stream.topic)?;
        topic.streams.retain(|other| *other != index);
        let published = !topic.streams.is_empty();
        drop(topic);
        if published {
            return Some((stream, None));
        }
        let topic = self.topics.get_mut(stream.topic as usize)?.take()?;
        self.by_name.remove(topic.name.as_str());
        self.free_topics.push(stream.topic);
        Some((stream, Some(topic)))
    }

    /// Streams that are there.
    pub(crate) fn len(&self) -> usize {
        self.streams.len() - self.free_streams.len()
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = (u32, &Stream)> {
        let streams = self.streams.iter().enumerate();
        streams.filter_map(|(index, stream)| stream.as_ref().map(|stream| (index as u32, stream)))
    }

    /// Those at so many places from this one on.
    pub(crate) fn streams_from(&self, first: usize, count: usize) -> impl Iterator<Item = (u32, &Stream)> {
        let places = self.streams.iter().enumerate().skip(first).take(count);
        places.filter_map(|(index, stream)| stream.as_ref().map(|stream| (index as u32, stream)))
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (u32, &Topic)> {
        let topics = self.topics.iter().enumerate();
        topics.filter_map(|(index, topic)| topic.as_ref().map(|topic| (index as u32, topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn what_every_message_needs_lies_in_the_first_cache_lines() {
        assert_eq!(size_of::<Stream>(), 128, "a stream has two");
        let ends = offset_of!(Topic, plain) + size_of::<PlainTerms>();
        assert!(ends <= 64, "what a plain message needs of a topic ends at {ends}");
        let ends = offset_of!(Topic, route) + size_of::<Option<u32>>();
        assert!(ends <= 128, "what others need ends at {ends}");
        let ends = offset_of!(Topic, plan) + size_of::<Plan>();
        assert!(ends <= 192, "what a copy needs ends at {ends}");
        assert_eq!(size_of::<Option<Topic>>(), 256, "a topic has four");
        assert_eq!([size_of::<Option<Stream>>() - size_of::<Stream>(), size_of::<Subscribers>()], [0, 24]);
    }
}
