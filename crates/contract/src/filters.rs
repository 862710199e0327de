//! Which filters mean a topic.
//!
//! The problem: a topic comes, and among a hundred thousand filters those that mean it are wanted within a microsecond. The
//! idea: a tree over the levels of filters. From each node a topic goes on to at most two children, the one with its next
//! level and the one for `+`. The time depends on the depth of the topic and on how many wildcards filters have, not on how
//! many filters there are; at worst, with filters made for it, every node is seen once.
//!
//! Invariant: every node but the root leads to something that somebody has put there. The order in which filters came does not
//! show in what comes out.
//!
//! The other way round, which topics a filter means, is in [`names`](crate::names).

mod node;
#[cfg(test)]
mod tests;

use crate::TOPIC_LEVELS_MAX;
use crate::looks;
use crate::topic::levels;
use node::{Level, Node};

/// What is kept for a filter.
pub trait Kept: Default {
    /// Whether nothing is left of it, so that its filter is forgotten.
    fn is_empty(&self) -> bool;
}

impl<T> Kept for Vec<T> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
}

impl<T: Ord> Kept for std::collections::BTreeSet<T> {
    fn is_empty(&self) -> bool {
        std::collections::BTreeSet::is_empty(self)
    }
}

/// Things by filter, found by topic. Filters are taken as they are: whoever inserts has checked them.
#[derive(Clone, Debug)]
pub struct Filters<T> {
    nodes: Nodes<T>,
    /// The numbers of nodes that are gone, given again, the latest first.
    free: Vec<u32>,
}

/// What a node takes, about: with its text, and with what allocators add.
pub(crate) const NODE_BYTES: usize = 256;

/// Nodes by number, in chunks: a tree that grows moves none of those that are there, however many they are.
#[derive(Clone, Debug)]
struct Nodes<T>(Vec<Vec<Option<Node<T>>>>);

/// Nodes of a chunk, as a power of two.
const CHUNK_BITS: u32 = 10;

impl<T> Nodes<T> {
    fn len(&self) -> usize {
        let before = self.0.len().saturating_sub(1) << CHUNK_BITS;
        before + self.0.last().map_or(0, Vec::len)
    }

    fn push(&mut self, node: Node<T>) {
        if self.0.last().is_none_or(|chunk| chunk.len() == 1 << CHUNK_BITS) {
            // Most trees are small: the first chunk grows as it is needed.
            let whole = if self.0.is_empty() { 0 } else { 1 << CHUNK_BITS };
            self.0.push(Vec::with_capacity(whole));
        }
        self.0.last_mut().expect("invariant: just seen to").push(Some(node));
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&Option<Node<T>>> {
        self.0.get((number >> CHUNK_BITS) as usize)?.get((number & ((1 << CHUNK_BITS) - 1)) as usize)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Option<Node<T>>> {
        self.0.get_mut((number >> CHUNK_BITS) as usize)?.get_mut((number & ((1 << CHUNK_BITS) - 1)) as usize)
    }
}

/// One level more than filters have: a topic's further levels make no difference.
const LEVELS_SEEN: usize = TOPIC_LEVELS_MAX + 1;
/// Topics have seldom more levels: room for so many is faster prepared.
const LEVELS_USUAL: usize = 32;
const ROOT: u32 = 0;

impl<T: Kept> Default for Filters<T> {
    fn default() -> Filters<T> {
        let mut nodes = Nodes(Vec::new());
        nodes.push(Node::default());
        Filters { nodes, free: Vec::new() }
    }
}

impl<T: Kept> Filters<T> {
    /// How many nodes there are, with the root.
    pub fn nodes(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// What they take of memory, about, without what is kept for filters.
    pub fn bytes(&self) -> usize {
        self.nodes() * NODE_BYTES
    }

    /// What is kept for this filter.
    pub fn get(&self, filter: &str) -> Option<&T> {
        let mut node = ROOT;
        for level in filter.split('/') {
            if level == "#" {
                return Some(&self.node(node).below);
            }
            node = self.child(node, level)?;
        }
        Some(&self.node(node).here)
    }

    /// Changes what is kept for this filter. Where nothing is left of it, the filter is forgotten.
    pub fn change<R>(&mut self, filter: &str, change: impl FnOnce(&mut T) -> R) -> R {
        let (mut node, mut below) = (ROOT, false);
        for level in filter.split('/') {
            if level == "#" {
                below = true;
                break;
            }
            node = self.child(node, level).unwrap_or_else(|| self.grow(node, level));
        }
        let place = self.node_mut(node);
        let kept = if below { &mut place.below } else { &mut place.here };
        let result = change(kept);
        if kept.is_empty() {
            self.prune(filter);
        }
        result
    }

    /// Calls `each` for what is kept for each filter that means `topic`, a plain topic name, until it says that this was
    /// enough. Returns whether it did. The second argument is whether the filter ends with `#`.
    pub fn find<'a>(&'a self, topic: &str, each: &mut impl FnMut(&'a T, bool) -> bool) -> bool {
        if levels(topic) <= LEVELS_USUAL {
            self.find_within::<LEVELS_USUAL>(topic, each)
        } else {
            self.find_within::<LEVELS_SEEN>(topic, each)
        }
    }

    /// The same, looking at so many levels of the topic.
    fn find_within<'a, const LEVELS: usize>(
        &'a self,
        topic: &str,
        each: &mut impl FnMut(&'a T, bool) -> bool,
    ) -> bool {
        let mut levels = [(0, ""); LEVELS];
        let mut count = 0;
        for (slot, level) in levels.iter_mut().zip(topic.split('/')) {
            *slot = (node::hash(level), level);
            count += 1;
        }
        let levels = levels.get(..count).unwrap_or_default();
        if !topic.starts_with('$') {
            return self.collect(ROOT, levels, each);
        }
        // The broker's own topics are not meant by wildcards at the beginning.
        let Some((first, rest)) = levels.split_first() else { return false };
        let child = self.node(ROOT).children.get(&Level::hashed(first.0, first.1));
        child.is_some_and(|child| self.collect(child, rest, each))
    }

    /// The same for all of them.
    pub fn each<'a>(&'a self, topic: &str, mut each: impl FnMut(&'a T)) {
        self.find(topic, &mut |kept, _| {
            each(kept);
            false
        });
    }

    /// Calls itself for `+` only: as deep as filters are, which is [`TOPIC_LEVELS_MAX`].
    fn collect<'a>(
        &'a self,
        from: u32,
        levels: &[(u64, &str)],
        each: &mut impl FnMut(&'a T, bool) -> bool,
    ) -> bool {
        let (mut node, mut levels) = (self.node(from), levels);
        loop {
            looks::count(1);
            if !node.below.is_empty() && each(&node.below, true) {
                return true;
            }
            let Some((next, rest)) = levels.split_first() else {
                return !node.here.is_empty() && each(&node.here, false);
            };
            let literal = node.children.get(&Level::hashed(next.0, next.1));
            match (node.plus, literal) {
                (Some(plus), Some(literal)) => {
                    if self.collect(plus, rest, each) {
                        return true;
                    }
                    node = self.node(literal);
                }
                (Some(only), None) | (None, Some(only)) => node = self.node(only),
                (None, None) => return false,
            }
            levels = rest;
        }
    }

    fn child(&self, node: u32, level: &str) -> Option<u32> {
        let node = self.node(node);
        if level == "+" { node.plus } else { node.children.get(&Level::new(level)) }
    }

    fn grow(&mut self, node: u32, level: &str) -> u32 {
        let child = match self.free.pop() {
            Some(free) => {
                *self.nodes.get_mut(free).expect("invariant: free places are there") = Some(Node::default());
                free
            }
            None => {
                self.nodes.push(Node::default());
                u32::try_from(self.nodes.len() - 1)
                    .expect("invariant: owners limit what they keep, far below 2^32")
            }
        };
        let parent = self.node_mut(node);
        if level == "+" {
            parent.plus = Some(child);
        } else {
            parent.children.insert(&Level::new(level), child);
        }
        child
    }

    /// Takes the nodes of a filter away that lead nowhere now.
    fn prune(&mut self, filter: &str) {
        let (mut path, mut node) = (Vec::new(), ROOT);
        for level in filter.split('/').take_while(|level| *level != "#") {
            path.push((node, level));
            node = self.child(node, level).expect("invariant: a path leads to what was just changed");
        }
        while self.node(node).is_empty()
            && let Some((parent, level)) = path.pop()
        {
            *self.nodes.get_mut(node).expect("invariant: just seen") = None;
            self.free.push(node);
            let parent_node = self.node_mut(parent);
            if level == "+" {
                parent_node.plus = None;
            } else {
                parent_node.children.remove(&Level::new(level));
            }
            node = parent;
        }
    }

    fn node(&self, number: u32) -> &Node<T> {
        let node = self.nodes.get(number).and_then(Option::as_ref);
        node.expect("invariant: parents know only nodes that are there")
    }

    fn node_mut(&mut self, number: u32) -> &mut Node<T> {
        let node = self.nodes.get_mut(number).and_then(Option::as_mut);
        node.expect("invariant: parents know only nodes that are there")
    }
}
