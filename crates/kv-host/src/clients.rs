//! What this node's tasks have written, taken from their rings at the beginning of each job.

use contract::Time;
use kv::{Lane, WriteError};
use kv_shared::{RingReader, SLOTS_MAX};
use std::sync::mpsc::Receiver;

/// Changes that may wait for a lane's next job. More than that, and clients are not taken in until then.
pub(crate) const CHANGES_MAX: usize = 2 * SLOTS_MAX;

/// A client comes or goes.
pub(crate) enum Change {
    /// Its writes are in this ring.
    Attach(u32, RingReader),
    /// What it wrote before counts; nothing after that.
    Detach(u32),
}

/// All clients of a lane.
pub(crate) struct Clients {
    slots: Box<[Option<RingReader>]>,
    inbox: Receiver<Change>,
}

/// What has become of writes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Writes {
    /// They are in a job.
    pub(crate) taken: u64,
    /// Their publishing time was over, or too near, when their job began.
    pub(crate) too_late: u64,
    /// Refused for another reason that clients can know before.
    pub(crate) refused: u64,
    /// Clients whose memory made no sense any more.
    pub(crate) broken: u64,
}

impl Clients {
    pub(crate) fn new(inbox: Receiver<Change>) -> Clients {
        Clients { slots: (0..SLOTS_MAX).map(|_| None).collect(), inbox }
    }

    /// Gives the lane all that clients have written.
    pub(crate) fn drain(&mut self, lane: &mut Lane, now: Time, writes: &mut Writes) {
        for slot in &mut self.slots {
            let Some(ring) = slot else { continue };
            if drain(ring, lane, now, writes) {
                *slot = None;
            }
        }
        while let Ok(change) = self.inbox.try_recv() {
            match change {
                Change::Attach(slot, ring) => {
                    if let Some(place) = self.slots.get_mut(slot as usize) {
                        let ring = place.insert(ring);
                        drain(ring, lane, now, writes);
                    }
                }
                Change::Detach(slot) => {
                    if let Some(place) = self.slots.get_mut(slot as usize) {
                        *place = None;
                    }
                }
            }
        }
    }
}

/// Whether the client can be believed no longer.
fn drain(ring: &mut RingReader, lane: &mut Lane, now: Time, writes: &mut Writes) -> bool {
    let drained = ring.drain(|key, publishing, value| match lane.write(key, value, publishing, now) {
        Ok(()) => writes.taken += 1,
        Err(WriteError::PublishingTimePast(_) | WriteError::PublishingTimeTooSoon(_)) => writes.too_late += 1,
        Err(_) => writes.refused += 1,
    });
    writes.broken += u64::from(drained.is_err());
    drained.is_err()
}
