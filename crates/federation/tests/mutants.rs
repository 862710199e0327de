//! Every checker notices a fault that was built in on purpose, within the number of seeds stated here.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "the play shows itself where that is asked for")]

mod play;
mod world;

use contract::Mutant;
use play::CHECKERS;
use std::collections::BTreeSet;
use std::ops::Range;

/// What is played.
#[derive(Clone, Copy)]
enum Kind {
    /// Interest comes and goes.
    Calm,
    /// Anything happens.
    Worst,
    /// A failover, and nothing else.
    FailOver,
}

const MUTANTS: &[(Mutant, &str, Kind, Range<u64>)] = &[
    (Mutant::KeepDeadRouters, "carriers", Kind::Worst, 0..40),
    (Mutant::CarryBack, "ways", Kind::Calm, 0..20),
    (Mutant::MatchAnything, "ways", Kind::Calm, 0..20),
    (Mutant::TakeOlderEpochs, "epochs", Kind::Worst, 0..400),
    (Mutant::KeepLinks, "links", Kind::Calm, 0..40),
    (Mutant::KeepFirstRoute, "routes", Kind::Worst, 0..100),
    (Mutant::ForgetRings, "carriers", Kind::Calm, 0..100),
    (Mutant::KeepIdleTopics, "idle", Kind::Calm, 0..20),
    (Mutant::LeaveNodes, "quiet", Kind::FailOver, 0..5),
    (Mutant::KeepMoved, "carriers", Kind::Calm, 0..40),
    (Mutant::IgnoreMeaning, "meant", Kind::Calm, 0..20),
];

#[test]
fn every_mutant_is_noticed_by_its_checker() {
    let broken = |seed, kind| {
        let wrong = match kind {
            Kind::Calm => play::play(seed, false),
            Kind::Worst => play::play(seed, true),
            Kind::FailOver => play::fail_over(seed),
        };
        wrong.first().map(|(checker, _)| *checker)
    };
    let missed = simulation::unnoticed(MUTANTS, Mutant::switch, broken);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_checker_has_a_mutant() {
    let covered: BTreeSet<&str> = MUTANTS.iter().map(|(_, checker, ..)| *checker).collect();
    assert_eq!(covered, BTreeSet::from(CHECKERS));
}
