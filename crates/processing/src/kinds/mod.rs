//! The kinds of operators that come with the product, one file each.

mod aes;
mod average;
mod concat;
mod deadband;
mod ekf;
mod fft;
mod format;
mod join;
mod max;
mod min;
mod resample;
mod rms;
mod rule;
mod scale;
mod setup;
mod sparkplug;
#[cfg(test)]
mod testing;
mod threshold;
mod window;

pub use ekf::{READINGS_MAX as EKF_READINGS_MAX, STATES_MAX as EKF_STATES_MAX};
pub use fft::FRAME_MAX;
pub use resample::GRID_NUMBERS_MAX;
pub use window::READINGS_MAX;

use crate::operator::{Built, Kind, ParameterDoc, Setup, SetupError};

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
    format::FORMAT,
    fft::FFT,
    ekf::EKF,
    aes::AES,
    sparkplug::SPARKPLUG,
    rule::RULE,
];

/// The reference of all kinds, as Markdown: `docs/operators.md`.
pub fn reference() -> String {
    let mut text = String::from(
        "# Operators\n\n\
         What a graph of operators may be made of. A payload has a type: `bytes`, an array of `i16`, `i32`, `f32` or `f64`\n\
         (little-endian), `text` (a number as a person writes it, or several with blanks, commas or semicolons between), or a document with a\n\
         number or a list of numbers at a path: `json:motor.rpm`, `json:axes[0].load`, `cbor:axes.0.load` (`json` and `cbor` alone: the\n\
         document itself). A key with a point or a bracket in it has quotes: `json:air.\"PM2.5\"`. In JSON a number may stand in a text.\n\
         All numbers of a payload are one reading. NaN and infinities are no\n\
         numbers: a payload that has one is refused, as is one that is too short or not what its type says. The run then\n\
         fails and its inputs are gone, but what the operator remembers stays as it was.\n\n\
         What an operator remembers (a window, the last value, whether an alarm is raised) survives a failover: its results are those of a run\n\
         without one, bit for bit, where no message that it is made of is lost (`loss = 0`). For that, a copy goes to the backup every\n\
         `processing.snapshots` while something comes; see `docs/survival.md`.\n\n\
         Parameters may be left out unless they are required. Those that a kind does not have are refused.\n\n\
         This page is made from the table of kinds; a test keeps it true.\n",
    );
    for kind in KINDS {
        text.push_str(&format!("\n## `{}`\n\n{} It takes {}.\n", kind.name, kind.doc, inputs(kind)));
        if kind.parameters.is_empty() {
            text.push_str("\nIt has no parameters.\n");
            continue;
        }
        text.push_str("\n| parameter | takes | meaning |\n|---|---|---|\n");
        for ParameterDoc { name, values, doc } in kind.parameters {
            text.push_str(&format!("| `{name}` | {values} | {doc} |\n"));
        }
    }
    text
}

/// How many inputs a kind takes, in words.
fn inputs(kind: &Kind) -> String {
    match kind.inputs {
        (1, 1) => "one input".to_owned(),
        (least, usize::MAX) => format!("{least} or more inputs"),
        (least, most) if least == most => format!("{least} inputs"),
        (least, most) => format!("{least} to {most} inputs"),
    }
}

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
        let wanted = inputs(found);
        return Err(SetupError::Inputs { kind: kind.to_owned(), wanted, given: setup.inputs.len() });
    }
    (found.build)(setup)
}

#[cfg(test)]
mod tests {
    use super::testing::{OneOperator, text};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_nobody_knows_is_refused_with_what_is_known() {
        let refused = OneOperator::refused("avarage", &["f64"], &[]);
        assert!(
            refused.starts_with("there is no operator of kind `avarage`: there are scale, average, "),
            "{refused}"
        );
        let refused = OneOperator::refused("scale", &["f64"], &[("gian", text("1"))]);
        assert_eq!(refused, "`gian` is no parameter of `scale`: it has from, to, gain, offset, as");
        let refused = OneOperator::refused("scale", &["f64", "f64"], &[]);
        assert_eq!(refused, "`scale` takes one input, and it is given 2");
        assert_eq!(
            OneOperator::refused("join", &[], &[]),
            "`join` takes 1 or more inputs, and it is given 0"
        );
        let deep = format!("json:{}", "a.".repeat(16) + "a");
        assert!(OneOperator::refused("scale", &[&deep], &[]).contains("a path of at most 16 parts"));
    }

    #[test]
    fn names_are_unique_and_everything_is_described() {
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
        for kind in KINDS {
            let names: BTreeSet<&str> = kind.parameters.iter().map(|parameter| parameter.name).collect();
            assert_eq!(names.len(), kind.parameters.len(), "{}", kind.name);
            assert!(kind.doc.ends_with('.') && !kind.doc.contains("  "), "{}", kind.name);
            for parameter in kind.parameters {
                let described = [parameter.values, parameter.doc];
                assert!(
                    described.iter().all(|text| !text.is_empty() && !text.contains(['|', '\n'])),
                    "{}",
                    parameter.name
                );
            }
        }
    }
}
