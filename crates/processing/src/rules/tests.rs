use super::language;
use super::tuple::Shape;
use super::*;
use crate::payload::PayloadType;
use cel::{Context, Program, Value};
use contract::{Span, Time};
use proptest::prelude::*;

fn json() -> PayloadType {
    PayloadType::Json(String::new())
}

fn rule(condition: &str) -> RuleSpec {
    RuleSpec { name: String::new(), condition: condition.to_owned(), priority: 0, every: Span::ZERO }
}

/// Whether a condition holds for a document.
fn holds(condition: &str, document: &str) -> Result<bool, String> {
    let set = RuleSet::read(&[rule(condition)]).unwrap_or_else(|error| panic!("{error}"));
    let mut tuple = set.tuple();
    tuple.read(&json(), document.as_bytes()).unwrap_or_else(|error| panic!("{document}: {error}"));
    set.explain(&tuple).remove(0).1.holds
}

fn refused(condition: &str) -> String {
    match RuleSet::read(&[rule(condition)]) {
        Ok(_) => panic!("`{condition}` is taken"),
        Err(RuleError::Condition { reason, .. }) => reason.to_string(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_worked_vectors() {
    for (result, expected) in [("10", true), ("9.99", false), ("10.5", true)] {
        assert_eq!(holds("IF (RESULT >= 10)", &format!("{{\"RESULT\": {result}}}")), Ok(expected));
    }
    let first = RuleSpec { priority: 1, ..rule("RESULT >= 10") };
    let second = RuleSpec { priority: 0, ..rule("RESULT >= 5") };
    let mut set = RuleSet::read(&[first, second]).unwrap();
    let mut tuple = set.tuple();
    tuple.read(&json(), br#"{"RESULT": 12}"#).unwrap();
    assert_eq!(set.judge(Time(1), &tuple), Verdict::Fires(1));
    assert_eq!(set.counts().iter().map(|counts| counts.fired).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn words_and_signs_are_the_same() {
    let document = r#"{"a": 5, "b": {"and": true, "or": [1, 2]}, "state": "NOT = open"}"#;
    for (condition, expected) in [
        ("a = 5 AND NOT (a > 6)", true),
        ("a == 5 && !(a > 6)", true),
        ("if a<=5 and a>=5 or false", true),
        ("b.and AND b.or[1] = 2", true),
        ("state = \"NOT = open\"", true),
        ("state == 'NOT = open' && state != \"AND\"", true),
        ("state.startsWith('NOT') and state.contains(' = ') and not state.endsWith('x')", true),
        ("a in [1, 5.0, -7] AND NOT (state in ['x'])", true),
        ("has(a) AND NOT has(z) AND a <> 6", true),
        ("NOT a > 6 AND NOT a = 6 AND NOT NOT b.and", true),
        ("-a < -4 AND a * 2 - 1 = 9 AND a / 2 = 2.5", true),
        ("(a > 3 ? 'x' : 'y') = 'x'", true),
        ("5 < a", false),
        ("b['and'] and b[\"or\"][0] != 1", false),
        ("a = '5'", false),
        ("a = null OR state = null", false),
    ] {
        assert_eq!(holds(condition, document), Ok(expected), "{condition}");
    }
}

#[test]
fn what_is_not_there_is_neither_true_nor_false() {
    let document = r#"{"a": 5, "m": {"x": null}, "l": [1]}"#;
    for condition in ["b > 1", "NOT (b > 1)", "a.b = 1", "l[1] = 1", "m.y = 1", "has(n.x)", "a = 5 AND b = 1"]
    {
        assert!(holds(condition, document).is_err(), "{condition}");
    }
    for (condition, expected) in [
        ("b > 1 OR a = 5", true),
        ("a = 5 OR b > 1", true),
        ("b > 1 AND a = 6", false),
        ("has(m.x) AND NOT has(m.y)", true),
        ("m.x = null", true),
        ("a = 5 ? true : b", true),
    ] {
        assert_eq!(holds(condition, document), Ok(expected), "{condition}");
    }
    let why = holds("motor.rpm > 1", "{}").unwrap_err();
    assert_eq!(why, "motor.rpm is not there");
    assert!(holds("a = a", r#"{"a": "x"}"#) == Ok(true) && holds("a > 1", r#"{"a": "x"}"#).is_err());
    assert!(holds("a / a > 1", r#"{"a": 0}"#).unwrap_err().contains("no number"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (condition, said) in [
        ("", "it is empty"),
        ("  IF ", "it is empty"),
        ("a = = 5", "at letter 5: `==` stands where"),
        ("a = 1 AND b = 2 AND ) c", "at letter 21: `)` stands"),
        ("a = 1\nAND ) c", "in line 2, at letter 5: "),
        ("a = 1 b", "at letter 7: `b` stands where AND, OR or the end"),
        ("a AND", "the end stands where"),
        ("5", "neither true nor false"),
        ("!a > 1", "write NOT (a > 1)"),
        ("1 < a < 3", "1 < a AND a < 3"),
        ("!a = 1", "of different kinds"),
        ("'x' + 'y' = 'xy'", "are for numbers"),
        ("'x' > 1", "of different kinds"),
        ("a > null", "null is neither"),
        ("a % 2 = 0", "at letter 3: `%` is not there"),
        ("size(a) > 1", "`size` is no function"),
        ("a.size() > 1", "`size` is no function"),
        ("[1, 2].all(x, x > 0)", "at letter 1: `[` stands where"),
        ("a in b", "a list of values"),
        ("a in [b]", "nothing is worked out"),
        ("a[b] = 1", "an element, counted from 0"),
        ("a[-1] = 1", "an element, counted from 0"),
        ("{'a': 1}.a = 1", "documents do not stand"),
        ("(a).b = 1", "things in the message"),
        ("has(a[0])", "a key, as in"),
        ("l.0 = 1", "elements of a list stand in brackets"),
        ("a and and b", "`and` stands where"),
        ("a & b", "means nothing"),
        ("'unclosed", "a text has no end"),
        ("'a\\q' = a", "in a text stands"),
        ("a = 1e999", "is no number"),
        ("a = 0x1F", "at letter 6: `x1F` stands"),
    ] {
        let why = refused(condition);
        assert!(why.contains(said), "{condition}: {why}");
    }
    assert!(refused(&"(".repeat(3000)).contains("nested"));
    for sign in ["!", "-", "?", "a.", "a[0]", "a?b:", "a+", "a<", "NOT ", "a.contains(", "a in ", "a*-"] {
        let row = sign.repeat(3000 / sign.len());
        assert!(refused(&row).len() < 2_000 && refused(&(row + "a")).len() < 2_000, "{sign}");
    }
    assert!(refused(&"a".repeat(5000)).contains("may have 4096"));
    let many: Vec<String> = (0..257).map(|index| format!("a{index} = 1")).collect();
    let rows = [rule(&many[..150].join(" OR ")), rule(&many[150..].join(" OR "))];
    assert!(RuleSet::read(&rows).unwrap_err().to_string().contains("make two sets"));
    assert!(RuleSet::read(&rows[..1]).is_ok());
    let specs: Vec<RuleSpec> = many.iter().map(|condition| rule(condition)).collect();
    assert_eq!(RuleSet::read(&specs).unwrap_err(), RuleError::Number(257));
    assert!(RuleSet::read(&[]).is_err());
}

#[test]
fn keys_of_any_kind_can_be_said() {
    let document = r#"{"température": 5, "PM2.5": 7, "and": {"or": 1, "a b": true}}"#;
    for condition in
        ["température = 5", "[\"PM2.5\"] > 6", "['and'].or = 1 AND ['and']['a b']", "has(['and'].or)"]
    {
        assert_eq!(holds(condition, document), Ok(true), "{condition}");
    }
}

#[test]
fn long_rows_of_one_sign_are_not_deep() {
    let long: Vec<String> = (0..200).map(|index| format!("a={index}")).collect();
    assert_eq!(holds(&long.join(" OR "), r#"{"a": 199}"#), Ok(true));
    assert_eq!(holds(&long.join(" or "), r#"{"a": 200}"#), Ok(false));
}

#[test]
fn what_has_fired_is_quiet_for_a_while() {
    let often = RuleSpec { every: Span(100), ..rule("a > 1") };
    let mut set = RuleSet::read(&[often, RuleSpec { priority: 1, ..rule("a > 0") }]).unwrap();
    let mut tuple = set.tuple();
    let mut judge = |set: &mut RuleSet, now, document: &[u8]| {
        tuple.read(&json(), document).unwrap();
        set.judge(Time(now), &tuple)
    };
    assert_eq!(judge(&mut set, 1_000, br#"{"a": 2}"#), Verdict::Fires(0));
    assert_eq!(judge(&mut set, 1_099, br#"{"a": 2}"#), Verdict::HeldBack(0));
    assert_eq!(judge(&mut set, 1_099, br#"{"a": 1}"#), Verdict::Fires(1));
    assert_eq!(judge(&mut set, 1_099, br#"{"a": 0}"#), Verdict::None);
    assert_eq!(judge(&mut set, 1_099, br#"{"b": 0}"#), Verdict::None);
    assert_eq!(judge(&mut set, 1_100, br#"{"a": 2}"#), Verdict::Fires(0));
    assert_eq!(set.counts()[0], Counts { fired: 2, held_back: 1, unclear: 1 });
    let mut other = RuleSet::read(&[RuleSpec { every: Span(100), ..rule("a > 1") }]).unwrap();
    other.set_quiet(&set.quiet());
    assert_eq!(judge(&mut other, 1_199, br#"{"a": 2}"#), Verdict::HeldBack(0));
}

#[test]
fn payloads_that_are_no_documents_have_values() {
    let mut set = RuleSet::read(&[rule("value > 2 OR values[1] < 0")]).unwrap();
    let mut tuple = set.tuple();
    let mut fires = |payload_type: &str, payload: &[u8]| {
        tuple.read(&payload_type.parse().unwrap(), payload).unwrap();
        set.judge(Time(1), &tuple) == Verdict::Fires(0)
    };
    let f64s = |numbers: &[f64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    for (numbers, expected) in
        [(&[3.0][..], true), (&[1.0], false), (&[1.0, -1.0], true), (&[1.0, 1.0], false)]
    {
        assert_eq!(fires("f64", &f64s(numbers)), expected, "{numbers:?}");
        let text: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        assert_eq!(fires("text", text.join(", ").as_bytes()), expected, "{text:?}");
        let list = format!("[{}]", text.join(","));
        assert_eq!(fires("json", list.as_bytes()), expected, "{list}");
        assert_eq!(fires("cbor", &minicbor::to_vec(numbers).unwrap()), expected, "{numbers:?}");
    }
    assert!(fires("json", b"2.5") && fires("cbor", &minicbor::to_vec(2.5).unwrap()));
}

#[test]
fn what_is_no_document_gives_no_tuple() {
    let set = RuleSet::read(&[rule("a.b = 1 OR c")]).unwrap();
    let mut tuple = set.tuple();
    for wrong in
        ["", "{", "{\"c\": tru", "{\"c\": 1, \"c\": 2}", "{\"a\": {}, \"a\": 1}", "{} {}", "nonsense"]
    {
        assert!(tuple.read(&json(), wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(
        tuple.read(&json(), b"{\"d\": 1, \"d\": 2, \"c\": true}").is_ok(),
        "what nobody asks for does not matter"
    );
    assert!(tuple.read(&PayloadType::Array(crate::payload::Element::F64), &[1, 2]).is_err());
    assert!(tuple.read(&PayloadType::Cbor(String::new()), &[0xa1, 0x61]).is_err());
    let long = format!("{{\"c\": \"{}\"}}", "x".repeat(TEXT_BYTES_MAX + 1));
    assert!(tuple.read(&json(), long.as_bytes()).unwrap_err().to_string().contains("64 KiB"));
}

#[test]
fn why_it_does_not_fire_is_said_with_values() {
    let set =
        RuleSet::read(&[rule("level > 90 AND (NOT pump.on OR mode in ['test']) AND name.startsWith('x')")])
            .unwrap();
    let mut tuple = set.tuple();
    tuple.read(&json(), br#"{"level": 72, "pump": {"on": true}, "mode": "auto"}"#).unwrap();
    let (_, explanation) = set.explain(&tuple).remove(0);
    assert_eq!(explanation.holds, Ok(false));
    let said: Vec<String> = explanation.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "level > 90: does not hold (level is 72)",
            "NOT pump.on: does not hold (pump.on is true)",
            "mode in [\"test\"]: does not hold (mode is \"auto\")",
            "name.startsWith(\"x\"): name is not there",
        ]
    );
}

/// JSON and CBOR of the same document say the same.
#[test]
fn json_and_cbor_say_the_same() {
    let set = RuleSet::read(&[rule(
        "a.b[1] = 2 AND a.c = 'x' AND NOT has(a.d) AND e AND f = null AND g[0].h = -0.5",
    )])
    .unwrap();
    let mut tuple = set.tuple();
    let document = r#"{"z": [[1], {"q": 1}], "a": {"b": [1, 2, 3], "c": "x"}, "e": true, "f": null, "g": [{"h": -0.5}]}"#;
    tuple.read(&json(), document.as_bytes()).unwrap();
    let of_json = set.explain(&tuple);
    assert_eq!(of_json[0].1.holds, Ok(true), "{of_json:?}");
    let value: serde_json::Value = serde_json::from_str(document).unwrap();
    let mut bytes = Vec::new();
    encode(&value, &mut minicbor::Encoder::new(&mut bytes));
    tuple.read(&PayloadType::Cbor(String::new()), &bytes).unwrap();
    assert_eq!(set.explain(&tuple), of_json);
}

fn encode(value: &serde_json::Value, encoder: &mut minicbor::Encoder<&mut Vec<u8>>) {
    match value {
        serde_json::Value::Null => _ = encoder.null().unwrap(),
        serde_json::Value::Bool(on) => _ = encoder.bool(*on).unwrap(),
        serde_json::Value::Number(number) => _ = encoder.f64(number.as_f64().unwrap()).unwrap(),
        serde_json::Value::String(text) => _ = encoder.str(text).unwrap(),
        serde_json::Value::Array(list) => {
            encoder.array(list.len() as u64).unwrap();
            list.iter().for_each(|element| encode(element, encoder));
        }
        serde_json::Value::Object(map) => {
            encoder.map(map.len() as u64).unwrap();
            for (key, value) in map {
                encoder.str(key).unwrap();
                encode(value, encoder);
            }
        }
    }
}

/// Parts of conditions: half of the time of the kind that is wanted, so that most come to something.
fn numbers() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["0.0", "1.0", "2.5", "10.0", "1e3"]).prop_map(str::to_owned),
        prop::sample::select(vec!["a", "b", "m.x", "m.l[0]", "m.l[1]", "missing", "m.none", "s"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["+", "-", "*", "/"]), inner.clone())
                .prop_map(|(left, sign, right)| format!("({left} {sign} {right})")),
            inner.prop_map(|of| format!("(-{of})")),
        ]
    })
    .boxed()
}

fn texts() -> BoxedStrategy<String> {
    prop::sample::select(vec!["s", "t", "m.y", "'ab'", "'b'", "''", "a", "missing"])
        .prop_map(str::to_owned)
        .boxed()
}

fn conditions() -> BoxedStrategy<String> {
    let compared = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let leaf = prop_oneof![
        4 => (numbers(), compared.clone(), numbers()).prop_map(|(left, sign, right)| format!("{left} {sign} {right}")),
        2 => (texts(), compared, texts()).prop_map(|(left, sign, right)| format!("{left} {sign} {right}")),
        1 => (texts(), prop::sample::select(vec!["startsWith", "endsWith", "contains"]), texts())
            .prop_map(|(text, test, part)| format!("{text}.{test}({part})")),
        1 => prop::sample::select(vec!["p", "q", "true", "false", "has(m.x)", "has(m.none)", "has(missing.x)", "has(a.x)",
            "n == null", "a == null", "n != null"]).prop_map(str::to_owned),
        1 => numbers().prop_map(|number| format!("{number} in [1.0, -2.5, 'ab', true, null]")),
        1 => texts().prop_map(|text| format!("{text} in ['b', 1.0]")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left}) && ({right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left}) || ({right})")),
            inner.clone().prop_map(|of| format!("!({of})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(when, one, other)| format!("(({when}) ? ({one}) : ({other}))")),
        ]
    })
    .boxed()
}

/// The library's word for it: true, false, or neither.
fn by_library(condition: &str, document: &serde_json::Value) -> Option<bool> {
    let program = Program::compile(condition).unwrap();
    let mut context = Context::default();
    for (key, value) in document.as_object().unwrap() {
        context.add_variable_from_value(key.as_str(), cel::to_value(value).unwrap());
    }
    match program.execute(&context) {
        Ok(Value::Bool(holds)) => Some(holds),
        _ => None,
    }
}

fn documents() -> impl Strategy<Value = serde_json::Value> {
    let number = prop::sample::select(vec![0.0, 1.0, -2.5, 2.5, 10.0, 1000.0]);
    let text = prop::sample::select(vec!["", "a", "b", "ab", "abc"]);
    (number.clone(), number.clone(), number, text.clone(), text, any::<bool>(), any::<bool>()).prop_map(
        |(a, b, x, s, t, p, q)| {
            serde_json::json!({"a": a, "b": b, "s": s, "t": t, "p": p, "q": q, "n": null,
                "m": {"x": x, "y": t, "l": [a]}})
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The library and this say the same, and where one cannot say anything, the other cannot.
    #[test]
    fn the_library_says_the_same(condition in conditions(), document in documents()) {
        let set = match RuleSet::read(&[rule(&condition)]) {
            Ok(set) => set,
            // What is refused as never true is not true.
            Err(RuleError::Condition { reason: ConditionError::Never { .. }, .. }) => return Ok(()),
            Err(other) => return Err(TestCaseError::fail(format!("{condition}: {other}"))),
        };
        let mut tuple = set.tuple();
        tuple.read(&json(), document.to_string().as_bytes()).unwrap();
        let (_, explanation) = set.explain(&tuple).remove(0);
        let expected = by_library(&condition, &document);
        prop_assert_eq!(explanation.holds.clone().ok(), expected, "{} {} {:?}", condition, document, explanation);
    }

    /// A condition that is shown is read as the same.
    #[test]
    fn what_is_shown_is_the_same(condition in conditions()) {
        let mut shape = Shape::new();
        if let Ok(node) = language::read(&condition, &mut shape) {
            let shown = node.text(&shape);
            let again = language::read(&shown, &mut shape);
            prop_assert_eq!(again.as_ref(), Ok(&node), "{} {}", condition, shown);
        }
    }

    /// Whatever is written, it is read or refused.
    #[test]
    fn anything_is_read_or_refused(text in "[a-c0-9 ()\\[\\]{}.,!&|<>=?:'\"+*/%-]{0,60}|(AND |OR |NOT |IF |[a-b]|[0-9]|[()]|[<>=]){0,30}") {
        let _ = RuleSet::read(&[rule(&text)]);
    }
}
