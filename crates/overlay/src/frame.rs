//! What peers say to each other. Who says it goes with each: the link knows.

use crate::election::{Side, Word};
use crate::tree::{Claim, Rank};
use crate::{Member, PeerId};
use contract::Location;

/// One thing said.
#[derive(Clone, PartialEq, Debug)]
pub enum Frame {
    /// Who are you, and who has which part of the area? Answered with [`Frame::Tree`] by whoever knows one.
    Discover,
    /// All claims that the sender knows to hold.
    Tree {
        /// The claims.
        claims: Vec<Claim>,
    },
    /// To a master: I belong to your region.
    Join {
        /// Where the sender is now. What the link knows of it may be older.
        location: Location,
    },
    /// From a master: these are all in the region, and you are one of them.
    Table {
        /// The claim under which it is so.
        reign: Rank,
        /// Its version.
        version: u64,
        /// All of them.
        members: Vec<Member>,
    },
    /// From a master: what is different from the version before.
    Changed {
        /// The claim under which it is so.
        reign: Rank,
        /// The version that it makes.
        version: u64,
        /// Who is new or has moved.
        put: Vec<Member>,
        /// Who is no longer in it.
        gone: Vec<PeerId>,
    },
    /// From a master that has as many members as it can: it will not be joined.
    Full,
    /// I am alive, and this is what I know.
    Alive {
        /// Of the table.
        reign: Rank,
        /// Of the table.
        version: u64,
        /// The digest of the tree.
        tree: u64,
        /// Whether the same is asked of the receiver.
        asks: bool,
    },
    /// To who says that it is a member, and is not: join again.
    Stranger,
    /// To the master: I go.
    Leave,
    /// Of an election to follow this reign: a word of the ring, which comes from a side of whoever hears it.
    Elect {
        /// The reign that is over.
        reign: Rank,
        /// On which side of the receiver the sender stands.
        from: Side,
        /// The word.
        word: Word,
    },
    /// To who wants to elect: the master of this reign is alive.
    Reigns {
        /// The reign that is not over.
        reign: Rank,
    },
    /// Of an election: are you there?
    Probe {
        /// The reign that is over.
        reign: Rank,
    },
    /// It is.
    Present {
        /// The reign that is over.
        reign: Rank,
    },
}
