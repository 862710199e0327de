#![doc = include_str!("../README.md")]

mod agenda;
mod clock;
mod coordination;
mod latency;
mod machine;
mod mutants;
mod search;
mod seeds;
mod wires;

pub mod disk;
pub mod hash;
pub mod network;
pub mod peers;

pub use agenda::Agenda;
pub use clock::Clock;
pub use coordination::{Coordination, Ring};
pub use disk::Disk;
pub use latency::Latency;
pub use machine::Machine;
pub use mutants::unnoticed;
pub use search::Search;
pub use seeds::{seeds, wrong_in};
pub use wires::{Ended, Wires};
