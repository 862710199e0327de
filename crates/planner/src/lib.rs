#![doc = include_str!("../README.md")]

mod check;
mod crossing;
mod host;
mod keeping;
pub mod memory;
pub mod names;
pub mod picture;
mod rehearsal;
mod settings;
mod study;

pub use check::{Check, Operators, Topic, admit, check};
pub use crossing::{Crossing, CrossingTopic, Part, crossing};
pub use host::{Cost, Host, Measure};
pub use keeping::{Keeping, KeptFamily, keeping};
pub use rehearsal::{Answer, Refused, Rehearsal};
pub use settings::{Identity, USUAL_PRIORITY, settings, staffing, supply};
pub use study::{GraphRow, LevelRow, OperatorRow, OutputRow, SourceRow, Studied, Study, UnderWay};

use std::fmt;

/// Why nothing can be said, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}
