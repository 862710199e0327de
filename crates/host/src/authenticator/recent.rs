//! What has been right recently.

use super::Digest;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Digests, each for the same time. The oldest makes room for the newest.
pub(super) struct Recent {
    known: HashSet<Digest>,
    /// In the order in which they end. The same ones.
    order: VecDeque<(Digest, Instant)>,
    max: usize,
    lifetime: Duration,
}

impl Recent {
    pub fn new(max: usize, lifetime: Duration) -> Recent {
        Recent { known: HashSet::new(), order: VecDeque::new(), max, lifetime }
    }

    pub fn has(&mut self, digest: &Digest, now: Instant) -> bool {
        self.forget(now, self.max);
        self.known.contains(digest)
    }

    pub fn add(&mut self, digest: Digest, now: Instant) {
        self.forget(now, self.max.saturating_sub(1));
        // It may be known already: two can ask at the same time. Then its time goes on.
        if self.max > 0 && self.known.insert(digest) {
            self.order.push_back((digest, now + self.lifetime));
        }
    }

    fn forget(&mut self, now: Instant, at_most: usize) {
        while let Some((digest, until)) = self.order.front()
            && (*until <= now || self.order.len() > at_most)
        {
            self.known.remove(digest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_right_is_known_for_its_time_and_no_longer() {
        let mut recent = Recent::new(10, Duration::from_secs(60));
        let start = Instant::now();
        recent.add([1; 32], start);
        recent.add([1; 32], start + Duration::from_secs(30));
        assert!(recent.has(&[1; 32], start + Duration::from_secs(59)));
        assert!(!recent.has(&[2; 32], start));
        assert!(!recent.has(&[1; 32], start + Duration::from_secs(60)));
        assert!(recent.known.is_empty() && recent.order.is_empty());
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut recent = Recent::new(2, Duration::from_secs(60));
        let start = Instant::now();
        (1..=3).for_each(|number| recent.add([number; 32], start));
        assert!(!recent.has(&[1; 32], start) && recent.has(&[2; 32], start) && recent.has(&[3; 32], start));
        let mut none = Recent::new(0, Duration::from_secs(60));
        none.add([1; 32], start);
        assert!(!none.has(&[1; 32], start));
    }
}
