#![doc = include_str!("../README.md")]

mod allocator;
pub mod broker;
pub mod client;
mod facts;
pub mod kv;
mod log;
mod losses;
pub mod measure;
pub mod peer;
pub mod profile;
pub mod signals;
pub mod status;
pub mod talk;
mod tree;
mod trouble;
pub mod users;

pub use facts::facts;
pub use tree::{drain_router, read_tree};
pub use trouble::{Trouble, complain};

/// What a process exits with that is cut short, or in trouble.
pub const EXIT_TROUBLE: u8 = 2;
