//! Takes changes from the data thread and merges them, even while the disk is busy.

use super::{Change, Desk, NEVER, Shared, Step, StoreDoes, change_bytes};
use rtrb::Consumer;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::Duration;

pub(super) struct Collector {
    shared: Arc<Shared>,
    ring: Consumer<Step>,
    /// Between two looks into the ring while changes come, so that the data thread need not wake anybody for each.
    gather: Duration,
    /// What comes is not written.
    deaf: bool,
}

/// The longest time between two looks.
const GATHER_MAX: Duration = Duration::from_millis(1);

impl Collector {
    pub(super) fn new(shared: Arc<Shared>, ring: Consumer<Step>, commit_every: Duration) -> Collector {
        Collector { shared, ring, gather: (commit_every / 4).min(GATHER_MAX), deaf: false }
    }

    pub(super) fn serve(mut self) {
        loop {
            // Before looking: whoever closes has put everything into the ring by then.
            let closing = self.shared.closing.load(SeqCst);
            if self.shared.phase() == StoreDoes::Nothing && !self.deaf {
                self.deafen();
            }
            let came = self.collect();
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

    /// What comes is not written any more, until somebody begins anew.
    fn deafen(&mut self) {
        self.deaf = true;
        let mut desk = self.shared.desk();
        let (upto, ended) = (desk.upto, desk.ended);
        let old = std::mem::replace(&mut *desk, Desk { upto, ended, ..Desk::default() });
        self.shared.waiting_bytes.fetch_sub(old.bytes, SeqCst);
        self.shared.laid_since.store(NEVER, SeqCst);
        drop(desk);
        self.shared.deaf.store(true, SeqCst);
        self.shared.laid.notify_all();
        self.shared.tell();
    }

    /// Lays on the desk what has come.
    fn collect(&mut self) -> bool {
        let Collector { shared, ring, deaf, .. } = self;
        let mut came = false;
        while let Ok(chunk) = ring.read_chunk(ring.slots().min(PORTION)) {
            if chunk.is_empty() {
                break;
            }
            came = true;
            shared.lay(chunk.into_iter(), deaf);
        }
        came
    }

    fn sleep(&self) {
        self.shared.asleep.store(true, SeqCst);
        fence(SeqCst);
        let given_up = self.shared.phase() == StoreDoes::Nothing && !self.deaf;
        if self.ring.is_empty() && !self.shared.closing.load(SeqCst) && !given_up {
            std::thread::park();
        }
        self.shared.asleep.store(false, SeqCst);
    }
}

impl Shared {
    /// Lays what came on the desk, in its order.
    fn lay(&self, steps: impl Iterator<Item = Step>, deaf: &mut bool) {
        let mut desk = self.desk();
        if desk.changes.is_empty() {
            self.laid_since.store(self.clock(), SeqCst);
        }
        let (mut merged, mut lost) = (0, 0);
        for step in steps {
            match step {
                Step::Begin { given } => {
                    *deaf = false;
                    self.deaf.store(false, SeqCst);
                    desk.upto = given;
                }
                Step::Change(change) if *deaf => lost += change.bytes(),
                Step::Aside(_) if *deaf => self.aside_waits.store(false, SeqCst),
                _ if *deaf => {}
                Step::Stored(stored) if desk.aside.is_some() => desk.later_stored = Some(stored),
                Step::Stored(stored) => desk.stored = Some(stored),
                Step::Complete => desk.complete = true,
                // Another one is not made before this one is; see `Store::set_aside`.
                Step::Aside(path) => desk.aside = Some(path),
                Step::Change(Change { key, value }) => {
                    desk.bytes += change_bytes(&key, value.as_deref());
                    desk.upto += 1;
                    let key_bytes = key.len();
                    let Desk { changes, later, aside, .. } = &mut *desk;
                    let changes = if aside.is_some() { later } else { changes };
                    if let Some(old) = changes.insert(key, value) {
                        merged += change_bytes(&[], old.as_deref()) + key_bytes;
                    }
                }
            }
        }
        desk.bytes -= merged;
        self.waiting_bytes.fetch_sub(merged + lost, SeqCst);
        if desk.is_empty() {
            self.laid_since.store(NEVER, SeqCst);
        }
        drop(desk);
        self.laid.notify_all();
    }
}

/// Changes that are merged at once; the writer waits so long for the desk at most.
const PORTION: usize = 1_024;
