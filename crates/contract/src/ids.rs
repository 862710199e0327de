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

/// The first number that a broker gives the messages of a stream in a reign of this epoch. Who publishes by another protocol gives none, and
/// nobody knows in a reign which were the last of the one before. No publisher that numbers its messages itself comes so far.
pub const fn first_of_reign(epoch: Epoch) -> u64 {
    epoch.0 << NUMBERS_PER_REIGN
}

/// The first of the numbers after `next` that this number says to be missing, if `next` was expected: those of reigns before were never
/// given. `seq` itself, if there are none.
pub const fn first_missing(next: u64, seq: u64) -> u64 {
    let first = seq >> NUMBERS_PER_REIGN << NUMBERS_PER_REIGN;
    if first > next { first } else { next }
}

const NUMBERS_PER_REIGN: u32 = 40;

/// A stream, by its place in a broker's table. On connections streams have numbers of their own, which mean something there alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u32);

impl StreamId {
    /// As an index.
    #[inline(always)]
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// A message of a stream, by how many were pushed into its ring before it. It goes round after 2^32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ticket(pub u32);

impl Ticket {
    /// So many messages later.
    #[inline(always)]
    pub fn after(self, messages: u32) -> Ticket {
        Ticket(self.0.wrapping_add(messages))
    }

    /// So many messages earlier.
    #[inline(always)]
    pub fn before(self, messages: u32) -> Ticket {
        Ticket(self.0.wrapping_sub(messages))
    }

    /// How many messages there are from an earlier one to this.
    #[inline(always)]
    pub fn since(self, earlier: Ticket) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// A message that a broker has given to operators, in the broker's own words. It comes back when they are done with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Receipt {
    /// Its stream there.
    pub stream: StreamId,
    /// Its ticket in the stream.
    pub ticket: Ticket,
    /// How often the broker had taken messages back from operators before; what was taken back does not count.
    pub round: u32,
}
