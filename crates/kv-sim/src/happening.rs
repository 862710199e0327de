//! What can be on the agenda.

use contract::Time;
use simulation::network::Passing;

/// A node's part in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) lane: usize,
    pub(crate) node: usize,
}

/// Something that is going to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// Something happens to a connection.
    Passing(Passing),
    /// A sender connects again.
    Redial { at: Place, to: usize },
    /// A task runs in the period of this number.
    Task { at: Place, task: usize, period: u64 },
    /// The lane's thread wakes up for a job.
    Release { at: Place, life: u32, release: Time },
    /// The lane's thread has waited long enough, or frames have come.
    Turn { at: Place, life: u32, ticket: u32 },
    /// The lane's thread has fused and publishes.
    Finish { at: Place, life: u32 },
    /// A reader looks at everything.
    Look { at: Place },
    /// A node's process ends.
    Crash { node: usize },
    /// It is started again.
    Restart { node: usize },
}
