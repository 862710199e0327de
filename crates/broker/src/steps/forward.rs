//! What reaches a broker that does not reign goes on to the one that does.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::store::queue::Job;
use crate::store::ring::SlotFlags;
use crate::store::table::{Stream, Topic};
use contract::{Mutant, StreamId, Ticket, invariant};
use wire::{LinkId, Message, MessageFlags, MessageKind};

impl Steps<'_> {
    /// Sends a message on to the broker that reigns.
    pub(crate) fn forward(&mut self, link: LinkId, job: Job, out: &mut impl Outputs) {
        self.forward_slot(link, job.stream, job.ticket, out);
    }

    /// The same for one that was offered to its subscribers but is not settled.
    pub(crate) fn forward_slot(
        &mut self,
        link: LinkId,
        index: StreamId,
        ticket: Ticket,
        out: &mut impl Outputs,
    ) {
        // The queue is not searched when a stream ends, nor when a message is overwritten.
        let Some(stream) = self.flow.store.table.stream(index) else { return };
        let Some(slot) = stream.ring.slot(ticket) else { return };
        // A result is made again where the messages go that it is made of.
        if slot.flags.has(SlotFlags::DISPATCHED)
            || stream.record.made_of.is_some()
            || slot.flags.has(SlotFlags::FORWARDED)
            || Mutant::DropStrays.is_on()
        {
            return;
        }
        self.announce(link, index, out);
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("naming a stream does not end it");
        };
        let Some((slot, payload)) = stream.ring.message(ticket) else {
            return invariant!("naming a stream takes no message away");
        };
        let (seq, created) = (slot.seq, slot.created);
        let flags = MessageFlags::RESEND.with(slot.marks.only(MessageFlags::TRUTHS));
        let message = Message { stream: index.0, flags, seq, created, payload };
        out.send_message(link, MessageKind::Forward, &message);
        self.flow.stats.forwarded += 1;
        let Some(slot) = stream.ring.slot_mut(ticket) else {
            return invariant!("a message that was just forwarded is there");
        };
        slot.set(SlotFlags::FORWARDED);
        if Mutant::SettleForwarded.is_on() {
            slot.set(SlotFlags::DISPATCHED);
        }
        self.flow.work.forwarded_after_poll = Some(self.pair.poll_number());
        // The successor has it, and what its publisher is told goes there as well.
        self.answer(index, ticket, out);
    }

    /// What has been offered and does not count as dispatched. Where copies are eager, the backup has those that
    /// wait for a slow subscriber, and only confirmed topics matter; lazily, it may have none of them.
    pub(crate) fn forward_unconfirmed(&mut self, to: LinkId, out: &mut impl Outputs) {
        let confirmed = |(index, _): (StreamId, &Stream)| {
            let waits = |topic: &Topic| topic.confirms() || topic.plan.lazy.is_some();
            self.flow.store.table.pair(index).is_some_and(|(_, topic)| waits(topic)).then_some(index)
        };
        let streams: Vec<StreamId> = self.flow.store.table.streams().filter_map(confirmed).collect();
        for index in streams {
            let Some(stream) = self.flow.store.table.stream(index) else {
                invariant!("a stream that was listed is there");
                continue;
            };
            for ticket in stream.ring.tickets() {
                self.forward_slot(to, index, ticket, out);
            }
        }
    }
}
