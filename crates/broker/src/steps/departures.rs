//! Whether what was dispatched or copied in a turn has left in time: its bytes are written at the end of the turn.
//!
//! The problem: a message that is dispatched within its deadline leaves after it where the turn goes on for long, or many connections have to
//! be written to. Looking at every message again then would cost every message. The idea: only those are looked at that had little time
//! left, less than it took of late until everything was written; mostly none has. Where writing took longer than that, all are.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::work::Flow;
use crate::store::Store;
use crate::store::links::Links;
use crate::store::queue::Job;
use crate::store::table::{Stream, Topic};
use crate::watch::status::Stats;
use contract::rounds::JOBS_PER_TURN;
use contract::{Mutant, Span, StreamId, Ticket, Time};
use wire::Concern;

/// What was dispatched in this turn.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    /// When the first of it was; [`Time::NEVER`]: nothing was.
    since: Time,
    /// Whoever has less time left than this is remembered: twice as long as it took of late until everything was written.
    lag: Span,
    close: Vec<Departure>,
    /// Messages that were dispatched for the first time, by stream and ticket.
    all: Vec<(StreamId, Ticket)>,
}

/// A message or copy with little time left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Departure {
    stream: StreamId,
    created: Time,
    copy: bool,
}

/// Messages remembered in one turn. Further ones are judged at once.
const CLOSE_MAX: usize = 4_096;
/// Messages of one turn that can be looked at again: twice what a turn usually does.
const ALL_MAX: usize = 2 * JOBS_PER_TURN as usize;
/// Writing takes so long at least, as far as it matters.
const LAG_LEAST: Span = Span::millis(1);

impl Default for Departures {
    fn default() -> Departures {
        Departures { since: Time::NEVER, lag: LAG_LEAST, close: Vec::new(), all: Vec::with_capacity(ALL_MAX) }
    }
}

impl Departures {
    /// Whether something was dispatched that has not left.
    #[inline]
    pub(crate) fn are_awaited(&self) -> bool {
        self.since != Time::NEVER
    }

    /// Jobs run from now on.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time) {
        if self.since == Time::NEVER {
            self.since = now;
        }
    }

    /// Whether what has so much time left may leave late.
    #[inline]
    pub(crate) fn is_close(&self, spare: Span) -> bool {
        spare < self.lag
    }

    /// A message has been dispatched for the first time.
    #[inline]
    pub(crate) fn note(&mut self, job: &Job) {
        if self.all.len() < ALL_MAX {
            self.all.push((job.stream, job.ticket));
        }
    }

    /// The same, where it has so much time left. Returns whether it has to be judged at once, for want of room.
    #[inline]
    pub(crate) fn dispatched(&mut self, job: &Job, created: Time, spare: Span) -> bool {
        self.note(job);
        self.overflow(job.stream, created, false, spare)
    }

    /// A message, or a copy, has so much time left. Where it may leave late it is remembered. Returns whether it has to be judged at once,
    /// for want of room.
    #[inline]
    pub(crate) fn overflow(&mut self, stream: StreamId, created: Time, copy: bool, spare: Span) -> bool {
        Mutant::JudgeBeforeLeaving.is_on()
            || (self.is_close(spare) && self.remember(Departure { stream, created, copy }))
    }

    #[cold]
    fn remember(&mut self, departure: Departure) -> bool {
        let full = self.close.len() >= CLOSE_MAX;
        if !full {
            self.close.push(departure);
        }
        full
    }
}

impl Steps<'_> {
    /// Everything that was written so far has left this process: given to the system, or waiting for peers that do not take it.
    pub(crate) fn handle_left(&mut self, now: Time, out: &mut impl Outputs) {
        let since = std::mem::replace(&mut self.flow.work.departures.since, Time::NEVER);
        if since == Time::NEVER || Mutant::JudgeBeforeLeaving.is_on() {
            self.flow.work.departures.all.clear();
            return;
        }
        self.flow.work.lazy.action().left(now);
        let (took, lag) = (now.since(since).max(Span::ZERO), self.flow.work.departures.lag);
        self.flow.work.departures.lag = (took * 2).max(Span(lag.0 - lag.0 / 64)).max(LAG_LEAST);
        let mut close = std::mem::take(&mut self.flow.work.departures.close);
        for departure in &close {
            self.judge(now, departure, out);
        }
        if took > lag && self.settings.policy.is_by_deadline() {
            close.sort_unstable();
            self.judge_others(now, &close, out);
        }
        close.clear();
        self.flow.work.departures.close = close;
        self.flow.work.departures.all.clear();
    }

    fn judge(&mut self, now: Time, departure: &Departure, out: &mut impl Outputs) {
        let Steps { flow: Flow { store: Store { table, links, .. }, stats, .. }, settings, .. } = self;
        if !settings.policy.is_by_deadline() {
            return;
        }
        // It may have ended in the turn in which its last messages were dispatched.
        let Some((stream, topic)) = table.pair_mut(departure.stream) else { return };
        if departure.copy {
            stream.judge_copy(now, departure.created, topic, stats);
        } else {
            stream.judge_departure(now, departure.created, topic, links, stats, out);
        }
    }

    /// Writing took longer than was thought: messages may be late that seemed to have time enough when they were dispatched, besides those
    /// that have been judged.
    #[cold]
    fn judge_others(&mut self, now: Time, judged: &[Departure], out: &mut impl Outputs) {
        let all = std::mem::take(&mut self.flow.work.departures.all);
        for (index, ticket) in &all {
            let Flow { store: Store { table, links, .. }, stats, .. } = &mut *self.flow;
            // The stream may have ended since, and the message may have been overwritten.
            let Some((stream, topic)) = table.pair_mut(*index) else { continue };
            let Some(created) = stream.ring.slot(*ticket).map(|slot| slot.created) else { continue };
            if judged.binary_search(&Departure { stream: *index, created, copy: false }).is_err() {
                stream.judge_departure(now, created, topic, links, stats, out);
            }
        }
        self.flow.work.departures.all = all;
    }
}

impl Stream {
    /// A message has left now.
    pub(crate) fn judge_departure(
        &mut self,
        now: Time,
        created: Time,
        topic: &Topic,
        links: &Links,
        stats: &mut Stats,
        out: &mut impl Outputs,
    ) {
        let took = now.since(created);
        if took > topic.plan.pseudo.dispatch {
            self.miss(now, took, topic, |client| links.clock_of(client), stats, out);
        }
    }

    /// A copy has left now.
    pub(crate) fn judge_copy(&mut self, now: Time, created: Time, topic: &Topic, stats: &mut Stats) {
        if now > created + topic.plan.pseudo.replication {
            stats.late_replications += 1;
            self.record.troubles.endanger(now, Concern::CopiesLate);
        }
    }
}
