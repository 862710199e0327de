//! Every checker notices a fault that was built in on purpose, within the number of seeds stated here.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Mutant;
use kv_sim::{CHECKERS, Weather, run};
use std::collections::BTreeSet;

/// A fault, the checker that must notice it, in which weather, and within how many seeds.
const MUTANTS: &[(Mutant, &str, Weather, u64)] = &[
    (Mutant::BelieveOwnEars, "agreement", Weather::Assumed, 100),
    (Mutant::ForgetOwnWord, "validity", Weather::Assumed, 300),
    (Mutant::GoOnEarly, "validity", Weather::Assumed, 200),
    (Mutant::TakeOldFrames, "agreement", Weather::Assumed, 600),
    (Mutant::IgnoreCodes, "evidence", Weather::Assumed, 100),
    (Mutant::ShowEarly, "instants", Weather::Assumed, 20),
    (Mutant::CountNothingLate, "instants", Weather::Beyond, 100),
    (Mutant::Overwrite, "single", Weather::Assumed, 40),
    (Mutant::WaitTwice, "termination", Weather::Assumed, 20),
    (Mutant::ReadStale, "freshness", Weather::Assumed, 20),
    (Mutant::KeepOneMore, "history", Weather::Assumed, 40),
    (Mutant::DropNewest, "history", Weather::Assumed, 400),
    (Mutant::TakeFirst, "votes", Weather::Assumed, 100),
    (Mutant::TakeAnyStamp, "votes", Weather::Assumed, 200),
    (Mutant::CallSilenceLies, "evidence", Weather::Assumed, 100),
    (Mutant::WriteUnseen, "writes", Weather::Assumed, 100),
    (Mutant::WriteThePast, "writes", Weather::Assumed, 20),
    (Mutant::CompareNothing, "alarm", Weather::Beyond, 40),
];

/// The first seed at which the checker notices the fault.
fn noticed(mutant: Mutant, checker: &str, weather: Weather, seeds: u64) -> Option<u64> {
    Mutant::switch(Some(mutant));
    let notices = |seed: &u64| run(*seed, weather).violation.is_some_and(|broken| broken.checker == checker);
    let first = (0..seeds).find(notices);
    Mutant::switch(None);
    first
}

#[test]
fn every_mutant_is_noticed_by_its_checker() {
    let missed: Vec<String> = MUTANTS
        .iter()
        .filter_map(|(mutant, checker, weather, seeds)| {
            let first = noticed(*mutant, checker, *weather, *seeds);
            println!("{mutant:?}: {checker} at seed {first:?}");
            first.is_none().then(|| format!("{checker} did not notice {mutant:?} within {seeds} seeds"))
        })
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_checker_has_a_mutant() {
    let covered: BTreeSet<&str> = MUTANTS.iter().map(|(_, checker, ..)| *checker).collect();
    let all: BTreeSet<&str> = CHECKERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(covered, all);
}
