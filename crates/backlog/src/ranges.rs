//! Numbers that have come, as ranges: of most streams a single one.

/// A set of numbers, in ranges that are in order and do not touch each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// These ranges, in any order. A range that ends before it begins has nothing.
    pub(crate) fn of(ranges: impl IntoIterator<Item = (u64, u64)>) -> Ranges {
        let mut all = Ranges::default();
        ranges.into_iter().for_each(|(first, last)| all.insert(first, last));
        all
    }

    /// Whether a number is in it.
    pub(crate) fn has(&self, number: u64) -> bool {
        let next = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(next).is_some_and(|(first, _)| *first <= number)
    }

    /// Adds all numbers from the first to the last.
    pub(crate) fn insert(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let begin = self.0.partition_point(|(_, before)| before.saturating_add(1) < first);
        let end = self.0.partition_point(|(after, _)| *after <= last.saturating_add(1));
        let (mut low, mut high) = (first, last);
        if begin < end {
            (low, high) = (low.min(self.0[begin].0), high.max(self.0[end - 1].1));
        }
        self.0.splice(begin..end, [(low, high)]);
    }

    /// Forgets the lowest ranges, so that there are so many at most.
    pub(crate) fn keep_highest(&mut self, ranges: usize) {
        let too_many = self.0.len().saturating_sub(ranges);
        self.0.drain(..too_many);
    }

    /// Forgets the highest ranges, so that there are so many at most.
    pub(crate) fn keep_lowest(&mut self, ranges: usize) {
        self.0.truncate(ranges);
    }

    /// How many numbers are in it.
    pub(crate) fn numbers(&self) -> u64 {
        self.0.iter().fold(0, |all, (first, last)| all.saturating_add((last - first).saturating_add(1)))
    }

    /// What of these numbers is not in it, in order.
    pub(crate) fn lacking(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut lacking = Vec::new();
        let mut next = first;
        let begin = self.0.partition_point(|(_, before)| *before < first);
        for &(low, high) in self.0[begin..].iter().take_while(|(low, _)| *low <= last) {
            if low > next {
                lacking.push((next, low - 1));
            }
            let Some(behind) = high.checked_add(1) else { return lacking };
            next = next.max(behind);
        }
        if next <= last {
            lacking.push((next, last));
        }
        lacking
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(ranges in prop::collection::vec((0_u64..60, 0_u64..6), 0..20), asked in (0_u64..60, 0_u64..20)) {
            let all = Ranges::of(ranges.iter().map(|(first, more)| (*first, first + more)));
            let naive: BTreeSet<u64> = ranges.iter().flat_map(|(first, more)| *first..=first + more).collect();
            prop_assert!((0..80).all(|number| all.has(number) == naive.contains(&number)));
            prop_assert!(all.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{all:?}");
            let (first, last) = (asked.0, asked.0 + asked.1);
            let lacking: BTreeSet<u64> = all.lacking(first, last).iter().flat_map(|(low, high)| *low..=*high).collect();
            let expected: BTreeSet<u64> = (first..=last).filter(|number| !naive.contains(number)).collect();
            prop_assert_eq!(lacking, expected);
        }
    }

    #[test]
    fn the_greatest_numbers_do_no_harm_and_what_is_too_much_is_forgotten() {
        let mut all = Ranges::of([(u64::MAX - 1, u64::MAX), (3, 2)]);
        all.insert(u64::MAX, u64::MAX);
        assert!(
            all.has(u64::MAX)
                && all.len() == 1
                && all.lacking(u64::MAX - 2, u64::MAX) == [(u64::MAX - 2, u64::MAX - 2)]
        );
        let mut many = Ranges::of((0..2_000).map(|number| (2 * number, 2 * number)));
        many.keep_highest(1_024);
        assert!(many.len() == 1_024 && many.has(3_998) && !many.has(0) && many.numbers() == 1_024);
        assert_eq!(Ranges::of([(0, u64::MAX)]).numbers(), u64::MAX);
    }
}
