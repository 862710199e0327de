//! A run allocates nothing, once the first has been made: counted by the allocator.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::{Span, Time};
use processing::{Answer, Input, Operator};
use std::sync::atomic::Ordering::Relaxed;
use support::{clock, encode, limits, module, packed, set_up_with};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn runs_allocate_nothing() {
    let body = format!(
        "(f64.store (i32.const 0) (f64.add (f64.load (i32.const 1024)) (f64.load (i32.const 3072)))) {}",
        packed(0, 8)
    );
    allocate_nothing(&body, 0);
    // Many times the first slice: it is interrupted, the clock is asked, and it goes on.
    let rounds = "(local $i i32) (loop $again (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 20000))))";
    allocate_nothing(&format!("{rounds} {body}"), 1);
}

/// Runs it often, and looks whether the clock was asked so often at least in each run.
fn allocate_nothing(body: &str, asked_least: u64) {
    let (clock, asked) = clock(Span::nanos(100));
    let mut sandbox = set_up_with(&module(body), 2, &[], &limits(), &clock).unwrap();
    let (one, two) = (encode(&[1.0; 100]), encode(&[2.0]));
    let inputs =
        [(0, &one), (1, &two)].map(|(slot, payload)| Input { slot, payload, created: Time(slot as u64) });
    let mut output = Vec::with_capacity(64);
    let mut before = 0;
    for count in 0..1_010 {
        if count == 10 {
            before = counting::allocations();
        }
        output.clear();
        assert_eq!(sandbox.run(&inputs, &mut output), Ok(Answer::Result));
    }
    assert_eq!(counting::allocations() - before, 0);
    assert_eq!(output, encode(&[3.0]));
    let asked = asked.load(Relaxed);
    assert!(asked >= 1_010 * asked_least && (asked == 0) == (asked_least == 0), "{asked}");
}
