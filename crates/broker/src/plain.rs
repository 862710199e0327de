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

/// All that a plain message needs of its topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct PlainTerms {
    /// The shortest time between two messages.
    period: Span,
    /// How long after its creation a message is to be dispatched.
    within: Span,
    receiver: Receiver,
    /// The class of contract that it is counted in.
    pub(crate) class: u32,
    /// Which of two equal deadlines goes first.
    priority: u8,
    /// Whether the contract needs copies.
    replicate: bool,
}

/// To whom messages go, where that is simple. So wide that the first cache line of a topic says as well whether there is one: where no
/// topic is, the table of topics has an impossible value here, the widest that it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Receiver {
    /// To several, to nobody, to somebody who has to confirm them, or not only to sessions.
    Others,
    /// To this session, and to nobody else.
    Only(u32),
}

impl PlainTerms {
    /// Those of a topic of which only the class is known yet.
    pub(crate) fn new(class: u32) -> PlainTerms {
        let (period, within) = (Span::FOREVER, Span::ZERO);
        PlainTerms { period, within, receiver: Receiver::Others, class, priority: 0, replicate: false }
    }

    /// As they are now.
    pub(crate) fn of(topic: &Topic) -> PlainTerms {
        let receiver = match *topic.subscribers {
            [only] if !topic.contract.confirm && !topic.has_others() => Receiver::Only(only),
            _ => Receiver::Others,
        };
        PlainTerms {
            period: topic.contract.period,
            within: topic.plan.pseudo.dispatch,
            receiver,
            class: topic.plain.class,
            priority: topic.contract.priority,
            replicate: topic.plan.replicate,
        }
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
        let terms = &topic.plain;
        let Message { flags, seq, created, payload, .. } = *message;
        let (Some(age), Some(step)) = (now.0.checked_sub(created.0), created.0.checked_sub(stream.created.0))
        else {
            return false;
        };
        // Creation may jitter by as much as the way to the broker is allowed to take.
        let least_step = (terms.period.0).wrapping_sub(admission.delays().publisher_to_broker.0);
        let in_time =
            age <= terms.within.as_nanos_u64() && (step as i64 >= least_step || terms.period.is_forever());
        let next = seq == stream.next_seq && seq != u64::MAX && !stream.next_seq_unknown;
        if !in_time || !next || flags != MessageFlags::NONE || !queue.has_room() {
            return false;
        }
        let Some(ticket) = stream.ring.push_plain(seq, created, payload) else { return false };
        stats.arrived += 1;
        stream.counters.arrived += 1;
        stream.next_seq = seq + 1;
        (stream.created, stream.released) = (created, created);
        queue.push(JobKind::Dispatch, created + terms.within, terms.priority, index, ticket);
        if copied && terms.replicate {
            let due = created + topic.plan.pseudo.replication;
            let arrival = Arrival { index, ticket, expected: seq, seq, released: created };
            if !lazy.takes(stream, topic, &arrival) {
                queue.push(JobKind::Replicate, due, terms.priority, index, ticket);
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
        let PlainTerms { within, receiver: Receiver::Only(receiver), .. } = topic.plain else { return false };
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
