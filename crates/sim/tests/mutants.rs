//! Every checker notices a fault that was built in on purpose, within the number of seeds stated here.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Mutant;
use sim::{CHECKERS, Weather, World, scenario_of};
use std::collections::BTreeSet;

/// A fault, the checker that must notice it, in which weather, and within how many seeds.
const MUTANTS: &[(Mutant, &str, Weather, u64)] = &[
    (Mutant::ForgetRetained, "losses", Weather::Assumed, 60),
    (Mutant::CopyNothing, "losses", Weather::Assumed, 400),
    (Mutant::ServeInOrderOfArrival, "edf", Weather::Assumed, 10),
    (Mutant::HandOverTwice, "duplicates", Weather::Assumed, 20),
    (Mutant::KeepEpoch, "reigns", Weather::Assumed, 10),
    (Mutant::FollowAnybody, "epochs", Weather::Beyond, 120),
    (Mutant::KeepCopiesBack, "copies", Weather::Assumed, 40),
    (Mutant::IgnorePrunes, "copies", Weather::Assumed, 20),
    (Mutant::PublishRefused, "admission", Weather::Assumed, 10),
    (Mutant::AdmitAnything, "admission", Weather::Assumed, 20),
    (Mutant::LeaveJobs, "deadlines", Weather::Assumed, 300),
    (Mutant::SuspectLate, "failover", Weather::Assumed, 40),
    (Mutant::DropStrays, "handover", Weather::Assumed, 400),
    (Mutant::CallNothingLate, "lateness", Weather::Assumed, 40),
    (Mutant::DeferWithoutLimit, "limits", Weather::Beyond, 100),
    (Mutant::MixPayloads, "contents", Weather::Assumed, 10),
    (Mutant::IgnoreStandby, "progress", Weather::Assumed, 10),
    (Mutant::RefuseContracts, "admission", Weather::Assumed, 10),
    (Mutant::RefuseSubscriptions, "admission", Weather::Assumed, 10),
    (Mutant::CopyLate, "edf", Weather::Assumed, 30),
    (Mutant::DispatchLate, "edf", Weather::Assumed, 30),
    (Mutant::IgnoreSessions, "losses", Weather::Assumed, 600),
    (Mutant::OfferOnce, "losses", Weather::Assumed, 400),
    (Mutant::ForgetForwarded, "losses", Weather::Assumed, 900),
    (Mutant::SettleForwarded, "losses", Weather::Assumed, 900),
    (Mutant::LeaveDeferred, "progress", Weather::Beyond, 100),
    (Mutant::CountNoLosses, "accounts", Weather::Assumed, 20),
    (Mutant::BeginCopiesLate, "deadlines", Weather::Assumed, 100),
    (Mutant::MarkFewer, "lazy", Weather::Assumed, 1_500),
    (Mutant::KeepEveryEvent, "operators", Weather::Assumed, 60),
    (Mutant::UseTwice, "operators", Weather::Assumed, 60),
    (Mutant::KeepOutdated, "operators", Weather::Assumed, 60),
    (Mutant::KeepApart, "operators", Weather::Assumed, 60),
    (Mutant::SettleUnprocessed, "losses", Weather::Assumed, 3_000),
    (Mutant::FinishEarly, "losses", Weather::Assumed, 600),
    (Mutant::ForgetUnprocessed, "losses", Weather::Assumed, 600),
    (Mutant::KeepBindings, "operators", Weather::Assumed, 20),
    (Mutant::EndEveryGraph, "losses", Weather::Assumed, 3_000),
    (Mutant::ForgetWaiting, "acknowledged", Weather::Assumed, 60),
    (Mutant::ForgetIncoming, "once", Weather::Assumed, 600),
    (Mutant::ForgetKept, "retained", Weather::Assumed, 4_000),
    (Mutant::LeaveNoWill, "wills", Weather::Assumed, 120),
    (Mutant::GiveCopiesUp, "losses", Weather::Assumed, 3_000),
    (Mutant::KeepOldClock, "clocks", Weather::Assumed, 200),
    (Mutant::TrustClock, "failover", Weather::Assumed, 2_000),
    (Mutant::ForgetMemories, "memories", Weather::Assumed, 200),
    (Mutant::TellNoTroubles, "told", Weather::Beyond, 100),
    (Mutant::JudgeBeforeLeaving, "departures", Weather::Beyond, 600),
    (Mutant::TellNoReign, "strangers", Weather::Assumed, 20),
    (Mutant::LetNobodyThrough, "losses", Weather::Assumed, 200),
];

/// Every other mutant from this one on. Faults are built in for a thread, so that two halves do not disturb each other.
fn is_noticed(from: usize) {
    let broken = |seed, weather| {
        World::play(&scenario_of(seed, weather), seed).violation.map(|violation| violation.checker)
    };
    let half: Vec<_> = MUTANTS.iter().copied().skip(from).step_by(2).collect();
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
