//! The job queue: earliest deadline first, ties by priority and then by order of arrival.
//!
//! Jobs are not taken out when they become needless; they are recognised when their turn comes (the slot's ticket has
//! changed, or the message has been dispatched). A heap with handles could cancel them; it would cost every job for
//! the sake of few.
//!
//! Messages come in batches, and the jobs of a frame mostly come in the order of their deadlines already: its topics share a
//! contract. So jobs that come in order are a *run*, and only the foremost of a few runs are compared. What comes in no order is
//! sorted when the first of it is asked for, and is one run then. What has no room among the runs goes to a heap beside them.

use contract::{Mutant, StreamId, Ticket, Time};
use smallvec::SmallVec;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;

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
    pub(crate) stream: StreamId,
    pub(crate) ticket: Ticket,
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
    /// Jobs in the order in which they came; those that nobody has looked at are at the end.
    lined_up: Vec<Job>,
    /// Where those begin.
    fresh: usize,
    /// Where a job among those comes before the one in front of it.
    breaks: Places<usize>,
    /// The jobs that are left of each run.
    runs: Places<Range<usize>>,
    /// The run that goes on, for as long as its jobs come before this.
    current: usize,
    until: u128,
    /// What has no place among the runs.
    heap: BinaryHeap<Reverse<Job>>,
    inserted: u64,
    limit: usize,
}

/// Not more than [`RUNS_MAX`], so that nothing is allocated.
type Places<T> = SmallVec<[T; RUNS_MAX]>;

const ORDER_BITS: u32 = 55;
/// Runs whose foremost jobs are compared. Each costs a comparison now and then.
const RUNS_MAX: usize = 8;
/// More jobs than this are not lined up: sorting them would hold up the first of them.
const LINED_UP_MAX: usize = 4_096;
/// No run goes on.
const NO_RUN: usize = usize::MAX;

impl Queue {
    pub(crate) fn new(limit: usize) -> Queue {
        let room = limit.min(LINED_UP_MAX);
        Queue {
            lined_up: Vec::with_capacity(room),
            fresh: 0,
            breaks: Places::new(),
            runs: Places::new(),
            current: NO_RUN,
            until: 0,
            heap: BinaryHeap::with_capacity(room),
            inserted: 0,
            limit,
        }
    }

    /// Makes room, so that pushing does not allocate while messages flow.
    pub(crate) fn expect(&mut self, jobs: usize) {
        self.heap.reserve(jobs.min(self.limit).saturating_sub(self.heap.len()));
    }

    pub(crate) fn len(&self) -> usize {
        let left: usize = self.runs.iter().map(Range::len).sum();
        left + self.lined_up.len() - self.fresh + self.heap.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // The last job of all runs takes what is lined up with it.
        self.lined_up.is_empty() && self.heap.is_empty()
    }

    /// Whether another message's jobs still fit. Those that have gone count until the last one has that was lined up with them.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.lined_up.len() + self.heap.len() + 2 <= self.limit || self.len() + 2 <= self.limit
    }

    #[inline]
    pub(crate) fn push(
        &mut self,
        kind: JobKind,
        deadline: Time,
        priority: u8,
        stream: StreamId,
        ticket: Ticket,
    ) {
        let order = self.inserted & ((1 << ORDER_BITS) - 1);
        let kind_bit = u64::from(kind == JobKind::Dispatch);
        let rank = u64::from(u8::MAX - priority) << (ORDER_BITS + 1) | order << 1 | kind_bit;
        self.inserted += 1;
        let deadline = if Mutant::ServeInOrderOfArrival.is_on() { Time(order) } else { deadline };
        let job = Job { deadline, rank, stream, ticket };
        let number = self.lined_up.len();
        if number >= LINED_UP_MAX {
            return self.put_on_heap(job);
        }
        if number > self.fresh && job < self.lined_up[number - 1] {
            self.note_break(number);
        }
        self.lined_up.push(job);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Job> {
        if self.fresh < self.lined_up.len() {
            self.arrange();
        }
        loop {
            if let Some(run) = self.runs.get_mut(self.current)
                && let Some(job) = self.lined_up.get(run.start).filter(|job| job.key() <= self.until)
            {
                let job = *job;
                run.start += 1;
                if run.start == run.end {
                    self.end_run();
                }
                return Some(job);
            }
            if !self.choose() {
                return self.heap.pop().map(|Reverse(job)| job);
            }
        }
    }

    /// Chooses the run that goes on, and until when. `false`: the next job is on the heap, or nowhere.
    fn choose(&mut self) -> bool {
        self.current = NO_RUN;
        self.until = self.heap.peek().map_or(u128::MAX, |Reverse(job)| job.key());
        let mut least = self.until;
        for (number, run) in self.runs.iter().enumerate() {
            let key = self.lined_up[run.start].key();
            if key < least {
                (self.current, self.until, least) = (number, least, key);
            } else {
                self.until = self.until.min(key);
            }
        }
        self.current != NO_RUN
    }

    /// The run that went on has no jobs left.
    #[cold]
    fn end_run(&mut self) {
        self.runs.swap_remove(self.current);
        self.current = NO_RUN;
        if self.runs.is_empty() && self.fresh == self.lined_up.len() {
            self.lined_up.clear();
            self.fresh = 0;
        }
    }

    /// The job that comes at this place comes before the one in front of it.
    #[cold]
    fn note_break(&mut self, place: usize) {
        if self.breaks.len() < RUNS_MAX {
            self.breaks.push(place);
        }
    }

    #[cold]
    fn put_on_heap(&mut self, job: Job) {
        self.heap.push(Reverse(job));
        self.current = NO_RUN;
    }

    /// Makes runs of what has come, or puts it on the heap.
    #[cold]
    fn arrange(&mut self) {
        let (first, end) = (self.fresh, self.lined_up.len());
        let room = RUNS_MAX - self.runs.len();
        if self.breaks.len() < room {
            let begins = std::iter::once(first).chain(self.breaks.iter().copied());
            let ends = self.breaks.iter().copied().chain([end]);
            self.runs.extend(begins.zip(ends).map(|(begin, end)| begin..end));
        } else if room > 0 {
            self.lined_up[first..].sort_unstable();
            self.runs.push(first..end);
        } else {
            self.heap.extend(self.lined_up.drain(first..).map(Reverse));
        }
        self.breaks.clear();
        self.fresh = self.lined_up.len();
        self.current = NO_RUN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::{option, prop_assert_eq, proptest};

    /// Categories 5, 2 and 0 of FRAME, table 3.2, arrive together; the order follows from F6 and F7 by hand.
    #[test]
    fn the_worked_trace_is_popped_in_the_stated_order() {
        use JobKind::{Dispatch, Replicate};
        let mut queue = Queue::new(100);
        let us = |value: u64| Time(value * 1_000);
        queue.push(Dispatch, us(480_000), 0, StreamId(5), Ticket(0));
        queue.push(Replicate, us(449_950), 0, StreamId(5), Ticket(0));
        queue.push(Dispatch, us(99_000), 0, StreamId(2), Ticket(0));
        queue.push(Replicate, us(49_950), 0, StreamId(2), Ticket(0));
        queue.push(Dispatch, us(49_000), 0, StreamId(0), Ticket(0));
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|job| (job.kind(), job.stream.0)).collect();
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
                        queue.push(JobKind::Dispatch, Time(deadline), 0, StreamId(number as u32), Ticket(0));
                        model.insert((deadline, number as u32));
                    }
                    None => {
                        let job = queue.pop().map(|job| (job.deadline.0, job.stream.0));
                        prop_assert_eq!(job, model.pop_first());
                    }
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }

    /// More than can be lined up, in waves that overlap: what has no place among the runs is not forgotten, and none comes too late.
    #[test]
    fn a_queue_that_never_empties_keeps_its_order() {
        let mut queue = Queue::new(100_000);
        let mut model = std::collections::BTreeSet::new();
        let mut number = 0_u32;
        for wave in 0..400_u64 {
            for frame in 0..wave % 12 {
                for _ in 0..20 {
                    let deadline =
                        wave * 7 + frame * 7_919 % 1_009 + u64::from(number.is_multiple_of(13)) * 50;
                    queue.push(JobKind::Dispatch, Time(deadline), 0, StreamId(number), Ticket(0));
                    model.insert((deadline, number));
                    number += 1;
                }
            }
            for _ in 0..90 {
                assert_eq!(queue.pop().map(|job| (job.deadline.0, job.stream.0)), model.pop_first());
            }
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
        }
        assert!(model.len() > LINED_UP_MAX && !queue.heap.is_empty(), "{}", model.len());
        while let Some(job) = queue.pop() {
            assert_eq!(Some((job.deadline.0, job.stream.0)), model.pop_first());
        }
        assert!(model.is_empty() && queue.is_empty() && queue.lined_up.is_empty());
    }

    #[test]
    fn equal_deadlines_go_by_priority_and_then_by_arrival() {
        let mut queue = Queue::new(100);
        for (stream, priority) in [(1, 0), (2, 9), (3, 9), (4, 255)] {
            queue.push(JobKind::Dispatch, Time(7), priority, StreamId(stream), Ticket(0));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|job| job.stream.0).collect();
        assert_eq!(order, [4, 2, 3, 1]);
        assert_eq!(size_of::<Job>(), 24);
    }
}
