//! Takes changes from the data thread and merges them, even while the disk is busy.

use super::{Change, Shared, change_bytes};
use rtrb::Consumer;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::Duration;

pub(super) struct Collector {
    shared: Arc<Shared>,
    ring: Consumer<Change>,
    /// Between two looks into the ring while changes come, so that the data thread need not wake anybody for each.
    gather: Duration,
}

/// The longest time between two looks.
const GATHER_MAX: Duration = Duration::from_millis(1);

impl Collector {
    pub(super) fn new(shared: Arc<Shared>, ring: Consumer<Change>, commit_every: Duration) -> Collector {
        Collector { shared, ring, gather: (commit_every / 4).min(GATHER_MAX) }
    }

    pub(super) fn serve(mut self) {
        loop {
            // Before looking: whoever closes has put everything into the ring by then.
            let closing = self.shared.closing.load(SeqCst);
            let came = self.collect();
            if self.shared.poisoned.load(SeqCst) {
                // Locked, so that the writer is not just about to wait.
                drop(self.shared.desk());
                self.shared.laid.notify_all();
                return self.shared.tell();
            }
            if closing {
                self.shared.desk().ended = true;
                return self.shared.laid.notify_all();
            }
            if came {
                std::thread::sleep(self.gather);
            } else {
                self.sleep();
            }
        }
    }

    /// Lays on the desk what has come.
    fn collect(&mut self) -> bool {
        let Collector { shared, ring, .. } = self;
        let mut came = false;
        while let Ok(chunk) = ring.read_chunk(ring.slots().min(PORTION)) {
            if chunk.is_empty() {
                break;
            }
            came = true;
            shared.lay(chunk.into_iter());
        }
        came
    }

    fn sleep(&self) {
        self.shared.asleep.store(true, SeqCst);
        fence(SeqCst);
        let stays =
            self.ring.is_empty() && !self.shared.closing.load(SeqCst) && !self.shared.poisoned.load(SeqCst);
        if stays {
            std::thread::park();
        }
        self.shared.asleep.store(false, SeqCst);
    }
}

impl Shared {
    /// Lays changes on the desk, in their order.
    fn lay(&self, changes: impl Iterator<Item = Change>) {
        let mut desk = self.desk();
        if desk.changes.is_empty() {
            self.laid_since.store(self.clock(), SeqCst);
        }
        let mut merged = 0;
        for Change { key, value } in changes {
            desk.bytes += change_bytes(&key, value.as_deref());
            desk.upto += 1;
            let key_bytes = key.len();
            if let Some(old) = desk.changes.insert(key, value) {
                merged += change_bytes(&[], old.as_deref()) + key_bytes;
            }
        }
        desk.bytes -= merged;
        self.waiting_bytes.fetch_sub(merged, SeqCst);
        drop(desk);
        self.laid.notify_all();
    }
}

/// Changes that are merged at once; the writer waits so long for the desk at most.
const PORTION: usize = 1_024;
