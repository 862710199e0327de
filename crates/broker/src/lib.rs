#![doc = include_str!("../README.md")]

mod arrive;
mod bitset;
mod broker;
mod events;
mod housekeeping;
mod lazy;
mod links;
mod pair;
mod posting;
mod process;
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
pub use posting::{Origin, Posted, Posting, Route, Routed, Unposted, without_contract};
pub use process::{Outcome, Processed, Processing};
pub use settings::{Detection, Limits, Policy, Replication, Settings, TopicRule};
pub use status::Survey;
