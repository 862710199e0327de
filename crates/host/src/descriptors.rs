//! Descriptors: every connection needs one, and so does what a broker needs for itself. Clients get what is left.

use crate::doors::PLACES_KEPT;
use crate::error::HostError;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsFd, RawFd};

/// How the descriptors of a process are shared out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// How many the host allows, if there is a limit.
    pub allowed: Option<u64>,
    /// How many are not for clients: what is open, and what is kept for the partner, for admins, and for what is opened later.
    pub kept: u64,
    /// How many clients may be connected.
    pub clients: u32,
    /// How many were to be.
    pub wanted: u32,
}

/// Connections to the partner that are being made, or are open: there is one at a time.
const DIALED: u64 = 1;
/// Connections that are taken only to be turned away.
const TURNED_AWAY: u64 = 1;

impl Shares {
    /// The shares of this process. It has opened all that it keeps open; `later` are those that it opens and closes as it goes.
    pub(crate) fn of_this_process(wanted: u32, later: u64) -> Result<Shares, HostError> {
        Shares::of(getrlimit(Resource::Nofile).current, open_descriptors(), wanted, later)
    }

    fn of(allowed: Option<u64>, open: u64, wanted: u32, later: u64) -> Result<Shares, HostError> {
        let kept = open.saturating_add(later) + DIALED + TURNED_AWAY + u64::from(PLACES_KEPT);
        let left = allowed.map_or(u64::MAX, |allowed| allowed.saturating_sub(kept));
        match u32::try_from(left.min(u64::from(wanted))).unwrap_or(wanted) {
            0 => Err(HostError::Descriptors { allowed: allowed.unwrap_or(u64::MAX), kept }),
            clients => Ok(Shares { allowed, kept, clients, wanted }),
        }
    }

    /// Whether fewer clients may come in than were to.
    pub fn is_short(&self) -> bool {
        self.clients < self.wanted
    }
}

/// How many descriptors this process has. Where the kernel does not say, those that a broker without clients has.
fn open_descriptors() -> u64 {
    // The one with which we look is among them.
    std::fs::read_dir("/proc/self/fd").map_or(USUAL, |open| open.count().saturating_sub(1) as u64)
}

const USUAL: u64 = 48;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_is_left_and_no_more_than_was_wanted() {
        let kept = 40 + 9 + DIALED + TURNED_AWAY + u64::from(PLACES_KEPT);
        let shares = |allowed| Shares::of(allowed, 40, 100, 9);
        let plenty = shares(Some(1_024)).unwrap();
        assert_eq!((plenty.clients, plenty.kept, plenty.is_short()), (100, kept, false));
        assert_eq!(shares(None).unwrap().clients, 100);
        let short = shares(Some(kept + 3)).unwrap();
        assert_eq!((short.clients, short.is_short()), (3, true));
        let none = shares(Some(kept)).unwrap_err();
        assert!(none.to_string().contains("LimitNOFILE"), "{none}");
        assert!(shares(Some(1)).is_err());
    }

    #[test]
    fn what_this_process_has_open_is_counted() {
        let before = open_descriptors();
        let _more = [std::fs::File::open("/dev/null").unwrap(), std::fs::File::open("/dev/null").unwrap()];
        // Other tests open and close some meanwhile.
        assert!(before >= 3 && open_descriptors() >= 5);
    }
}
