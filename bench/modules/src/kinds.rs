//! The modules: loops of every kind that is slow or cannot be interrupted, and one that ends.

/// A loop that does not end.
pub struct Kind {
    /// What it does.
    pub name: &'static str,
    /// Before the loop.
    before: &'static str,
    /// In it.
    body: &'static str,
    /// How often that stands there.
    times: usize,
    /// Pages of memory that it begins with.
    pages: usize,
}

const fn kind(name: &'static str, body: &'static str) -> Kind {
    Kind { name, before: "", body, times: 1, pages: 1 }
}

/// 65 536 places, 256 bytes apart, each of which holds the address of another, in no order that a processor could guess: all
/// of them come before the first one comes again.
const CHAIN: &str = "(loop $fill
    (i32.store (i32.shl (local.get $i) (i32.const 8)) (i32.shl (i32.and (i32.const 65535)
        (i32.add (i32.mul (local.get $i) (i32.const 1664525)) (i32.const 1013904223))) (i32.const 8)))
    (br_if $fill (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 65536))))";

/// All kinds.
pub const ALL: &[Kind] = &[
    kind("nothing (`br`)", ""),
    kind("`br_if`", "(br_if $again (i32.const 1))"),
    kind("`br_table`", "(br_table $again $again $again $again (local.get $i))"),
    kind("`call`", "(call $nothing)"),
    kind("`call_indirect`", "(call_indirect (type $none) (i32.const 0))"),
    kind("`if`", "(if (local.get $i) (then) (else))"),
    kind("whole numbers", "(local.set $i (i32.add (local.get $i) (i32.const 3)))"),
    kind(
        "whole numbers, divided",
        "(local.set $l (i64.div_s (i64.const -9000000000000000000) (i64.or (local.get $l) (i64.const 1))))",
    ),
    kind("`f64.div`", "(local.set $f (f64.div (f64.const 1e300) (f64.add (local.get $f) (f64.const 1.1))))"),
    kind("`f64.sqrt`", "(local.set $f (f64.sqrt (f64.add (local.get $f) (f64.const 1.1))))"),
    kind("`f64.nearest`", "(local.set $f (f64.nearest (f64.add (local.get $f) (f64.const 1.1))))"),
    kind("numbers below the normal ones", "(local.set $f (f64.mul (f64.const 3e-308) (f64.const 0.01)))"),
    kind("`f32.demote_f64`", "(local.set $f (f64.promote_f32 (f32.demote_f64 (f64.const 1e-40))))"),
    kind("global variables", "(global.set $g (i64.add (global.get $g) (i64.const 1)))"),
    kind("`memory.size`", "(drop (memory.size))"),
    kind("`memory.grow` by nothing", "(drop (memory.grow (i32.const 0)))"),
    kind("`memory.grow` beyond the limit", "(drop (memory.grow (i32.const 5000)))"),
    kind("`table.grow` by nothing", "(drop (table.grow (ref.null func) (i32.const 0)))"),
    kind("`table.grow` beyond the limit", "(drop (table.grow (ref.null func) (i32.const 100000)))"),
    kind("`table.get`, `table.set`", "(table.set (i32.const 1) (table.get (i32.const 0)))"),
    kind("`ref.func`", "(drop (ref.func $nothing))"),
    kind("`memory.fill` of nothing", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 0))"),
    kind("`memory.fill` of 7 bytes", "(memory.fill (i32.const 1) (i32.const 0) (i32.const 7))"),
    kind("`memory.copy` of 7 bytes", "(memory.copy (i32.const 1) (i32.const 9) (i32.const 7))"),
    kind("`memory.init` of 7 bytes", "(memory.init $passive (i32.const 1) (i32.const 0) (i32.const 7))"),
    kind("`memory.fill` of 64 KiB", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 65536))"),
    kind("`table.copy` of nothing", "(table.copy (i32.const 0) (i32.const 0) (i32.const 0))"),
    Kind {
        name: "`memory.fill` of 1 MiB",
        before: "",
        body: "(memory.fill (i32.const 0) (i32.const 1) (i32.const 1048576))",
        times: 1,
        pages: 256,
    },
    Kind {
        name: "`memory.copy` of 1 MiB",
        before: "",
        body: "(memory.copy (i32.const 0x800000) (i32.const 0x100001) (i32.const 1048576))",
        times: 1,
        pages: 256,
    },
    Kind {
        name: "`memory.fill` of 16 MiB",
        before: "",
        body: "(memory.fill (i32.const 0) (i32.const 1) (i32.const 16777216))",
        times: 1,
        pages: 256,
    },
    Kind {
        name: "`memory.grow` by a page, then all of it anew",
        before: "(drop (memory.grow (i32.const 1)))",
        body: "(memory.fill (i32.const 0) (i32.const 1) (i32.const 65536))",
        times: 1,
        pages: 64,
    },
    Kind {
        name: "loads all over 16 MiB",
        before: "",
        body: "(local.set $i (i32.add (i32.mul (local.get $i) (i32.const 0x85ebca6b)) (i32.const 0x9e3779b1))) (drop (i32.load (i32.and (local.get $i) (i32.const 0xFFFFC0))))",
        times: 1,
        pages: 256,
    },
    Kind {
        name: "stores all over 16 MiB",
        before: "",
        body: "(i32.store (i32.and (local.tee $i (i32.add (i32.mul (local.get $i) (i32.const 0x85ebca6b)) (i32.const 0x9e3779b1))) (i32.const 0xFFFFC0)) (local.get $i))",
        times: 1,
        pages: 256,
    },
    Kind {
        name: "loads, each from where the last one said, all over 16 MiB",
        before: CHAIN,
        body: "(local.set $i (i32.load (local.get $i)))",
        times: 100,
        pages: 256,
    },
    Kind {
        name: "a stretch of 10 000 loads, each from where the last one said",
        before: CHAIN,
        body: "(local.set $i (i32.load (local.get $i)))",
        times: 10_000,
        pages: 256,
    },
];

/// A module whose every run is endless.
pub fn module(kind: &Kind) -> Vec<u8> {
    let Kind { before, body, times, pages, .. } = kind;
    let chain = if before.starts_with("(loop $fill") { before } else { "" };
    let before = if chain.is_empty() { before } else { "" };
    let start = if chain.is_empty() {
        String::new()
    } else {
        format!("(func $chain (local $i i32) {chain}) (start $chain)")
    };
    bytes(&format!(
        r#"(module (memory (export "memory") {pages})
            (type $none (func)) (table 2 funcref) (elem (i32.const 0) $nothing) (elem declare func $nothing) (func $nothing)
            (global $g (mut i64) (i64.const 0)) (data $passive "0123456789") {start}
            (func (export "verge_abi_version") (result i32) (i32.const 1))
            (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 1024))
            (func (export "verge_run") (param i64) (result i64) (local $i i32) (local $l i64) (local $f f64)
                {before} (loop $again {} (br $again)) (i64.const -1)))"#,
        body.repeat(*times)
    ))
}

/// A module that adds up so many numbers, and answers with the sum.
pub fn honest(rounds: u32) -> Vec<u8> {
    bytes(&format!(
        r#"(module (memory (export "memory") 1)
            (func (export "verge_abi_version") (result i32) (i32.const 1))
            (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 1024))
            (func (export "verge_run") (param i64) (result i64) (local $i i32) (local $sum f64)
                (loop $again
                    (local.set $sum (f64.add (local.get $sum)
                        (f64.load (i32.add (i32.const 1024) (i32.and (local.get $i) (i32.const 0x7ff8))))))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $again (i32.lt_u (local.get $i) (i32.const {rounds}))))
                (f64.store (i32.const 0) (local.get $sum)) (i64.const 8)))"#
    ))
}

fn bytes(text: &str) -> Vec<u8> {
    match wat::parse_str(text) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
