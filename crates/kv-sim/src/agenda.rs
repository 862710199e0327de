//! What is going to happen, in order of time. At one time, bytes come in before anybody looks; apart from that, in the order in which
//! it was put down.

use contract::Time;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A node's part in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) lane: usize,
    pub(crate) node: usize,
}

/// Something that is going to happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// Bytes of a peer come.
    Arrive { at: Place, from: usize, line: u32, bytes: Vec<u8> },
    /// The peer's end of a connection is gone.
    HangUp { at: Place, from: usize, line: u32 },
    /// A sender learns that its connection is broken.
    Reset { at: Place, to: usize, line: u32 },
    /// A sender connects again.
    Redial { at: Place, to: usize },
    /// A task runs in the period of this number.
    Task { at: Place, task: usize, period: u64 },
    /// The lane's thread wakes up for a job.
    Release { at: Place, life: u32, release: Time },
    /// The lane's thread has waited long enough, or frames have come.
    Turn { at: Place, life: u32, ticket: u32 },
    /// The lane's thread has fused and publishes.
    Finish { at: Place, life: u32 },
    /// A reader looks at everything.
    Look { at: Place },
    /// A node's process ends.
    Crash { node: usize },
    /// It is started again.
    Restart { node: usize },
}

struct Entry {
    key: (Time, bool, u64),
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

impl Agenda {
    pub(crate) fn push(&mut self, at: Time, what: Happening) {
        self.count += 1;
        let comes = matches!(what, Happening::Arrive { .. } | Happening::HangUp { .. });
        self.heap.push(Reverse(Entry { key: (at, !comes, self.count), what }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Happening)> {
        self.heap.pop().map(|Reverse(entry)| (entry.key.0, entry.what))
    }
}
