//! Who has lied, as far as this node can tell for certain while at most `f` are faulty.
//!
//! 1. A peer that passes on something else than what this node itself has said.
//! 2. A peer about whose words more than `f` others pass on something else than what it told this node: at least one of them is
//!    correct, so it told two nodes two things.
//! 3. A peer whose word about more than `f` others is not what was agreed on: if it were correct, all of those would be faulty.
//!
//! Silence is never a lie: a frame may just be late. A liar that is found nowhere is one that could as well have been lied to.

use crate::job::Slot;
use crate::resolve::same;
use crate::{Layout, Node, NodeSet};
use contract::Mutant;

/// What a job has heard before it was resolved, and after.
#[derive(Clone, Copy)]
pub(crate) struct Heard<'a> {
    pub(crate) me: Node,
    pub(crate) faults: usize,
    /// Whose frame of round 1 came.
    pub(crate) in_first_round: NodeSet,
    /// Level 1 and level 2 as heard.
    pub(crate) first: &'a [Slot],
    pub(crate) second: &'a [Slot],
    /// Level 1 as resolved.
    pub(crate) vector: &'a [Slot],
    pub(crate) arena: &'a [u8],
}

impl Heard<'_> {
    /// Those that have certainly lied. Without a second round there is nothing to compare.
    pub(crate) fn liars(&self, layout: &Layout) -> NodeSet {
        let everybody = NodeSet::all(layout.nodes());
        let peers = everybody.without([self.me].into_iter().collect());
        peers.iter().filter(|&peer| self.lied(layout, everybody, peer)).collect()
    }

    fn lied(&self, layout: &Layout, everybody: NodeSet, peer: Node) -> bool {
        // What `relayer` says that `source` said, if it says anything.
        let word = |source: Node, relayer: Node| {
            let word = self.second[layout.child(1, source.index(), relayer)];
            (!word.is_nothing() || Mutant::CallSilenceLies.is_on()).then_some(word)
        };
        let differs = |word: Option<Slot>, from: Slot| word.is_some_and(|word| !same(self.arena, word, from));
        let but = |node| everybody.without([node].into_iter().collect());
        let misquotes_me = differs(word(self.me, peer), self.first[self.me.index()]);
        let told_me = self.first[peer.index()];
        let others = but(peer).without([self.me].into_iter().collect());
        let told_otherwise = others.iter().filter(|&other| differs(word(peer, other), told_me)).count();
        let alone = but(peer)
            .iter()
            .filter(|&source| differs(word(source, peer), self.vector[source.index()]))
            .count();
        misquotes_me
            || (self.in_first_round.contains(peer) && told_otherwise > self.faults)
            || alone > self.faults
    }
}
