//! Which of the newest numbers of a stream have come.
//!
//! The idea: one bit for each of them; what is older is taken to have come. A subscriber's account is built on it ([`crate::Tally`]), and whoever hands on
//! what comes by more than one path takes the first copy by it.
//!
//! Source: PubSubCoord, A10 and W5 of its specification: arrival is the earliest of all paths.

/// Numbers that are told apart. A duplicate or a late message older than this is dropped.
pub(crate) const WINDOW: u64 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// The newest numbers of a stream, and which of them have come.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The number after the highest that has come.
    pub(crate) next: u64,
    seen: [u64; WORDS],
}

impl Window {
    /// One that expects `next` first.
    pub(crate) fn new(next: u64) -> Window {
        Window { next, seen: [0; WORDS] }
    }

    /// Whether a message has come, or is too old to be told from one that has.
    pub fn has(&self, seq: u64) -> bool {
        seq < self.next && (seq.saturating_add(WINDOW) < self.next || self.is_marked(seq))
    }

    /// A message has come. Returns whether it is the first copy.
    pub fn take(&mut self, seq: u64) -> bool {
        if self.has(seq) {
            return false;
        }
        if seq >= self.next {
            // Their places have had older ones.
            let oldest = seq.saturating_sub(WINDOW - 1);
            (self.next.max(oldest)..seq).for_each(|between| self.unmark(between));
            self.next = seq.saturating_add(1);
        }
        self.mark(seq);
        true
    }

    /// Of a number that the window reaches, whether it has come.
    pub(crate) fn is_marked(&self, seq: u64) -> bool {
        self.seen[place(seq)] >> (seq % 64) & 1 == 1
    }

    pub(crate) fn mark(&mut self, seq: u64) {
        self.seen[place(seq)] |= 1 << (seq % 64);
    }

    pub(crate) fn unmark(&mut self, seq: u64) {
        self.seen[place(seq)] &= !(1 << (seq % 64));
    }

    /// Everything that it reaches is taken to have come.
    pub(crate) fn mark_all(&mut self) {
        self.seen = [u64::MAX; WORDS];
    }
}

fn place(seq: u64) -> usize {
    (seq % WINDOW / 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_copy_of_each_counts_whichever_path_brings_it() {
        let mut window = Window::default();
        // By one path 1, 2, 4, and by the other 1, 2, 3, 4.
        let came = [1, 1, 2, 2, 4, 3, 4];
        let first: Vec<u64> = came.into_iter().filter(|seq| window.take(*seq)).collect();
        assert_eq!(first, [1, 2, 4, 3]);
        assert!(!window.has(0) && window.has(4) && !window.has(5));
    }

    proptest! {
        /// Against a set of all that have come: small steps, leaps, and what is late by up to more than the window.
        #[test]
        fn it_agrees_with_a_set_of_all_numbers(steps in prop::collection::vec((-1_500_i64..4, 0_u8..100), 1..2_000)) {
            let (mut window, mut all, mut newest) = (Window::default(), BTreeSet::new(), 0_u64);
            for (step, leap) in steps {
                let step = if leap == 0 { 2_000 } else if leap < 60 { step.abs() % 4 } else { step };
                let seq = newest.saturating_add_signed(step);
                newest = newest.max(seq);
                let is_old = seq + WINDOW <= newest;
                prop_assert_eq!(window.has(seq), is_old || all.contains(&seq), "{} of {}", seq, newest);
                prop_assert_eq!(window.take(seq), !is_old && all.insert(seq));
            }
        }
    }
}
