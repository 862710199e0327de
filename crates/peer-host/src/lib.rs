#![doc = include_str!("../README.md")]

mod greeting;
mod links;
mod peer;
mod programs;
mod report;
mod secure;
mod shelf;
mod work;

pub use peer::{Journal, Settings, run};
pub use report::{MemberReport, PeerReport, RegionReport};
pub use work::{Duty, Work};
