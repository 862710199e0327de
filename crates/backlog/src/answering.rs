//! Who publishes: what is asked for is read from the journal, and leaves no faster than it may.
//!
//! Nothing is remembered of whom what was sent. What is remembered of a question is how far its answer has come; another question of the same
//! site takes its place.

use crate::ranges::Ranges;
use crate::words::{NAMES_BYTES_MAX, RANGES_MAX, STREAMS_MAX};
use crate::{Ask, From, Item, Listed, Part, StreamName, Traffic, Want};
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
    number: u64,
    log: Box<str>,
    /// It is looked up to there.
    up_to: u64,
    work: Work,
    /// Bytes in a second that who asks may take.
    rate: u64,
    /// Those that may leave for it now; less than nothing after a long message.
    credit: i64,
}

/// What is to be done, and how far it has come: up to where it has been looked.
#[derive(Clone, Debug)]
enum Work {
    List { from: From, listing: Option<Listing>, filters: Vec<TopicFilter> },
    Give { at: u64, missing: BTreeMap<StreamName, Ranges>, index: u64 },
}

/// A list that is being made.
#[derive(Clone, Debug)]
struct Listing {
    begin: u64,
    at: u64,
    streams: BTreeMap<StreamName, Ranges>,
    messages: u64,
    payload_bytes: usize,
    name_bytes: usize,
    ranges: usize,
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
        let (up_to, work) = match ask.want {
            Want::List { from, up_to, filters } => {
                let filters = filters.iter().filter_map(|filter| filter.parse().ok()).collect();
                (up_to, Work::List { from, listing: None, filters })
            }
            Want::Give { after, up_to, missing } => {
                let missing = missing.into_iter().map(|(name, ranges)| (name, Ranges::of(ranges)));
                (up_to, Work::Give { at: after, missing: missing.collect(), index: 0 })
            }
        };
        let rate = if ask.rate == 0 { self.rate } else { ask.rate.min(self.rate) };
        let answer = Answer { number: ask.number, log: ask.log, up_to, work, rate, credit: 0 };
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
            if answer.rate < self.rate && answer.credit < 0 {
                // Who asks takes no more now.
                self.answers.push((site, answer));
                continue;
            }
            let (bytes, count, done) = answer.go_on(now, logs);
            if let Some(bytes) = bytes {
                self.credit -= (bytes.len() + PART_COST) as i64;
                answer.credit -= (bytes.len() + PART_COST) as i64;
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
        let passed = self.refilled.map_or(Span::millis(100), |before| now.since(before));
        self.refilled = Some(now);
        let passed = passed.clamp(Span::ZERO, Span::secs(1));
        self.credit = refilled(self.credit, self.rate, passed);
        for (_, answer) in &mut self.answers {
            // Nothing of it is saved up.
            answer.credit = refilled(answer.credit, answer.rate, passed).min(0);
        }
    }
}

/// What may leave after this time, where it was so much before.
fn refilled(credit: i64, rate: u64, passed: Span) -> i64 {
    let most = (rate / 4).max(PART_BYTES as u64).cast_signed();
    let more = u128::from(rate) * u128::from(passed.0.cast_unsigned()) / 1_000_000_000;
    (credit + i64::try_from(more).unwrap_or(most)).min(most)
}

impl Answer {
    /// Looks at a few messages more. Returns what is to be sent, what of it are messages, and whether that was all.
    fn go_on(&mut self, now: Time, logs: &mut impl Logs) -> (Option<Vec<u8>>, Traffic, bool) {
        let Answer { number, log, up_to, work, .. } = self;
        match work {
            Work::List { from, listing, filters } => {
                let listing = listing.get_or_insert_with(|| {
                    Listing::new(match *from {
                        From::After(position) => position,
                        From::Younger(span) => logs.younger(log, span),
                    })
                });
                let list = listing.go_on(log, *up_to, filters, logs).then(|| listing.encode(*number));
                let done = list.is_some();
                (list, Traffic::default(), done)
            }
            Work::Give { at, missing, index } => {
                let (body, count, done) = give(log, at, *up_to, missing, logs);
                let part = (done || !body.is_empty()).then(|| {
                    let part = Part::encode_items(*number, *index, done, now, &body);
                    *index += 1;
                    part
                });
                (part, count, done)
            }
        }
    }
}

impl Listing {
    fn new(begin: u64) -> Listing {
        let streams = BTreeMap::new();
        Listing { begin, at: begin, streams, messages: 0, payload_bytes: 0, name_bytes: 0, ranges: 0 }
    }

    /// Looks at a few messages more. Returns whether the list is complete, or as long as it may be.
    fn go_on(&mut self, log: &str, up_to: u64, filters: &[TopicFilter], logs: &mut impl Logs) -> bool {
        let (mut is_full, mut is_past) = (false, false);
        let looked = logs.read(log, self.at, LOOKED_AT_ONCE, &mut |kept| {
            is_past = kept.position > up_to;
            if is_past {
                return false;
            }
            if filters.iter().any(|filter| filter.matches(kept.item.topic)) {
                self.add(&kept.item);
                is_full = self.is_full();
            }
            !is_full
        });
        self.at = if is_past { up_to } else { looked.to };
        is_full || is_past || looked.is_end || self.at >= up_to
    }

    fn add(&mut self, item: &Item<'_>) {
        let name = StreamName::new(item.topic, item.publisher, item.life);
        let bytes = name.bytes();
        let ranges = self.streams.entry(name).or_default();
        let before = ranges.len();
        ranges.insert(item.seq, item.seq);
        self.ranges = self.ranges + ranges.len() - before;
        self.name_bytes += if before == 0 { bytes } else { 0 };
        (self.messages, self.payload_bytes) = (self.messages + 1, self.payload_bytes + item.payload.len());
    }

    fn is_full(&self) -> bool {
        self.messages >= LISTED_MAX
            || self.payload_bytes >= LISTED_BYTES_MAX
            || self.name_bytes >= NAMES_BYTES_MAX
            || self.streams.len() >= STREAMS_MAX
            || self.ranges >= RANGES_MAX
    }

    fn encode(&mut self, number: u64) -> Vec<u8> {
        let streams = std::mem::take(&mut self.streams);
        let streams: Listed = streams.into_iter().map(|(name, had)| (name, had.iter().collect())).collect();
        Part::encode_list(number, self.begin, self.at.max(self.begin), &streams)
    }
}

/// Looks at a few messages more behind a position, which moves. Returns those that are missing, what they are, and whether that was all.
fn give(
    log: &str,
    at: &mut u64,
    up_to: u64,
    missing: &BTreeMap<StreamName, Ranges>,
    logs: &mut impl Logs,
) -> (Vec<u8>, Traffic, bool) {
    let (mut body, mut count, mut is_past) = (Vec::new(), Traffic::default(), false);
    let mut name = StreamName::new("", "", 0);
    let looked = logs.read(log, *at, LOOKED_AT_ONCE, &mut |kept| {
        is_past = kept.position > up_to;
        if is_past {
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
        body.len() < PART_BYTES
    });
    *at = looked.to;
    (body, count, is_past || looked.is_end || looked.to >= up_to)
}
