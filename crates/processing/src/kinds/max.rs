//! The largest of a window of readings.

use super::setup::AS;
use super::window::{self, SPAN, WINDOW};
use crate::operator::Kind;

/// `max`.
pub const MAX: Kind = Kind {
    name: "max",
    doc: "The largest number of the last readings.",
    inputs: (1, usize::MAX),
    parameters: &[WINDOW, SPAN, AS],
    build: |setup| window::build(MAX.name, setup, |partial| partial.max),
};
