//! After its first run, an operator takes no memory: counted by the allocator, for every kind.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use processing::{Input, Parameters, PayloadType, Setup, Value, kinds};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// What a hundred runs take after the first few.
fn allocations(kind: &str, input: &str, payload: &[u8], parameters: &[(&str, Value)]) -> u64 {
    let inputs: [PayloadType; 1] = [input.parse().unwrap()];
    let parameters: Parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let mut operator =
        kinds::build(kind, &Setup { inputs: &inputs, parameters: &parameters }).unwrap().operator;
    let mut output = Vec::with_capacity(1 << 16);
    let mut run = |tick: u64| {
        output.clear();
        let input = Input { slot: 0, payload, created: Time(tick * 1_000_000) };
        operator.run(&[input], &mut output).unwrap();
    };
    (0..2).for_each(&mut run);
    let before = counting::allocations();
    (2..102).for_each(&mut run);
    counting::allocations() - before
}

fn sealed(payload: &[u8], key: &Value) -> Vec<u8> {
    let parameters =
        Parameters::from([("key".to_owned(), key.clone()), ("direction".to_owned(), text("encrypt"))]);
    let setup = Setup { inputs: &[PayloadType::Bytes], parameters: &parameters };
    let mut output = Vec::new();
    let input = Input { slot: 0, payload, created: Time(1) };
    kinds::build("aes", &setup).unwrap().operator.run(&[input], &mut output).unwrap();
    output
}

fn number(number: f64) -> Value {
    Value::Number(number)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn identity(size: usize) -> Value {
    Value::Matrix(
        (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect(),
    )
}

#[test]
fn runs_take_no_memory() {
    let array: Vec<u8> = (0..200_u32).flat_map(|index| f64::from(index).to_le_bytes()).collect();
    let (key, hundred) = (text(&"0f".repeat(32)), text("100ms"));
    let cases: Vec<(&str, Vec<(&str, Value)>)> = vec![
        ("scale", vec![("gain", number(2.0))]),
        ("average", vec![("span", hundred.clone())]),
        ("min", vec![("window", number(10.0))]),
        ("max", vec![("window", number(1000.0))]),
        ("rms", vec![]),
        ("threshold", vec![("above", number(2.0)), ("every", Value::Switch(true))]),
        ("deadband", vec![("absolute", number(0.0)), ("at_least_every", Value::Span(Span::millis(3)))]),
        ("resample", vec![("every", Value::Span(Span::micros(100)))]),
        ("join", vec![("within", hundred)]),
        ("concat", vec![]),
        ("format", vec![("as", text("json"))]),
        ("format", vec![("decimals", number(3.0))]),
        ("rule", vec![("if", text("value > 1e9 OR values[3] < -1 OR has(values.x)"))]),
        ("rule", vec![("if", text("value != 1e9 AND NOT (values[3] = 0.25)")), ("say", text("fires"))]),
        ("fft", vec![("window", text("hann"))]),
        ("fft", vec![("size", number(997.0))]),
        ("aes", vec![("key", key.clone()), ("direction", text("encrypt"))]),
        ("aes", vec![("key", key.clone()), ("direction", text("encrypt")), ("mode", text("ctr"))]),
        ("aes", vec![("key", key.clone()), ("direction", text("decrypt")), ("mode", text("ctr"))]),
    ];
    for (kind, parameters) in &cases {
        assert_eq!(allocations(kind, "f64", &array, parameters), 0, "{kind}");
    }
    let sealed = sealed(&array, &key);
    let parameters = [("key", key), ("direction", text("decrypt"))];
    assert_eq!(allocations("aes", "bytes", &sealed, &parameters), 0, "aes decrypt");
    // A payload with the metric `T`, a Float: 21.5.
    let metric = [&[0x0a, 1, b'T', 0x20, 9, 0x65][..], &21.5_f32.to_le_bytes()].concat();
    let sparkplug = [&[0x08, 1, 0x12, metric.len() as u8][..], &metric].concat();
    assert_eq!(allocations("sparkplug", "bytes", &sparkplug, &[("metric", text("T"))]), 0);
    for kind in kinds::KINDS.iter().filter(|kind| !["ekf", "sparkplug"].contains(&kind.name)) {
        assert!(cases.iter().any(|(name, _)| *name == kind.name), "{} is left out", kind.name);
    }
}

#[test]
fn filters_of_all_sizes_take_no_memory() {
    for (states, readings) in [(1, 1), (4, 2), (7, 3), (16, 8)] {
        let observation =
            (0..readings).map(|row| (0..states).map(|column| f64::from(u8::from(row == column))).collect());
        let parameters = [
            ("model", text("linear")),
            ("F", identity(states)),
            ("H", Value::Matrix(observation.collect())),
            ("Q", identity(states)),
            ("R", identity(readings)),
            ("P0", identity(states)),
            ("variances", Value::Switch(true)),
        ];
        let payload: Vec<u8> = (0..readings).flat_map(|index| (index as f64).to_le_bytes()).collect();
        assert_eq!(allocations("ekf", "f64", &payload, &parameters), 0, "{states} {readings}");
    }
    for model in ["constant-velocity", "range-bearing", "pendulum"] {
        let parameters = [("model", text(model)), ("process", number(1.0)), ("noise", number(0.1))];
        let readings = if model == "range-bearing" { 2 } else { 1 };
        let payload: Vec<u8> = (0..readings).flat_map(|_| 0.5_f64.to_le_bytes()).collect();
        assert_eq!(allocations("ekf", "f64", &payload, &parameters), 0, "{model}");
    }
}

#[test]
fn documents_take_no_memory() {
    let json = br#"{"id":"pump 3","motor":{"state":"on","rpm":[3000,3001.5]},"ok":[true]}"#;
    assert_eq!(allocations("average", "json:motor.rpm", json, &[]), 0);
    // {"id": 1, "rpm": [_ 1, 1.5], "x": [1, [2]]}
    let cbor = [
        0xa3, 0x62, b'i', b'd', 0x01, 0x63, b'r', b'p', b'm', 0x9f, 0x01, 0xf9, 0x3e, 0x00, 0xff, 0x61, b'x',
        0x82, 0x01, 0x81, 0x02,
    ];
    assert_eq!(allocations("average", "cbor:rpm", &cbor, &[]), 0);
    let condition = "motor.state = \"on\" AND motor.rpm[1] > 3000 AND id.startsWith(\"pump\") AND ok[0]";
    assert_eq!(allocations("rule", "json", json, &[("if", text(condition))]), 0);
    assert_eq!(
        allocations("rule", "cbor", &cbor, &[("if", text("rpm[1] = 1.5 AND id = 1 OR x[1][0] = 3"))]),
        0
    );
}
