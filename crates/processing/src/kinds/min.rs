//! The smallest of a window of readings.

use super::setup::AS;
use super::window::{self, SPAN, WINDOW};
use crate::operator::Kind;

/// `min`.
pub const MIN: Kind = Kind {
    name: "min",
    doc: "The smallest number of the last readings.",
    inputs: (1, usize::MAX),
    parameters: &[WINDOW, SPAN, AS],
    build: |setup| window::build(MIN.name, setup, |partial| partial.min),
};
