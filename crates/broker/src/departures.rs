//! Whether what was dispatched or copied in a turn has left in time: its bytes are written at the end of the turn.
//!
//! The problem: a message that is dispatched within its deadline leaves after it where the turn goes on for long, or many connections have to
//! be written to. Remembering every message until then would cost every message. The idea: only those are remembered that have little time
//! left, less than it took of late until everything was written; mostly none has. Where writing took longer than that, the newest message
//! of each stream is looked at instead.

use crate::broker::{Broker, Outputs};
use crate::links::Links;
use crate::ring::SlotFlags;
use crate::status::Stats;
use crate::table::{Stream, Topic};
use contract::{Mutant, Span, Time};
use wire::Concern;

/// What was dispatched in this turn.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    /// When the first of it was; [`Time::NEVER`]: nothing was.
    since: Time,
    /// Whoever has less time left than this is remembered: twice as long as it took of late until everything was written.
    lag: Span,
    close: Vec<Departure>,
}

/// A message or copy with little time left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    stream: u32,
    created: Time,
    copy: bool,
}

/// Messages remembered in one turn. Further ones are judged at once.
const CLOSE_MAX: usize = 4_096;
/// Writing takes so long at least, as far as it matters.
const LAG_LEAST: Span = Span::millis(1);

impl Default for Departures {
    fn default() -> Departures {
        Departures { since: Time::NEVER, lag: LAG_LEAST, close: Vec::new() }
    }
}

impl Departures {
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

    /// A message, or a copy, has so much time left. Where it may leave late it is remembered. Returns whether it has to be judged at once,
    /// for want of room.
    #[inline]
    pub(crate) fn overflow(&mut self, stream: u32, created: Time, copy: bool, spare: Span) -> bool {
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

impl Broker {
    /// Whether somebody waits for [`Broker::handle_left`].
    #[inline]
    pub fn awaits_leaving(&self) -> bool {
        self.departures.since != Time::NEVER
    }

    /// Everything that was written so far has left this process: given to the system, or waiting for peers that do not take it.
    pub fn handle_left(&mut self, now: Time, out: &mut impl Outputs) {
        let since = std::mem::replace(&mut self.departures.since, Time::NEVER);
        if since == Time::NEVER || Mutant::JudgeBeforeLeaving.is_on() {
            return;
        }
        self.lazy.action().left(now);
        let (took, lag) = (now.since(since).max(Span::ZERO), self.departures.lag);
        self.departures.lag = (took * 2).max(Span(lag.0 - lag.0 / 64)).max(LAG_LEAST);
        if !self.departures.close.is_empty() {
            let close = std::mem::take(&mut self.departures.close);
            for departure in &close {
                self.judge(now, departure, out);
            }
            self.departures.close = close;
            self.departures.close.clear();
        }
        if took > lag && self.settings.policy.is_by_deadline() {
            self.judge_newest(now, since, lag, out);
        }
    }

    fn judge(&mut self, now: Time, departure: &Departure, out: &mut impl Outputs) {
        let Broker { table, links, stats, settings, .. } = self;
        if !settings.policy.is_by_deadline() {
            return;
        }
        let Some((stream, topic)) = table.pair_mut(departure.stream) else { return };
        if departure.copy {
            stream.judge_copy(now, departure.created, topic, stats);
        } else {
            stream.judge_departure(now, departure.created, topic, links, stats, out);
        }
    }

    /// Writing took longer than was thought: messages may be late that seemed to have time enough when they were dispatched.
    #[cold]
    fn judge_newest(&mut self, now: Time, since: Time, lag: Span, out: &mut impl Outputs) {
        for index in 0..self.table.len() as u32 {
            let Broker { table, links, stats, .. } = self;
            let Some((stream, topic)) = table.pair_mut(index) else { continue };
            let Some(slot) = stream.ring.tickets().next_back().and_then(|ticket| stream.ring.slot(ticket))
            else {
                continue;
            };
            let again = slot.flags.has(SlotFlags::RESENT.or(SlotFlags::COPY));
            let dispatched = slot.flags.has(SlotFlags::DISPATCHED.or(SlotFlags::OFFERED));
            // In microseconds, rounded up.
            let took = Span::micros(stream.took.last.into());
            let (created, at) = (slot.created, slot.created + took);
            let remembered = took + lag > topic.plan.pseudo.dispatch;
            if dispatched && !again && at >= since && !remembered {
                stream.judge_departure(now, created, topic, links, stats, out);
            }
        }
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
