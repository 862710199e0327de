//! The tree of an agreement, laid out flat (I6, I7).
//!
//! A label is a list of different nodes: `[m, j]` stands for "j said that m said". Level `l` holds the labels of length `l` in
//! `n^l` slots; the child of slot `m` of level `l` by relayer `j` is slot `j·n^l + m` of level `l + 1`. So all that one node
//! says in one round lands in one block, in the order of its labels. Slots whose label names a node twice stay unused:
//! they cost 8 bytes each, and make every place a multiplication.

use crate::{Node, NodeSet};

/// Which labels there are, computed once.
#[derive(Debug)]
pub struct Layout {
    nodes: usize,
    levels: Vec<Level>,
    /// For each round and sender, the labels of the level above that it speaks about.
    said: Vec<Box<[u32]>>,
}

#[derive(Debug)]
struct Level {
    /// `n^l`.
    slots: usize,
    /// The valid labels in ascending order, and who is named in each.
    labels: Box<[(u32, NodeSet)]>,
}

impl Layout {
    /// Most slots of one level. 10 nodes with 3 faults have 10^4, 13 with 4 have 371 293.
    pub const SLOTS_MAX: usize = 1 << 20;

    /// The slots of the deepest level for so many nodes and rounds: `n^R`; `None` above `u128`.
    pub fn deepest_slots(nodes: usize, rounds: usize) -> Option<u128> {
        (nodes as u128).checked_pow(u32::try_from(rounds).ok()?)
    }

    /// `V_ρ = (n−1)!/(n−ρ)!`: how many batches a message of round `ρ` carries; saturates.
    pub fn batches_per_message(nodes: usize, round: usize) -> u64 {
        (1..round).map(|l| (nodes - l) as u64).fold(1, u64::saturating_mul)
    }

    /// The layout for so many nodes and rounds.
    ///
    /// # Panics
    /// If there are fewer nodes than rounds, or more slots than [`Layout::SLOTS_MAX`]: `Setup` has refused that before.
    pub fn new(nodes: usize, rounds: usize) -> Layout {
        assert!(rounds >= 1 && rounds <= nodes && nodes <= crate::NODES_MAX, "invariant: refused by Setup");
        let slots = Layout::deepest_slots(nodes, rounds);
        assert!(slots.is_some_and(|slots| slots <= Layout::SLOTS_MAX as u128), "invariant: refused by Setup");
        let mut levels = vec![Level { slots: 1, labels: Box::new([(0, NodeSet::EMPTY)]) }];
        let mut said = Vec::new();
        for l in 0..rounds {
            let above = &levels[l];
            let mut labels = Vec::new();
            for j in 0..nodes {
                let j = Node::at(j);
                let tells: Box<[u32]> =
                    above.labels.iter().filter(|(_, named)| !named.contains(j)).map(|(m, _)| *m).collect();
                for &(m, mut named) in above.labels.iter().filter(|(_, named)| !named.contains(j)) {
                    named.insert(j);
                    labels.push((j.index() as u32 * above.slots as u32 + m, named));
                }
                said.push(tells);
            }
            let slots = above.slots * nodes;
            levels.push(Level { slots, labels: labels.into() });
        }
        Layout { nodes, levels, said }
    }

    /// `n`.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// `R`.
    pub fn rounds(&self) -> usize {
        self.levels.len() - 1
    }

    /// The slots of a level, `n^l`.
    #[inline]
    pub fn slots(&self, level: usize) -> usize {
        self.levels[level].slots
    }

    /// The labels of a level in ascending order, each with the nodes that it names.
    pub fn labels(&self, level: usize) -> &[(u32, NodeSet)] {
        &self.levels[level].labels
    }

    /// What `sender` speaks about in `round` (from 1): slots of level `round − 1` whose label lacks it, in ascending order.
    /// It is the same for every receiver.
    #[inline]
    pub fn said(&self, round: usize, sender: Node) -> &[u32] {
        &self.said[(round - 1) * self.nodes + sender.index()]
    }

    /// The slot for what relayer `j` says about slot `m` of `level`; it is one level further down.
    #[inline]
    pub fn child(&self, level: usize, m: usize, j: Node) -> usize {
        j.index() * self.levels[level].slots + m
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e6_what_node_2_says_lands_in_slots_8_9_and_11() {
        let layout = Layout::new(4, 2);
        let slots: Vec<usize> =
            layout.said(2, Node(2)).iter().map(|&m| layout.child(1, m as usize, Node(2))).collect();
        assert_eq!(slots, [8, 9, 11]);
        assert!(!layout.labels(2).iter().any(|(slot, _)| *slot == 10), "[2,2] is no label");
        assert_eq!(layout.slots(1), 4);
    }

    #[test]
    fn i6_levels_messages_and_batches_are_as_counted() {
        for (n, f, levels, messages, count, batches) in [
            (4, 1, &[1, 4, 12][..], &[1, 3][..], 24, 48),
            (7, 2, &[1, 7, 42, 210], &[1, 6, 30], 126, 1_554),
            (10, 3, &[1, 10, 90, 720, 5_040], &[1, 9, 72, 504], 360, 52_740),
        ] {
            let layout = Layout::new(n, f + 1);
            let by_level: Vec<usize> = (0..=f + 1).map(|l| layout.labels(l).len()).collect();
            assert_eq!(by_level, levels);
            let said: Vec<u64> = (1..=f + 1).map(|round| layout.said(round, Node(1)).len() as u64).collect();
            assert_eq!(said, messages);
            let computed: Vec<u64> = (1..=f + 1).map(|round| Layout::batches_per_message(n, round)).collect();
            assert_eq!(computed, messages);
            let pairs = (n * (n - 1)) as u64;
            assert_eq!((layout.rounds() as u64 * pairs, pairs * said.iter().sum::<u64>()), (count, batches));
        }
    }
}
