//! The only places where time and chance come from.

use contract::Time;
use std::time::{SystemTime, UNIX_EPOCH};

/// The host's clock. It may be stepped; nothing here or in the cores breaks when it is.
pub fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
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
