use super::*;
use crate::operator::{Answer, Fault, Input, Operator};
use crate::spec::{ConsumerSpec, RelativeSet, SupplierSpec};

fn supplier(name: &str, validity_ms: i64, period_ms: i64) -> SupplierSpec {
    let (validity, period) = (Span::millis(validity_ms), Span::millis(period_ms));
    SupplierSpec { name: name.to_owned(), payload: PayloadType::Bytes, validity, period }
}

fn operator(name: &str, inputs: &[&str]) -> OperatorSpec {
    OperatorSpec {
        name: name.to_owned(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        kind: "pass".to_owned(),
        parameters: Parameters::default(),
        keep: Keep::Latest,
        cost: None,
    }
}

fn consumer(name: &str, from: &str, level: u8) -> ConsumerSpec {
    ConsumerSpec {
        name: name.to_owned(),
        from: from.to_owned(),
        level: Level(level),
        deadline: Span::FOREVER,
    }
}

/// Knows one kind, which hands on what it gets.
pub(crate) struct Passing;

impl Factory for Passing {
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String> {
        struct Pass;
        impl Operator for Pass {
            fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
                inputs.iter().for_each(|input| output.extend_from_slice(input.payload));
                Ok(Answer::Result)
            }
        }
        match kind {
            "pass" => Ok(Built {
                operator: Box::new(Pass),
                output: setup.inputs[0].clone(),
                answers: Answers::Always,
                memory: Memory::Nothing,
            }),
            kind => Err(format!("there is no `{kind}`")),
        }
    }
}

/// CPEP, figure 2.2: levels 0, 1 and 2 are high, middle and low.
fn figure() -> GraphSpec {
    GraphSpec {
        suppliers: vec![supplier("s1", 10, 10), supplier("s2", 25, 10), supplier("s3", 9, 10)],
        operators: vec![
            operator("o1", &["s1"]),
            operator("o2", &["s2", "s3"]),
            operator("o3", &["o2"]),
            operator("o4", &["o2"]),
            operator("o5", &["o1"]),
            operator("o6", &["o1", "o2"]),
            operator("o7", &["o1", "o5"]),
        ],
        consumers: vec![
            consumer("c1", "o5", 0),
            consumer("c2", "o6", 1),
            consumer("c3", "o3", 2),
            consumer("c3 too", "o4", 2),
            consumer("c4", "o7", 2),
        ],
    }
}

fn build(spec: &GraphSpec) -> Result<Graph, Vec<GraphError>> {
    Graph::build(spec, 3, &Passing)
}

fn level(graph: &Graph, name: &str) -> Option<u8> {
    let operators = graph.operators.iter().map(|operator| &operator.source);
    let source = graph.suppliers.iter().chain(operators).find(|source| source.name == name);
    source.and_then(|source| source.level).map(|level| level.0)
}

#[test]
fn a_step_is_as_urgent_as_the_most_urgent_that_wants_its_result() {
    let graph = build(&figure()).unwrap();
    let levels: Vec<_> = ["o1", "o2", "o3", "o4", "o5", "o6", "o7"].map(|name| level(&graph, name)).into();
    assert_eq!(levels, [Some(0), Some(1), Some(2), Some(2), Some(0), Some(1), Some(2)]);
    assert_eq!(["s1", "s2", "s3"].map(|name| level(&graph, name)), [Some(0), Some(1), Some(1)]);
}

#[test]
fn the_figure_has_five_ways_from_level_to_level() {
    let graph = build(&figure()).unwrap();
    let mut crossing = Vec::new();
    for operator in &graph.operators {
        for feed in &operator.source.feeds {
            let fed = &graph.operators[feed.operator];
            if fed.source.level != operator.source.level {
                crossing.push(format!("{}-{}", operator.source.name, fed.source.name));
            }
        }
    }
    assert_eq!(crossing, ["o1-o6", "o1-o7", "o2-o3", "o2-o4", "o5-o7"]);
}

#[test]
fn as_many_events_are_kept_as_are_true_at_once() {
    let rings = [(10, 10, 1), (9, 10, 1), (25, 10, 3), (10, 5, 2)];
    for (validity, period, expected) in rings {
        assert_eq!(ring(Span::millis(validity), Span::millis(period)), expected, "{validity} / {period}");
    }
    assert_eq!(ring(Span::FOREVER, Span::millis(1)), RING_MAX);
    assert_eq!(ring(Span::FOREVER, Span::FOREVER), 1);
}

#[test]
fn a_result_is_true_for_no_longer_than_what_it_is_made_of() {
    let graph = build(&figure()).unwrap();
    let o2 = &graph.operators[1].source;
    assert_eq!((o2.validity, o2.period, o2.ring), (Span::millis(9), Span::millis(10), 1));
}

#[test]
fn whatever_reaches_nobody_is_named() {
    let mut spec = figure();
    spec.suppliers.push(supplier("s4", 10, 10));
    spec.operators.push(operator("o8", &["s4", "o1"]));
    spec.operators.push(operator("o9", &["o8"]));
    let graph = build(&spec).unwrap();
    assert_eq!(graph.idle().collect::<Vec<_>>(), ["s4", "o8", "o9"]);
    assert_eq!(level(&graph, "o1"), Some(0));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut spec = figure();
    spec.suppliers.push(supplier("s1", 10, 10));
    spec.suppliers.push(supplier("s5", 0, 0));
    spec.operators[0].inputs.push("o7".to_owned());
    spec.operators[2].inputs = vec!["o2".to_owned(), "o2".to_owned(), "nobody".to_owned()];
    spec.operators[3].inputs.clear();
    let set = |inputs: &[&str]| RelativeSet {
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        within: Span::millis(5),
    };
    spec.operators[5].sets = vec![set(&["o1", "s2"]), set(&["o1"])];
    spec.operators[6].join = Join::Any;
    spec.operators[6].sets = vec![set(&["o1", "o5"])];
    spec.consumers[0].level = Level(3);
    spec.consumers[1].from = "s1".to_owned();
    spec.consumers[3].name = "c3".to_owned();
    let said: Vec<String> = build(&spec).unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "`s1` is there twice",
        "the period of `s5` is 0ms",
        "the validity of `s5` is 0ms",
        "`o4` has 0 inputs, and may have 1 to 16",
        "`o3` takes `o2` twice",
        "`o3` takes `nobody`",
        "set of `o6` names `s2`",
        "set of `o6` needs at least two",
        "`o7` runs on each input by itself",
        "`c1` has level 3, and there are levels 0 to 2",
        "`c2` wants the results of `s1`, which is no operator",
        "`c3` is there twice",
        "in a circle: o7 -> o1 -> o7",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.contains(expected), "{said}, not {expected}");
    }
}

#[test]
fn a_graph_without_anything_is_one() {
    assert_eq!(build(&GraphSpec::default()).unwrap().order, Vec::<usize>::new());
}

#[test]
fn results_of_one_message_do_not_share_its_number() {
    let mut spec = figure();
    spec.operators[6].join = Join::Any;
    let said = build(&spec).unwrap_err()[0].to_string();
    assert!(said.contains("`o7` runs on each input") && said.contains("made of `s1`"), "{said}");
}
