//! Noticing that nodes have come to publish different things.
//!
//! With at most `f` faulty nodes that cannot happen. With more it can, and nobody would notice: each node reads its own store. So
//! every frame carries 64 bits of a hash of its sender's store, as it was after the job before. Up to `f` peers with another digest
//! are faulty themselves, or lie about it; with more, the assumption has failed, or this node is the faulty one. Where nodes only stop, nobody
//! is faulty and speaks: there a node is alarmed as well that is not with the greater part.
//!
//! Only stores that lack nothing are compared; a node that has missed something says so.

use crate::{Mode, NodeSet, Setup};

/// How the store of this node compares with those of its peers, as they were after the job before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// Who has the same.
    pub agree: NodeSet,
    /// Who has something else, or says so.
    pub differ: NodeSet,
}

impl Comparison {
    /// Whether more nodes differ than may be faulty: the store can no longer be trusted.
    pub fn is_alarming(&self, setup: &Setup) -> bool {
        let bearable = match setup.mode() {
            Mode::Byzantine => setup.faults(),
            Mode::Crash => setup.faults().min(self.agree.len()),
        };
        self.differ.len() > bearable
    }
}

/// The first eight bytes of a hash.
pub(crate) fn first_word(hash: &blake3::Hash) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}
