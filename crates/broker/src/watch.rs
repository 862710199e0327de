//! What is counted and told: accounts, events, alarms, status.

use crate::settings::Settings;
use crate::watch::silence::Silences;
use crate::watch::status::Stats;
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

/// What a broker has counted since its process started.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) stats: Stats,
    /// Streams that say nothing any more.
    pub(crate) silences: Silences,
}

impl Watch {
    /// Nothing has been counted yet.
    pub(crate) fn new(settings: &Settings) -> Watch {
        Watch { stats: Stats::new(settings), silences: Silences::default() }
    }
}
