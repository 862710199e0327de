//! Asking allocates nothing, whatever the answer: counted by the allocator.
#![allow(clippy::unwrap_used, reason = "a test")]

use access::{Access, Action};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn no_answer_allocates() {
    let text = "[[user]]\nname = \"a\"\nroles = [\"r\"]\n[[user.rule]]\ndeny = \"publish\"\ntopics = [\"x/%c/#\"]\n\
                [[role]]\nname = \"r\"\n[[role.rule]]\nallow = [\"publish\", \"subscribe\"]\ntopics = [\"plant/%u/#\"]";
    let access = Access::parse(text).unwrap();
    let user = access.user("a").unwrap();
    let before = counting::allocations();
    let mut allowed = 0;
    for topic in ["plant/a/b", "plant/b/b", "x/c", "x/d", "plant/a/+", "", "$share/g/plant/a/#", "a\0"] {
        for action in Action::ALL {
            for client in ["c", "a/b", ""] {
                allowed += u32::from(access.allows(user, client, action, topic).allowed);
            }
        }
    }
    assert_eq!(counting::allocations() - before, 0);
    assert_eq!(allowed, 12, "one topic to publish on and three filters, for each client id");
    assert_ne!(before, 0, "the allocator counts");
}
