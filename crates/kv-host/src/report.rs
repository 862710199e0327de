//! What a lane's thread has to tell. It never waits for whoever reads: what cannot be told now is told after the next job.

use contract::{Span, Time};
use hdrhistogram::Histogram;
use kv::{Comparison, Lane, NODES_MAX, Node, NodeSet, Outcome, PeerCounters, VoteFunction};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Jobs that may wait to be told.
const BACKLOG: usize = 64;
/// Three digits are kept; no job lasts longer than this many nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// What is known of a lane.
#[derive(Debug)]
pub(crate) struct Report {
    /// From the release of a job until its values were in the store, in nanoseconds, of jobs that count.
    pub(crate) coordination: Histogram<u64>,
    /// What is left of the period after that, at worst.
    pub(crate) margin_min: Span,
    pub(crate) facts: Facts,
    pub(crate) peers: [PeerCounters; NODES_MAX],
}

/// What changes with every job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) last: Option<Outcome>,
    pub(crate) jobs: u64,
    /// Jobs that count in which all nodes were heard in all rounds.
    pub(crate) complete: u64,
    /// Jobs that count after which a peer had published something else than this node.
    pub(crate) disagreed: u64,
    pub(crate) alarms: u64,
    pub(crate) skipped: u64,
    /// Jobs that this node published nothing of, and times that it came to know what it had missed.
    pub(crate) fenced: u64,
    pub(crate) recovered: u64,
    /// When last something was not as it should be here, or at a peer; [`Time::ZERO`]: never.
    pub(crate) troubled: Time,
    pub(crate) late_publish: u64,
    /// Votes of users' own that came to nothing by a fault of theirs.
    pub(crate) votes_failed: u64,
    /// How far the clock has gone back, until it has caught up.
    pub(crate) clock_back: Span,
    pub(crate) sends_to: NodeSet,
    pub(crate) hears: NodeSet,
    pub(crate) writes: crate::clients::Writes,
}

/// A report that two threads share.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Report>>);

impl Shared {
    pub(crate) fn new() -> Shared {
        #[expect(clippy::expect_used, reason = "the bounds are right")]
        let coordination = Histogram::new_with_bounds(1, LONGEST, 3).expect("proper bounds");
        let peers = [PeerCounters::default(); NODES_MAX];
        let report = Report { coordination, margin_min: Span::FOREVER, facts: Facts::default(), peers };
        Shared(Arc::new(Mutex::new(report)))
    }

    /// For whoever reads; not for the lane's thread.
    pub(crate) fn read(&self) -> MutexGuard<'_, Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the lane's thread has not told yet.
pub(crate) struct Telling {
    shared: Shared,
    pub(crate) facts: Facts,
    votes: Vec<Arc<dyn VoteFunction>>,
    durations: [u64; BACKLOG],
    waiting: usize,
}

impl Telling {
    pub(crate) fn new(shared: Shared, votes: Vec<Arc<dyn VoteFunction>>) -> Telling {
        Telling { shared, facts: Facts::default(), votes, durations: [0; BACKLOG], waiting: 0 }
    }

    /// A job has ended; `counts` if it is not one of the first.
    pub(crate) fn ended(&mut self, outcome: Outcome, release: Time, now: Time, counts: bool) {
        self.facts.last = Some(outcome);
        let Comparison { differ, .. } = outcome.comparison;
        self.facts.alarms += u64::from(outcome.alarm);
        if counts {
            let calm = [outcome.silent, outcome.liars, differ].iter().all(|nodes| nodes.is_empty());
            if !(calm && outcome.sure && outcome.late == 0 && !outcome.alone && !outcome.fenced) {
                self.facts.troubled = now;
            }
            self.facts.jobs += 1;
            self.facts.complete += u64::from(outcome.silent.is_empty());
            self.facts.disagreed += u64::from(!differ.is_empty());
            if self.waiting < BACKLOG {
                self.durations[self.waiting] = now.since(release).as_nanos_u64().clamp(1, LONGEST);
                self.waiting += 1;
            }
        }
    }

    /// Tells what there is, if nobody reads just now.
    pub(crate) fn tell(&mut self, lane: &Lane) {
        let votes_failed = self.votes.iter().map(|vote| vote.failed()).sum();
        if lane.skipped() > self.facts.skipped || votes_failed > self.facts.votes_failed {
            self.facts.troubled = host::now();
        }
        self.facts.votes_failed = votes_failed;
        (self.facts.skipped, self.facts.fenced, self.facts.recovered) =
            (lane.skipped(), lane.fenced(), lane.recovered());
        self.facts.late_publish = lane.late_publish();
        let Ok(mut report) = self.shared.0.try_lock() else { return };
        let (period, offset) = (lane.setup().period(), lane.setup().config().offset);
        for &duration in &self.durations[..self.waiting] {
            report.coordination.saturating_record(duration);
            let left = period - offset - Span(duration as i64);
            report.margin_min = report.margin_min.min(left);
        }
        self.waiting = 0;
        report.facts = self.facts;
        for (place, counters) in report.peers.iter_mut().enumerate().take(lane.setup().nodes()) {
            *counters = lane.counters(Node::at(place));
        }
    }
}
