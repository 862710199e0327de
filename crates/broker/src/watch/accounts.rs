//! The accounts of a stream: how long its messages take, which are late, which are missing. What breaks the contract is told, though
//! never so often that telling becomes work of its own.

use crate::outputs::Outputs;
use crate::store::Store;
use crate::store::memory::Shortage;
use crate::store::sessions::Session;
use crate::store::table::{Stream, Took, Topic};
use crate::watch::clocks::cause_of_lateness;
use crate::watch::events::Event;
use crate::watch::status::Stats;
use contract::{Loss, Span, StreamId, Time, invariant};
use wire::{ClockDifference, Concern, LinkId, Trouble};

/// The same trouble of one stream is told at most this often.
const INTERVAL: Span = Span::secs(1);
/// Broken contracts told in one second, of all streams together. The others are counted all the same.
const TOLD_PER_INTERVAL_MAX: u32 = 64;

/// How many broken contracts have been told lately.
#[derive(Clone, Copy, Default)]
pub(crate) struct Telling {
    since: Time,
    told: u32,
}

impl Telling {
    /// Whether a stream, which was told of last at this time, may be told of now.
    pub(crate) fn allows(&mut self, now: Time, last: Time) -> bool {
        let recent = |at: Time| at <= now && now < at + INTERVAL;
        if recent(last) {
            return false;
        }
        if !recent(self.since) {
            *self = Telling { since: now, told: 0 };
        }
        self.told += 1;
        self.told <= TOLD_PER_INTERVAL_MAX
    }
}

impl Stream {
    /// So many messages in a row are missing.
    pub(crate) fn lose(
        &mut self,
        now: Time,
        run: u64,
        topic: &Topic,
        stats: &mut Stats,
        out: &mut impl Outputs,
    ) {
        let loss = topic.strict().loss;
        let troubles = &mut self.record.troubles;
        troubles.lose(now, run, topic.strict());
        stats.classes.count(topic.class, |class| class.lose(run));
        if let Loss::AtMost(tolerated) = loss
            && !loss.tolerates(run)
            && stats.telling.allows(now, troubles.told_lost_at)
        {
            troubles.told_lost_at = now;
            let (topic, publisher) = (topic.name.as_str(), &*self.record.publisher);
            out.report(&Event::LossRun { topic, publisher, run, tolerated });
        }
    }

    /// A message is lost for want of memory. What is told is why, since nothing that its publisher does differently would help.
    #[cold]
    pub(crate) fn lose_for_memory(
        &mut self,
        now: Time,
        topic: &Topic,
        stats: &mut Stats,
        shortage: Shortage,
        out: &mut impl Outputs,
    ) {
        let troubles = &mut self.record.troubles;
        troubles.lose(now, 1, topic.strict());
        troubles.short += 1;
        stats.classes.count(topic.class, |class| class.lose(1));
        if stats.telling.allows(now, troubles.told_short_at) {
            troubles.told_short_at = now;
            let messages = troubles.short - std::mem::replace(&mut troubles.told_short, troubles.short);
            let (topic, publisher) = (topic.name.as_str(), &*self.record.publisher);
            out.report(&Event::OutOfMemory { topic, publisher, messages, reason: &shortage.to_string() });
        }
    }

    /// A message has been dispatched, for the first time. Returns how long that took from its creation.
    #[inline(always)]
    pub(crate) fn count_dispatch(&mut self, now: Time, created: Time, class: u16, stats: &mut Stats) -> Span {
        let since = now.since(created);
        let last = stats.record_latency(class, since.max(Span::ZERO));
        self.took = Took { last, longest: self.took.longest.max(last) };
        since
    }

    /// A message was dispatched after its deadline: so long after its creation.
    #[cold]
    pub(crate) fn miss(
        &mut self,
        now: Time,
        took: Span,
        topic: &Topic,
        clock_of: impl FnOnce(&str) -> Option<ClockDifference>,
        stats: &mut Stats,
        out: &mut impl Outputs,
    ) {
        let by = took - topic.plan.pseudo.dispatch;
        stats.late += 1;
        stats.classes.count(topic.class, |class| class.missed += 1);
        let troubles = &mut self.record.troubles;
        troubles.late += 1;
        (troubles.broken_at, troubles.broken_by) = (now, Concern::Late);
        if stats.telling.allows(now, troubles.told_late_at) {
            troubles.told_late_at = now;
            let missed = troubles.late - std::mem::replace(&mut troubles.told_late, troubles.late);
            let cause =
                cause_of_lateness(clock_of(&self.record.publisher), self.age_on_arrival(now, took, topic));
            let (topic, publisher) = (topic.name.as_str(), &*self.record.publisher);
            out.report(&Event::DeadlineMissed { topic, publisher, by, missed, cause });
        }
    }
}

impl Stream {
    /// How old a message that is dispatched now was when it came, if it was older than its deadline. It counts as one that was just
    /// that old (see [`Stream::release`]). Only the newest is looked at.
    fn age_on_arrival(&self, now: Time, took: Span, topic: &Topic) -> Option<Span> {
        let (created, deadline) = (now - took, topic.contract.deadline);
        let came = self.times().released + deadline;
        (came <= now && came > created + deadline).then(|| came.since(created))
    }
}

impl Stats {
    /// A subscriber says what was wrong with a stream that it asked for.
    #[cold]
    pub(crate) fn hear_trouble(
        &mut self,
        now: Time,
        from: LinkId,
        trouble: &Trouble,
        store: &mut Store,
        out: &mut impl Outputs,
    ) {
        let (Store { table, links, sessions, .. }, stats) = (store, self);
        let Some(link) = links.get(from) else { return invariant!("who sends a frame has a link") };
        // The stream may have ended, and a client may say what it likes.
        let Some((stream, topic)) = table.pair_mut(StreamId(trouble.stream)) else { return };
        let session = link.session().filter(|session| topic.subscribers.contains(session));
        // To whom nothing was promised has nothing to complain of.
        let promised = |session: &&Session| !session.best_effort;
        let session = session.and_then(|session| sessions.get(session)).filter(promised);
        let Some(session) = session else { return };
        // What one subscriber needs is nobody else's.
        let own = session.needs_of(topic.name.as_str()).map(|needs| needs.of(&topic.contract).loss).min();
        let &Trouble { lost, run, late, by, .. } = trouble;
        stats.subscribers_lost += u64::from(lost);
        stats.subscribers_late += u64::from(late);
        stats.classes.count(topic.class, |class| {
            class.subscribers_lost += u64::from(lost);
            class.subscribers_late += u64::from(late);
        });
        let (publisher, troubles) = (&*stream.record.publisher, &mut stream.record.troubles);
        let (topic, loss, subscriber) =
            (topic.name.as_str(), own.unwrap_or(topic.contract.loss), &*link.name);
        let reported = &mut troubles.reported;
        reported.lost += u64::from(lost);
        reported.longest_run = reported.longest_run.max(run);
        reported.late += u64::from(late);
        if late > 0 {
            (troubles.broken_at, troubles.broken_by) = (now, Concern::LateOnTheWay);
            if stats.telling.allows(now, reported.told_late_at) {
                reported.told_late_at = now;
                out.report(&Event::SubscriberLate { topic, publisher, subscriber, late: late.into(), by });
            }
        }
        if let Loss::AtMost(tolerated) = loss
            && !loss.tolerates(run.into())
        {
            (troubles.broken_at, troubles.broken_by) = (now, Concern::LostOnTheWay);
            if stats.telling.allows(now, reported.told_lost_at) {
                reported.told_lost_at = now;
                let (lost, run) = (lost.into(), run.into());
                out.report(&Event::SubscriberMissed { topic, publisher, subscriber, lost, run, tolerated });
            }
        }
    }
}

impl Session {
    /// It will not get so many messages. To who is served as best effort they were not promised.
    pub(crate) fn miss(&mut self, count: u64, stats: &mut Stats) {
        let count = if self.best_effort { 0 } else { count };
        self.dropped += count;
        stats.dropped += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000_000);

    #[test]
    fn a_stream_is_told_of_once_per_second() {
        let mut telling = Telling::default();
        assert!(telling.allows(START, Time::ZERO));
        assert!(!telling.allows(START + Span::millis(999), START));
        assert!(telling.allows(START + Span::secs(1), START));
        assert!(telling.allows(START - Span::secs(9), START), "a clock that went back");
    }

    #[test]
    fn many_streams_together_are_not_told_of_without_end() {
        let mut telling = Telling::default();
        let told = (0..10_000).filter(|nanos| telling.allows(START + Span(*nanos), Time::ZERO)).count();
        assert_eq!(told, TOLD_PER_INTERVAL_MAX as usize);
        assert!(telling.allows(START + Span::secs(1), Time::ZERO));
    }
}
