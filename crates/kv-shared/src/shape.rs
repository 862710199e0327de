//! Where everything is in a store's memory, in words:
//!
//! ```text
//! header       fields 0 to HEADER_WORDS - 1
//! terms        for each key, what writing it takes
//! by name      for each key, in the order of names: where its name is, its length, the key's number
//! stamps       for each key: a count of steps, then history + 1 stamps
//! values       for each key: history + 1 places of a head and the words of a value
//! names        the node's name and the keys' names, byte by byte
//! ```

use crate::memory::{MEMORY_BYTES_MAX, MemoryError, WORD};
use crate::vector::vector_bytes_max;
use kv::{Config, Format, NODES_MAX};

/// The first word of every store.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"vrgkvsto");
/// Grows with every change of the layout.
pub(crate) const VERSION: u64 = 3;
/// A multiple of a cache line.
pub(crate) const HEADER_WORDS: usize = 64;

/// The numbers of the header's words. What changes has cache lines of its own.
pub(crate) mod field {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const LANE: usize = 2;
    pub(crate) const NODE: usize = 3;
    pub(crate) const FINGERPRINT: usize = 4;
    pub(crate) const PERIOD: usize = 5;
    pub(crate) const OFFSET: usize = 6;
    pub(crate) const ROUND: usize = 7;
    pub(crate) const HORIZON: usize = 8;
    pub(crate) const HISTORY: usize = 9;
    pub(crate) const VALUE_BYTES_MAX: usize = 10;
    pub(crate) const BATCH_TUPLES_MAX: usize = 11;
    pub(crate) const PERIOD_MAX: usize = 12;
    pub(crate) const KEYS: usize = 13;
    pub(crate) const NAMES_BYTES: usize = 14;
    pub(crate) const NODE_NAME_BYTES: usize = 15;

    pub(crate) const STATE: usize = 32;
    pub(crate) const COUNTS_FROM: usize = 33;
    pub(crate) const CAUTIOUS_UNTIL: usize = 34;
    pub(crate) const LACKS: usize = 35;
    pub(crate) const ALONE: usize = 36;
    pub(crate) const BEGUN: usize = 40;
    pub(crate) const FINISHED: usize = 41;
    pub(crate) const HEARTBEAT: usize = 42;
}

/// The longest of what is kept: a vector of all nodes.
const ENTRY_BYTES_MAX: usize = vector_bytes_max(NODES_MAX, Config::VALUE_BYTES_MAX);
/// Bits for its length.
const LEN_BITS: u32 = 20;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;
const _: () = assert!((ENTRY_BYTES_MAX as u64) < LEN_MASK, "all ones are the length of what is torn");

/// The layout of one store; all of it follows from these four numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) keys: usize,
    pub(crate) places: usize,
    pub(crate) value_bytes_max: usize,
    names_bytes: usize,
}

impl Shape {
    pub(crate) fn new(
        keys: usize,
        history: usize,
        value_bytes_max: usize,
        names_bytes: usize,
    ) -> Option<Shape> {
        let possible = (1..=Config::KEYS_MAX).contains(&keys)
            && (1..=Config::HISTORY_MAX).contains(&history)
            && (1..=ENTRY_BYTES_MAX).contains(&value_bytes_max)
            && names_bytes < u32::MAX as usize;
        possible.then_some(Shape { keys, places: history + 1, value_bytes_max, names_bytes })
    }

    pub(crate) fn terms(&self) -> usize {
        HEADER_WORDS
    }

    pub(crate) fn by_name(&self) -> usize {
        self.terms() + self.keys
    }

    /// The row of a key: its count, then its stamps.
    pub(crate) fn row(&self, key: usize) -> usize {
        self.by_name() + self.keys + key * (1 + self.places)
    }

    /// A place of a key: a head, then the value.
    pub(crate) fn place(&self, key: usize, place: usize) -> usize {
        self.row(self.keys) + (key * self.places + place) * self.place_words()
    }

    pub(crate) fn place_words(&self) -> usize {
        1 + self.value_bytes_max.div_ceil(WORD)
    }

    pub(crate) fn names(&self) -> usize {
        self.place(self.keys, 0)
    }

    pub(crate) fn words(&self) -> usize {
        self.names() + self.names_bytes.div_ceil(WORD)
    }

    pub(crate) fn check_size(&self) -> Result<(), MemoryError> {
        // No product of the limits in `new` overflows 64 bits.
        let bytes = self.words() as u64 * WORD as u64;
        if bytes > MEMORY_BYTES_MAX { Err(MemoryError::TooLarge(bytes)) } else { Ok(()) }
    }
}

/// What is needed to write a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyTerms {
    /// Whether this node may write it.
    pub may_write: bool,
    /// Whether no other node may.
    pub alone: bool,
    /// The format of its numbers, if it votes on numbers.
    pub format: Option<Format>,
}

impl KeyTerms {
    pub(crate) fn to_word(self) -> u64 {
        let format = match self.format {
            None => 0,
            Some(Format::F64) => 1,
            Some(Format::I64) => 2,
            Some(Format::Decimal) => 3,
        };
        u64::from(self.may_write) | u64::from(self.alone) << 1 | format << 8
    }

    #[inline]
    pub(crate) fn of_word(word: u64) -> KeyTerms {
        let format = match word >> 8 & 0xFF {
            1 => Some(Format::F64),
            2 => Some(Format::I64),
            3 => Some(Format::Decimal),
            _ => None,
        };
        KeyTerms { may_write: word & 1 != 0, alone: word & 2 != 0, format }
    }
}

/// Where a name is, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameEntry {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) key: u16,
}

impl NameEntry {
    pub(crate) fn to_word(self) -> u64 {
        (self.at as u64) << 32 | (self.len as u64 & 0xFFFF) << 16 | u64::from(self.key)
    }

    pub(crate) fn of_word(word: u64) -> NameEntry {
        NameEntry { at: (word >> 32) as usize, len: (word >> 16 & 0xFFFF) as usize, key: word as u16 }
    }
}

/// What the head of a place says: how long the value is, and a number that no other state of the place has.
#[derive(Clone, Copy)]
pub(crate) struct Head(pub(crate) u64);

impl Head {
    /// A value of this many bytes, complete with the `step`th step of the key.
    pub(crate) fn whole(step: u64, len: usize) -> Head {
        Head(step << LEN_BITS | len as u64)
    }

    /// The place is being written since this step.
    pub(crate) fn torn(step: u64) -> Head {
        Head(step << LEN_BITS | LEN_MASK)
    }

    /// The length of the value; `None` if it is torn, or longer than any value.
    #[inline]
    pub(crate) fn len(self, value_bytes_max: usize) -> Option<usize> {
        let len = (self.0 & LEN_MASK) as usize;
        (len <= value_bytes_max).then_some(len)
    }
}
