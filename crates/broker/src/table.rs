//! Topics and their streams.

use crate::lazy::Copying;
use crate::process::{Processing, ResultStream};
use crate::ring::{Ring, SlotFlags};
use contract::{Contract, Plan, Span, Time, TopicName};
use std::collections::BTreeMap;
use std::hint::black_box;
use wire::LinkId;

#[derive(Clone)]
pub(crate) struct Topic {
    pub(crate) name: TopicName,
    pub(crate) contract: Contract,
    pub(crate) plan: Plan,
    pub(crate) streams: Vec<u32>,
    /// Sessions that subscribe it. Their position is their bit among a message's missing confirmations.
    pub(crate) subscribers: Vec<u32>,
    /// How operators take its messages, if they do.
    pub(crate) processing: Option<Processing>,
    /// Whether its messages are results of an operator.
    pub(crate) made: bool,
    /// The class of contract that it is counted in.
    pub(crate) class: u32,
    /// Under which number subscribers of other protocols are given its messages.
    pub(crate) route: Option<u32>,
    /// How many those are.
    pub(crate) others: u32,
}

impl Topic {
    /// How many subscribers a message is dispatched to, as admission counts them.
    pub(crate) fn receivers(&self) -> u32 {
        self.subscribers.len() as u32 + self.others
    }
}

/// The messages of one topic from one publisher.
#[derive(Clone)]
pub(crate) struct Stream {
    pub(crate) topic: u32,
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
    pub(crate) ring: Ring,
    /// The number after the highest that has arrived.
    pub(crate) next_seq: u64,
    /// Whether `next_seq` is a guess: a backup does not see the messages that need no copy.
    pub(crate) next_seq_unknown: bool,
    /// The creation time that deadlines were last counted from, and the true one.
    pub(crate) released: Time,
    pub(crate) created: Time,
    pub(crate) counters: Counters,
    /// Whether a number that never comes is a loss.
    pub(crate) gapless: bool,
    /// The first number of its present life.
    pub(crate) first: u64,
    /// The streams of results that stand for its messages.
    pub(crate) results: Vec<ResultStream>,
    /// For results: the stream of the messages that they stand for.
    pub(crate) made_of: Option<u32>,
    pub(crate) copying: Copying,
}

/// What happened to a stream since it was registered.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) arrived: u64,
    pub(crate) lost: u64,
    pub(crate) longest_run: u32,
    pub(crate) late: u64,
    pub(crate) latency_last: Span,
    pub(crate) latency_max: Span,
    /// When the contract was last seen to be broken, or endangered.
    pub(crate) broken_at: Time,
    pub(crate) endangered_at: Time,
    /// When the operator was last told of losses and of late messages, and of how many of these.
    pub(crate) told_lost_at: Time,
    pub(crate) told_late_at: Time,
    pub(crate) told_late: u64,
}

impl Counters {
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
    pub(crate) fn topic(&self, index: u32) -> Option<&Topic> {
        self.topics.get(index as usize)?.as_ref()
    }

    pub(crate) fn topic_mut(&mut self, index: u32) -> Option<&mut Topic> {
        self.topics.get_mut(index as usize)?.as_mut()
    }

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
    pub(crate) fn pair_mut(&mut self, stream: u32) -> Option<(&mut Stream, &Topic)> {
        let stream = self.streams.get_mut(stream as usize)?.as_mut()?;
        let topic = self.topics.get(stream.topic as usize)?.as_ref()?;
        Some((stream, topic))
    }

    /// Reads a word of each cache line that a message needs of these streams and their topics, and does nothing with it.
    pub(crate) fn prefetch(&self, streams: &[u32]) {
        let streams = || streams.iter().filter_map(|index| self.stream(*index));
        for stream in streams() {
            let Stream { ring, copying, next_seq, counters, topic, .. } = stream;
            black_box((ring.next_ticket(), *copying, *next_seq, counters.latency_max, *topic));
        }
        for stream in streams() {
            stream.ring.prefetch();
            if let Some(Topic { plan, processing, subscribers, contract, class, .. }) =
                self.topic(stream.topic)
            {
                black_box((
                    plan.pseudo,
                    processing.is_some(),
                    contract.period,
                    *class,
                    subscribers.first().copied(),
                ));
            }
        }
    }

    pub(crate) fn find_topic(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn find_stream(&self, topic: u32, publisher: &str) -> Option<u32> {
        let topic = self.topic(topic)?;
        match topic.streams.as_slice() {
            // Nearly every topic has one publisher.
            [only] => {
                Some(*only).filter(|only| self.stream(*only).is_some_and(|s| &*s.publisher == publisher))
            }
            streams => streams
                .iter()
                .copied()
                .find(|index| self.stream(*index).is_some_and(|s| &*s.publisher == publisher)),
        }
    }

    pub(crate) fn insert_topic(&mut self, topic: Topic) -> u32 {
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
        if let Some(topic) = self.topic_mut(stream.topic) {
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
        let topic = self.topic_mut(stream.topic)?;
        topic.streams.retain(|other| *other != index);
        if !topic.streams.is_empty() {
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

    pub(crate) fn topics(&self) -> impl Iterator<Item = (u32, &Topic)> {
        let topics = self.topics.iter().enumerate();
        topics.filter_map(|(index, topic)| topic.as_ref().map(|topic| (index as u32, topic)))
    }
}
