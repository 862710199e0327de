//! The kinds of operators that come with the product, one file each.

mod aes;
mod average;
mod concat;
mod deadband;
mod ekf;
mod fft;
mod join;
mod max;
mod min;
mod resample;
mod rms;
mod scale;
mod setup;
#[cfg(test)]
mod testing;
mod threshold;
mod window;

pub use ekf::{READINGS_MAX as EKF_READINGS_MAX, STATES_MAX as EKF_STATES_MAX};
pub use fft::FRAME_MAX;
pub use resample::GRID_NUMBERS_MAX;
pub use window::READINGS_MAX;

use crate::operator::{Built, Kind, Setup, SetupError};

/// All kinds. To add one, write its file and its line here.
pub const KINDS: &[Kind] = &[
    scale::SCALE,
    average::AVERAGE,
    min::MIN,
    max::MAX,
    rms::RMS,
    threshold::THRESHOLD,
    deadband::DEADBAND,
    resample::RESAMPLE,
    join::JOIN,
    concat::CONCAT,
    fft::FFT,
    ekf::EKF,
    aes::AES,
];

/// Sets up an operator of a kind, by name.
pub fn build(kind: &str, setup: &Setup<'_>) -> Result<Built, SetupError> {
    let listed = |names: Vec<&str>| names.join(", ");
    let Some(found) = KINDS.iter().find(|known| known.name == kind) else {
        let known = listed(KINDS.iter().map(|known| known.name).collect());
        return Err(SetupError::Kind { kind: kind.to_owned(), known });
    };
    let knows = |name: &str| found.parameters.iter().any(|parameter| parameter.name == name);
    if let Some(name) = setup.parameters.keys().find(|name| !knows(name)) {
        let known = listed(found.parameters.iter().map(|parameter| parameter.name).collect());
        return Err(SetupError::Unknown { name: name.clone(), kind: kind.to_owned(), known });
    }
    let (least, most) = found.inputs;
    if !(least..=most).contains(&setup.inputs.len()) {
        let wanted = match (least, most) {
            (1, 1) => "one input".to_owned(),
            (least, usize::MAX) => format!("{least} or more inputs"),
            (least, most) if least == most => format!("{least} inputs"),
            (least, most) => format!("{least} to {most} inputs"),
        };
        return Err(SetupError::Inputs { kind: kind.to_owned(), wanted, given: setup.inputs.len() });
    }
    (found.build)(setup)
}
