//! How a journal is opened: what is in its files is found again, whatever happened to them.
//!
//! Segments that were sealed are not read, only their indexes; others are read to the first record that is not as it was written. What stands behind
//! it is not used any more, later segments are. Nothing is changed before every file is known to be of this version. What was being written
//! to is written on where there is nothing but zeros behind its last record; otherwise the next segment begins, since among what the disk kept there
//! could be records of before.

use crate::format::{
    self, FRAME_BYTES, Found, HEADER_BYTES, Header, Note, Record, TRAILER_BYTES, Word, u32_at,
};
use crate::journal::OPENING_SHIFT;
use crate::notes::{Notes, Receiver};
use crate::page::Page;
use crate::segment::Segment;
use crate::syncing::Syncs;
use crate::topics::{Place, Topic};
use crate::{
    Damage, Event, FileError, FileName, Files, Journal, Mutant, PRIORITIES, Position, ReceiverId, Settings,
    SettingsError, State, SyncOrder, TopicId,
};
use contract::Time;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Why a journal cannot be opened. Nothing has been lost by it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Settings do not fit together.
    #[error("{0}")]
    Settings(SettingsError),
    /// The disk does not do what it is asked for.
    #[error("the journal's files: {0}")]
    Files(FileError),
    /// A file was written by another version. Nothing has been changed.
    #[error(
        "{file} has version {version} and this program reads {}; use the program that wrote it, or move the journal away",
        format::FORMAT_VERSION
    )]
    Version {
        /// The file.
        file: FileName,
        /// Its version.
        version: u16,
    },
}

/// What the files are.
#[derive(Default)]
struct Listed {
    notes: Vec<(FileName, Header)>,
    segments: Vec<(Header, u64)>,
    /// Files in which nothing was written before the power failed.
    empty: Vec<(FileName, u64)>,
    bytes: u64,
    numbers: u64,
    next_segment: u64,
}

/// A note that was read.
struct Heard {
    /// Without its name.
    note: Note<'static>,
    name: Box<[u8]>,
}

impl<F: Files> Journal<F> {
    /// Opens the journal that is in these files, or a new one. This waits for the disk, as nothing else does: what was found is synced, and that
    /// it was opened. What was found to be damaged is told by [`Journal::poll_event`].
    pub fn open(files: F, settings: Settings) -> Result<Journal<F>, OpenError> {
        settings.check().map_err(OpenError::Settings)?;
        let mut journal = Journal::new(files, settings);
        let listed = journal.list_files()?;
        (journal.used, journal.next_segment) = (listed.bytes, listed.next_segment);
        for (name, len) in &listed.empty {
            journal.used -= len;
            journal.remove_file(*name);
        }
        let is_clean = journal.read_notes(&listed);
        journal.read_segments(listed.segments);
        journal.place_topics();
        journal.choose_heads();
        journal.count_opening(&listed.notes, is_clean)?;
        journal.judge_deaths();
        Ok(journal)
    }

    fn new(files: F, settings: Settings) -> Journal<F> {
        Journal {
            files,
            settings,
            segments: BTreeMap::new(),
            heads: [None; PRIORITIES],
            topics: BTreeMap::new(),
            next_topic: 0,
            next: Position::BEGIN,
            next_segment: 0,
            notes: Notes::default(),
            syncs: Syncs::default(),
            compaction: None,
            state: State::Healthy,
            retry_at: Time::ZERO,
            used: 0,
            next_death: Time::NEVER,
            next_look: Time::ZERO,
            events: crate::events::Events::default(),
            scratch: Vec::new(),
            page: Page::default(),
        }
    }

    /// What all files are; none has been changed if one of them is refused.
    fn list_files(&mut self) -> Result<Listed, OpenError> {
        let mut listed = Listed::default();
        let mut found = self.files.list().map_err(OpenError::Files)?;
        found.sort_unstable();
        for (name, len) in found {
            listed.bytes += len;
            match name {
                FileName::Notes(number) => listed.numbers = listed.numbers.max(number),
                FileName::Segment { id, .. } => listed.next_segment = listed.next_segment.max(id + 1),
            }
            let mut head = [0; HEADER_BYTES];
            let count = self.files.read(name, 0, &mut head).map_err(OpenError::Files)?;
            match Header::decode(name, head.get(..count).unwrap_or_default()) {
                Found::Header(header) if matches!(name, FileName::Notes(_)) => {
                    listed.notes.push((name, header));
                }
                Found::Header(header) => {
                    listed.next_segment = listed.next_segment.max(header.covers_to + 1);
                    listed.segments.push((header, len));
                }
                // Nothing was written behind its head, so nothing is lost with it.
                Found::Empty | Found::Damaged if self.last_written(name, 0) <= HEADER_BYTES as u64 => {
                    listed.empty.push((name, len));
                }
                Found::Version(version) => return Err(OpenError::Version { file: name, version }),
                Found::Empty | Found::Damaged => {
                    self.damage(name, 0, len, "its head is not as it was written");
                }
            }
        }
        self.notes.number = listed.numbers;
        Ok(listed)
    }

    fn damage(&mut self, file: FileName, at: u64, bytes: u64, what: &'static str) {
        self.events.push(Event::Damage(Damage { file, at, bytes, items: None, topic: None, what }));
    }

    /// Where the last byte is, from here on, that is not zero; one behind it.
    fn last_written(&mut self, name: FileName, from: u64) -> u64 {
        let mut chunk = vec![0; SCAN_BYTES];
        let (mut at, mut last) = (from, from);
        while let Ok(count) = self.files.read(name, at, &mut chunk) {
            let written = chunk.get(..count).unwrap_or_default().iter().rposition(|byte| *byte != 0);
            if let Some(index) = written {
                last = at + index as u64 + 1;
            }
            at += count as u64;
            if count < chunk.len() {
                return last;
            }
        }
        // Who cannot be read is not written to.
        u64::MAX
    }

    /// Reads notes. Returns whether the newest file can be written on.
    fn read_notes(&mut self, listed: &Listed) -> bool {
        let mut complete = 0;
        for (index, (name, header)) in listed.notes.iter().enumerate() {
            let mut is_complete = false;
            self.scan(*name, header.bytes, |_, record| {
                is_complete |= matches!(record, Record::Note(Note { word: Word::Complete, .. }));
                matches!(record, Record::Note(_))
            });
            if is_complete {
                complete = index;
            }
        }
        let mut is_clean = false;
        for (name, header) in listed.notes.iter().skip(complete) {
            let mut notes: Vec<Heard> = Vec::new();
            let end = self.scan(*name, header.bytes, |_, record| {
                let Record::Note(note) = record else { return false };
                let Note { word, first, second, value, .. } = *note;
                notes.push(Heard {
                    note: Note { word, first, second, value, name: &[] },
                    name: note.name.into(),
                });
                true
            });
            for heard in &notes {
                self.learn(&Note { name: &heard.name, ..heard.note });
            }
            let last = self.last_written(*name, end);
            is_clean = last == end;
            if !is_clean {
                let bytes = last.min(header.bytes).saturating_sub(end);
                self.damage(*name, end, bytes, "a note is not as it was written");
            }
            let is_complete = notes.iter().any(|heard| heard.note.word == Word::Complete);
            is_clean &= is_complete && header.id == listed.numbers;
            (self.notes.number, self.notes.capacity, self.notes.end) = (header.id, header.bytes, end);
        }
        self.notes.number = self.notes.number.max(listed.numbers);
        is_clean
    }

    fn learn(&mut self, note: &Note) {
        let notes = &mut self.notes;
        match note.word {
            Word::Topic => {
                self.next_topic = self.next_topic.max(note.first.saturating_add(1));
                self.topics.insert(TopicId(note.first), Topic::from_note(note));
            }
            Word::Receiver => {
                notes.next_receiver = notes.next_receiver.max(note.first.saturating_add(1));
                let receiver = Receiver { name: note.name.into(), positions: BTreeMap::new() };
                notes.receivers.entry(ReceiverId(note.first)).or_insert(receiver);
            }
            Word::HandedOn => {
                let Some(receiver) = notes.receivers.get_mut(&ReceiverId(note.first)) else { return };
                let position = receiver.positions.entry(TopicId(note.second)).or_insert_with(|| {
                    notes.positions += 1;
                    Position::BEGIN
                });
                *position = (*position).max(Position(note.value));
                if Mutant::GoBack.is_on() {
                    *position = Position(note.value);
                }
                self.next = self.next.max(Position(note.value));
            }
            Word::Gone => {
                if let Some(receiver) = notes.receivers.remove(&ReceiverId(note.first)) {
                    notes.positions -= receiver.positions.len();
                }
            }
            Word::Opening => {
                notes.opening = notes.opening.max(note.value);
                notes.next_receiver = notes.next_receiver.max(note.second);
                self.next_topic = self.next_topic.max(note.first);
            }
            Word::Complete => {}
        }
    }

    /// Reads records until one is not as it was written, or `take` does not want it. Returns where that is.
    fn scan(&mut self, name: FileName, end: u64, mut take: impl FnMut(u64, &Record) -> bool) -> u64 {
        let mut at = HEADER_BYTES as u64;
        let (mut buffer, mut begin) = (Vec::new(), at);
        loop {
            let have = buffer.len() as u64 - (at - begin);
            let known = buffer.get((at - begin) as usize..).unwrap_or_default();
            let len = u32_at(known, 0).map_or(FRAME_BYTES as u64, u64::from);
            if len < FRAME_BYTES as u64 || at + len > end {
                return at;
            }
            if have < len || have < 4 {
                let wanted = (end - at).min(len.max(SCAN_BYTES as u64)) as usize;
                buffer.resize(wanted, 0);
                begin = at;
                let count = self.files.read(name, at, &mut buffer).unwrap_or(0);
                buffer.truncate(count);
                if (count as u64) < len.max(4) {
                    return at;
                }
                continue;
            }
            let Some(record) = known.get(..len as usize).and_then(Record::decode) else { return at };
            if !take(at, &record) {
                return at;
            }
            at += len;
        }
    }

    fn read_segments(&mut self, mut found: Vec<(Header, u64)>) {
        found.sort_unstable_by_key(|(header, _)| (header.id, header.generation));
        let sealed: BTreeMap<(u64, u32), Segment> = found
            .iter()
            .filter_map(|(header, len)| Some(((header.id, header.generation), self.sealed(header, *len)?)))
            .collect();
        let is_of = |old: &Header, new: &Header| {
            let is_older = old.id > new.id || old.generation < new.generation;
            old.lane == new.lane && is_older && (new.id..=new.covers_to).contains(&old.id)
        };
        let mut gone = BTreeSet::new();
        for (new, _) in found.iter().filter(|(header, _)| header.generation > 0) {
            let olds = found.iter().map(|(old, _)| old).filter(|old| is_of(old, new));
            if sealed.contains_key(&(new.id, new.generation)) {
                gone.extend(olds.map(|old| (old.id, old.generation)));
            } else if olds.count() > 0 {
                gone.insert((new.id, new.generation));
            }
        }
        for (header, len) in found {
            let key = (header.id, header.generation);
            let name = FileName::Segment { id: header.id, generation: header.generation };
            if gone.contains(&key) {
                self.used -= len;
                self.remove_file(name);
                continue;
            }
            let known = sealed.get(&key).cloned();
            let segment = known.unwrap_or_else(|| self.scanned(&header, len));
            self.segments.insert(header.id, segment);
        }
    }

    /// A segment by its index, without reading it.
    fn sealed(&mut self, header: &Header, len: u64) -> Option<Segment> {
        let mut segment = Segment::new(header, self.settings.items_per_mark);
        let name = segment.name();
        let mut trailer = [0; TRAILER_BYTES];
        let trailer_at = len.checked_sub(TRAILER_BYTES as u64).filter(|_| len == header.bytes)?;
        let count = self.files.read(name, trailer_at, &mut trailer).ok()?;
        let (at, seal_len) = format::decode_trailer(trailer.get(..count)?)?;
        if u64::from(at) + u64::from(seal_len) > trailer_at {
            return None;
        }
        let mut seal = vec![0; seal_len as usize];
        let count = self.files.read(name, u64::from(at), &mut seal).ok()?;
        if count < seal.len() || !matches!(Record::decode(&seal), Some(Record::Seal)) {
            return None;
        }
        let (entries, items_per_mark) = format::decode_seal(&seal)?;
        for entry in &entries {
            let Journal { page, files, .. } = &mut *self;
            let declared_at = u64::from(entry.declared_at);
            let frame = page.fetch(files, name, declared_at, 4, trailer_at).ok()??;
            let note_len = u32_at(frame, 0)? as usize;
            let note = page.fetch(files, name, declared_at, note_len, trailer_at).ok()??;
            let Some(Record::Note(note)) = Record::decode(note) else { return None };
            let (id, topic) = (TopicId(note.first), Topic::from_note(&note));
            self.meet_topic(id, &topic).filter(|id| *id == entry.topic)?;
        }
        segment.marks = entries.iter().map(|entry| entry.marks.len()).sum();
        (segment.entries, segment.items_per_mark) = (entries, items_per_mark);
        (segment.end, segment.is_closed) = (at, true);
        Some(segment)
    }

    /// A topic that the log has. Nothing: its number is another's.
    fn meet_topic(&mut self, id: TopicId, topic: &Topic) -> Option<TopicId> {
        self.next_topic = self.next_topic.max(id.0.saturating_add(1));
        let known = self.topics.entry(id).or_insert_with(|| Topic::new(&topic.name, topic.settings));
        (known.name == topic.name).then_some(id)
    }

    /// A segment as it is read from its beginning.
    fn scanned(&mut self, header: &Header, len: u64) -> Segment {
        let mut segment = Segment::new(header, self.settings.items_per_mark);
        let name = segment.name();
        let mut topics: BTreeMap<TopicId, (usize, Topic)> = BTreeMap::new();
        let known: BTreeMap<TopicId, Box<[u8]>> =
            self.topics.iter().map(|(id, topic)| (*id, topic.name.clone())).collect();
        let mut last = Position::BEGIN;
        let end = self.scan(name, len.min(header.bytes), |_, record| match record {
            Record::Note(note) if note.word == Word::Topic => {
                let id = TopicId(note.first);
                let is_other = known.get(&id).is_some_and(|name| **name != *note.name);
                let bytes = format::NOTE_BYTES + note.name.len();
                match topics.entry(id) {
                    Entry::Occupied(_) => segment.end += bytes as u32,
                    Entry::Vacant(free) if !is_other => {
                        _ = free.insert((segment.declare(id, bytes), Topic::from_note(note)));
                    }
                    Entry::Vacant(_) => {}
                }
                !is_other
            }
            Record::Item(item) => {
                let entry = topics.get(&item.topic).map(|(entry, _)| *entry);
                let before = entry.and_then(|entry| segment.entries.get(entry)).map(|entry| entry.last_at);
                let fits = before == Some(item.before) && item.position > last;
                if let Some(entry) = entry.filter(|_| fits) {
                    segment.add(entry, item);
                    last = item.position;
                }
                fits
            }
            Record::Note(_) | Record::Seal => false,
        });
        for (id, (_, topic)) in topics {
            self.meet_topic(id, &topic);
        }
        let written = self.last_written(name, end);
        // An index at its end was none of any use, or it would not have come to this; what it is of is still there.
        let is_clean = written == end && len == header.bytes && header.generation == 0;
        segment.is_closed = !is_clean;
        if written > end && !self.is_seal(name, end, len) {
            let bytes = written.min(len).saturating_sub(end);
            self.damage(name, end, bytes, "a record is not as it was written");
        }
        segment
    }

    /// Whether the index of a segment stands there, whole or in part: no item is lost then.
    fn is_seal(&mut self, name: FileName, at: u64, len: u64) -> bool {
        let frame = self.page.fetch(&self.files, name, at, FRAME_BYTES + 3, len).ok().flatten();
        frame.and_then(|frame| frame.get(8..)).is_some_and(|kind| *kind == [format::KIND_SEAL, 0, 0, 0])
    }

    /// Where topics have something.
    fn place_topics(&mut self) {
        let mut places = Vec::new();
        for segment in self.segments.values() {
            let entries = segment.entries.iter().enumerate().filter(|(_, entry)| entry.count > 0);
            places.extend(entries.map(|(index, entry)| (entry.first, segment.id, index)));
        }
        places.sort_unstable();
        let mut last: BTreeMap<TopicId, Position> = BTreeMap::new();
        for (first, id, index) in places {
            let Some(segment) = self.segments.get_mut(&id) else { continue };
            let lane = segment.lane;
            let Some(entry) = segment.entries.get_mut(index) else { continue };
            let Some(topic) = self.topics.get_mut(&entry.topic) else { continue };
            let last = last.entry(entry.topic).or_insert(Position::BEGIN);
            if first <= *last {
                // Its items are in another segment as well.
                entry.given_up = entry.marks.len() as u32;
                continue;
            }
            *last = entry.last;
            self.next = self.next.max(entry.last);
            topic.places.push_back(Place { segment: id, entry: index });
            topic.bytes += entry.bytes_left();
            topic.lane = lane;
        }
    }

    /// The last segment of each priority is written on if it can be; an earlier one never, or items would not lie in order.
    fn choose_heads(&mut self) {
        let mut last = [None; PRIORITIES];
        for segment in self.segments.values() {
            last[usize::from(segment.lane)] = Some(segment.id);
        }
        for segment in self.segments.values_mut().filter(|segment| !segment.is_closed) {
            let lane = usize::from(segment.lane);
            segment.is_closed = last[lane] != Some(segment.id);
            if !segment.is_closed {
                self.heads[lane] = Some(segment.id);
            }
        }
    }

    /// That the journal was opened is on the disk before any item has a number of this opening; and so is everything that was found.
    fn count_opening(&mut self, old: &[(FileName, Header)], is_clean: bool) -> Result<(), OpenError> {
        let seen = (self.next.0 >> OPENING_SHIFT).max(self.notes.opening);
        self.notes.opening = seen + 1;
        if Mutant::NumberAgain.is_on() {
            self.notes.opening = self.notes.opening.min(1);
            self.next.0 += 1;
        } else {
            self.next = Position((self.notes.opening << OPENING_SHIFT) | 1);
        }
        self.opening_note().encode(&mut self.scratch);
        let len = self.scratch.len() as u64;
        let newest = old.last().map(|(name, _)| *name).filter(|_| is_clean);
        if let Some(name) = newest.filter(|_| self.notes.end + len <= self.notes.capacity) {
            let at = self.notes.end;
            self.files.write(name, at, &self.scratch).map_err(OpenError::Files)?;
            self.notes.end += len;
        } else {
            self.notes.capacity = 0;
            self.renew_notes().map_err(OpenError::Files)?;
        }
        let mut files: Vec<FileName> = self.segments.values().map(Segment::name).collect();
        files.push(self.notes.name());
        let order = SyncOrder { ticket: 0, names: true, files };
        self.files.sync(&order).map_err(OpenError::Files)?;
        self.syncs = Syncs::from(self.last());
        // Those that cannot be read as well: what is known now is all that will ever be.
        for (name, _) in self.files.list().map_err(OpenError::Files)? {
            if let FileName::Notes(number) = name
                && number != self.notes.number
            {
                self.remove_notes(number);
            }
        }
        Ok(())
    }
}

/// What is read at once.
const SCAN_BYTES: usize = 64 << 10;
