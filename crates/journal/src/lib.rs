#![doc = include_str!("../README.md")]

mod appending;
mod compaction;
mod events;
mod files;
mod forecast;
mod format;
mod journal;
mod mutant;
mod notes;
mod page;
mod reading;
mod recovery;
mod room;
mod segment;
mod settings;
mod syncing;
mod told;
mod topics;

pub use appending::NewItem;
pub use files::{FileError, FileName, Files, SyncOrder};
pub use forecast::{Forecast, bytes_for};
pub use format::{FORMAT_VERSION, ITEM_BYTES, NAME_BYTES_MAX, NOTE_BYTES};
pub use journal::{Journal, Position, ReceiverId, TopicId};
pub use reading::{Batch, Budget, Cursor, History, Item};
pub use recovery::OpenError;
pub use settings::{
    Durability, PRIORITIES, Room, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Settings, SettingsError,
    TopicSettings,
};
pub use told::{Counters, Damage, Event, LimitError, NotKept, NotKeptCounters, SegmentReport, State};

use mutant::Mutant;

#[cfg(test)]
mod tests;
