//! Whatever comes in, and whenever it was created: an operator answers or faults, and what it writes has its type.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use processing::{Answer, Answers, Input, Operator, Parameters, PayloadType, Setup, Value, kinds};
use proptest::prelude::*;

fn number(number: f64) -> Value {
    Value::Number(number)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Every kind, in the ways that differ.
fn cases() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let millisecond = || Value::Span(Span::millis(1));
    let moving = || vec![("process", number(1.0)), ("noise", number(0.1))];
    let with = |name, value: Value, mut others: Vec<(&'static str, Value)>| {
        others.push((name, value));
        others
    };
    vec![
        ("scale", vec![("from", text("degC")), ("to", text("degF")), ("as", text("i16"))]),
        ("average", vec![("span", millisecond())]),
        ("min", vec![("window", number(3.0))]),
        ("max", vec![("window", number(3.0)), ("span", millisecond())]),
        ("rms", vec![("as", text("f32"))]),
        ("threshold", vec![("below", number(0.0)), ("every", Value::Switch(true))]),
        ("deadband", vec![("percent", number(5.0)), ("at_least_every", millisecond())]),
        (
            "resample",
            vec![("every", Value::Span(Span(1))), ("method", text("linear")), ("align", millisecond())],
        ),
        ("resample", vec![("every", Value::Span(Span(i64::MAX - 1)))]),
        ("join", vec![("within", millisecond())]),
        ("concat", vec![]),
        ("fft", vec![("window", text("hann")), ("result", text("amplitude"))]),
        ("fft", vec![("size", number(3.0)), ("result", text("complex"))]),
        ("ekf", with("model", text("constant-velocity"), moving())),
        ("ekf", with("model", text("range-bearing"), moving())),
        ("ekf", with("model", text("pendulum"), moving())),
        (
            "ekf",
            vec![
                ("model", text("linear")),
                ("F", number(2.0)),
                ("H", number(1.0)),
                ("Q", number(0.0)),
                ("R", number(1e-9)),
                ("P0", number(1e9)),
            ],
        ),
        ("aes", vec![("key", text(&"0f".repeat(16))), ("direction", text("encrypt"))]),
        ("aes", vec![("key", text(&"0f".repeat(16))), ("direction", text("decrypt")), ("type", text("f64"))]),
        ("aes", vec![("key", text(&"0f".repeat(16))), ("direction", text("decrypt")), ("mode", text("ctr"))]),
        ("format", vec![("decimals", number(3.0))]),
        ("format", vec![("as", text("json")), ("key", text("a"))]),
        ("sparkplug", vec![("metric", text("a"))]),
        ("rule", vec![("if", text("value > 1 OR values[1] < 0")), ("say", text("fires"))]),
    ]
}

struct Subject {
    kind: &'static str,
    operator: Box<dyn Operator>,
    output: PayloadType,
    answers: Answers,
}

fn subjects(input: &PayloadType) -> Vec<Subject> {
    let set_up = |(kind, parameters): (&'static str, Vec<(&'static str, Value)>)| {
        let parameters: Parameters =
            parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        // These take nothing else.
        let own = match (kind, input) {
            ("sparkplug", _) => Some(PayloadType::Bytes),
            ("rule", PayloadType::Json(_)) => Some(PayloadType::Json(String::new())),
            ("rule", PayloadType::Cbor(_)) => Some(PayloadType::Cbor(String::new())),
            _ => None,
        };
        let input = own.as_ref().unwrap_or(input);
        let setup = Setup { inputs: std::slice::from_ref(input), parameters: &parameters };
        let built = kinds::build(kind, &setup).unwrap_or_else(|error| panic!("{kind}: {error}"));
        Subject { kind, operator: built.operator, output: built.output, answers: built.answers }
    };
    cases().into_iter().map(set_up).collect()
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop_oneof![
        any::<f64>(),
        -10.0..10.0,
        prop::sample::select(vec![0.0, -0.0, 1e308, -1e308, 5e-324, f64::NAN, f64::INFINITY])
    ];
    let array = |numbers: Vec<f64>| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..100),
        3 => prop::collection::vec(numbers.clone(), 0..6).prop_map(array),
        2 => prop::collection::vec(numbers, 0..6).prop_map(|numbers| format!("{{\"a\":{numbers:?}}}").into_bytes()),
    ]
}

#[test]
fn every_kind_is_among_the_cases() {
    for kind in kinds::KINDS {
        assert!(cases().iter().any(|(name, _)| *name == kind.name), "{} is left out", kind.name);
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_results_have_their_type(
        runs in prop::collection::vec((payloads(), prop_oneof![any::<u64>(), 0..10_000_000_u64]), 1..12),
        input in prop::sample::select(vec!["i16", "i32", "f32", "f64", "json:a", "cbor", "cbor:a.0"]),
    ) {
        for mut subject in subjects(&input.parse().unwrap()) {
            for (payload, created) in &runs {
                let mut output = Vec::new();
                let answer = subject.operator.run(&[Input { slot: 0, payload, created: Time(*created) }], &mut output);
                match answer {
                    Ok(Answer::Result) => {
                        if let PayloadType::Array(element) = subject.output {
                            prop_assert!(subject.kind == "aes" || output.len().is_multiple_of(element.bytes()), "{}", subject.kind);
                        }
                    }
                    Ok(Answer::Nothing) => {
                        prop_assert!(output.is_empty(), "{} says nothing and writes something", subject.kind);
                        prop_assert_eq!(subject.answers, Answers::Sometimes, "{}", subject.kind);
                    }
                    // What was written before a fault is for the caller to throw away.
                    Err(_) => {}
                }
            }
            // No input at all is a mistake of the caller, and no reason to panic either.
            let _ = subject.operator.run(&[], &mut Vec::new());
        }
    }
}
