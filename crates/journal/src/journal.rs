//! The log of a site, as a whole.

use crate::compaction::Compaction;
use crate::events::Events;
use crate::notes::Notes;
use crate::page::Page;
use crate::segment::Segment;
use crate::syncing::Syncs;
use crate::topics::Topic;
use crate::{Event, FileError, FileName, Files, PRIORITIES, SegmentReport, Settings, State};
use contract::Time;
use std::collections::BTreeMap;
use std::fmt;

/// The log of a site. It says what is to be synced and never waits, except to be opened ([`Journal::open`]).
#[derive(Debug)]
pub struct Journal<F: Files> {
    pub(crate) files: F,
    pub(crate) settings: Settings,
    pub(crate) segments: BTreeMap<u64, Segment>,
    /// The segment of each priority that is written to.
    pub(crate) heads: [Option<u64>; PRIORITIES],
    pub(crate) topics: BTreeMap<TopicId, Topic>,
    pub(crate) next_topic: u32,
    pub(crate) next: Position,
    pub(crate) next_segment: u64,
    pub(crate) notes: Notes,
    pub(crate) syncs: Syncs,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) state: State,
    pub(crate) retry_at: Time,
    /// Bytes of all files.
    pub(crate) used: u64,
    /// When the next segment may be out of date.
    pub(crate) next_death: Time,
    /// When compaction looks again.
    pub(crate) next_look: Time,
    pub(crate) events: Events,
    pub(crate) scratch: Vec<u8>,
    pub(crate) page: Page,
}

/// The number of an item. Those of later items are greater; a number is never given twice, also where the item has been lost. It stays
/// the item's through restarts and compaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position(pub u64);

/// A topic of a journal. Its number stays through restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicId(pub u32);

/// Somebody whose positions are remembered. The number stays through restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReceiverId(pub u32);

/// The lower bits of a position count from where the journal was opened, the upper ones say how often it had been. So a number that was
/// given to an item which the disk then lost is not given again. 12 days at a million items in a second.
pub(crate) const OPENING_SHIFT: u32 = 40;

impl<F: Files> Journal<F> {
    /// How it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What whoever runs it should know, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The number of the item that was appended last; of one that nothing has yet, if nothing was since it was opened.
    pub fn last(&self) -> Position {
        Position(self.next.0 - 1)
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.used
    }

    /// All segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = SegmentReport> {
        self.segments.values().map(|segment| SegmentReport {
            file: segment.name(),
            priority: segment.lane,
            range: segment.range(),
            items: segment.items(),
            bytes: segment.capacity,
            used_bytes: u64::from(segment.end),
        })
    }

    /// Bytes of memory that the index takes, without what allocators add.
    pub fn index_bytes(&self) -> usize {
        let of = |segment: &Segment| {
            size_of::<Segment>()
                + segment.entries.capacity() * size_of::<crate::segment::Entry>()
                + segment.entries.iter().map(|entry| entry.marks.capacity()).sum::<usize>()
                    * size_of::<crate::segment::Mark>()
        };
        self.segments.values().map(of).sum()
    }

    /// The files that it drives.
    pub fn files(&self) -> &F {
        &self.files
    }

    /// The files that it drives, for whoever syncs them.
    pub fn files_mut(&mut self) -> &mut F {
        &mut self.files
    }

    /// When [`Journal::maintain`] or [`Journal::poll_sync`] has something to do at the latest, if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        let compaction = if self.compaction_waits() { Time::ZERO } else { self.next_look };
        let mut next = self.next_death.min(compaction).min(self.next_sync());
        if self.notes.is_behind {
            next = next.min(self.retry_at);
        }
        next
    }

    /// The disk did not do what it was asked for.
    pub(crate) fn trouble(&mut self, now: Time, error: &FileError) {
        self.retry_at = now + self.settings.retry;
        self.become_(match error {
            FileError::Full => State::Full,
            FileError::Failed(reason) => State::Failed(reason.clone()),
        });
    }

    pub(crate) fn become_(&mut self, state: State) {
        if self.state != state && !matches!(self.state, State::Poisoned(_)) {
            self.events.push(Event::State(state.clone()));
            self.state = state;
        }
    }

    pub(crate) fn remove_file(&mut self, name: FileName) {
        self.page.forget();
        self.syncs.forget(name);
        if let Err(error) = self.files.remove(name) {
            self.events.push(Event::NotRemoved { file: name, reason: error.to_string() });
        }
    }
}

impl Position {
    /// Before everything.
    pub const BEGIN: Position = Position(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> OPENING_SHIFT, self.0 & ((1 << OPENING_SHIFT) - 1))
    }
}
