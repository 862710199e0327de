//! Three sites and two routers under anything that may happen to one of them at a time.
//!
//! `VERGE_SEED` is the first seed, `VERGE_SEEDS` how many, `VERGE_SHOW=1` prints what happened.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]
#![allow(clippy::disallowed_methods, reason = "VERGE_SEED and VERGE_SEEDS choose other runs")]

use crate::world;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice_whatever_happens_to_one_at_a_time() {
    let first = number("VERGE_SEED", 1);
    (first..first + number("VERGE_SEEDS", 12)).for_each(|seed| try_out(seed, false));
}

/// The same where a coordination service names the routers.
#[test]
fn nothing_is_lost_either_where_a_service_says_where_topics_go() {
    let first = number("VERGE_SEED", 1);
    (first..first + number("VERGE_SEEDS", 12)).for_each(|seed| try_out(seed, true));
}

fn try_out(seed: u64, coordinated: bool) {
    match world::trial::run(seed, coordinated) {
        Ok(story) if std::env::var("VERGE_SHOW").is_ok() => eprintln!("seed {seed}:\n{story}"),
        Ok(_) => {}
        Err(wrong) => panic!("seed {seed}:\n{wrong}"),
    }
}

/// Contracts are chosen so that about as many are promised as are not.
#[test]
fn what_is_promised_across_sites_is_kept_at_the_edge_of_what_can_be() {
    let first = number("VERGE_SEED", 1);
    let (mut promised, mut unpromised) = (0, 0);
    for seed in first..first + number("VERGE_SEEDS", 12) {
        match world::edge::run(seed) {
            Ok((kept, not)) => (promised, unpromised) = (promised + kept, unpromised + not),
            Err(wrong) => panic!("seed {seed}:\n{wrong}"),
        }
    }
    assert!(promised > unpromised / 4 && unpromised > promised / 4, "{promised} promised, {unpromised} not");
}
