#![doc = include_str!("../README.md")]

mod clients;
mod greet;
mod links;
mod mischief;
mod node;
mod pulse;
mod report;
pub mod secrets;
mod settings;
mod status;
mod watch;
mod wires;

pub use node::{Node, NodeError, Opened, Reporter};
pub use settings::{Journal, LaneSettings, NodeAddress, NodeSettings};
