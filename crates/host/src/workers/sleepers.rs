//! Where threads wait, and what wakes them.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst, fence};

/// Where idle threads sleep.
pub(super) struct Sleepers {
    pub(super) bell: Bell,
    sleepers: AtomicUsize,
}

/// A counter of the kernel that wakes one thread for each ring.
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new(flags: EventfdFlags) -> Result<Bell, Errno> {
        eventfd(0, flags | EventfdFlags::CLOEXEC).map(Bell)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn ring(&self) {
        // It fails only if it has been rung 2^64 times.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(super) fn wait(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

impl Sleepers {
    pub(super) fn new() -> Result<Sleepers, Errno> {
        Ok(Sleepers { bell: Bell::new(EventfdFlags::SEMAPHORE)?, sleepers: AtomicUsize::new(0) })
    }

    /// Wakes one sleeper, if there is one, and counts it as awake. Called after there is work.
    pub(super) fn wake(&self, awake: &AtomicUsize) {
        // Either we see the sleeper, or it sees the work.
        fence(SeqCst);
        let wake = |sleepers: usize| sleepers.checked_sub(1);
        if self.sleepers.load(SeqCst) > 0 && self.sleepers.fetch_update(SeqCst, SeqCst, wake).is_ok() {
            awake.fetch_add(1, SeqCst);
            self.bell.ring();
        }
    }

    /// Sleeps until woken, unless there is work after all.
    pub(super) fn sleep(&self, awake: &AtomicUsize, has_work: impl Fn() -> bool) {
        awake.fetch_sub(1, SeqCst);
        self.sleepers.fetch_add(1, SeqCst);
        fence(SeqCst);
        let leave = |sleepers: usize| sleepers.checked_sub(1);
        let stays = has_work() && self.sleepers.fetch_update(SeqCst, SeqCst, leave).is_ok();
        // Somebody may have taken us for asleep already; that ring is ours then.
        if stays {
            awake.fetch_add(1, SeqCst);
        } else {
            self.bell.wait();
        }
    }
}
