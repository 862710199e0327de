//! Whatever bytes are given as a module, and whatever it does then: an error or a fault, never a panic.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::Span;
use proptest::prelude::*;
use support::{encode, limits, module_with, packed, run, set_up};
use wasm::Limits;

/// How many damaged modules are tried: fewer where each is compiled.
const MUTANTS: usize = if cfg!(feature = "wasmtime") { 1_000 } else { 20_000 };

/// A module with a bit of everything: a table, data, a start function, loops, calls, growth.
fn busy() -> Vec<u8> {
    let more = r#"
        (type $step (func (param f64) (result f64)))
        (table 4 funcref) (elem (i32.const 0) $double $halve)
        (data (i32.const 16) "some data") (data $passive "passive")
        (global $sum (mut f64) (f64.const 0))
        (func $double (type $step) (f64.mul (local.get 0) (f64.const 2)))
        (func $halve (type $step) (f64.div (local.get 0) (f64.const 2)))
        (func $start (memory.init $passive (i32.const 64) (i32.const 0) (i32.const 7)))
        (start $start)
        (func (export "verge_set_sum") (param f64) (global.set $sum (local.get 0)))"#;
    let body = format!(
        "(local $i i32)
         (loop $again
            (global.set $sum (f64.add (global.get $sum)
                (call_indirect (type $step) (f64.load (i32.const 1024)) (i32.and (local.get $i) (i32.const 1)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_s (local.get $i) (i32.const 10))))
         (drop (memory.grow (i32.const 1)))
         (memory.copy (i32.const 200) (i32.const 16) (i32.const 9))
         (f64.store (i32.const 0) (global.get $sum)) {}",
        packed(0, 8)
    );
    module_with(more, &body)
}

/// Sets it up and runs it a few times; returns whether it was taken.
fn exercise(module: &[u8]) -> bool {
    let limits = Limits { start_budget: Span::micros(200), ..limits() };
    let Ok(mut sandbox) = set_up(module, 2, &[], &limits) else { return false };
    let payload = encode(&[1.0, 2.0]);
    for payloads in [&[&payload[..]][..], &[&payload, b"odd"], &[]] {
        let _ = run(&mut sandbox, payloads);
    }
    true
}

fn damage(module: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(8..module.len());
        match random.u8(0..5) {
            0 => module[at] ^= 1 << random.u8(0..8),
            1 => module[at] = random.u8(..),
            2 => module.insert(at, random.u8(..)),
            3 if module.len() > 16 => drop(module.remove(at)),
            _ => module[at] = [0x00, 0x7f, 0x80, 0xff, 0x0b, 0x40][random.usize(0..6)],
        }
    }
}

#[test]
fn damaged_modules_never_panic() {
    let whole = busy();
    assert!(exercise(&whole));
    let mut random = fastrand::Rng::with_seed(7);
    let mut taken = 0;
    for _ in 0..MUTANTS {
        let mut module = whole.clone();
        damage(&mut module, &mut random);
        taken += usize::from(exercise(&module));
    }
    assert!(taken > MUTANTS / 100, "only {taken} of {MUTANTS} were taken, so little of what runs was tried");
}

#[test]
fn operators_behind_the_end_of_a_function_are_refused() {
    // Types, functions, code; the body is `end i32.const 0`.
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x07\x01\x05\0\x0b\x41\0\x0b";
    assert!(support::refusal(module).contains("is no valid WebAssembly"));
}

#[test]
fn a_module_that_breaks_off_never_panics() {
    let whole = busy();
    for length in 0..whole.len() {
        exercise(&whole[..length]);
    }
    assert!(!exercise(&whole[..whole.len() / 2]));
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
        exercise(&[b"\0asm\x01\0\0\0", &bytes[..]].concat());
    }

    #[test]
    fn whatever_is_returned_is_checked(place in any::<i32>(), result in any::<i64>(), length in 0_usize..70_000) {
        let text = format!(
            r#"(module (memory (export "memory") 1)
                (func (export "verge_abi_version") (result i32) (i32.const 1))
                (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const {place}))
                (func (export "verge_run") (param i64) (result i64) (i64.const {result})))"#
        );
        let mut sandbox = set_up(&support::bytes(&text), 1, &[], &limits()).unwrap();
        let _ = run(&mut sandbox, &[&vec![7; length]]);
    }
}
