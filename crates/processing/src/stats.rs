//! Counts of one operator, written by whoever holds its level, one at a time, and read by anybody at any time. So adding is
//! reading and writing, which takes a tenth of what it takes where several write.

use crate::operator::Cause;
use contract::{OperatorCounters, Span, Time};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the operator was made.
#[derive(Debug, Default)]
pub struct Stats {
    pub(crate) runs: AtomicU64,
    pub(crate) results: AtomicU64,
    pub(crate) shed_absolute: AtomicU64,
    pub(crate) shed_relative: AtomicU64,
    pub(crate) marked: AtomicU64,
    pub(crate) replaced: AtomicU64,
    /// The same of those that waited in front of the level, counted by the one thread that gives events to it.
    overtaken: AtomicU64,
    pub(crate) dropped: AtomicU64,
    faults: AtomicU64,
    /// Those among the faults that were of the first two causes.
    runaways: AtomicU64,
    traps: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) worst: AtomicU64,
    /// When a fault was last told, and a run that took too long.
    told: AtomicU64,
    told_slow: AtomicU64,
}

/// The counts of one operator at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// What was counted.
    pub counters: OperatorCounters,
    /// The time of all runs.
    pub busy: Span,
    /// The longest run.
    pub worst: Span,
}

impl Counts {
    /// Runs that failed: those that did not end in time, those whose code broke off, and the others.
    pub fn by_cause(&self) -> [u64; 3] {
        let OperatorCounters { faults, runaways, traps, .. } = self.counters;
        // They are read one after the other, while runs go on.
        let others = faults.saturating_sub(runaways.saturating_add(traps));
        [runaways, traps, others]
    }
}

impl Stats {
    /// The counts at this moment.
    pub fn counts(&self) -> Counts {
        let span = |nanos: &AtomicU64| Span::nanos(nanos.load(Relaxed) as i64);
        let counters = OperatorCounters {
            runs: self.runs.load(Relaxed),
            results: self.results.load(Relaxed),
            shed_absolute: self.shed_absolute.load(Relaxed),
            shed_relative: self.shed_relative.load(Relaxed),
            marked: self.marked.load(Relaxed),
            replaced: self.replaced.load(Relaxed).wrapping_add(self.overtaken.load(Relaxed)),
            dropped: self.dropped.load(Relaxed),
            faults: self.faults.load(Relaxed),
            runaways: self.runaways.load(Relaxed),
            traps: self.traps.load(Relaxed),
        };
        Counts { counters, busy: span(&self.busy), worst: span(&self.worst) }
    }

    /// An event gave way to a newer one before it reached the operator. For the thread that gives events to levels.
    pub fn count_overtaken(&self) {
        count(&self.overtaken);
    }

    /// Whether a fault should be told now; the same operator's are told once in a while.
    pub fn tell(&self, now: Time, every: Span) -> bool {
        is_due(&self.told, now, every)
    }

    /// The same of a run that took longer than was said.
    pub fn tell_slow(&self, now: Time, every: Span) -> bool {
        is_due(&self.told_slow, now, every)
    }

    pub(crate) fn failed(&self, cause: Cause) {
        count(&self.faults);
        match cause {
            Cause::Budget => count(&self.runaways),
            Cause::Trap => count(&self.traps),
            Cause::Refused => {}
        }
    }

    pub(crate) fn took(&self, span: Span) {
        let nanos = span.as_nanos_u64();
        count(&self.runs);
        add(&self.busy, nanos);
        self.worst.store(nanos.max(self.worst.load(Relaxed)), Relaxed);
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}
/// Whether something that was told at this time is to be told now; then it has been.
fn is_due(told: &AtomicU64, now: Time, every: Span) -> bool {
    let before = Time(told.load(Relaxed));
    let due = before == Time::ZERO || now >= before + every;
    if due {
        told.store(now.0, Relaxed);
    }
    due
}
