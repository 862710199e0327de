//! What is counted and told: accounts, events, alarms, status.

use contract::Span;

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

/// The same trouble is told so often at most.
pub(crate) const TELL_EVERY: Span = Span::secs(60);

/// The operator hears of the same trouble of the same stream at most this often.
pub(crate) const COMPLAINT_INTERVAL: Span = Span::secs(60);
