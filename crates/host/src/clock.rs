//! The only places where time and chance come from.

use contract::Time;
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
