//! The mean of a window of readings.

use super::setup::AS;
use super::window::{self, SPAN, WINDOW};
use crate::operator::Kind;

/// `average`.
pub const AVERAGE: Kind = Kind {
    name: "average",
    doc: "The mean of the last readings.",
    inputs: (1, usize::MAX),
    parameters: &[WINDOW, SPAN, AS],
    build: |setup| window::build(AVERAGE.name, setup, |partial| partial.sum / partial.count),
};
