#![doc = include_str!("../README.md")]
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod effects;
mod frame;
pub mod limits;
mod load;
mod message;
mod outbox;
mod reader;
mod secret;
mod status;
mod terms;

pub use effects::{Effects, LinkChange, LinkId, Order, PeerIndex, Protocol, Transport};
pub use frame::{
    Announce, Decoded, Farewell, FarewellReason, Frame, Hello, Register, Shortfall, Standing, Verdict,
    WireError, decode,
};
pub use load::{LevelStatus, LevelStatuses, OperatorStatus, OperatorStatuses};
pub use message::{
    MARK_BYTES, Mark, MarkKind, Marks, Message, MessageFlags, MessageKind, Messages, end_trailer, trailer,
};
pub use outbox::Outbox;
pub use secret::Secret;
pub use status::{NodeStatus, StreamStatus, StreamStatuses, TopicState};

/// The version of everything in this crate. Two ends with different versions part with a clear word.
pub const PROTOCOL_VERSION: u16 = 5;
