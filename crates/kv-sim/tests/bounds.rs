//! The bounds are tight: one liar too many breaks the agreement, and a nanosecond less than the shortest round loses what a correct
//! node has said; the bounds themselves are enough.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Span;
use kv_sim::{Outcome, Scenario, play, shrink, with_a_liar_too_many, with_rounds_too_short};

fn broken(seeds: u64, scenario: impl Fn(u64) -> Scenario) -> Vec<(u64, Outcome)> {
    let outcomes = (0..seeds).map(|seed| (seed, play(&scenario(seed), seed)));
    outcomes.filter(|(_, outcome)| outcome.violation.is_some()).collect()
}

#[test]
fn e4_with_one_liar_too_many_agreement_breaks_in_most_runs() {
    let broken = broken(60, with_a_liar_too_many);
    assert!(broken.len() > 45, "{} of 60", broken.len());
}

#[test]
fn the_shortest_round_is_enough_and_one_nanosecond_less_is_not() {
    assert_eq!(broken(100, |seed| with_rounds_too_short(seed, Span::ZERO)).len(), 0);
    let broken = broken(100, |seed| with_rounds_too_short(seed, Span(1)));
    assert!(broken.len() > 10, "{} of 100", broken.len());
}

#[test]
fn a_failing_scenario_is_made_smaller_and_fails_in_the_same_way() {
    let (seed, outcome) = broken(10, with_a_liar_too_many).remove(0);
    let scenario = with_a_liar_too_many(seed);
    let (smaller, again) = shrink(&scenario, seed);
    assert_eq!(again.violation.unwrap().checker, outcome.violation.unwrap().checker);
    assert!(smaller.jobs < scenario.jobs && smaller.keys.len() <= scenario.keys.len(), "{smaller}");
    assert!(!smaller.faults.is_empty(), "without liars nothing breaks");
}
