//! Every checker notices a fault that was built in on purpose, within the seeds stated here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod world;

use contract::Mutant;
use std::collections::BTreeSet;
use std::ops::Range;
use world::{CHECKERS, play};

/// A fault, the checker that must notice it, whether anything gets lost, and within which seeds.
const MUTANTS: &[(Mutant, &str, bool, Range<u64>)] = &[
    (Mutant::KeepExpired, "strangers", true, 0..60),
    (Mutant::MeetAnybody, "strangers", false, 0..60),
    (Mutant::PartInSilence, "strangers", false, 0..60),
    (Mutant::LeaveAtOnce, "steady", false, 0..60),
    (Mutant::PutLate, "meetings", false, 0..60),
];

#[test]
fn every_mutant_is_noticed_by_its_checker() {
    let broken = |seed, worst| play(seed, worst).first().map(|(checker, _)| *checker);
    let missed = simulation::unnoticed(MUTANTS, Mutant::switch, broken);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_checker_has_a_mutant() {
    let covered: BTreeSet<&str> = MUTANTS.iter().map(|(_, checker, ..)| *checker).collect();
    assert_eq!(covered, BTreeSet::from(CHECKERS));
}
