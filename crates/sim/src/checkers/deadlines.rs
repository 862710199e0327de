//! While the assumptions hold, an admitted set never misses a deadline: messages are dispatched by `D^d` and copied by
//! `D^r`, and arrive by `D` where the way to the subscriber is never longer than its link class says. The assumptions:
//! costs as counted, delays as configured, publishers that keep their period, and nothing broken.
//!
//! Source: FRAME, lemmas 1 and 2 (F1, F2), and R4 (ARREC §4.4) where copies are lazy, computed here from the terms, and the processor
//! demand criterion. A job is done when its bytes leave the process, at the end of the turn.
//!
//! Where brokers are given other graphs while they run, lazy copies are excused from when one has told that the budget is too small for
//! them: whatever else is promised was tested before.

use crate::ledger::Stream;
use crate::scenario::{Pace, Scenario};
use contract::{Links, Span, Time};
use std::collections::BTreeSet;
use wire::MessageKind;

pub(super) const NAME: &str = "deadlines";
pub(super) const STATEMENT: &str =
    "while costs and delays hold, no admitted message is dispatched or copied late";

#[derive(Clone)]
pub(super) struct Deadlines {
    holds: bool,
    upstream: Span,
    links: Links,
    /// The longest way to each subscriber.
    ways: Vec<Span>,
    /// Brokers are given other graphs while they run.
    graphs_change: bool,
    /// `C_r`, where copies are lazy: those that have more time than that.
    budget: Option<Span>,
    /// Lazy copies may be late: it was told.
    budget_short: bool,
    /// Messages that came later than the assumed delay allows, by stream and number.
    delayed: BTreeSet<(u32, u64)>,
}

/// After everything is whole again, what had piled up has so long to be worked off.
const AFTERMATH: Span = Span::millis(500);
/// Clocks may be apart by less than this, within what is assumed.
const CLOCKS_APART: Span = Span::micros(500);

impl Deadlines {
    pub(super) fn new(scenario: &Scenario) -> Deadlines {
        let (costs, truth) = (&scenario.costs, &scenario.true_costs);
        let costs_hold = truth.arrival <= costs.arrival
            && truth.dispatch <= costs.dispatch
            && truth.replication <= costs.replication
            && scenario.true_costs.turn <= costs.turn
            && truth.io.tcp.read <= costs.io.tcp.read
            && truth.io.tcp.write <= costs.io.tcp.write
            && truth.io.tcp.kib <= costs.io.tcp.kib;
        let topics = scenario.publishers.iter().flat_map(|publisher| &publisher.topics);
        let paced = topics.into_iter().all(|topic| !matches!(topic.pace, Pace::Bursts(_)));
        let tested = scenario.refuses_what_does_not_fit();
        Deadlines {
            holds: scenario.assumed && costs_hold && paced && tested,
            upstream: scenario.delays.publisher_to_broker,
            links: scenario.links.clone(),
            ways: scenario.subscribers.iter().map(|spec| spec.latency.most).collect(),
            graphs_change: !scenario.later.is_empty(),
            budget: scenario.lazy().map(|lazy| lazy.budget),
            budget_short: false,
            delayed: BTreeSet::new(),
        }
    }

    /// A broker says that the copies which may have to begin at once do not fit the budget.
    pub(super) fn budget_is_short(&mut self) {
        self.budget_short |= self.graphs_change;
    }

    /// Somebody sets a clock.
    pub(super) fn clocks_part(&mut self) {
        self.holds = false;
    }

    /// A message has come from its publisher, to the broker's host.
    pub(super) fn arrived(&mut self, number: u32, stream: &Stream, local: Time, seq: u64, resent: bool) {
        let Some(message) = stream.message(seq).filter(|_| self.holds) else { return };
        if resent || local.since(message.stamped) > self.upstream {
            self.delayed.insert((number, seq));
        }
    }

    /// A message, or a copy of it, has left a broker.
    pub(super) fn left(
        &self,
        number: u32,
        stream: &Stream,
        kind: MessageKind,
        calm: Time,
        local: Time,
        seq: u64,
    ) -> Result<(), String> {
        let (Some(message), Some(deadlines)) = (stream.message(seq), stream.deadlines) else { return Ok(()) };
        let (span, what) = match kind {
            MessageKind::Deliver => (deadlines.dispatch, "left"),
            MessageKind::Replicate => (deadlines.replication, "was copied"),
            _ => return Ok(()),
        };
        let due = message.stamped + span;
        let is_lazy = kind == MessageKind::Replicate && self.budget.is_some_and(|budget| span > budget);
        if is_lazy && self.budget_short {
            return Ok(());
        }
        if local <= due || !self.is_bound(number, stream, seq, message.accepted, calm) {
            return Ok(());
        }
        Err(format!(
            "{} #{seq} {what} {} after its deadline for that, although nothing was broken; contract {}",
            stream.topic,
            local.since(due),
            stream.contract
        ))
    }

    /// A message has reached a subscriber.
    pub(super) fn delivered(
        &self,
        number: u32,
        stream: &Stream,
        subscriber: usize,
        calm: Time,
        latency: Span,
        seq: u64,
    ) -> Result<(), String> {
        let (deadline, link) = (stream.contract.deadline, self.links.delay(stream.contract.link));
        let Some(message) = stream.message(seq).filter(|_| latency > deadline + CLOCKS_APART) else {
            return Ok(());
        };
        let near = link.is_some_and(|link| self.ways[subscriber] <= link.to_subscriber);
        if !near || !self.is_bound(number, stream, seq, message.accepted, calm) {
            return Ok(());
        }
        Err(format!("{} #{seq} took {latency} of {deadline}, although nothing was broken", stream.topic))
    }

    /// Whether a message's deadlines bind: it came in its time, long enough after everything was whole.
    fn is_bound(&self, number: u32, stream: &Stream, seq: u64, accepted: Time, calm: Time) -> bool {
        // When a result is there, is up to its operators.
        self.holds
            && stream.origin.is_none()
            && accepted >= calm + AFTERMATH
            && !self.delayed.contains(&(number, seq))
    }
}
