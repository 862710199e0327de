//! `verge operator`: modules that work, modules that do not, and tables that cannot be read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::Value;
use support::{Folder, Ran};

/// No: a run had a fault.
const NO: i32 = 1;
/// The exit code for trouble.
const TROUBLE: i32 = 2;

/// Divides input 0 by input 1 as soon as both are known, times `gain`; traps at 99, never ends at 98, fails at 97.
const RATIO: &str = r#"(module
    (memory (export "memory") 1)
    (global $known (mut i64) (i64.const 0))
    (global $gain (mut f64) (f64.const 1))
    (func (export "verge_abi_version") (result i32) (i32.const 1))
    (func (export "verge_set_gain") (param f64) (global.set $gain (local.get 0)))
    (func (export "verge_input") (param i32 i32 i64) (result i32)
        (i32.add (i32.const 1024) (i32.shl (local.get 0) (i32.const 12))))
    (func (export "verge_run") (param $present i64) (result i64)
        (global.set $known (i64.or (global.get $known) (local.get $present)))
        (if (f64.eq (f64.load (i32.const 1024)) (f64.const 99)) (then (unreachable)))
        (if (f64.eq (f64.load (i32.const 1024)) (f64.const 98)) (then (loop $again (br $again))))
        (if (f64.eq (f64.load (i32.const 1024)) (f64.const 97)) (then (return (i64.const -2))))
        (if (i64.ne (global.get $known) (i64.const 3)) (then (return (i64.const -1))))
        (f64.store (i32.const 16) (f64.mul (global.get $gain)
            (f64.div (f64.load (i32.const 1024)) (f64.load (i32.const 5120)))))
        (i64.const 0x1000000008)))"#;

/// Runs a module in its text form over a table.
fn test(module: &str, table: &str, more: &[&str]) -> Ran {
    test_bytes(&wat::parse_str(module).unwrap(), table, more)
}

fn test_bytes(module: &[u8], table: &str, more: &[&str]) -> Ran {
    let folder = Folder::new();
    folder.write("my.wasm", module);
    folder.write("sample.csv", table);
    let arguments = ["operator", "test", "my.wasm", "--input", "sample.csv"];
    folder.run(arguments.iter().chain(more))
}

#[test]
fn a_module_runs_once_for_each_line_of_a_table() {
    let ran = test(RATIO, "power,speed\n6,\n6,4\n,3\n", &["--parameter", "gain=10"]);
    ran.must(
        0,
        &[
            "3 runs: 2 results (f64), 1 times nothing, 0 faults",
            "time: median",
            "budget 1000.0 us; fuel: worst",
        ],
    );
    let lines: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["line", "fuel", "us", "result"]);
    let results: Vec<_> = lines[2..5].iter().map(|line| (line[0], line[3])).collect();
    assert_eq!(results, [("2", "-"), ("3", "15"), ("4", "20")]);
}

#[test]
fn faults_are_said_in_words_and_the_module_goes_on() {
    let ran = test(RATIO, "a,b\n1,2\n99,2\n3,2\n98,2\n97,2\n5,2\n", &[]);
    ran.must(
        NO,
        &[
            "FAULT: the module gave up",
            "FAULT: it did not end within its budget",
            "FAULT: the module says that it failed",
            "6 runs: 3 results (f64), 0 times nothing, 3 faults",
        ],
    );
    let ran = test(RATIO, "a,b\n1,2\n98,2\n", &["--budget", "10us", "--fuel", "100"]);
    ran.must(NO, &["it did not end within its budget of 10us", "budget 10.0 us;"]);
}

#[test]
fn programs_get_the_same_as_json() {
    let ran = test(RATIO, "a,b\n9,2\n99,1\n", &["--format", "json"]);
    ran.must(NO, &[]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["runs"][0]["result"], "4.5");
    assert_eq!(report["runs"][0]["fault"], Value::Null);
    assert_eq!(report["runs"][1]["line"], 3);
    assert!(report["runs"][1]["fault"].as_str().unwrap().contains("gave up"), "{report}");
    assert_eq!((&report["results"], &report["faults"]), (&1.into(), &1.into()));
    assert!(report["runs"][0]["fuel"].as_u64().unwrap() > 10, "{report}");
}

#[test]
fn arrays_and_other_types_are_understood() {
    let echo = r#"(module (memory (export "memory") 1) (global $length (mut i64) (i64.const 0))
        (func (export "verge_abi_version") (result i32) (i32.const 1))
        (func (export "verge_input") (param i32 i32 i64) (result i32)
            (global.set $length (i64.extend_i32_u (local.get 1))) (i32.const 4096))
        (func (export "verge_run") (param i64) (result i64)
            (i64.or (i64.const 0x100000000000) (global.get $length))))"#;
    test(echo, "a\n1;2.5;-3\n", &[]).must(0, &["1;2.5;-3"]);
    test(echo, "a\n1;-2\n", &["--type", "i16"]).must(0, &["1;-2", "(i16)"]);
    test(echo, "a\n1;-2\n", &["--type", "i16", "--output", "bytes"]).must(0, &["01 00 fe ff"]);
    test(echo, "a\nhello\n", &["--type", "bytes"]).must(0, &["hello"]);
    test(echo, "a\n\"{\"\"x\"\":1}\"\n", &["--type", "json:x"]).must(0, &["{\"x\":1}"]);
    test(echo, "a\n1;2;3\n", &["--type", "i16", "--output", "i32"])
        .must(NO, &["no multiple of its `output`"]);
}

#[test]
fn modules_that_cannot_be_used_are_refused_with_a_remedy() {
    let table = "a\n1\n";
    let refused = |module: &str, says: &[&str]| test(module, table, &[]).must(TROUBLE, says);
    refused(
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#,
        &["the module `my.wasm` imports `wasi_snapshot_preview1.fd_write`", "wasm32-unknown-unknown"],
    );
    refused("(module)", &["does not export `memory`", "docs/webassembly.md"]);
    refused(r#"(module (memory (export "memory") 1000))"#, &["begins with a memory of 65536000 bytes"]);
    test_bytes(b"(module)", table, &[]).must(TROUBLE, &["WebAssembly in its text form", "wat2wasm"]);
    test_bytes(b"\0asm\x01\0\0\0\x07", table, &[]).must(TROUBLE, &["is no valid WebAssembly", "offset"]);
    test_bytes(&vec![0; 3 << 20], table, &[]).must(TROUBLE, &["at most 2097152 are allowed"]);
    test(RATIO, table, &["-P", "gian=1"]).must(TROUBLE, &["no parameter `gian`", "it has gain"]);
    test(RATIO, table, &["-P", "gain"]).must(TROUBLE, &["NAME=VALUE"]);
    let folder = Folder::new();
    folder.write("a.csv", table);
    let ran = folder.run(["operator", "test", "absent.wasm", "--input", "a.csv"]);
    ran.must(TROUBLE, &["cannot read the module absent.wasm", "check the path"]);
}

#[test]
fn tables_that_cannot_be_read_are_shown_at_their_place() {
    let refused = |table: &str, more: &[&str], says: &[&str]| test(RATIO, table, more).must(TROUBLE, says);
    refused("a,b\n1,2\n1,two\n", &[], &["sample.csv, line 3, column `b`: \"two\" is no f64"]);
    refused("a\n1.5\n", &["--type", "i16"], &["line 2, column `a`: \"1.5\" is no i16"]);
    refused("a,b\n1\n", &[], &["sample.csv", "line: 2"]);
    refused("1,2\n3,4\n", &[], &["sample.csv, line 1: expected the names of the inputs"]);
    refused("a,b\n", &[], &["has no line below the names"]);
    refused("a,b\n1,2\n", &["--type", "f64,f64,f64"], &["has 2 columns, and there are 3 types"]);
    refused("a,b\n1,2\n", &["--type", "f16"], &["`f16` is no payload type"]);
}

#[test]
fn the_kinds_are_listed() {
    let folder = Folder::new();
    folder.run(["operator", "list"]).must(0, &["kind", "parameter", "docs/webassembly.md"]);
    let ran = folder.run(["operator", "list", "--format", "json"]);
    ran.must(0, &[]);
    let kinds: Value = serde_json::from_str(&ran.out).unwrap();
    let kinds = kinds.as_array().unwrap();
    for kind in kinds {
        assert!(
            kind["kind"].is_string() && kind["doc"].is_string() && kind["parameters"].is_array(),
            "{kind}"
        );
    }
}
