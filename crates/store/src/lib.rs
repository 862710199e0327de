#![doc = include_str!("../README.md")]

mod asking;
mod item;
mod store;
mod syncing;
mod words;

pub use asking::{Answer, Query};
pub use item::{Item, ItemId, Kept, NoItemId, VALUE_BYTES_MAX, Version, place_by_hash};
pub use store::{Effects, Limits, Refusal, Ring, Store};
pub use words::{Copied, StoreWord, WordError};
