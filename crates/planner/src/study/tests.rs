use super::*;
use crate::host::testing::{as_said, host};
use crate::picture;
use config::testing::{Anything, load};

/// 3 of 20 ms at level 0, and 2 of 20 at level 2.
const GRAPH: &str = "\
[admission]
arrival_cost = \"5us\"
dispatch_cost = \"5us\"
replication_cost = \"5us\"
turn_cost = \"8us\"
read_cost = \"2us\"
write_cost = \"5us\"
kib_cost = \"1us\"
blocking = \"1ms\"
[processing]
workers = 1
[[topic]]
filter = \"s/#\"
period = \"20ms\"
retain = 20
[[operator]]
name = \"a\"
kind = \"pass\"
inputs = [\"s/1\"]
cost = \"3ms\"
output = \"out/<a>\"
level = 0
deadline = \"4ms\"
[[operator]]
name = \"b\"
kind = \"pass\"
inputs = [\"a\", \"s/2\"]
violation = \"shed\"
cost = \"2ms\"
output = \"out/b\"
deadline = \"5ms\"
[[operator]]
name = \"c\"
kind = \"pass\"
inputs = [\"s/2\"]
";

fn study(text: &str) -> Study {
    let processors = Processors {
        count: 1,
        above_ppm: 0,
        above_burst: Span::ZERO,
        preemptive: false,
        jitter: Span::millis(1),
    };
    Study::on(&load("study", text), &Anything, processors, as_said).unwrap()
}

#[test]
fn results_that_come_too_late_are_shown_with_the_deadline_that_would_do() {
    let study = study(GRAPH);
    let rows = study.rows();
    let graph = rows.iter().find(|graph| graph.outputs.len() == 2).unwrap();
    let [a, b] = graph.outputs.as_slice() else { panic!("{}", graph.outputs.len()) };
    // Without preemption: 3 + 2, and 2 + 3; and 1 from the publisher to the broker.
    assert_eq!((a.bound_ms, b.bound_ms), (Some(5.0), Some(5.0)));
    assert!(!a.kept && !b.kept);
    for expected in [
        "takes 5ms at worst",
        "and 1ms to and from operators",
        "2ms longer than its deadline of 4ms",
        "of 6ms would do",
    ] {
        assert!(a.reason.contains(expected), "lacks {expected:?}: {}", a.reason);
    }
    let idle = rows.iter().flat_map(|graph| &graph.operators).find(|operator| operator.name == "c").unwrap();
    assert!(idle.note.contains("reaches no output"), "{}", idle.note);
    assert_eq!(study.shedding(), None);
}

#[test]
fn results_may_wait_for_two_rests_of_the_data_thread() {
    let way = |text: &str| {
        let config = load("study", text);
        host(&config).for_operators(&config).jitter
    };
    let never = GRAPH.to_owned() + "[realtime]\ngather = \"0s\"\n";
    let long = GRAPH.to_owned() + "[realtime]\ngather = \"1ms\"\n";
    assert_eq!(way(&long), way(&never) + Span::millis(2));
    assert_eq!(way(GRAPH), way(&never) + Span::micros(400));
}

#[test]
fn an_overload_is_shown_with_its_numbers_and_where_shedding_starts() {
    let text =
        GRAPH.replace("\"3ms\"", "\"15ms\"").replace("\"2ms\"", "\"6ms\"").replace("\"4ms\"", "\"40ms\"");
    let text = text + "[[source]]\ntopic = \"s/2\"\nvalidity = \"5ms\"\n";
    let study = study(&text);
    let rows = study.rows();
    let graph = rows.iter().find(|graph| graph.operators[0].name == "a").unwrap();
    assert!(graph.outputs[0].kept, "{}", graph.outputs[0].reason);
    let reason = &graph.outputs[1].reason;
    assert!(reason.contains("needs 105.0 % of a processor, and there are"), "{reason}");
    assert!(reason.contains("take fewer `streams`"), "{reason}");
    let sentence = study.shedding().unwrap();
    assert_eq!(sentence, "`b` (level 2): true for 5ms, and takes without bound");
}

#[test]
fn costs_that_nobody_gives_are_asked_for() {
    let study = study(&GRAPH.replace("cost = \"3ms\"\n", ""));
    let rows = study.rows();
    let operators = || rows.iter().flat_map(|graph| &graph.operators);
    let a = operators().find(|operator| operator.name == "a").unwrap();
    assert!(a.cost_measured && a.cost_us == 7.0 && a.cost_median_us == Some(5.0));
    let b = operators().find(|operator| operator.name == "b").unwrap();
    assert!(!b.cost_measured && b.cost_us == 2_000.0 && b.cost_median_us.is_none());
}

#[test]
fn a_picture_names_everything_and_dashes_what_goes_from_level_to_level() {
    let study = study(GRAPH);
    let text = picture::draw(&study, &study.rows());
    for expected in
        ["<svg", "level 0", "level 2", "never runs", ">s/1<", ">a<", "out/&lt;a&gt;", "NOT KEPT", "due 4 ms"]
    {
        assert!(text.contains(expected), "lacks {expected}");
    }
    // The legend's, from `a` to `b`, and from `s/2` to `c`, which never runs.
    assert_eq!(text.matches("stroke-dasharray").count(), 3);
}
