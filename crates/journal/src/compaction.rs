//! Where long-kept topics hold short-kept ones back, what still lives of old segments is copied into a new one.
//!
//! **The problem**: a segment can be deleted only when nothing in it lives. **The idea**: neighbours of which little lives become one, which
//! takes the name of the first with the next generation, and says up to which it stands for. Items keep their numbers, and their order.
//! **The invariant**: old segments are removed only when the new one has been synced; whoever finds both uses the new one if it is complete,
//! and the old ones if it is not. **What it costs**: a byte is copied for each byte that becomes free, at most.
//!
//! Copies to the head would be simpler to write, but then a topic's items would no longer lie in order of their numbers.

use crate::format::{self, HEADER_BYTES, Header, NOTE_BYTES, RawItem, Record, u32_at};
use crate::room::Cause;
use crate::segment::{Segment, bytes_used};
use crate::topics::Place;
use crate::{Damage, Event, Files, Journal, Mutant, PRIORITIES, State, TopicId};
use contract::{Span, Time, invariant};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Compaction {
    /// No other has it: one that was given up may have had the same file.
    number: u64,
    target: Segment,
    sources: Vec<u64>,
    /// Which of the sources is copied, and from where.
    source: usize,
    at: u32,
    /// Where topics stand in the target.
    entries: BTreeMap<TopicId, usize>,
    is_copied: bool,
}

/// What is known of a segment that may be compacted.
struct Living {
    id: u64,
    capacity: u64,
    topics: Vec<(TopicId, usize)>,
    bytes: u64,
    marks: usize,
}

/// So often it is looked whether there is something to compact.
const LOOK: Span = Span::secs(1);
/// Segments that become one, at most.
const SOURCES_MAX: usize = 1_024;

impl<F: Files> Journal<F> {
    pub(crate) fn compaction_waits(&self) -> bool {
        self.compaction.as_ref().is_some_and(|compaction| !compaction.is_copied)
    }

    pub(crate) fn compaction_to_sync(&self) -> Option<u64> {
        let compaction = self.compaction.as_ref().filter(|compaction| compaction.is_copied)?;
        Some(compaction.number)
    }

    /// Copies so many bytes, or one record.
    pub(crate) fn compact(&mut self, now: Time, bytes: usize) {
        if self.compaction.is_none() && now >= self.next_look && self.state == State::Healthy {
            self.next_look = now + LOOK;
            self.begin_compaction(now);
        }
        let mut left = bytes as u64;
        while self.compaction_waits() {
            let Some(copied) = self.copy_record(now) else {
                self.abort_compaction();
                return;
            };
            if copied >= left {
                return;
            }
            left -= copied;
        }
    }

    /// A segment that is being copied is deleted.
    pub(crate) fn abort_compaction_of(&mut self, id: u64) {
        if self.compaction.as_ref().is_some_and(|compaction| compaction.sources.contains(&id)) {
            self.abort_compaction();
        }
    }

    fn abort_compaction(&mut self) {
        let Some(compaction) = self.compaction.take() else { return };
        self.used = self.used.saturating_sub(compaction.target.capacity);
        self.remove_file(compaction.target.name());
        self.syncs.names = true;
    }

    fn begin_compaction(&mut self, now: Time) {
        let Some((lane, run, bytes)) = (0..PRIORITIES).find_map(|lane| self.find_run(now, lane)) else {
            return;
        };
        if self.used + bytes > self.settings.bytes_max {
            return;
        }
        let of = |id: &u64| self.segments.get(id);
        let Some((first, last)) = run.first().and_then(of).zip(run.last().and_then(of)) else {
            return invariant!("segments that were found are there");
        };
        let (id, generation) = (first.id, first.generation + 1);
        let header = Header { lane: lane as u8, generation, id, covers_to: last.covers_to, bytes };
        let target = Segment::new(&header, self.settings.items_per_mark);
        // A disk that is full says so when something is appended, too.
        if self.begin_segment(&target).is_ok() {
            self.syncs.compactions += 1;
            let number = self.syncs.compactions;
            let (entries, at) = (BTreeMap::new(), HEADER_BYTES as u32);
            self.compaction =
                Some(Compaction { number, target, sources: run, source: 0, at, entries, is_copied: false });
        }
    }

    /// Neighbours that together would take half as much at most.
    fn find_run(&self, now: Time, lane: usize) -> Option<(usize, Vec<u64>, u64)> {
        let closed = self.segments.values().filter(|it| usize::from(it.lane) == lane && it.is_closed);
        let living: Vec<Living> = closed.map(|segment| self.living(now, segment)).collect();
        let mut begin = 0;
        while begin < living.len() {
            let (mut end, mut free, mut best) = (begin, 0, None);
            let (mut topics, mut bytes, mut marks) = (BTreeMap::new(), 0, 0);
            while let Some(one) = living.get(end).filter(|_| end - begin < SOURCES_MAX) {
                topics.extend(one.topics.iter().copied());
                (bytes, marks) = (bytes + one.bytes, marks + one.marks);
                let names: usize = topics.values().map(|name| NOTE_BYTES + name).sum();
                let used = bytes_used(HEADER_BYTES + names + bytes as usize, topics.len(), marks);
                if used > u64::from(self.settings.segment_bytes)
                    || topics.len() > self.settings.topics_per_segment_max
                    || marks > self.settings.marks_per_segment_max
                {
                    break;
                }
                (end, free) = (end + 1, free + one.capacity);
                best = (free >= 2 * used && bytes > 0).then_some((end, used)).or(best);
            }
            if let Some((end, used)) = best {
                return Some((lane, living[begin..end].iter().map(|one| one.id).collect(), used));
            }
            begin += 1;
        }
        None
    }

    fn living(&self, now: Time, segment: &Segment) -> Living {
        let mut living =
            Living { id: segment.id, capacity: segment.capacity, topics: Vec::new(), bytes: 0, marks: 0 };
        for entry in &segment.entries {
            let Some(topic) = self.topics.get(&entry.topic) else { continue };
            if entry.dies_at(topic.settings.keep) > now {
                living.topics.push((entry.topic, topic.name.len()));
                living.bytes += entry.bytes_left();
                let items = entry.count_left(segment.items_per_mark);
                living.marks += (items / u64::from(self.settings.items_per_mark)) as usize + 1;
            }
        }
        living
    }

    /// Copies a record if it is an item that lives. Returns its bytes; nothing: it cannot go on.
    fn copy_record(&mut self, now: Time) -> Option<u64> {
        let compaction = self.compaction.as_mut()?;
        let Some(id) = compaction.sources.get(compaction.source) else {
            return self.finish_copy();
        };
        let source = self.segments.get(id)?;
        let (name, at, end) = (source.name(), u64::from(compaction.at), u64::from(source.end));
        if at >= end {
            (compaction.source, compaction.at) = (compaction.source + 1, HEADER_BYTES as u32);
            return Some(0);
        }
        let frame = self.page.fetch(&self.files, name, at, 4, end).ok().flatten();
        let len = frame.and_then(|frame| u32_at(frame, 0)).unwrap_or(0);
        let bytes = self.page.fetch(&self.files, name, at, len as usize, end).ok().flatten();
        match bytes.and_then(Record::decode) {
            Some(Record::Item(item)) => {
                compaction.at += len;
                let entry = source.entries.iter().find(|entry| entry.topic == item.topic)?;
                let keep = self.topics.get(&item.topic).map(|topic| topic.settings.keep);
                let is_last = Mutant::CopyTooLittle.is_on() && entry.last == item.position;
                let lives = keep.is_some_and(|keep| (item.created + keep).min(item.expires) > now);
                if lives && item.position > entry.floor() && !is_last {
                    let topic = self.topics.get(&item.topic)?;
                    copy_item(&mut self.files, &mut self.scratch, compaction, topic, &item, &self.settings)?;
                }
            }
            Some(_) => compaction.at += len,
            None => {
                // From there on it is readable again where the next mark is.
                let marks = source.entries.iter().flat_map(|entry| &entry.marks).map(|mark| mark.at);
                let next = marks.filter(|mark| *mark > compaction.at).min().unwrap_or(source.end);
                let bytes = u64::from(next - compaction.at);
                compaction.at = next;
                let what = "it cannot be read to be copied";
                let damage = Damage { file: name, at, bytes, items: None, topic: None, what };
                self.events.push(Event::Damage(damage));
            }
        }
        Some(u64::from(len))
    }

    fn finish_copy(&mut self) -> Option<u64> {
        let compaction = self.compaction.as_mut()?;
        let target = &mut compaction.target;
        format::encode_seal(target, &mut self.scratch);
        let trailer = format::encode_trailer(target.end, self.scratch.len() as u32);
        let trailer_at = target.capacity - trailer.len() as u64;
        self.files.write(target.name(), u64::from(target.end), &self.scratch).ok()?;
        self.files.write(target.name(), trailer_at, &trailer).ok()?;
        self.files.finish(target.name());
        (target.is_closed, compaction.is_copied) = (true, true);
        self.syncs.soil(target.name());
        (self.syncs.names, self.syncs.is_needed) = (true, true);
        if Mutant::RemoveEarly.is_on() {
            let number = compaction.number;
            self.finish_compaction(number);
        }
        Some(0)
    }

    /// The copy has been synced: it takes the place of what was copied.
    pub(crate) fn finish_compaction(&mut self, number: u64) {
        let Some(compaction) = self.compaction.take_if(|compaction| compaction.number == number) else {
            return;
        };
        let Compaction { mut target, sources, entries, .. } = compaction;
        let topics: BTreeMap<TopicId, ()> = sources
            .iter()
            .filter_map(|id| self.segments.get(id))
            .flat_map(|segment| segment.entries.iter().map(|entry| (entry.topic, ())))
            .collect();
        for id in topics.into_keys() {
            let entry = entries.get(&id).copied();
            self.move_topic(id, &sources, &mut target, entry);
        }
        sources.iter().for_each(|id| self.remove_segment(*id, Cause::Compacted));
        let id = target.id;
        let topics: Vec<TopicId> = target.entries.iter().map(|entry| entry.topic).collect();
        self.segments.insert(id, target);
        self.judge_death(id);
        topics.into_iter().for_each(|topic| self.keep_topic_small(topic));
        self.next_look = Time::ZERO;
    }

    /// A topic's items are in the target, and no more in the sources.
    fn move_topic(&mut self, id: TopicId, sources: &[u64], target: &mut Segment, entry: Option<usize>) {
        let Some(topic) = self.topics.get_mut(&id) else {
            return invariant!("a topic with items is there");
        };
        let (mut bytes, mut items, mut floor) = (0, 0, crate::Position::BEGIN);
        for segment in sources.iter().filter_map(|source| self.segments.get(source)) {
            for old in segment.entries.iter().filter(|entry| entry.topic == id) {
                bytes += old.bytes_left();
                items += old.count_left(segment.items_per_mark);
                if old.given_up > 0 {
                    floor = floor.max(old.floor());
                }
            }
        }
        let place = topic.places.iter().position(|place| sources.contains(&place.segment));
        topic.places.retain(|place| !sources.contains(&place.segment));
        topic.bytes = topic.bytes.saturating_sub(bytes);
        if let Some((index, entry)) = entry.and_then(|index| Some((index, target.entries.get_mut(index)?))) {
            while entry
                .marks
                .get(entry.given_up as usize + 1)
                .is_some_and(|mark| mark.position.0 <= floor.0 + 1)
            {
                entry.given_up += 1;
            }
            items = items.saturating_sub(entry.count_left(target.items_per_mark));
            if let Some(place) = place {
                topic.bytes += entry.bytes_left();
                topic.places.insert(place, Place { segment: target.id, entry: index });
            } else {
                entry.given_up = entry.marks.len() as u32;
            }
        }
        topic.counters.expired += items;
    }
}

/// Writes an item at the end of the target. Nothing: it cannot be.
fn copy_item<F: Files>(
    files: &mut F,
    scratch: &mut Vec<u8>,
    compaction: &mut Compaction,
    topic: &crate::topics::Topic,
    item: &RawItem,
    settings: &crate::Settings,
) -> Option<()> {
    let Compaction { target, entries, .. } = compaction;
    let known = entries.get(&item.topic).copied();
    if !target.has_room(item.len(), known.ok_or(topic.name.len()), settings) {
        return None;
    }
    let entry = match known {
        Some(entry) => entry,
        None => {
            topic.note(item.topic).encode(scratch);
            files.write(target.name(), u64::from(target.end), scratch).ok()?;
            let entry = target.declare(item.topic, scratch.len());
            entries.insert(item.topic, entry);
            entry
        }
    };
    let copy = RawItem { before: target.entries.get(entry)?.last_at, ..*item };
    copy.encode(scratch);
    files.write(target.name(), u64::from(target.end), scratch).ok()?;
    target.add(entry, &copy);
    Some(())
}
