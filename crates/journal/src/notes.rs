//! Receivers and how far they have come, in a file of notes beside the segments.
//!
//! A file of notes begins with everything that there is to be said, and goes on with what changes. When it is full there is another, and the
//! old one is removed when that has been synced. Positions only grow, so of two notes the greater is right, whichever is older.

use crate::format::{HEADER_BYTES, Header, NAME_BYTES_MAX, NOTE_BYTES, Note, Word};
use crate::{FileError, FileName, Files, Journal, LimitError, Mutant, Position, ReceiverId, TopicId};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) number: u64,
    pub(crate) capacity: u64,
    pub(crate) end: u64,
    pub(crate) opening: u64,
    pub(crate) receivers: BTreeMap<ReceiverId, Receiver>,
    pub(crate) next_receiver: u32,
    /// Of all receivers.
    pub(crate) positions: usize,
    /// Files that are of no more use when the newest has been synced.
    pub(crate) old: Vec<u64>,
    /// Something has not been written.
    pub(crate) is_behind: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) name: Box<[u8]>,
    pub(crate) positions: BTreeMap<TopicId, Position>,
}

/// The shortest file of notes.
const NOTES_BYTES_MIN: u64 = 64 << 10;

impl Notes {
    pub(crate) fn knows(&self, topic: TopicId) -> bool {
        self.receivers.values().any(|receiver| receiver.positions.contains_key(&topic))
    }

    pub(crate) fn name(&self) -> FileName {
        FileName::Notes(self.number)
    }
}

impl<F: Files> Journal<F> {
    /// A receiver of this name: one that there was, or a new one.
    pub fn receiver(&mut self, name: &[u8]) -> Result<ReceiverId, LimitError> {
        let mut known = self.notes.receivers.iter();
        if let Some((id, _)) = known.find(|(_, receiver)| *receiver.name == *name) {
            return Ok(*id);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(LimitError::Name);
        }
        if self.notes.receivers.len() >= self.settings.receivers_max {
            return Err(LimitError::Receivers);
        }
        let id = ReceiverId(self.notes.next_receiver);
        self.notes.next_receiver += 1;
        self.notes.receivers.insert(id, Receiver { name: name.into(), positions: BTreeMap::new() });
        self.note(Note { word: Word::Receiver, first: id.0, second: 0, value: 0, name });
        Ok(id)
    }

    /// All receivers, with their names.
    pub fn receivers(&self) -> impl Iterator<Item = (ReceiverId, &[u8])> {
        self.notes.receivers.iter().map(|(id, receiver)| (*id, &*receiver.name))
    }

    /// Everything of a topic up to here has been handed on to a receiver. It never goes back: an earlier position changes nothing.
    /// It is on the disk when it has been synced; before, an earlier one may be known after a crash.
    pub fn hand_on(&mut self, to: ReceiverId, topic: TopicId, up_to: Position) -> Result<(), LimitError> {
        let Some(receiver) = self.notes.receivers.get_mut(&to) else { return Err(LimitError::Receivers) };
        let known = receiver.positions.get(&topic);
        if known.is_some_and(|known| *known >= up_to) && !Mutant::GoBack.is_on() {
            return Ok(());
        }
        if known.is_none() {
            if self.notes.positions >= self.settings.positions_max {
                return Err(LimitError::Positions);
            }
            self.notes.positions += 1;
        }
        receiver.positions.insert(topic, up_to);
        self.note(Note { word: Word::HandedOn, first: to.0, second: topic.0, value: up_to.0, name: &[] });
        Ok(())
    }

    /// Up to where a topic was handed on to a receiver.
    pub fn handed_on(&self, to: ReceiverId, topic: TopicId) -> Position {
        let positions = self.notes.receivers.get(&to).map(|receiver| &receiver.positions);
        positions.and_then(|positions| positions.get(&topic)).copied().unwrap_or(Position::BEGIN)
    }

    /// Forgets a receiver, and how far it has come.
    pub fn forget_receiver(&mut self, id: ReceiverId) {
        let Some(receiver) = self.notes.receivers.remove(&id) else { return };
        self.notes.positions -= receiver.positions.len();
        self.note(Note { word: Word::Gone, first: id.0, second: 0, value: 0, name: &[] });
    }

    pub(crate) fn note_topic(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get(&id) else { return };
        topic.note(id).encode(&mut self.scratch);
        self.write_note();
    }

    fn note(&mut self, note: Note) {
        note.encode(&mut self.scratch);
        self.write_note();
    }

    /// Writes the note that is in `scratch`.
    fn write_note(&mut self) {
        let notes = &mut self.notes;
        if notes.is_behind {
            return;
        }
        let len = self.scratch.len() as u64;
        let written = if notes.end + len > notes.capacity {
            // It says everything, this as well.
            self.renew_notes()
        } else {
            let written = self.files.write(notes.name(), notes.end, &self.scratch);
            notes.end += len;
            self.syncs.soil(self.notes.name());
            written
        };
        if let Err(error) = written {
            self.not_noted(&error);
        }
    }

    /// Begins another file of notes.
    pub(crate) fn renew_notes(&mut self) -> Result<(), FileError> {
        let mut all = Vec::new();
        self.encode_all_notes(&mut all);
        let number = self.notes.number + 1;
        let name = FileName::Notes(number);
        let capacity = (2 * (all.len() + HEADER_BYTES) as u64).next_multiple_of(4_096).max(NOTES_BYTES_MIN);
        let header = Header { lane: 0, generation: 0, id: number, covers_to: number, bytes: capacity };
        self.files.create(name, capacity)?;
        let written = self.files.write(name, 0, &header.encode(true));
        if let Err(error) = written.and_then(|()| self.files.write(name, HEADER_BYTES as u64, &all)) {
            self.remove_file(name);
            return Err(error);
        }
        if self.notes.capacity > 0 {
            let old = self.notes.number;
            self.files.finish(self.notes.name());
            // The one that was synced last is needed until this one is; those between are not.
            if self.notes.old.is_empty() { self.notes.old.push(old) } else { self.remove_notes(old) }
        }
        let notes = &mut self.notes;
        (notes.number, notes.capacity, notes.end) = (number, capacity, (HEADER_BYTES + all.len()) as u64);
        notes.is_behind = false;
        self.used += capacity;
        self.syncs.soil(name);
        (self.syncs.names, self.syncs.is_needed) = (true, true);
        Ok(())
    }

    pub(crate) fn remove_notes(&mut self, number: u64) {
        let name = FileName::Notes(number);
        let mut known = 0;
        if let Ok(files) = self.files.list() {
            known = files.iter().find(|(file, _)| *file == name).map_or(0, |(_, bytes)| *bytes);
        }
        self.used = self.used.saturating_sub(known);
        self.remove_file(name);
        self.syncs.names = true;
    }

    fn encode_all_notes(&self, all: &mut Vec<u8>) {
        let mut one = Vec::with_capacity(NOTE_BYTES);
        let mut say = |note: Note| {
            note.encode(&mut one);
            all.extend_from_slice(&one);
        };
        say(self.opening_note());
        for (id, topic) in &self.topics {
            say(topic.note(*id));
        }
        for (id, receiver) in &self.notes.receivers {
            say(Note { word: Word::Receiver, first: id.0, second: 0, value: 0, name: &receiver.name });
            for (topic, position) in &receiver.positions {
                let (first, second, value) = (id.0, topic.0, position.0);
                say(Note { word: Word::HandedOn, first, second, value, name: &[] });
            }
        }
        say(Note { word: Word::Complete, first: 0, second: 0, value: 0, name: &[] });
    }

    pub(crate) fn opening_note(&self) -> Note<'static> {
        let (first, second) = (self.next_topic, self.notes.next_receiver);
        Note { word: Word::Opening, first, second, value: self.notes.opening, name: &[] }
    }
}
