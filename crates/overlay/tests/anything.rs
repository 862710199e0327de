//! Anything may happen for a while. Once that is over, there is one tree, each region has one master, and its members know each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "VERGE_SEED and VERGE_SEEDS choose other runs")]

use overlay::Rings;
use simulation::peers::{Wrong, play};

fn seeds() -> std::ops::Range<u64> {
    let from: u64 = std::env::var("VERGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("VERGE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    from..from + count
}

/// What went wrong in the first seeds in which something did.
fn wrong(worst: bool) -> Vec<(u64, Wrong)> {
    let played = seeds().map(|seed| (seed, play::<Rings>(seed, worst)));
    played.filter(|(_, wrong)| !wrong.is_empty()).take(5).collect()
}

#[test]
fn peers_that_come_find_each_other() {
    assert_eq!(wrong(false), []);
}

#[test]
fn everything_is_as_it_must_be_once_nothing_fails_any_more() {
    assert_eq!(wrong(true), []);
}
