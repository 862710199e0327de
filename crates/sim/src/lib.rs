#![doc = include_str!("../README.md")]

mod checkers;
mod clients;
mod describe;
mod device;
mod devices;
mod faults;
mod happening;
mod heart;
mod ledger;
pub mod model;
mod network;
mod node;
mod operators;
mod port;
mod report;
mod run;
mod scenario;
mod scene;
mod shrink;
mod story;
mod turn;
mod weather;
mod world;

pub use checkers::{CHECKERS, Counts, Violation, is_demanded};
pub use ledger::Journeys;
pub use report::{Findings, Sample, StreamFinding};
pub use run::Outcome;
pub use scenario::{
    Act, ClockError, DeviceSpec, DeviceTopic, Fault, LastWrites, Pace, PublisherSpec, Scenario,
    SubscriberSpec, Target, TopicSpec, When,
};
pub use shrink::shrink;
pub use simulation::Latency;
pub use story::StoryLine;
pub use weather::{Weather, scenario_of};
pub use world::World;

/// The shortest payload: it says which message it is.
pub const PAYLOAD_BYTES_MIN: usize = scene::PAYLOAD_HEAD;
