//! Every checker notices a fault that was built in on purpose, within the number of seeds stated here.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Mutant;
use kv_sim::{CHECKERS, Weather, run};
use std::collections::BTreeSet;
use std::ops::Range;

/// A fault, the checker that must notice it, in which weather, and within how many seeds.
const MUTANTS: &[(Mutant, &str, Weather, Range<u64>)] = &[
    (Mutant::BelieveOwnEars, "agreement", Weather::Assumed, 0..100),
    (Mutant::ForgetOwnWord, "validity", Weather::Assumed, 0..300),
    (Mutant::GoOnEarly, "validity", Weather::Assumed, 0..200),
    (Mutant::TakeOldFrames, "agreement", Weather::Assumed, 0..600),
    (Mutant::IgnoreCodes, "evidence", Weather::Assumed, 0..100),
    (Mutant::ShowEarly, "instants", Weather::Assumed, 0..20),
    (Mutant::CountNothingLate, "instants", Weather::Beyond, 0..100),
    (Mutant::Overwrite, "single", Weather::Assumed, 0..40),
    (Mutant::WaitTwice, "termination", Weather::Assumed, 0..20),
    (Mutant::ReadStale, "freshness", Weather::Assumed, 0..20),
    (Mutant::KeepOneMore, "history", Weather::Assumed, 0..40),
    (Mutant::DropNewest, "history", Weather::Assumed, 0..400),
    (Mutant::TakeFirst, "votes", Weather::Assumed, 0..100),
    (Mutant::TakeAnyStamp, "votes", Weather::Assumed, 0..600),
    (Mutant::CallSilenceLies, "evidence", Weather::Assumed, 0..100),
    (Mutant::WriteUnseen, "writes", Weather::Assumed, 0..100),
    (Mutant::WriteThePast, "writes", Weather::Assumed, 0..20),
    (Mutant::CompareNothing, "alarm", Weather::Beyond, 0..40),
    (Mutant::TakeWhatComes, "agreement", Weather::Assumed, 0..600),
    (Mutant::BelieveOne, "agreement", Weather::Assumed, 0..600),
    (Mutant::AskNobody, "recovery", Weather::Assumed, 0..100),
];

#[test]
fn every_mutant_is_noticed_by_its_checker() {
    let broken = |seed, weather| run(seed, weather).violation.map(|violation| violation.checker);
    let missed = simulation::unnoticed(MUTANTS, Mutant::switch, broken);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_checker_has_a_mutant() {
    let covered: BTreeSet<&str> = MUTANTS.iter().map(|(_, checker, ..)| *checker).collect();
    let all: BTreeSet<&str> = CHECKERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(covered, all);
}
