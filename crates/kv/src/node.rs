//! Nodes by their number, and sets of them.

use std::fmt;

/// Most nodes of a cluster: a set of them is one word.
pub const NODES_MAX: usize = 64;

/// The number of a node, from 0: its place in `nodes` of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Node(pub u8);

impl Node {
    /// For tables.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The node with this number.
    ///
    /// # Panics
    /// If there can be none, since it is not below [`NODES_MAX`].
    #[inline]
    pub fn at(index: usize) -> Node {
        assert!(index < NODES_MAX, "there are at most {NODES_MAX} nodes");
        Node(index as u8)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub const EMPTY: NodeSet = NodeSet(0);

    /// The nodes 0 to `n - 1`.
    pub fn all(n: usize) -> NodeSet {
        NodeSet(if n >= NODES_MAX { u64::MAX } else { (1 << n) - 1 })
    }

    /// Whether the node is one of them.
    #[inline]
    pub fn contains(self, node: Node) -> bool {
        self.0.checked_shr(u32::from(node.0)).is_some_and(|rest| rest & 1 == 1)
    }

    /// Adds a node; one that cannot be is left out.
    #[inline]
    pub fn insert(&mut self, node: Node) {
        self.0 |= 1_u64.checked_shl(u32::from(node.0)).unwrap_or(0);
    }

    /// The set without the nodes of another.
    #[inline]
    pub fn without(self, others: NodeSet) -> NodeSet {
        NodeSet(self.0 & !others.0)
    }

    /// The nodes of both sets.
    #[inline]
    pub fn with(self, others: NodeSet) -> NodeSet {
        NodeSet(self.0 | others.0)
    }

    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = rest.trailing_zeros();
            (rest != 0).then(|| {
                rest &= rest - 1;
                Node(next as u8)
            })
        })
    }
}

impl FromIterator<Node> for NodeSet {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::EMPTY;
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let set: NodeSet = [Node(3), Node(0), Node(63)].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Node(0), Node(3), Node(63)]);
        assert_eq!(set.len(), 3);
        assert!(set.contains(Node(63)) && !set.contains(Node(62)) && !set.contains(Node(200)));
        assert_eq!(set.without(NodeSet::all(4)), [Node(63)].into_iter().collect());
        assert_eq!(NodeSet::all(64).len(), 64);
    }
}
