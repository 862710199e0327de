//! Step one of a message's way through the broker: it arrives, is stored, and its jobs are planned.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::lazy::Arrival;
use crate::store::memory::Shortage;
use crate::store::queue::JobKind;
use crate::store::ring::{Overwritten, SlotFlags};
use crate::store::table::{Stream, Times, Topic};
use crate::watch::COMPLAINT_INTERVAL;
use crate::watch::clocks::CLOCKS_APART_MIN;
use crate::watch::events::Event;
use crate::watch::status::Stats;
use arrayvec::ArrayVec;
use contract::{Delays, Span, StreamId, Ticket, Time, first_missing, invariant};
use wire::{Concern, LinkId, Mark, MarkKind, Message, MessageFlags, Messages};

/// The streams of a publisher that stay in the processor's cache anyway.
const FEW_STREAMS: usize = 64;
/// Messages whose streams are fetched at once, while twice as many before them wait for what theirs lead to, or are stored.
const LOOK_AHEAD: usize = 4;
/// Jobs that run at once where a stream has no room.
const JOBS_FOR_ROOM: usize = 64;
/// A creation time further in the future is no jitter between synchronised clocks.
pub(crate) const CLOCK_AHEAD_MAX: Span = CLOCKS_APART_MIN;
/// One this far in the past may be.
const CLOCK_BEHIND_MIN: Span = Span::millis(500);

impl Steps<'_> {
    /// Messages from a publisher, or forwarded by a broker which does not reign.
    ///
    /// A few are taken up at a time. Of many streams none is in the processor's cache: those of a few are asked for, and come while
    /// others are stored. Only then can be asked for what they lead to, which comes while those in between are stored.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        from: LinkId,
        mut messages: Messages<'_>,
        out: &mut impl Outputs,
    ) {
        let scattered = self.flow.store.links.get(from).is_some_and(|link| link.numbers.len() > FEW_STREAMS);
        let (copied, plain) = (self.pair.backup().is_some(), self.has_plain_messages());
        let makes_copies = copied && self.settings.replication.keeps_contracts();
        // All that a message needs lies in the first line of its stream, and in its slot.
        let near = plain && !copied;
        let (mut few, mut next, mut later) = (&mut Few::new(), &mut Few::new(), &mut Few::new());
        self.take_up(from, &mut messages, scattered, near, few);
        self.take_up(from, &mut messages, scattered, near, next);
        if scattered {
            self.lead_on(few, near);
        }
        while !few.is_empty() {
            if scattered {
                self.lead_on(next, near);
            }
            self.take_up(from, &mut messages, scattered, near, later);
            let mut rest = few.as_slice();
            loop {
                if plain {
                    rest = &rest[self.store_plain(now, rest, makes_copies)..];
                }
                let Some(((index, message), others)) = rest.split_first() else { break };
                rest = others;
                let mut waits = self.pair.is_primary();
                while self.store_message(now, Some(from), *index, message, waits, out)
                    == Err(Unstored::Crowded)
                {
                    // Whoever publishes faster than is dispatched waits for it.
                    waits = self.run(now, JOBS_FOR_ROOM, out);
                }
            }
            std::mem::swap(&mut few, &mut next);
            std::mem::swap(&mut next, &mut later);
        }
    }

    /// Fetches what the streams of a few messages lead to.
    #[inline]
    fn lead_on(&self, few: &Few<'_>, near: bool) {
        for (index, message) in few.iter() {
            self.flow.store.table.prefetch_rest(*index, message.payload.len(), near);
        }
    }

    /// Finds the streams of the next few messages, and fetches these where they are scattered.
    fn take_up<'a>(
        &mut self,
        from: LinkId,
        messages: &mut Messages<'a>,
        scattered: bool,
        near: bool,
        few: &mut Few<'a>,
    ) {
        few.clear();
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("who sends a frame has a link");
        };
        let is_client = link.is_client();
        while !few.is_full()
            && let Some(message) = messages.next()
        {
            let Some(index) = link.stream(message.stream) else {
                self.flow.stats.unregistered += 1;
                continue;
            };
            if scattered {
                self.flow.store.table.prefetch(index, near);
            }
            if !is_client && self.comes_in_order_later(index, &message) {
                self.flow.stats.duplicates += 1;
                continue;
            }
            let mut flags = message.flags;
            // How a message came through another protocol is for brokers and the links of sites to say.
            if is_client && flags.only(MessageFlags::TRUTHS) != MessageFlags::NONE && !link.is_of_site() {
                flags = flags.without(MessageFlags::TRUTHS);
            }
            few.push((index, Message { flags, ..message }));
        }
    }

    /// Whether a message that a deposed broker forwards comes again from its publisher, after the one before it, which is missing here.
    ///
    /// What is forwarded overtakes what publishers send again after a takeover. Where operators remember, they would see messages in another
    /// order than without a crash. A reign that was given has what was before already.
    fn comes_in_order_later(&self, index: StreamId, message: &Message<'_>) -> bool {
        if !self.reign_was_taken || !self.pair.is_primary() {
            return false;
        }
        let Some((stream, topic)) = self.flow.store.table.pair(index) else {
            return invariant!("a number on a link means a stream that is there", false);
        };
        let newer = stream.next_seq.saturating_sub(message.seq.saturating_add(1));
        let is_retained = newer < u64::from(topic.contract.retain);
        let misses = |before| stream.ring.find(before).is_none();
        topic.remembers()
            && is_retained
            && stream.record.source.is_some()
            && message.seq.checked_sub(1).is_some_and(misses)
    }

    /// Whether the next message of a stream would overwrite one that nobody has had, although it can be dispatched.
    #[inline]
    pub(crate) fn is_crowded(&self, index: StreamId) -> bool {
        let Some(stream) = self.flow.store.table.stream(index) else {
            return invariant!("a stream that takes a message is there", false);
        };
        stream.ring.overwrites_unsent() && !self.flow.work.queue.is_empty()
    }

    /// Stores a message of a stream and plans its jobs. Returns its ticket. One that `waits` is not stored where the stream is
    /// crowded (see [`Steps::is_crowded`]).
    #[inline]
    pub(crate) fn store_message(
        &mut self,
        now: Time,
        from: Option<LinkId>,
        index: StreamId,
        message: &Message<'_>,
        waits: bool,
        out: &mut impl Outputs,
    ) -> Result<Ticket, Unstored> {
        let Some(stream) = self.flow.store.table.stream(index) else {
            return invariant!("a number on a link means a stream that is there", Err(Unstored::NotTaken));
        };
        let expected = stream.next_seq;
        if !stream.takes(message.seq, &mut self.flow.stats) {
            return Err(Unstored::NotTaken);
        }
        if waits && stream.ring.overwrites_unsent() && !self.flow.work.queue.is_empty() {
            return Err(Unstored::Crowded);
        }
        let fits = stream.ring.has_room(message.payload.len()) && !stream.ring.overwrites_unsent();
        if !fits || !self.flow.work.queue.has_room() {
            self.find_place(now, index, message, out)?;
        }
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("making room ends no stream", Err(Unstored::NotTaken));
        };
        self.flow.stats.arrived += 1;
        self.flow.stats.arrived_bytes += message.payload.len() as u64;
        stream.count_arrival(now, message.seq, topic, &mut self.flow.stats, out);
        let age = now.since(message.created);
        self.flow.stats.clock_ahead += u64::from(age < Span::ZERO);
        let resend = message.flags.contains(MessageFlags::RESEND);
        let released = if resend {
            Release { at: message.created.min(now), step: None }
        } else {
            let is_newest = message.seq >= expected;
            stream.release(now, message.created, is_newest, topic, &self.settings.delays)
        };
        let flags = if resend { SlotFlags::RESENT } else { SlotFlags::NONE };
        let marks = message.flags.only(MessageFlags::TRUTHS);
        let (ticket, old) = stream.ring.push(message.seq, message.created, message.payload, flags, marks);
        if !old.was_sent() {
            self.flow.stats.overrun += 1;
            stream.lose(now, 1, topic, &mut self.flow.stats, out);
        }
        if old.flags.has(SlotFlags::PROCESSING) {
            // Operators still have it, but nothing covers it any more.
            stream.record.troubles.endanger(now, Concern::OperatorsBehind);
        }

        let copies = self.pair.backup().is_some()
            && self.settings.replication.keeps_contracts()
            && (topic.plan.replicate || !self.settings.policy.is_by_deadline());
        let priority = topic.contract.priority;
        // By reference: what is not copied need not wait for the line with the deadline of replication.
        let plan = &topic.plan.pseudo;
        if self.settings.policy.is_by_deadline() {
            let due = released.at + plan.dispatch;
            self.flow.work.queue.push(JobKind::Dispatch, due, priority, index, ticket);
            if copies {
                let arrival = Arrival { index, ticket, expected, seq: message.seq, released: released.at };
                let regular = !resend && released.step.is_none();
                if !(regular && self.flow.work.lazy.takes(stream, topic, &arrival)) {
                    let due = released.at + plan.replication;
                    self.flow.work.queue.push(JobKind::Replicate, due, priority, index, ticket);
                }
            }
        } else {
            if copies {
                self.flow.work.queue.push(JobKind::Replicate, now, 0, index, ticket);
            }
            self.flow.work.queue.push(JobKind::Dispatch, now, 0, index, ticket);
        }
        if old.is_copied() {
            self.prune_overwritten(index, &old, out);
        }
        // Looked at closely only where something may be wrong: this is done for every message.
        let apart = !resend && !(-CLOCK_AHEAD_MAX..=CLOCK_BEHIND_MIN).contains(&age);
        if released.step.is_some() || apart {
            self.flow.stats.rate_violations += u64::from(released.step.is_some());
            self.complain(now, from, index, -age, released.step, out);
        }
        Ok(ticket)
    }

    /// Finds a place for a message for which there is none as it is. One that gets none is counted.
    #[cold]
    fn find_place(
        &mut self,
        now: Time,
        index: StreamId,
        message: &Message<'_>,
        out: &mut impl Outputs,
    ) -> Result<(), Unstored> {
        let shortage = match self.flow.work.queue.has_room() {
            true => match self.find_room(now, index, message.payload.len(), out) {
                Ok(()) => return Ok(()),
                Err(shortage) => Some(shortage),
            },
            false => None,
        };
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("making room ends no stream", Err(Unstored::NotTaken));
        };
        let Some(shortage) = shortage else {
            self.flow.stats.overrun += 1;
            stream.lose(now, 1, topic, &mut self.flow.stats, out);
            return Err(Unstored::NotTaken);
        };
        // It has come, and what comes next does not miss it once more.
        stream.count_arrival(now, message.seq, topic, &mut self.flow.stats, out);
        self.lose_for_memory(now, index, shortage, out);
        Err(Unstored::Short(shortage))
    }

    /// Those that it was sent to have it, and whoever else it waited for will not get it from here. A backup that is
    /// copied little would keep it for long, and offer it to everybody when it comes to reign.
    pub(crate) fn prune_overwritten(&mut self, index: StreamId, old: &Overwritten, out: &mut impl Outputs) {
        let Some(partner) = self.pair.backup() else { return };
        let given = old.flags.has(SlotFlags::OFFERED) && !old.flags.has(SlotFlags::PROCESSING);
        if given && self.settings.policy.coordinates() {
            self.flow.stats.pruned += 1;
            out.send_mark(partner.link, MarkKind::Prune, Mark { stream: index.0, seq: old.seq });
        }
    }

    /// Tells the admin of a publisher that is too fast or whose clock is off, once in a while.
    fn complain(
        &mut self,
        now: Time,
        from: Option<LinkId>,
        index: StreamId,
        ahead: Span,
        step: Option<Span>,
        out: &mut impl Outputs,
    ) {
        // What comes through another protocol has no link here.
        let Some(from) = from else { return };
        let Some(link) = self.flow.store.links.get_mut(from) else {
            return invariant!("who sends a message has a link");
        };
        let Some((_, topic)) = self.flow.store.table.pair(index) else {
            return invariant!("a stream that took a message is there");
        };
        // Behind by more than any delay that the contract could live with; in between, messages have only queued.
        let tolerable = topic.contract.deadline + self.settings.delays.failover + CLOCK_BEHIND_MIN;
        let apart = ahead > Span::ZERO || ahead < -tolerable;
        // Where the difference of the clocks is known, it has been told with its numbers.
        let told = link.clock.is_some_and(|clock| clock.least() > CLOCKS_APART_MIN);
        let recent = link.complained_at <= now && now < link.complained_at + COMPLAINT_INTERVAL;
        // One publisher's streams usually share its trouble, so it is told of one of them.
        if (step.is_none() && (!apart || told)) || recent {
            return;
        }
        link.complained_at = now;
        match step {
            Some(step) => {
                let (topic, period) = (topic.name.as_str(), topic.contract.period);
                out.report(&Event::TooFast { client: &link.name, topic, step, period });
            }
            None => out.report(&Event::ClockApart { client: &link.name, ahead, within: None }),
        }
    }
}

/// Why a message was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unstored {
    /// It would overwrite one that nobody has had, although that can be dispatched.
    Crowded,
    /// It is there already, or there is no room; it has been counted.
    NotTaken,
    /// There is no memory for it; it has been counted.
    Short(Shortage),
}

/// Messages that have been taken up, with our numbers of their streams.
type Few<'a> = ArrayVec<(StreamId, Message<'a>), LOOK_AHEAD>;

/// From when a message's deadlines are counted.
struct Release {
    at: Time,
    /// The time since the message before, where it is shorter than the contract allows.
    step: Option<Span>,
}

impl Stream {
    /// Whether a message of this number can be stored. One that cannot is counted.
    #[inline]
    fn takes(&self, seq: u64, stats: &mut Stats) -> bool {
        if seq < self.next_seq && self.ring.find(seq).is_some() {
            stats.duplicates += 1;
            return false;
        }
        // No stream gets so far, and the number after it would not exist.
        let impossible = seq == u64::MAX;
        stats.unregistered += u64::from(impossible);
        !impossible
    }

    /// Keeps the account of what has arrived and what is missing.
    #[inline]
    fn count_arrival(
        &mut self,
        now: Time,
        seq: u64,
        topic: &Topic,
        stats: &mut Stats,
        out: &mut impl Outputs,
    ) {
        let guess = self.next_seq_is_guess();
        if seq >= self.next_seq {
            let missing = seq - first_missing(self.next_seq, seq);
            if missing > 0 && !guess {
                self.lose(now, missing, topic, stats, out);
            }
            self.next_seq = seq.saturating_add(1);
        } else if !guess {
            // A message that was counted as missing has come after all.
            self.record.troubles.lost = self.record.troubles.lost.saturating_sub(1);
        }
        if guess {
            self.guess_next_seq(false);
        }
    }

    /// Deadlines are counted from creation (F7), with two exceptions that keep one publisher's trouble from becoming
    /// another's. A creation time outside of what a working clock could say (in the future, or so long ago that the
    /// deadline has passed) counts as the nearest that it could. And messages that follow each other faster than the
    /// period are served as if they kept it. Messages sent again after a failover are exempt from both: they are late
    /// through no fault of their publisher, and the oldest go first.
    ///
    /// The newest message begins anew where it was created before the one before it: its publisher's clock was set back.
    #[inline]
    fn release(
        &mut self,
        now: Time,
        created: Time,
        is_newest: bool,
        topic: &Topic,
        delays: &Delays,
    ) -> Release {
        let contract = &topic.contract;
        let is_past = now.since(created) > contract.deadline;
        let at = if is_past { now - contract.deadline } else { created.min(now) };
        // Creation may jitter by as much as the way to the broker is allowed to take.
        let least_step = contract.period - delays.publisher_to_broker;
        let before = self.times();
        let step = created.since(before.created);
        let in_order = before.created != Time::ZERO && step >= Span::ZERO;
        let too_fast = in_order && step < least_step && !contract.period.is_forever();
        // Nor is it known more exactly than clocks of other sites are.
        let too_fast = too_fast && step < least_step - self.record.crossing.within * 2;
        let created = if is_newest { created } else { before.created.max(created) };
        if !too_fast {
            self.set_times(Times { created, released: at });
            return Release { at, step: None };
        }
        self.record.troubles.endanger(now, Concern::TooFast);
        let furthest = now + contract.period * self.ring.slots() as u64;
        let at = at.max(before.released + contract.period).min(furthest);
        self.set_times(Times { created, released: at });
        Release { at, step: Some(step) }
    }
}

#[cfg(test)]
mod tests;
