//! Anything may happen for a while: participants die, their partners take over, connections and the service fail, routers drain, admins
//! remove nodes. Once that is over, everything must be as if nothing had been, within a bound.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "VERGE_SEED and VERGE_SEEDS choose other runs")]

mod play;
mod world;

use play::play;

fn seeds() -> std::ops::Range<u64> {
    let from: u64 = std::env::var("VERGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("VERGE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    from..from + count
}

#[test]
fn interest_is_followed_while_nothing_fails() {
    for seed in seeds() {
        assert_eq!(play(seed, false), [], "seed {seed}");
    }
}

#[test]
fn everything_is_as_it_must_be_once_nothing_fails_any_more() {
    for seed in seeds() {
        assert_eq!(play(seed, true), [], "seed {seed}");
    }
}

#[test]
fn a_failover_of_a_pair_is_seen_by_nobody_else() {
    for seed in 0..20 {
        assert_eq!(play::fail_over(seed), [], "seed {seed}");
    }
}
