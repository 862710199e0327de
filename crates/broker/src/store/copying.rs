//! How far the lazy copies of one stream are; see [`crate::steps::lazy`].

use contract::{Ticket, Time};

/// What is to be done about a stream's copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    /// The mark with which it is in the heap; [`UNARMED`] while it is not. No `Option`, see [`crate::store::table::Stream`].
    pub(crate) armed: u64,
    /// The latest time that any of its marks is due, while it is in the heap.
    pub(crate) latest: Time,
    /// Rounds go on from this ticket.
    pub(crate) looked: Ticket,
}

/// No ticket.
pub(crate) const UNARMED: u64 = u64::MAX;

impl Default for Copying {
    fn default() -> Copying {
        Copying { armed: UNARMED, latest: Time::ZERO, looked: Ticket(0) }
    }
}
