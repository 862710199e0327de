//! A host's clock: off by a constant, running a little fast or slow, and now and then set.

use contract::{Span, Time};

/// A clock that is wrong in a known way.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// A true time, and what this clock showed then.
    anchor: Time,
    shown: Time,
    /// Nanoseconds that it gains in a second.
    drift_ppb: i64,
}

const BILLION: i64 = 1_000_000_000;

impl Clock {
    /// A clock that is `offset` ahead at `now` and gains so much from then on.
    pub fn new(now: Time, offset: Span, drift_ppb: i64) -> Clock {
        Clock { anchor: now, shown: now + offset, drift_ppb }
    }

    /// What the clock shows.
    pub fn local(&self, now: Time) -> Time {
        let passed = now.since(self.anchor).0;
        self.shown + Span(passed + self.gained(passed))
    }

    /// What it has gained in so many nanoseconds.
    fn gained(&self, passed: i64) -> i64 {
        passed / BILLION * self.drift_ppb + passed % BILLION * self.drift_ppb / BILLION
    }

    /// The true time from `now` until the clock shows `local`, rounded up; zero if it already does.
    pub fn until(&self, now: Time, local: Time) -> Span {
        if local == Time::NEVER {
            return Span::FOREVER;
        }
        let ahead = local.since(self.local(now)).0;
        if ahead <= 0 {
            return Span::ZERO;
        }
        if self.drift_ppb == 0 {
            return Span(ahead);
        }
        // Exact to a nanosecond for spans of months.
        let rate = 1.0 + self.drift_ppb as f64 / BILLION as f64;
        Span((ahead as f64 / rate) as i64 + 2)
    }

    /// Nanoseconds that it gains in a second.
    pub fn drift_ppb(&self) -> i64 {
        self.drift_ppb
    }

    /// Somebody sets it forward, or back.
    pub fn step(&mut self, now: Time, by: Span) {
        (self.shown, self.anchor) = (self.local(now) + by, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_reached_when_its_time_has_passed_and_not_before() {
        for drift in [-400_000, -1, 0, 1, 250_000] {
            let clock = Clock::new(Time(1_000_000), Span(-77), drift);
            for ahead in [1, 10, 1_000, 123_456_789, 86_400_000_000_000] {
                let now = Time(5_000_000);
                let deadline = clock.local(now) + Span(ahead);
                let wait = clock.until(now, deadline);
                assert!(clock.local(now + wait) >= deadline, "{drift} {ahead}");
                assert!(clock.local(now + wait - Span(4)) < deadline, "{drift} {ahead}");
            }
        }
    }

    #[test]
    fn a_step_moves_the_clock_and_keeps_its_rate() {
        let mut clock = Clock::new(Time(0), Span::ZERO, 1_000);
        clock.step(Time(0) + Span::secs(15), -Span::secs(10));
        let error = |at: Time| clock.local(at).since(at);
        assert_eq!(error(Time(0) + Span::secs(20)), -Span::secs(10) + Span(20_000));
    }
}
