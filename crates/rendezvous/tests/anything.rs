//! Whoever belongs together meets, and nobody else, whatever happens to points and to what is on the way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod world;

use simulation::{seeds, wrong_in};
use world::play;

#[test]
fn whoever_belongs_together_meets_within_a_second_and_stays() {
    assert_eq!(wrong_in(seeds(300), |seed| play(seed, false)), []);
}

#[test]
fn what_got_lost_is_made_up_for() {
    assert_eq!(wrong_in(seeds(300), |seed| play(seed, true)), []);
}
