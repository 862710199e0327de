//! Copies at the last safe moment.
//!
//! The problem: most messages are dispatched long before a crash could lose them, and every copy of one that was is
//! bandwidth for nothing. The idea: a copy begins when it has just the budget `C_r` left (`s = arrival + D^r(M) - C_r`), if
//! its message is not settled by then; and when one leaves, those that would have to within the window `W` go along.
//!
//! **Which messages.** One in `M` is marked, by its number: those that are `M - 1` modulo `M`, and the first after a gap
//! that has swallowed such a one. So nothing has to be agreed on or remembered: a new primary, or one that has
//! just heard of the stream, marks the same messages, and where it does not know which number came last, it takes what is
//! missing for a gap. Between two marks `M - 1` messages are covered by nothing but their dispatch, and `M - 1 ≤ L`. A mark
//! that is settled needs no copy, whatever has become of older messages: it is not lost, and that ends a run of losses.
//!
//! **Which not.** A message that comes again, out of order, faster than its period or with an earlier creation time than
//! one before is copied as eagerly as ever, marked or not: a job in the queue. There are few of those, and here deadlines
//! may be taken to ascend within a stream.
//!
//! **How.** The heap has one entry for each stream at most, for the oldest mark that was not settled when it was looked at;
//! the later ones are in the stream's ring anyway. When an entry is due, its message is copied or given up,
//! and the stream goes back with its next mark that is not settled. Each message is passed once, so that a message costs a
//! few comparisons, and the heap is touched about once in `D^r` per stream.
//!
//! **What a copy takes.** `C_r` is stated (`replication.budget`), and seen: from when a copy was due to begin until it has left, the host's
//! own lateness included, of which the 99th percentile counts. Where that is more than what is stated, the admin is told what to state.
//!
//! **The invariant.** While there is a backup, each mark that is neither settled nor copied has its stream in the heap, due no
//! later than the mark itself. Who joins is copied everything that is not settled ([`Steps::copy_again`]), so the heap begins
//! empty with every backup and means nothing without one.
//!
//! Left to others: the deadlines and `M` (`contract::Lazy`), that all copies fit the budget at once (`contract::Admission`),
//! and pruning what is settled after its copy has left (`run.rs`).

use crate::membership::pair::Pair;
use crate::outputs::Outputs;
use crate::settings::Replication;
use crate::steps::Steps;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::copying::{Copying, UNARMED};
use crate::store::ring::SlotFlags;
use crate::store::table::{Stream, Topic};
use crate::watch::TELL_EVERY;
use crate::watch::events::Event;
use contract::{Lazy, Mutant, Span, StreamId, Ticket, Time, invariant};
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message that has just been stored.
pub(crate) struct Arrival {
    pub(crate) index: StreamId,
    pub(crate) ticket: Ticket,
    pub(crate) seq: u64,
    /// The number that would have come next.
    pub(crate) expected: u64,
    /// From when its deadlines are counted.
    pub(crate) released: Time,
}

/// A stream's next copy, by when it is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: Time,
    stream: StreamId,
    ticket: Ticket,
}

/// The next copies of all streams.
#[derive(Clone)]
pub(crate) struct LazyCopies {
    heap: BinaryHeap<Reverse<Entry>>,
    window: Span,
    /// While a batch is under way, everything that is due until then belongs to it.
    batch: Option<Time>,
    /// The baseline that copies in rounds: the time between two.
    period: Option<Span>,
    round_at: Time,
    /// The stream with which a round goes on.
    round: Option<u32>,
    action: Action,
}

/// How long it takes from when a copy is due to begin until it has left, of late.
#[derive(Clone)]
pub(crate) struct Action {
    /// When the first copy was due of those that were made in this turn; [`Time::NEVER`]: none was.
    due: Time,
    /// In microseconds, of the last turns with copies.
    took: Histogram<u32>,
    /// The 99th percentile of as many before.
    p99: Option<Span>,
    /// The same, until it was compared with what is stated.
    new: Option<Span>,
    told: Time,
}

/// Turns with copies of which one percentile is made.
const ACTIONS: u64 = 1_000;
/// What takes longer counts as so long.
const ACTION_MAX: Span = Span::secs(60);

impl Default for Action {
    fn default() -> Action {
        let highest = ACTION_MAX.as_nanos_u64() / 1_000;
        let took = Histogram::new_with_bounds(1, highest, 2).expect("invariant: constant bounds are valid");
        Action { due: Time::NEVER, took, p99: None, new: None, told: Time::ZERO }
    }
}

impl Action {
    /// A copy is made that was due then, or goes along with others.
    fn begin(&mut self, due: Time, now: Time) {
        self.due = self.due.min(due).min(now);
    }

    /// Everything that was written has left.
    pub(crate) fn left(&mut self, now: Time) {
        let due = std::mem::replace(&mut self.due, Time::NEVER);
        if due == Time::NEVER {
            return;
        }
        self.took.saturating_record(now.since(due).as_nanos_u64() / 1_000);
        if self.took.len() >= ACTIONS {
            self.p99 = Some(Span::micros(self.took.value_at_quantile(0.99) as i64));
            self.new = self.p99;
            self.took.reset();
        }
    }
}

impl LazyCopies {
    pub(crate) fn new(replication: Replication) -> LazyCopies {
        let period = match replication {
            Replication::Periodic { period, .. } => Some(period.max(PERIOD_MIN)),
            _ => None,
        };
        LazyCopies {
            heap: BinaryHeap::new(),
            window: replication.lazy().map_or(Span::ZERO, |lazy| lazy.window),
            batch: None,
            period,
            round_at: Time::ZERO,
            round: None,
            action: Action::default(),
        }
    }

    /// See [`Action`].
    pub(crate) fn action(&mut self) -> &mut Action {
        &mut self.action
    }

    /// What a copy takes from when it is due to begin until it has left, at the 99th percentile of a thousand. Zero: too few were made.
    pub(crate) fn action_p99(&self) -> Span {
        self.action.p99.unwrap_or(Span::ZERO)
    }

    /// Makes room for so many streams, so that nothing is allocated while messages flow. Streams that have gone may still be
    /// in the heap.
    pub(crate) fn expect(&mut self, streams: usize) {
        self.heap.reserve((2 * streams).saturating_sub(self.heap.len()));
    }

    /// Takes care of a message's copy, if it is copied lazily: marks it, or leaves it out. `false` if it has to be planned
    /// as a job.
    pub(crate) fn takes(&mut self, stream: &mut Stream, topic: &Topic, arrival: &Arrival) -> bool {
        let Some(plan) = topic.plan.lazy.filter(|_| arrival.seq >= arrival.expected) else { return false };
        let every = u64::from(plan.every) + u64::from(Mutant::MarkFewer.is_on());
        if (arrival.seq + 1) / every == arrival.expected / every {
            return true;
        }
        let due = arrival.released + plan.start;
        let Stream { copying, ring, .. } = stream;
        if copying.armed != UNARMED && due < copying.latest {
            return false;
        }
        let Some(slot) = ring.slot_mut(arrival.ticket) else {
            return invariant!("a message that was just stored is there", false);
        };
        let after = arrival.released.since(slot.created).0.div_euclid(1_000);
        slot.released_after = after.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        slot.marked = true;
        copying.latest = due;
        if copying.armed == UNARMED {
            copying.armed = arrival.ticket.0.into();
            self.heap.push(Reverse(Entry { due, stream: arrival.index, ticket: arrival.ticket }));
        }
        true
    }

    /// When something has to be done.
    fn next(&self) -> Time {
        if self.period.is_some() {
            return if self.round.is_some() { Time::ZERO } else { self.round_at };
        }
        let Some(Reverse(next)) = self.heap.peek() else { return Time::NEVER };
        if self.batch.is_some_and(|until| next.due <= until) { Time::ZERO } else { next.due }
    }

    /// The next copy that must begin by now, or belongs to the batch that is under way.
    fn pop(&mut self, now: Time) -> Option<Entry> {
        let until = self.batch.map_or(now, |until| until.max(now));
        let Some(entry) = self.heap.peek().map(|Reverse(entry)| *entry).filter(|entry| entry.due <= until)
        else {
            self.batch = None;
            return None;
        };
        self.heap.pop();
        Some(entry)
    }
}

/// The shortest time between two rounds.
const PERIOD_MIN: Span = Span::micros(100);

impl Work {
    /// When the next copy must begin, if there is anybody to copy to.
    pub(crate) fn next_copy(&self, pair: &Pair) -> Time {
        if pair.backup().is_some() { self.lazy.next() } else { Time::NEVER }
    }
}

impl Steps<'_> {
    /// Nobody has been copied anything yet, or nobody is there to be.
    pub(crate) fn forget_lazy_copies(&mut self, now: Time) {
        self.flow.work.lazy.heap.clear();
        (self.flow.work.lazy.batch, self.flow.work.lazy.round) = (None, None);
        self.flow.work.lazy.round_at = now + self.flow.work.lazy.period.unwrap_or_default();
        for stream in self.flow.store.table.streams.iter_mut().flatten() {
            stream.copying = Copying { looked: stream.ring.next_ticket(), ..Copying::default() };
        }
    }

    /// Makes the copies that must begin by now, and those that go along, at most so many at a time. Returns how many
    /// were looked at.
    pub(crate) fn copy_what_is_due(&mut self, now: Time, budget: usize, out: &mut impl Outputs) -> usize {
        if self.flow.work.next_copy(self.pair) > now {
            return 0;
        }
        if let Some(period) = self.flow.work.lazy.period {
            return self.copy_round(now, period, budget, out);
        }
        for done in 0..budget {
            let Some(entry) = self.flow.work.lazy.pop(now) else { return done };
            // It may have ended, and another stream, or another life of it, may have taken its place.
            let Some(stream) = self.flow.store.table.stream(entry.stream) else { continue };
            if stream.copying.armed != u64::from(entry.ticket.0) {
                continue;
            }
            let copies = !Mutant::GiveCopiesUp.is_on();
            if copies && self.replicate(now, entry.stream, entry.ticket, out) {
                self.flow.work.lazy.action.begin(entry.due, now);
                if self.flow.work.lazy.batch.is_none() {
                    self.flow.work.lazy.batch = Some(now + self.flow.work.lazy.window);
                    self.flow.stats.batches += 1;
                }
            }
            self.arm_with_next(now, entry);
        }
        budget
    }

    /// Puts a stream back into the heap with its next mark that needs a copy.
    fn arm_with_next(&mut self, now: Time, last: Entry) {
        let Steps { flow: Flow { store: Store { table, .. }, work: Work { lazy, .. }, .. }, .. } = self;
        let Some((stream, topic)) = table.pair_mut(last.stream) else {
            return invariant!("a stream that was just copied is there");
        };
        let Stream { copying, ring, .. } = stream;
        let done = SlotFlags::DISPATCHED.or(SlotFlags::REPLICATED);
        let mut later = ring.tickets_from(last.ticket.after(1));
        let next = later.find_map(|ticket| {
            let slot = ring.slot(ticket).filter(|slot| slot.marked && !slot.flags.has(done))?;
            Some((ticket, slot.created + Span::micros(slot.released_after.into())))
        });
        copying.armed = UNARMED;
        if let Some(((ticket, released), plan)) = next.zip(topic.plan.lazy) {
            copying.armed = ticket.0.into();
            // It has arrived, so it cannot be counted from later than now, whatever its publisher's clock says.
            let due = released.min(now) + plan.start;
            lazy.heap.push(Reverse(Entry { due, stream: last.stream, ticket }));
        }
    }

    /// Tells where copies take longer than is counted with.
    pub(crate) fn tell_slow_copying(&mut self, now: Time, out: &mut impl Outputs) {
        let Some(Lazy { budget, .. }) = self.settings.replication.lazy() else { return };
        let Action { new, told, .. } = &mut self.flow.work.lazy.action;
        *told = (*told).min(now);
        if now < *told + TELL_EVERY {
            return;
        }
        let Some(takes) = new.take().filter(|takes| *takes > budget) else { return };
        *told = now;
        out.report(&Event::CopyingSlow { takes, budget });
    }

    /// The baseline that copies in rounds: everything that has arrived since the last one.
    fn copy_round(&mut self, now: Time, period: Span, budget: usize, out: &mut impl Outputs) -> usize {
        let first = self.flow.work.lazy.round.take().unwrap_or_else(|| {
            self.flow.stats.batches += 1;
            // A round that took too long is not made up for.
            self.flow.work.lazy.round_at = (self.flow.work.lazy.round_at + period).max(now);
            0
        });
        let mut done = 0;
        for index in (first..self.flow.store.table.streams.len() as u32).map(StreamId) {
            if done >= budget {
                self.flow.work.lazy.round = Some(index.0);
                break;
            }
            // There need not be a stream at each place.
            let Some(stream) = self.flow.store.table.stream_mut(index) else { continue };
            let tickets = stream.ring.tickets_from(stream.copying.looked);
            stream.copying.looked = stream.ring.next_ticket();
            done += tickets.filter(|ticket| self.replicate(now, index, *ticket, out)).count();
        }
        done.min(budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_takes_is_counted_from_when_it_was_due_and_one_in_a_hundred_takes_longer() {
        let mut action = Action::default();
        let mut now = Time(1_000_000_000);
        action.left(now);
        assert_eq!(action.took.len(), 0, "no copy was made");
        for turn in 0..ACTIONS {
            assert_eq!(action.p99, None);
            let takes = Span::micros(if turn % 100 < 98 { 200 } else { 5_000 });
            now = now + Span::millis(10);
            // The host was late by some of it, and another copy went along.
            action.begin(now + Span::secs(1), now + takes);
            action.begin(now, now + takes);
            action.left(now + takes);
        }
        let p99 = action.p99.expect("a thousand copies were made");
        assert!(p99 >= Span::millis(5) && p99 < Span::micros(5_100), "{p99}");
        (0..ACTIONS).for_each(|_| {
            action.begin(now, now);
            action.left(now + Span::micros(100));
        });
        assert!(action.p99.is_some_and(|p99| p99 < Span::micros(110)), "what is long ago does not count");
    }
}
