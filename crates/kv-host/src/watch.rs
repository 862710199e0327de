//! How far the clocks of peers are off, from how they answer. A clock that is off by more than the protocol allows for makes messages
//! late, and the node to a faulty one.

use crate::greet::{narrower, off_at_least, unknown};
use contract::Span;
use kv::Node;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two examinations of a clock.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// How often a clock is looked at in one examination; the look that took the shortest says most.
pub(crate) const LOOKS: usize = 3;
/// What was seen longer ago says nothing: clocks drift.
const STALE: Duration = Duration::from_secs(5);

/// What is known of the clocks of all peers.
pub(crate) struct Clocks(Vec<Mutex<Seen>>);

#[derive(Clone, Copy)]
struct Seen {
    bounds: (Span, Span),
    since: Option<Instant>,
}

impl Clocks {
    pub(crate) fn new(nodes: usize) -> Clocks {
        Clocks((0..nodes).map(|_| Mutex::new(Seen { bounds: unknown(), since: None })).collect())
    }

    /// A look at a peer's clock says that it is ahead by at least and at most so much.
    pub(crate) fn seen(&self, peer: Node, bounds: (Span, Span)) {
        let mut seen = self.of(peer);
        let is_fresh = seen.since.is_some_and(|since| since.elapsed() < EVERY);
        let bounds = if is_fresh { narrower(seen.bounds, bounds) } else { bounds };
        *seen = Seen { bounds, since: seen.since.filter(|_| is_fresh).or_else(|| Some(Instant::now())) };
    }

    /// How far a peer's clock is ahead, at least and at most, if it was looked at lately.
    pub(crate) fn bounds(&self, peer: Node) -> Option<(Span, Span)> {
        let seen = self.of(peer);
        seen.since.filter(|since| since.elapsed() < STALE).map(|_| seen.bounds)
    }

    /// Peers whose clocks are certainly off by more than this, and by how much at least.
    pub(crate) fn beyond(&self, limit: Span) -> Vec<(Node, Span)> {
        let of = |node| Some((node, off_at_least(self.bounds(node)?)));
        (0..self.0.len()).filter_map(|place| of(Node::at(place))).filter(|(_, off)| *off > limit).collect()
    }

    fn of(&self, peer: Node) -> MutexGuard<'_, Seen> {
        self.0[peer.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_looks_the_one_that_took_the_shortest_counts() {
        let clocks = Clocks::new(2);
        assert_eq!(clocks.bounds(Node(1)), None);
        clocks.seen(Node(1), (Span(-100), Span(900)));
        clocks.seen(Node(1), (Span(300), Span(400)));
        clocks.seen(Node(1), (Span(-500), Span(500)));
        assert_eq!(clocks.bounds(Node(1)), Some((Span(300), Span(400))));
        assert_eq!(clocks.beyond(Span(299)), [(Node(1), Span(300))]);
        assert_eq!(clocks.beyond(Span(300)), []);
    }
}
