//! `verge sim`: a configuration's deployment, or many made up from seeds, on invented time.

pub(super) mod made_up;
mod own;
mod random;
pub mod report;
mod retyped;

use crate::arguments::Format;
use crate::arguments::sim::SimArguments;
use console::{Outcome, Trouble};
use std::path::Path;

/// How many runs there are unless something else is said.
const USUAL_RUNS: u64 = 100;

/// Runs what was asked for.
pub fn run(arguments: &SimArguments, config: Option<&Path>, set: &[String], format: Format) -> Outcome {
    let count = count_of(arguments.seeds, arguments.trace)?;
    if arguments.random {
        random::run(arguments, count, format)
    } else {
        own::run(arguments, arguments.file.as_deref().or(config), set, count, format)
    }
}

/// A story is told of one run only.
pub fn count_of(seeds: Option<u64>, trace: bool) -> Result<u64, Trouble> {
    match seeds {
        Some(count) if trace && count > 1 => Err(Trouble(format!(
            "--trace tells the story of one run, and --seeds {count} asks for more: leave out --seeds"
        ))),
        Some(count) => Ok(count),
        None if trace => Ok(1),
        None => Ok(USUAL_RUNS),
    }
}
