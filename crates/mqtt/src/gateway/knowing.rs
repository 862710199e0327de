//! How far this broker's copy of sessions and retained messages is.
//!
//! Whoever reigns counts the changes that it records, and records the count right after them; whoever is told of the changes is
//! told of the count. So a copy that says that it has so many changes has them all, wherever it ends.

use super::{Gateway, Rules};
use crate::records::{Key, Record, read_before, read_part, records, write_record};
use contract::{Reign, invariant};
use wire::{Knowledge, Part};

/// The reign whose changes are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    reign: Reign,
    /// It began without the partner having been asked, which may know more.
    unasked: bool,
}

impl<R: Rules> Gateway<R> {
    /// How far the copy is.
    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// This broker begins to reign. Where nobody could be asked whether there is more to know (`unasked`), what is changed from now on
    /// is kept, for a partner that knows more and comes later. Where it is known that there is not, this reign `closes` those before.
    pub fn begin_counting(&mut self, reign: Reign, unasked: bool, closes: bool) {
        self.counting = Some(Counting { reign, unasked });
        self.records.take_changes();
        if unasked {
            // Where an earlier life has lost count of what it changed, the sum of both is no use.
            if self.records.has_log() || !self.knowledge.parts().iter().any(|part| part.unasked) {
                self.records.begin_log();
            }
        } else {
            self.end_doubt();
        }
        self.close_reigns(closes);
    }

    /// The partner has been asked: it knows no more than this broker.
    pub fn end_doubt(&mut self) {
        self.records.end_log();
        // A broker that does not reign counts nothing.
        if let Some(counting) = &mut self.counting {
            counting.unasked = false;
        }
        let unasked: Vec<Part> = self.knowledge.parts().iter().filter(|part| part.unasked).copied().collect();
        for part in &unasked {
            self.knowledge.set(Part { unasked: false, ..*part });
        }
        if !unasked.is_empty() {
            self.note_parts();
        }
    }

    /// Whether this broker reigns without having asked its partner, and has kept what it has changed since.
    pub fn has_log(&self) -> bool {
        self.records.has_log()
    }

    /// All that has been changed since an unasked reign began, with the counts. `None`: it is too much, and everything has to be told.
    pub fn logged(&mut self) -> Option<Vec<u8>> {
        let mut out = self.records.logged()?;
        let parts = self.knowledge.parts().iter().enumerate();
        for (place, part) in parts.filter(|(_, part)| part.unasked) {
            tell_part(&mut out, part, place as u32);
        }
        Some(out)
    }

    pub(super) fn end_counting(&mut self) {
        self.counting = None;
    }

    /// What has been recorded since the last time is counted.
    pub(super) fn count_changes(&mut self) {
        let changes = self.records.take_changes();
        // A broker that does not reign counts nothing: whoever tells it has counted.
        let Some(Counting { reign, unasked }) = self.counting.filter(|_| changes > 0) else { return };
        if unasked && !self.records.has_log() {
            // There are too many: they are not told apart from the others any more.
            return self.end_doubt_and_count(changes);
        }
        let known = self.knowledge.parts().last().is_some_and(|last| last.reign == reign);
        let gone = self.knowledge.count(reign, unasked, changes);
        if known {
            let parts = self.knowledge.parts();
            match parts.last() {
                Some(last) => self.records.note(last, parts.len() as u32 - 1),
                None => invariant!("counting forgets no reign that is known"),
            }
        } else {
            self.note_gone(&gone);
            self.note_parts();
        }
    }

    fn end_doubt_and_count(&mut self, changes: u64) {
        self.end_doubt();
        let Some(counting) = self.counting else { return invariant!("who counts changes reigns") };
        let gone = self.knowledge.count(counting.reign, false, changes);
        self.note_gone(&gone);
        self.note_parts();
    }

    fn close_reigns(&mut self, closes: bool) {
        self.knowledge.begin(closes);
        if closes {
            self.note_parts();
        }
    }

    fn note_gone(&mut self, gone: &[Reign]) {
        gone.iter().for_each(|reign| self.records.note_gone(*reign));
        if !gone.is_empty() {
            self.records.note_before(self.knowledge.before());
        }
    }

    fn note_parts(&mut self) {
        for (place, part) in self.knowledge.parts().iter().enumerate() {
            self.records.note(part, place as u32);
        }
    }

    /// Whoever told has counted. What cannot be read is left out: another version may have written it.
    pub(super) fn learn_known(&mut self, reign: Reign, value: Option<&[u8]>) {
        let is_sum = reign == Reign::default();
        match value {
            Some(value) if is_sum => self.knowledge.set_before(read_before(value)),
            Some(value) => {
                if let Some((_, part)) = read_part(reign, value) {
                    let gone = self.knowledge.set(part);
                    self.note_gone(&gone);
                }
            }
            None if is_sum => self.knowledge.set_before(0),
            None => self.knowledge.remove(reign),
        }
        match value {
            Some(value) => self.records.note_as_it_is(reign, value),
            None => self.records.note_gone(reign),
        }
    }

    /// What is kept is about to be forgotten: from the first moment on, nothing is claimed to be known.
    pub(super) fn know_nothing(&mut self) {
        for part in self.knowledge.parts() {
            self.records.note_gone(part.reign);
        }
        self.records.note_gone(Reign::default());
        self.records.end_log();
        self.knowledge.clear();
        self.end_counting();
    }

    /// Appends how far the copy is, after everything else has been told.
    pub(super) fn tell_known(&self, out: &mut Vec<u8>) {
        if self.knowledge.before() > 0 {
            let before = self.knowledge.before();
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&before.to_le_bytes());
            write_record(out, &Key::Known(Reign::default()), Some(write));
        }
        for (place, part) in self.knowledge.parts().iter().enumerate() {
            tell_part(out, part, place as u32);
        }
    }

    /// What a store has kept, in any order within its ranks.
    pub fn restore(&mut self, kept: &[u8]) {
        self.learn(kept);
        let all = records(kept).filter_map(|Record { key, value }| Some((key, value?)));
        self.knowledge = crate::records::known(all);
        self.records.restore_log(kept);
    }
}

fn tell_part(out: &mut Vec<u8>, part: &Part, place: u32) {
    write_record(
        out,
        &Key::Known(part.reign),
        Some(|out: &mut Vec<u8>| crate::records::write_part(out, part, place)),
    );
}
