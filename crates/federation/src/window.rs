//! Which messages of a stream have come, where it comes by more than one path.
//!
//! The idea: the first copy counts, whichever path brings it, and later ones are dropped. One bit for each of the newest numbers; what is older than
//! those is taken to have come.
//!
//! Source: PubSubCoord, A10 and W5 of its specification: arrival is the earliest of all paths.

/// Numbers that are told apart.
const NUMBERS: u64 = 1024;
const WORDS: usize = (NUMBERS / 64) as usize;

/// The newest numbers of a stream, and which of them have come.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The number after the highest that has come.
    next: u64,
    came: [u64; WORDS],
}

impl Window {
    /// Whether a message has come, or is too old to be told from one that has.
    pub fn has(&self, seq: u64) -> bool {
        let is_old = seq.saturating_add(NUMBERS) < self.next;
        is_old || seq < self.next && self.came[word(seq)] & bit(seq) != 0
    }

    /// A message has come. Returns whether it is the first copy.
    pub fn take(&mut self, seq: u64) -> bool {
        if self.has(seq) {
            return false;
        }
        if seq >= self.next {
            // Places of numbers between have those of older ones.
            let passed = seq - self.next;
            if passed >= NUMBERS {
                self.came = [0; WORDS];
            } else {
                (self.next..=seq).for_each(|between| self.came[word(between)] &= !bit(between));
            }
            self.next = seq.saturating_add(1);
        }
        self.came[word(seq)] |= bit(seq);
        true
    }
}

fn word(seq: u64) -> usize {
    (seq / 64) as usize % WORDS
}

fn bit(seq: u64) -> u64 {
    1 << (seq % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// Against a set of all that have come, for disorder within the window.
    #[test]
    fn it_agrees_with_a_set_of_all_numbers() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut window, mut all, mut newest) = (Window::default(), BTreeSet::new(), 0_u64);
            for _ in 0..3_000 {
                let leap = if random.u8(0..100) == 0 { random.u64(0..3 * NUMBERS) } else { random.u64(0..3) };
                let seq = if random.bool() { newest + leap } else { newest.saturating_sub(leap * 300) };
                newest = newest.max(seq);
                let is_old = seq + NUMBERS <= newest;
                assert_eq!(window.has(seq), is_old || all.contains(&seq), "seed {seed}: {seq} of {newest}");
                assert_eq!(window.take(seq), !is_old && all.insert(seq));
            }
        }
    }
}
