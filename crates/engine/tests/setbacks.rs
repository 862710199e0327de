//! Awkward coincidences, each of which once lost something or stopped somebody.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use contract::{Contract, Epoch, NodeId, Reign, Span};
use endpoint::{PublicationState, Reigning};
use wire::{Frame, Standing};
use world::run::{replicated, run, run_with, urgent};
use world::{Who, World};

#[test]
fn a_topic_that_is_published_again_by_the_same_client_begins_a_new_stream() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::millis(500));
    run.world.withdraw(run.publisher, run.topics[0].0);
    run.world.run_for(Span::millis(20));
    let number = run.world.advertise(run.publisher, "t/0", urgent());
    run.world.run_for(Span::millis(100));
    let before = run.world.seen(run.subscriber).messages.len();
    for _ in 0..5 {
        run.world.publish(run.publisher, number, b"again").unwrap();
        run.world.run_for(Span::millis(50));
    }
    assert_eq!(run.world.seen(run.subscriber).messages.len(), before + 5);
}

#[test]
fn a_subscriber_that_was_deferred_by_one_burst_receives_what_follows() {
    let mut run = run(&[urgent()]);
    let topic = run.topics[0].0;
    run.world.publish_batch(run.publisher, &vec![(topic, vec![7; 400 << 10]); 4]);
    run.sent[0] += 4;
    run.world.run_for(Span::secs(1));
    run.publish_for(Span::secs(2));
    run.assert_nothing_missing();
}

#[test]
fn the_largest_payload_behind_small_ones_is_carried() {
    let mut run = run(&[urgent()]);
    let topic = run.topics[0].0;
    run.world.publish_batch(run.publisher, &[(topic, vec![1; 2_000]), (topic, vec![7; 1 << 20])]);
    run.sent[0] += 2;
    run.world.run_for(Span::secs(1));
    run.assert_nothing_missing();
    assert!(run.world.seen(run.publisher).dismissed.is_empty());
}

#[test]
fn a_confirmed_topic_with_more_subscribers_than_it_may_have_is_refused() {
    let mut world = World::protected(|_| {});
    let subscribers: Vec<_> = (0..66).map(|index| world.add_client(&format!("s{index}"))).collect();
    let publisher = world.add_client("p");
    world.run_for(Span::millis(50));
    for subscriber in subscribers {
        world.subscribe(subscriber, "#");
    }
    world.run_for(Span::millis(50));
    let topic = world.advertise(publisher, "t", replicated().confirmed());
    world.run_for(Span::millis(50));
    assert!(world.publish(publisher, topic, b"x").unwrap_err().to_string().contains("may have 64"));
}

#[test]
fn a_number_at_the_end_of_its_range_breaks_nobody() {
    let mut run = run(&[urgent()]);
    run.world.publish_raw(run.publisher, 0, run.topics[0].0, u64::MAX);
    run.publish_for(Span::millis(300));
    run.assert_nothing_missing();
}

#[test]
fn a_verdict_that_died_with_the_primary_is_given_by_the_next() {
    let mut world = World::protected(|_| {});
    let publisher = world.add_client("p");
    world.run_for(Span::millis(50));
    world.stall_at(publisher, 0, true);
    let topic = world.advertise(publisher, "t", urgent());
    world.run_for(Span::millis(5));
    world.kill(0);
    world.run_for(Span::millis(200));
    assert!(world.publish(publisher, topic, b"x").is_ok());
}

#[test]
fn a_subscription_made_during_an_outage_is_answered() {
    let mut world = World::protected(|_| {});
    let subscriber = world.add_client("s");
    world.run_for(Span::millis(50));
    world.pause(Who::Broker(0));
    world.run_for(Span::millis(1));
    world.subscribe(subscriber, "#");
    world.run_for(Span::millis(500));
    assert_eq!(world.seen(subscriber).subscribed.len(), 1);
}

#[test]
fn a_message_that_waits_for_an_absent_subscriber_keeps_its_copy() {
    let mut run = run(&[replicated()]);
    run.publish_for(Span::millis(500));
    run.world.break_link(run.subscriber, 0);
    run.world.run_for(Span::millis(5));
    run.world.publish(run.publisher, run.topics[0].0, b"m").unwrap();
    run.sent[0] += 1;
    run.world.run_for(Span::millis(10));
    run.world.kill(0);
    run.publish_for(Span::millis(300));
    run.assert_nothing_missing();
}

#[test]
fn a_publisher_that_the_primary_forgot_is_known_to_the_backup_again() {
    let mut run = run_with(|settings| settings.limits.stream_linger = Span::secs(1), &[urgent()]);
    run.publish_for(Span::millis(500));
    run.world.wall(run.publisher, 0, true);
    run.world.break_link(run.publisher, 0);
    run.world.run_for(Span::secs(3));
    run.world.wall(run.publisher, 0, false);
    run.world.run_for(Span::secs(1));
    run.publish_for(Span::millis(500));
    run.world.kill(0);
    run.publish_for(Span::secs(1));
    run.assert_nothing_missing();
}

#[test]
fn a_device_whose_clock_went_back_is_heard_again() {
    let mut run = run_with(|settings| settings.limits.stream_linger = Span::secs(1), &[urgent()]);
    run.publish_for(Span::millis(500));
    run.world.break_link(run.publisher, 0);
    run.world.break_link(run.publisher, 1);
    run.world.pause(Who::Client(run.publisher));
    run.world.run_for(Span::secs(10));
    let again = run.world.add_client_as("publisher", 5);
    run.world.run_for(Span::millis(100));
    let topic = run.world.advertise(again, "t/0", urgent());
    run.world.run_for(Span::millis(100));
    let before = run.world.seen(run.subscriber).messages.len();
    for _ in 0..5 {
        run.world.publish(again, topic, b"new life").unwrap();
        run.world.run_for(Span::millis(50));
    }
    assert_eq!(run.world.seen(run.subscriber).messages.len(), before + 5);
}

#[test]
fn a_clock_that_jumps_forward_dismisses_nobody() {
    for who in [Who::Broker(0), Who::Broker(1)] {
        let mut run = run(&[urgent(), replicated()]);
        run.publish_for(Span::millis(500));
        run.world.skew(who, Span::secs(10));
        run.publish_for(Span::secs(1));
        run.assert_nothing_missing();
        assert!(run.world.seen(run.subscriber).dismissed.is_empty());
        assert!(run.world.broker(0).is_primary() && run.world.broker(0).is_protected(), "{:?}", run.logs());
    }
}

#[test]
fn a_subscriber_that_restarts_leaves_no_message_unsettled() {
    let mut run = run_with(|s| s.limits.stream_linger = Span::secs(1), &[replicated().confirmed()]);
    let other = run.world.add_client("a-other");
    run.world.run_for(Span::millis(50));
    run.world.subscribe(other, "#");
    run.publish_for(Span::millis(300));
    run.world.pause(Who::Client(run.subscriber));
    run.world.publish(run.publisher, run.topics[0].0, b"m").unwrap();
    run.world.run_for(Span::millis(5));
    let again = run.world.add_client("subscriber");
    run.world.run_for(Span::millis(100));
    run.world.subscribe(again, "#");
    run.world.run_for(Span::millis(500));
    run.world.withdraw(run.publisher, run.topics[0].0);
    run.world.run_for(Span::secs(5));
    run.world.request(other, 0, &Frame::StatusRequest { first_stream: 0, rows: 10 });
    run.world.run_for(Span::millis(10));
    let answer = run.world.seen(other).answers.join("\n");
    assert!(answer.contains("utilisation_ppm: 0,"), "{answer}");
}

#[test]
fn a_new_primary_that_dies_right_after_a_handover_takes_nothing_with_it() {
    for moment in 0..60 {
        let mut run = run(&[urgent()]);
        run.publish_for(Span::millis(500));
        run.world.run_for(Span::millis(30));
        run.world.request(run.publisher, 0, &Frame::Handover);
        run.world.run_for(Span::micros(50));
        run.world.publish(run.publisher, run.topics[0].0, b"m").unwrap();
        run.sent[0] += 1;
        run.world.run_for(Span::micros(moment * 10));
        run.world.kill(1);
        run.world.run_for(Span::secs(5));
        assert!(run.world.broker(0).is_primary());
        assert!(run.missing()[0].is_empty(), "killed {} us after the handover", moment * 10);
    }
}

#[test]
fn a_handover_loses_not_even_what_nobody_retains() {
    let loose = Contract::every(Span::millis(1)).deadline(Span::millis(50)).tolerate(60).retain(0);
    for moment in 0..20 {
        let mut run = run(&[loose]);
        run.publish_for(Span::millis(50));
        run.world.run_for(Span::micros(moment * 37));
        run.world.request(run.publisher, 0, &Frame::Handover);
        run.publish_for(Span::millis(100));
        run.assert_nothing_missing();
        let promotions = run.logs().concat().iter().filter(|line| line.contains("is primary")).count();
        assert_eq!(promotions, 2, "one promotion per handover: {:?}", run.logs());
    }
}

#[test]
fn whoever_asks_for_more_status_than_it_reads_is_dismissed() {
    let mut world = World::protected(|_| {});
    let client = world.add_client("p");
    world.run_for(Span::millis(50));
    for index in 0..256 {
        world.advertise(
            client,
            &format!("plant/line/{index}/value"),
            Contract::every(Span::secs(1)).retain(2),
        );
    }
    world.run_for(Span::millis(50));
    world.stall_at(client, 0, true);
    for _ in 0..200 {
        world.send_raw(client, 0, &Frame::StatusRequest { first_stream: 0, rows: 256 });
    }
    world.run_for(Span::millis(10));
    assert!(
        world.log(0).iter().any(|line| line.contains("asks for more than it reads")),
        "{:?}",
        world.log(0)
    );
    assert!(world.broker(0).is_protected());
}

#[test]
fn an_epoch_out_of_all_proportion_is_not_believed() {
    let mut run = run(&[urgent()]);
    let rogue = run.world.add_client("rogue");
    run.world.run_for(Span::millis(100));
    let reign = Reign { epoch: Epoch(u64::MAX), node: NodeId(5) };
    run.world.send_raw(rogue, 0, &Frame::Reign { reign, standing: Standing::Orphaned });
    run.publish_for(Span::millis(300));
    for from in [0, 1] {
        run.world.request(run.publisher, from, &Frame::Handover);
        run.publish_for(Span::millis(500));
    }
    run.assert_nothing_missing();
}

#[test]
fn a_backup_whose_joining_failed_tries_again_on_another_connection() {
    let mut world = World::new(|_| {});
    // Both dial, so that there are two connections; then the primary is too slow to answer the first polls.
    world.run_for(Span::millis(150));
    for _ in 0..5 {
        world.pause(Who::Broker(0));
        world.run_for(Span::millis(18));
        world.resume(Who::Broker(0));
        world.run_for(Span::millis(1));
    }
    world.run_for(Span::secs(2));
    let primaries = (0..2).filter(|broker| world.broker(*broker).is_primary()).count();
    assert_eq!(primaries, 1);
    let reigning = usize::from(world.broker(1).is_primary());
    assert!(world.broker(reigning).is_protected(), "{:?} {:?}", world.log(0).to_vec(), world.log(1).to_vec());
}

#[test]
fn a_subscriber_that_stays_away_does_not_keep_every_copy() {
    let mut run = run(&[replicated()]);
    let other = run.world.add_client("other");
    run.world.run_for(Span::millis(50));
    run.world.subscribe(other, "#");
    run.publish_for(Span::millis(500));
    for broker in 0..2 {
        run.world.wall(other, broker, true);
        run.world.break_link(other, broker);
    }
    run.publish_for(Span::secs(4));
    run.world.kill(0);
    run.publish_for(Span::millis(300));
    run.assert_nothing_missing();
    let promoted = run.logs().concat().into_iter().find(|line| line.contains("epoch 2")).unwrap();
    assert!(!promoted.contains("copies dispatched") || promoted.contains("; 1 copies"), "{promoted}");
}

#[test]
fn a_handover_to_a_backup_that_has_heard_of_a_higher_epoch_succeeds() {
    let mut run = run(&[urgent()]);
    let other = run.world.add_client("other");
    run.world.run_for(Span::millis(100));
    let reign = Reign { epoch: Epoch(7), node: NodeId(5) };
    run.world.send_raw(other, 1, &Frame::Reign { reign, standing: Standing::Orphaned });
    run.publish_for(Span::millis(300));
    run.world.request(run.publisher, 0, &Frame::Handover);
    run.publish_for(Span::secs(3));
    run.assert_nothing_missing();
    assert!(run.world.broker(1).is_primary() && run.world.broker(1).is_protected(), "{:?}", run.logs());
}

#[test]
fn a_message_that_was_forwarded_long_ago_does_not_come_back() {
    let mut world = World::protected(|_| {});
    let (publisher, subscriber) = (world.add_client("publisher"), world.add_client("s"));
    world.run_for(Span::millis(50));
    world.subscribe(subscriber, "#");
    let topic = world.advertise(publisher, "t", urgent());
    world.run_for(Span::millis(50));
    let flow = |world: &mut World, messages: u32| {
        for _ in 0..messages {
            world.publish(publisher, topic, b"x").unwrap();
            world.run_for(Span::millis(50));
        }
    };
    flow(&mut world, 3);
    world.request(publisher, 0, &Frame::Handover);
    world.run_for(Span::millis(10));
    assert!(world.broker(1).is_primary() && world.broker(1).is_protected());
    // A message on a slow way to the old primary.
    world.publish_raw(publisher, 0, topic, 3);
    flow(&mut world, 1_000);
    let fresh = world.add_client("fresh");
    world.run_for(Span::millis(60));
    world.subscribe(fresh, "#");
    world.run_for(Span::millis(60));
    world.kill(1);
    world.run_for(Span::millis(50));
    flow(&mut world, 60);
    assert!(world.seen(fresh).messages[0].1 >= 1_000);
    assert_eq!(world.endpoint(fresh).streams().map(|stream| stream.tally.lost()).sum::<u64>(), 0);
}

#[test]
fn what_a_new_primary_had_copied_back_survives_its_death() {
    for moment in (0..300).step_by(20) {
        for wait in [5, 60, 90] {
            let mut run = run(&[replicated().confirmed()]);
            run.publish_for(Span::millis(550));
            run.world.stall_at(run.subscriber, 1, true);
            run.world.request(run.publisher, 0, &Frame::Handover);
            run.world.run_for(Span::micros(moment));
            run.world.publish(run.publisher, run.topics[0].0, b"m").unwrap();
            run.sent[0] += 1;
            run.world.run_for(Span::millis(wait));
            run.world.kill(1);
            run.world.run_for(Span::millis(105 - wait));
            run.publish_for(Span::millis(300));
            run.assert_nothing_missing();
        }
    }
}

#[test]
fn a_small_step_of_a_clock_unprotects_nobody() {
    for (broker, step) in [(0, 300), (1, 300), (0, 900), (1, 900)] {
        let mut run = run(&[urgent(), replicated()]);
        run.publish_for(Span::millis(500));
        run.world.skew(Who::Broker(broker), Span::millis(step));
        run.publish_for(Span::secs(1));
        run.assert_nothing_missing();
        assert!(!run.logs().concat().iter().any(|line| line.contains("UNPROTECTED")), "{:?}", run.logs());
    }
}

#[test]
fn a_handover_whose_successor_dies_is_answered_with_no() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::millis(300));
    run.world.request(run.publisher, 0, &Frame::Handover);
    run.world.run_for(Span::micros(150));
    run.world.kill(1);
    run.publish_for(Span::secs(6));
    let answers = run.world.seen(run.publisher).answers.join("\n");
    assert!(run.world.broker(0).is_primary() && answers.contains("done: false"), "{answers}");
}

/// A pair, a publisher and a subscriber with one topic; the given client cannot reach broker b.
fn without_way_to_b(client: impl Fn(&world::run::Run) -> usize) -> world::run::Run {
    // The other broker lets nobody through, as where it is full.
    let mut run = run_with(|settings| settings.limits.relayed = 0, &[urgent()]);
    run.publish_for(Span::millis(200));
    let client = client(&run);
    run.world.wall(client, 1, true);
    run.world.break_link(client, 1);
    run.publish_for(Span::millis(200));
    run.world.seen(client).reigning.clear();
    run.world.request(run.publisher, 0, &Frame::Handover);
    run
}

#[test]
fn a_subscriber_that_cannot_reach_the_new_primary_is_told_so() {
    let mut run = without_way_to_b(|run| run.subscriber);
    run.publish_for(Span::millis(300));
    assert!(!run.world.endpoint(run.subscriber).has_primary());
    assert_eq!(run.world.seen(run.subscriber).reigning, [Reigning::Nobody]);
    run.world.wall(run.subscriber, 1, false);
    run.publish_for(Span::secs(2));
    assert!(run.world.endpoint(run.subscriber).has_primary());
}

#[test]
fn a_publisher_that_cannot_reach_the_new_primary_is_forwarded_for_a_while_and_then_told() {
    let mut run = without_way_to_b(|run| run.publisher);
    run.publish_for(Span::millis(40));
    assert!(run.world.endpoint(run.publisher).has_primary());
    run.assert_nothing_missing();
    run.publish_for(Span::millis(300));
    assert_eq!(run.world.seen(run.publisher).reigning, [Reigning::Nobody]);
}

#[test]
fn what_a_standby_cannot_take_is_not_refused() {
    let mut world = World::protected(|settings| {
        settings.limits.relayed = 0;
        settings.limits.streams = 1;
        settings.limits.sessions = 1;
    });
    let (holder, other) = (world.add_client("holder"), world.add_client("other"));
    world.run_for(Span::millis(50));
    world.advertise(holder, "t", urgent());
    world.subscribe(holder, "#");
    world.run_for(Span::millis(50));
    world.wall(other, 1, true);
    world.break_link(other, 1);
    world.request(holder, 0, &Frame::Handover);
    world.run_for(Span::millis(10));
    assert!(world.broker(1).is_primary() && world.endpoint(other).has_primary());
    let topic = world.advertise(other, "u", urgent());
    world.subscribe(other, "#");
    world.run_for(Span::millis(300));
    assert_eq!(world.seen(other).verdicts.get(&topic), None);
    assert!(world.seen(other).subscribed.is_empty());
    // The one that reigns has the last word.
    world.wall(other, 1, false);
    world.run_for(Span::secs(2));
    assert!(matches!(world.seen(other).verdicts[&topic], PublicationState::Refused(..)));
    assert!(world.seen(other).subscribed[0].is_err());
}

#[test]
fn a_subscription_for_which_a_standby_had_no_room_is_asked_again_when_it_reigns() {
    let mut world = World::protected(|settings| {
        // The other broker of the pair has room for one subscriber.
        settings.limits.sessions = if settings.prefers_to_reign { 2 } else { 1 };
    });
    let (first, second) = (world.add_client("first"), world.add_client("second"));
    world.run_for(Span::millis(50));
    world.subscribe(first, "a");
    world.run_for(Span::millis(50));
    world.subscribe(second, "b");
    world.run_for(Span::millis(50));
    assert_eq!(world.seen(second).subscribed, [Ok(String::new())]);
    world.kill(0);
    world.run_for(Span::millis(300));
    assert!(matches!(&world.seen(second).subscribed[1..], [Err(text)] if text.contains("limits.sessions")));
}

#[test]
fn a_backup_gives_up_as_few_unadmitted_streams_as_it_must() {
    let mut world = World::protected(|settings| {
        settings.limits.relayed = 0;
        if !settings.prefers_to_reign {
            settings.limits.streams = 3;
            settings.limits.ring_slots_max = 16;
        }
    });
    let (stranded, publisher) = (world.add_client("stranded"), world.add_client("publisher"));
    world.run_for(Span::millis(50));
    world.wall(stranded, 0, true);
    world.break_link(stranded, 0);
    world.run_for(Span::millis(50));
    world.advertise(stranded, "x", urgent());
    world.advertise(stranded, "y", urgent());
    world.run_for(Span::millis(50));
    assert_eq!(world.broker(1).occupancy().streams, 2);
    // A stream that this backup cannot keep in any case takes nobody's place.
    world.advertise(publisher, "long", Contract::every(Span::millis(50)).retain(40));
    world.run_for(Span::millis(50));
    assert_eq!(world.broker(0).occupancy().streams, 1);
    assert_eq!(world.broker(1).occupancy().streams, 2);
    for topic in ["a", "b"] {
        world.advertise(publisher, topic, urgent());
        world.run_for(Span::millis(50));
    }
    assert_eq!(world.broker(0).occupancy().streams, 3);
    assert_eq!(world.broker(1).occupancy().streams, 3);
    world.kill(0);
    world.run_for(Span::millis(300));
    let admitted = world.seen(stranded).verdicts.values();
    let admitted = admitted.filter(|state| matches!(state, PublicationState::Admitted(_))).count();
    assert_eq!(admitted, 1);
}

#[test]
fn a_publisher_that_sends_far_more_at_once_than_is_kept_loses_nothing() {
    let mut run = run(&[urgent()]);
    let topic = run.topics[0].0;
    let burst: Vec<(u32, Vec<u8>)> = (0..2_000_u64).map(|seq| (topic, seq.to_le_bytes().to_vec())).collect();
    run.world.publish_batch(run.publisher, &burst);
    run.sent[0] += 2_000;
    run.world.run_for(Span::secs(1));
    run.publish_for(Span::secs(1));
    run.assert_nothing_missing();
}
