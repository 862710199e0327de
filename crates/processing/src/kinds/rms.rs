//! The root of the mean square of a window of readings.

use super::setup::AS;
use super::window::{self, SPAN, WINDOW};
use crate::operator::Kind;

/// `rms`.
pub const RMS: Kind = Kind {
    name: "rms",
    doc: "The root of the mean square of the last readings: the strength of a vibration.",
    inputs: (1, usize::MAX),
    parameters: &[WINDOW, SPAN, AS],
    build: |setup| window::build(RMS.name, setup, |partial| (partial.squares / partial.count).sqrt()),
};
