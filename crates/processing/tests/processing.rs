//! What events go through, on invented time: CPEP's figures worked out by hand, and the rules one by one.

mod crew;

use contract::{Span, Time};
use crew::{Plant, consumer, operator, supplier};
use processing::{GraphSpec, Join, Keep, Marks, RelativeSet, Violation};

/// CPEP, figure 2.2.
fn figure() -> GraphSpec {
    GraphSpec {
        suppliers: vec![supplier("s1"), supplier("s2"), supplier("s3")],
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
            consumer("c3/too", "o4", 2),
            consumer("c4", "o7", 2),
        ],
    }
}

fn one(operator_: processing::OperatorSpec, topics: &[&str]) -> GraphSpec {
    GraphSpec {
        suppliers: topics.iter().map(|topic| supplier(topic)).collect(),
        consumers: vec![consumer("out", &operator_.name, 0)],
        operators: vec![operator_],
    }
}

#[test]
fn one_core_serves_the_figure_in_the_order_of_its_levels() {
    let mut plant = Plant::new(figure(), &["s1", "s2", "s3"]);
    plant.cost = Span(1);
    for topic in ["s1", "s2", "s3"] {
        plant.push(topic, 0, b"x");
    }
    plant.run();
    let expected = [("c1", 2), ("c2", 4), ("c4", 5), ("c3", 6), ("c3/too", 7)];
    assert_eq!(plant.outputs(), expected);
    assert_eq!(plant.processed(), [0, 1, 2], "nothing of any message is left");
}

#[test]
fn an_operator_uses_the_newest_and_a_run_under_way_keeps_its_own() {
    let mut plant = Plant::new(figure(), &["s1", "s2", "s3"]);
    plant.push("s1", 1, b"p1");
    plant.run();
    plant.push("s1", 2, b"p2");
    plant.run();
    assert_eq!(plant.counts("o6").counters.replaced, 1, "o6 waits for o2, and has the newer one");
    assert_eq!((plant.counts("o5").counters.runs, plant.counts("o5").counters.replaced), (2, 0));
    plant.push("s2", 3, b"q");
    plant.push("s3", 3, b"r");
    plant.run();
    let c2: Vec<_> = plant.got.iter().filter(|got| got.output == "c2").collect();
    assert_eq!(c2.len(), 1);
    assert_eq!(c2[0].event.seq, 1, "numbered after its first input, which is made of p2");
}

#[test]
fn a_message_is_processed_when_its_last_event_has_been_used_or_dropped() {
    let mut plant = Plant::new(one(operator("join", &["a", "b"]), &["a", "b"]), &["a", "b"]);
    plant.push("a", 1, b"1");
    plant.run();
    assert_eq!(plant.processed(), [] as [u32; 0], "it waits for a partner");
    plant.push("a", 2, b"2");
    assert_eq!(plant.processed(), [0], "it has given way");
    plant.push("b", 3, b"3");
    plant.run();
    assert_eq!(plant.processed(), [1, 2]);
    assert_eq!(plant.router.under_way(), 0);
}

#[test]
fn an_input_that_keeps_all_uses_each_in_order_and_drops_the_oldest_beyond_its_limit() {
    let mut keeping = operator("keep", &["a"]);
    keeping.keep = Keep::All(3);
    let mut plant = Plant::new(one(keeping, &["a"]), &["a"]);
    (0..5).for_each(|n| assert!(plant.push("a", n, b"x")));
    plant.run();
    let seqs: Vec<u64> = plant.got.iter().map(|got| got.event.seq).collect();
    assert_eq!(seqs, [2, 3, 4]);
    assert_eq!(plant.counts("keep").counters.dropped, 2);
    assert!(plant.router.graphs().next().unwrap().operators[0].source.gaps.is_none());
}

#[test]
fn what_is_out_of_date_is_marked_or_shed() {
    for (violation, results) in [(Violation::Mark, 1), (Violation::Shed, 0)] {
        let mut late = operator("late", &["a"]);
        late.violation = violation;
        let mut spec = one(late, &["a"]);
        spec.suppliers[0].validity = Span(5);
        let mut plant = Plant::new(spec, &["a"]);
        plant.push("a", 10, b"x");
        plant.now = Time(15);
        plant.run();
        assert_eq!(plant.got.len(), results, "{violation:?}: the end is excluded");
        if violation == Violation::Mark {
            assert_eq!(plant.got[0].event.marks, Marks::OUT_OF_DATE);
            assert_eq!(plant.counts("late").counters.marked, 1);
        } else {
            assert_eq!(plant.counts("late").counters.shed_absolute, 1);
        }
        assert_eq!(plant.processed(), [0], "a shed message has been processed");
    }
}

#[test]
fn a_result_whose_time_is_over_when_it_is_ready_is_shed() {
    let mut slow = operator("slow", &["a"]);
    slow.violation = Violation::Shed;
    let mut spec = one(slow, &["a"]);
    spec.suppliers[0].validity = Span(5);
    let mut plant = Plant::new(spec, &["a"]);
    plant.cost = Span(3);
    plant.push("a", 10, b"x");
    plant.now = Time(12);
    plant.run();
    assert_eq!((plant.got.len(), plant.counts("slow").counters.shed_absolute), (0, 1));
    plant.push("a", 20, b"x");
    plant.now = Time(21);
    plant.run();
    assert_eq!((plant.got.len(), plant.got[0].event.ends), (1, Time(25)));
}

#[test]
fn a_result_whose_time_is_over_when_it_is_published_is_marked_or_shed() {
    for (violation, results) in [(Violation::Mark, 1), (Violation::Shed, 0)] {
        let mut quick = operator("quick", &["a"]);
        quick.violation = violation;
        let mut spec = one(quick, &["a"]);
        spec.suppliers[0].validity = Span(5);
        let mut plant = Plant::new(spec, &["a"]);
        plant.waits = Span(3);
        plant.push("a", 10, b"x");
        plant.now = Time(12);
        plant.run();
        assert_eq!(plant.got.len(), results, "{violation:?}: true when it was made, and no more at 15");
        let counts = plant.counts("quick");
        if violation == Violation::Mark {
            assert_eq!((plant.got[0].event.marks, counts.counters.marked), (Marks::OUT_OF_DATE, 1));
        } else {
            assert_eq!(counts.counters.shed_absolute, 1);
        }
        assert_eq!(plant.processed(), [0], "a shed result leaves nothing behind");
    }
}

#[test]
fn parts_that_were_never_true_together_are_shed_one_by_one() {
    let mut join = operator("join", &["a", "b"]);
    join.violation = Violation::Shed;
    let mut spec = one(join, &["a", "b"]);
    (spec.suppliers[0].validity, spec.suppliers[1].validity) = (Span(10), Span(8));
    let mut plant = Plant::new(spec, &["a", "b"]);
    plant.now = Time(9);
    plant.push("a", 0, b"old");
    plant.push("b", 12, b"ahead");
    plant.run();
    assert_eq!((plant.got.len(), plant.counts("join").counters.shed_absolute), (0, 1));
    plant.push("a", 12, b"new");
    plant.now = Time(13);
    plant.run();
    assert_eq!(plant.got[0].event.begins, Time(12), "the other one was kept");
}

/// C3: the set keeps one stamp for each of its members.
#[test]
fn a_member_that_is_replaced_takes_its_stamp_with_it() {
    let mut three = operator("three", &["a", "b", "c"]);
    three.violation = Violation::Shed;
    three.sets = vec![RelativeSet { inputs: ["a", "b", "c"].map(str::to_owned).into(), within: Span(5) }];
    let mut plant = Plant::new(one(three, &["a", "b", "c"]), &["a", "b", "c"]);
    plant.push("a", 0, b"a");
    plant.push("b", 3, b"b");
    plant.push("a", 6, b"a");
    plant.push("c", 8, b"c");
    plant.run();
    assert_eq!(plant.got.len(), 1, "3 to 8 is within 5");
    assert_eq!(plant.counts("three").counters.shed_relative, 0);
}

#[test]
fn of_inputs_too_far_apart_the_oldest_is_shed_and_a_fresh_one_completes_the_set() {
    let mut pair = operator("pair", &["a", "b"]);
    pair.violation = Violation::Shed;
    pair.sets = vec![RelativeSet { inputs: ["a", "b"].map(str::to_owned).into(), within: Span(5) }];
    let mut plant = Plant::new(one(pair.clone(), &["a", "b"]), &["a", "b"]);
    plant.push("a", 0, b"a");
    plant.push("b", 6, b"b");
    plant.run();
    assert_eq!((plant.got.len(), plant.counts("pair").counters.shed_relative), (0, 1));
    plant.push("a", 7, b"a");
    plant.run();
    assert_eq!(plant.got.len(), 1);

    pair.violation = Violation::Mark;
    let mut plant = Plant::new(one(pair, &["a", "b"]), &["a", "b"]);
    plant.push("a", 0, b"a");
    plant.push("b", 6, b"b");
    plant.run();
    assert_eq!(plant.got[0].event.marks, Marks::APART);
}

#[test]
fn a_join_of_any_runs_on_each_input_the_oldest_first() {
    let mut any = operator("any", &["a", "b"]);
    any.join = Join::Any;
    any.keep = Keep::All(10);
    let mut plant = Plant::new(one(any, &["a", "b"]), &["a", "b"]);
    plant.push("b", 5, b"b");
    plant.push("a", 3, b"a");
    plant.push("a", 7, b"a");
    plant.run();
    let begins: Vec<u64> = plant.got.iter().map(|got| got.event.begins.0).collect();
    assert_eq!(begins, [3, 5, 7]);
}

#[test]
fn an_operator_that_fails_or_panics_is_counted_and_the_others_go_on() {
    for kind in ["panic", "fail"] {
        let mut bad = operator("bad", &["a"]);
        bad.kind = kind.to_owned();
        let mut spec = one(bad, &["a"]);
        spec.operators.push(operator("good", &["a"]));
        spec.consumers.push(consumer("good/out", "good", 0));
        let mut plant = Plant::new(spec, &["a"]);
        for n in 0..3 {
            plant.push("a", n, b"x");
            plant.run();
        }
        assert_eq!(
            (plant.counts("bad").counters.faults, plant.counts("bad").counters.runs, plant.queues.faults),
            (3, 3, 3)
        );
        let by_cause = if kind == "panic" { [0, 3, 0] } else { [0, 0, 3] };
        assert_eq!(plant.counts("bad").by_cause(), by_cause, "{kind}");
        assert_eq!(plant.got.len(), 3, "the good one");
        assert_eq!(plant.processed(), [0, 1, 2]);
    }
}

#[test]
fn the_earliest_deadline_of_a_level_goes_first_and_those_without_go_last() {
    let spec = GraphSpec {
        suppliers: ["never", "late", "soon"].map(supplier).into(),
        operators: ["never", "late", "soon"].map(|name| operator(&format!("o-{name}"), &[name])).into(),
        consumers: ["never", "late", "soon"]
            .map(|name| consumer(&format!("c/{name}"), &format!("o-{name}"), 1))
            .into(),
    };
    let mut spec = spec;
    spec.consumers[1].deadline = Span(90);
    spec.consumers[2].deadline = Span(10);
    let mut plant = Plant::new(spec, &["never", "late", "soon"]);
    for topic in ["never", "late", "soon"] {
        plant.push(topic, 0, b"x");
    }
    plant.run();
    assert_eq!(
        plant.outputs().iter().map(|(output, _)| *output).collect::<Vec<_>>(),
        ["c/soon", "c/late", "c/never"]
    );
}

#[test]
fn a_pattern_has_an_instance_for_each_turbine_and_none_when_its_topics_are_gone() {
    let mut spec = one(operator("join", &["turbine/+/a", "turbine/+/b"]), &["turbine/+/a", "turbine/+/b"]);
    spec.consumers[0].name = "result/+".to_owned();
    let mut plant = Plant::new(spec, &["turbine/1/a", "turbine/2/b", "turbine/1/b", "other"]);
    plant.push("turbine/1/a", 1, b"x");
    plant.push("turbine/2/b", 2, b"x");
    plant.run();
    assert!(plant.got.is_empty(), "not of the same turbine");
    plant.push("turbine/1/b", 3, b"x");
    plant.run();
    assert_eq!(plant.outputs(), [("result/1", 0)]);
    assert_eq!(plant.router.rows().map(|row| row.instance[0].clone()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(!plant.push("other", 4, b"x"));

    plant.unbind("turbine/2/b");
    assert_eq!(plant.router.rows().count(), 1);
    assert_eq!(plant.processed().len(), 3, "what waited there is dropped, and its message is not forgotten");
    plant.bind("turbine/3/a");
    plant.push("turbine/3/a", 5, b"x");
    plant.run();
    assert_eq!(plant.got.len(), 1, "an operator at a place that was used before begins empty");
}

#[test]
fn graphs_come_and_go_while_the_others_run() {
    let two = |other: &str| GraphSpec {
        suppliers: vec![supplier("a"), supplier("b")],
        operators: vec![operator("stays", &["a"]), operator(other, &["b"])],
        consumers: vec![consumer("stays/out", "stays", 0), consumer("other/out", other, 1)],
    };
    let mut plant = Plant::new(two("first"), &["a", "b"]);
    plant.push("a", 0, b"x");
    plant.push("b", 0, b"x");
    plant.run();
    let change = plant.router.change(two("second").components()).unwrap();
    assert_eq!((change.kept, change.added, change.removed), (1, 1, 1));
    for topic in ["a", "b"] {
        plant.bind(topic);
    }
    plant.push("a", 1, b"x");
    plant.push("b", 1, b"x");
    plant.run();
    assert_eq!(plant.counts("stays").counters.runs, 2, "it was not made anew");
    assert_eq!(plant.counts("second").counters.runs, 1);
    assert!(plant.router.rows().all(|row| row.name != "first"));

    let mut wrong = two("second");
    wrong.operators[1].inputs.push("nobody".to_owned());
    assert!(plant.router.change(wrong.components()).is_err());
    plant.push("b", 2, b"x");
    plant.run();
    assert_eq!(plant.counts("second").counters.runs, 2, "a change that is refused changes nothing");
}

#[test]
fn too_much_under_way_is_refused_and_counted() {
    let mut plant = Plant::new(one(operator("join", &["a", "b"]), &["a", "b"]), &["a", "b"]);
    plant.queues.full = true;
    assert!(plant.push("a", 0, b"x"));
    assert_eq!((plant.router.refused(), plant.processed()), (1, vec![0]));
}
