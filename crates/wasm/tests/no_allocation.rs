//! A run allocates nothing, once the first has been made: counted by the allocator.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::Time;
use stream::{Answer, Input, Operator};
use support::{encode, module, packed, sandbox};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn runs_allocate_nothing() {
    let body = format!(
        "(f64.store (i32.const 0) (f64.add (f64.load (i32.const 1024)) (f64.load (i32.const 3072)))) {}",
        packed(0, 8)
    );
    let mut sandbox = sandbox(&module(&body));
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
}
