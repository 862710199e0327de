//! Modules for tests, written in the text form, and a short way to run them.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::{Span, Time};
use processing::{Answer, Element, Fault, Input, Operator, Parameters, PayloadType, Setup, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasm::{Clock, Limits, Sandbox, WasmError};

/// The type of all inputs here.
const F64: PayloadType = PayloadType::Array(Element::F64);

/// A module whose `verge_run` is this, with one memory of 64 KiB; inputs go to 1024, and 2048 apart.
pub fn module(run: &str) -> Vec<u8> {
    module_with("", run)
}

/// The same with more fields.
pub fn module_with(more: &str, run: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (memory (export "memory") 1)
            (func (export "verge_abi_version") (result i32) (i32.const 1))
            (func (export "verge_input") (param i32 i32 i64) (result i32)
                (i32.add (i32.const 1024) (i32.mul (local.get 0) (i32.const 2048))))
            {more}
            (func (export "verge_run") (param $present i64) (result i64) {run}))"#
    );
    bytes(&text)
}

/// A module from its text.
pub fn bytes(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// A result of so many bytes at this address.
pub fn packed(address: u64, length: u64) -> String {
    format!("(i64.const {})", (address << 32) | length)
}

/// Small limits, so that tests are quick.
pub fn limits() -> Limits {
    Limits {
        budget: Span::millis(1),
        start_budget: Span::millis(2),
        memory_bytes_max: 4 << 16,
        result_bytes_max: 1024,
        table_elements_max: 100,
        ..Limits::default()
    }
}

/// Invented clocks: each look at the wall's finds it so much further, as if what went before had taken as long, and all of it
/// was work. And how often it was looked at.
pub fn clock(step: Span) -> (Clock, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let (counter, seen) = (Arc::clone(&asked), Arc::clone(&asked));
    let wall = Arc::new(move || Time((counter.fetch_add(1, Relaxed) + 1) * step.as_nanos_u64()));
    let worked = Arc::new(move || Time(seen.load(Relaxed) * step.as_nanos_u64()));
    (Clock { wall, worked }, asked)
}

/// Sets a module up with so many inputs.
pub fn set_up(
    module: &[u8],
    inputs: usize,
    parameters: &[(&str, Value)],
    limits: &Limits,
) -> Result<Sandbox, WasmError> {
    set_up_with(module, inputs, parameters, limits, &clock(Span::micros(50)).0)
}

/// The same, with a clock.
pub fn set_up_with(
    module: &[u8],
    inputs: usize,
    parameters: &[(&str, Value)],
    limits: &Limits,
    clock: &Clock,
) -> Result<Sandbox, WasmError> {
    let inputs = vec![F64; inputs];
    let named = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let parameters: Parameters = named.collect();
    Sandbox::new(module, "test.wasm", &Setup { inputs: &inputs, parameters: &parameters }, limits, clock)
}

/// The same, which must go well.
pub fn sandbox(module: &[u8]) -> Sandbox {
    set_up(module, 2, &[], &limits()).unwrap()
}

/// The same, which must be refused; returns what is said.
pub fn refusal(module: &[u8]) -> String {
    set_up(module, 2, &[], &limits()).err().expect("the module must be refused").to_string()
}

/// One run with these payloads as inputs 0, 1 ...; what it put out.
pub fn run(sandbox: &mut Sandbox, payloads: &[&[u8]]) -> Result<Option<Vec<u8>>, Fault> {
    let inputs: Vec<Input<'_>> = payloads
        .iter()
        .enumerate()
        .map(|(slot, payload)| Input { slot, payload, created: Time(7_000 + slot as u64) })
        .collect();
    let mut output = Vec::new();
    let answer = sandbox.run(&inputs, &mut output);
    assert!(matches!(answer, Ok(Answer::Result)) || output.is_empty(), "an output without a result");
    answer.map(|answer| (answer == Answer::Result).then_some(output))
}

/// One run with numbers, whose result is numbers.
pub fn compute(sandbox: &mut Sandbox, inputs: &[&[f64]]) -> Result<Option<Vec<f64>>, Fault> {
    let payloads: Vec<Vec<u8>> = inputs.iter().map(|numbers| encode(numbers)).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let number = |eight: &[u8]| f64::from_le_bytes(eight.try_into().unwrap());
    Ok(run(sandbox, &payloads)?.map(|output| output.chunks(8).map(number).collect()))
}

/// Numbers as a payload.
pub fn encode(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
