use super::*;
use crate::testing::Scratch;
use ::processing::Violation;
use processing::RelativeSet;

const GOOD: &str = "\
[processing]
levels = 4
workers = 2

[[topic]]
filter = \"turbine/#\"
period = \"10ms\"

[[source]]
topic = \"turbine/+/vibration\"
type = \"f32\"
validity = \"25ms\"

[[operator]]
name = \"rms\"
kind = \"rms\"
inputs = [\"turbine/+/vibration\"]
window = 16
output = \"turbine/+/rms\"
level = \"high\"
deadline = \"20ms\"

[[operator]]
name = \"both\"
kind = \"join\"
inputs = [\"rms\", \"turbine/+/speed\"]
violation = \"shed\"
together = [{ inputs = [\"rms\", \"turbine/+/speed\"], within = \"5ms\" }]
cost = \"100us\"
output = \"turbine/+/both\"
span = \"5ms\"
word = \"ms\"
forever = \"inf\"
on = true
list = [1, 2.5]
matrix = [[1, 0], [0, 1]]
texts = [\"a > 1\", \"5ms\"]
";

#[test]
fn operators_and_sources_become_a_graph() {
    let config = Scratch::new("graph", GOOD).load(&[], &[]).unwrap();
    let processing = &config.processing;
    assert_eq!((processing.levels, processing.workers, processing.events), (4, Some(2), 65_536));
    let [graph] = processing.graphs.as_slice() else { panic!("{:?}", processing.graphs) };
    let supplier = |name: &str| graph.suppliers.iter().find(|supplier| supplier.name == name).unwrap();
    let vibration = supplier("turbine/+/vibration");
    assert_eq!((vibration.validity, vibration.period), (Span::millis(25), Span::millis(10)));
    assert_eq!(vibration.payload.to_string(), "f32");
    let speed = supplier("turbine/+/speed");
    assert_eq!((speed.validity, speed.period), (Span::FOREVER, Span::millis(10)));
    let [rms, both] = graph.operators.as_slice() else { panic!("{graph:?}") };
    assert_eq!((rms.keep, rms.join, rms.violation), (KEEP_ALL, Join::All, Violation::Mark));
    assert_eq!(
        (both.keep, both.violation, both.cost),
        (Keep::Latest, Violation::Shed, Some(Span::micros(100)))
    );
    let inputs = vec!["rms".to_owned(), "turbine/+/speed".to_owned()];
    assert_eq!(both.sets, [RelativeSet { inputs, within: Span::millis(5) }]);
    assert_eq!(graph.consumers[0].level, Level(0));
    assert_eq!((graph.consumers[1].level, graph.consumers[1].deadline), (Level(3), Span::FOREVER));
    let parameters = [
        ("forever", processing::Value::Text("inf".to_owned())),
        ("list", processing::Value::Numbers(vec![1.0, 2.5])),
        ("matrix", processing::Value::Matrix(vec![vec![1.0, 0.0], vec![0.0, 1.0]])),
        ("on", processing::Value::Switch(true)),
        ("span", processing::Value::Span(Span::millis(5))),
        ("texts", processing::Value::Texts(vec!["a > 1".to_owned(), "5ms".to_owned()])),
        ("word", processing::Value::Text("ms".to_owned())),
    ];
    assert_eq!(both.parameters, Parameters::from(parameters.map(|(name, value)| (name.to_owned(), value))));
}

#[test]
fn without_sharing_each_output_has_its_operators_and_without_prioritization_all_are_urgent() {
    let config = Scratch::new("switches", GOOD)
        .load(&[], &["processing.sharing=false", "processing.prioritization=false"])
        .unwrap();
    let graphs = &config.processing.graphs;
    let names: Vec<&str> =
        graphs.iter().flat_map(|graph| &graph.operators).map(|o| o.name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"rms") && names.contains(&"rms~2") && names.contains(&"both"), "{names:?}");
    let mut consumers = graphs.iter().flat_map(|graph| &graph.consumers);
    assert!(consumers.all(|consumer| consumer.level == Level(0)));
}

fn report(name: &str, text: &str) -> String {
    Scratch::new(name, text).load(&[], &[]).unwrap_err()
}

fn must(report: &str, expected: &[&str]) {
    for text in expected {
        assert!(report.contains(text), "lacks {text:?}:\n{report}");
    }
}

const TOPIC: &str = "[[topic]]\nfilter = \"a\"\nperiod = \"10ms\"\n";

fn operator_text(name: &str, inputs: &str, more: &str) -> String {
    format!("[[operator]]\nname = \"{name}\"\nkind = \"rms\"\ninputs = [{inputs}]\n{more}\n")
}

#[test]
fn a_name_that_nobody_has_is_shown_with_the_nearest() {
    let text = format!("{TOPIC}{}{}", operator_text("rms", "\"a\"", ""), operator_text("x", "\"rmss\"", ""));
    let expected = [
        "`rmss` is neither an operator nor a topic",
        "verge.toml:12:10",
        "did you mean `rms`?",
        "1 problem ",
    ];
    must(&report("dangling", &text), &expected);
}

#[test]
fn a_circle_is_shown_at_an_operator_of_it() {
    let text = operator_text("x", "\"y\"", "") + &operator_text("y", "\"x\"", "");
    must(&report("circle", &text), &["in a circle", "verge.toml:9:10", "break the circle"]);
}

#[test]
fn what_a_kind_refuses_is_shown_at_the_key() {
    let unknown = TOPIC.to_owned() + &operator_text("x", "\"a\"", "levl = 1");
    must(&report("key", &unknown), &["`levl` is no parameter", "verge.toml:8:8", "did you mean `level`?"]);
    let kind = unknown.replace("levl = 1", "").replace("\"rms\"", "\"nonsense\"");
    must(&report("kind", &kind), &["no operator of kind `nonsense`", "verge.toml:6:8"]);
    let bytes = unknown.replace("levl = 1", "").replace("\"rms\"", "\"numbers\"");
    must(&report("bytes", &bytes), &["operator `x`: `numbers` needs numbers", "verge.toml:7:10"]);
}

#[test]
fn all_problems_of_operators_are_shown_at_once() {
    let text = format!(
        "{TOPIC}{}{}{}{}{}",
        operator_text("x", "\"a\"", "output = \"out\"\nlevel = 7"),
        operator_text("x", "\"a\"", ""),
        operator_text("a/b", "\"a\"", "keep = 0\njoin = \"some\""),
        operator_text(
            "y",
            "\"a\", \"x\"",
            "together = [{ inputs = [\"a\", \"z\"], within = \"5ms\" }]\nlevel = 1"
        ),
        operator_text("w", "\"out\"", "together = [3]\noutput = \"out\""),
    ) + "[[source]]\ntopic = \"b\"\n[operator.z]\n";
    let report = report("all", &text);
    let expected = [
        "verge.toml:9:9",
        "has level 7, and there are levels 0 to 2",
        "choose 0 to 2, or raise processing.levels",
        "two operators are called `x`",
        "write a name without `/`",
        "whole number from 1 to 65536, \"all\" or \"latest\"",
        "write \"all\" or \"any\"",
        "names `z`, which is not among its inputs",
        "name inputs of this operator only",
        "`level` belongs to an output",
        "3 is no set",
        "`b` feeds no operator",
    ];
    must(&report, &expected);
}

#[test]
fn topics_of_results_are_not_taken_and_not_shared() {
    let text = format!(
        "{TOPIC}{}{}{}",
        operator_text("x", "\"a\"", "output = \"out\""),
        operator_text("y", "\"a\"", "output = \"out\""),
        operator_text("z", "\"out\"", "output = \"#\"")
    );
    let expected = [
        "`x` and `y` both publish on `out`",
        "`out` is the output of the operator",
        "take `y` itself as input",
        "`#` holds `#`",
    ];
    must(&report("results", &text), &expected);
}
