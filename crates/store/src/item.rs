//! Things that are kept.

use contract::{Location, RingId, Span};
use std::sync::Arc;

/// The most bytes of a value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Where something stands among all that is kept: by its place on the ring, and there by a hash of its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemId {
    /// Its place on the ring.
    pub place: RingId,
    /// The hash.
    pub hash: u128,
}

impl ItemId {
    /// The first that there may be.
    pub const MIN: ItemId = ItemId { place: RingId::MIN, hash: 0 };
    /// The last.
    pub const MAX: ItemId = ItemId { place: RingId::MAX, hash: u128::MAX };

    /// Of a key at a place.
    pub fn of(place: RingId, key: &str) -> ItemId {
        let mut hash = [0; 16];
        blake3::Hasher::new().update(key.as_bytes()).finalize_xof().fill(&mut hash);
        ItemId { place, hash: u128::from_le_bytes(hash) }
    }

    /// The first at a place.
    pub fn first_at(place: RingId) -> ItemId {
        ItemId { place, hash: 0 }
    }

    /// The last at a place.
    pub fn last_at(place: RingId) -> ItemId {
        ItemId { place, hash: u128::MAX }
    }

    /// The next one.
    #[must_use]
    pub fn next(self) -> ItemId {
        match self.hash.checked_add(1) {
            Some(hash) => ItemId { hash, ..self },
            None => ItemId::first_at(self.place.next()),
        }
    }
}

/// Which of two that are said of one key counts: the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Version {
    /// Nanoseconds since the Unix epoch on the clock of who has put it, or a little more than the version before.
    pub at: u64,
    /// Who had its place then.
    pub by: RingId,
}

/// Something that is kept, or was deleted.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Its place on the ring.
    pub place: RingId,
    /// What it is, as a profile in its one way of writing.
    pub key: Arc<str>,
    /// Which of several it is.
    pub version: Version,
    /// Where it is.
    pub location: Location,
    /// How long it lasts from now on.
    pub left: Span,
    /// What it is worth; `None`: it was deleted.
    pub value: Option<Arc<[u8]>>,
}

impl Item {
    /// Where it stands.
    pub fn id(&self) -> ItemId {
        ItemId::of(self.place, &self.key)
    }

    /// About so many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.as_ref().map_or(0, |value| value.len())) as u64
    }
}
