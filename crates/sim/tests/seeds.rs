//! Thousands of made-up deployments, each run twice: nothing that must hold is broken, and the same seed gives the same
//! run. `make sim SEEDS=...` looks longer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which may use both processors")]

use sim::{Weather, World, scenario_of};

/// Runs a range of seeds on two threads.
fn all_hold(weather: Weather, seeds: u64) {
    let half = |first: u64| {
        move || {
            for seed in (first..seeds).step_by(2) {
                let scenario = scenario_of(seed, weather);
                let (once, again) = (World::play(&scenario, seed), World::play(&scenario, seed));
                assert!(once.violation.is_none(), "seed {seed} ({weather:?}): {}", once.violation.unwrap());
                assert_eq!(once.hash, again.hash, "seed {seed} ({weather:?}) is not deterministic");
            }
        }
    };
    let threads = [0, 1].map(|first| std::thread::spawn(half(first)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn every_guarantee_holds_under_what_it_assumes() {
    all_hold(Weather::Assumed, 1_500);
}

#[test]
fn everything_but_losses_and_deadlines_holds_under_anything() {
    all_hold(Weather::Beyond, 700);
}
