//! A message's way through operators and back: given to them when it is dispatched, published again as results, and settled
//! when nothing of it is left.
//!
//! The problem: a message that is being processed is neither delivered nor lost, and the primary may die meanwhile. The
//! idea: the operators count as one more subscriber that confirms. A message is settled when all subscribers have it and
//! the operators have given its receipt back, which they do when every result made of it has been dispatched. Until then its
//! copy or its publisher covers it, and a new primary processes it again. So results need no copies of their own.
//!
//! A result has the number of the message that it stands for, so a subscriber recognises one that is made again.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::arrive::CLOCK_AHEAD_MAX;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::queue::JobKind;
use crate::store::ring::SlotFlags;
use crate::store::table::{Stream, Topic};
use contract::{Mutant, Receipt, Span, StreamId, Time, invariant};
use wire::{Concern, LinkId, Message, MessageFlags};

/// A message on its way to operators.
#[derive(Clone, Copy, Debug)]
pub struct Processed<'a> {
    /// What comes back, through [`Broker::processed`](crate::Broker::processed).
    pub receipt: Receipt,
    /// The incarnation of its publisher.
    pub incarnation: u64,
    /// It.
    pub message: &'a Message<'a>,
}

/// A result on its way to subscribers.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The number of the output.
    pub output: u32,
    /// Its topic.
    pub topic: &'a str,
    /// The shortest time between two results.
    pub period: Span,
    /// When it is due, counted from `created`.
    pub deadline: Span,
    /// Why some messages have no result, in words; `None` if every message has one, so that a missing number is a loss.
    pub gaps: Option<&'a str>,
    /// The stream of the message that it stands for, its incarnation, and the message's number.
    pub stream: StreamId,
    /// See `processing`.
    pub incarnation: u64,
    /// See `processing`.
    pub seq: u64,
    /// When the newest message that it is made of was created.
    pub created: Time,
    /// What is wrong with it in time.
    pub flags: MessageFlags,
    /// What it carries.
    pub payload: &'a [u8],
    /// What is to be released when it has been dispatched.
    pub lineage: u32,
}

impl Steps<'_> {
    /// A result goes into its stream. `false`: it is not published, and its lineage need not be kept.
    pub(crate) fn publish_result(
        &mut self,
        now: Time,
        index: StreamId,
        result: &Outcome<'_>,
        out: &mut impl Outputs,
    ) -> bool {
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a stream of results was found or made", false);
        };
        if result.seq < stream.next_seq && stream.ring.find(result.seq).is_some() {
            self.flow.stats.duplicates += 1;
            return false;
        }
        if !self.flow.work.queue.has_room() {
            self.flow.stats.overrun += 1;
            stream.lose(now, 1, topic, &mut self.flow.stats, out);
            return false;
        }
        if !stream.ring.has_room(result.payload.len())
            && let Err(shortage) = self.find_room(now, index, result.payload.len(), out)
        {
            self.lose_for_memory(now, index, shortage, out);
            return false;
        }
        // What is made of a message that was sent again after a failover may be late as that is.
        let again = self.is_again(result.stream, result.seq);
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("making room ends no stream", false);
        };
        self.flow.stats.results += 1;
        stream.next_seq = stream.next_seq.max(result.seq.saturating_add(1));
        let (ticket, old) = stream.ring.push(result.seq, result.created, result.payload, again, result.flags);
        match stream.ring.slot_mut(ticket) {
            Some(slot) => slot.lineage = result.lineage,
            None => invariant!("a result that was just stored is there"),
        }
        if !old.flags.has(SlotFlags::DISPATCHED.or(SlotFlags::OFFERED)) {
            self.flow.stats.overrun += 1;
            stream.lose(now, 1, topic, &mut self.flow.stats, out);
        }
        if let Some(lineage) = old.lineage() {
            out.release(lineage);
        }
        let deadline = result.created + topic.plan.pseudo.dispatch;
        self.flow.work.queue.push(JobKind::Dispatch, deadline, topic.contract.priority, index, ticket);
        true
    }

    /// The flag of a result of this message.
    fn is_again(&self, stream: StreamId, seq: u64) -> SlotFlags {
        let slot =
            self.flow.store.table.stream(stream).and_then(|stream| stream.ring.slot(stream.ring.find(seq)?));
        let again = slot.is_some_and(|slot| slot.flags.has(SlotFlags::RESENT.or(SlotFlags::COPY)));
        if again { SlotFlags::RESENT } else { SlotFlags::NONE }
    }

    /// No picture could be taken of what operators remember whose results are on these topics: a crash would take it away.
    pub(crate) fn endanger_results(&mut self, now: Time, topics: &[String]) {
        for topic in topics {
            // Where no result has come yet, there is nothing to endanger.
            let Some(index) = self.flow.store.table.find_topic(topic) else { continue };
            let Some(topic) = self.flow.store.table.topic(index) else {
                invariant!("a topic that was found by its name is there");
                continue;
            };
            for stream in topic.streams.clone() {
                match self.flow.store.table.stream_mut(stream) {
                    Some(stream) => stream.record.troubles.endanger(now, Concern::Forgets),
                    None => invariant!("a topic's streams are there"),
                }
            }
        }
    }

    /// A copy of what operators remember, made of messages of these streams in these lives, has been sent to the backup on this link.
    pub(crate) fn count_memory(&mut self, backup: LinkId, bytes: usize, streams: &[(StreamId, u64)]) {
        debug_assert!(
            streams.iter().all(|(stream, incarnation)| {
                let there = self.flow.store.table.stream(*stream);
                let ended = there.is_none_or(|there| there.record.incarnation != *incarnation);
                ended
                    || self.flow.store.links.get(backup).is_some_and(|link| link.announced.contains(*stream))
            }),
            "the backup cannot understand what is remembered of a stream that it has not been told of"
        );
        self.flow.stats.memories += 1;
        self.flow.stats.memory_bytes += bytes as u64;
    }

    /// Operators are done with a message, and all its results have been dispatched.
    pub(crate) fn processed(&mut self, receipt: Receipt, out: &mut impl Outputs) {
        if !self.pair.is_primary() || receipt.round != self.flow.work.round {
            return;
        }
        // Operators may take so long that the stream has ended, or the message has been overwritten.
        let Some(stream) = self.flow.store.table.stream_mut(receipt.stream) else { return };
        let Some(slot) = stream.ring.slot_mut(receipt.ticket) else { return };
        slot.clear(SlotFlags::PROCESSING);
        if slot.is_complete() {
            self.settle(receipt.stream, receipt.ticket, out);
            self.flow.work.finished.add(receipt.stream, receipt.ticket);
        }
    }

    /// This broker does not reign any more: what operators have is dispatched again, here or where it is forwarded to. What
    /// they still make of it is not published.
    pub(crate) fn take_back_unprocessed(&mut self, out: &mut impl Outputs) {
        self.flow.work.round = self.flow.work.round.wrapping_add(1);
        let streams: Vec<StreamId> = self.flow.store.table.streams().map(|(index, _)| index).collect();
        for index in streams {
            let Steps { flow: Flow { store: Store { table, .. }, work: Work { queue, .. }, .. }, .. } = self;
            let Some((stream, topic)) = table.pair_mut(index) else {
                invariant!("a stream that was listed is there");
                continue;
            };
            for ticket in stream.ring.tickets() {
                let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
                if let Some(lineage) = slot.take_lineage() {
                    out.release(lineage);
                    // It would be taken for a duplicate of the one that is made again.
                    slot.forget();
                } else if slot.flags.has(SlotFlags::PROCESSING) {
                    slot.clear(SlotFlags::PROCESSING);
                    slot.clear(SlotFlags::OFFERED);
                    let deadline = slot.created + topic.plan.pseudo.dispatch;
                    queue.push(JobKind::Dispatch, deadline, topic.contract.priority, index, ticket);
                }
            }
        }
    }
}

impl Topic {
    /// Whether operators that it feeds remember.
    pub(crate) fn remembers(&self) -> bool {
        self.processing.is_some_and(|processing| processing.remembers)
    }

    /// Gives a message to the operators that its topic feeds. Returns whether they have it.
    pub(crate) fn process(
        &self,
        now: Time,
        receipt: Receipt,
        stream: &Stream,
        again: bool,
        message: &Message<'_>,
        out: &mut impl Outputs,
    ) -> Option<bool> {
        let processing = self.processing?;
        if again && Mutant::ForgetUnprocessed.is_on() {
            return None;
        }
        // What comes from the future is as new as anything can be. (It has been counted when it arrived.)
        let message = &Message { created: message.created.min(now + CLOCK_AHEAD_MAX), ..*message };
        let processed = Processed { receipt, incarnation: stream.record.incarnation, message };
        let given = out.process(processing.handle, &processed);
        Some(given && !Mutant::SettleUnprocessed.is_on())
    }
}

#[cfg(test)]
pub(crate) mod tests;
