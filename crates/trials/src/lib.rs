#![doc = include_str!("../README.md")]

pub mod beyond;
pub mod costing;
pub mod deployment;
pub mod faults;
pub mod hosts;
pub mod length;
pub mod picture;
pub mod report;
pub mod runs;
pub mod script;
pub mod tally;
mod trial;

pub use costing::{Costing, TrueCosts};
pub use deployment::Deployment;
pub use report::Report;
pub use trial::{Trial, check_periods};
