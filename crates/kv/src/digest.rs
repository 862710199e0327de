//! Noticing that nodes have come to publish different things (section 8, 1).
//!
//! With at most `f` faulty nodes that cannot happen. With more it can, and nobody would notice: each node reads its own store. So
//! every frame carries 64 bits of a hash of what its sender published in the job before. Up to `f` peers with another digest
//! are faulty themselves, or lie about it; with more, the assumption has failed, or this node is the faulty one.

use crate::NodeSet;

/// How what this node published in the job before compares with what its peers did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// Who published the same.
    pub agree: NodeSet,
    /// Who published something else, or says so.
    pub differ: NodeSet,
}

impl Comparison {
    /// Whether more nodes differ than may be faulty: the store can no longer be trusted.
    pub fn is_alarming(&self, faults: usize) -> bool {
        self.differ.len() > faults
    }
}

/// The first eight bytes of a hash.
pub(crate) fn first_word(hash: &blake3::Hash) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}
