//! Hosts between which nothing passes.

/// All partitions that there are, by their numbers. A way is from one host to another; the way back is one of its own.
#[derive(Clone, Debug, Default)]
pub struct Partitions {
    cuts: Vec<Option<Vec<(usize, usize)>>>,
}

impl Partitions {
    /// Nothing passes on these ways any more. Returns the number of the partition.
    pub fn cut(&mut self, ways: Vec<(usize, usize)>) -> u32 {
        self.cuts.push(Some(ways));
        self.cuts.len() as u32 - 1
    }

    /// A partition ends. `false`: it has already.
    pub fn heal(&mut self, number: u32) -> bool {
        self.cuts.get_mut(number as usize).is_some_and(|cut| cut.take().is_some())
    }

    /// Whether nothing passes from one host to another.
    pub fn is_blocked(&self, from: usize, to: usize) -> bool {
        self.cuts.iter().flatten().any(|ways| ways.contains(&(from, to)))
    }

    /// Whether there is none now.
    pub fn is_empty(&self) -> bool {
        self.cuts.iter().all(Option::is_none)
    }

    /// The numbers of all that there have been.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.cuts.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_blocked_until_the_last_partition_on_it_ends() {
        let mut partitions = Partitions::default();
        let (one, two) = (partitions.cut(vec![(0, 1), (1, 0)]), partitions.cut(vec![(0, 1)]));
        assert!(partitions.heal(one) && !partitions.heal(one));
        assert!(partitions.is_blocked(0, 1) && !partitions.is_blocked(1, 0) && !partitions.is_empty());
        assert!(partitions.heal(two) && partitions.is_empty() && !partitions.is_blocked(0, 1));
    }
}
