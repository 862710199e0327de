//! The synchronised clock, and waiting for it.

use contract::{Span, Time};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The longest that is slept at once. A clock that is set while a task sleeps, forward or back, is noticed after that.
const SLEEP_MAX: Span = Span::secs(1);

/// The time on `CLOCK_REALTIME`, which is what the nodes synchronise. The kernel is not entered for it.
#[inline]
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Realtime);
    Time((now.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64))
}

/// Sleeps until the clock says so, but no longer than a second. `Err` if a signal came; the time now otherwise, which may be
/// before `until`.
pub fn sleep_towards(until: Time) -> Result<Time, Errno> {
    let before = now();
    if before >= until {
        return Ok(before);
    }
    // By the clock that nobody sets, which runs as fast: one that is set back would make the sleep longer by as much.
    let (wait, steady) = (until.since(before).min(SLEEP_MAX), clock_gettime(ClockId::Monotonic));
    let nanos = steady.tv_nsec as u64 + wait.as_nanos_u64();
    let until = Timespec {
        tv_sec: steady.tv_sec + (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as _,
    };
    clock_nanosleep_absolute(ClockId::Monotonic, &until)?;
    Ok(now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn the_clock_is_that_of_the_system_and_sleep_does_not_end_before_its_time() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let time = now();
        assert!(time.0 >= before);
        let until = time + Span::millis(20);
        let mut woken = time;
        while woken < until {
            woken = sleep_towards(until).unwrap_or(woken);
        }
        assert!(now() >= until);
        assert!(sleep_towards(time).unwrap() >= until, "what has passed is not waited for");
    }
}
