#![doc = include_str!("../README.md")]

mod c;
mod client;
mod error;
mod key;
mod number;
mod realtime;
mod task;

pub use client::{Client, Options, Reader, Value, Vector};
pub use contract::{Span, Time};
pub use error::Error;
pub use key::Key;
pub use kv::Format;
pub use kv::Node;
pub use kv_shared::clock::now;
pub use kv_shared::{Gone, LaneFacts, ReadError, Said, State, WriteError};
pub use number::{NUMBER_BYTES_MAX, Number, Stamped};
pub use realtime::realtime;
pub use task::{Context, Releases, Report};
