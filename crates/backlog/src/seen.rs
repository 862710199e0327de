//! What has come of the streams of one site, live or as backlog.

use crate::StreamName;
use crate::ranges::Ranges;
use contract::{Mutant, Span};
use std::collections::BTreeMap;

/// Streams of which it is known what has come. Of one more nothing is known: what has come live of it may come again as backlog.
const STREAMS_MAX: usize = 65_536;

/// Ranges that are told apart of a stream. Of more, the lowest is forgotten: what was in it may come again, and nothing is missed.
const RANGES_MAX: usize = 1_024;

/// What has come of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) had: Ranges,
    /// When something came last.
    touched: Span,
}

/// By publisher, and life.
type Publishers = BTreeMap<Box<str>, BTreeMap<u64, Stream>>;

/// The streams of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    topics: BTreeMap<Box<str>, Publishers>,
    streams: usize,
}

impl Seen {
    pub(crate) fn has(&self, topic: &str, publisher: &str, life: u64, seq: u64) -> bool {
        self.get(topic, publisher, life).is_some_and(|stream| stream.had.has(seq))
    }

    /// What of these numbers has not come.
    pub(crate) fn lacking(&self, name: &StreamName, ranges: impl Iterator<Item = (u64, u64)>) -> Ranges {
        let had = self.get(&name.topic, &name.publisher, name.life);
        let lacking = ranges.flat_map(|(first, last)| match had {
            Some(stream) if !Mutant::HandAgain.is_on() => stream.had.lacking(first, last),
            _ => vec![(first, last)],
        });
        Ranges::of(lacking)
    }

    fn get(&self, topic: &str, publisher: &str, life: u64) -> Option<&Stream> {
        self.topics.get(topic)?.get(publisher)?.get(&life)
    }

    /// These numbers have come.
    pub(crate) fn insert(
        &mut self,
        now: Span,
        (topic, publisher, life): (&str, &str, u64),
        (first, last): (u64, u64),
    ) {
        let known = self.topics.get_mut(topic).and_then(|publishers| publishers.get_mut(publisher));
        if let Some(stream) = known.and_then(|lives| lives.get_mut(&life)) {
            stream.had.insert(first, last);
            stream.had.keep_highest(RANGES_MAX);
            stream.touched = now;
            return;
        }
        if self.streams >= STREAMS_MAX {
            return;
        }
        self.streams += 1;
        let publishers = self.topics.entry(topic.into()).or_default();
        let stream = Stream { had: Ranges::of([(first, last)]), touched: now };
        publishers.entry(publisher.into()).or_default().insert(life, stream);
    }

    /// Forgets streams of which nothing has come for so long.
    pub(crate) fn forget_idle(&mut self, now: Span, idle: Span) {
        let streams = &mut self.streams;
        self.topics.retain(|_, publishers| {
            publishers.retain(|_, lives| {
                let before = lives.len();
                lives.retain(|_, stream| now - stream.touched < idle);
                *streams -= before - lives.len();
                !lives.is_empty()
            });
            !publishers.is_empty()
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamName, &Ranges)> {
        self.topics.iter().flat_map(|(topic, publishers)| {
            publishers.iter().flat_map(move |(publisher, lives)| {
                lives
                    .iter()
                    .map(move |(life, stream)| (StreamName::new(topic, publisher, *life), &stream.had))
            })
        })
    }
}
