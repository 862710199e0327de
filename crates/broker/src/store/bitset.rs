//! A set of streams that grows as needed.

use contract::StreamId;

#[derive(Clone, Default)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    #[inline]
    pub(crate) fn contains(&self, stream: StreamId) -> bool {
        self.0.get(stream.place() / 64).is_some_and(|word| word >> (stream.0 % 64) & 1 == 1)
    }

    /// Adds the stream; says whether it is new. Nearly always it is not.
    #[inline]
    pub(crate) fn insert(&mut self, stream: StreamId) -> bool {
        let new = !self.contains(stream);
        if new {
            self.add(stream);
        }
        new
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, stream: StreamId) {
        let index = stream.place() / 64;
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] |= 1 << (stream.0 % 64);
    }

    pub(crate) fn remove(&mut self, stream: StreamId) {
        if let Some(word) = self.0.get_mut(stream.place() / 64) {
            *word &= !(1 << (stream.0 % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_until_they_are_removed() {
        let mut set = BitSet::default();
        assert!(!set.contains(StreamId(700)));
        assert!(set.insert(StreamId(700)));
        assert!(!set.insert(StreamId(700)));
        assert!(set.contains(StreamId(700)) && !set.contains(StreamId(699)));
        set.remove(StreamId(700));
        set.remove(StreamId(70_000));
        assert!(!set.contains(StreamId(700)));
    }
}
