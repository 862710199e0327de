//! What is going to happen, in order of time.

use contract::Time;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Set in the order of all that does not come first.
const LATER: u64 = 1 << 63;

/// What is going to happen. Of one time, that which comes first does, and apart from that it goes in the order in which it was put
/// down.
#[derive(Clone, Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at: Time,
    order: u64,
    what: T,
}

impl<T> Agenda<T> {
    /// Nothing is going to happen.
    pub fn new() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), count: 0 }
    }

    /// Puts something down.
    pub fn push(&mut self, at: Time, what: T) {
        self.put(at, LATER, what);
    }

    /// Puts something down that happens before all that is put down for the same time with [`Agenda::push`].
    pub fn push_first(&mut self, at: Time, what: T) {
        self.put(at, 0, what);
    }

    fn put(&mut self, at: Time, rank: u64, what: T) {
        self.count += 1;
        self.heap.push(Reverse(Entry { at, order: rank | self.count, what }));
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// What happens next, and when.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda::new()
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_comes_before_rank_and_rank_before_the_order_of_putting_down() {
        let mut agenda = Agenda::new();
        agenda.push(Time(2), "c");
        agenda.push(Time(1), "b");
        agenda.push(Time(2), "d");
        agenda.push_first(Time(1), "a");
        let all: Vec<&str> = std::iter::from_fn(|| agenda.pop().map(|(_, what)| what)).collect();
        assert_eq!(all, ["a", "b", "c", "d"]);
    }
}
