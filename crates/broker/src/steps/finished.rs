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
//! Where operators remember, a backup that has just come hears of these messages before it hears what operators remember of
//! them. Until it has been told everything it keeps them as [`UNTOLD`](SlotFlags::UNTOLD): should it have to reign before that,
//! its own operators have to see them.
//!
//! Source: the delivered numbers that ride on batches (ARREC §4.5.2).

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::announce::announce;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::ring::{Slot, SlotFlags};
use crate::store::table::Stream;
use contract::{Mutant, StreamId, Ticket, Time, invariant};
use std::collections::BTreeSet;
use wire::{Mark, MarkKind, MessageFlags};

/// Messages that may wait to be told; more are not told.
const NEWS_MAX: usize = 4_096;

/// What is known of messages that operators are done with.
#[derive(Clone, Default)]
pub(crate) struct Finished {
    /// Those of which the backup has not heard: streams and tickets.
    news: Vec<(StreamId, Ticket)>,
    /// On a backup: the streams that may have messages that are [`UNTOLD`](SlotFlags::UNTOLD).
    pub(crate) untold: BTreeSet<StreamId>,
}

impl Finished {
    /// Nothing is allocated while messages flow.
    pub(crate) fn new() -> Finished {
        Finished { news: Vec::with_capacity(NEWS_MAX), untold: BTreeSet::new() }
    }

    /// Operators are done with this message.
    pub(crate) fn add(&mut self, stream: StreamId, ticket: Ticket) {
        if self.news.len() < NEWS_MAX {
            self.news.push((stream, ticket));
        }
    }
}

impl Steps<'_> {
    /// Tells the backup of processed messages that their publishers still retain.
    pub(crate) fn tell_finished(&mut self, out: &mut impl Outputs) {
        let partner = self.pair.backup().map(|partner| partner.link);
        let tells = self.settings.policy.coordinates() && self.settings.replication.keeps_contracts();
        let Steps {
            flow: Flow { store: Store { table, links, .. }, work: Work { finished, .. }, .. }, ..
        } = self;
        let Some(partner) = partner.filter(|_| tells) else { return finished.news.clear() };
        let Some(state) = links.get_mut(partner) else { return invariant!("a backup has a link") };
        for (index, ticket) in finished.news.drain(..) {
            // The stream may have ended since.
            let Some((stream, topic)) = table.pair_mut(index) else { continue };
            let is_new = |slot: &&Slot| {
                let done = slot.flags.has(SlotFlags::DISPATCHED) || Mutant::FinishEarly.is_on();
                done && !slot.flags.has(SlotFlags::PRUNED)
            };
            let Some(&Slot { seq, .. }) = stream.ring.slot(ticket).filter(is_new) else { continue };
            if !is_retained(seq, stream.next_seq, topic.contract.retain) {
                continue;
            }
            announce(state, partner, index, stream, topic, Stream::next_seq, out);
            out.send_mark(partner, MarkKind::Prune, Mark { stream: index.0, seq });
            match stream.ring.slot_mut(ticket) {
                Some(slot) => slot.set(SlotFlags::PRUNED),
                None => invariant!("naming a stream takes no message away"),
            }
        }
    }

    /// The primary says that it is done with a message of which there is no copy here. If its publisher may send it again,
    /// and nothing that is needed would have to give way, the number is kept.
    pub(crate) fn remember_finished(&mut self, index: StreamId, seq: u64) {
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a number on a link means a stream that is there");
        };
        let needed = |slot: &Slot| {
            slot.is_kept() && (!slot.flags.has(SlotFlags::DISPATCHED) || slot.flags.has(SlotFlags::UNTOLD))
        };
        let crowded = stream.ring.oldest().is_some_and(needed);
        if crowded || seq == u64::MAX || !is_retained(seq, stream.next_seq, topic.contract.retain) {
            return;
        }
        let untold = self.pair.is_being_told() && topic.remembers();
        let flags = if untold { SlotFlags::DISPATCHED.or(SlotFlags::UNTOLD) } else { SlotFlags::DISPATCHED };
        stream.next_seq = stream.next_seq.max(seq + 1);
        stream.keep(seq, Time::ZERO, &[], flags, MessageFlags::NONE);
        if untold {
            self.flow.work.finished.untold.insert(index);
        }
    }

    /// This backup has been told what operators remember: what the primary was done with before need not come to its own operators.
    pub(crate) fn trust_finished(&mut self) {
        for index in std::mem::take(&mut self.flow.work.finished.untold) {
            // Streams end without a word here.
            let Some(stream) = self.flow.store.table.stream_mut(index) else { continue };
            stream.ring.slots_mut().for_each(|slot| slot.clear(SlotFlags::UNTOLD));
        }
    }
}

/// Whether a publisher of `retain` messages may have this one yet, of which the next will be `next`.
fn is_retained(seq: u64, next: u64, retain: u32) -> bool {
    seq.saturating_add(retain.into()) >= next
}
