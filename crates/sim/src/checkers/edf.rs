//! Jobs run in the order of their deadlines: among those that are ready, the earliest first.
//!
//! Source: FRAME, A3 and formulas F6, F7 (§3.4.1). What is seen is what a portion of jobs writes; nothing arrives while it
//! runs, so every job of it was ready when it began, and the deadlines must not go down. Order from one portion to the
//! next is not looked at. Messages that did not keep their period, or whose clock was off, are planned otherwise and not
//! looked at, nor are copies of topics that are copied lazily, which go before all jobs (see `lazy`).

use crate::ledger::{self, Life, Stream};
use crate::port::Note;
use crate::scenario::Scenario;
use broker::Policy;
use contract::Time;

pub(super) const NAME: &str = "edf";
pub(super) const STATEMENT: &str =
    "of the jobs that are ready, the one with the earliest deadline runs first";

/// What a job does with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Dispatch,
    Copy,
}

#[derive(Clone, Copy, Default)]
struct Portion {
    runs: bool,
    /// The latest deadline so far, and whose it was.
    latest: Time,
    stream: u32,
    seq: u64,
}

#[derive(Clone)]
pub(super) struct Edf {
    portions: [Portion; 2],
    /// The baselines serve in another order.
    holds: bool,
}

impl Edf {
    pub(super) fn new(scenario: &Scenario) -> Edf {
        let holds = scenario.policy == Policy::Frame && scenario.replication.keeps_contracts();
        Edf { portions: Default::default(), holds }
    }

    pub(super) fn portion_begins(&mut self, host: usize) {
        if let Some(portion) = self.portions.get_mut(host) {
            *portion = Portion { runs: true, ..Portion::default() };
        }
    }

    /// Whether the broker runs jobs, rather than sending what had waited for a subscriber.
    pub(super) fn is_running(&self, host: usize) -> bool {
        self.portions[host].runs
    }

    pub(super) fn portion_ends(&mut self, host: usize) {
        if let Some(portion) = self.portions.get_mut(host) {
            portion.runs = false;
        }
    }

    /// A job of the given kind has run.
    pub(super) fn runs(
        &mut self,
        stream: &Stream,
        host: usize,
        life: Life,
        note: &Note,
        kind: Kind,
        local: Time,
    ) -> Result<(), String> {
        let (Some(deadlines), Some(message)) = (stream.deadlines, stream.message(note.seq)) else {
            return Ok(());
        };
        let (span, what) = match kind {
            Kind::Dispatch => (deadlines.dispatch, "dispatch"),
            Kind::Copy => (deadlines.replication, "copy"),
        };
        // When a result is there, is up to its operators.
        if (kind == Kind::Copy && deadlines.every.is_some()) || stream.origin.is_some() {
            return Ok(());
        }
        let deadline = message.stamped + span;
        let ahead = stream.traces(host, life, note.seq) & ledger::AHEAD != 0;
        let portion = &mut self.portions[host];
        if ahead || !self.holds || !portion.runs || !is_regular(stream, note.seq, local) {
            return Ok(());
        }
        if deadline < portion.latest {
            return Err(format!(
                "the {what} of {} #{} came after a job with a deadline {} later (stream {} #{})",
                stream.topic,
                note.seq,
                portion.latest.since(deadline),
                portion.stream,
                portion.seq
            ));
        }
        (portion.latest, portion.stream, portion.seq) = (deadline, note.stream, note.seq);
        Ok(())
    }
}

/// Whether a message's deadlines are counted from its creation: it came in its time, and not from the future.
fn is_regular(stream: &Stream, seq: u64, local: Time) -> bool {
    let Some(message) = stream.message(seq) else { return false };
    let stamped = message.stamped;
    let before = seq.checked_sub(1).and_then(|seq| stream.message(seq));
    let in_step = before.is_none_or(|before| stamped.since(before.stamped) >= stream.contract.period);
    in_step && stamped <= local && local <= stamped + stream.contract.deadline
}
