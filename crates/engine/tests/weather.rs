//! Any sequence of faults, one at a time, with the redundancy restored in between: nothing that may not be lost is lost,
//! nothing is handed over twice, and in the end one broker reigns and the other stands by.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

mod world;

use contract::Span;
use proptest::prelude::*;
use wire::Frame;
use world::Who;
use world::run::{Run, replicated, run, urgent};

/// Something that goes wrong, or is done on purpose.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The broker that reigns dies, and is started again after a while.
    KillPrimary(i64),
    /// The one that stands by does.
    KillBackup(i64),
    /// The primary sleeps.
    PausePrimary(i64),
    /// The backup sleeps.
    PauseBackup(i64),
    /// The brokers cannot reach each other for a while.
    CutPair(i64),
    /// The operator hands over.
    Handover,
    /// The publisher's connection to a broker breaks.
    BreakPublisher(usize),
    /// The subscriber's does.
    BreakSubscriber(usize),
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let millis = || prop_oneof![0_i64..60, 60_i64..900];
    prop_oneof![
        3 => millis().prop_map(Fault::KillPrimary),
        1 => millis().prop_map(Fault::KillBackup),
        2 => millis().prop_map(Fault::PausePrimary),
        1 => millis().prop_map(Fault::PauseBackup),
        2 => millis().prop_map(Fault::CutPair),
        2 => Just(Fault::Handover),
        1 => (0_usize..2).prop_map(Fault::BreakPublisher),
        1 => (0_usize..2).prop_map(Fault::BreakSubscriber),
    ]
}

fn reigning(run: &Run) -> usize {
    let reigns = |index: &usize| run.world.brokers[*index].is_some() && run.world.broker(*index).is_primary();
    (0..2).find(reigns).unwrap_or(0)
}

/// Lets a fault happen while messages flow.
fn suffer(run: &mut Run, fault: Fault) {
    let primary = reigning(run);
    let backup = 1 - primary;
    match fault {
        Fault::KillPrimary(millis) | Fault::KillBackup(millis) => {
            let victim = if matches!(fault, Fault::KillPrimary(_)) { primary } else { backup };
            run.world.kill(victim);
            run.publish_for(Span::millis(millis));
            run.world.start(victim);
        }
        Fault::PausePrimary(millis) | Fault::PauseBackup(millis) => {
            let victim = if matches!(fault, Fault::PausePrimary(_)) { primary } else { backup };
            run.world.pause(Who::Broker(victim));
            run.publish_for(Span::millis(millis));
            run.world.resume(Who::Broker(victim));
        }
        Fault::CutPair(millis) => {
            run.world.cut_pair();
            run.publish_for(Span::millis(millis));
            run.world.mend_pair();
        }
        Fault::Handover => run.world.request(run.publisher, primary as u8, &Frame::Handover),
        Fault::BreakPublisher(broker) => run.world.break_link(run.publisher, broker),
        Fault::BreakSubscriber(broker) => run.world.break_link(run.subscriber, broker),
    }
}

/// Until the pair is protected and both clients are connected to both brokers, which the fault model assumes.
fn recover(run: &mut Run) -> bool {
    let deadline = run.world.now + Span::secs(12);
    let is_whole = |run: &Run| {
        let primary = reigning(run);
        let whole = run.world.broker(primary).is_primary() && run.world.broker(primary).is_protected();
        let connected =
            [run.publisher, run.subscriber].map(|client| run.world.endpoint(client).connected().count());
        whole && connected == [2, 2] && run.world.endpoint(run.publisher).has_primary()
    };
    while !is_whole(run) {
        if run.world.now > deadline {
            return false;
        }
        run.publish_for(Span::millis(10));
    }
    // Registrations and what is still under way.
    run.publish_for(Span::millis(300));
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_sequence_of_single_faults_loses_what_may_not_be_lost(
        faults in prop::collection::vec((any_fault(), 0_i64..120), 1..7),
    ) {
        let mut run = run(&[urgent(), replicated(), urgent().confirmed(), replicated().confirmed()]);
        run.publish_for(Span::millis(200));
        for (fault, moment) in faults {
            run.publish_for(Span::millis(moment));
            suffer(&mut run, fault);
            prop_assert!(recover(&mut run), "the pair did not recover from {fault:?}: {:?}", run.logs());
        }
        run.world.run_for(Span::millis(500));
        let missing = run.missing();
        prop_assert!(missing.iter().all(Vec::is_empty), "missing {missing:?}; {:?}", run.logs());
        run.assert_no_duplicates();
        let primaries = (0..2).filter(|broker| run.world.broker(*broker).is_primary()).count();
        prop_assert_eq!(primaries, 1);
    }
}
