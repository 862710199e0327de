//! Who publishes: what is asked for is read from the journal, and leaves no faster than it may.
//!
//! Nothing is remembered of whom what was sent. What is remembered of a question is how far its answer has come; another question of the same
//! site takes its place.

use crate::words::{NAMES_BYTES_MAX, RANGES_MAX, STREAMS_MAX};
use crate::{Ask, From, Item, Listed, Part, Ranges, StreamName, Traffic, Want};
use contract::{Span, Time, TopicFilter};
use std::collections::BTreeMap;

/// A message that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Where it stands.
    pub position: u64,
    /// The message.
    pub item: Item<'a>,
}

/// How far a log has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Looked {
    /// Up to here: that of the last message that was given, at least.
    pub to: u64,
    /// There is nothing more.
    pub is_end: bool,
}

/// The logs of a journal, as they are read.
pub trait Logs {
    /// The position before the first message of a log that is no older than this.
    fn younger(&mut self, log: &str, span: Span) -> u64;
    /// Reads on behind a position, so many messages at most, until somebody does not want more.
    fn read(
        &mut self,
        log: &str,
        after: u64,
        items: usize,
        each: &mut dyn FnMut(&Kept<'_>) -> bool,
    ) -> Looked;
}

/// Sites whose questions wait; of more, that which asked first is forgotten, and asks again.
const SITES_MAX: usize = 64;
/// Messages that are looked at in one go.
const LOOKED_AT_ONCE: usize = 512;
/// How often it is looked in one go: who looks keeps messages as well.
const LOOKS: usize = 16;
/// Messages of a list, and the bytes of their payloads: so much is given before a place moves.
const LISTED_MAX: u64 = 8_192;
const LISTED_BYTES_MAX: usize = 4 << 20;
/// Bytes of messages in one part of an answer. One message may be longer.
const PART_BYTES: usize = 16 << 10;
/// What a part costs beside its messages.
const PART_COST: usize = 256;

/// What is being answered to a site.
#[derive(Clone, Debug)]
struct Answer {
    ask: Ask,
    /// Up to where it has been looked; nothing, before it has begun.
    at: Option<u64>,
    /// What is listed.
    streams: BTreeMap<StreamName, Ranges>,
    filters: Vec<TopicFilter>,
    listed: (u64, usize, usize),
    /// What is to be given.
    missing: BTreeMap<StreamName, Ranges>,
    index: u64,
}

/// The answering side of a keeper.
#[derive(Clone, Debug)]
pub struct Answering {
    /// Bytes in a second.
    rate: u64,
    /// Bytes that may leave now; less than nothing after a long message.
    credit: i64,
    refilled: Option<Time>,
    /// In the order in which they are served.
    answers: Vec<(Box<str>, Answer)>,
    given: BTreeMap<Box<str>, Traffic>,
}

impl Answering {
    /// Who gives so many bytes in a second.
    pub fn new(rate: u64) -> Answering {
        Answering {
            rate: rate.max(1),
            credit: 0,
            refilled: None,
            answers: Vec::new(),
            given: BTreeMap::new(),
        }
    }

    /// What has been given, to whom.
    pub fn given(&self) -> impl Iterator<Item = (&str, Traffic)> {
        self.given.iter().map(|(site, traffic)| (&**site, *traffic))
    }

    /// Whether nothing is asked for.
    pub fn is_idle(&self) -> bool {
        self.answers.is_empty()
    }

    /// A site asks.
    pub fn hear(&mut self, site: &str, ask: Ask) {
        self.answers.retain(|(other, _)| **other != *site);
        if self.answers.len() >= SITES_MAX {
            self.answers.remove(0);
        }
        let parsed = |filters: &[Box<str>]| filters.iter().filter_map(|filter| filter.parse().ok()).collect();
        let (filters, missing) = match &ask.want {
            Want::List { filters, .. } => (parsed(filters), BTreeMap::new()),
            Want::Give { missing, .. } => {
                let ranges =
                    missing.iter().map(|(name, ranges)| (name.clone(), Ranges::of(ranges.iter().copied())));
                (Vec::new(), ranges.collect())
            }
        };
        let (streams, listed) = (BTreeMap::new(), (0, 0, 0));
        let answer = Answer { ask, at: None, streams, filters, listed, missing, index: 0 };
        self.answers.push((site.into(), answer));
    }

    /// Goes on answering, as far as the rate allows. What leaves is given to `send`; `false` from it: there is no room now.
    pub fn work(&mut self, now: Time, logs: &mut impl Logs, send: &mut dyn FnMut(&str, &[u8]) -> bool) {
        self.refill(now);
        // Each in its turn, a part at a time.
        for _ in 0..LOOKS {
            if self.credit <= 0 || self.answers.is_empty() {
                return;
            }
            let (site, mut answer) = self.answers.remove(0);
            let (bytes, count, done) = answer.go_on(now, logs);
            if let Some(bytes) = bytes {
                self.credit -= (bytes.len() + PART_COST) as i64;
                if !send(&site, &bytes) {
                    // The question is asked again.
                    continue;
                }
                if count.messages > 0 {
                    let given = self.given.entry(site.clone()).or_default();
                    given.messages += count.messages;
                    given.bytes += count.bytes;
                }
            } else {
                // Looking costs as well.
                self.credit -= PART_COST as i64;
            }
            if !done {
                self.answers.push((site, answer));
            }
        }
    }

    fn refill(&mut self, now: Time) {
        let most = (self.rate / 4).max(PART_BYTES as u64).cast_signed();
        let passed = self.refilled.map_or(Span::millis(100), |before| now.since(before));
        self.refilled = Some(now);
        let passed = u128::from(passed.clamp(Span::ZERO, Span::secs(1)).0.cast_unsigned());
        let more = u128::from(self.rate) * passed / 1_000_000_000;
        self.credit = (self.credit + i64::try_from(more).unwrap_or(most)).min(most);
    }
}

impl Answer {
    /// Looks at a few messages more. Returns what is to be sent, what of it are messages, and whether that was all.
    fn go_on(&mut self, now: Time, logs: &mut impl Logs) -> (Option<Vec<u8>>, Traffic, bool) {
        match self.ask.want {
            Want::List { from, up_to, .. } => self.list(from, up_to, logs),
            Want::Give { after, up_to, .. } => self.give(now, after, up_to, logs),
        }
    }

    fn list(&mut self, from: From, up_to: u64, logs: &mut impl Logs) -> (Option<Vec<u8>>, Traffic, bool) {
        let log = &*self.ask.log;
        let begin = match from {
            From::After(position) => position,
            From::Younger(span) => logs.younger(log, span),
        };
        if self.at.is_none() {
            self.ask.want = Want::List { from: From::After(begin), up_to, filters: Vec::new() };
        }
        let at = self.at.unwrap_or(begin);
        let (streams, filters, listed) = (&mut self.streams, &self.filters, &mut self.listed);
        let (mut is_full, mut is_past) = (false, false);
        let looked = logs.read(log, at, LOOKED_AT_ONCE, &mut |kept| {
            is_past = kept.position > up_to;
            if is_past {
                return false;
            }
            let item = &kept.item;
            if !filters.iter().any(|filter| filter.matches(item.topic)) {
                return true;
            }
            let name = StreamName::new(item.topic, item.publisher, item.life);
            if !streams.contains_key(&name) {
                listed.2 += name.bytes();
            }
            streams.entry(name).or_default().insert(item.seq, item.seq);
            (listed.0, listed.1) = (listed.0 + 1, listed.1 + item.payload.len());
            is_full = listed.0 >= LISTED_MAX
                || listed.1 >= LISTED_BYTES_MAX
                || listed.2 >= NAMES_BYTES_MAX
                || streams.len() >= STREAMS_MAX
                // Each message makes one range more at most.
                || listed.0 >= RANGES_MAX as u64 && streams.values().map(Ranges::len).sum::<usize>() >= RANGES_MAX;
            !is_full
        });
        let looked_to = if is_past { up_to } else { looked.to };
        self.at = Some(looked_to);
        if !is_full && !is_past && !looked.is_end && looked_to < up_to {
            return (None, Traffic::default(), false);
        }
        let streams = std::mem::take(&mut self.streams);
        let streams: Listed = streams.into_iter().map(|(name, had)| (name, had.iter().collect())).collect();
        let bytes = Part::encode_list(self.ask.number, begin, looked_to.max(begin), &streams);
        (Some(bytes), Traffic::default(), true)
    }

    fn give(
        &mut self,
        now: Time,
        after: u64,
        up_to: u64,
        logs: &mut impl Logs,
    ) -> (Option<Vec<u8>>, Traffic, bool) {
        let at = self.at.unwrap_or(after);
        let (mut body, mut count) = (Vec::new(), Traffic::default());
        let (mut is_past, mut is_full) = (false, false);
        let missing = &self.missing;
        let mut name = StreamName::new("", "", 0);
        let looked = logs.read(&self.ask.log, at, LOOKED_AT_ONCE, &mut |kept| {
            if kept.position > up_to {
                is_past = true;
                return false;
            }
            let item = &kept.item;
            if *name.topic != *item.topic || *name.publisher != *item.publisher || name.life != item.life {
                name = StreamName::new(item.topic, item.publisher, item.life);
            }
            if missing.get(&name).is_some_and(|ranges| ranges.has(item.seq)) {
                item.append_to(&mut body);
                count.messages += 1;
                count.bytes += item.payload.len() as u64;
            }
            is_full = body.len() >= PART_BYTES;
            !is_full
        });
        self.at = Some(looked.to);
        let done = is_past || looked.is_end || looked.to >= up_to;
        if body.is_empty() && !done {
            return (None, count, false);
        }
        let bytes = Part::encode_items(self.ask.number, self.index, done, now, &body);
        self.index += 1;
        (Some(bytes), count, done)
    }
}
