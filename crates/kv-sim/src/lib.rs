#![doc = include_str!("../README.md")]

mod checkers;
mod describe;
mod happening;
mod ledger;
mod liar;
mod network;
mod part;
mod report;
mod scenario;
mod shrink;
mod tasks;
mod turns;
mod weather;
mod world;

pub use checkers::{CHECKERS, Violation};
pub use report::{Findings, Outcome};
pub use scenario::{Act, Fault, KeyKind, KeySpec, Lie, Scenario, TaskSpec};
pub use shrink::shrink;
pub use weather::{Weather, scenario_of, with_a_liar_too_many, with_rounds_too_short};
pub use world::{play, play_aloud};

/// Plays the scenario of a seed to its end.
pub fn run(seed: u64, weather: Weather) -> Outcome {
    play(&scenario_of(seed, weather), seed)
}
