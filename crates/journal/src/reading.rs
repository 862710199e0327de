//! How items are read: a topic's from a position on, in order, so many at a time.

use crate::format::{ITEM_BYTES, ItemHead, RawItem, is_whole};
use crate::{Damage, Event, Files, Journal, Mutant, Position, TopicId};
use contract::{Span, Time};

/// Where somebody reads. It holds nothing of the journal; whoever has it may drop it, or go on after any time.
#[derive(Clone, Debug)]
pub struct Cursor {
    topic: TopicId,
    after: Position,
    created_min: Time,
    /// The segment, its generation, and where the next items are in it, the next one last.
    segment: (u64, u32),
    block: Vec<Spot>,
}

/// Where an item is.
#[derive(Clone, Copy, Debug)]
struct Spot {
    position: Position,
    at: u32,
}

/// What may be read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Items, those that are passed over as well.
    pub items: usize,
    /// Bytes that are looked at. An item that is longer is read all the same, alone.
    pub bytes: usize,
}

/// What of a topic somebody wants who comes late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// So many of its last items; fewer are given if some of these are out of date.
    Last(u64),
    /// What was created no longer ago than this.
    Younger(Span),
}

/// An item that was kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    /// Its number.
    pub position: Position,
    /// Of which topic it is.
    pub topic: TopicId,
    /// Which stream it is of.
    pub identity: &'a [u8],
    /// Its number in its stream.
    pub sequence: u64,
    /// When it was created.
    pub created: Time,
    /// When it is out of date, if not before by the topic's `keep`.
    pub expires: Time,
    /// What else was to be remembered.
    pub flags: u8,
    /// What it says.
    pub payload: &'a [u8],
}

/// What is read at once. Ends when there is nothing more, or the budget is used up.
#[derive(Debug)]
pub struct Batch<'a, F: Files> {
    journal: &'a mut Journal<F>,
    cursor: &'a mut Cursor,
    now: Time,
    budget: Budget,
    is_at_end: bool,
}

impl Cursor {
    /// From the first item of a topic behind this one.
    pub fn after(topic: TopicId, position: Position) -> Cursor {
        let (segment, block) = ((0, 0), Vec::new());
        Cursor { topic, after: position, created_min: Time::ZERO, segment, block }
    }

    /// The item that was read last, or where it began.
    pub fn position(&self) -> Position {
        self.after
    }

    /// Of which topic it reads.
    pub fn topic(&self) -> TopicId {
        self.topic
    }
}

impl<F: Files> Journal<F> {
    /// Reads on. Items that are out of date are passed over.
    pub fn read<'a>(&'a mut self, cursor: &'a mut Cursor, now: Time, budget: Budget) -> Batch<'a, F> {
        Batch { journal: self, cursor, now, budget, is_at_end: false }
    }

    /// Where somebody who comes late begins.
    pub fn history(&mut self, topic: TopicId, wanted: History, now: Time) -> Cursor {
        match wanted {
            History::Last(items) => Cursor::after(topic, self.before_last(topic, items)),
            History::Younger(span) => {
                let created_min = now - span;
                let after = self.before_younger(topic, created_min).unwrap_or_else(|| self.last());
                Cursor { created_min, ..Cursor::after(topic, after) }
            }
        }
    }

    /// The position before so many last items.
    fn before_last(&mut self, id: TopicId, items: u64) -> Position {
        let Some(topic) = self.topics.get(&id) else { return Position::BEGIN };
        let mut found = 0;
        for place in topic.places.iter().rev() {
            let Some(segment) = self.segments.get(&place.segment) else { continue };
            let Some(entry) = segment.entries.get(place.entry) else { continue };
            let left = entry.count_left(segment.items_per_mark);
            if found + left < items {
                found += left;
                continue;
            }
            // The items of this entry that are not wanted end in the block that a mark begins.
            let unwanted = u64::from(entry.count) - (items - found);
            let mark = entry.marks.get((unwanted / u64::from(segment.items_per_mark)) as usize);
            let Some(after) = mark.map(|mark| Position(mark.position.0 - 1)) else { return entry.last };
            let rest = (unwanted % u64::from(segment.items_per_mark)) as usize;
            if rest == 0 {
                return after;
            }
            let mut cursor = Cursor::after(id, after);
            let mut last = after;
            for _ in 0..rest {
                if cursor.block.is_empty() {
                    self.fill(&mut cursor);
                }
                let Some(spot) = cursor.block.pop() else { break };
                (cursor.after, last) = (spot.position, spot.position);
            }
            return last;
        }
        Position::BEGIN
    }

    /// The position before the first segment that has something which was created as late as this.
    fn before_younger(&self, id: TopicId, created_min: Time) -> Option<Position> {
        let places = &self.topics.get(&id)?.places;
        let entries = places.iter().filter_map(|it| self.segments.get(&it.segment)?.entries.get(it.entry));
        let mut young = entries.filter(|entry| entry.created_max >= created_min);
        young.next().map(|entry| Position(entry.first.0.saturating_sub(1)))
    }

    /// Finds the next items of a topic, as many as stand between two marks. Returns bytes that were looked at; nothing: there are none.
    fn fill(&mut self, cursor: &mut Cursor) -> Option<usize> {
        cursor.block.clear();
        let topic = self.topics.get(&cursor.topic)?;
        // Places are in order of their items, and none is empty.
        let index = topic.places.partition_point(|place| {
            let entry = self.segments.get(&place.segment).and_then(|it| it.entries.get(place.entry));
            entry.is_none_or(|entry| entry.last <= cursor.after)
        });
        let place = topic.places.get(index)?;
        let segment = self.segments.get(&place.segment)?;
        let entry = segment.entries.get(place.entry)?;
        let after = cursor.after.max(entry.floor());
        let marks = entry.marks.partition_point(|mark| mark.position <= after);
        let upper = entry.marks.get(marks).map(|mark| Spot { position: mark.position, at: mark.at });
        let upper = upper.unwrap_or(Spot { position: entry.last, at: entry.last_at });
        cursor.segment = (segment.id, segment.generation);
        let (name, end) = (segment.name(), u64::from(segment.end));
        let limit = segment.items_per_mark as usize + 1;
        let (mut spot, mut looked) = (upper, 0);
        loop {
            cursor.block.push(spot);
            looked += ITEM_BYTES;
            let head = self.page.fetch(&self.files, name, u64::from(spot.at), ITEM_BYTES, end).ok().flatten();
            let head = head.and_then(ItemHead::decode);
            let is_right = |head: &ItemHead| {
                head.topic == cursor.topic && head.before < spot.at && head.position == spot.position
            };
            let Some(head) = head.filter(is_right) else { break };
            if head.before == 0 || cursor.block.len() > limit {
                break;
            }
            let before = self.page.fetch(&self.files, name, u64::from(head.before), ITEM_BYTES, end);
            let before = before.ok().flatten().and_then(ItemHead::decode);
            let position = before.map_or(spot.position, |before| before.position);
            if position >= spot.position {
                self.damaged(cursor, Spot { position, at: head.before });
                break;
            }
            if position <= after {
                break;
            }
            spot = Spot { position, at: head.before };
        }
        Some(looked)
    }

    /// An item could not be read.
    fn damaged(&mut self, cursor: &Cursor, spot: Spot) {
        let Some(segment) = self.segments.get(&cursor.segment.0) else { return };
        let damage = Damage {
            file: segment.name(),
            at: u64::from(spot.at),
            bytes: 0,
            items: Some(u64::from(segment.items_per_mark)),
            topic: Some(cursor.topic),
            what: "an item is not as it was written",
        };
        self.events.push(Event::Damage(damage));
        if let Some(topic) = self.topics.get_mut(&cursor.topic) {
            topic.counters.damaged += 1;
        }
    }
}

impl<F: Files> Batch<'_, F> {
    /// The next item.
    pub fn next_item(&mut self) -> Option<Item<'_>> {
        let (spot, len) = self.find()?;
        let segment = self.journal.segments.get(&self.cursor.segment.0)?;
        let (name, end) = (segment.name(), u64::from(segment.end));
        let Journal { page, files, .. } = &mut *self.journal;
        let raw = RawItem::decode(page.fetch(files, name, u64::from(spot.at), len, end).ok()??)?;
        Some(Item {
            position: raw.position,
            topic: raw.topic,
            identity: raw.identity,
            sequence: raw.sequence,
            created: raw.created,
            expires: raw.expires,
            flags: raw.flags,
            payload: raw.payload,
        })
    }

    /// Whether it ended because there is nothing more.
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Goes to the next item that is alive and as it was written. Returns where it is, and its length.
    fn find(&mut self) -> Option<(Spot, usize)> {
        loop {
            if self.budget.items == 0 || self.budget.bytes == 0 {
                return None;
            }
            let (journal, cursor) = (&mut *self.journal, &mut *self.cursor);
            let segment = journal.segments.get(&cursor.segment.0);
            if segment.is_none_or(|segment| segment.generation != cursor.segment.1) {
                cursor.block.clear();
            }
            let Some(spot) = cursor.block.pop() else {
                match journal.fill(cursor) {
                    Some(looked) => self.budget.bytes = self.budget.bytes.saturating_sub(looked).max(1),
                    None => {
                        self.is_at_end = true;
                        return None;
                    }
                }
                continue;
            };
            self.budget.items -= 1;
            cursor.after = spot.position;
            let Some((len, created, expires)) = journal.look_at(cursor, spot) else {
                journal.damaged(cursor, spot);
                continue;
            };
            self.budget.bytes = self.budget.bytes.saturating_sub(len);
            let keep = journal.topics.get(&cursor.topic).map_or(Span::ZERO, |topic| topic.settings.keep);
            let is_out = (created + keep).min(expires) <= self.now && !Mutant::ReadExpired.is_on();
            if !is_out && created >= cursor.created_min {
                return Some((spot, len));
            }
        }
    }
}

impl<F: Files> Journal<F> {
    /// The length of an item, when it was created and when it is out of date; nothing: it is not as it was written.
    fn look_at(&mut self, cursor: &Cursor, spot: Spot) -> Option<(usize, Time, Time)> {
        let segment = self.segments.get(&cursor.segment.0)?;
        let (name, at, end) = (segment.name(), u64::from(spot.at), u64::from(segment.end));
        let head = ItemHead::decode(self.page.fetch(&self.files, name, at, ITEM_BYTES, end).ok()??)?;
        let bytes = self.page.fetch(&self.files, name, at, head.len as usize, end).ok()??;
        let item = RawItem::decode(bytes).filter(|_| is_whole(bytes))?;
        let is_right = item.topic == cursor.topic && item.position == spot.position;
        is_right.then_some((bytes.len(), item.created, item.expires))
    }
}
