//! The job queue: earliest deadline first, ties by priority and then by order of arrival.
//!
//! Jobs are not taken out when they become needless; they are recognised when their turn comes (the slot's ticket has
//! changed, or the message has been dispatched). A heap with handles could cancel them; it would cost every job for
//! the sake of few.

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
}

impl Ord for Job {
    fn cmp(&self, other: &Job) -> Ordering {
        (self.deadline, self.rank).cmp(&(other.deadline, other.rank))
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Job) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Job>>,
    inserted: u64,
    limit: usize,
}

const ORDER_BITS: u32 = 55;

impl Queue {
    pub(crate) fn new(limit: usize) -> Queue {
        Queue { heap: BinaryHeap::with_capacity(limit.min(4_096)), inserted: 0, limit }
    }

    /// Makes room, so that pushing does not allocate while messages flow.
    pub(crate) fn expect(&mut self, jobs: usize) {
        self.heap.reserve(jobs.min(self.limit).saturating_sub(self.heap.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether another message's jobs still fit.
    pub(crate) fn has_room(&self) -> bool {
        self.heap.len() + 2 <= self.limit
    }

    pub(crate) fn push(&mut self, kind: JobKind, deadline: Time, priority: u8, stream: u32, ticket: u32) {
        let order = self.inserted & ((1 << ORDER_BITS) - 1);
        let kind_bit = u64::from(kind == JobKind::Dispatch);
        let rank = u64::from(u8::MAX - priority) << (ORDER_BITS + 1) | order << 1 | kind_bit;
        self.inserted += 1;
        let deadline = if Mutant::ServeInOrderOfArrival.is_on() { Time(order) } else { deadline };
        self.heap.push(Reverse(Job { deadline, rank, stream, ticket }));
    }

    pub(crate) fn pop(&mut self) -> Option<Job> {
        self.heap.pop().map(|Reverse(job)| job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
