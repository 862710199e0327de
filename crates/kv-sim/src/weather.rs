//! Scenarios from seeds, in two weathers.

use crate::scenario::{Act, Fault, KeyKind, KeySpec, Lie, Scenario, TaskSpec};
use contract::Span;
use kv::{LinkTimes, Mode, Node, NodeSet, ResolveRule};

/// What may go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weather {
    /// What the guarantees assume, with bounds that barely hold: at most `f` faulty nodes at a time.
    Assumed,
    /// Anything: more faulty nodes, and frames of correct ones that take longer than configured.
    Beyond,
}

/// The scenario of a seed.
pub fn scenario_of(seed: u64, weather: Weather) -> Scenario {
    let mut random = fastrand::Rng::with_seed(simulation::hash::number(seed, weather as u64));
    let mut scenario = cluster(&mut random);
    tasks_and_keys(&mut scenario, &mut random);
    clocks(&mut scenario, &mut random);
    faults(&mut scenario, &mut random);
    if weather == Weather::Beyond {
        beyond(&mut scenario, &mut random);
    }
    scenario
}

/// `f + 1` nodes lie where `f` are tolerated, and everything is demanded all the same: to see what the bound is for.
pub fn with_a_liar_too_many(seed: u64) -> Scenario {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut scenario =
        Scenario { nodes: 4, tolerated: 1, mode: Mode::Byzantine, lanes: 1, ..cluster(&mut random) };
    tasks_and_keys(&mut scenario, &mut random);
    clocks(&mut scenario, &mut random);
    let liar = |node| Fault { node, from: 1, until: scenario.jobs, act: Act::Lie(Lie::Batches, 100) };
    scenario.faults = vec![liar(2), liar(3)];
    scenario.only = Some("agreement");
    scenario
}

/// As many nodes are silent as are tolerated, and frames of the others take up to `excess` longer than the configuration says,
/// with rounds as short as it admits.
pub fn with_rounds_too_short(seed: u64, excess: Span) -> Scenario {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut scenario =
        Scenario { nodes: 4, tolerated: 1, mode: Mode::Byzantine, lanes: 1, ..cluster(&mut random) };
    scenario.round = Some(scenario.link.round_min());
    tasks_and_keys(&mut scenario, &mut random);
    clocks(&mut scenario, &mut random);
    scenario.excess = excess;
    scenario.only = Some("validity");
    scenario.faults =
        vec![Fault { node: 3, from: 0, until: scenario.jobs, act: Act::Silent(NodeSet::all(4)) }];
    scenario
}

fn pick<T: Copy>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

fn cluster(random: &mut fastrand::Rng) -> Scenario {
    let crash = random.u8(..4) == 0;
    let sizes: &[(usize, usize)] = if crash {
        &[(2, 1), (3, 2), (4, 2), (3, 1)]
    } else {
        &[(4, 1), (4, 1), (4, 1), (5, 1), (6, 1), (7, 2)]
    };
    let (nodes, tolerated) = pick(random, sizes);
    let period = Span::millis(pick(random, &[10, 20, 50, 100]));
    let lanes = pick(random, &[1, 1, 1, 2]);
    let offset = Span(random.i64(0..=period.0 / 8));
    // The last lane begins a quarter of a period later at most.
    let longest = Span((period.0 - offset.0 - period.0 / 4) / (2 * (tolerated as i64 + 1)));
    let share = |random: &mut fastrand::Rng| Span(random.i64(1..=longest.0 / 4));
    let link = LinkTimes {
        delay_max: share(random),
        clock_error: share(random),
        send: share(random),
        receive: share(random),
    };
    let round = match random.u8(..4) {
        0 => None,
        1 => Some(Span(random.i64(link.round_min().0..=longest.0))),
        _ => Some(link.round_min()),
    };
    Scenario {
        nodes,
        tolerated,
        mode: if crash { Mode::Crash } else { Mode::Byzantine },
        resolve: pick(random, &[ResolveRule::Majority, ResolveRule::AllButFaulty]),
        lanes,
        period,
        offset,
        round,
        link,
        excess: Span::ZERO,
        cpu: Span(random.i64(0..=period.0 / 8)),
        history: pick(random, &[20, 20, 20, 3, 5]),
        batch_tuples_max: 0,
        keys: Vec::new(),
        tasks: Vec::new(),
        rings: random.bool(),
        clocks: Vec::new(),
        jobs: random.u64(20..=if nodes > 6 { 30 } else { 45 }),
        faults: Vec::new(),
        assumed: true,
        only: None,
    }
}

fn tasks_and_keys(scenario: &mut Scenario, random: &mut fastrand::Rng) {
    for number in 0..random.usize(1..=3) {
        let periods = if number == 0 { 1 } else { pick(random, &[1, 2, 4]) };
        scenario.tasks.push(TaskSpec { periods, cost: Span(random.i64(0..=scenario.offset.0)) });
    }
    for _ in 0..random.usize(2..=6) {
        let kind = pick(
            random,
            &[KeyKind::Majority, KeyKind::Majority, KeyKind::Median, KeyKind::TrimmedMean, KeyKind::Min],
        );
        let all = NodeSet::all(scenario.nodes);
        let writers = match random.u8(..4) {
            0 => Some([Node::at(random.usize(..scenario.nodes))].into_iter().collect()),
            1 => Some(all.without([Node::at(random.usize(..scenario.nodes))].into_iter().collect())),
            _ => None,
        };
        let twice = kind == KeyKind::Majority && random.u8(..3) == 0;
        scenario.keys.push(KeySpec { kind, writers, task: random.usize(..scenario.tasks.len()), twice });
    }
    let writes = scenario.keys.iter().map(|key| 1 + usize::from(key.twice)).sum::<usize>();
    let less = usize::from(random.u8(..8) == 0);
    scenario.batch_tuples_max = (writes + random.usize(..3)).saturating_sub(2 * less).max(1);
}

fn clocks(scenario: &mut Scenario, random: &mut fastrand::Rng) {
    let error = scenario.link.clock_error.0;
    let ahead = |_| Span(pick(random, &[0, error, error / 2]));
    scenario.clocks = (0..scenario.nodes).map(ahead).collect();
    if random.bool() {
        scenario.clocks.iter_mut().for_each(|ahead| *ahead = *ahead - Span(error));
    }
}

/// Faults of at most `f` nodes at a time: the faulty ones change, but not before what the others did is over.
fn faults(scenario: &mut Scenario, random: &mut fastrand::Rng) {
    let mut from = random.u64(..3);
    while from < scenario.jobs {
        let until = (from + random.u64(1..=12)).min(scenario.jobs);
        let mut order: Vec<usize> = (0..scenario.nodes).collect();
        random.shuffle(&mut order);
        let mut over = until;
        for node in order.into_iter().take(random.usize(0..=scenario.tolerated)) {
            let fault = fault(scenario, random, node, from, until);
            over = over.max(fault.until.saturating_add(fault.shadow(scenario.period)));
            if let Act::Clock(ahead) = fault.act {
                scenario.clocks[node] = ahead;
            }
            scenario.faults.push(fault);
        }
        // Who has missed something learns it from others, be some of them faulty by then. Where nodes only stop, the last that knows must not.
        let calm = if scenario.mode == Mode::Crash { 2 } else { 0 };
        from = over.saturating_add(calm + random.u64(..4));
    }
}

fn fault(scenario: &Scenario, random: &mut fastrand::Rng, node: usize, from: u64, until: u64) -> Fault {
    let some = |random: &mut fastrand::Rng| -> NodeSet {
        let everybody = random.bool();
        (0..scenario.nodes).filter(|_| everybody || random.bool()).map(Node::at).collect()
    };
    let period = scenario.period;
    let (stall, slow) = (random.i64(0..period.0 / 2), random.i64(1..period.0 / 3));
    // Where nodes only stop, one that is deaf or silent and goes on is more than is assumed.
    let kinds = match scenario.mode {
        Mode::Crash if scenario.assumed => 2,
        Mode::Crash => 4,
        Mode::Byzantine => 14,
    };
    let act = match random.u8(..kinds) {
        0 => Act::Crash(Span(random.i64(-(period.0 / 8)..period.0 * 3 / 4))),
        2 => Act::Silent(some(random)),
        3 => Act::Deaf(some(random)),
        1 => Act::Stall(Span(pick(random, &[period.0 / 4, period.0 / 4 - 1, stall]))),
        4 => Act::Slow(Span(pick(random, &[1, slow]))),
        // A clock is off from the beginning, so that nobody else may have been faulty before.
        5 if from <= 2 && scenario.faults.iter().all(|other| other.from == from) => {
            let off = scenario.link.clock_error.0 + random.i64(1..period.0 / 4);
            Act::Clock(Span(if random.bool() { off } else { -off }))
        }
        _ => {
            let lie = if random.bool() { Lie::Batches } else { pick(random, &Lie::ALL) };
            Act::Lie(lie, pick(random, &[100, 100, 50, 10]))
        }
    };
    // Who has crashed must have time to come back.
    let until = if matches!(act, Act::Crash(_)) { until.max(from + 2) } else { until };
    Fault { node, from, until, act }
}

/// More faults on top, in any number and at any time, and slower links.
fn beyond(scenario: &mut Scenario, random: &mut fastrand::Rng) {
    scenario.assumed = false;
    for _ in 0..random.usize(1..=5) {
        let (node, from) = (random.usize(..scenario.nodes), random.u64(..scenario.jobs));
        let until = from + random.u64(1..=10);
        let mut fault = fault(scenario, random, node, from, until);
        if random.u8(..4) == 0 {
            fault.act = Act::Stall(Span(random.i64(0..scenario.period.0 * 4)));
        }
        scenario.faults.push(fault);
    }
    if random.bool() {
        scenario.excess = Span(random.i64(1..scenario.period.0 / 2));
    }
    if random.bool() {
        scenario.cpu = Span(random.i64(0..scenario.period.0));
    }
    // Who is too far off is one more.
    let node = random.usize(..scenario.nodes);
    scenario.clocks[node] = Span(random.i64(-scenario.period.0..scenario.period.0));
}
