#![doc = include_str!("../README.md")]

mod broker;
mod commands;
mod housekeeping;
mod membership;
mod outputs;
mod settings;
mod steps;
mod store;
mod watch;

pub use broker::{Broker, Occupancy};
pub use commands::counting::Unkept;
pub use commands::needs::Other;
pub use commands::rules::Changed;
pub use commands::sites::Others;
pub use commands::tasks::UNITS_PER_SLICE;
pub use membership::liveness::{Hearing, Liveness};
pub use membership::reign::Beginning;
pub use outputs::{
    Outputs, Processes, ProcessesNothing, Relays, RelaysNothing, Remembers, RemembersNothing, Reports,
    Routes, RoutesNowhere,
};
pub use settings::{Bound, Detection, Limits, Policy, Replication, Settings, TopicRule};
pub use steps::posting::{Posted, Route, Unposted};
pub use steps::process::{Outcome, Processed};
pub use store::results::Processing;
pub use watch::alarms::{Alarms, is_alarm};
pub use watch::classes::{ClassCounts, OTHER_CLASS};
pub use watch::events::{Event, FailureCause, LateCause, Loneliness, PromotionCause};
pub use watch::facts::{Fact, JsonObject, Severity, write_json};
pub use watch::snapshot::Snapshot;
pub use watch::status::{FAILING_MAX, Failing, OTHERS, Survey};
pub use watch::throttle::{Budget, Throttle, Verdict, cause_of};
pub use wire::LATENCY_BUCKETS;
