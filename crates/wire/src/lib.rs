#![doc = include_str!("../README.md")]
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod account;
mod clients;
mod effects;
mod frame;
mod heartbeat;
mod knowledge;
pub mod limits;
mod link_map;
mod load;
mod message;
mod outbox;
mod posting;
mod proxy;
mod reader;
mod secret;
mod status;
mod terms;

pub use account::{LATENCY_BUCKETS, LATENCY_COUNTS, Received, Trouble, bucket_of};
pub use clients::ClientRow;
pub use effects::{Effects, LinkChange, LinkId, Order, PeerIndex, Protocol, Transport};
pub use frame::{
    Announce, Carry, ClockDifference, Decoded, Farewell, FarewellReason, Frame, Hello, NO_CHANNEL, Register,
    Shortfall, Standing, Verdict, WireError, decode, is_greeting,
};
pub use heartbeat::{Companion, Evidence, HEARTBEAT_BYTES, Heartbeat, Nonce};
pub use knowledge::{Comparison, Knowledge, Knows, Part, REIGNS_TOLD_MAX};
pub use link_map::LinkMap;
pub use load::{LevelStatus, LevelStatuses, OperatorStatus, OperatorStatuses};
pub use message::{
    MARK_BYTES, Mark, MarkKind, Marks, Message, MessageFlags, MessageKind, Messages, end_trailer, trailer,
};
pub use outbox::Outbox;
pub use posting::{Origin, Posting, Routed};
pub use proxy::{ProxyKind, Tunnel, TunnelError, TunnelRefused, Tunnelling};
pub use secret::Secret;
pub use status::{Concern, Counters, NodeStatus, StoreState, StreamStatus, StreamStatuses, TopicState};

/// The version of everything in this crate. Two ends with different versions part with a clear word.
pub const PROTOCOL_VERSION: u16 = 9;
