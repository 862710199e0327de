//! What a journal tells: how it is, what it could not keep, and what it has given up.

use crate::FileName;
use crate::{Position, TopicId};
use std::fmt;

/// How a journal is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum State {
    /// What is appended is kept.
    Healthy,
    /// The disk is full. It is tried again after [`Settings::retry`](crate::Settings::retry).
    Full,
    /// The disk does not do what it is asked for. It is tried again after [`Settings::retry`](crate::Settings::retry).
    Failed(String),
    /// A sync has failed, so nobody knows what is on the disk: nothing is kept until the journal is opened again.
    Poisoned(String),
}

/// Why an item was not kept. The message itself is none the worse for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotKept {
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The disk has failed.
    #[error("the disk has failed")]
    Failed,
    /// A sync has failed before.
    #[error("a sync has failed, and the journal has not been opened again since")]
    Poisoned,
    /// Its payload or its stream's identity is longer than what is set.
    #[error("it is too long")]
    TooLong,
    /// It was out of date when it came.
    #[error("it was out of date")]
    Expired,
    /// More critical topics have all the room.
    #[error("more critical topics have all the room")]
    NoRoom,
    /// There is no topic of this number.
    #[error("there is no such topic")]
    NoTopic,
}

/// Why there is no more of something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// `topics_max`
    Topics,
    /// `receivers_max`
    Receivers,
    /// `positions_max`
    Positions,
    /// A name is empty or longer than [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX).
    Name,
}

/// What has become of a topic's items.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Items that were appended since the journal was opened.
    pub kept: u64,
    /// Items that were not, by [`NotKept`].
    pub not_kept: NotKeptCounters,
    /// Items that were deleted because they were out of date.
    pub expired: u64,
    /// Items that were given up because the topic had too many bytes.
    pub topic_full: u64,
    /// Items that were given up because all topics together had too many bytes, or segments.
    pub journal_full: u64,
    /// Items that could not be read, as far as they can be counted.
    pub damaged: u64,
}

/// Items that were not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NotKeptCounters {
    /// [`NotKept::Full`]
    pub full: u64,
    /// [`NotKept::Failed`]
    pub failed: u64,
    /// [`NotKept::Poisoned`]
    pub poisoned: u64,
    /// [`NotKept::TooLong`]
    pub too_long: u64,
    /// [`NotKept::Expired`]
    pub expired: u64,
    /// [`NotKept::NoRoom`]
    pub no_room: u64,
}

/// What whoever runs a journal should know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It is in another state.
    State(State),
    /// Something is not as it was written.
    Damage(Damage),
    /// A file that is of no more use could not be removed.
    NotRemoved {
        /// The file.
        file: FileName,
        /// What the disk said.
        reason: String,
    },
    /// How far a receiver has come, or a name, could not be written, so it is not known after a restart.
    NotNoted {
        /// What the disk said.
        reason: String,
    },
    /// So many events before this one have been forgotten, since nobody asked for them.
    Forgotten(u64),
}

/// What is not as it was written, and what is lost by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Where.
    pub file: FileName,
    /// The first byte of it.
    pub at: u64,
    /// So many bytes from there on are not used.
    pub bytes: u64,
    /// So many items are lost, at most, where that can be known.
    pub items: Option<u64>,
    /// Of this topic, where it is of one.
    pub topic: Option<TopicId>,
    /// What is wrong.
    pub what: &'static str,
}

/// What is known of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentReport {
    /// Its file.
    pub file: FileName,
    /// The priority of its topics.
    pub priority: u8,
    /// The first and the last item, if there is any.
    pub range: Option<(Position, Position)>,
    /// Its items, those that are out of date as well.
    pub items: u64,
    /// The bytes of its file.
    pub bytes: u64,
    /// What has been written of these.
    pub used_bytes: u64,
}

impl NotKeptCounters {
    pub(crate) fn count(&mut self, why: NotKept) {
        match why {
            NotKept::Full => self.full += 1,
            NotKept::Failed => self.failed += 1,
            NotKept::Poisoned => self.poisoned += 1,
            NotKept::TooLong => self.too_long += 1,
            NotKept::Expired => self.expired += 1,
            NotKept::NoRoom => self.no_room += 1,
            NotKept::NoTopic => {}
        }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitError::Topics => "there are as many topics as `topics_max` allows",
            LimitError::Receivers => "there are as many receivers as `receivers_max` allows",
            LimitError::Positions => "there are as many positions as `positions_max` allows",
            LimitError::Name => "a name is empty or longer than 1024 bytes",
        })
    }
}

impl std::error::Error for LimitError {}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, at, bytes, what, .. } = self;
        write!(f, "{file} at {at}: {what}; {bytes} bytes are not used")?;
        match self.items {
            Some(items) => write!(f, ", with up to {items} items"),
            None => f.write_str(", nobody knows with how many items"),
        }
    }
}
