#![doc = include_str!("../README.md")]
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod aliases;
mod bodies;
pub mod gateway;
mod ids;
pub mod packet;
mod records;
pub mod retained;
mod session;
mod settings;
mod slab;
mod stats;
#[doc(hidden)]
pub mod testing;
pub mod tree;
mod unanswered;

pub use gateway::BrokerFigures;
pub use gateway::{Action, Admits, Buffers, Draft, Gateway, Login, Open, Post, Rules, Step, Trouble, Wish};
pub use ids::{GroupId, RouteId, SessionId};
pub use records::{Record, append_record, known, rank, records};
pub use settings::{Limits, References, Settings, Standby};
pub use stats::Stats;
