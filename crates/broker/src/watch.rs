//! What is counted and told: accounts, events, alarms, status.

pub(crate) mod accounts;
pub(crate) mod alarms;
pub(crate) mod classes;
pub(crate) mod clocks;
pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod latencies;
pub(crate) mod silence;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod throttle;
