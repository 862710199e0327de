//! A failing scenario, made as small as it gets while the same property stays broken: fewer faults, clients and topics,
//! shorter, and with nothing unusual that does not matter.

use crate::run::Outcome;
use crate::scenario::{Act, ClockError, Latency, Pace, Scenario};
use crate::world::World;
use contract::Span;

/// Runs that may be spent on it.
const RUNS_MAX: usize = 600;

/// The smallest scenario found that breaks the same property, with its outcome. A scenario that breaks nothing is returned
/// as it is.
pub fn shrink(scenario: &Scenario, seed: u64) -> (Scenario, Outcome) {
    let outcome = World::play(scenario, seed);
    let Some(violation) = &outcome.violation else { return (scenario.clone(), outcome) };
    let mut search = Search { seed, checker: violation.checker, runs: 0, best: scenario.clone(), outcome };
    loop {
        let before = search.best.clone();
        search.drop_parts(0, |scenario| &mut scenario.faults);
        search.drop_parts(0, |scenario| &mut scenario.devices);
        search.drop_parts(1, |scenario| &mut scenario.subscribers);
        search.drop_parts(1, |scenario| &mut scenario.publishers);
        for device in (0..search.best.devices.len()).rev() {
            search.drop_parts(0, |scenario| &mut scenario.devices[device].topics);
            search.drop_parts(0, |scenario| &mut scenario.devices[device].filters);
        }
        for publisher in (0..search.best.publishers.len()).rev() {
            search.drop_parts(0, |scenario| &mut scenario.publishers[publisher].topics);
        }
        search.shorten();
        SIMPLER.iter().for_each(|simplify| search.attempt(simplify));
        if search.best == before || search.runs >= RUNS_MAX {
            return (search.best, search.outcome);
        }
    }
}

/// Ways to make a scenario more usual.
const SIMPLER: &[fn(&mut Scenario)] = &[
    |scenario| {
        if !scenario.faults.iter().any(|fault| matches!(fault.act, Act::Graphs { .. })) {
            scenario.later.clear();
        }
    },
    |scenario| scenario.clocks = Default::default(),
    |scenario| scenario.publishers.iter_mut().for_each(|spec| spec.clock = ClockError::default()),
    |scenario| scenario.subscribers.iter_mut().for_each(|spec| spec.clock = ClockError::default()),
    |scenario| scenario.pair = Latency::fixed(scenario.pair.least),
    |scenario| {
        scenario.publishers.iter_mut().for_each(|spec| spec.latency = Latency::fixed(spec.latency.least));
    },
    |scenario| {
        scenario.subscribers.iter_mut().for_each(|spec| spec.latency = Latency::fixed(spec.latency.least));
    },
    |scenario| scenario.devices.iter_mut().for_each(|spec| spec.clock = ClockError::default()),
    |scenario| scenario.devices.iter_mut().for_each(|spec| spec.will = None),
    |scenario| {
        scenario.devices.iter_mut().for_each(|spec| spec.latency = Latency::fixed(spec.latency.least));
    },
    |scenario| scenario.publishers.iter_mut().for_each(|spec| spec.starts = Span::ZERO),
    |scenario| scenario.subscribers.iter_mut().for_each(|spec| spec.starts = Span::ZERO),
    |scenario| {
        let topics = scenario.publishers.iter_mut().flat_map(|spec| &mut spec.topics);
        topics
            .for_each(|topic| (topic.pace, topic.payload_bytes) = (Pace::Periodic, crate::PAYLOAD_BYTES_MIN));
    },
    |scenario| scenario.window_bytes = 4 << 20,
    |scenario| scenario.limits = Default::default(),
    |scenario| scenario.replication = Default::default(),
];

struct Search {
    seed: u64,
    checker: &'static str,
    runs: usize,
    best: Scenario,
    outcome: Outcome,
}

impl Search {
    /// Keeps a change if the same property is still broken.
    fn attempt(&mut self, change: impl Fn(&mut Scenario)) {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        if candidate == self.best || self.runs >= RUNS_MAX {
            return;
        }
        self.runs += 1;
        let outcome = World::play(&candidate, self.seed);
        if outcome.violation.as_ref().is_some_and(|violation| violation.checker == self.checker) {
            (self.best, self.outcome) = (candidate, outcome);
        }
    }

    /// Leaves out parts of a list: halves first, then smaller pieces. So many parts stay at least.
    fn drop_parts<T>(&mut self, least: usize, list: impl Fn(&mut Scenario) -> &mut Vec<T>) {
        let mut piece = list(&mut self.best).len();
        while piece > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let before = list(&mut self.best).len();
                self.attempt(|scenario| {
                    let parts = list(scenario);
                    let to = (from + piece).min(parts.len());
                    if parts.len() - (to - from) >= least {
                        parts.drain(from..to);
                    }
                });
                if list(&mut self.best).len() == before {
                    from += piece;
                }
            }
            piece /= 2;
        }
    }

    fn shorten(&mut self) {
        for _ in 0..6 {
            self.attempt(|scenario| scenario.span = Span(scenario.span.0 / 2));
        }
    }
}
