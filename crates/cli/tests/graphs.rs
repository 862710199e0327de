//! Operators in the configuration: what is shown of good ones, and what is said of bad ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Folder, Ran};

/// The exit code for trouble.
const TROUBLE: i32 = 2;

const COSTS: &str = "\
[admission]
arrival_cost = \"5us\"
dispatch_cost = \"5us\"
replication_cost = \"5us\"
turn_cost = \"8us\"
read_cost = \"2us\"
write_cost = \"5us\"
kib_cost = \"1us\"
blocking = \"1ms\"
";

fn check(text: &str) -> Ran {
    let folder = Folder::new();
    let path = folder.write("bad.toml", text);
    folder.run(["check".as_ref(), path.as_os_str()])
}

/// Also where only a filter covers the topics that operators take.
#[test]
fn check_refuses_a_loss_number_for_results_with_gaps() {
    let folder = Folder::new();
    folder.write(
        "small.toml",
        "[[topic]]\nfilter = \"#\"\nperiod = \"20ms\"\ndeadline = \"500ms\"\nretain = 8\n[[source]]\ntopic = \"in/a\"\ntype = \"f64\"\n\
         [[operator]]\nname = \"db\"\nkind = \"deadband\"\nabsolute = 1.0\ninputs = [\"in/a\"]\noutput = \"out/a\"\ndeadline = \"500ms\"\n",
    );
    folder
        .run(["check", "small.toml"])
        .must(1, &["brokers refuse the results on `out/a`", "loss = \"unbounded\""]);
}

#[test]
fn an_input_that_nobody_has_is_shown_with_the_nearest() {
    let ran = check(
        "[[operator]]\nname = \"rms\"\nkind = \"rms\"\ninputs = [\"vibration\"]\n[[topic]]\nfilter = \"vibrations\"\nperiod = \"1s\"\n",
    );
    ran.must(
        TROUBLE,
        &["bad.toml:4:10", "`vibration` is neither an operator nor a topic", "add a [[topic]] for it"],
    );
    let ran = check(
        "[[operator]]\nname = \"rms\"\nkind = \"rms\"\ninputs = [\"rsm\", \"alarm\"]\n[[operator]]\nname = \"alarms\"\nkind = \"rms\"\ninputs = [\"rms\"]\n",
    );
    ran.must(TROUBLE, &["`rsm` is neither", "did you mean `alarms`?"]);
}

#[test]
fn operators_in_a_circle_are_named() {
    let operator =
        |name, input| format!("[[operator]]\nname = \"{name}\"\nkind = \"scale\"\ninputs = [\"{input}\"]\n");
    let ran = check(&(operator("x", "y") + &operator("y", "x")));
    ran.must(TROUBLE, &["operators feed each other in a circle", "break the circle"]);
}

#[test]
fn a_kind_that_is_not_there_is_shown_with_those_that_are() {
    let text = "[[topic]]\nfilter = \"a\"\nperiod = \"1s\"\n[[operator]]\nname = \"x\"\nkind = \"scael\"\ninputs = [\"a\"]\n";
    check(text)
        .must(TROUBLE, &["bad.toml:6:8", "there is no operator of kind `scael`", "did you mean `scale`?"]);
}

#[test]
fn a_table_where_a_list_of_tables_should_be_is_shown_with_the_form() {
    check("[operator]\nname = \"x\"\n").must(TROUBLE, &["bad.toml:1:2", "write [[operator]]"]);
}

/// The graphs that come with the product.
fn examples() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/graphs");
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_examples_are_shown_and_drawn() {
    let folder = Folder::new();
    for example in examples() {
        let svg = folder.path("graph.svg");
        let arguments =
            ["graph".as_ref(), example.as_os_str(), "--svg".as_ref(), svg.as_os_str(), "--json".as_ref()];
        let ran = folder.run(arguments);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(report["levels"].as_array().unwrap().len(), 3);
        let graphs = report["graphs"].as_array().unwrap();
        // What operators cost is measured, and a busy host may be too slow for some.
        let outputs = graphs.iter().flat_map(|graph| graph["outputs"].as_array().unwrap());
        let kept = outputs.into_iter().all(|output| output["kept"] == true);
        ran.must(i32::from(!kept), &[]);
        for operator in graphs.iter().flat_map(|graph| graph["operators"].as_array().unwrap()) {
            assert_eq!(operator["note"], "", "{operator}");
        }
        assert!(std::fs::read_to_string(svg).unwrap().ends_with("</svg>\n"));
        let shown = folder.run(["graph".as_ref(), example.as_os_str()]);
        for words in ["operators", "outputs", "bound ms"] {
            assert!(shown.out.contains(words), "{}", shown.out);
        }
    }
}

#[test]
fn an_output_that_cannot_be_in_time_is_refused_with_the_deadline_that_would_do() {
    let text = |deadline: &str| {
        format!(
            "{COSTS}[[topic]]\nfilter = \"a\"\nperiod = \"50ms\"\nretain = 2\n[[source]]\ntopic = \"a\"\ntype = \"f64\"\n\
             [[operator]]\nname = \"x\"\nkind = \"scale\"\ninputs = [\"a\"]\ncost = \"4ms\"\noutput = \"out\"\ndeadline = \"{deadline}\"\n"
        )
    };
    check(&text("3ms"))
        .must(1, &["out", "NO", "the result takes 4", "longer than its deadline of 3ms", "would do"]);
    check(&text("20ms")).must(0, &["out", "yes"]);
}

/// What a newcomer copies. Operators are not timed, since a busy host may need longer than they may take.
#[test]
fn the_configurations_that_the_readme_shows_are_right() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    // Indented lines, without the commands among them; whatever else there is divides them.
    let lines: Vec<&str> = readme
        .lines()
        .filter(|line| !line.starts_with("    verge ") && !line.is_empty())
        .map(|line| line.strip_prefix("    ").unwrap_or_default())
        .collect();
    let blocks = lines.split(|line| line.is_empty()).map(|block| block.join("\n") + "\n");
    let texts: Vec<String> = blocks.filter(|block| block.lines().any(|line| line.starts_with('['))).collect();
    let text = texts.concat();
    assert!(["[[topic]]", "[[operator]]", "[brokers.a]"].iter().all(|part| text.contains(part)), "{text}");
    let folder = Folder::new();
    let all = folder.write("all.toml", &text);
    folder.run(["config".as_ref(), "check".as_ref(), all.as_os_str()]).must(0, &[]);
    let topics = texts.iter().filter(|text| text.contains("[[topic]]")).map(String::as_str);
    let topics = folder.write("topics.toml", topics.collect::<String>() + COSTS);
    folder.run(["check".as_ref(), topics.as_os_str()]).must(0, &["yes"]);
}

/// The operator of the README, with a deadline that no broker can dispatch within.
fn readme(deadline: &str) -> String {
    format!(
        "{COSTS}[[topic]]\nfilter = \"turbine/+/vibration\"\nperiod = \"50ms\"\ndeadline = \"20ms\"\nretain = 2\nstreams = 3\n\
         [[source]]\ntopic = \"turbine/+/vibration\"\ntype = \"f32\"\n\
         [[operator]]\nname = \"rms\"\nkind = \"rms\"\ninputs = [\"turbine/+/vibration\"]\nwindow = 16\noutput = \"turbine/+/rms\"\n\
         deadline = \"{deadline}\"\ncost = \"10us\"\n"
    )
}

#[test]
fn results_that_no_broker_would_carry_are_refused_by_check_and_graph() {
    let folder = Folder::new();
    folder.write("good.toml", readme("20ms"));
    folder.write("bad.toml", readme("1900us"));
    for command in ["check", "graph"] {
        folder.run([command, "good.toml"]).must(0, &["turbine/+/rms"]);
        folder.run([command, "bad.toml"]).must(1, &["turbine/+/rms", "NO", "brokers refuse the results on"]);
    }
}

#[test]
fn messages_that_operators_would_have_no_place_for_are_refused_by_check_and_graph() {
    let folder = Folder::new();
    let text = |streams: &str, events: &str| {
        readme("20ms").replace("streams = 3", streams) + &format!("[processing]\nevents = {events}\n")
    };
    folder.write("good.toml", text("streams = 3", "16"));
    folder.write("bad.toml", text("streams = 12", "16"));
    folder.write("mended.toml", text("streams = 12", "36"));
    for command in ["check", "graph"] {
        folder.run([command, "good.toml"]).must(0, &["turbine/+/rms"]);
        let words = ["24 messages are under way", "processing.events = 16", "would do"];
        folder.run([command, "bad.toml"]).must(1, &words);
        folder.run([command, "mended.toml"]).must(0, &["turbine/+/rms"]);
    }
    folder.run(["graph", "good.toml"]).must(0, &["6 messages are under way at once"]);
}

#[test]
fn subscribers_that_are_expected_are_counted_each_with_a_connection() {
    let folder = Folder::new();
    let topic = |subscribers: &str| {
        format!(
            "{COSTS}[[topic]]\nfilter = \"t\"\nperiod = \"20ms\"\ndeadline = \"8ms\"\nloss = 3\n{subscribers}"
        )
    };
    folder.write("one.toml", topic(""));
    folder.write("few.toml", topic("subscribers = 20\n"));
    folder.write("many.toml", topic("subscribers = 600\n"));
    folder.run(["check", "one.toml"]).must(0, &["yes"]);
    folder.run(["check", "few.toml"]).must(0, &["yes"]);
    folder.run(["check", "many.toml"]).must(1, &["not schedulable"]);
}

#[test]
fn what_a_broker_refuses_for_its_limits_is_refused_by_check() {
    let topic = |more: &str| format!("{COSTS}[[topic]]\nfilter = \"t/+\"\nperiod = \"50ms\"\n{more}");
    let refused = |text: String, words: &[&str]| {
        let folder = Folder::new();
        folder.write("plant.toml", text);
        folder.run(["check", "plant.toml"]).must(1, words);
    };
    refused(topic("retain = 65536\n"), &["limits.ring_slots_max"]);
    refused(
        topic("retain = 2\nsize = \"1MiB\"\nstreams = 40\n[limits]\nstore = \"64MiB\"\n"),
        &["of 40 streams fit", "bytes of memory"],
    );
    refused(topic("retain = 2\nstreams = 9\n[limits]\nstreams = 8\n"), &["only 8 of 9", "limits.streams"]);
    // Publishers of one topic are streams like others.
    let one = topic("retain = 2\nstreams = 9\n[limits]\nstreams = 8\n").replace("t/+", "t");
    refused(one, &["only 8 of 9", "limits.streams"]);
}

#[test]
fn a_topic_of_results_with_a_contract_of_its_own_is_no_publishers() {
    let folder = Folder::new();
    let topic =
        |filter: &str, more: &str| format!("[[topic]]\nfilter = \"{filter}\"\nperiod = \"50ms\"\n{more}");
    let operator = "[[source]]\ntopic = \"e/+/v\"\ntype = \"f32\"\n[[operator]]\nname = \"scaled\"\nkind = \"scale\"\n\
                    inputs = [\"e/+/v\"]\noutput = \"e/+/out\"\ncost = \"10us\"\n";
    let text = format!(
        "{COSTS}{}{}{operator}",
        topic("e/+/out", "streams = 3\nretain = 2\n"),
        topic("e/+/v", "streams = 3\nretain = 2\n")
    );
    folder.write("plant.toml", text);
    folder.run(["check", "plant.toml"]).must(0, &["e/+/out", "e/+/v"]);
}
