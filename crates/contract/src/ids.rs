//! Numbers that name brokers and their reigns.

use std::fmt;

/// The number of the reign of a primary. It grows by one at each promotion; the highest epoch wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Before any primary has reigned.
    pub const NONE: Epoch = Epoch(0);

    /// The epoch of the next promotion.
    pub fn next(self) -> Epoch {
        Epoch(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One life of one broker process. A restarted broker has lost its memory, so it is another node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Who reigns, and since which promotion. The order is total: two brokers that were cut off from each other and took
/// the same epoch are told apart by their node, so everybody who sees both picks the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Reign {
    /// The number of the promotion.
    pub epoch: Epoch,
    /// The broker that was promoted.
    pub node: NodeId,
}

/// A message that a broker has given to operators, in the broker's own words. It comes back when they are done with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Receipt {
    /// Its stream there.
    pub stream: u32,
    /// Its ticket in the stream.
    pub ticket: u32,
    /// How often the broker had taken messages back from operators before; what was taken back does not count.
    pub round: u32,
}
