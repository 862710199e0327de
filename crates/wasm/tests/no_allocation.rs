//! A run allocates nothing, once the first has been made: counted by the allocator.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature; this one only counts and passes on")]

mod support;

use contract::Time;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use stream::{Answer, Input, Operator};
use support::{encode, module, packed, sandbox};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
            before = ALLOCATIONS.with(Cell::get);
        }
        output.clear();
        assert_eq!(sandbox.run(&inputs, &mut output), Ok(Answer::Result));
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    assert_eq!(output, encode(&[3.0]));
}
