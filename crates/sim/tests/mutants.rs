//! Every checker notices a fault that was built in on purpose, within the number of seeds stated here.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Mutant;
use sim::{CHECKERS, Weather, World, scenario_of};
use std::collections::BTreeSet;
use std::ops::Range;

/// A fault, the checker that must notice it, in which weather, and within which seeds. Where it takes thousands, the first that show nothing
/// are left out.
const MUTANTS: &[(Mutant, &str, Weather, Range<u64>)] = &[
    (Mutant::ForgetRetained, "losses", Weather::Assumed, 0..60),
    (Mutant::CopyNothing, "losses", Weather::Assumed, 0..400),
    (Mutant::ServeInOrderOfArrival, "edf", Weather::Assumed, 0..10),
    (Mutant::HandOverTwice, "duplicates", Weather::Assumed, 0..20),
    (Mutant::KeepEpoch, "reigns", Weather::Assumed, 0..10),
    (Mutant::FollowAnybody, "epochs", Weather::Beyond, 0..120),
    (Mutant::KeepCopiesBack, "copies", Weather::Assumed, 0..40),
    (Mutant::IgnorePrunes, "copies", Weather::Assumed, 0..20),
    (Mutant::PublishRefused, "admission", Weather::Assumed, 0..10),
    (Mutant::AdmitAnything, "admission", Weather::Assumed, 0..20),
    (Mutant::LeaveJobs, "deadlines", Weather::Assumed, 0..300),
    (Mutant::SuspectLate, "failover", Weather::Assumed, 0..40),
    (Mutant::DropStrays, "handover", Weather::Assumed, 0..400),
    (Mutant::CallNothingLate, "lateness", Weather::Assumed, 0..40),
    (Mutant::DeferWithoutLimit, "limits", Weather::Beyond, 0..100),
    (Mutant::MixPayloads, "contents", Weather::Assumed, 0..10),
    (Mutant::IgnoreStandby, "progress", Weather::Assumed, 0..10),
    (Mutant::RefuseContracts, "admission", Weather::Assumed, 0..10),
    (Mutant::RefuseSubscriptions, "admission", Weather::Assumed, 0..10),
    (Mutant::CopyLate, "edf", Weather::Assumed, 0..30),
    (Mutant::DispatchLate, "edf", Weather::Assumed, 0..30),
    (Mutant::IgnoreSessions, "losses", Weather::Assumed, 0..600),
    (Mutant::OfferOnce, "losses", Weather::Assumed, 0..400),
    (Mutant::ForgetForwarded, "losses", Weather::Assumed, 0..900),
    (Mutant::SettleForwarded, "losses", Weather::Assumed, 0..900),
    (Mutant::LeaveDeferred, "progress", Weather::Beyond, 0..100),
    (Mutant::CountNoLosses, "accounts", Weather::Assumed, 0..20),
    (Mutant::BeginCopiesLate, "deadlines", Weather::Assumed, 0..100),
    (Mutant::MarkFewer, "lazy", Weather::Assumed, 0..1_500),
    (Mutant::KeepEveryEvent, "operators", Weather::Assumed, 0..60),
    (Mutant::UseTwice, "operators", Weather::Assumed, 0..60),
    (Mutant::KeepOutdated, "operators", Weather::Assumed, 0..60),
    (Mutant::KeepApart, "operators", Weather::Assumed, 0..60),
    (Mutant::SettleUnprocessed, "losses", Weather::Assumed, 0..3_000),
    (Mutant::FinishEarly, "losses", Weather::Assumed, 0..600),
    (Mutant::ForgetUnprocessed, "losses", Weather::Assumed, 0..600),
    (Mutant::KeepBindings, "operators", Weather::Assumed, 0..20),
    (Mutant::EndEveryGraph, "losses", Weather::Assumed, 0..3_000),
    (Mutant::ForgetWaiting, "acknowledged", Weather::Assumed, 0..60),
    (Mutant::ForgetIncoming, "once", Weather::Assumed, 0..600),
    (Mutant::ForgetKept, "retained", Weather::Assumed, 1_600..4_000),
    (Mutant::LeaveNoWill, "wills", Weather::Assumed, 0..120),
    (Mutant::GiveCopiesUp, "losses", Weather::Assumed, 2_000..3_000),
    (Mutant::KeepOldClock, "clocks", Weather::Assumed, 0..200),
    (Mutant::TrustClock, "failover", Weather::Assumed, 1_200..2_000),
    (Mutant::ForgetMemories, "memories", Weather::Assumed, 0..200),
    (Mutant::TellNoTroubles, "told", Weather::Beyond, 0..100),
    (Mutant::JudgeBeforeLeaving, "departures", Weather::Beyond, 0..600),
    (Mutant::TellNoReign, "strangers", Weather::Assumed, 0..20),
    (Mutant::LetNobodyThrough, "losses", Weather::Assumed, 0..200),
];

/// Every other mutant from this one on. Faults are built in for a thread, so that two halves do not disturb each other.
fn is_noticed(from: usize) {
    let broken = |seed, weather| {
        World::play(&scenario_of(seed, weather), seed).violation.map(|violation| violation.checker)
    };
    let half: Vec<_> = MUTANTS.iter().skip(from).step_by(2).cloned().collect();
    let missed = simulation::unnoticed(&half, Mutant::switch, broken);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_mutant_is_noticed_by_its_checker() {
    is_noticed(0);
}

#[test]
fn so_is_every_other_mutant() {
    is_noticed(1);
}

#[test]
fn every_checker_has_a_mutant() {
    let covered: BTreeSet<&str> = MUTANTS.iter().map(|(_, checker, ..)| *checker).collect();
    let all: BTreeSet<&str> = CHECKERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(covered, all);
}
