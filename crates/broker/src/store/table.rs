//! Topics and their streams.

use crate::store::copying::Copying;
use crate::store::ids::{SessionId, TopicId};
use crate::store::memory::Shortage;
use crate::store::prefetch::fetch;
use crate::store::quiet::Quiet;
use crate::store::results::{Processing, ResultStream};
use crate::store::ring::{Ring, Slot, SlotFlags};
use crate::store::terms::PlainTerms;
use contract::{
    Contract, Crossing, Plan, Planned, Receivers, StreamId, Ticket, Time, TopicName, invariant, names,
};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use wire::{Concern, LinkId, MessageFlags};

/// Its fields are in the order of use: a message that is not plain needs the first two cache lines, and one that is copied needs what
/// the third one has of the plan. A plain one that is not copied needs none: each stream has the terms for it.
#[derive(Clone)]
#[repr(C, align(128))]
pub(crate) struct Topic {
    pub(crate) contract: Contract,
    /// The class of contract that it is counted in.
    pub(crate) class: u16,
    /// Sessions that subscribe it. Their position is their bit among a message's missing confirmations.
    pub(crate) subscribers: Subscribers,
    /// Under which number subscribers of other protocols are given its messages.
    pub(crate) route: Option<u32>,
    pub(crate) plan: Plan,
    /// How operators take its messages, if they do.
    pub(crate) processing: Option<Processing>,
    pub(crate) name: TopicName,
    pub(crate) streams: Vec<StreamId>,
    /// How many subscribers of other protocols it has.
    pub(crate) others: u32,
    /// Whether its messages are results of an operator.
    pub(crate) made: bool,
    /// What it is planned by, where that is not just its contract: subscribers need more, or messages come by other brokers.
    pub(crate) stricter: Option<Box<Planned>>,
    /// Who of its subscribers is served as best effort, if anybody is.
    pub(crate) best_effort: Option<Box<BestEffort>>,
}

/// Subscribers of a topic to whom nothing is promised.
#[derive(Clone, Debug, Default)]
pub(crate) struct BestEffort {
    /// Sessions, which are among the topic's subscribers.
    pub(crate) sessions: Vec<SessionId>,
    /// How many of other protocols.
    pub(crate) others: u32,
}

/// The first of them lie in the topic itself.
pub(crate) type Subscribers = SmallVec<[SessionId; 4]>;

impl Topic {
    /// The contract that it is planned by: the strictest of its own and of what its subscribers need.
    pub(crate) fn strict(&self) -> &Contract {
        self.stricter.as_deref().map_or(&self.contract, |planned| &planned.contract)
    }

    /// What it is planned by.
    pub(crate) fn planned(&self) -> Planned {
        self.stricter.as_deref().copied().unwrap_or(self.contract.into())
    }

    /// Whether its messages count as dispatched only when its subscribers have confirmed them.
    #[inline]
    pub(crate) fn confirms(&self) -> bool {
        self.strict().confirm
    }

    /// Sets that.
    pub(crate) fn set_strict(&mut self, strict: Planned) {
        self.stricter = (strict != self.contract.into()).then(|| Box::new(strict));
    }

    /// Whom a message is dispatched to, as admission counts them.
    pub(crate) fn receivers(&self) -> Receivers {
        let all = self.subscribers.len() as u32 + self.others;
        let Some(those) = &self.best_effort else { return all.into() };
        let best_effort = those.sessions.len() as u32 + those.others;
        Receivers { promised: all.saturating_sub(best_effort), best_effort, made_at_once: those.others }
    }

    /// Whether others than subscribers get its messages: those of other protocols, or operators.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.route.is_some() || self.processing.is_some()
    }

    /// Whether a session is served as best effort.
    pub(crate) fn is_best_effort(&self, session: SessionId) -> bool {
        self.best_effort.as_ref().is_some_and(|those| those.sessions.contains(&session))
    }

    /// Says whether it is.
    pub(crate) fn serve_as_best_effort(&mut self, session: SessionId, best_effort: bool) {
        self.change_best_effort(|those| {
            those.sessions.retain(|other| *other != session);
            if best_effort {
                those.sessions.push(session);
            }
        });
    }

    /// So many more or fewer of other protocols are.
    pub(crate) fn change_best_effort(&mut self, change: impl FnOnce(&mut BestEffort)) {
        let mut those = self.best_effort.take().unwrap_or_default();
        change(&mut those);
        self.best_effort = Some(those).filter(|those| !those.sessions.is_empty() || those.others > 0);
    }
}

/// A topic that is being changed, with all streams: its own hear of it.
pub(crate) struct TopicMut<'a> {
    topic: &'a mut Topic,
    streams: &'a mut [Option<Stream>],
}

impl Deref for TopicMut<'_> {
    type Target = Topic;

    fn deref(&self) -> &Topic {
        self.topic
    }
}

impl DerefMut for TopicMut<'_> {
    fn deref_mut(&mut self) -> &mut Topic {
        self.topic
    }
}

impl Drop for TopicMut<'_> {
    fn drop(&mut self) {
        let terms = PlainTerms::of(self.topic);
        for index in &self.topic.streams {
            match self.streams.get_mut(index.place()) {
                Some(Some(stream)) => stream.plain = terms,
                _ => invariant!("a topic's streams are there"),
            }
        }
    }
}

/// The messages of one topic from one publisher: all that a plain message needs in one cache line, what others need, and
/// those that may be copied, in the next. Streams that were registered one after the other mostly have messages one after the other, so
/// they lie side by side, and what is seldom needed lies elsewhere.
///
/// Where no stream is, the table has an impossible value in one of the fields: the one that has most of them, and that is a `bool` of the
/// first line as long as nothing else here is a `bool` or an `Option`.
#[derive(Clone)]
#[repr(C, align(128))]
pub(crate) struct Stream {
    /// The number after the highest that has arrived.
    pub(crate) next_seq: u64,
    /// The latest time at which a message was created, and from when deadlines were last counted; [`Time::NEVER`] where these are two
    /// times, or `next_seq` is a guess, so that no message is plain. Then the record has both.
    pub(crate) plain_since: Time,
    pub(crate) plain: PlainTerms,
    pub(crate) took: Took,
    /// The first fields of it belong to that line.
    pub(crate) ring: Ring,
    pub(crate) copying: Copying,
    pub(crate) record: Box<Record>,
    pub(crate) topic: TopicId,
}

/// Who publishes a stream, and what became of it.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) publisher: Box<str>,
    pub(crate) incarnation: u64,
    /// The site in which it is, where that is another one; else nothing.
    pub(crate) origin: Box<str>,
    /// What is known of its messages when they come.
    pub(crate) crossing: Crossing,
    pub(crate) registered: Time,
    /// The publisher's connection here, if it has one.
    pub(crate) source: Option<LinkId>,
    /// Its number for the stream there.
    pub(crate) source_number: u32,
    /// Whether it states the contract itself.
    pub(crate) asked: bool,
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
    pub(crate) made_of: Option<StreamId>,
    pub(crate) troubles: Troubles,
    /// Whether it still says something.
    pub(crate) quiet: Quiet,
    /// Messages that were not kept for want of memory, of which its publisher has not been told, and why not.
    pub(crate) untold: u32,
    pub(crate) shortage: Option<Shortage>,
    /// What the ring had counted when it was new, and since then copies, and numbers that the primary was done with: no messages that
    /// arrived here.
    pub(crate) uncounted: u64,
    /// Whether the next number is a guess.
    pub(crate) guesses_next_seq: bool,
    /// Those of the newest message, where the next number is a guess, or these are two times.
    pub(crate) apart: Times,
}

/// The latest time at which a message was created, and from when deadlines were last counted. Messages that come again count for neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times {
    pub(crate) created: Time,
    pub(crate) released: Time,
}

/// How long messages took from creation to dispatch, in microseconds, rounded up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Took {
    pub(crate) last: u32,
    pub(crate) longest: u32,
}

impl Record {
    /// Of a stream that is registered now, by nobody who is connected here.
    pub(crate) fn new(publisher: &str, incarnation: u64, registered: Time) -> Record {
        Record {
            publisher: publisher.into(),
            incarnation,
            origin: "".into(),
            crossing: Crossing::NONE,
            registered,
            source: None,
            source_number: 0,
            asked: false,
            silent_since: registered,
            admitted: false,
            gapless: false,
            first: 0,
            results: Vec::new(),
            made_of: None,
            troubles: Troubles::default(),
            quiet: Quiet::default(),
            untold: 0,
            shortage: None,
            uncounted: 0,
            guesses_next_seq: false,
            apart: Times::default(),
        }
    }
}

impl Stream {
    /// A stream of this topic, of which nothing has come.
    pub(crate) fn new(topic: TopicId, ring: Ring, record: Record) -> Stream {
        let record = Box::new(Record { uncounted: ring.pushed(), ..record });
        Stream {
            next_seq: 0,
            plain_since: Time::ZERO,
            plain: PlainTerms::NOTHING,
            took: Took::default(),
            ring,
            copying: Copying::default(),
            record,
            topic,
        }
    }

    /// The number after the highest that has arrived.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Messages that have arrived since it was registered.
    pub(crate) fn arrived(&self) -> u64 {
        self.ring.pushed() - self.record.uncounted
    }

    /// Keeps a message, or the number of one, that did not arrive here.
    pub(crate) fn keep(
        &mut self,
        seq: u64,
        created: Time,
        payload: &[u8],
        flags: SlotFlags,
        marks: MessageFlags,
    ) {
        self.record.uncounted += 1;
        self.ring.push(seq, created, payload, flags, marks);
    }

    /// Whether the next number is a guess: a backup does not see the messages that need no copy.
    pub(crate) fn next_seq_is_guess(&self) -> bool {
        self.plain_since == Time::NEVER && self.record.guesses_next_seq
    }

    /// Says whether it is.
    pub(crate) fn guess_next_seq(&mut self, guess: bool) {
        let times = self.times();
        self.record.guesses_next_seq = guess;
        self.plain_since = Time::NEVER;
        self.set_times(times);
    }

    /// Its times.
    #[inline]
    pub(crate) fn times(&self) -> Times {
        match self.plain_since {
            Time::NEVER => self.record.apart,
            at => Times { created: at, released: at },
        }
    }

    /// Sets those.
    #[inline]
    pub(crate) fn set_times(&mut self, times: Times) {
        let guess = self.next_seq_is_guess();
        self.plain_since = times.created;
        if times.released != times.created || times.created == Time::NEVER || guess {
            (self.plain_since, self.record.apart) = (Time::NEVER, times);
        }
    }
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
    /// By what.
    pub(crate) broken_by: Concern,
    pub(crate) endangered_by: Concern,
    /// When the admin was last told of losses and of late messages, and of how many of these.
    pub(crate) told_lost_at: Time,
    pub(crate) told_late_at: Time,
    pub(crate) told_late: u64,
    /// The same for what was not kept for want of memory, how much of it there was, and of how much was told.
    pub(crate) told_short_at: Time,
    pub(crate) short: u64,
    pub(crate) told_short: u64,
    /// What subscribers have said, all of them together.
    pub(crate) reported: Reported,
}

/// What subscribers say of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    pub(crate) lost: u64,
    pub(crate) longest_run: u32,
    pub(crate) late: u64,
    /// When the admin was last told of losses and of late messages.
    pub(crate) told_lost_at: Time,
    pub(crate) told_late_at: Time,
}

impl Troubles {
    /// The next delay, or a crash, could break the contract.
    pub(crate) fn endanger(&mut self, now: Time, by: Concern) {
        (self.endangered_at, self.endangered_by) = (now, by);
    }

    /// So many messages in a row are missing.
    pub(crate) fn lose(&mut self, now: Time, run: u64, contract: &Contract) {
        self.lost = self.lost.saturating_add(run);
        self.longest_run = self.longest_run.max(u32::try_from(run).unwrap_or(u32::MAX));
        if !contract.loss.tolerates(run) {
            (self.broken_at, self.broken_by) = (now, Concern::Lost);
        }
    }
}

/// All topics and streams, by numbers that stay the same while they live.
#[derive(Clone, Default)]
pub(crate) struct Table {
    pub(crate) topics: Vec<Option<Topic>>,
    pub(crate) streams: Vec<Option<Stream>>,
    free_streams: Vec<StreamId>,
    /// Where the rings of ended streams stopped counting, by their place.
    tickets: Vec<Ticket>,
    free_topics: Vec<TopicId>,
    by_name: BTreeMap<Box<str>, TopicId>,
    /// Topics whose subscribers confirm.
    confirmed: BTreeSet<TopicId>,
}

impl Table {
    #[inline]
    pub(crate) fn topic(&self, index: TopicId) -> Option<&Topic> {
        self.topics.get(index.place())?.as_ref()
    }

    /// Whether a topic's messages are confirmed may have changed.
    pub(crate) fn note_confirmed(&mut self, index: TopicId) {
        match self.topic(index).is_some_and(Topic::confirms) {
            true => _ = self.confirmed.insert(index),
            false => _ = self.confirmed.remove(&index),
        }
    }

    /// A topic to be changed. What follows from its terms is renewed afterwards.
    pub(crate) fn topic_mut(&mut self, index: TopicId) -> Option<TopicMut<'_>> {
        let topic = self.topics.get_mut(index.place())?.as_mut()?;
        Some(TopicMut { topic, streams: &mut self.streams })
    }

    #[inline]
    pub(crate) fn stream(&self, index: StreamId) -> Option<&Stream> {
        self.streams.get(index.place())?.as_ref()
    }

    pub(crate) fn stream_mut(&mut self, index: StreamId) -> Option<&mut Stream> {
        self.streams.get_mut(index.place())?.as_mut()
    }

    /// A stream with its topic.
    pub(crate) fn pair(&self, stream: StreamId) -> Option<(&Stream, &Topic)> {
        let stream = self.stream(stream)?;
        let Some(topic) = self.topic(stream.topic) else {
            return invariant!("a stream's topic is there", None);
        };
        Some((stream, topic))
    }

    /// A stream to be changed, with its topic.
    #[inline]
    pub(crate) fn pair_mut(&mut self, stream: StreamId) -> Option<(&mut Stream, &Topic)> {
        let stream = self.streams.get_mut(stream.place())?.as_mut()?;
        let Some(Some(topic)) = self.topics.get(stream.topic.place()) else {
            return invariant!("a stream's topic is there", None);
        };
        Some((stream, topic))
    }

    /// Fetches what a message needs of a stream itself: one line where it is `near`, plain and not copied, else both.
    #[inline]
    pub(crate) fn prefetch(&self, stream: StreamId, near: bool) {
        match self.streams.get(stream.place()) {
            Some(stream) if near => fetch::<1, _>(stream),
            Some(stream) => fetch::<2, _>(stream),
            // Whoever takes the message says so.
            None => {}
        }
    }

    /// Fetches what the next message, of this length, needs besides: its slot, and the topic unless it is `near`. The stream should have
    /// come by now.
    #[inline]
    pub(crate) fn prefetch_rest(&self, stream: StreamId, length: usize, near: bool) {
        let Some(stream) = self.stream(stream) else { return };
        stream.ring.prefetch(length);
        if !near && let Some(topic) = self.topics.get(stream.topic.place()) {
            fetch::<3, _>(topic);
        }
    }

    /// How many topics of results are refused at present.
    pub(crate) fn refused_results(&self) -> u64 {
        let results = self.streams().flat_map(|(_, stream)| &stream.record.results);
        results.filter(|result| result.stream.is_none()).count() as u64
    }

    pub(crate) fn find_topic(&self, name: &str) -> Option<TopicId> {
        self.by_name.get(name).copied()
    }

    /// Calls `each` for topics that a filter means, and looks at so many names at most; see [`names::walk`].
    pub(crate) fn meant(
        &self,
        filter: &str,
        place: &mut String,
        looks_max: usize,
        mut each: impl FnMut(TopicId),
    ) -> bool {
        names::walk(&self.by_name, filter, place, looks_max, &mut |_, topic| each(*topic))
    }

    /// Topics whose subscribers confirm.
    pub(crate) fn confirmed(&self) -> impl DoubleEndedIterator<Item = TopicId> {
        self.confirmed.iter().copied()
    }

    pub(crate) fn find_stream(&self, topic: TopicId, publisher: &str) -> Option<StreamId> {
        // It may have gone with its streams where a primary carries it otherwise.
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

    pub(crate) fn insert_topic(&mut self, topic: Topic) -> TopicId {
        let name = Box::from(topic.name.as_str());
        let index = self.free_topics.pop().unwrap_or(TopicId(self.topics.len() as u32));
        if index.place() == self.topics.len() {
            self.topics.push(None);
        }
        self.by_name.insert(name, index);
        if topic.confirms() {
            self.confirmed.insert(index);
        }
        self.topics[index.place()] = Some(topic);
        index
    }

    pub(crate) fn insert_stream(&mut self, mut stream: Stream) -> StreamId {
        let index = self.free_streams.pop().unwrap_or(StreamId(self.streams.len() as u32));
        if index.place() == self.streams.len() {
            self.streams.push(None);
        }
        match self.topics.get_mut(stream.topic.place()) {
            Some(Some(topic)) => {
                topic.streams.push(index);
                stream.plain = PlainTerms::of(topic);
            }
            _ => invariant!("a stream's topic is there"),
        }
        self.streams[index.place()] = Some(stream);
        index
    }

    /// The next ticket of the ring at the place that the next stream will take.
    pub(crate) fn next_ticket(&self) -> Ticket {
        self.free_streams
            .last()
            .and_then(|index| self.tickets.get(index.place()))
            .copied()
            .unwrap_or_default()
    }

    /// The primary has what was forwarded to it. What it is done with is kept until it has told what operators remember of it.
    pub(crate) fn settle_forwarded(&mut self) {
        for stream in self.streams.iter_mut().flatten() {
            let is_there =
                |slot: &&mut Slot| slot.flags.has(SlotFlags::FORWARDED) && !slot.flags.has(SlotFlags::UNTOLD);
            stream.ring.slots_mut().filter(is_there).for_each(Slot::forget);
        }
    }

    /// Takes a stream out, and its topic if that has no other.
    pub(crate) fn remove_stream(&mut self, index: StreamId) -> Option<(Stream, Option<Topic>)> {
        let stream = self.streams.get_mut(index.place())?.take()?;
        self.free_streams.push(index);
        if self.tickets.len() <= index.place() {
            self.tickets.resize(index.place() + 1, Ticket::default());
        }
        self.tickets[index.place()] = stream.ring.next_ticket();
        let Some(Some(topic)) = self.topics.get_mut(stream.topic.place()) else {
            return invariant!("a stream's topic is there", Some((stream, None)));
        };
        topic.streams.retain(|other| *other != index);
        if !topic.streams.is_empty() {
            return Some((stream, None));
        }
        let topic = self.topics.get_mut(stream.topic.place())?.take()?;
        self.by_name.remove(topic.name.as_str());
        self.confirmed.remove(&stream.topic);
        self.free_topics.push(stream.topic);
        Some((stream, Some(topic)))
    }

    /// Streams that are there.
    pub(crate) fn len(&self) -> usize {
        self.streams.len() - self.free_streams.len()
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let streams = self.streams.iter().enumerate();
        streams.filter_map(|(index, stream)| stream.as_ref().map(|stream| (StreamId(index as u32), stream)))
    }

    /// Those at so many places from this one on.
    pub(crate) fn streams_from(
        &self,
        first: usize,
        count: usize,
    ) -> impl Iterator<Item = (StreamId, &Stream)> {
        let places = self.streams.iter().enumerate().skip(first).take(count);
        places.filter_map(|(index, stream)| stream.as_ref().map(|stream| (StreamId(index as u32), stream)))
    }

    /// Places of topics, whether one is there or not.
    pub(crate) fn topic_places(&self) -> usize {
        self.topics.len()
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (TopicId, &Topic)> {
        let topics = self.topics.iter().enumerate();
        topics.filter_map(|(index, topic)| topic.as_ref().map(|topic| (TopicId(index as u32), topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn what_every_message_needs_lies_in_the_first_cache_lines() {
        assert_eq!(size_of::<Stream>(), 128, "a stream has two");
        let ends = offset_of!(Stream, ring) + Ring::PLAIN_BYTES;
        assert!(ends <= 64, "what a plain message needs of a stream ends at {ends}");
        assert_eq!(size_of::<Option<PlainTerms>>(), size_of::<PlainTerms>(), "says that a stream is there");
        assert!(size_of::<Option<Copying>>() > size_of::<Copying>(), "nothing in the other line does");
        let ends = offset_of!(Topic, route) + size_of::<Option<u32>>();
        assert!(ends <= 128, "what others need ends at {ends}");
        let ends = offset_of!(Topic, plan) + size_of::<Plan>();
        assert!(ends <= 192, "what a copy needs ends at {ends}");
        assert_eq!(size_of::<Option<Topic>>(), 256, "a topic has four");
        assert_eq!([size_of::<Option<Stream>>() - size_of::<Stream>(), size_of::<Subscribers>()], [0, 24]);
    }
}
