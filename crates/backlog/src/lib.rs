#![doc = include_str!("../README.md")]

mod answering;
mod asking;
mod ranges;
mod seen;
#[cfg(test)]
mod tests;
mod words;

pub use answering::{Answering, Kept, Logs, Looked};
pub use asking::{Asking, AskingSettings, Handed, HandedOn, Hands, OriginView, Place};
pub use words::{
    Ask, Beat, From, ITEM_BYTES_MAX, Item, Items, Listed, LogEnd, Part, Progress, StreamName, Told, Want,
    WordError,
};

/// What has passed, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}
