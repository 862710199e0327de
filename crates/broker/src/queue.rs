//! The job queue: earliest deadline first, ties by priority and then by order of arrival.
//!
//! Jobs are not taken out when they become needless; they are recognised when their turn comes (the slot's ticket has
//! changed, or the message has been dispatched). A heap with handles could cancel them; it would cost every job for
//! the sake of few.
//!
//! Messages come in batches, and mostly nothing waits when one comes. Its jobs are only noted, and sorted when the first of them
//! is asked for, which is less work than a heap. What comes while sorted jobs still wait goes to a heap beside them.

use contract::{Mutant, Time};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What is to be done with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobKind {
    /// Copy it to the backup.
    Replicate,
    /// Push it to its subscribers.
    Dispatch,
}

/// One job for one message. 24 bytes, since the queue's upper levels should stay in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) deadline: Time,
    /// Inverted priority (8 bits), order of insertion (55 bits), kind (1 bit).
    rank: u64,
    pub(crate) stream: u32,
    pub(crate) ticket: u32,
}

impl Job {
    pub(crate) fn kind(&self) -> JobKind {
        if self.rank & 1 == 0 { JobKind::Replicate } else { JobKind::Dispatch }
    }

    /// What it is ordered by, as one number: which of two is less cannot be foreseen, and this needs no branch.
    fn key(&self) -> u128 {
        u128::from(self.deadline.0) << 64 | u128::from(self.rank)
    }
}

impl Ord for Job {
    fn cmp(&self, other: &Job) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Job) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone)]
pub(crate) struct Queue {
    /// Jobs that nobody has looked at since they came.
    fresh: Vec<Job>,
    /// Of a batch that came when nothing waited, the jobs that are left; the first is the last.
    sorted: Vec<Job>,
    /// What came meanwhile.
    heap: BinaryHeap<Reverse<Job>>,
    inserted: u64,
    limit: usize,
}

const ORDER_BITS: u32 = 55;
/// More jobs than this are not sorted at once, which would hold up the first of them.
const SORTED_MAX: usize = 4_096;

impl Queue {
    pub(crate) fn new(limit: usize) -> Queue {
        let room = limit.min(SORTED_MAX);
        Queue {
            fresh: Vec::with_capacity(room),
            sorted: Vec::with_capacity(room),
            heap: BinaryHeap::with_capacity(room),
            inserted: 0,
            limit,
        }
    }

    /// Makes room, so that pushing does not allocate while messages flow.
    pub(crate) fn expect(&mut self, jobs: usize) {
        let jobs = jobs.min(self.limit);
        self.fresh.reserve(jobs.saturating_sub(self.fresh.len()));
        self.heap.reserve(jobs.saturating_sub(self.heap.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.sorted.len() + self.heap.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another message's jobs still fit.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.len() + 2 <= self.limit
    }

    #[inline]
    pub(crate) fn push(&mut self, kind: JobKind, deadline: Time, priority: u8, stream: u32, ticket: u32) {
        let order = self.inserted & ((1 << ORDER_BITS) - 1);
        let kind_bit = u64::from(kind == JobKind::Dispatch);
        let rank = u64::from(u8::MAX - priority) << (ORDER_BITS + 1) | order << 1 | kind_bit;
        self.inserted += 1;
        let deadline = if Mutant::ServeInOrderOfArrival.is_on() { Time(order) } else { deadline };
        self.fresh.push(Job { deadline, rank, stream, ticket });
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Job> {
        if !self.fresh.is_empty() {
            self.arrange();
        }
        match (self.sorted.last(), self.heap.peek()) {
            (Some(job), Some(Reverse(other))) if other < job => self.heap.pop().map(|Reverse(job)| job),
            (Some(_), _) => self.sorted.pop(),
            (None, _) => self.heap.pop().map(|Reverse(job)| job),
        }
    }

    /// Sorts what has come, or puts it with what waits.
    fn arrange(&mut self) {
        if self.sorted.is_empty() && self.fresh.len() <= SORTED_MAX {
            self.sorted.append(&mut self.fresh);
            self.sorted.sort_unstable_by_key(|job| Reverse(job.key()));
        } else {
            self.heap.extend(self.fresh.drain(..).map(Reverse));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::{option, prop_assert_eq, proptest};

    /// The trace of section 7 of the source's specification: categories 5, 2 and 0 arrive together.
    #[test]
    fn the_worked_trace_is_popped_in_the_stated_order() {
        use JobKind::{Dispatch, Replicate};
        let mut queue = Queue::new(100);
        let us = |value: u64| Time(value * 1_000);
        queue.push(Dispatch, us(480_000), 0, 5, 0);
        queue.push(Replicate, us(449_950), 0, 5, 0);
        queue.push(Dispatch, us(99_000), 0, 2, 0);
        queue.push(Replicate, us(49_950), 0, 2, 0);
        queue.push(Dispatch, us(49_000), 0, 0, 0);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|job| (job.kind(), job.stream)).collect();
        assert_eq!(order, [(Dispatch, 0), (Replicate, 2), (Dispatch, 2), (Replicate, 5), (Dispatch, 5)]);
    }

    proptest! {
        /// Whatever comes between which requests, always the least of what is there goes.
        #[test]
        fn the_most_urgent_goes_first_however_they_come(acts in vec(option::of(0_u64..50), 1..300)) {
            let mut queue = Queue::new(1_000);
            let mut model = std::collections::BTreeSet::new();
            for (number, act) in acts.into_iter().enumerate() {
                match act {
                    Some(deadline) => {
                        queue.push(JobKind::Dispatch, Time(deadline), 0, number as u32, 0);
                        model.insert((deadline, number as u32));
                    }
                    None => {
                        let job = queue.pop().map(|job| (job.deadline.0, job.stream));
                        prop_assert_eq!(job, model.pop_first());
                    }
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }

    #[test]
    fn equal_deadlines_go_by_priority_and_then_by_arrival() {
        let mut queue = Queue::new(100);
        for (stream, priority) in [(1, 0), (2, 9), (3, 9), (4, 255)] {
            queue.push(JobKind::Dispatch, Time(7), priority, stream, 0);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|job| job.stream).collect();
        assert_eq!(order, [4, 2, 3, 1]);
        assert_eq!(size_of::<Job>(), 24);
    }
}
