//! Every interleaving of dispatching, copying, pruning, confirming and a crash, for one and two messages.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Contract, Mutant, Span};
use sim::model::Model;

/// Nothing may be lost, one message is retained, copies are needed.
fn copied() -> Contract {
    Contract::every(Span::millis(100)).retain(1)
}

/// The same, retained so well that none are.
fn retained() -> Contract {
    Contract::every(Span::millis(100)).retain(2)
}

fn model(contract: Contract, messages: u64) -> Model {
    Model { contract, messages, prunes_leave_last: true, premise: true }
}

#[test]
fn nothing_is_lost_or_handed_over_twice_whatever_the_order() {
    let cases = [
        ("copied, one", model(copied(), 1)),
        ("copied, two", model(copied(), 2)),
        ("copied and confirmed, one", model(copied().confirmed(), 1)),
        ("copied and confirmed, two", model(copied().confirmed(), 2)),
        ("retained, two", model(retained(), 2)),
    ];
    for (name, model) in cases {
        let explored = model.explore().unwrap_or_else(|found| panic!("{name}: {found:#?}"));
        println!("{name}: {} states, {} ends", explored.states, explored.ends);
        assert!(explored.states > 200 && explored.ends > 1, "{name}: {explored:?}");
    }
}

#[test]
fn the_order_in_which_prunes_leave_is_needed() {
    let model = Model { prunes_leave_last: false, ..model(copied(), 2) };
    let found = model.explore().unwrap_err();
    assert!(found.what.contains("lost"), "{found:#?}");
}

#[test]
fn the_premise_of_lemma_1_is_needed() {
    let found = Model { premise: false, ..model(copied(), 2) }.explore().unwrap_err();
    assert!(found.what.contains("lost"), "{found:#?}");
}

#[test]
fn faults_on_purpose_are_found() {
    let faults = [
        (Mutant::KeepCopiesBack, "lost"),
        (Mutant::IgnorePrunes, "pruned"),
        (Mutant::ForgetRetained, "lost"),
        (Mutant::HandOverTwice, "twice"),
    ];
    for (mutant, expected) in faults {
        Mutant::switch(Some(mutant));
        let found = model(copied(), 2).explore().map(|_| ()).unwrap_err();
        Mutant::switch(None);
        assert!(found.what.contains(expected), "{mutant:?}: {found:#?}");
    }
}
