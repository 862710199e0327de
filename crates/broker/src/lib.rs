#![doc = include_str!("../README.md")]

mod arrive;
mod bitset;
mod broker;
mod events;
mod housekeeping;
mod lazy;
mod links;
mod pair;
mod queue;
mod register;
mod reign;
mod ring;
mod run;
mod sessions;
mod settings;
mod standby;
mod status;
mod subscribe;
mod table;

pub use broker::{Broker, Occupancy, Outputs};
pub use events::{Event, Loneliness, PromotionCause};
pub use settings::{Detection, Limits, Policy, Replication, Settings, TopicRule};
