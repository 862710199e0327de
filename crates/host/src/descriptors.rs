//! Descriptors: every connection needs one.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsFd, RawFd};

/// Raises the number of descriptors to what the host allows, and makes room for `wanted` of them at once. Returns how many are
/// allowed now, if there is a limit.
///
/// The kernel's table of a process's descriptors grows by doubling. Where there are several threads, whoever opens the descriptor
/// that does not fit waits until no processor looks at the old table: 4 to 12 ms on an idle host, which would be the data thread's
/// in the middle of accepting connections. The table never shrinks, so once is enough, and best before other threads begin.
pub fn prepare_descriptors(wanted: u64) -> Option<u64> {
    let allowed = raise_limit();
    let last = wanted.min(allowed.unwrap_or(u64::MAX)).saturating_sub(1);
    // Without that room everything works, only later.
    if let Ok(last) = RawFd::try_from(last) {
        let _ = fcntl_dupfd_cloexec(std::io::stderr().as_fd(), last);
    }
    allowed
}

fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}
