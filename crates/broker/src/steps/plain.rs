//! The way of a plain message: one of which nothing has to be said. It is the next of its stream, in time, short, and takes the place
//! of one that all have had; it goes to one subscriber, which is there and has room. Nearly every message is so.
//!
//! Each step asks all that at once and does only what then is left to do, which saves a quarter of a message's instructions and more.
//! Whatever is not plain is left as it is, for [`Steps::store_message`] and [`Steps::run`]. **The invariant**: a plain message does to the
//! broker what it would do there, and nothing else (`plain/tests.rs` compares them, whatever comes).

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::lazy::Arrival;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::queue::{Job, JobKind};
use crate::store::ring::{Slot, SlotFlags};
use crate::store::table::Table;
use crate::store::terms::{NEVER, PlainTerms};
use contract::{Span, StreamId, Time, invariant};
use wire::{Message, MessageFlags, MessageKind};

impl Steps<'_> {
    /// Whether this broker keeps contracts, and reigns: others have more to do with each message.
    pub(crate) fn has_plain_messages(&self) -> bool {
        #[cfg(test)]
        if self.flow.work.nothing_is_plain {
            return false;
        }
        self.settings.policy.is_by_deadline() && self.pair.is_primary()
    }

    /// Stores messages and plans their jobs for as long as they are plain. `copied`: whether contracts that need copies have them made.
    /// Returns how many it were; with the others nothing was done.
    #[inline]
    pub(crate) fn store_plain(&mut self, now: Time, few: &[(StreamId, Message<'_>)], copied: bool) -> usize {
        let Steps { flow, settings, .. } = self;
        let jitter = settings.delays.publisher_to_broker;
        let is_stored =
            |(index, message): &&(StreamId, Message<'_>)| store(flow, (now, jitter), *index, message, copied);
        let stored = few.iter().take_while(is_stored).count();
        flow.stats.arrived += stored as u64;
        let bytes = few.iter().take(stored).map(|(_, message)| message.payload.len() as u64).sum::<u64>();
        flow.stats.arrived_bytes += bytes;
        stored
    }
}

/// Stores a message and plans its jobs, if it is plain. `jitter`: by how much its creation may. `false`: nothing was done.
#[inline]
fn store(
    flow: &mut Flow,
    (now, jitter): (Time, Span),
    index: StreamId,
    message: &Message<'_>,
    copied: bool,
) -> bool {
    let Flow { store: Store { table, .. }, work: Work { queue, lazy, .. }, .. } = flow;
    let Table { streams, topics, .. } = table;
    // The general way says what it thinks of a stream that is not there.
    let Some(Some(stream)) = streams.get_mut(index.place()) else { return false };
    let terms = stream.plain;
    let Message { flags, seq, created, payload, .. } = *message;
    let (Some(age), Some(step)) = (now.0.checked_sub(created.0), created.0.checked_sub(stream.plain_since.0))
    else {
        return false;
    };
    // Creation may jitter by as much as the way to the broker is allowed to take.
    let least_step = i64::from(terms.period) * 1_000 - jitter.0;
    let within = terms.within();
    let in_time = age <= within.as_nanos_u64() && step as i64 >= least_step && terms.period != NEVER;
    let next = seq == stream.next_seq && seq != u64::MAX;
    if !in_time || !next || flags != MessageFlags::NONE || !queue.has_room() {
        return false;
    }
    let Some(ticket) = stream.ring.push_plain(seq, created, payload) else { return false };
    stream.next_seq = seq + 1;
    stream.plain_since = created;
    queue.push(JobKind::Dispatch, created + within, terms.priority, index, ticket);
    if copied && terms.replicate {
        let Some(Some(topic)) = topics.get(stream.topic.place()) else {
            return invariant!("a stream's topic is there", true);
        };
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
pub(crate) fn dispatch(flow: &mut Flow, now: Time, job: &Job, out: &mut impl Outputs) -> bool {
    let Flow { store, work: Work { part, departures, .. }, stats } = flow;
    let Store { table, sessions, links, .. } = store;
    let Table { streams, topics, .. } = table;
    let Some(Some(stream)) = streams.get_mut(job.stream.place()) else { return false };
    let PlainTerms { receiver, class, .. } = stream.plain;
    debug_assert_eq!(
        topics[stream.topic.place()].as_ref().map(PlainTerms::of),
        Some(stream.plain),
        "what follows from a topic's terms is up to date"
    );
    let Some(session) = sessions.get(receiver).filter(|session| session.is_free()) else { return false };
    let Some(link) = session.link else { return false };
    if !links.get(link).is_some_and(|to| !to.closing && to.announced.contains(job.stream)) {
        return false;
    }
    let Some((slot, payload)) = stream.ring.plain(job.ticket) else { return false };
    let Slot { seq, created, .. } = *slot;
    let message = Message { stream: job.stream.0, flags: MessageFlags::NONE, seq, created, payload };
    if !out.offer_message(link, MessageKind::Deliver, &message, session.pace.window.min(part.backlog)) {
        return false;
    }
    slot.set(SlotFlags::DISPATCHED);
    stats.dispatched += 1;
    let took = stream.count_dispatch(now, created, class, stats);
    departures.note(job);
    // The terms may say less than the truth.
    if departures.is_close(stream.plain.within() - took)
        && let Some(Some(topic)) = topics.get(stream.topic.place())
        && departures.overflow(job.stream, created, false, topic.plan.pseudo.dispatch - took)
    {
        stream.judge_departure(now, created, topic, links, stats, out);
    }
    true
}

#[cfg(test)]
mod tests;
