//! Writes what is on the desk, one transaction at a time.

use super::disk::Disk;
use super::{Desk, NEVER, Shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(super) fn serve(mut disk: Disk, shared: &Arc<Shared>, commit_every: Duration) {
    let mut next = Instant::now();
    loop {
        let desk = wait(shared, next);
        if shared.poisoned.load(SeqCst) {
            return abandon(disk, shared);
        }
        next = Instant::now() + commit_every;
        if !desk.changes.is_empty() {
            // Nothing that the library meets on a disk may end the process.
            let committed = catch_unwind(AssertUnwindSafe(|| disk.commit(&desk.changes)));
            if let Err(reason) = committed.unwrap_or_else(|_| Err("the store's library gave up".to_owned())) {
                shared.poison(&reason);
                return abandon(disk, shared);
            }
            shared.records.store(disk.records(), SeqCst);
            shared.bytes.store(disk.bytes(), SeqCst);
            shared.written.store(desk.upto, SeqCst);
            shared.waiting_bytes.fetch_sub(desk.bytes, SeqCst);
        }
        shared.writing_since.store(NEVER, SeqCst);
        if desk.ended {
            break;
        }
    }
    if let Err(reason) = disk.close().and_then(|()| shared.folder.note_closed()) {
        shared.poison(&reason);
        std::mem::forget(Arc::clone(shared));
    }
}

/// What there is to write, not before the next commit is due.
fn wait(shared: &Shared, next: Instant) -> Desk {
    let mut desk = shared.desk();
    loop {
        if desk.ended || shared.poisoned.load(SeqCst) {
            break;
        }
        let pause = next.saturating_duration_since(Instant::now());
        if desk.changes.is_empty() {
            desk = shared.laid.wait(desk).unwrap_or_else(PoisonError::into_inner);
        } else if pause.is_zero() {
            break;
        } else {
            desk = shared.laid.wait_timeout(desk, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
    shared.writing_since.store(shared.laid_since.swap(NEVER, SeqCst), SeqCst);
    let (upto, ended) = (desk.upto, desk.ended);
    std::mem::replace(&mut *desk, Desk { upto, ended, ..Desk::default() })
}

/// Leaves the files as they are, and locked for as long as this process lives: closing them would write.
fn abandon(disk: Disk, shared: &Arc<Shared>) {
    std::mem::forget(disk);
    std::mem::forget(Arc::clone(shared));
    // The collector tells; it may be asleep.
    shared.wake();
}
