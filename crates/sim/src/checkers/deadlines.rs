//! An admitted set never misses a dispatch deadline while the assumptions hold: costs as counted, delays as configured,
//! publishers that keep their period, and nothing broken.
//!
//! Source: lemma 2 (F2), and the processor demand criterion. A message counts as dispatched when its bytes leave the
//! process, at the end of the turn.

use crate::ledger::Stream;
use crate::scenario::{Pace, Scenario};
use contract::{Span, Time};
use std::collections::BTreeSet;

pub(super) const NAME: &str = "deadlines";
pub(super) const STATEMENT: &str = "while costs and delays hold, no admitted message is dispatched late";

#[derive(Clone)]
pub(super) struct Deadlines {
    holds: bool,
    upstream: Span,
    /// Messages that came later than the assumed delay allows.
    delayed: BTreeSet<(String, u64)>,
}

/// After everything is whole again, what had piled up has so long to be worked off.
const AFTERMATH: Span = Span::millis(500);

impl Deadlines {
    pub(super) fn new(scenario: &Scenario) -> Deadlines {
        let (costs, truth) = (&scenario.costs, &scenario.true_costs);
        let costs_hold = truth.arrival <= costs.arrival
            && truth.dispatch <= costs.dispatch
            && truth.replication <= costs.replication;
        let topics = scenario.publishers.iter().flat_map(|publisher| &publisher.topics);
        let paced = topics.into_iter().all(|topic| !matches!(topic.pace, Pace::Bursts(_)));
        let tested = scenario.schedulability && scenario.policy == broker::Policy::Frame;
        Deadlines {
            holds: scenario.assumed && costs_hold && paced && tested,
            upstream: scenario.delays.publisher_to_broker,
            delayed: BTreeSet::new(),
        }
    }

    pub(super) fn arrived(&mut self, stream: &Stream, _host: usize, local: Time, seq: u64, resent: bool) {
        if !self.holds {
            return;
        }
        let Some(message) = stream.message(seq) else { return };
        if resent || local.since(message.stamped) > self.upstream {
            self.delayed.insert((stream.topic.clone(), seq));
        }
    }

    pub(super) fn left(
        &self,
        stream: &Stream,
        _host: usize,
        calm: Time,
        local: Time,
        seq: u64,
    ) -> Result<(), String> {
        let (Some(message), Some(deadlines)) = (stream.message(seq), stream.deadlines) else { return Ok(()) };
        let due = message.stamped + deadlines.dispatch;
        if !self.holds || local <= due || message.accepted < calm + AFTERMATH {
            return Ok(());
        }
        if self.delayed.contains(&(stream.topic.clone(), seq)) {
            return Ok(());
        }
        Err(format!(
            "{} #{seq} left {} after its dispatch deadline, although nothing was broken; contract {}",
            stream.topic,
            local.since(due),
            stream.contract
        ))
    }
}
