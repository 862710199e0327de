//! Things that are kept.

use contract::{Location, RingId, Span, Time};
use std::fmt;
use std::str::FromStr;
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

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:032x}", self.place, self.hash)
    }
}

/// A place on the ring for a name, by its hash.
pub fn place_by_hash(name: &str) -> RingId {
    let mut place = [0; 20];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut place);
    RingId::from_bytes(place)
}

/// It is written otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("72 hexadecimal digits stand for a thing that is kept")]
pub struct NoItemId;

impl FromStr for ItemId {
    type Err = NoItemId;

    fn from_str(text: &str) -> Result<ItemId, NoItemId> {
        let digits = text.len() == 72 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let (place, hash) = text.split_at_checked(40).filter(|_| digits).ok_or(NoItemId)?;
        let mut bytes = [0; 20];
        for (byte, digits) in bytes.iter_mut().zip(place.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NoItemId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoItemId)?;
        }
        let hash = u128::from_str_radix(hash, 16).map_err(|_| NoItemId)?;
        Ok(ItemId { place: RingId::from_bytes(bytes), hash })
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
    /// How many bytes its value has; `None`: it was deleted.
    pub size: Option<u64>,
    /// Its value, where that is wanted.
    pub value: Option<Arc<[u8]>>,
}

/// What is known of something that is kept, without its value: as it is on disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Its place on the ring.
    pub place: RingId,
    /// What it is.
    pub key: Arc<str>,
    /// Which of several.
    pub version: Version,
    /// Where it is.
    pub location: Location,
    /// Until when it lasts, on this host's clock.
    pub until: Time,
    /// How many bytes its value has; `None`: it was deleted.
    pub size: Option<u64>,
}

impl Kept {
    /// Where it stands.
    pub fn id(&self) -> ItemId {
        ItemId::of(self.place, &self.key)
    }
}

impl Item {
    /// Without its value; it lasts until then.
    pub fn kept(&self, until: Time) -> Kept {
        let Item { place, key, version, location, size, .. } = self;
        Kept {
            place: *place,
            key: Arc::clone(key),
            version: *version,
            location: *location,
            until,
            size: *size,
        }
    }

    /// Where it stands.
    pub fn id(&self) -> ItemId {
        ItemId::of(self.place, &self.key)
    }

    /// About so many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        bytes(&self.key, self.size)
    }
}

/// Bytes of something with this key, and a value of this size.
pub(crate) fn bytes(key: &str, size: Option<u64>) -> u64 {
    key.len() as u64 + size.unwrap_or(0)
}
