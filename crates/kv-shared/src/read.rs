//! Reading a value that somebody may be replacing at the same time. `writer.rs` has the idea and what the writer keeps to.

use crate::memory::{WORD, Word};
use crate::shape::Head;
use crate::store::Store;
use contract::Time;
use kv::KeyId;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

/// How often a read looks before it gives up.
///
/// A look is in vain only if the place it found was overwritten before it had copied the value, or, where it found nothing, if a
/// place was taken meanwhile. The writer takes the oldest place, so with a history of `h` it must publish `h` newer values of this key
/// during one look of some hundred nanoseconds, and do so again in every look. A lane publishes once in a period and values whose
/// instants lie ahead, so this happens at most once: when the reader was interrupted for `h` periods in the middle of a look.
pub const LOOKS_MAX: usize = 64;

/// What a read has given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The instant from which on the value is valid.
    pub stamp: Time,
    /// How many bytes it has, from the beginning of the buffer.
    pub len: usize,
}

/// Why there is nothing to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// As a lane would say.
    #[error(transparent)]
    Lane(#[from] kv::ReadError),
    /// The value is longer than the buffer.
    #[error("the value has {needed} bytes, and the buffer {given}: give one of `value_bytes_max` bytes")]
    BufferTooSmall {
        /// The length of the value.
        needed: usize,
        /// That of the buffer.
        given: usize,
    },
    /// What the value was made of is not known here.
    #[error(
        "no vector is there: nothing has been published yet under this key, or its vote came to no value, or this node was away and took the value from the others"
    )]
    NoVector,
    /// The stores of more nodes than may be faulty are others than this node's.
    #[error(
        "the stores of more nodes than may be faulty differ from this node's: nothing that was read can be trusted. Go to a safe state, and see \
         `verge kv status` on all nodes"
    )]
    Alarm,
    /// The value was replaced in every one of [`LOOKS_MAX`] looks: no correct node does that.
    #[error(
        "the value was replaced {LOOKS_MAX} times while it was read: the node does not keep to its period, look at its status"
    )]
    Restless,
}

impl Store {
    /// I2: copies the newest value of the key that is at least as new as `freshness` and whose instant has come by `now`.
    #[inline]
    pub fn read(
        &self,
        key: KeyId,
        freshness: Time,
        now: Time,
        buffer: &mut [u8],
    ) -> Result<Found, ReadError> {
        if usize::from(key.0) >= self.shape.keys {
            return Err(kv::ReadError::UnknownKey(key).into());
        }
        if freshness > now {
            return Err(kv::ReadError::FreshnessInFuture(freshness.since(now)).into());
        }
        let at = self.shape.row(usize::from(key.0));
        let row = &self.memory.words()[at..=at + self.shape.places];
        for _ in 0..LOOKS_MAX {
            if let Some(found) = self.look(key, row, freshness, now, buffer) {
                return found.map_err(|error| match error {
                    ReadError::Lane(kv::ReadError::Nothing | kv::ReadError::Stale(_)) if self.lacks() => {
                        kv::ReadError::Unknown.into()
                    }
                    error => error,
                });
            }
        }
        Err(ReadError::Restless)
    }

    /// What the newest value was made of, from the store beside this one that has it.
    pub fn vector_in(
        &self,
        vectors: &Store,
        key: KeyId,
        freshness: Time,
        buffer: &mut [u8],
    ) -> Result<Found, ReadError> {
        vectors.read(key, freshness, crate::clock::now(), buffer).map_err(|error| match error {
            ReadError::Lane(kv::ReadError::Nothing | kv::ReadError::Stale(_)) if self.lacks() => {
                kv::ReadError::Unknown.into()
            }
            ReadError::Lane(kv::ReadError::Nothing) => ReadError::NoVector,
            error => error,
        })
    }

    /// Whether nothing has been published under the key, be it visible yet or not. Not of use for a key that does not exist.
    pub(crate) fn is_empty(&self, key: KeyId) -> bool {
        let at = self.shape.row(usize::from(key.0));
        self.memory.words()[at + 1..=at + self.shape.places].iter().all(|stamp| stamp.load(Relaxed) == 0)
    }

    /// One look; `None` if what it saw changed before it was done.
    #[inline]
    fn look(
        &self,
        key: KeyId,
        row: &[Word],
        freshness: Time,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Result<Found, ReadError>> {
        let (count, stamps) = row.split_first()?;
        let step = count.load(Acquire);
        let (mut newest, mut at) = (0, 0);
        for (place, stamp) in stamps.iter().enumerate() {
            let stamp = stamp.load(Relaxed);
            if stamp <= now.0 && stamp > newest {
                (newest, at) = (stamp, place);
            }
        }
        if newest == 0 {
            // Looking took some time: only if nothing has moved meanwhile, nothing was there.
            fence(Acquire);
            return (count.load(Relaxed) == step).then_some(Err(kv::ReadError::Nothing.into()));
        }
        let stamp = &stamps[at];
        if newest < freshness.0 {
            // The same: it was the newest if it is still there.
            fence(Acquire);
            let stale = kv::ReadError::Stale(freshness.since(Time(newest)));
            return (stamp.load(Relaxed) == newest).then_some(Err(stale.into()));
        }
        let place = self.shape.place(usize::from(key.0), at);
        let place = &self.memory.words()[place..place + self.shape.place_words()];
        let head = Head(place[0].load(Acquire));
        let len = head.len(self.shape.value_bytes_max)?;
        let given = buffer.len();
        let found = match buffer.get_mut(..len) {
            Some(out) => {
                for (bytes, word) in out.chunks_mut(WORD).zip(&place[1..]) {
                    bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
                }
                Ok(Found { stamp: Time(newest), len })
            }
            None => Err(ReadError::BufferTooSmall { needed: len, given }),
        };
        // A word of a later value would make this see that its place was taken.
        fence(Acquire);
        let same = stamp.load(Acquire) == newest && place[0].load(Relaxed) == head.0;
        same.then_some(found)
    }
}
