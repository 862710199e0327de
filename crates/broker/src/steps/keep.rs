//! What a backup does with copies: it keeps them until it hears that they are needless, and dispatches them if it comes to reign.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::queue::JobKind;
use crate::store::ring::SlotFlags;
use contract::{Mutant, StreamId, Time, invariant};
use wire::{LinkId, Marks, Message, MessageFlags, Messages};

impl Steps<'_> {
    /// Copies from the primary, or what it had not dispatched when it handed over.
    pub(crate) fn keep_copies(
        &mut self,
        now: Time,
        from: LinkId,
        messages: Messages<'_>,
        out: &mut impl Outputs,
    ) {
        if self.pair.primary_link() != Some(from) {
            return;
        }
        for message in messages {
            if let Some(index) = self.stream_on(from, message.stream) {
                self.keep_copy(now, index, &message, out);
            }
        }
    }

    /// Our stream for the primary's number. It may name none: one that this backup could not take, or that has ended here.
    fn stream_on(&self, from: LinkId, number: u32) -> Option<StreamId> {
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("a primary has a link", None);
        };
        link.stream(number)
    }

    pub(crate) fn keep_copy(
        &mut self,
        now: Time,
        index: StreamId,
        message: &Message<'_>,
        out: &mut impl Outputs,
    ) {
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a number on a link means a stream that is there");
        };
        if message.seq == u64::MAX {
            return;
        }
        let truths = message.flags.only(MessageFlags::TRUTHS);
        let found = stream.ring.find(message.seq).and_then(|ticket| stream.ring.slot_mut(ticket));
        // What a primary copies it is not done with, whatever one before it was.
        if let Some(slot) = found
            && slot.doubt()
        {
            // It came here before, when we reigned or forwarded it. Now it is the primary's, and we keep it for that.
            slot.set(SlotFlags::COPY);
            slot.clear(SlotFlags::OFFERED);
            slot.clear(SlotFlags::FORWARDED);
            return;
        }
        if !stream.ring.has_room(message.payload.len())
            && let Err(shortage) = self.find_room(now, index, message.payload.len(), out)
        {
            self.lose_for_memory(now, index, shortage, out);
            return;
        }
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("making room ends no stream");
        };
        self.flow.stats.copies_kept += 1;
        stream.next_seq = stream.next_seq.max(message.seq.saturating_add(1));
        stream.keep(message.seq, message.created, message.payload, SlotFlags::COPY, truths);
    }

    /// Copies that the primary has dispatched.
    pub(crate) fn prune(&mut self, from: LinkId, marks: Marks<'_>) {
        if self.pair.primary_link() != Some(from) || Mutant::IgnorePrunes.is_on() {
            return;
        }
        for mark in marks {
            if let Some(index) = self.stream_on(from, mark.stream) {
                self.be_done_with(index, mark.seq);
            }
        }
    }

    /// The primary is done with a message.
    pub(crate) fn be_done_with(&mut self, index: StreamId, seq: u64) {
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a number on a link means a stream that is there");
        };
        // A prune follows its copy on the same connection. Where there is no copy, there never was, or newer ones have
        // overwritten it.
        let copy = stream.ring.find(seq).and_then(|ticket| stream.ring.slot_mut(ticket));
        let Some(copy) = copy else { return self.remember_finished(index, seq) };
        if !copy.flags.has(SlotFlags::DISPATCHED) && self.pair.is_being_told() && topic.remembers() {
            copy.set(SlotFlags::UNTOLD);
            self.flow.work.finished.untold.insert(index);
        }
        copy.set(SlotFlags::DISPATCHED);
        self.flow.stats.pruned += 1;
    }

    /// Plans a dispatch for every copy that has not been pruned, and for every message that was forwarded to a primary
    /// which may have died with it. Deadlines that have passed keep their value, so the
    /// oldest go first.
    pub(crate) fn plan_copies(&mut self, now: Time) -> u64 {
        let Steps {
            flow: Flow { store: Store { table, .. }, work: Work { queue, finished, .. }, .. },
            settings,
            ..
        } = self;
        let mut recovered = 0;
        if Mutant::KeepCopiesBack.is_on() {
            return recovered;
        }
        finished.untold.clear();
        let streams: Vec<StreamId> = table.streams().map(|(index, _)| index).collect();
        for index in streams {
            let Some((stream, topic)) = table.pair_mut(index) else {
                invariant!("a stream that was listed is there");
                continue;
            };
            stream.guess_next_seq(true);
            for ticket in stream.ring.tickets() {
                let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
                if !slot.doubt() {
                    continue;
                }
                let forwarded = slot.flags.has(SlotFlags::FORWARDED) && !Mutant::ForgetForwarded.is_on();
                let uncertain = slot.flags.has(SlotFlags::COPY) || forwarded;
                if !uncertain || slot.flags.has(SlotFlags::DISPATCHED) {
                    continue;
                }
                slot.clear(SlotFlags::FORWARDED);
                slot.clear(SlotFlags::OFFERED);
                slot.clear(SlotFlags::PROCESSING);
                let by_deadline = settings.policy.is_by_deadline();
                let deadline = if by_deadline { slot.created + topic.plan.pseudo.dispatch } else { now };
                queue.push(JobKind::Dispatch, deadline, topic.contract.priority, index, ticket);
                recovered += 1;
            }
        }
        recovered
    }
}
