//! A segment, and the index of what is in it: for each topic where its items begin, and a mark every so many of them.
//!
//! **The problem**: an entry for each item would take as much memory as a tenth of the disk. **The idea**: every item says where the one of
//! its topic before it is, so from a mark one gets to every item between it and the mark before. **The invariant**: from each mark, and from the
//! last item, the way back reaches the mark before in at most `items_per_mark` steps, whatever other topics have in between.

use crate::format::{HEADER_BYTES, Header, NOTE_BYTES, RawItem, TRAILER_BYTES, seal_bytes};
use crate::{FileName, Position, Settings, TopicId};
use contract::{Span, Time, invariant};

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) generation: u32,
    pub(crate) covers_to: u64,
    pub(crate) lane: u8,
    /// The bytes of its file.
    pub(crate) capacity: u64,
    /// Where the next record goes, or would.
    pub(crate) end: u32,
    pub(crate) entries: Vec<Entry>,
    /// All marks of all entries.
    pub(crate) marks: usize,
    pub(crate) items_per_mark: u32,
    /// Whether nothing is written to it any more.
    pub(crate) is_closed: bool,
    /// When nothing in it lives any more, at the latest; as things are.
    pub(crate) dies_at: Time,
}

/// What a topic has in a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) topic: TopicId,
    pub(crate) count: u32,
    /// Of its items, with what belongs to each.
    pub(crate) bytes: u64,
    pub(crate) first: Position,
    pub(crate) last: Position,
    pub(crate) last_at: u32,
    /// Where the topic's name stands.
    pub(crate) declared_at: u32,
    pub(crate) created_max: Time,
    pub(crate) expires_max: Time,
    /// Of the first item, and of every so many behind it.
    pub(crate) marks: Vec<Mark>,
    /// So many marks and what is behind each have been given up because the topic has too many bytes.
    pub(crate) given_up: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) position: Position,
    pub(crate) at: u32,
    /// Of the topic's items in this segment before this one.
    pub(crate) bytes_before: u32,
}

impl Segment {
    pub(crate) fn new(header: &Header, items_per_mark: u32) -> Segment {
        Segment {
            id: header.id,
            generation: header.generation,
            covers_to: header.covers_to,
            lane: header.lane,
            capacity: header.bytes,
            end: HEADER_BYTES as u32,
            entries: Vec::new(),
            marks: 0,
            items_per_mark,
            is_closed: false,
            dies_at: Time::NEVER,
        }
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            lane: self.lane,
            generation: self.generation,
            id: self.id,
            covers_to: self.covers_to,
            bytes: self.capacity,
        }
    }

    pub(crate) fn name(&self) -> FileName {
        FileName::Segment { id: self.id, generation: self.generation }
    }

    /// Whether an item of so many bytes still fits, with the index that is then to be written. `entry`: where the topic stands in it; or
    /// else its name, of so many bytes, must be written too.
    pub(crate) fn has_room(&self, bytes: usize, entry: Result<usize, usize>, settings: &Settings) -> bool {
        let (entries, marks, declared) = match entry {
            Ok(index) => {
                let count = self.entries.get(index).map_or(0, |entry| entry.count);
                let marks = self.marks + usize::from(count.is_multiple_of(self.items_per_mark));
                (self.entries.len(), marks, 0)
            }
            Err(name) => (self.entries.len() + 1, self.marks + 1, NOTE_BYTES + name),
        };
        entries <= settings.topics_per_segment_max
            && marks <= settings.marks_per_segment_max
            && bytes_used(self.end as usize + declared + bytes, entries, marks) <= self.capacity
    }

    /// The name of a topic has been written at the end. Returns the number of its entry.
    pub(crate) fn declare(&mut self, topic: TopicId, bytes: usize) -> usize {
        self.entries.push(Entry {
            topic,
            count: 0,
            bytes: 0,
            first: Position::BEGIN,
            last: Position::BEGIN,
            last_at: 0,
            declared_at: self.end,
            created_max: Time::ZERO,
            expires_max: Time::ZERO,
            marks: Vec::new(),
            given_up: 0,
        });
        self.end += bytes as u32;
        self.entries.len() - 1
    }

    /// An item has been written at the end.
    pub(crate) fn add(&mut self, index: usize, item: &RawItem) {
        let (at, len) = (self.end, item.len());
        self.end += len as u32;
        let Some(entry) = self.entries.get_mut(index) else {
            return invariant!("what an item is added to is declared");
        };
        if entry.count == 0 {
            entry.first = item.position;
        }
        if entry.count.is_multiple_of(self.items_per_mark) {
            entry.marks.push(Mark { position: item.position, at, bytes_before: entry.bytes as u32 });
            self.marks += 1;
        }
        entry.count += 1;
        entry.bytes += len as u64;
        (entry.last, entry.last_at) = (item.position, at);
        entry.created_max = entry.created_max.max(item.created);
        entry.expires_max = entry.expires_max.max(item.expires);
    }

    /// The numbers of its first item and of its last.
    pub(crate) fn range(&self) -> Option<(Position, Position)> {
        let first = self.entries.iter().filter(|entry| entry.count > 0).map(|entry| entry.first).min()?;
        Some((first, self.entries.iter().map(|entry| entry.last).max()?))
    }

    pub(crate) fn items(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.count)).sum()
    }
}

impl Entry {
    /// When all of its items are out of date.
    pub(crate) fn dies_at(&self, keep: Span) -> Time {
        if self.has_given_up() { Time::ZERO } else { (self.created_max + keep).min(self.expires_max) }
    }

    /// Whether nothing of it is left because the topic had too many bytes.
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up as usize >= self.marks.len()
    }

    /// Bytes that have not been given up.
    pub(crate) fn bytes_left(&self) -> u64 {
        let before = self.marks.get(self.given_up as usize).map(|mark| u64::from(mark.bytes_before));
        before.map_or(0, |before| self.bytes - before)
    }

    /// Items that have not been given up.
    pub(crate) fn count_left(&self, items_per_mark: u32) -> u64 {
        if self.has_given_up() {
            return 0;
        }
        u64::from(self.count.saturating_sub(self.given_up.saturating_mul(items_per_mark)))
    }

    /// Up to where it has been given up.
    pub(crate) fn floor(&self) -> Position {
        match self.marks.get(self.given_up as usize) {
            Some(mark) => Position(mark.position.0.saturating_sub(1)),
            None => self.last,
        }
    }
}

/// What a file needs: its records up to `end`, its index and the trailer.
pub(crate) fn bytes_used(end: usize, entries: usize, marks: usize) -> u64 {
    (end + seal_bytes(entries, marks) + TRAILER_BYTES) as u64
}
