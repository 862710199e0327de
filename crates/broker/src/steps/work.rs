//! What is under way, and what it goes through.

use crate::settings::Settings;
use crate::steps::departures::Departures;
use crate::steps::finished::Finished;
use crate::steps::last::Last;
use crate::steps::lazy::LazyCopies;
use crate::steps::share::Part;
use crate::store::Store;
use crate::store::ids::SessionId;
use crate::store::queue::Queue;
use crate::store::sessions::Deferred;
use crate::watch::status::Stats;

/// What every message goes through. These lie side by side, so that the steps reach them from one place: three cost every message
/// several instructions more.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) store: Store,
    pub(crate) work: Work,
    pub(crate) stats: Stats,
}

impl Flow {
    /// Nothing has come yet.
    pub(crate) fn new(settings: &Settings) -> Flow {
        Flow { store: Store::default(), work: Work::new(settings), stats: Stats::new(settings) }
    }
}

/// What is still to be done with messages, and what was done in this turn.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) queue: Queue,
    pub(crate) lazy: LazyCopies,
    pub(crate) finished: Finished,
    /// What was dispatched in this turn, whose bytes have not left.
    pub(crate) departures: Departures,
    /// What was dropped for a subscriber while a message was dispatched; empty otherwise.
    pub(crate) dropped: Vec<(SessionId, Deferred)>,
    /// Whose turn it is among those who are served last.
    pub(crate) last: Last,
    /// What may wait for each subscriber.
    pub(crate) part: Part,
    /// Grows whenever messages are taken back from operators.
    pub(crate) round: u32,
    /// The poll that was last sent before the latest message was forwarded. The answer to a later one says that the
    /// primary has everything that was.
    pub(crate) forwarded_after_poll: Option<u64>,
    /// Every message takes the way of those that are not plain.
    #[cfg(test)]
    pub(crate) nothing_is_plain: bool,
}

impl Work {
    /// There is nothing to do yet.
    pub(crate) fn new(settings: &Settings) -> Work {
        Work {
            queue: Queue::new(settings.limits.jobs),
            lazy: LazyCopies::new(settings.replication),
            finished: Finished::new(),
            departures: Departures::default(),
            dropped: Vec::new(),
            last: Last::default(),
            part: Part::new(&settings.limits),
            round: 0,
            forwarded_after_poll: None,
            #[cfg(test)]
            nothing_is_plain: false,
        }
    }
}
