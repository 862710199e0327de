//! What a module can do, and what it cannot.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::{Span, Time};
use processing::{Answers, Fault, Input, Memory, Operator, PayloadType, Setup, Value};
use support::{
    bytes, clock, compute, encode, limits, module, module_with, packed, refusal, run, sandbox, set_up,
};
use wasm::{Limits, Problem, Sandbox, Wasmi};

/// Adds the first numbers of two inputs.
fn adding() -> Vec<u8> {
    module(&format!(
        "(f64.store (i32.const 0) (f64.add (f64.load (i32.const 1024)) (f64.load (i32.const 3072)))) {}",
        packed(0, 8)
    ))
}

/// What is said of what never ends.
const RUNAWAY: Fault = Fault::Runaway { budget: Span::millis(1) };

/// Never ends.
const FOREVER: &str = "(loop $again (br $again)) (i64.const -1)";

/// Counts its runs in a global variable, and answers with the count; the body before it may stop it.
fn counting(before: &str) -> Vec<u8> {
    module_with(
        "(global $count (mut f64) (f64.const 0))",
        &format!(
            "(global.set $count (f64.add (global.get $count) (f64.const 1))) {before}
             (f64.store (i32.const 0) (global.get $count)) {}",
            packed(0, 8)
        ),
    )
}

/// Says which fault it is, in words.
fn fault(sandbox: &mut Sandbox, inputs: &[&[f64]]) -> String {
    compute(sandbox, inputs).unwrap_err().to_string()
}

#[test]
fn a_module_computes_what_it_is_given() {
    let mut adding = sandbox(&adding());
    assert_eq!(compute(&mut adding, &[&[1.5], &[2.0]]), Ok(Some(vec![3.5])));
    assert_eq!(compute(&mut adding, &[&[-1.0], &[0.25]]), Ok(Some(vec![-0.75])));
    assert!(adding.fuel_used() > 0 && adding.fuel_used() < 100, "{}", adding.fuel_used());
}

#[test]
fn a_module_is_told_slots_lengths_times_and_what_is_present() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "verge_abi_version") (result i32) (i32.const 1))
        (func (export "verge_input") (param i32 i32 i64) (result i32)
            (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (local.get 1))
            (i64.store (i32.const 8) (local.get 2)) (i32.const 100))
        (func (export "verge_run") (param i64) (result i64)
            (i64.store (i32.const 16) (local.get 0)) (i64.const 24)))"#;
    let mut sandbox = set_up(&bytes(text), 63, &[], &limits()).unwrap();
    let mut output = Vec::new();
    let input = Input { slot: 62, payload: b"hello", created: Time(1_234_567_890_123) };
    sandbox.run(&[input], &mut output).unwrap();
    let expected = [&62_i32.to_le_bytes()[..], &5_i32.to_le_bytes(), &1_234_567_890_123_i64.to_le_bytes()];
    assert_eq!(output[..16], expected.concat());
    assert_eq!(output[16..], (1_i64 << 62).to_le_bytes());
}

#[test]
fn nothing_and_failed_are_answers_and_the_module_remembers() {
    let text = format!(
        "(f64.store (i32.const 0) (global.get $count))
         (global.set $count (f64.add (global.get $count) (f64.const 1)))
         (if (f64.eq (global.get $count) (f64.const 1)) (then (return (i64.const -1))))
         (if (f64.eq (global.get $count) (f64.const 2)) (then (return (i64.const -2)))) {}",
        packed(0, 8)
    );
    let mut sandbox = sandbox(&module_with("(global $count (mut f64) (f64.const 0))", &text));
    assert_eq!(compute(&mut sandbox, &[]), Ok(None));
    assert_eq!(fault(&mut sandbox, &[]), "the module says that it failed");
    assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![2.0])));
}

#[test]
fn a_runaway_is_stopped_and_begins_anew() {
    let body = format!("(if (f64.eq (global.get $count) (f64.const 3)) (then {FOREVER} (drop)))");
    let mut sandbox = sandbox(&counting(&body));
    for expected in [1.0, 2.0] {
        assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![expected])));
    }
    assert_eq!(compute(&mut sandbox, &[]), Err(RUNAWAY));
    assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![1.0])), "it remembers what it was stopped in");
}

#[test]
fn a_runaway_in_the_input_function_is_stopped_as_well() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "verge_abi_version") (result i32) (i32.const 1))
        (func (export "verge_input") (param i32 i32 i64) (result i32) (loop $again (br $again)) (i32.const 0))
        (func (export "verge_run") (param i64) (result i64) (i64.const -1)))"#;
    let mut sandbox = sandbox(&bytes(text));
    assert_eq!(compute(&mut sandbox, &[&[1.0]]), Err(RUNAWAY));
    assert_eq!(compute(&mut sandbox, &[]), Ok(None));
}

#[test]
fn work_in_bulk_costs_fuel_by_its_length() {
    let fill = "(memory.fill (i32.const 0) (i32.const 7) (i32.const 65536))";
    let mut once = sandbox(&module(&format!("{fill} (i64.const -1)")));
    assert_eq!(compute(&mut once, &[]), Ok(None));
    assert!(once.fuel_used() > 65_536 / 256, "{}", once.fuel_used());
    let mut forever = sandbox(&module(&format!("(loop $again {fill} (br $again)) (i64.const -1)")));
    assert_eq!(compute(&mut forever, &[]), Err(RUNAWAY));
}

#[test]
fn every_trap_is_said_in_words_and_begins_anew() {
    let cases = [
        ("(unreachable)", "gave up"),
        ("(drop (i32.load (i32.const 65536)))", "outside of its memory"),
        ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", "by zero"),
        ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", "does not fit"),
        ("(drop (i32.trunc_f64_s (f64.const nan)))", "whole number"),
        ("(drop (call $deep (i32.const 0)))", "nested too deep"),
        ("(drop (call_indirect (type $none) (i32.const 0)))", "null"),
        ("(drop (call_indirect (type $none) (i32.const 1)))", "another type"),
        ("(drop (call_indirect (type $none) (i32.const 9)))", "table element"),
    ];
    for (body, words) in cases {
        let more = "(type $none (func (result i32))) (table 2 funcref) (elem (i32.const 1) $deep)
            (func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))";
        let body = format!(
            "(if (i64.ne (local.get 0) (i64.const 0)) (then {body})) (f64.store (i32.const 0) (f64.const 1)) {}",
            packed(0, 8)
        );
        let mut sandbox = sandbox(&module_with(more, &body));
        let said = fault(&mut sandbox, &[&[1.0]]);
        assert!(said.contains(words), "{body}: {said}");
        assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![1.0])), "{said}");
    }
}

#[test]
fn places_outside_of_the_memory_are_refused() {
    let outside = "`verge_run` returned a place outside of the memory";
    for (address, length) in [(65_536, 8), (65_529, 8), (0x7fff_ffff, 8), (0x7fff_ffff, 0), (65_537, 0)] {
        let mut sandbox = sandbox(&module(&packed(address, length)));
        assert_eq!(fault(&mut sandbox, &[]), outside, "{address} {length}");
    }
    let mut last = sandbox(&module(&packed(65_528, 8)));
    assert_eq!(run(&mut last, &[]), Ok(Some(vec![0; 8])));

    let at = |address: i64| {
        bytes(&format!(
            r#"(module (memory (export "memory") 1)
            (func (export "verge_abi_version") (result i32) (i32.const 1))
            (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const {address}))
            (func (export "verge_run") (param i64) (result i64) (i64.const 0)))"#
        ))
    };
    for address in [65_529, 0x7fff_ffff, -1, -8] {
        let said = fault(&mut sandbox(&at(address)), &[&[1.0]]);
        assert_eq!(said, "`verge_input` returned a place outside of the memory", "{address}");
    }
    assert!(fault(&mut sandbox(&at(0)), &[&[1.0]]).contains("no room"));
    assert_eq!(run(&mut sandbox(&at(0)), &[b""]), Ok(Some(vec![])));
}

#[test]
fn results_that_are_too_long_or_of_odd_length_are_refused() {
    assert_eq!(fault(&mut sandbox(&module(&packed(0, 1025))), &[]), "the result is longer than its limit");
    assert_eq!(
        fault(&mut sandbox(&module(&packed(0, 0xffff_ffff))), &[]),
        "the result is longer than its limit"
    );
    assert!(run(&mut sandbox(&module(&packed(0, 1024))), &[]).unwrap().is_some());
    let output = [("output", Value::Text("f64".to_owned()))];
    let mut odd = set_up(&module(&packed(0, 12)), 1, &output, &limits()).unwrap();
    assert!(fault(&mut odd, &[]).contains("no multiple of its `output` type's"));
}

#[test]
fn an_input_that_is_not_configured_is_refused() {
    let mut sandbox = sandbox(&adding());
    let payloads: [&[f64]; 3] = [&[1.0], &[2.0], &[3.0]];
    assert_eq!(fault(&mut sandbox, &payloads), "there is no such input");
}

#[test]
fn memory_grows_to_its_limit_and_no_further() {
    let body = format!(
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
         (f64.store (i32.const 0) (f64.convert_i32_u (memory.size))) {}",
        packed(0, 8)
    );
    assert_eq!(compute(&mut sandbox(&module(&body)), &[]), Ok(Some(vec![4.0])));
}

#[test]
fn parameters_are_handed_to_the_module_and_again_when_it_begins_anew() {
    let module = module_with(
        r#"(global $gain (mut f64) (f64.const 0)) (global $on (mut f64) (f64.const 0))
           (func (export "verge_set_gain") (param f64) (global.set $gain (local.get 0)))
           (func (export "verge_set_on") (param f64) (global.set $on (local.get 0)))
           (func (export "verge_set_odd") (param i32))"#,
        &format!(
            "(if (i64.ne (local.get 0) (i64.const 0)) (then (unreachable)))
             (f64.store (i32.const 0) (global.get $gain)) (f64.store (i32.const 8) (global.get $on)) {}",
            packed(0, 16)
        ),
    );
    let given = [("gain", Value::Span(Span::micros(3))), ("on", Value::Switch(true))];
    let mut sandbox = set_up(&module, 1, &given, &limits()).unwrap();
    assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![3000.0, 1.0])));
    assert!(compute(&mut sandbox, &[&[1.0]]).is_err());
    assert_eq!(compute(&mut sandbox, &[]), Ok(Some(vec![3000.0, 1.0])));

    let refused = |name, value| set_up(&module, 1, &[(name, value)], &limits()).err().unwrap().to_string();
    let unknown = refused("gian", Value::Number(1.0));
    assert!(unknown.contains("no parameter `gian`") && unknown.contains("it has gain, odd, on"), "{unknown}");
    assert!(refused("gain", Value::Numbers(vec![1.0])).contains("numbers, switches (0 or 1) and times"));
    assert!(
        refused("odd", Value::Number(1.0)).contains("exports `verge_set_odd` as (i32), and it must be (f64)")
    );
    assert!(refused("output", Value::Text("f16".to_owned())).contains("`f16` is no payload type"));
    assert!(refused("answers", Value::Number(1.0)).contains("\"always\" or \"sometimes\""));
}

#[test]
fn an_operator_is_set_up_with_its_types() {
    let given = [("output", "f64"), ("answers", "always"), ("module", "a.wasm")];
    let parameters = given.map(|(name, value)| (name.to_owned(), Value::Text(value.to_owned()))).into();
    let setup = Setup { inputs: &[PayloadType::Bytes], parameters: &parameters };
    let mut built =
        wasm::operator(&module("(i64.const -1)"), "a.wasm", &setup, &limits(), &clock(Span::micros(50)).0)
            .unwrap();
    assert_eq!(built.output.to_string(), "f64");
    assert_eq!(built.answers, Answers::Always);
    let fault = built.operator.run(&[], &mut Vec::new()).unwrap_err();
    assert!(fault.to_string().contains("`answers` says always"), "{fault}");
}

/// Counts its runs, and can say and be told how many there were.
fn remembering(save: &str, restore: &str) -> Vec<u8> {
    module_with(
        &format!(
            "(global $count (mut f64) (f64.const 0))
             (func (export \"verge_save\") (result i64) {save})
             (func (export \"verge_restore\") (param i32) (result i32) {restore})"
        ),
        &format!(
            "(global.set $count (f64.add (global.get $count) (f64.const 1)))
             (f64.store (i32.const 0) (global.get $count)) {}",
            packed(0, 8)
        ),
    )
}

const SAVE: &str = "(f64.store (i32.const 8) (global.get $count)) (i64.const 34359738376)";
const RESTORE: &str = "(global.set $count (f64.load (i32.const 1024))) (i32.ne (local.get 0) (i32.const 8))";

#[test]
fn what_a_module_remembers_goes_on_in_another_instance() {
    let module = remembering(SAVE, RESTORE);
    let (mut first, mut second) = (sandbox(&module), sandbox(&module));
    assert_eq!(first.memory(), Memory::Saved);
    for count in 1..=3 {
        assert_eq!(compute(&mut first, &[&[]]), Ok(Some(vec![f64::from(count)])));
    }
    let mut memory = Vec::new();
    first.save(&mut memory).unwrap();
    assert_eq!(memory, encode(&[3.0]));
    second.restore(&memory).unwrap();
    assert_eq!(compute(&mut second, &[&[]]), compute(&mut first, &[&[]]));
    assert!(second.restore(&memory[1..]).unwrap_err().to_string().contains("`verge_restore` did not take"));
}

#[test]
fn what_a_module_says_of_its_memory_is_not_believed() {
    let said =
        |save: &str| sandbox(&remembering(save, RESTORE)).save(&mut Vec::new()).unwrap_err().to_string();
    assert!(said("(i64.const -1)").contains("returned no place"));
    assert!(said(&packed(65_535, 8)).contains("outside of the memory"));
    assert!(said(&packed(0, 2_000_000)).contains("more than its limit"));
    assert!(said("(unreachable)").contains("gave up"));
    assert_eq!(said(FOREVER), RUNAWAY.to_string());
    let half = module_with("(func (export \"verge_save\") (result i64) (i64.const 0))", "(i64.const -1)");
    assert!(refusal(&half).contains("verge_restore"));
}

#[test]
fn a_module_without_the_means_forgets_unless_it_has_nothing_to_remember() {
    assert_eq!(sandbox(&adding()).memory(), Memory::Lost);
    let says = |value: &str| set_up(&adding(), 2, &[("remembers", Value::Text(value.to_owned()))], &limits());
    assert_eq!(says("nothing").unwrap().memory(), Memory::Nothing);
    assert_eq!(says("something").unwrap().memory(), Memory::Lost);
    assert!(says("everything").err().unwrap().to_string().contains("\"nothing\" or \"something\""));
}

#[test]
fn a_refusal_names_the_module_the_place_and_the_remedy() {
    let text = r#"(module (import "env" "sleep\1b" (func)) (import "a" "b" (func)))"#;
    let said = refusal(&bytes(text));
    assert!(said.starts_with("the module `test.wasm` imports `env.sleep\\u{1b}` and 1 more"), "{said}");
    assert!(said.contains("define that function in the module"), "{said}");
    let said = refusal(&bytes(r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#));
    assert!(said.contains("fd_write") && said.contains("wasm32-unknown-unknown"), "{said}");
    let said = refusal(&bytes(r#"(module (import "js" "mem" (memory 1)))"#));
    assert!(said.contains("`js.mem`"), "{said}");

    assert!(refusal(&bytes("(module)")).contains("does not export `memory`, which must be a memory"));
    let said = refusal(&bytes(r#"(module (memory (export "memory") 1))"#));
    assert!(said.contains("does not export `verge_abi_version`, which must be () -> i32"), "{said}");
    let said = refusal(&bytes(
        r#"(module (memory (export "memory") 1) (global (export "verge_abi_version") i32 (i32.const 1)))"#,
    ));
    assert!(
        said.contains("exports `verge_abi_version` as a global variable, and it must be () -> i32"),
        "{said}"
    );
    let said =
        refusal(&bytes(r#"(module (func (export "memory") (param i32 f32) (result f64 i64) unreachable))"#));
    assert!(said.contains("exports `memory` as (i32, f32) -> (f64, i64), and it must be a memory"), "{said}");
    let said = refusal(&bytes(r#"(module (memory (export "memory") 5))"#));
    assert!(said.contains("begins with a memory of 327680 bytes, and at most 262144 are allowed"), "{said}");
}

#[test]
fn what_is_no_module_is_said_to_be_none() {
    for (bytes, words) in [
        (&b""[..], "is empty"),
        (b"(module)", "is WebAssembly in its text form"),
        (b"\x7fELF\x02", "is a program or library of this host"),
        (b"\0asm\x0d\0\x01\0", "is a component"),
        (b"fn main() {}", "is no WebAssembly"),
        (b"\0asm\x02\0\0\0", "is no valid WebAssembly"),
        (b"\0asm\x01\0\0\0\x01", "offset"),
    ] {
        let said = refusal(bytes);
        assert!(said.contains(words), "{said}");
    }
    let said = refusal(&vec![0; wasm::MODULE_BYTES_MAX + 1]);
    assert!(said.contains("has 2097153 bytes, and at most 2097152 are allowed"), "{said}");
}

#[test]
fn a_module_that_cannot_start_is_refused() {
    let said = refusal(&module_with("(func $s (loop $again (br $again))) (start $s)", "(i64.const -1)"));
    assert!(said.contains("could not be started: in its start, it did not end in time"), "{said}");
    let said = refusal(&module_with(r#"(data (i32.const 65535) "ab")"#, "(i64.const -1)"));
    assert!(said.contains("in its start, it read or wrote outside of its memory"), "{said}");
    let said = refusal(&module_with("(table 101 funcref)", "(i64.const -1)"));
    assert!(said.contains("its memory or tables are above their limits"), "{said}");
    let version = |version: &str| {
        bytes(&format!(
            r#"(module (memory (export "memory") 1)
            (func (export "verge_abi_version") (result i32) {version})
            (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 100))
            (func (export "verge_run") (param i64) (result i64) (i64.const 0)))"#
        ))
    };
    assert!(refusal(&version("(i32.const 2)")).contains("made for version 2 of the interface"));
    assert!(refusal(&version("(unreachable)")).contains("in verge_abi_version, it gave up"));
}

#[test]
fn features_that_are_left_out_are_refused() {
    for text in [
        "(module (memory 1) (memory 1))",
        "(module (memory i64 1))",
        "(module (memory 1 2 shared))",
        "(module (func (drop (v128.const i64x2 0 0))))",
    ] {
        let said = refusal(&bytes(text));
        assert!(said.contains("is no valid WebAssembly") && said.contains("neither SIMD"), "{text}: {said}");
    }
}

#[test]
fn there_are_at_most_as_many_inputs_as_bits() {
    let refused = set_up(&adding(), 64, &[], &limits()).err().unwrap();
    assert_eq!(refused.problem, Problem::Inputs(64));
    assert!(set_up(&adding(), 63, &[], &limits()).is_ok());
}

#[test]
fn limits_of_any_value_are_taken() {
    for value in [0, 1, usize::MAX] {
        let limits = Limits {
            budget: Span(i64::MAX),
            fuel_per_micro: value as u64,
            memory_bytes_max: value,
            result_bytes_max: value,
            table_elements_max: value,
            recursion_max: value,
            stack_bytes_max: value,
            ..Limits::default()
        };
        if let Ok(mut sandbox) = set_up(&adding(), 2, &[], &limits) {
            let _ = run(&mut sandbox, &[&encode(&[1.0]), &encode(&[2.0])]);
        }
    }
}

#[test]
fn the_same_inputs_burn_the_same_fuel() {
    let fuel = || {
        let mut sandbox = sandbox(&adding());
        compute(&mut sandbox, &[&[1.0], &[2.0]]).unwrap();
        sandbox.fuel_used()
    };
    assert_eq!(fuel(), fuel());
}

#[test]
fn a_sandbox_may_move_to_another_thread() {
    fn movable<T: Send + 'static>() {}
    movable::<Sandbox<Wasmi>>();
}
