//! Every checker notices a fault that was built in on purpose, within the number of seeds stated here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::Mutant;
use overlay::Rings;
use simulation::peers::{CHECKERS, play};
use std::collections::BTreeSet;
use std::ops::Range;

/// A fault, the checker that must notice it, whether anything happens, and within how many seeds.
const MUTANTS: &[(Mutant, &str, bool, Range<u64>)] = &[
    (Mutant::TakeOlderClaims, "epochs", true, 0..60),
    (Mutant::KeepLost, "tables", true, 0..20),
    (Mutant::NeverSplit, "shape", false, 0..20),
    (Mutant::NeverAdopt, "shape", true, 0..60),
    (Mutant::WatchNobody, "masters", true, 0..200),
    (Mutant::ForgetStrays, "areas", true, 0..60),
    (Mutant::AskAgainAtOnce, "calm", true, 0..60),
    (Mutant::ReignInSilence, "news", true, 0..20),
];

#[test]
fn every_mutant_is_noticed_by_its_checker() {
    let broken = |seed, worst| play::<Rings>(seed, worst).first().map(|(checker, _)| *checker);
    let missed = simulation::unnoticed(MUTANTS, Mutant::switch, broken);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_checker_has_a_mutant() {
    let covered: BTreeSet<&str> = MUTANTS.iter().map(|(_, checker, ..)| *checker).collect();
    assert_eq!(covered, BTreeSet::from(CHECKERS));
}
