//! Which results are promised while graphs of operators change.
//!
//! What is documented (docs/survival.md, "What a change of operators does"): a graph that is the same before and after goes on as if nothing
//! had happened. What one that ends or changes has under way is given up. From then on a message has the results that its
//! broker's graphs make; until both brokers have read the same, those are of whoever reigns.
//!
//! So a result is promised if every broker that reigned while its message was under way had one graph for it all that time.

use crate::ledger::{Ledger, Stream};
use crate::scenario::Scenario;
use contract::{Span, Time};
use processing::{GraphSpec, captures, fill};
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Served {
    /// The configured graphs as they are one after the other.
    plans: Arc<[Vec<GraphSpec>]>,
    /// Since when each broker has had which of them.
    loaded: [Vec<(Time, usize)>; 2],
    /// Who has come to reign, and when.
    reigns: Vec<(Time, usize)>,
}

/// A broker that has been succeeded may not know it yet, and messages may be on their way beyond their deadline.
const SLACK: Span = Span::secs(1);

impl Served {
    pub(super) fn new(scenario: &Scenario) -> Served {
        Served { plans: scenario.plans().cloned().collect(), loaded: Default::default(), reigns: Vec::new() }
    }

    /// A broker has taken over other graphs, or begins with these.
    pub(super) fn loads(&mut self, now: Time, host: usize, plan: usize) {
        self.loaded[host].push((now, plan));
    }

    pub(super) fn promoted(&mut self, now: Time, host: usize) {
        self.reigns.push((now, host));
    }

    /// Whether a message of a stream had to be sent to its subscribers: a result, only if graphs stayed the same for long enough.
    pub(super) fn is_promised(&self, ledger: &Ledger, stream: &Stream, seq: u64) -> bool {
        if stream.origin.is_none() {
            return true;
        }
        if self.loaded.iter().flatten().all(|(_, plan)| *plan == 0) {
            return self.graph_of(stream, ledger, 0).is_some();
        }
        let Some(message) = stream.message(seq) else { return false };
        let origin = ledger.origin_of(stream);
        let longest = stream.contract.deadline.max(origin.contract.deadline);
        let (from, to) = (message.accepted, message.accepted + longest + ledger.delays.failover + SLACK);
        let ends = self.reigns.iter().skip(1).map(|(at, _)| *at + SLACK).chain([Time::NEVER]);
        let reigns =
            self.reigns.iter().zip(ends).filter(|((begins, _), ends)| *begins <= to && *ends >= from);
        let mut times = reigns.map(|((begins, host), ends)| (*host, from.max(*begins), to.min(ends)));
        times.all(|(host, from, to)| self.had_one_graph(ledger, stream, host, from, to))
    }

    fn had_one_graph(&self, ledger: &Ledger, stream: &Stream, host: usize, from: Time, to: Time) -> bool {
        let log = &self.loaded[host];
        let first = log.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let during = log.iter().skip(first).take_while(|(at, _)| *at <= to);
        let mut graphs = during.map(|(_, plan)| self.graph_of(stream, ledger, *plan));
        let Some(Some(one)) = graphs.next() else { return false };
        graphs.all(|other| other == Some(one))
    }

    /// The graph that makes a stream of results.
    fn graph_of(&self, stream: &Stream, ledger: &Ledger, plan: usize) -> Option<&GraphSpec> {
        let from = &ledger.origin_of(stream).topic;
        let makes = |graph: &&GraphSpec| {
            let captured = graph.suppliers.first().and_then(|supplier| captures(&supplier.name, from));
            captured.is_some_and(|captured| {
                let mut names = graph.consumers.iter().filter_map(|consumer| fill(&consumer.name, &captured));
                names.any(|name| name == stream.topic)
            })
        };
        self.plans.get(plan)?.iter().find(makes)
    }
}
