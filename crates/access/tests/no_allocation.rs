//! Asking allocates nothing, whatever the answer: counted by the allocator.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature; this one only counts and passes on")]

use access::{Access, Action};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_answer_allocates() {
    let text = "[[user]]\nname = \"a\"\nroles = [\"r\"]\n[[user.rule]]\ndeny = \"publish\"\ntopics = [\"x/%c/#\"]\n\
                [[role]]\nname = \"r\"\n[[role.rule]]\nallow = [\"publish\", \"subscribe\"]\ntopics = [\"plant/%u/#\"]";
    let access = Access::parse(text).unwrap();
    let user = access.user("a").unwrap();
    let before = ALLOCATIONS.with(Cell::get);
    let mut allowed = 0;
    for topic in ["plant/a/b", "plant/b/b", "x/c", "x/d", "plant/a/+", "", "$share/g/plant/a/#", "a\0"] {
        for action in Action::ALL {
            for client in ["c", "a/b", ""] {
                allowed += u32::from(access.allows(user, client, action, topic).allowed);
            }
        }
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    assert_eq!(allowed, 12, "one topic to publish on and three filters, for each client id");
    assert_ne!(before, 0, "the allocator counts");
}
