//! What a journal is like, and every limit that it has.

use crate::format::{HEADER_BYTES, ITEM_BYTES, NAME_BYTES_MAX, NOTE_BYTES, TRAILER_BYTES, seal_bytes};
use contract::Span;

/// What is said of a journal when it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The bytes of a segment, which are taken from the disk when it is begun.
    pub segment_bytes: u32,
    /// The bytes of all files. One segment less is used, since compaction needs room to copy into. While notes are written anew
    /// there may be as many bytes more as these have.
    pub bytes_max: u64,
    /// How many segments there may be.
    pub segments_max: usize,
    /// How many topics there may be.
    pub topics_max: usize,
    /// How many topics may have something in one segment; it ends before one more.
    pub topics_per_segment_max: usize,
    /// How many marks the index of a segment may have; it ends before one more. A mark takes 16 bytes of memory.
    pub marks_per_segment_max: usize,
    /// After how many items of a topic the index has another mark. Whoever reads has notes of so many items at once.
    pub items_per_mark: u32,
    /// The bytes of a payload.
    pub payload_bytes_max: u32,
    /// The bytes of a stream's identity.
    pub identity_bytes_max: u16,
    /// How many receivers there may be.
    pub receivers_max: usize,
    /// How many positions there may be, of all receivers and topics.
    pub positions_max: usize,
    /// When what was appended is synced.
    pub durability: Durability,
    /// What is given up when [`Settings::bytes_max`] is reached.
    pub room: Room,
    /// After what time a disk that was full, or failed, is tried again.
    pub retry: Span,
}

/// When what was appended is synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Whenever the system likes.
    Os,
    /// So often, while something was appended.
    Interval(Span),
    /// At once, and again as soon as that is done: many items share a sync.
    Each,
}

/// What is given up when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// The oldest segment.
    OldestFirst,
    /// The oldest segment of the least critical topics.
    LeastCriticalFirst,
}

/// What is said of a topic. All of it may be said anew at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicSettings {
    /// How long its items are kept after they were created.
    pub keep: Span,
    /// The bytes that its items take, with what belongs to each. What is above that is given up oldest first, as many items at
    /// once as stand between two marks of the index.
    pub bytes_max: u64,
    /// How critical it is, 0 most, below [`PRIORITIES`]. Topics of a priority share segments. Another one takes effect when
    /// nothing of the topic is kept any more.
    pub priority: u8,
}

/// So many priorities there are.
pub const PRIORITIES: usize = 4;
/// The shortest segment.
pub const SEGMENT_BYTES_MIN: u32 = 4 << 10;
/// The longest segment: offsets have 32 bits.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 31;

/// Why settings do not fit together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A segment is too short or too long.
    #[error("segments of {0} bytes: between {SEGMENT_BYTES_MIN} and {SEGMENT_BYTES_MAX}")]
    SegmentBytes(u32),
    /// The longest item does not fit into a segment.
    #[error("an item may have {item} bytes with what belongs to it, and a segment has {segment}")]
    ItemBytes {
        /// What the longest item takes, and a segment around it.
        item: u64,
        /// The bytes of a segment.
        segment: u32,
    },
    /// There is no room for a head of every priority, one segment to be given up, and one to copy into.
    #[error("{bytes_max} bytes in all: at least {least}, which are {} segments", PRIORITIES + 2)]
    BytesMax {
        /// What is set.
        bytes_max: u64,
        /// What it must be at least.
        least: u64,
    },
    /// A limit is zero.
    #[error("`{0}` is 0: at least 1")]
    Zero(&'static str),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            segment_bytes: 64 << 20,
            bytes_max: 4 << 30,
            segments_max: 4_096,
            topics_max: 4_096,
            topics_per_segment_max: 1_024,
            marks_per_segment_max: 16_384,
            items_per_mark: 128,
            payload_bytes_max: 16 << 20,
            identity_bytes_max: 256,
            receivers_max: 256,
            positions_max: 65_536,
            durability: Durability::Interval(Span::millis(50)),
            room: Room::OldestFirst,
            retry: Span::secs(1),
        }
    }
}

impl Settings {
    /// Whether these fit together.
    pub fn check(&self) -> Result<(), SettingsError> {
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            return Err(SettingsError::SegmentBytes(self.segment_bytes));
        }
        let counts = [
            ("segments_max", self.segments_max),
            ("topics_max", self.topics_max),
            ("topics_per_segment_max", self.topics_per_segment_max),
            ("marks_per_segment_max", self.marks_per_segment_max),
            ("items_per_mark", self.items_per_mark as usize),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(SettingsError::Zero(name));
        }
        let around = HEADER_BYTES + NOTE_BYTES + NAME_BYTES_MAX + seal_bytes(1, 1) + TRAILER_BYTES;
        let item = (around + ITEM_BYTES) as u64
            + u64::from(self.payload_bytes_max)
            + u64::from(self.identity_bytes_max);
        if item > u64::from(self.segment_bytes) {
            return Err(SettingsError::ItemBytes { item, segment: self.segment_bytes });
        }
        let least = (PRIORITIES as u64 + 2) * u64::from(self.segment_bytes);
        if self.bytes_max < least {
            return Err(SettingsError::BytesMax { bytes_max: self.bytes_max, least });
        }
        Ok(())
    }
}

impl Default for TopicSettings {
    /// Three days, as long as there is room, and least critical.
    fn default() -> TopicSettings {
        TopicSettings { keep: Span::secs(72 * 3_600), bytes_max: u64::MAX, priority: PRIORITIES as u8 - 1 }
    }
}
