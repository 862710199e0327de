//! `verge kv demo`: two pendulums on carts, one beside the other, each balanced by four replicas of the same controller. Those of
//! one keep what they know in the store, those of the other keep it to themselves. One host becomes a liar, then honest again; then
//! its node is killed, and started again.
//!
//! Nodes are processes, replicas are applications in real time, the pendulums are simulated as fast as real ones fall.

mod actuator;
mod cluster;
mod controller;
mod picture;
mod plant;
mod replica;
mod report;
mod run;
mod script;
mod stand;

pub use actuator::Without;

use crate::crash::Folder;
use clap::Args;
use console::Format;
use console::{Outcome, Trouble, json, yes};
use contract::Span;
use controller::{FORCE_MAX, Memory};
use std::path::PathBuf;

/// What is typed.
#[derive(Args, Debug)]
pub struct KvDemoArguments {
    /// How long it runs.
    #[arg(long, default_value_t = 18, value_name = "SECONDS")]
    pub seconds: u32,
    /// The period of controllers and store, 20ms to 100ms.
    #[arg(long, default_value = "50ms", value_name = "SPAN")]
    pub period: Span,
    /// Draw the angles into this file.
    #[arg(long, default_value = "target/demo/pendulum.svg", value_name = "FILE")]
    pub out: PathBuf,
    /// Without the store: what the actuator makes of the forces of four replicas.
    #[arg(long, value_enum, default_value_t = Without::Mean)]
    pub without: Without,
    /// What makes the sensors' noise.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// The same as --format json.
    #[arg(long)]
    pub json: bool,
}

/// Replicas, each on a node of its own.
const REPLICAS: usize = 4;
const NAMES: [&str; REPLICAS] = ["a", "b", "c", "d"];
/// The one that lies, and whose node is killed later.
const LIAR: usize = 3;
/// How many may be faulty at once.
const FAULTS: usize = 1;

/// Measured by each replica: the median counts.
const MEASURED: [&str; 4] = ["position", "speed", "angle", "rate"];
/// Computed by each replica, from the same: what most say counts.
const REMEMBERED: [&str; Memory::FLOATS] = [
    "expected/position",
    "expected/speed",
    "expected/angle",
    "expected/rate",
    "surprise/position",
    "surprise/speed",
    "surprise/angle",
    "surprise/rate",
    "spread/position",
    "spread/speed",
    "spread/angle",
    "spread/rate",
    "force",
    "integral",
    "target",
];
/// How many values a replica reads and writes in each period, as In-ConcReTeS has it in its evaluation.
const FLOATS: usize = MEASURED.len() + REMEMBERED.len();

/// All keys: those of measurements, then those of memory.
fn keys() -> impl Iterator<Item = String> {
    let measured = MEASURED.iter().map(|name| format!("measured/{name}"));
    measured.chain(REMEMBERED.iter().map(|name| format!("memory/{name}")))
}

/// What the liar tells the actuator instead of a force: all that the motor has, the other way.
fn lie(force: f64) -> f64 {
    -FORCE_MAX.copysign(force)
}

/// Runs the demo.
pub fn run(arguments: &KvDemoArguments, format: Format) -> Outcome {
    if !(6..=600).contains(&arguments.seconds) {
        return Err(Trouble("the demo lasts 6 to 600 seconds".to_owned()));
    }
    if arguments.period < Span::millis(20) || arguments.period > Span::millis(100) {
        return Err(Trouble("a period of 20ms to 100ms balances the pendulum".to_owned()));
    }
    let folder = Folder::new("verge-kv-demo")?;
    let logs = NAMES.map(cluster::log_name);
    let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
    let report = run::perform(&folder, arguments).map_err(|trouble| folder.explain(&trouble, &logs))?;
    if arguments.json || format == Format::Json {
        json(&report)?;
    } else {
        report::show(&report)?;
    }
    Ok(yes(report.kept))
}
