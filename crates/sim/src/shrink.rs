//! A failing scenario, made as small as it gets while the same property stays broken: fewer faults, clients and topics,
//! shorter, and with nothing unusual that does not matter.

use crate::run::Outcome;
use crate::scenario::{Act, ClockError, Pace, Scenario};
use crate::world::World;
use contract::Span;
use simulation::{Latency, Search};

/// Runs that may be spent on it.
const RUNS_MAX: usize = 600;
/// So often, in each round of attempts, a run may become half as long.
const HALVINGS: usize = 6;

/// The smallest scenario found that breaks the same property, with its outcome. A scenario that breaks nothing is returned
/// as it is.
pub fn shrink(scenario: &Scenario, seed: u64) -> (Scenario, Outcome) {
    let outcome = World::play(scenario, seed);
    let Some(violation) = &outcome.violation else { return (scenario.clone(), outcome) };
    let checker = violation.checker;
    let breaks =
        |candidate: &Scenario| Some(World::play(candidate, seed)).filter(|outcome| outcome.breaks(checker));
    Search::new(scenario.clone(), outcome, RUNS_MAX, breaks).until_nothing_helps(|search| {
        search.drop_parts(0, |scenario| &mut scenario.faults);
        search.drop_parts(0, |scenario| &mut scenario.devices);
        search.drop_parts(1, |scenario| &mut scenario.subscribers);
        search.drop_parts(1, |scenario| &mut scenario.publishers);
        for device in (0..search.best().devices.len()).rev() {
            search.drop_parts(0, |scenario| &mut scenario.devices[device].topics);
            search.drop_parts(0, |scenario| &mut scenario.devices[device].filters);
        }
        for publisher in (0..search.best().publishers.len()).rev() {
            search.drop_parts(0, |scenario| &mut scenario.publishers[publisher].topics);
        }
        for _ in 0..HALVINGS {
            search.attempt(|scenario| scenario.span = Span(scenario.span.0 / 2));
        }
        SIMPLER.iter().for_each(|simplify| search.attempt(simplify));
    })
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
