//! Code that does not end, of every kind that is slow or cannot be interrupted: it is stopped by time, whatever fuel it burns.
//! The clock is invented.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::Span;
use processing::Fault;
use std::sync::atomic::Ordering::Relaxed;
use support::{clock, compute, limits, module_with, packed, set_up_with};
use wasm::{Limits, MEMORY_BYTES_MAX, Sandbox};

const RUNAWAY: Fault = Fault::Runaway { budget: Span::millis(1) };

/// What the loops below use.
const MORE: &str = r#"
    (type $none (func)) (table 8 100 funcref) (elem (i32.const 0) $nothing) (func $nothing)
    (global $count (mut i64) (i64.const 0)) (data $passive "0123456789")"#;

/// Bodies of loops: none of them ends.
const SLOW: &[(&str, &str)] = &[
    ("br", "(br $again)"),
    ("br_if", "(br_if $again (i32.const 1))"),
    ("br_table", "(br_table $again $again $again (i32.const 2))"),
    ("call", "(call $nothing) (br $again)"),
    ("call_indirect", "(call_indirect (type $none) (i32.const 0)) (br $again)"),
    ("return_call", "(return_call $endless (local.get 0))"),
    ("memory.size", "(drop (memory.size)) (br $again)"),
    ("memory.grow by nothing", "(drop (memory.grow (i32.const 0))) (br $again)"),
    ("memory.grow beyond its limit", "(drop (memory.grow (i32.const 9999))) (br $again)"),
    ("table.grow by nothing", "(drop (table.grow (ref.null func) (i32.const 0))) (br $again)"),
    ("memory.fill of nothing", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 0)) (br $again)"),
    ("memory.fill", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 65536)) (br $again)"),
    ("memory.copy", "(memory.copy (i32.const 0) (i32.const 1) (i32.const 65535)) (br $again)"),
    ("memory.init", "(memory.init $passive (i32.const 0) (i32.const 0) (i32.const 10)) (br $again)"),
    ("table.fill", "(table.fill (i32.const 0) (ref.null func) (i32.const 8)) (br $again)"),
    ("table.copy", "(table.copy (i32.const 0) (i32.const 1) (i32.const 7)) (br $again)"),
    ("f64.div", "(f64.store (i32.const 0) (f64.div (f64.load (i32.const 0)) (f64.const 1.1))) (br $again)"),
    ("f64.sqrt", "(f64.store (i32.const 0) (f64.sqrt (f64.load (i32.const 0)))) (br $again)"),
    ("i64.div_s", "(global.set $count (i64.div_s (global.get $count) (i64.const 7))) (br $again)"),
    ("i64.add", "(global.set $count (i64.add (global.get $count) (i64.const 1))) (br $again)"),
];

/// Loops for ever if it is given an input, and has a result if not.
fn endless(body: &str) -> Vec<u8> {
    let more = format!("{MORE} (func $endless (param i64) (result i64) (loop $again {body}) (i64.const -1))");
    let run = format!(
        "(if (i64.ne (local.get 0) (i64.const 0)) (then (return (call $endless (local.get 0)))))
         (f64.store (i32.const 0) (f64.const 7)) {}",
        packed(0, 8)
    );
    module_with(&more, &run)
}

#[test]
fn every_loop_is_stopped_by_time_whatever_fuel_it_burns() {
    for (name, body) in SLOW {
        // As if a slice took a fifth of the budget, which none does.
        let (clock, asked) = clock(Span::micros(200));
        let mut sandbox: Sandbox = set_up_with(&endless(body), 1, &[], &limits(), &clock).unwrap();
        assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![7.0])), "{name}");
        assert_eq!(asked.load(Relaxed), 0, "{name}: a short run asks no clock");
        assert_eq!(compute(&mut sandbox, &[&[1.0]]), Err(RUNAWAY), "{name}");
        // A tenth goes to the first slice, and then a fifth to each; what comes in bulk may not fit into the last.
        assert!((4..=6).contains(&asked.load(Relaxed)), "{name}: {asked:?}");
        assert!(sandbox.fuel_used() > 0, "{name}");
        assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![7.0])), "{name}: it begins anew");
    }
}

#[test]
fn a_run_goes_on_for_as_long_as_there_is_time() {
    // A million rounds, which burn far more than a slice; the clock says that they take nothing.
    let body = "(local.set $i (i64.add (local.get $i) (i64.const 1))) (br_if $again (i64.lt_u (local.get $i) (i64.const 1000000)))";
    let run = format!(
        "(local $i i64) (loop $again {body}) (f64.store (i32.const 0) (f64.convert_i64_u (local.get $i))) {}",
        packed(0, 8)
    );
    let (clock, asked) = clock(Span::nanos(1));
    let mut sandbox = set_up_with(&module_with("", &run), 1, &[], &limits(), &clock).unwrap();
    assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![1e6])));
    assert!(sandbox.fuel_used() > 1_000_000 && asked.load(Relaxed) > 10);
}

/// A module with a memory of so many pages, and a body that answers with the number at 0.
fn large(pages: usize, body: &str) -> Vec<u8> {
    support::bytes(&format!(
        r#"(module (memory (export "memory") {pages})
            (func (export "verge_abi_version") (result i32) (i32.const 1))
            (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 0))
            (func (export "verge_run") (param i64) (result i64) {body} {}))"#,
        packed(0, 8)
    ))
}

/// Runs it once, in so much time. Returns whether it came to its end.
fn ends(module: &[u8], budget: Span) -> bool {
    let limits = Limits { budget, memory_bytes_max: MEMORY_BYTES_MAX, ..Limits::default() };
    let mut sandbox: Sandbox = set_up_with(module, 1, &[], &limits, &clock(Span::nanos(1)).0).unwrap();
    match compute(&mut sandbox, &[]) {
        Ok(_) => true,
        Err(fault) => {
            assert_eq!(fault, Fault::Runaway { budget });
            false
        }
    }
}

#[test]
fn work_in_bulk_that_might_not_end_in_time_is_not_begun() {
    // One instruction for all 16 MiB, which takes milliseconds.
    let all = MEMORY_BYTES_MAX;
    let half = all / 2;
    for (name, body) in [
        ("fill", format!("(memory.fill (i32.const 0) (i32.const 7) (i32.const {all}))")),
        ("copy", format!("(memory.copy (i32.const 0) (i32.const {half}) (i32.const {half}))")),
    ] {
        let module = large(256, &body);
        assert!(!ends(&module, Span::millis(1)), "{name}");
        assert!(ends(&module, Span::millis(100)), "{name}");
    }
    // Parts of it do end: 256 KiB take microseconds.
    assert!(ends(
        &large(256, "(memory.fill (i32.const 0) (i32.const 7) (i32.const 262144))"),
        Span::millis(1)
    ));
}

#[test]
fn growth_that_might_not_end_in_time_is_not_begun() {
    // A page more, for which the interpreter copies all that is there; compiled code has the addresses already.
    let grow = "(drop (memory.grow (i32.const 1)))";
    if cfg!(not(feature = "wasmtime")) {
        assert!(!ends(&large(200, grow), Span::millis(1)));
    }
    assert!(ends(&large(200, grow), Span::millis(100)));
    assert!(ends(&large(1, grow), Span::millis(1)));
    // Beyond its limit it is no question of time, and -1 is the answer.
    let refused = "(drop (i32.div_s (i32.const 1) (i32.sub (memory.grow (i32.const 300)) (i32.const 1))))";
    assert!(ends(&large(200, refused), Span::millis(1)));
}

#[test]
fn a_long_stretch_without_a_branch_is_not_begun_where_it_might_not_end() {
    // An engine counts the fuel of a stretch at its beginning, and can stop nowhere within it.
    let stretch =
        |count: usize| large(1, &format!("local.get 0 {} drop", "local.get 0 i64.add ".repeat(count)));
    assert!(ends(&stretch(100), Span::millis(1)));
    if cfg!(not(feature = "wasmtime")) {
        assert!(!ends(&stretch(200_000), Span::millis(1)));
    }
    assert!(ends(&stretch(200_000), Span::millis(1_000)));
}
