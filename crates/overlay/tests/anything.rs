//! Anything may happen for a while. Once that is over, there is one tree, each region has one master, and its members know each other.

use overlay::Rings;
use simulation::peers::play;
use simulation::{seeds, wrong_in};

#[test]
fn peers_that_come_find_each_other() {
    assert_eq!(wrong_in(seeds(200), |seed| play::<Rings>(seed, false)), []);
}

#[test]
fn everything_is_as_it_must_be_once_nothing_fails_any_more() {
    assert_eq!(wrong_in(seeds(200), |seed| play::<Rings>(seed, true)), []);
}
