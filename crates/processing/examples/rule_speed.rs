//! How long a rule takes once a message is read, and what reading takes, beside the library for CEL:
//! `cargo run --release -p verge-processing --example rule_speed`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it reads a clock")]
#![allow(clippy::expect_used, reason = "a measurement ends where its preparation fails")]

use cel::{Context, Program};
use contract::{Span, Time};
use processing::PayloadType;
use processing::rules::{RuleSet, RuleSpec};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 21;
const RUNS: u32 = 100_000;
const DOCUMENT: &str = r#"{"RESULT": 9.5, "level": 72.5, "pump": {"on": true, "rpm": 1450}, "mode": "auto", "axes": [0.5, 0.25]}"#;

fn main() {
    println!("{:<74} {:>6} {:>8} {:>8}", "condition, of which none holds", "ns", "reading", "library");
    for condition in [
        "RESULT >= 10.0",
        "RESULT >= 10.0 || level > 90.0",
        "level > 50.0 && pump.on && pump.rpm < 1000.0",
        "level > 50.0 && (mode == \"manual\" || axes[1] * 4.0 > 2.0) && !pump.on",
        "mode in [\"test\", \"manual\", \"off\"] || mode.startsWith(\"b\")",
    ] {
        measure(condition);
    }
}

fn measure(condition: &str) {
    let spec =
        RuleSpec { name: String::new(), condition: condition.to_owned(), priority: 0, every: Span::ZERO };
    let mut rules = RuleSet::read(&[spec]).expect("a condition");
    let mut tuple = rules.tuple();
    let json = PayloadType::Json(String::new());
    let reading = median(|| tuple.read(&json, black_box(DOCUMENT.as_bytes())).expect("a document"));
    let own = median(|| _ = black_box(rules.judge(Time(1), black_box(&tuple))));
    let program = Program::compile(condition).expect("a condition");
    let mut context = Context::default();
    let document: serde_json::Value = serde_json::from_str(DOCUMENT).expect("a document");
    for (key, value) in document.as_object().expect("a document") {
        context.add_variable_from_value(key.as_str(), cel::to_value(value).expect("a value"));
    }
    let library = median(|| _ = black_box(program.execute(black_box(&context))));
    println!("{condition:<74} {own:>6.1} {reading:>8.1} {library:>8.1}");
}

/// The median of how long one run takes, in nanoseconds.
fn median(mut run: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            (0..RUNS).for_each(|_| run());
            began.elapsed().as_nanos() as f64 / f64::from(RUNS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
