//! The way of a plain message: one of which nothing has to be said. It is the next of its stream, in time, short, and takes the place
//! of one that all have had; it goes to one subscriber, which is there and has room. Nearly every message is so.
//!
//! Each step asks all that at once and does only what then is left to do, which saves a quarter of a message's instructions and more.
//! Whatever is not plain is left as it is, for [`Broker::store`] and [`Broker::run`]. **The invariant**: a plain message does to the
//! broker what it would do there, and nothing else (`plain/tests.rs` compares them, whatever comes).

use crate::broker::{Broker, Outputs};
use crate::lazy::Arrival;
use crate::queue::{Job, JobKind};
use crate::ring::{Slot, SlotFlags};
use crate::table::Topic;
use contract::{Span, Time};
use wire::{Message, MessageFlags, MessageKind};

/// What a plain message needs of its topic besides the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct PlainTerms {
    /// How long after its creation a message is to be dispatched.
    within: Span,
    /// The only one to whom messages go, and who need not confirm them; [`NOBODY`] where it is otherwise.
    receiver: u32,
    /// The class of contract that it is counted in.
    pub(crate) class: u32,
}

/// No session has this number.
const NOBODY: u32 = u32::MAX;

impl PlainTerms {
    /// Those of a topic of which only the class is known yet.
    pub(crate) fn new(class: u32) -> PlainTerms {
        PlainTerms { within: Span::ZERO, receiver: NOBODY, class }
    }

    /// As they are now.
    pub(crate) fn of(topic: &Topic) -> PlainTerms {
        let receiver = match *topic.subscribers {
            [only] if !topic.contract.confirm && !topic.has_others() => only,
            _ => NOBODY,
        };
        PlainTerms { within: topic.plan.pseudo.dispatch, receiver, class: topic.plain.class }
    }
}

impl Broker {
    /// Whether this broker keeps contracts, and reigns: others have more to do with each message.
    pub(crate) fn has_plain_messages(&self) -> bool {
        #[cfg(test)]
        if self.nothing_is_plain {
            return false;
        }
        let has_room = self.stored_bytes <= self.settings.limits.store_bytes;
        self.settings.policy.is_by_deadline() && self.pair.is_primary() && has_room
    }

    /// Stores a message and plans its jobs, if it is plain. `copied`: whether contracts that need copies have them made. `false`:
    /// nothing was done.
    #[inline]
    pub(crate) fn store_plain(&mut self, now: Time, index: u32, message: &Message<'_>, copied: bool) -> bool {
        let Broker { table, queue, lazy, stats, admission, .. } = self;
        let Some((stream, topic)) = table.pair_mut(index) else { return false };
        let contract = &topic.contract;
        let Message { flags, seq, created, payload, .. } = *message;
        let (Some(age), Some(step)) = (now.0.checked_sub(created.0), created.0.checked_sub(stream.created.0))
        else {
            return false;
        };
        // Creation may jitter by as much as the way to the broker is allowed to take.
        let least_step = (contract.period.0).wrapping_sub(admission.delays().publisher_to_broker.0);
        let in_time = age <= contract.deadline.as_nanos_u64()
            && (step as i64 >= least_step || contract.period.is_forever());
        let next = seq == stream.next_seq && seq != u64::MAX && !stream.next_seq_unknown;
        if !in_time || !next || flags != MessageFlags::NONE || !queue.has_room() {
            return false;
        }
        let Some(ticket) = stream.ring.push_plain(seq, created, payload) else { return false };
        stats.arrived += 1;
        stream.counters.arrived += 1;
        stream.next_seq = seq + 1;
        (stream.created, stream.released) = (created, created);
        queue.push(JobKind::Dispatch, created + topic.plain.within, contract.priority, index, ticket);
        if copied && topic.plan.replicate {
            let (due, priority) = (created + topic.plan.pseudo.replication, contract.priority);
            let arrival = Arrival { index, ticket, expected: seq, seq, released: created };
            if !lazy.takes(stream, topic, &arrival) {
                queue.push(JobKind::Replicate, due, priority, index, ticket);
            }
        }
        true
    }

    /// Pushes a message to its subscriber, if it is plain. `false`: nothing was done.
    #[inline]
    pub(crate) fn dispatch_plain(&mut self, now: Time, job: &Job, out: &mut impl Outputs) -> bool {
        let Broker { table, sessions, links, settings, stats, .. } = self;
        let Some((stream, topic)) = table.pair_mut(job.stream) else { return false };
        debug_assert_eq!(
            topic.plain,
            PlainTerms::of(topic),
            "what follows from a topic's terms is up to date"
        );
        let PlainTerms { within, receiver, .. } = topic.plain;
        let Some(session) = sessions.get(receiver).filter(|session| session.deferred.is_empty()) else {
            return false;
        };
        let Some(link) = session.link else { return false };
        if !links.get(link).is_some_and(|to| !to.closing && to.announced.contains(job.stream)) {
            return false;
        }
        let Some((slot, payload)) = stream.ring.plain(job.ticket) else { return false };
        let Slot { seq, created, .. } = *slot;
        let message = Message { stream: job.stream, flags: MessageFlags::NONE, seq, created, payload };
        if !out.offer_message(link, MessageKind::Deliver, &message, settings.limits.subscriber_backlog_bytes)
        {
            return false;
        }
        slot.set(SlotFlags::DISPATCHED);
        stats.dispatched += 1;
        stream.count_dispatch(now, created, Some(within), topic, stats, out);
        true
    }
}

#[cfg(test)]
mod tests;
