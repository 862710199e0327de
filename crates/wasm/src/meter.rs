//! How long a run may go on.
//!
//! The problem: a run has a budget of time, an engine counts fuel, and what fuel is worth differs by a factor of hundreds from
//! one instruction to another. Asking a clock at every instruction would take longer than the instruction. The idea: fuel is
//! granted in slices, each so small that code which burns fuel as slowly as any ends within what is left of the budget; after
//! each the clock is asked, and what is left is known anew. Fast code gets there in a few dozen slices, slow code in a few.
//!
//! Most runs end within their first slice, for which no clock is asked at all: it counts as what it may take at most.
//!
//! What counts is the processor's time, so that nobody is stopped for having been interrupted. Its clock is a call into the
//! kernel, though, which takes longer than many runs do, and the wall's is not. So the wall's is asked, and the processor's only
//! where a run would be stopped by what the wall's says.
//!
//! Where the same must come of a run on every host, no clock is asked: fuel is time at the slowest code's pace, and a run that is stopped
//! here is stopped everywhere.
//!
//! What it relies on: that nothing burns less fuel in a microsecond than the pace says ([`crate::FUEL_PER_MICRO`]). Code that
//! does takes longer than its budget by as much, but for a slice at a time only.

use contract::{Span, Time};
use std::sync::Arc;

/// Tells the time. It comes in from the driver, since a core has no clock.
#[derive(Clone)]
pub struct Clock {
    /// The wall's, from any beginning; it is asked often, and must be cheap. It must not be set.
    pub wall: Arc<dyn Fn() -> Time + Send + Sync>,
    /// How long this thread has worked, from any beginning.
    pub worked: Arc<dyn Fn() -> Time + Send + Sync>,
}

/// The first slice, as a part of the budget.
const FIRST: i64 = 10;
/// Each further slice, as a part of what is left: code that is slower than the pace by as much still ends in time.
const FURTHER: i64 = 2;
/// The least slice, as a part of the budget. A run ends so much after its budget at most.
const LEAST: i64 = 50;
/// Fuel that no processor burns in a microsecond. A run ends even if the clock stands still.
const FUEL_PER_MICRO_MOST: u64 = 100_000;

/// What one run may still use.
pub struct Meter {
    /// `None`: fuel is time.
    clock: Option<Clock>,
    /// What a microsecond burns at least.
    pace: u64,
    budget: Span,
    /// What was left of it when a clock was last asked, or by the first slice.
    left: Span,
    /// The wall's time then; `None` in the first slice.
    asked: Option<Time>,
    /// What the thread had worked when it was last asked for that, and what was left then.
    worked: Option<(Time, Span)>,
    /// The slice that is being used.
    slice: u64,
    /// What was burned in those before.
    burned: u64,
}

impl Meter {
    /// With this clock, for code that burns so much fuel in a microsecond at least.
    pub fn new(clock: Clock, pace: u64) -> Meter {
        Meter { clock: Some(clock), ..Meter::counting(pace) }
    }

    /// Without a clock: what a run may take is counted in fuel, so much for each microsecond.
    pub fn counting(pace: u64) -> Meter {
        let (budget, left) = (Span::ZERO, Span::ZERO);
        Meter { clock: None, pace: pace.max(1), budget, left, asked: None, worked: None, slice: 0, burned: 0 }
    }

    /// A run begins. Returns the fuel of its first slice.
    pub fn begin(&mut self, budget: Span) -> u64 {
        let first = part(budget, FIRST);
        (self.budget, self.left, self.burned) = (budget, budget - first, 0);
        (self.asked, self.worked) = (None, None);
        self.slice = self.worth(first).max(1);
        self.slice
    }

    /// A slice is used up but for `unburned`, and what comes next needs `needed` at once. Returns the fuel of the next slice,
    /// or `None` if the budget is used up, or what comes next might not end within it.
    pub fn next(&mut self, unburned: u64, needed: u64) -> Option<u64> {
        self.burned = self.burned(unburned);
        self.ask();
        self.slice = 0;
        let most = self.budget.as_nanos_u64().div_ceil(1_000).saturating_mul(FUEL_PER_MICRO_MOST);
        if self.burned >= most {
            return None;
        }
        if !self.has_time_for(needed) {
            self.ask_what_was_worked();
            if !self.has_time_for(needed) {
                return None;
            }
        }
        self.slice = self.worth(part(self.left, FURTHER)).max(self.least()).max(needed);
        Some(self.slice)
    }

    /// Asks the wall's clock what is left.
    fn ask(&mut self) {
        let Some(clock) = &self.clock else {
            // The first slice was taken off when the run began.
            let used = if self.asked.is_some() { self.most_of_slice() } else { Span::ZERO };
            (self.left, self.asked) = (self.left - used, Some(Time::ZERO));
            return;
        };
        let now = (clock.wall)();
        // A clock that goes back has stood still.
        let since = |asked| now.since(asked).max(Span::ZERO);
        match (self.asked, self.worked) {
            (None, _) => {}
            (Some(asked), None) => {
                // The beginning of this slice is not known by the other clock. At most it took what the slowest code takes.
                self.left = self.left - since(asked).min(self.most_of_slice());
                self.worked = Some(((clock.worked)(), self.left));
            }
            (Some(asked), Some(_)) => self.left = self.left - since(asked),
        }
        self.asked = Some(now);
    }

    /// Asks the processor's clock what is left, where it has been asked before.
    fn ask_what_was_worked(&mut self) {
        if let Some((before, left)) = self.worked
            && let Some(clock) = &self.clock
        {
            let now = (clock.worked)();
            self.left = left - now.since(before).max(Span::ZERO);
            self.worked = Some((now, self.left));
        }
    }

    /// Whether what needs so much fuel at once ends within what is left.
    fn has_time_for(&self, needed: u64) -> bool {
        self.left > Span::ZERO && needed <= self.worth(self.left).max(self.least())
    }

    fn least(&self) -> u64 {
        self.worth(part(self.budget, LEAST)).max(1)
    }

    /// What the slowest code takes for the slice that is being used.
    fn most_of_slice(&self) -> Span {
        Span::nanos(i64::try_from(self.slice / self.pace).unwrap_or(i64::MAX).saturating_mul(1_000))
    }

    /// What is left of the budget when the slice that is being used has been.
    pub fn left_after(&self) -> Span {
        let slice = if self.asked.is_some() { self.most_of_slice() } else { Span::ZERO };
        (self.left - slice).max(Span::ZERO)
    }

    /// What the run may take in all.
    pub fn budget(&self) -> Span {
        self.budget
    }

    /// The fuel that the run has burned, when so much of its slice is there.
    pub fn burned(&self, unburned: u64) -> u64 {
        self.burned.saturating_add(self.slice.saturating_sub(unburned))
    }

    /// The fuel that the slowest code burns in this time.
    pub(crate) fn worth(&self, span: Span) -> u64 {
        let worth = u128::from(span.as_nanos_u64()) * u128::from(self.pace) / 1_000;
        u64::try_from(worth).unwrap_or(u64::MAX)
    }
}

fn part(span: Span, parts: i64) -> Span {
    Span::nanos(span.0 / parts)
}

#[cfg(test)]
mod tests;
