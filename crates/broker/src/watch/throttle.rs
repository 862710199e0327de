//! The same cause is told at most once in a while, with how often it was left out meanwhile. The table of causes is bounded.

use contract::{Span, Time};

/// What was told lately.
#[derive(Clone, Debug)]
pub struct Throttle<T> {
    interval: Span,
    limit: usize,
    entries: Vec<Entry<T>>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    cause: u64,
    told_at: Time,
    interval: Span,
    left_out: u64,
    /// What was left out last.
    latest: Option<T>,
}

/// What to do with something that may be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Tell it.
    Tell {
        /// So many of the same cause were left out before it.
        left_out: u64,
    },
    /// Leave it out; it is counted.
    LeaveOut,
}

impl<T> Throttle<T> {
    /// Tells each cause once per interval, and remembers so many causes. Above it, the one told longest ago is forgotten.
    pub fn new(interval: Span, limit: usize) -> Throttle<T> {
        Throttle { interval, limit: limit.max(1), entries: Vec::new() }
    }

    /// Whether something of this cause has been told lately.
    pub fn knows(&self, cause: u64) -> bool {
        self.entries.iter().any(|entry| entry.cause == cause)
    }

    /// Something has come, whose cause has this number. `what` is kept only if it is left out.
    pub fn ask(&mut self, now: Time, cause: u64, what: impl FnOnce() -> T) -> Verdict {
        self.ask_every(now, self.interval, cause, what)
    }

    /// The same for a cause that has an interval of its own.
    pub fn ask_every(&mut self, now: Time, interval: Span, cause: u64, what: impl FnOnce() -> T) -> Verdict {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.cause == cause) {
            // A clock that went back must not silence a cause for long.
            let told_at = entry.told_at.min(now);
            entry.told_at = told_at;
            if now < told_at + interval {
                entry.left_out += 1;
                entry.latest = Some(what());
                return Verdict::LeaveOut;
            }
            entry.told_at = now;
            entry.latest = None;
            return Verdict::Tell { left_out: std::mem::take(&mut entry.left_out) };
        }
        let entry = Entry { cause, told_at: now, interval, left_out: 0, latest: None };
        if self.entries.len() < self.limit {
            self.entries.push(entry);
        } else if let Some(oldest) = self.entries.iter_mut().min_by_key(|entry| entry.told_at) {
            *oldest = entry;
        }
        Verdict::Tell { left_out: 0 }
    }

    /// What was left out longer than an interval ago, the last of each cause with how many there were.
    pub fn take_overdue(&mut self, now: Time) -> Option<(T, u64)> {
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.latest.is_some() && now >= entry.told_at.min(now) + entry.interval)?;
        entry.told_at = now;
        let latest = entry.latest.take()?;
        Some((latest, std::mem::take(&mut entry.left_out)))
    }
}

/// So many things in each second, and how many there were beyond.
#[derive(Clone, Debug)]
pub struct Budget {
    each_second: u32,
    began: Time,
    taken: u32,
    beyond: u64,
    /// What did not fit in seconds that are over.
    due: u64,
}

impl Budget {
    /// So many in each second.
    pub fn new(each_second: u32) -> Budget {
        Budget { each_second, began: Time::ZERO, taken: 0, beyond: 0, due: 0 }
    }

    /// Whether one more fits.
    pub fn take(&mut self, now: Time) -> bool {
        if self.is_over(now) {
            self.due += std::mem::take(&mut self.beyond);
            (self.began, self.taken) = (now, 0);
        }
        let fits = self.taken < self.each_second;
        if fits {
            self.taken += 1;
        } else {
            self.beyond += 1;
        }
        fits
    }

    /// How many did not fit, once the second is over in which they came.
    pub fn take_beyond(&mut self, now: Time) -> u64 {
        if self.is_over(now) {
            self.due += std::mem::take(&mut self.beyond);
        }
        std::mem::take(&mut self.due)
    }

    fn is_over(&self, now: Time) -> bool {
        now < self.began || now >= self.began + Span::secs(1)
    }
}

/// The number of a cause: of a kind, and of what it happened to. Different ones may rarely have the same.
pub fn cause_of(kind: &str, subject: &str) -> u64 {
    // FNV-1a.
    let bytes = kind.bytes().chain([0xff]).chain(subject.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000_000);

    #[test]
    fn the_same_cause_is_told_once_per_interval_with_what_was_left_out() {
        let mut throttle = Throttle::new(Span::secs(1), 4);
        assert_eq!(throttle.ask(START, 1, || 'a'), Verdict::Tell { left_out: 0 });
        assert_eq!(throttle.ask(START, 2, || 'b'), Verdict::Tell { left_out: 0 });
        for nanos in 0..3 {
            assert_eq!(throttle.ask(START + Span(nanos), 1, || 'a'), Verdict::LeaveOut);
        }
        assert_eq!(throttle.ask(START + Span::secs(1), 1, || 'a'), Verdict::Tell { left_out: 3 });
        assert_eq!(throttle.take_overdue(START + Span::secs(5)), None);
    }

    #[test]
    fn what_was_left_out_last_is_told_when_nothing_follows() {
        let mut throttle = Throttle::new(Span::secs(1), 4);
        throttle.ask(START, 1, || 'a');
        throttle.ask(START, 1, || 'b');
        throttle.ask(START, 1, || 'c');
        assert_eq!(throttle.take_overdue(START + Span::millis(999)), None);
        assert_eq!(throttle.take_overdue(START + Span::secs(1)), Some(('c', 2)));
        assert_eq!(throttle.take_overdue(START + Span::secs(9)), None);
    }

    #[test]
    fn a_cause_may_have_an_interval_of_its_own() {
        let mut throttle = Throttle::new(Span::secs(1), 4);
        let mut ask = |seconds| throttle.ask_every(START + Span::secs(seconds), Span::secs(60), 1, || 'a');
        assert_eq!((ask(0), ask(2)), (Verdict::Tell { left_out: 0 }, Verdict::LeaveOut));
        assert_eq!((ask(59), ask(60)), (Verdict::LeaveOut, Verdict::Tell { left_out: 2 }));
        ask(61);
        assert_eq!(throttle.take_overdue(START + Span::secs(119)), None);
        assert_eq!(throttle.take_overdue(START + Span::secs(120)), Some(('a', 1)));
    }

    #[test]
    fn a_budget_lets_so_many_through_and_counts_the_rest() {
        let mut budget = Budget::new(2);
        let now = START + Span::millis(300);
        assert_eq!([0, 1, 2, 3].map(|_| budget.take(now)), [true, true, false, false]);
        assert_eq!(budget.take_beyond(now + Span::millis(999)), 0, "there may be more");
        assert_eq!(budget.take_beyond(now + Span::secs(1)), 2);
        assert!(
            budget.take(now + Span::secs(1)) && budget.take(START),
            "a clock that goes back silences nobody"
        );
        assert_eq!(budget.take_beyond(now + Span::secs(5)), 0);
    }

    #[test]
    fn the_table_does_not_grow_above_its_limit() {
        let mut throttle = Throttle::new(Span::secs(1), 2);
        for cause in 0..100 {
            let now = START + Span(cause as i64);
            assert_eq!(throttle.ask(now, cause, || ()), Verdict::Tell { left_out: 0 });
        }
        assert_eq!(throttle.entries.len(), 2);
    }

    #[test]
    fn a_clock_that_goes_back_does_not_silence_anything_for_longer_than_the_interval() {
        let mut throttle = Throttle::new(Span::secs(1), 2);
        throttle.ask(START + Span::secs(1_000), 1, || ());
        assert_eq!(throttle.ask(START, 1, || ()), Verdict::LeaveOut);
        assert_eq!(throttle.ask(START + Span::secs(1), 1, || ()), Verdict::Tell { left_out: 1 });
    }

    #[test]
    fn kind_and_subject_do_not_run_into_each_other() {
        assert_ne!(cause_of("ab", "c"), cause_of("a", "bc"));
    }
}
