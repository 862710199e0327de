//! From what was heard to what was said (I8): the tree is resolved from its leaves up.
//!
//! For each label, the words of its relayers are counted. If the last node of the label is correct, it said the same to all, all
//! correct relayers pass that on, and they are enough. If it is not, the relayers' words may differ, but each of them has
//! been resolved to the same at all correct nodes, since a path of `f + 1` different nodes has a correct one in it.

use crate::job::Slot;
use crate::{Layout, Mode, NODES_MAX, Node, NodeSet, ResolveRule};
use contract::Mutant;

/// How words are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    pub(crate) mode: Mode,
    pub(crate) rule: ResolveRule,
    pub(crate) faults: usize,
}

/// Whether two batches are the same bytes. A checksum would not do: values that were changed are the very fault to mask.
#[inline]
pub(crate) fn same(arena: &[u8], one: Slot, other: Slot) -> bool {
    one == other || (one.len == other.len && one.bytes(arena) == other.bytes(arena))
}

/// Resolves all levels above the leaves in place; level 1 is the vector then.
pub(crate) fn resolve(counting: Counting, layout: &Layout, levels: &mut [Box<[Slot]>], arena: &[u8]) {
    for level in (1..layout.rounds()).rev() {
        let (above, below) = levels.split_at_mut(level + 1);
        for &(m, named) in layout.labels(level) {
            let m = m as usize;
            let mut words = [Slot::NOTHING; NODES_MAX];
            let mut count = 0;
            for j in NodeSet::all(layout.nodes()).without(named).iter() {
                words[count] = below[0][layout.child(level, m, j)];
                count += 1;
            }
            let slot = &mut above[level][m];
            *slot = match counting.mode {
                Mode::Byzantine if Mutant::BelieveOwnEars.is_on() => *slot,
                Mode::Byzantine => most_said(counting, &words[..count], arena),
                Mode::Crash => any(*slot, &words[..count]),
            };
        }
    }
}

/// What enough relayers say, or nothing. More than half are demanded in any case, so one pass finds the only candidate.
fn most_said(counting: Counting, words: &[Slot], arena: &[u8]) -> Slot {
    let (mut candidate, mut lead) = (Slot::NOTHING, 0_usize);
    for &word in words {
        if lead == 0 {
            candidate = word;
        }
        lead = if same(arena, candidate, word) { lead + 1 } else { lead - 1 };
    }
    let count = words.iter().filter(|&&word| same(arena, candidate, word)).count();
    let enough = match counting.rule {
        ResolveRule::Majority => 2 * count > words.len(),
        ResolveRule::AllButFaulty => 2 * count > words.len() && count + counting.faults >= words.len(),
    };
    if enough { candidate } else { Slot::NOTHING }
}

/// Nobody lies: whatever anybody has heard was said.
fn any(heard: Slot, words: &[Slot]) -> Slot {
    let mut all = std::iter::once(&heard).chain(words);
    all.find(|word| !word.is_nothing()).copied().unwrap_or(Slot::NOTHING)
}

/// One batch for each node, the same at all correct ones: the interactive consistency vector.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    pub(crate) slots: &'a [Slot],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Vector<'a> {
    /// The batch of a node; empty if it was silent, had nothing, or contradicted itself.
    pub fn batch(&self, node: Node) -> &'a [u8] {
        self.slots.get(node.index()).map_or(&[], |slot| slot.bytes(self.bytes))
    }

    /// All batches in the order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.slots.iter().map(|slot| slot.bytes(self.bytes))
    }
}
