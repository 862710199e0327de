//! What a new primary need not process again.
//!
//! The problem: after a failover publishers send again what they retain, and most of that has been processed, with results
//! that everybody has. Subscribers know duplicates, so doing it again harms nobody; but it costs processor time just when
//! everything else is late. Of messages that were copied the backup hears anyway; lazily, few are.
//!
//! The idea: with each answer to a poll the backup is told which retained messages operators are done with, as if they had
//! copies to be pruned. It keeps the number and no payload, and takes the message for a duplicate when it comes again.
//! Nothing depends on it: what is not told, or finds no room, is processed once more.
//!
//! Source: the delivered numbers that ride on batches (ARREC, 4.5.2).

use crate::broker::{Broker, Outputs};
use crate::register;
use crate::ring::{Slot, SlotFlags};
use crate::table::Stream;
use contract::{Mutant, Time};
use wire::{Mark, MarkKind, MessageFlags};

/// Messages that may wait to be told; more are not told.
const UNTOLD_MAX: usize = 4_096;

/// Messages that operators are done with and the backup has not heard of: streams and tickets.
#[derive(Clone, Default)]
pub(crate) struct Finished(Vec<(u32, u32)>);

impl Finished {
    /// Nothing is allocated while messages flow.
    pub(crate) fn new() -> Finished {
        Finished(Vec::with_capacity(UNTOLD_MAX))
    }

    /// Operators are done with this message.
    pub(crate) fn add(&mut self, stream: u32, ticket: u32) {
        if self.0.len() < UNTOLD_MAX {
            self.0.push((stream, ticket));
        }
    }
}

impl Broker {
    /// Tells the backup of processed messages that their publishers still retain.
    pub(crate) fn tell_finished(&mut self, out: &mut impl Outputs) {
        let partner = self.pair.backup().map(|partner| partner.link);
        let tells = self.settings.policy.coordinates() && self.settings.replication.keeps_contracts();
        let Broker { table, links, finished, .. } = self;
        let Some(partner) = partner.filter(|_| tells) else { return finished.0.clear() };
        let Some(state) = links.get_mut(partner) else { return };
        for (index, ticket) in finished.0.drain(..) {
            let Some((stream, topic)) = table.pair_mut(index) else { continue };
            let is_new = |slot: &&Slot| {
                let done = slot.flags.has(SlotFlags::DISPATCHED) || Mutant::FinishEarly.is_on();
                done && !slot.flags.has(SlotFlags::PRUNED)
            };
            let Some(&Slot { seq, .. }) = stream.ring.slot(ticket).filter(is_new) else { continue };
            if !is_retained(seq, stream.next_seq, topic.contract.retain) {
                continue;
            }
            register::announce(state, partner, index, stream, topic, Stream::next_seq, out);
            out.send_mark(partner, MarkKind::Prune, Mark { stream: index, seq });
            if let Some(slot) = stream.ring.slot_mut(ticket) {
                slot.set(SlotFlags::PRUNED);
            }
        }
    }

    /// The primary says that it is done with a message of which there is no copy here. If its publisher may send it again,
    /// and nothing that is needed would have to give way, the number is kept.
    pub(crate) fn remember_finished(&mut self, index: u32, seq: u64) {
        let Some((stream, topic)) = self.table.pair_mut(index) else { return };
        let needed = |slot: &Slot| {
            let ours = slot.flags.has(SlotFlags::COPY.or(SlotFlags::FORWARDED));
            ours && !slot.flags.has(SlotFlags::DISPATCHED)
        };
        let crowded = stream.ring.oldest().is_some_and(needed);
        if crowded || seq == u64::MAX || !is_retained(seq, stream.next_seq, topic.contract.retain) {
            return;
        }
        stream.next_seq = stream.next_seq.max(seq + 1);
        stream.keep(seq, Time::ZERO, &[], SlotFlags::DISPATCHED, MessageFlags::NONE);
    }
}

/// Whether a publisher of `retain` messages may have this one yet, of which the next will be `next`.
fn is_retained(seq: u64, next: u64, retain: u32) -> bool {
    seq.saturating_add(retain.into()) >= next
}
