//! The results of operators that remember are those of a run without a crash.
//!
//! Source: an operator that remembers says the same after a failover as without one, where no message is lost. Those of simulations say how
//! many messages came between one and the one before it ([`crate::operators::step_of`]): always one, where nothing was lost, forgotten, or
//! processed twice or in another order.

use super::served::Served;
use crate::ledger::Ledger;
use crate::node::Got;
use crate::operators::{Step, step_of};
use crate::scenario::Scenario;
use contract::{Loss, Time};
use processing::captures;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "memories";
pub(super) const STATEMENT: &str = "results of operators that remember are those of a run without a crash";

#[derive(Clone)]
pub(super) struct Memories {
    /// Topics of results of operators that remember.
    outputs: Vec<String>,
    /// By stream and subscriber: what each result says of its message, and when it came.
    steps: BTreeMap<(u32, usize), BTreeMap<u64, (Step, Time)>>,
}

impl Memories {
    pub(super) fn new(scenario: &Scenario) -> Memories {
        // Where graphs change, instances begin anew.
        let one_plan = scenario.assumed && scenario.plans().count() == 1;
        let graphs = scenario.plans().flatten().filter(|_| one_plan);
        let outputs = graphs.flat_map(|graph| {
            let remembers = |name: &str| {
                graph.operators.iter().any(|operator| operator.name == name && operator.kind == "step")
            };
            graph
                .consumers
                .iter()
                .filter(move |consumer| remembers(&consumer.from))
                .map(|consumer| consumer.name.clone())
        });
        Memories { outputs: outputs.collect(), steps: BTreeMap::new() }
    }

    pub(super) fn delivered(&mut self, ledger: &Ledger, now: Time, subscriber: usize, got: &Got) {
        let Some(stream) = ledger.stream(got.stream).filter(|stream| stream.origin.is_some()) else { return };
        // Elsewhere messages may be lost.
        let whole = ledger.origin_of(stream).contract.loss == Loss::AtMost(0);
        if whole && self.outputs.iter().any(|output| captures(output, &stream.topic).is_some()) {
            let steps = self.steps.entry((got.stream, subscriber)).or_default();
            steps.entry(got.seq).or_insert((step_of(got.bytes), now));
        }
    }

    /// How many results there were to look at.
    pub(super) fn seen(&self) -> u64 {
        self.steps.values().map(|steps| steps.len() as u64).sum()
    }

    pub(super) fn ends(&self, ledger: &Ledger, served: &Served) -> Result<(), (Time, String)> {
        for ((number, _), steps) in &self.steps {
            let Some(stream) = ledger.stream(*number) else { continue };
            let origin = ledger.origin_of(stream);
            for (seq, (step, at)) in steps {
                let Some(before) = seq.checked_sub(1) else { continue };
                let excused = [before, *seq].iter().any(|seq| {
                    stream.excused.contains(seq)
                        || origin.excused.contains(seq)
                        || !served.is_promised(ledger, stream, *seq)
                });
                if *step == Step::On(1) || !steps.contains_key(&before) || excused {
                    continue;
                }
                let topic = &stream.topic;
                return Err((
                    *at,
                    format!(
                        "the operator that made {topic} #{seq} took it for {step:?}, not for the one after #{before}"
                    ),
                ));
            }
        }
        Ok(())
    }
}
