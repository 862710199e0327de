//! Step two of a message's way through the broker: its jobs run, earliest deadline first.

use crate::membership::pair::Partner;
use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::announce::announce;
use crate::steps::last::Last;
use crate::steps::plain;
use crate::steps::work::{Flow, Work};
use crate::store::Store;
use crate::store::ids::SessionId;
use crate::store::links::Link;
use crate::store::queue::{Job, JobKind};
use crate::store::ring::{Slot, SlotFlags};
use crate::store::sessions::{Deferred, Session};
use crate::store::table::{Record, Stream, Table, Topic};
use crate::watch::status::Stats;
use contract::{Mutant, Receipt, Span, StreamId, Ticket, Time, invariant};
use wire::{LinkId, Mark, MarkKind, Marks, Message, MessageFlags, MessageKind, Origin, Routed};

/// Whoever is served last gets nothing that has waited for so long where something newer of its stream has come.
const OUTDATED_AFTER: Span = Span::millis(50);
/// So many of those cost no more to pass over than one message to make.
const OLD_PER_LOOK: usize = 8;
/// How long copies are kept for a subscriber that has lost its connection; it connects again at once if it can.
const AWAITED: Span = Span::secs(1);

impl Steps<'_> {
    /// Runs up to `budget` jobs. Returns whether more are waiting.
    ///
    /// A broker that does not reign forwards what reached it to the one that does; while it knows none, jobs wait.
    pub(crate) fn run(&mut self, now: Time, budget: usize, out: &mut impl Outputs) -> bool {
        let reigns = self.pair.is_primary();
        let forward = self.pair.forward_link();
        if !reigns && forward.is_none() {
            return false;
        }
        self.flow.work.departures.begin(now);
        let plain = self.has_plain_messages();
        let budget = budget - if reigns { self.copy_what_is_due(now, budget, out) } else { 0 };
        for _ in 0..budget {
            let Some(job) = self.flow.work.queue.pop() else { break };
            match (job.kind(), forward) {
                (JobKind::Dispatch, _) if plain && plain::dispatch(self.flow, now, &job, out) => {}
                (JobKind::Dispatch, _) if reigns => self.dispatch(now, job, out),
                (JobKind::Replicate, _) if reigns => {
                    self.replicate(now, job.stream, job.ticket, out);
                }
                (JobKind::Dispatch, Some(link)) => self.forward(link, job, out),
                (JobKind::Dispatch, None) => invariant!("who does not reign knows where messages go"),
                // Who does not reign has nobody to copy to.
                (JobKind::Replicate, _) => {}
            }
            if Mutant::LeaveJobs.is_on() {
                break;
            }
        }
        self.flow.stats.count_alike();
        self.tell_untaken(out);
        let waiting =
            !self.flow.work.queue.is_empty() || (reigns && self.flow.work.next_copy(self.pair) <= now);
        waiting && !Mutant::LeaveJobs.is_on()
    }

    /// Pushes a message to all subscribers of its topic.
    fn dispatch(&mut self, now: Time, job: Job, out: &mut impl Outputs) {
        let round = self.flow.work.round;
        let Steps {
            flow: Flow { store, work: Work { dropped, part, departures, last, .. }, stats },
            settings,
            ..
        } = self;
        let Store { table, sessions, links, .. } = store;
        // The queue is not searched when a stream ends, nor when a message is overwritten.
        let Some((stream, topic)) = table.pair_mut(job.stream) else { return };
        let Some((slot, stored)) = stream.ring.message(job.ticket) else { return };
        let (seq, created, marks, status) = (slot.seq, slot.created, slot.marks, slot.flags);
        if status.has(SlotFlags::DISPATCHED.or(SlotFlags::OFFERED)) {
            return;
        }
        // After a failover its subscribers may have had it in time already; they know, and we do not.
        let again = status.has(SlotFlags::RESENT.or(SlotFlags::COPY));
        let flags = heard(marks).with(asking(topic.confirms())).with(sent_again(status));
        let message =
            Message { stream: job.stream.0, flags, seq, created, payload: wire::trailer(marks, stored).0 };
        let (mut owed, mut waits) = (0_u64, false);
        for (position, index) in topic.subscribers.iter().enumerate() {
            // One that has ended is taken out of its topics in slices.
            let Some(session) = sessions.get_mut(*index) else { continue };
            let open = session.open_link(out, part.backlog);
            if let Some(link) = open
                && let Some(state) = links.get_mut(link)
                && !state.closing
            {
                let expected = |stream: &Stream| session.expects(stream, seq);
                announce(state, link, job.stream, stream, topic, expected, out);
                deliver((link, state), &message, (marks, stored), out);
                continue;
            }
            waits = true;
            let deferred = Deferred { stream: job.stream, ticket: job.ticket, since: now };
            let (awaited, oldest) = session.keep_back(now, *index, deferred, part.deferred, last);
            if awaited {
                owed |= 1_u64.checked_shl(position as u32).unwrap_or(0);
            }
            session.miss(u64::from(oldest.is_some()), stats);
            dropped.extend(oldest.map(|oldest| (*index, oldest)));
        }
        let mut processing = false;
        if topic.has_others() {
            let receipt = Receipt { stream: job.stream, ticket: job.ticket, round };
            let passed = Passed { receipt, again, marks, stored, message: &message };
            let given = topic.give_to_others(now, stream, &passed, out);
            processing = given == Some(true);
            if given == Some(false) && !Mutant::SettleUnprocessed.is_on() {
                stats.unprocessed += 1;
                stream.lose(now, 1, topic, stats, out);
            }
        }
        stats.dispatched += 1;
        if !again {
            let took = stream.count_dispatch(now, created, topic.class, stats);
            let spare = topic.plan.pseudo.dispatch - took;
            if departures.dispatched(&job, created, spare) && settings.policy.is_by_deadline() {
                stream.judge_departure(now, created, topic, links, stats, out);
            }
        }
        let missing = topic.missing(owed);
        if missing == 0 && !processing {
            self.settle(job.stream, job.ticket, out);
        } else {
            let offered = Offered { missing, processing, asks: status.has(SlotFlags::ASKED) };
            self.account(now, &job, &offered, out);
        }
        if waits {
            self.write_off_dropped(out);
            self.flow.store.grow_loose(job.stream, &self.settings.limits.messages());
        }
    }

    /// A message has been offered to all, and waits for those who have not got it.
    fn account(&mut self, now: Time, job: &Job, offered: &Offered, out: &mut impl Outputs) {
        let stream = self.flow.store.table.stream_mut(job.stream);
        let Some(slot) = stream.and_then(|stream| stream.ring.slot_mut(job.ticket)) else {
            return invariant!("a message that was just offered is there");
        };
        slot.unconfirmed = offered.missing;
        slot.set(SlotFlags::OFFERED);
        // Of what is no result there is none.
        out.offered(slot.lineage);
        if offered.processing {
            slot.set(SlotFlags::PROCESSING);
            if Mutant::FinishEarly.is_on() {
                self.flow.work.finished.add(job.stream, job.ticket);
            }
        }
        if offered.asks {
            // Nobody knows how long it takes; a copy covers it now, and where there is nobody to copy to, nothing would.
            self.replicate(now, job.stream, job.ticket, out);
            self.answer(job.stream, job.ticket, out);
        }
    }

    /// Subscribers will not get what they were owed and had to be dropped.
    #[cold]
    pub(crate) fn write_off_dropped(&mut self, out: &mut impl Outputs) {
        let mut dropped = std::mem::take(&mut self.flow.work.dropped);
        for (session, message) in dropped.drain(..) {
            self.write_off(session, message, out);
        }
        self.flow.work.dropped = dropped;
    }

    /// A subscriber will not get a message that it was owed.
    fn write_off(&mut self, session: SessionId, message: Deferred, out: &mut impl Outputs) {
        // Its stream may have ended while it waited.
        let Some((_, topic)) = self.flow.store.table.pair(message.stream) else { return };
        let confirm = topic.confirms();
        if let Some(position) =
            topic.subscribers.iter().position(|other| *other == session).filter(|_| !confirm)
        {
            self.hand_over(message.stream, message.ticket, position, out);
        }
    }

    /// The message counts as dispatched; a copy on the backup is no longer needed.
    #[inline]
    pub(crate) fn settle(&mut self, index: StreamId, ticket: Ticket, out: &mut impl Outputs) {
        let Steps { flow: Flow { store: Store { table, .. }, stats, .. }, pair, settings, .. } = self;
        let coordinates = settings.policy.coordinates();
        let backup = || pair.backup().filter(|backup| coordinates && backup.knows(index));
        match table.stream_mut(index).and_then(|stream| stream.ring.slot_mut(ticket)) {
            Some(slot) => slot.settle(index, backup, stats, out),
            None => invariant!("a message that is settled is there"),
        }
    }

    /// Tells the publisher of a message that it is covered, if it waits for word.
    pub(crate) fn answer(&mut self, index: StreamId, ticket: Ticket, out: &mut impl Outputs) {
        let stream = self.flow.store.table.stream_mut(index);
        let Some(slot) = stream.and_then(|stream| stream.ring.slot_mut(ticket)) else {
            return invariant!("a message that is covered is there");
        };
        if slot.take(SlotFlags::ASKED) {
            out.covered(index, slot.seq);
        }
    }

    /// A subscriber confirms that messages have arrived.
    pub(crate) fn confirm(&mut self, from: LinkId, marks: Marks<'_>, out: &mut impl Outputs) {
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("who sends a frame has a link");
        };
        let Some(session) = link.session() else { return };
        for mark in marks {
            // The only numbers of ours that come back: this one was announced on the link. The stream may have ended since, or the client
            // may not want it any more, and a client may say what it likes.
            let index = StreamId(mark.stream);
            let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else { continue };
            let Some(position) = topic.subscribers.iter().position(|other| *other == session) else {
                continue;
            };
            let Some(ticket) = stream.ring.find(mark.seq) else { continue };
            self.hand_over(index, ticket, position, out);
        }
    }

    /// The same for so many of them. Returns whether there are more that have room.
    pub(crate) fn send_some_deferred(
        &mut self,
        now: Time,
        index: SessionId,
        most: usize,
        out: &mut impl Outputs,
    ) -> bool {
        let Steps { flow: Flow { store, work: Work { part, .. }, stats }, settings, .. } = self;
        let Store { table, sessions, links, .. } = store;
        // It may have ended, or lost its connection, since this was begun.
        let Some(session) = sessions.get_mut(index).filter(|session| !session.resuming) else { return false };
        let Some(link) = session.link else { return false };
        let Some(state) = links.get_mut(link) else { return invariant!("a session's link is there", false) };
        if state.closing {
            return false;
        }
        let patience = session.pace.is_slow(now).then_some(settings.limits.subscriber_delay);
        let room = session.usual(session.pace.window).min(part.backlog);
        let (mut handed, mut looked, mut old) = (Vec::new(), 0, 0);
        while looked < most && old < most * OLD_PER_LOOK && out.backlog(link) < room {
            let Some(waiting) = session.deferred.pop_front() else { break };
            if session.best_effort && is_outdated(now, table, &waiting) {
                old += 1;
                continue;
            }
            looked += 1;
            // The stream has ended while it waited, or nobody wants it any more.
            let Some((stream, topic)) = table.pair(waiting.stream) else { continue };
            let Some(position) = topic.subscribers.iter().position(|other| *other == index) else { continue };
            let Some((slot, payload)) = stream.ring.message(waiting.ticket) else {
                // Overwritten while it waited: lost for this subscriber alone.
                session.miss(1, stats);
                continue;
            };
            let too_old = |patience: Span| now.since(waiting.since) > patience.max(topic.patience());
            if patience.is_some_and(too_old) {
                session.miss(1, stats);
                if !topic.confirms() {
                    handed.push((waiting, position));
                }
                continue;
            }
            session.pace.count_sent();
            let expected = |stream: &Stream| session.expects(stream, slot.seq);
            announce(state, link, waiting.stream, stream, topic, expected, out);
            let Slot { seq, created, marks, .. } = *slot;
            let flags = heard(marks).with(asking(topic.confirms())).with(sent_again(slot.flags));
            let alone = wire::trailer(marks, payload).0;
            let message = Message { stream: waiting.stream.0, flags, seq, created, payload: alone };
            deliver((link, state), &message, (marks, payload), out);
            if !topic.confirms() {
                handed.push((waiting, position));
            }
        }
        let more = (looked == most || old == most * OLD_PER_LOOK) && !session.deferred.is_empty();
        for (waiting, position) in handed {
            self.hand_over(waiting.stream, waiting.ticket, position, out);
        }
        more
    }

    /// The subscriber at this position has a message that it was owed. When it was the last, the message is settled.
    fn hand_over(&mut self, stream: StreamId, ticket: Ticket, position: usize, out: &mut impl Outputs) {
        let Some(entry) = self.flow.store.table.stream_mut(stream) else {
            return invariant!("a stream whose message is handed over is there");
        };
        // It may have been overwritten while it waited.
        let Some(slot) = entry.ring.slot_mut(ticket) else { return };
        slot.unconfirmed &= !1_u64.checked_shl(position as u32).unwrap_or(0);
        if slot.is_complete() {
            self.settle(stream, ticket, out);
        }
    }
}

impl Slot {
    /// The message of this stream counts as dispatched. A backup is told where it is to forget its copy.
    #[inline]
    fn settle(
        &mut self,
        stream: StreamId,
        backup: impl FnOnce() -> Option<Partner>,
        stats: &mut Stats,
        out: &mut impl Outputs,
    ) {
        self.set(SlotFlags::DISPATCHED);
        if let Some(lineage) = self.take_lineage() {
            out.release(lineage);
        }
        if self.take(SlotFlags::ASKED) {
            out.covered(stream, self.seq);
        }
        let copied = self.flags.has(SlotFlags::REPLICATED) && !self.flags.has(SlotFlags::PRUNED);
        if copied && let Some(backup) = backup() {
            self.set(SlotFlags::PRUNED);
            stats.pruned += 1;
            out.send_mark(backup.link, MarkKind::Prune, Mark { stream: stream.0, seq: self.seq });
        }
    }
}

/// A message as it is given to others than subscribers.
struct Passed<'a> {
    receipt: Receipt,
    /// Whether its receivers may have it already.
    again: bool,
    marks: MessageFlags,
    /// The payload, with its trailer.
    stored: &'a [u8],
    message: &'a Message<'a>,
}

/// A message that has been offered to all.
struct Offered {
    /// Those who have not got it, by their bits.
    missing: u64,
    /// Whether operators have it.
    processing: bool,
    /// Whether its publisher waits for word.
    asks: bool,
}

impl Topic {
    /// How long messages may wait for a slow subscriber, if that is longer than for others: until they would be late.
    fn patience(&self) -> Span {
        let deadline = self.contract.deadline;
        if deadline.is_forever() { Span::ZERO } else { deadline }
    }

    /// Whom a message waits for, of those that were owed it. It counts as dispatched when all have it. Where no copy could be
    /// kept for those that do not, it counts at once: nothing would be gained by waiting.
    #[inline]
    fn missing(&self, owed: u64) -> u64 {
        match (self.confirms(), self.plan.replicate || self.made) {
            (true, _) => {
                let count = self.subscribers.len().min(u64::BITS as usize) as u32;
                u64::MAX.checked_shr(u64::BITS - count).unwrap_or(0) & !self.excused()
            }
            (false, true) => owed,
            (false, false) => 0,
        }
    }

    /// The bits of those who are served as best effort.
    fn excused(&self) -> u64 {
        let bit = |position: usize| 1_u64.checked_shl(position as u32).unwrap_or(0);
        let last = |(_, session): &(usize, &SessionId)| self.is_best_effort(**session);
        self.best_effort.as_ref().map_or(0, |_| {
            self.subscribers.iter().enumerate().filter(last).fold(0, |bits, (at, _)| bits | bit(at))
        })
    }

    /// Gives a message to those. Returns whether operators have it, if its topic feeds any.
    #[inline(never)]
    fn give_to_others(
        &self,
        now: Time,
        stream: &Stream,
        passed: &Passed<'_>,
        out: &mut impl Outputs,
    ) -> Option<bool> {
        let Passed { receipt, again, marks, stored, message } = *passed;
        let Message { seq, created, .. } = *message;
        if let Some(route) = self.route {
            let truths = marks.only(MessageFlags::TRUTHS);
            let (payload, trailer) = wire::trailer(marks, stored);
            let Record { publisher, incarnation, .. } = &*stream.record;
            let origin = Origin { publisher, incarnation: *incarnation, seq };
            let contract = &self.contract;
            let marks = marks.only(MessageFlags::OUT_OF_DATE.with(MessageFlags::APART));
            let stream = receipt.stream;
            let routed = Routed { stream, origin, created, again, contract, truths, marks, trailer, payload };
            out.deliver(now, route, &routed);
        }
        self.process(now, receipt, stream, again, message, out)
    }
}

/// Whether something newer has come of the stream of a message that has waited for long.
fn is_outdated(now: Time, table: &Table, waiting: &Deferred) -> bool {
    let newest = || table.stream(waiting.stream).and_then(|stream| stream.ring.tickets().next_back());
    now.since(waiting.since) > OUTDATED_AFTER && newest().is_some_and(|newest| newest != waiting.ticket)
}

/// What clients are told of a message's marks.
fn heard(marks: MessageFlags) -> MessageFlags {
    marks.without(MessageFlags::FOREIGN)
}

/// Gives a subscriber a message. The link of a site gets all of it, since it hands it on.
#[inline]
fn deliver(
    (to, link): (LinkId, &Link),
    message: &Message<'_>,
    (marks, stored): (MessageFlags, &[u8]),
    out: &mut impl Outputs,
) {
    if heard(marks) != marks && link.is_of_site() {
        let whole = Message { flags: message.flags.with(marks), payload: stored, ..*message };
        out.send_message(to, MessageKind::Deliver, &whole);
    } else {
        out.send_message(to, MessageKind::Deliver, message);
    }
}

/// The flag of what is sent again after a failover: its deadline may be over.
fn sent_again(flags: SlotFlags) -> MessageFlags {
    if flags.has(SlotFlags::RESENT.or(SlotFlags::COPY)) { MessageFlags::RESEND } else { MessageFlags::NONE }
}

/// The flag that asks for a confirmation.
fn asking(confirm: bool) -> MessageFlags {
    if confirm { MessageFlags::CONFIRM } else { MessageFlags::NONE }
}

impl Session {
    /// The session's link, if messages can go there now: it is up, has room, and nothing older waits.
    fn open_link(&self, out: &impl Outputs, backlog_max: usize) -> Option<LinkId> {
        let link = self.link?;
        (self.is_free() && out.backlog(link) < self.pace.window.min(backlog_max)).then_some(link)
    }

    /// The number that it expects next of a stream of which it has heard nothing, when the message of this number comes. The
    /// result that was made first is not always the oldest.
    fn expects(&self, stream: &Stream, seq: u64) -> u64 {
        if self.began <= stream.record.registered { stream.record.first.min(seq) } else { seq }
    }

    /// Whether a copy should be kept for it: it is there and slow, or has just lost its connection. One that stays away
    /// would otherwise keep every copy on the backup.
    fn is_awaited(&self, now: Time) -> bool {
        self.link.is_some() || now < self.detached_at + AWAITED
    }

    /// A message that cannot go there now waits. Returns whether a copy should be kept of it, and the oldest one if that had to go.
    #[cold]
    fn keep_back(
        &mut self,
        now: Time,
        index: SessionId,
        message: Deferred,
        limit: usize,
        last: &mut Last,
    ) -> (bool, Option<Deferred>) {
        if self.best_effort {
            last.call(index, self);
        }
        (self.is_awaited(now) && !self.best_effort, self.defer(message, limit))
    }
}
