use super::*;
use crate::graph::GraphError;
use crate::graph::tests::Passing;
use crate::spec::{ConsumerSpec, GraphSpec, Keep, Level, OperatorSpec, SupplierSpec};
use proptest::prelude::*;
use std::collections::VecDeque;

const ONE: Processors =
    Processors { count: 1, above_ppm: 0, above_burst: Span::ZERO, preemptive: true, jitter: Span::ZERO };

/// An operator with its inputs, how it joins them, the level of its output and its cost.
type Row<'a> = (&'a str, &'a [&'a str], Join, u8, i64);

fn spec(suppliers: &[(&str, i64)], operators: &[Row<'_>]) -> GraphSpec {
    let supplier = |(name, period): &(&str, i64)| SupplierSpec {
        name: (*name).to_owned(),
        payload: crate::PayloadType::Bytes,
        validity: Span(8),
        period: Span(*period),
    };
    let operator = |(name, inputs, join, _, cost): &Row<'_>| OperatorSpec {
        name: (*name).to_owned(),
        kind: "pass".to_owned(),
        parameters: crate::Parameters::new(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: *join,
        violation: Violation::Shed,
        sets: Vec::new(),
        keep: Keep::All(64),
        cost: Some(Span(*cost)),
    };
    let consumer = |(name, _, _, level, _): &Row<'_>| ConsumerSpec {
        name: format!("out/{name}"),
        from: (*name).to_owned(),
        level: Level(*level),
        deadline: Span::FOREVER,
    };
    GraphSpec {
        suppliers: suppliers.iter().map(supplier).collect(),
        operators: operators.iter().map(operator).collect(),
        consumers: operators.iter().map(consumer).collect(),
    }
}

fn build(spec: &GraphSpec) -> Graph {
    Graph::build(spec, 3, &Passing).unwrap()
}

fn costs(graph: &Graph) -> Vec<Span> {
    graph.operators.iter().filter_map(|step| step.cost).collect()
}

fn bounds(graph: &Graph, instances: u32, processors: &Processors) -> Vec<Result<i64, NoBound>> {
    let costed = Costed { graph, instances, costs: costs(graph) };
    let analysis = analyse(&[costed], 3, processors);
    let bound = |response: &Option<Response>| response.unwrap().bound.map(|bound| bound.0);
    analysis.operators[0].iter().map(bound).collect()
}

#[test]
fn one_operator_takes_its_own_time() {
    let graph = build(&spec(&[("s", 10)], &[("a", &["s"], Join::All, 0, 7)]));
    assert_eq!(bounds(&graph, 1, &ONE), [Ok(7)]);
    for count in [2, 4] {
        assert_eq!(bounds(&graph, 1, &Processors { count, ..ONE }), [Ok(7)]);
    }
}

/// Two levels, worked by hand. Lower: 3 + ⌈R/5⌉ · 2 has its smallest solution at 3 + 1 · 2 = 5.
#[test]
fn lower_operators_wait_for_higher_ones() {
    let text = [("a", &["s"][..], Join::All, 0, 2), ("b", &["t"][..], Join::All, 1, 3)];
    let graph = build(&spec(&[("s", 5), ("t", 20)], &text));
    assert_eq!(bounds(&graph, 1, &ONE), [Ok(2), Ok(5)]);
    // Without preemption the higher one waits for a run of the lower one.
    assert_eq!(bounds(&graph, 1, &Processors { preemptive: false, ..ONE }), [Ok(5), Ok(5)]);
    // Suppliers that may be late by 1 send two in a window of 5: 3 + ⌈(R + 1)/5⌉ · 2 = 7.
    assert_eq!(bounds(&graph, 1, &Processors { jitter: Span(1), ..ONE }), [Ok(2), Ok(7)]);
    // A tenth goes to the data thread, and one more at once: 2 + 1 + ⌈3.x / 10⌉ = 4.
    let shared = Processors { above_ppm: 100_000, above_burst: Span(1), ..ONE };
    assert_eq!(bounds(&graph, 1, &shared)[0], Ok(4));
}

/// The figure (CPEP, figure 2.2) with one event of each supplier and 1 for each run: delivered at 2, 4, 5, 6 and 7.
#[test]
fn the_bounds_of_the_figure_are_not_below_its_schedule() {
    let all = Join::All;
    let figure = spec(
        &[("s1", 100), ("s2", 100), ("s3", 100)],
        &[
            ("o1", &["s1"], all, 2, 1),
            ("o2", &["s2", "s3"], all, 2, 1),
            ("o3", &["o2"], all, 2, 1),
            ("o4", &["o2"], all, 2, 1),
            ("o5", &["o1"], all, 0, 1),
            ("o6", &["o1", "o2"], all, 1, 1),
            ("o7", &["o1", "o5"], all, 2, 1),
        ],
    );
    let found = bounds(&build(&figure), 1, &ONE);
    assert_eq!(found, [Ok(2), Ok(4), Ok(7), Ok(7), Ok(2), Ok(4), Ok(7)]);
}

#[test]
fn a_join_of_any_runs_as_often_as_its_inputs_together() {
    let inputs = &["s", "t"][..];
    let text = |join| spec(&[("s", 4), ("t", 4)], &[("a", inputs, join, 0, 2)]);
    assert_eq!(bounds(&build(&text(Join::All)), 1, &ONE), [Ok(2)]);
    let no = bounds(&build(&text(Join::Any)), 1, &ONE);
    assert_eq!(no, [Err(NoBound::Overload { utilisation: 1.0, capacity: 1.0 })]);
}

#[test]
fn where_a_level_needs_all_there_is_it_and_those_below_have_no_bound() {
    let all = Join::All;
    let text = [("a", &["s"][..], all, 0, 2), ("b", &["s"][..], all, 1, 3), ("c", &["s"][..], all, 2, 1)];
    let graph = build(&spec(&[("s", 5)], &text));
    let found = bounds(&graph, 1, &ONE);
    assert_eq!(found[0], Ok(2));
    assert_eq!(found[1], Err(NoBound::Overload { utilisation: 1.0, capacity: 1.0 }));
    assert_eq!(
        found[1].unwrap_err().to_string(),
        "what is as urgent or more needs 100.0 % of a processor, and there are 100.0 %"
    );
    assert!(found[2].is_err());
    let analysis = analyse(&[Costed { graph: &graph, instances: 2, costs: costs(&graph) }], 3, &ONE);
    assert_eq!(analysis.levels[0].operators, 2);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(analysis.levels[0].utilisation, 0.8) && near(analysis.levels[2].cumulated, 2.4));
}

#[test]
fn instances_are_in_each_others_way_and_more_processors_help() {
    let graph = build(&spec(&[("s", 100)], &[("a", &["s"], Join::All, 0, 10)]));
    assert_eq!(bounds(&graph, 4, &ONE), [Ok(40)]);
    assert_eq!(bounds(&graph, 4, &Processors { count: 3, ..ONE }), [Ok(20)]);
    // Events are true for 8, and the result is later.
    let analysis = analyse(&[Costed { graph: &graph, instances: 1, costs: costs(&graph) }], 3, &ONE);
    assert!(analysis.operators[0][0].unwrap().sheds);
}

/// A run, and when the last of what it is made of came.
struct Doing {
    operator: usize,
    left: i64,
    came: i64,
}

/// A schedule in steps of one: levels in their order, whoever became ready first within one, on some processors.
struct Schedule<'a> {
    graph: &'a Graph,
    preemptive: bool,
    slots: Vec<Vec<VecDeque<i64>>>,
    ready: Vec<(u8, u64, usize)>,
    doing: Vec<(u8, u64, Doing)>,
    order: u64,
    worst: Vec<i64>,
}

impl Schedule<'_> {
    fn deliver(&mut self, feeds: &[crate::graph::Feed], came: i64) {
        for feed in feeds {
            self.slots[feed.operator][feed.slot].push_back(came);
            self.enqueue(feed.operator);
        }
    }

    fn enqueue(&mut self, operator: usize) {
        let step = &self.graph.operators[operator];
        let mut filled = self.slots[operator].iter().map(|slot| !slot.is_empty());
        let complete = if step.join == Join::All { filled.all(|is| is) } else { filled.any(|is| is) };
        let busy = self.doing.iter().any(|(_, _, doing)| doing.operator == operator)
            || self.ready.iter().any(|(_, _, ready)| *ready == operator);
        if complete && !busy {
            self.order += 1;
            self.ready.push((step.source.level.unwrap().0, self.order, operator));
        }
    }

    fn begin(&mut self, level: u8, order: u64, operator: usize) {
        let step = &self.graph.operators[operator];
        let came = if step.join == Join::All {
            self.slots[operator].iter_mut().filter_map(VecDeque::pop_front).max().unwrap()
        } else {
            let slot = self.slots[operator].iter_mut().find(|slot| !slot.is_empty()).unwrap();
            slot.pop_front().unwrap()
        };
        self.doing.push((level, order, Doing { operator, left: step.cost.unwrap().0, came }));
    }

    /// One step of time on `count` processors.
    fn step(&mut self, now: i64, count: usize) {
        loop {
            self.ready.sort_unstable();
            self.doing.sort_by_key(|(level, order, _)| (*level, *order));
            let Some((level, order, operator)) = self.ready.first().copied() else { break };
            let ahead = self.doing.iter().filter(|doing| !self.preemptive || doing.0 <= level).count();
            if ahead >= count {
                break;
            }
            self.ready.remove(0);
            self.begin(level, order, operator);
        }
        self.doing.sort_by_key(|(level, order, _)| (*level, *order));
        self.doing.iter_mut().take(count).for_each(|(_, _, doing)| doing.left -= 1);
        let (done, doing) =
            std::mem::take(&mut self.doing).into_iter().partition(|(_, _, doing)| doing.left == 0);
        self.doing = doing;
        let done: Vec<(u8, u64, Doing)> = done;
        for (_, _, run) in done {
            let took = now + 1 - run.came;
            self.worst[run.operator] = self.worst[run.operator].max(took);
            let feeds = self.graph.operators[run.operator].source.feeds.clone();
            self.deliver(&feeds, run.came);
            self.enqueue(run.operator);
        }
    }
}

/// The longest times from the last input to the result, over a schedule. `slack`: how much later than its period each event
/// comes, again and again.
fn simulate(graph: &Graph, processors: &Processors, slack: &[u8], offsets: &[u8]) -> Vec<i64> {
    let mut schedule = Schedule {
        graph,
        preemptive: processors.preemptive,
        slots: graph.operators.iter().map(|step| vec![VecDeque::new(); step.inputs.len()]).collect(),
        ready: Vec::new(),
        doing: Vec::new(),
        order: 0,
        worst: vec![0; graph.operators.len()],
    };
    let mut next: Vec<i64> =
        (0..graph.suppliers.len()).map(|s| i64::from(offsets[s % offsets.len()])).collect();
    let mut drawn = 0;
    for now in 0..600 {
        for (supplier, source) in graph.suppliers.iter().enumerate() {
            if next[supplier] == now {
                schedule.deliver(&source.feeds, now);
                drawn += 1;
                next[supplier] += source.period.0 + i64::from(slack[drawn % slack.len()]);
            }
        }
        schedule.step(now, processors.count as usize);
    }
    schedule.worst
}

prop_compose! {
    fn graphs()(
        periods in prop::collection::vec(4_i64..40, 1..4),
        rows in prop::collection::vec((any::<[u8; 2]>(), any::<bool>(), 0_u8..3, 1_i64..5), 1..7),
    ) -> Graph {
        let names: Vec<String> = (0..rows.len()).map(|row| format!("o{row}")).collect();
        let suppliers: Vec<String> = (0..periods.len()).map(|supplier| format!("s{supplier}")).collect();
        let input = |row: usize, draw: u8| {
            let draw = usize::from(draw) % (suppliers.len() + row);
            suppliers.get(draw).unwrap_or_else(|| &names[draw - suppliers.len()]).as_str()
        };
        let inputs: Vec<Vec<&str>> = rows.iter().enumerate().map(|(row, (draws, ..))| {
            let mut inputs: Vec<&str> = draws.iter().map(|draw| input(row, *draw)).collect();
            inputs.dedup();
            inputs
        }).collect();
        let row = |(row, (_, all, level, cost)): (usize, &(_, bool, u8, i64))| {
            let join = if *all { Join::All } else { Join::Any };
            (names[row].as_str(), inputs[row].as_slice(), join, *level, *cost)
        };
        let rows: Vec<Row<'_>> = rows.iter().enumerate().map(row).collect();
        let named: Vec<(&str, i64)> = suppliers.iter().map(String::as_str).zip(periods.iter().copied()).collect();
        let mut spec = spec(&named, &rows);
        // Branches of one supplier must not meet where each input is run by itself.
        while let Err(errors) = Graph::build(&spec, 3, &Passing) {
            let GraphError::SharedNumber { operator, .. } = &errors[0] else { panic!("{errors:?}") };
            let join = spec.operators.iter_mut().find(|known| known.name == *operator);
            join.unwrap().join = Join::All;
        }
        build(&spec)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No schedule takes longer than the bound.
    #[test]
    fn no_result_is_later_than_its_bound(
        graph in graphs(),
        count in 1_u32..4,
        preemptive in any::<bool>(),
        slack in prop::collection::vec(0_u8..3, 1..5),
        offsets in prop::collection::vec(0_u8..20, 1..4),
    ) {
        let processors = Processors { count, preemptive, ..ONE };
        let worst = simulate(&graph, &processors, &slack, &offsets);
        for (bound, worst) in bounds(&graph, 1, &processors).into_iter().zip(worst) {
            if let Ok(bound) = bound {
                prop_assert!(worst <= bound, "{worst} is longer than {bound}: {graph:#?}");
            }
        }
    }
}
