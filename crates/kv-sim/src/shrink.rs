//! A failing scenario, made as small as it gets while the same property stays broken.

use crate::report::Outcome;
use crate::scenario::{Act, Scenario};
use crate::world::play;
use contract::Span;
use simulation::Search;

/// Runs that may be spent on it.
const RUNS_MAX: usize = 300;

/// The smallest scenario found that breaks the same property, with its outcome. A scenario that breaks nothing is returned as it
/// is.
pub fn shrink(scenario: &Scenario, seed: u64) -> (Scenario, Outcome) {
    let outcome = play(scenario, seed);
    let Some(violation) = &outcome.violation else { return (scenario.clone(), outcome) };
    let checker = violation.checker;
    let breaks = |candidate: &Scenario| Some(play(candidate, seed)).filter(|outcome| outcome.breaks(checker));
    Search::new(scenario.clone(), outcome, RUNS_MAX, breaks).until_nothing_helps(|search| {
        for fault in (0..search.best().faults.len()).rev() {
            search.attempt(|scenario| {
                let gone = scenario.faults.remove(fault);
                if matches!(gone.act, Act::Clock(_)) {
                    scenario.clocks[gone.node] = Span::ZERO;
                }
            });
        }
        for fault in 0..search.best().faults.len() {
            // A crash needs time to come back.
            search.attempt(|scenario| {
                let one = &mut scenario.faults[fault];
                let least = if matches!(one.act, Act::Crash(_)) { 2 } else { 1 };
                one.until = one.until.min(one.from + least.max((one.until - one.from) / 2));
            });
        }
        for key in (1..search.best().keys.len()).rev() {
            search.attempt(|scenario| {
                scenario.keys.remove(key);
            });
        }
        for keep in [1, 2, 4, 8, 16, 32] {
            search.attempt(|scenario| scenario.jobs = scenario.jobs.min(keep));
        }
        SIMPLER.iter().for_each(|simplify| search.attempt(simplify));
    })
}

/// Ways to make a scenario more usual.
const SIMPLER: &[fn(&mut Scenario)] = &[
    |scenario| scenario.lanes = 1,
    |scenario| scenario.rings = false,
    |scenario| scenario.excess = Span::ZERO,
    |scenario| scenario.cpu = Span::ZERO,
    |scenario| {
        if !scenario.faults.iter().any(|fault| matches!(fault.act, Act::Clock(_))) {
            scenario.clocks.iter_mut().for_each(|ahead| *ahead = Span::ZERO);
        }
    },
    |scenario| scenario.tasks.iter_mut().for_each(|task| task.cost = Span::ZERO),
];
