//! Who takes part.

use contract::{Location, RingId};
use std::fmt;

/// One life of a peer. Its identifier stays when it begins anew, and its life is a later one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PeerId {
    /// Where it is on the ring.
    pub ring: RingId,
    /// When it began, in nanoseconds since the Unix epoch by its own clock.
    pub life: u64,
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ring)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ring, self.life)
    }
}

/// A peer as others know it.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Which.
    pub id: PeerId,
    /// Its name.
    pub name: String,
    /// Where it is reached: host and port.
    pub address: String,
    /// Where it is.
    pub location: Location,
}
