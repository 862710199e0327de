//! What happens with every message allocates nothing: counted by the allocator.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature; this one only counts and passes on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use contract::Time;
use mqtt::packet::{Options, Qos};
use mqtt::retained::{Limits, New, Retained};
use mqtt::tree::{Entry, Matches, Subscriptions};

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

fn allocations(of: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    of();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn a_topic_is_matched_without_allocating() {
    let mut tree = Subscriptions::new(10_000);
    let options = Options { qos: Qos::AtLeastOnce, ..Options::default() };
    for session in 0..100 {
        for filter in ["hall/#", "hall/+/heat", "hall/oven/+", "$share/g/hall/+/heat", "+/+/+"] {
            tree.insert(filter, session, Entry { options, subscription: Some(session + 1) }).unwrap();
        }
    }
    let mut found = Matches::default();
    assert!(
        allocations(|| tree.matches("hall/oven/heat", &mut found)) > 0,
        "the first time, so this test can fail"
    );
    assert_eq!((found.rows().len(), found.groups().len()), (100, 1));
    let again = allocations(|| {
        for _ in 0..100 {
            tree.matches("hall/oven/heat", &mut found);
            tree.matches("other/oven", &mut found);
            tree.matches("hall/oven/heat", &mut found);
            assert!(tree.next_member(found.groups()[0], |session| session % 2 == 0).is_some());
        }
    });
    assert_eq!(again, 0);
}

#[test]
fn a_topic_with_a_message_gets_the_next_one_without_allocating() {
    let mut retained = Retained::new(Limits { topics_max: 10, bytes_max: 100_000 });
    let message = |payload, at| New {
        payload,
        properties: b"p",
        qos: Qos::AtMostOnce,
        expires: Some(Time(at)),
        origin: (),
    };
    assert!(allocations(|| retained.set("hall/oven", message(&[0; 500], 10)).unwrap()) > 0);
    let again = allocations(|| {
        for at in 0..100 {
            retained.set("hall/oven", message(&[1; 400], 10 + at)).unwrap();
            assert!(retained.get("hall/oven", Time(9)).is_some());
        }
    });
    assert_eq!(again, 0);
}
