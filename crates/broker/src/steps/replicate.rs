//! The other half of step two: a message is copied to the backup, unless that is needless by then.

use crate::outputs::Outputs;
use crate::settings::Replication;
use crate::steps::Steps;
use crate::steps::announce::announce;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::queue::JobKind;
use crate::store::ring::SlotFlags;
use crate::store::table::Stream;
use contract::{StreamId, Ticket, Time, invariant};
use wire::{LinkId, Mark, MarkKind, Message, MessageFlags, MessageKind};

impl Steps<'_> {
    /// Copies a message to the backup, unless that is needless by now. Returns whether a copy was written.
    pub(crate) fn replicate(
        &mut self,
        now: Time,
        index: StreamId,
        ticket: Ticket,
        out: &mut impl Outputs,
    ) -> bool {
        let Some(partner) = self.pair.backup() else { return false };
        let Steps {
            flow: Flow { store: Store { table, links, .. }, work: Work { departures, .. }, stats },
            settings,
            ..
        } = self;
        // The queue is not searched when a stream ends, nor when a message is overwritten.
        let Some((stream, topic)) = table.pair_mut(index) else { return false };
        let Some((slot, payload)) = stream.ring.message(ticket) else { return false };
        let coordinates = settings.policy.coordinates() && settings.replication.skips_dispatched();
        let dispatched = slot.flags.has(SlotFlags::DISPATCHED) && coordinates;
        // Results are covered by the messages that they are made of.
        if dispatched || slot.flags.has(SlotFlags::REPLICATED) || stream.record.made_of.is_some() {
            return false;
        }
        let Some(state) = links.get_mut(partner.link) else {
            return invariant!("a backup has a link", false);
        };
        announce(state, partner.link, index, stream, topic, Stream::next_seq, out);
        let (seq, created) = (slot.seq, slot.created);
        let flags = slot.marks.only(MessageFlags::TRUTHS);
        let copy = Message { stream: index.0, flags, seq, created, payload };
        out.send_message(partner.link, MessageKind::Replicate, &copy);
        stats.replicated += 1;
        stats.replicated_bytes += payload.len() as u64;
        let due = created + topic.plan.pseudo.replication;
        if departures.overflow(index, created, true, due.since(now)) && settings.policy.is_by_deadline() {
            stream.judge_copy(now, created, topic, stats);
        }
        match stream.ring.slot_mut(ticket) {
            Some(slot) => slot.set(SlotFlags::REPLICATED),
            None => invariant!("a message that was just copied is there"),
        }
        self.answer(index, ticket, out);
        true
    }

    /// A backup has just been told of this stream. Copies of its messages that were dispatched while it was away, or before it understood
    /// a word of them, may still be there. Returns how many slots were looked at.
    pub(crate) fn prune_again(&mut self, index: StreamId, link: LinkId, out: &mut impl Outputs) -> usize {
        if !self.settings.policy.coordinates() {
            return 0;
        }
        // A backup is told of all places, and there need not be a stream at each.
        let Some(stream) = self.flow.store.table.stream_mut(index) else { return 0 };
        for ticket in stream.ring.tickets() {
            let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
            let kept = slot.flags.has(SlotFlags::REPLICATED) && !slot.flags.has(SlotFlags::PRUNED);
            if slot.flags.has(SlotFlags::DISPATCHED) && kept {
                slot.set(SlotFlags::PRUNED);
                self.flow.stats.pruned += 1;
                out.send_mark(link, MarkKind::Prune, Mark { stream: index.0, seq: slot.seq });
            }
        }
        stream.ring.slots()
    }

    /// The messages of a stream that a new backup must have: all that have not been dispatched.
    /// Returns how many slots were looked at.
    pub(crate) fn copy_again(&mut self, index: StreamId) -> usize {
        self.copy_undispatched(index, true)
    }

    /// The same of those that the backup does not have yet.
    pub(crate) fn copy_rest(&mut self, index: StreamId) -> usize {
        self.copy_undispatched(index, false)
    }

    fn copy_undispatched(&mut self, index: StreamId, anew: bool) -> usize {
        let everything = self.settings.copies_everything();
        // As above.
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else { return 0 };
        let copied = topic.plan.replicate || everything;
        let never =
            self.settings.replication == Replication::RetransmissionOnly || stream.record.made_of.is_some();
        if !copied || never {
            return 0;
        }
        let slots = stream.ring.slots();
        let tickets = stream.ring.tickets();
        for ticket in tickets {
            let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
            if anew && !slot.flags.has(SlotFlags::DISPATCHED) {
                slot.clear(SlotFlags::REPLICATED);
            }
            if slot.flags.has(SlotFlags::DISPATCHED.or(SlotFlags::REPLICATED)) {
                continue;
            }
            let deadline = slot.created + topic.plan.pseudo.replication;
            self.flow.work.queue.push(JobKind::Replicate, deadline, topic.contract.priority, index, ticket);
        }
        slots
    }
}
