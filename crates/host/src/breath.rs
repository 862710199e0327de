//! Rests that the data thread takes when it never waits.
//!
//! Linux takes the processor away from real-time threads that use more than their share of it (95 % of each second, unless it is
//! told otherwise), and holds them up for all that is left of the second: 50 ms. The fair server of Linux 6.12 and later does the
//! same where other threads starve, whatever it is told of the share. A thread that rests a little, often, never reaches the share,
//! nobody starves, and the longest time for which anything waits because of it is one rest.

use crate::fair_server::FairServer;
use contract::{Span, Time};
use std::path::Path;
use std::time::Duration;

/// A rest, if one is due, after so long. What comes in a rest waits for its end. With 1 ms, others still starved now and then.
const WINDOW: Span = Span::millis(2);
/// More than this of a window does not count: the clock was stepped, or the host was away.
const AWAKE_MAX: Span = Span::millis(20);
/// Of each window, in percent: more than the 5 that Linux takes by itself, since going to sleep and waking take some of each rest.
const REST_PERCENT: i64 = 8;
/// Where Linux says how much of each period real-time threads may use, and how long a period is.
const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

/// How long the thread has been awake.
pub(crate) struct Breath {
    since: Time,
    /// How much of that it has waited.
    rested: Span,
}

impl Breath {
    /// For the calling thread; `None` if nothing limits it.
    pub(crate) fn of_this_thread(now: Time) -> Option<Breath> {
        let policy = thread_priority::unix::thread_schedule_policy().ok()?;
        let is_urgent = matches!(policy, thread_priority::unix::ThreadSchedulePolicy::Realtime(_));
        let number = |path| std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
        let throttled = number(RUNTIME).zip(number(PERIOD)).is_some_and(|(most, of)| most >= 0 && most < of);
        let limited = throttled || FairServer::of(Path::new("/")).may_act();
        (is_urgent && limited).then_some(Breath { since: now, rested: Span::ZERO })
    }

    /// The thread has waited for sockets for so long.
    pub(crate) fn waited(&mut self, rested: Span) {
        self.rested += rested.max(Span::ZERO);
    }

    /// Whether it has waited enough since the last time that a rest could have been due, so that it need not for a while.
    pub(crate) fn is_rested(&self) -> bool {
        // A window ends with the turn that goes beyond it.
        self.rested >= share_of(Span(WINDOW.0 / 4 * 5))
    }

    /// Rests, if a rest is due. Sleeping longer than was owed counts for the next time.
    pub(crate) fn take(&mut self, now: impl Fn() -> Time, sleep: impl FnOnce(Duration)) {
        let from = now();
        let owed = self.owed(from);
        if owed > Span::ZERO {
            sleep(Duration::from_nanos(owed.as_nanos_u64()));
            let until = now();
            *self = Breath { since: until, rested: (until.since(from) - owed).max(Span::ZERO) };
        }
    }

    /// How long to rest now.
    fn owed(&mut self, now: Time) -> Span {
        let awake = now.since(self.since);
        if awake < WINDOW {
            // A clock that went back begins a window anew.
            self.since = self.since.min(now);
            return Span::ZERO;
        }
        let owed = share_of(awake.min(AWAKE_MAX)) - self.rested;
        *self = Breath { since: now, rested: Span::ZERO };
        owed
    }
}

/// How much of so long it should rest.
fn share_of(awake: Span) -> Span {
    Span(awake.0 / 100 * REST_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The share of its time that a thread rests which works for `turn`, again and again, and sleeps so much longer than it means to.
    fn rested(turn: Span, overslept: Duration) -> f64 {
        let now = Cell::new(Time(0));
        let pass = |nanos: u128| now.set(now.get() + Span(nanos as i64));
        let (mut breath, mut rested) = (Breath { since: Time(0), rested: Span::ZERO }, 0);
        while now.get() < Time(2_000_000_000) {
            pass(turn.0 as u128);
            breath.take(
                || now.get(),
                |rest| {
                    let slept = (rest + overslept).as_nanos();
                    rested += slept;
                    pass(slept);
                },
            );
        }
        rested as f64 / now.get().0 as f64
    }

    #[test]
    fn a_thread_that_never_waits_rests_more_than_linux_takes_and_little_more() {
        for turn in [Span::micros(3), Span::micros(100), Span::micros(900), Span::millis(19)] {
            for overslept in [0, 20, 60] {
                let share = rested(turn, Duration::from_micros(overslept));
                assert!((0.072..0.085).contains(&share), "{turn}, {overslept} us: {share}");
            }
        }
    }

    #[test]
    fn a_thread_that_waits_while_it_is_not_rested_rests_no_more() {
        let mut breath = Breath { since: Time(0), rested: Span::ZERO };
        let (mut now, mut waits) = (Time(0), 0);
        for _ in 0..10_000 {
            now = now + Span::micros(90);
            if !breath.is_rested() {
                breath.waited(Span::micros(20));
                waits += 1;
            }
            now = now + Span::micros(20);
            assert!(breath.owed(now) <= Span::ZERO);
        }
        assert!((4_500..6_500).contains(&waits), "some, and not all: {waits}");
    }

    #[test]
    fn a_thread_that_waits_by_itself_rests_no_more() {
        let mut breath = Breath { since: Time(0), rested: Span::ZERO };
        let mut now = Time(0);
        for _ in 0..1_000 {
            now = now + Span::micros(90);
            now = now + Span::micros(10);
            breath.waited(Span::micros(10));
            assert!(breath.owed(now) <= Span::ZERO);
        }
    }
}
