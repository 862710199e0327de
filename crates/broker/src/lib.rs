#![doc = include_str!("../README.md")]

mod accounts;
mod alarms;
mod arrive;
mod bitset;
mod broker;
mod classes;
mod events;
mod facts;
mod housekeeping;
mod lazy;
mod links;
mod pair;
mod process;
mod queue;
mod register;
mod reign;
mod ring;
mod run;
mod sessions;
mod settings;
mod snapshot;
mod standby;
mod status;
mod subscribe;
mod table;
mod throttle;

pub use alarms::{Alarms, is_alarm};
pub use broker::{Broker, Occupancy, Outputs};
pub use classes::{ClassCounts, LATENCY_BUCKETS, OTHER_CLASS};
pub use events::{Event, Loneliness, PromotionCause};
pub use facts::{Fact, JsonObject, Severity, write_json};
pub use process::{Outcome, Processed, Processing};
pub use settings::{Detection, Limits, Policy, Replication, Settings, TopicRule};
pub use snapshot::Snapshot;
pub use status::Survey;
pub use throttle::{Throttle, Verdict, cause_of};
