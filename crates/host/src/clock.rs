//! The only places where time and chance come from.

use contract::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// The host's clock. It may be stepped; nothing here or in the cores breaks when it is.
pub fn now() -> Time {
    let since_epoch = clock_gettime(ClockId::Realtime);
    // Before the epoch it is the epoch, which nobody who is alive sees.
    let (seconds, nanos) = (since_epoch.tv_sec.max(0) as u64, since_epoch.tv_nsec as u64);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// A clock that nobody sets, from any beginning.
pub fn monotonic() -> Time {
    time_of(ClockId::Monotonic)
}

/// A clock that nobody sets and that goes on while the host is suspended, from any beginning.
pub fn steady() -> Time {
    time_of(ClockId::Boottime)
}

/// Finds out when somebody sets the host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockWatch {
    /// What both clocks showed.
    seen: Option<(Time, Time)>,
}

impl ClockWatch {
    /// A clock that is only kept right is moved by less than this at once.
    const STEP: Span = Span::millis(50);

    /// By how much the clock has been set since the last look, from what it shows and what [`steady`] does.
    pub(crate) fn look(&mut self, wall: Time, steady: Time) -> Option<Span> {
        let (wall_before, steady_before) = self.seen.replace((wall, steady))?;
        let by = wall.since(wall_before) - steady.since(steady_before);
        (by > Self::STEP || by < -Self::STEP).then_some(by)
    }
}

/// How long this thread has worked, from any beginning: time in which others had its processor does not count. It is a call
/// into the kernel, where the others are not.
pub fn worked() -> Time {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Time {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (time.tv_sec.max(0) as u64, time.tv_nsec as u64);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Fills a key with bytes that nobody can guess; waits until the kernel has them.
pub fn fill_random(key: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < key.len() {
        match rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A number that no other process has, to tell lives of a broker apart.
pub fn random_number() -> u64 {
    let mut bytes = [0; 8];
    // Early in a boot the kernel may not have any yet; the time then is as good as a process needs.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => now().0 ^ u64::from(std::process::id()).rotate_left(40),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_found_and_one_that_is_kept_right_is_not() {
        let mut watch = ClockWatch::default();
        let (wall, steady) = (Time(1_700_000_000_000_000_000), Time(5_000_000_000));
        assert_eq!(watch.look(wall, steady), None, "the first look");
        let hour = Span::secs(3_600);
        assert_eq!(
            watch.look(wall + hour + Span::millis(10), steady + hour),
            None,
            "drift, or a suspended host"
        );
        assert_eq!(watch.look(wall + hour * 2 + Span::millis(10), steady + hour), Some(hour));
        assert_eq!(watch.look(wall, steady + hour), Some(-(hour * 2 + Span::millis(10))));
        assert_eq!(watch.look(wall, steady + hour), None);
    }
}
