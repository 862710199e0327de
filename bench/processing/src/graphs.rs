//! The graphs of CPEP, figures 2.6 and 2.7, as `examples/graphs/` has them, with frames instead of single readings.

use crate::busy;
use contract::Span;
use processing::{
    ConsumerSpec, Element, GraphSpec, Join, Keep, Level, OperatorSpec, Parameters, PayloadType, RelativeSet,
    SupplierSpec, Value, Violation,
};
use std::collections::BTreeMap;

/// What the graphs are made with.
pub struct Terms {
    pub violation: Violation,
    /// `R` of the middle streams of figure 2.6.
    pub within: Span,
    /// `A` of all suppliers, in their periods.
    pub validity_periods: u64,
}

/// `R` of everything else.
const WITHIN: Span = Span::millis(5);

/// Figure 2.6: separate streams of each level.
pub fn streams(terms: &Terms) -> GraphSpec {
    let mut spec = GraphSpec::default();
    for (period, names) in [
        (5, &["high/+/h1", "high/+/h2"][..]),
        (10, &["middle/+/m1", "middle/+/m2", "middle/+/m3", "middle/+/m4"]),
        (20, &["low/+/l1", "low/+/l2"]),
    ] {
        let supplier = |name: &&str| supplier(name, Span::millis(period), terms);
        spec.suppliers.extend(names.iter().map(supplier));
    }
    let spectra = ["FFT1", "FFT2", "FFT3", "FFT4"];
    spec.operators = vec![
        track("EKF1", &["high/+/h1"]),
        track("EKF2", &["high/+/h2"]),
        together(operator("CAT1", "concat", &["EKF1", "EKF2"]), WITHIN, terms),
        seal("AES1", "CAT1"),
        operator("FFT1", "fft", &["middle/+/m1"]),
        operator("FFT2", "fft", &["middle/+/m2"]),
        operator("FFT3", "fft", &["middle/+/m3"]),
        operator("FFT4", "fft", &["middle/+/m4"]),
        together(operator("CAT2", "concat", &spectra), terms.within, terms),
        together(operator("CAT3", "concat", &["low/+/l1", "low/+/l2"]), WITHIN, terms),
        seal("AES2", "CAT3"),
    ];
    spec.consumers = vec![
        consumer("out/high/+", "AES1", 0, 20),
        consumer("out/middle/+", "CAT2", 1, 20),
        consumer("out/low/+", "AES2", 2, 40),
    ];
    spec
}

/// Figure 2.7: outputs of all levels that have FFT2 and FFT4 in common.
pub fn shared(terms: &Terms) -> GraphSpec {
    let mut spec = GraphSpec::default();
    for number in 1..=8 {
        spec.suppliers.push(supplier(&format!("plant/+/s{number}"), Span::millis(10), terms));
    }
    let shedding = |mut spec: OperatorSpec| {
        spec.violation = terms.violation;
        spec
    };
    for number in 1..=4 {
        let inputs = [format!("plant/+/s{}", 2 * number - 1), format!("plant/+/s{}", 2 * number)];
        let inputs = [inputs[0].as_str(), inputs[1].as_str()];
        let ekf = format!("EKF{number}");
        spec.operators.push(together(track(&ekf, &inputs), WITHIN, terms));
        spec.operators.push(shedding(operator(&format!("FFT{number}"), "fft", &[&ekf])));
    }
    for (name, inputs) in [("CAT1", ["FFT1", "FFT2"]), ("CAT2", ["FFT2", "FFT3"]), ("CAT3", ["FFT2", "FFT4"])]
    {
        spec.operators.push(shedding(operator(name, "concat", &inputs)));
    }
    spec.operators.push(shedding(seal("AES1", "FFT4")));
    spec.consumers = vec![
        consumer("out/high/+", "CAT1", 0, 20),
        consumer("out/middle/+", "CAT2", 1, 20),
        consumer("out/low/+", "CAT3", 2, 20),
        consumer("out/sealed/+", "AES1", 2, 20),
    ];
    spec
}

fn supplier(name: &str, period: Span, terms: &Terms) -> SupplierSpec {
    let payload = PayloadType::Array(Element::F32);
    SupplierSpec { name: name.to_owned(), payload, validity: period * terms.validity_periods, period }
}

/// Gives operators a stated cost instead of their work, by their names.
pub fn take_costs(spec: &mut GraphSpec, costs_us: &BTreeMap<String, f64>) {
    for operator in &mut spec.operators {
        if let Some(cost) = costs_us.get(&operator.name) {
            "busy".clone_into(&mut operator.kind);
            operator.parameters = Parameters::from([(busy::COST.to_owned(), Value::Number(*cost))]);
        }
    }
}

/// As the configuration makes it when nothing else is said.
fn operator(name: &str, kind: &str, inputs: &[&str]) -> OperatorSpec {
    OperatorSpec {
        name: name.to_owned(),
        kind: kind.to_owned(),
        parameters: Parameters::default(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: if inputs.len() == 1 { Keep::All(1024) } else { Keep::Latest },
        cost: None,
    }
}

fn track(name: &str, inputs: &[&str]) -> OperatorSpec {
    let mut spec = operator(name, "track", inputs);
    spec.parameters = Parameters::from([
        ("model".to_owned(), Value::Text("constant-velocity".to_owned())),
        ("axes".to_owned(), Value::Number(inputs.len() as f64)),
        ("process".to_owned(), Value::Number(1.0)),
        ("noise".to_owned(), Value::Number(0.5)),
        ("as".to_owned(), Value::Text("f32".to_owned())),
    ]);
    spec
}

fn seal(name: &str, input: &str) -> OperatorSpec {
    let mut spec = operator(name, "aes", &[input]);
    spec.parameters = Parameters::from([
        ("key".to_owned(), Value::Text("000102030405060708090a0b0c0d0e0f".to_owned())),
        ("direction".to_owned(), Value::Text("encrypt".to_owned())),
    ]);
    spec
}

fn together(mut spec: OperatorSpec, within: Span, terms: &Terms) -> OperatorSpec {
    spec.sets = vec![RelativeSet { inputs: spec.inputs.clone(), within }];
    spec.violation = terms.violation;
    spec
}

fn consumer(name: &str, from: &str, level: u8, deadline_ms: i64) -> ConsumerSpec {
    let deadline = Span::millis(deadline_ms);
    ConsumerSpec { name: name.to_owned(), from: from.to_owned(), level: Level(level), deadline }
}
