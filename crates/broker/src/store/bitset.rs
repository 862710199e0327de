//! A set of small numbers that grows as needed.

#[derive(Clone, Default)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        let word = self.0.get(number as usize / 64).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    /// Adds the number; says whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        if self.contains(number) {
            return false;
        }
        let index = number as usize / 64;
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] |= 1 << (number % 64);
        true
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_until_they_are_removed() {
        let mut set = BitSet::default();
        assert!(!set.contains(700));
        assert!(set.insert(700));
        assert!(!set.insert(700));
        assert!(set.contains(700) && !set.contains(699));
        set.remove(700);
        set.remove(70_000);
        assert!(!set.contains(700));
    }
}
