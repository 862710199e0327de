//! Thousands of made-up deployments, each run twice: nothing that must hold is broken, and the same seed gives the same
//! run. `make sim SEEDS=...` looks longer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which may use both processors")]

use sim::{Weather, World, scenario_of};

/// Messages that must reach applications in a run, on average: properties hold easily where nothing happens.
const FLOOR: u64 = 1_000;

/// Runs a range of seeds on two threads. Returns how many messages reached applications.
fn all_hold(weather: Weather, seeds: u64) -> u64 {
    let half = |first: u64| {
        move || {
            let mut messages = 0;
            for seed in (first..seeds).step_by(2) {
                let scenario = scenario_of(seed, weather);
                let (once, again) = (World::play(&scenario, seed), World::play(&scenario, seed));
                assert!(once.violation.is_none(), "seed {seed} ({weather:?}): {}", once.violation.unwrap());
                assert_eq!(once.hash, again.hash, "seed {seed} ({weather:?}) is not deterministic");
                let streams = once.findings.streams.iter();
                messages += streams.map(|stream| stream.calm.and(stream.disturbed).count).sum::<u64>();
            }
            messages
        }
    };
    let threads = [0, 1].map(|first| std::thread::spawn(half(first)));
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

#[test]
fn every_guarantee_holds_under_what_it_assumes() {
    let messages = all_hold(Weather::Assumed, 1_500);
    assert!(messages > FLOOR * 1_500, "only {messages} messages reached applications");
}

#[test]
fn everything_but_losses_and_deadlines_holds_under_anything() {
    let messages = all_hold(Weather::Beyond, 700);
    assert!(messages > FLOOR * 700, "only {messages} messages reached applications");
}
