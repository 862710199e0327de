//! What is deleted, and when: segments of which nothing lives any more, and what must make room.

use crate::{Files, Journal, Mutant, Room};
use contract::Time;

/// Why a segment is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Expired,
    JournalFull,
    /// What lives of it is in another segment now.
    Compacted,
}

impl<F: Files> Journal<F> {
    /// Does what need not be done at once: deletes what is out of date, and copies at most so many bytes, or one item, to compact segments.
    pub fn maintain(&mut self, now: Time, copy_bytes: usize) {
        if now >= self.next_death {
            let dead = |(id, segment): (&u64, &crate::segment::Segment)| {
                (segment.is_closed && segment.dies_at <= now).then_some(*id)
            };
            while let Some(id) = self.segments.iter().find_map(dead) {
                self.remove_segment(id, Cause::Expired);
            }
            self.next_death = self.earliest_death();
        }
        if self.notes.is_behind && now >= self.retry_at && self.renew_notes().is_err() {
            self.retry_at = now + self.settings.retry;
        }
        self.compact(now, copy_bytes);
    }

    /// Until another file of so many bytes fits, segments are given up. `false`: there is none that may be.
    pub(crate) fn make_room(&mut self, lane: usize, bytes: u64) -> bool {
        // Compaction copies into one more.
        let spare = u64::from(self.settings.segment_bytes);
        while self.used + bytes + spare > self.settings.bytes_max
            || self.segments.len() >= self.settings.segments_max
        {
            let Some(id) = self.victim(lane) else { return false };
            self.remove_segment(id, Cause::JournalFull);
        }
        true
    }

    /// The segment that is given up so that there is room for one of this priority.
    fn victim(&self, lane: usize) -> Option<u64> {
        let segments = self.segments.values();
        if Mutant::GiveUpNewest.is_on() {
            return segments.map(|segment| segment.id).max();
        }
        let victim = match self.settings.room {
            // Heads last: what is in one may be quite new.
            Room::OldestFirst => segments.min_by_key(|segment| (!segment.is_closed, segment.id)),
            Room::LeastCriticalFirst => segments
                .filter(|segment| usize::from(segment.lane) >= lane)
                .min_by_key(|segment| (u8::MAX - segment.lane, segment.id)),
        };
        victim.map(|segment| segment.id)
    }

    pub(crate) fn remove_segment(&mut self, id: u64, cause: Cause) {
        if cause != Cause::Compacted {
            self.abort_compaction_of(id);
        }
        let Some(segment) = self.segments.remove(&id) else { return };
        for head in self.heads.iter_mut().filter(|head| **head == Some(id)) {
            *head = None;
        }
        for entry in &segment.entries {
            let Some(topic) = self.topics.get_mut(&entry.topic) else { continue };
            if cause != Cause::Compacted {
                topic.places.retain(|place| place.segment != id);
                topic.bytes = topic.bytes.saturating_sub(entry.bytes_left());
            }
            let left = entry.count_left(segment.items_per_mark);
            match cause {
                Cause::Expired => topic.counters.expired += left,
                Cause::JournalFull => topic.counters.journal_full += left,
                Cause::Compacted => {}
            }
        }
        self.used = self.used.saturating_sub(segment.capacity);
        self.remove_file(segment.name());
        self.syncs.names = true;
    }

    /// When nothing in a segment lives any more is found out anew.
    pub(crate) fn judge_death(&mut self, id: u64) {
        let Some(segment) = self.segments.get_mut(&id) else { return };
        let ends = segment.entries.iter().map(|entry| {
            let keep = self.topics.get(&entry.topic).map(|topic| topic.settings.keep);
            keep.map_or(Time::ZERO, |keep| entry.dies_at(keep))
        });
        segment.dies_at = ends.max().unwrap_or(Time::ZERO);
        if segment.is_closed {
            self.next_death = self.next_death.min(segment.dies_at);
        }
    }

    /// The same of all segments.
    pub(crate) fn judge_deaths(&mut self) {
        let ids: Vec<u64> = self.segments.keys().copied().collect();
        ids.into_iter().for_each(|id| self.judge_death(id));
        self.next_death = self.earliest_death();
    }

    fn earliest_death(&self) -> Time {
        let closed = self.segments.values().filter(|segment| segment.is_closed);
        closed.map(|segment| segment.dies_at).min().unwrap_or(Time::NEVER)
    }
}
