//! Anything may happen for a while: participants die, their partners take over, connections and the service fail, routers drain, admins
//! remove nodes. Once that is over, everything must be as if nothing had been, within a bound.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod play;
mod world;

use play::play;
use simulation::{seeds, wrong_in};

#[test]
fn interest_is_followed_while_nothing_fails() {
    assert_eq!(wrong_in(seeds(300), |seed| play(seed, false)), []);
}

#[test]
fn everything_is_as_it_must_be_once_nothing_fails_any_more() {
    assert_eq!(wrong_in(seeds(300), |seed| play(seed, true)), []);
}

/// A topic's node that an admin removes right when a site has made it; and one that is made anew while the route of the former is still known.
#[test]
fn nodes_that_are_removed_at_the_worst_moment_are_made_again() {
    for seed in [319_798, 356_525] {
        assert_eq!(play(seed, true), [], "seed {seed}");
    }
}

#[test]
fn a_failover_of_a_pair_is_seen_by_nobody_else() {
    for seed in 0..20 {
        assert_eq!(play::fail_over(seed), [], "seed {seed}");
    }
}
