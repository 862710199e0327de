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

/// A rest, if one is due, after so long.
const WINDOW: Span = Span::millis(10);
/// Of each window, in percent: one more than Linux takes by itself.
const REST_PERCENT: i64 = 6;
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

    /// The thread has waited for sockets from `from` until `now`.
    pub(crate) fn waited(&mut self, from: Time, now: Time) {
        self.rested += now.since(from).max(Span::ZERO);
    }

    /// How long to rest now.
    pub(crate) fn due(&mut self, now: Time) -> Option<Duration> {
        let awake = now.since(self.since);
        if awake < WINDOW {
            // A clock that went back begins a window anew.
            self.since = self.since.min(now);
            return None;
        }
        let owed = Span(awake.0.min(2 * WINDOW.0) / 100 * REST_PERCENT) - self.rested;
        *self = Breath { since: now, rested: Span::ZERO };
        (owed > Span::ZERO).then(|| Duration::from_nanos(owed.as_nanos_u64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_never_waits_rests_six_percent() {
        let mut breath = Breath { since: Time(0), rested: Span::ZERO };
        let (mut now, mut rested) = (Time(0), 0);
        for _ in 0..1_000 {
            now = now + Span::micros(100);
            if let Some(rest) = breath.due(now) {
                rested += rest.as_nanos();
                now = now + Span(rest.as_nanos() as i64);
            }
        }
        let share = rested as f64 / now.0 as f64;
        assert!((0.05..0.07).contains(&share), "{share}");
    }

    #[test]
    fn a_thread_that_waits_by_itself_rests_no_more() {
        let mut breath = Breath { since: Time(0), rested: Span::ZERO };
        let mut now = Time(0);
        for _ in 0..1_000 {
            now = now + Span::micros(90);
            let from = now;
            now = now + Span::micros(10);
            breath.waited(from, now);
            assert_eq!(breath.due(now), None);
        }
    }
}
