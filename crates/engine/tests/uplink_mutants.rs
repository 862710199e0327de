//! Faults that are built into uplinks on purpose are noticed.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use crate::world;

use contract::Mutant;

#[test]
fn every_mutant_is_noticed() {
    for (mutant, says) in [
        (Mutant::ConfirmOnArrival, "lacks of"),
        (Mutant::ForgetWhereMoved, "lacks of"),
        (Mutant::CarryOn, "streams leave"),
        (Mutant::WantEverything, "streams leave"),
        (Mutant::HandOverTwice, "twice"),
    ] {
        Mutant::switch(Some(mutant));
        // What goes round and round would do so for all of a long trial.
        let run = if mutant == Mutant::CarryOn { world::trial::run_calmly } else { world::trial::run_listed };
        let noticed = (1..200).find_map(|seed| run(seed).err());
        Mutant::switch(None);
        let noticed = noticed.unwrap_or_else(|| panic!("{mutant:?} is not noticed"));
        assert!(noticed.contains(says), "{mutant:?}: {noticed}");
    }
}

#[test]
fn every_mutant_of_promises_is_noticed() {
    for mutant in [Mutant::ForgetAge, Mutant::KeepLess, Mutant::TrustLinks, Mutant::PromiseAnyway] {
        Mutant::switch(Some(mutant));
        let noticed = (1..2_000).find_map(|seed| world::edge::run(seed).err().map(|wrong| (seed, wrong)));
        Mutant::switch(None);
        let (seed, noticed) = noticed.unwrap_or_else(|| panic!("{mutant:?} is not noticed"));
        eprintln!("{mutant:?} {seed}");
        assert!(noticed.contains("in a row"), "{mutant:?}: {noticed}");
    }
}

#[test]
fn who_sends_at_once_to_a_router_that_has_begun_anew_is_noticed() {
    Mutant::switch(Some(Mutant::SendAtOnce));
    let (came, published) = world::lonely::lose_the_only_router(300, false);
    Mutant::switch(None);
    assert!((came.len() as u64) < published);
}

#[test]
fn who_drops_what_goes_by_a_router_that_is_further_away_is_noticed() {
    Mutant::switch(Some(Mutant::DropUnrouted));
    let noticed = [false, true].map(world::named::fail_over_beside_far_routers);
    Mutant::switch(None);
    noticed.iter().for_each(|noticed| assert!(noticed.is_err(), "{noticed:?}"));
}

#[test]
fn one_path_instead_of_two_and_copies_that_come_twice_are_noticed() {
    let scenes: [fn() -> _; 2] = [world::named::lose_each_of_two_routers, world::named::live_shortly];
    for (mutant, scene, says) in
        [(Mutant::OnePath, 0, "after it was published"), (Mutant::TakeEveryCopy, 1, "published at home")]
    {
        Mutant::switch(Some(mutant));
        let noticed = scenes[scene]();
        Mutant::switch(None);
        assert!(noticed.as_ref().is_err_and(|wrong| wrong.contains(says)), "{mutant:?}: {noticed:?}");
    }
}

#[test]
fn who_sends_where_the_receiver_is_not_is_noticed() {
    Mutant::switch(Some(Mutant::TrustAbsent));
    let noticed = world::named::cut_off_the_receiver();
    Mutant::switch(None);
    assert!(noticed.is_err());
}

/// Faults of coordination are seen by what comes, or by who hears of what is not theirs.
#[test]
fn every_mutant_of_coordination_is_noticed_where_it_is_used() {
    let scenes = [world::named::fail_over, world::named::lose_a_router];
    for (mutant, scene) in [
        (Mutant::LeaveNodes, 0),
        (Mutant::ForgetRings, 1),
        (Mutant::KeepFirstRoute, 1),
        (Mutant::KeepDeadRouters, 1),
    ] {
        Mutant::switch(Some(mutant));
        let noticed = scenes[scene]();
        Mutant::switch(None);
        assert!(noticed.is_err(), "{mutant:?} is not noticed");
    }
}

#[test]
fn who_sends_all_of_what_is_wanted_less_often_is_noticed() {
    Mutant::switch(Some(Mutant::SampleEverything));
    let noticed = world::named::want_less_often(false);
    Mutant::switch(None);
    assert!(noticed.as_ref().is_err_and(|wrong| wrong.contains("that may")), "{noticed:?}");
}
