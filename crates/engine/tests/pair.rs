//! A pair of brokers and their clients on virtual time: what happens to messages when things go wrong.

#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use contract::{Contract, Span, TopicFilter};
use endpoint::PublicationState;
use wire::Frame;
use world::run::{Run, replicated, run, run_with, urgent};
use world::{Who, World};

#[test]
fn messages_flow_with_their_payload_and_latency() {
    let mut run = run(&[urgent(), replicated()]);
    run.publish_for(Span::secs(1));
    run.assert_nothing_missing();
    let messages = &run.world.seen(run.subscriber).messages;
    assert_eq!(messages.len(), 30);
    assert!(messages.iter().all(|(.., latency, _)| *latency == Span::micros(200)), "two hops of 100 us");
    assert!(messages.iter().all(|(_, seq, _, payload)| seq.to_le_bytes() == payload[..]));
}

#[test]
fn only_what_needs_a_copy_is_copied_and_the_copies_are_pruned() {
    let mut run = run(&[urgent(), replicated()]);
    run.publish_for(Span::secs(1));
    run.world.request(run.publisher, 0, &Frame::StatusRequest { first_stream: 0, rows: 10 });
    run.world.run_for(Span::millis(10));
    let answer = run.world.seen(run.publisher).answers.join("\n");
    assert!(
        answer.contains("arrived: 30") && answer.contains("replicated: 10") && answer.contains("pruned: 10"),
        "{answer}"
    );
}

#[test]
fn the_baselines_copy_everything_and_one_of_them_prunes() {
    let counters = |tune: fn(&mut broker::Settings)| {
        let mut run = run_with(tune, &[urgent(), replicated()]);
        run.publish_for(Span::secs(1));
        run.assert_nothing_missing();
        run.world.request(run.publisher, 0, &Frame::StatusRequest { first_stream: 0, rows: 0 });
        run.world.run_for(Span::millis(10));
        run.world.kill(0);
        run.publish_for(Span::millis(300));
        run.assert_nothing_missing();
        run.world.seen(run.publisher).answers.join("")
    };
    let fcfs = counters(|settings| settings.policy = broker::Policy::Fcfs);
    assert!(fcfs.contains("replicated: 30") && fcfs.contains("pruned: 30"), "{fcfs}");
    let minus = counters(|settings| settings.policy = broker::Policy::FcfsMinus);
    assert!(minus.contains("replicated: 30") && minus.contains("pruned: 0"), "{minus}");
}

fn lazily(settings: &mut broker::Settings) {
    settings.replication = broker::Replication::Lazy(contract::Lazy::default());
}

#[test]
fn lazy_copies_are_made_only_of_what_is_not_dispatched() {
    let mut run = run_with(lazily, &[urgent(), replicated()]);
    run.publish_for(Span::secs(1));
    run.assert_nothing_missing();
    run.world.request(run.publisher, 0, &Frame::StatusRequest { first_stream: 0, rows: 0 });
    run.world.run_for(Span::millis(10));
    let answer = run.world.seen(run.publisher).answers.join("");
    assert!(answer.contains("replicated: 0"), "all were dispatched in time: {answer}");
}

#[test]
fn rounds_copy_everything_or_what_is_not_dispatched() {
    let counters = |tune: fn(&mut broker::Settings)| {
        let mut run = run_with(tune, &[urgent(), replicated()]);
        run.publish_for(Span::secs(1));
        run.world.request(run.publisher, 0, &Frame::StatusRequest { first_stream: 0, rows: 0 });
        run.world.run_for(Span::millis(10));
        run.world.seen(run.publisher).answers.join("")
    };
    let all = counters(|settings| {
        settings.replication =
            broker::Replication::Periodic { period: Span::millis(25), skip_dispatched: false };
    });
    assert!(all.contains("replicated: 30"), "{all}");
    let some = counters(|settings| {
        settings.replication =
            broker::Replication::Periodic { period: Span::millis(25), skip_dispatched: true };
    });
    assert!(some.contains("replicated: 0"), "{some}");
    let none = counters(|settings| settings.replication = broker::Replication::RetransmissionOnly);
    assert!(none.contains("replicated: 0"), "{none}");
}

#[test]
fn a_crash_at_any_moment_loses_nothing_that_may_not_be_lost_with_lazy_copies() {
    for moment in 0..60 {
        let mut run = run_with(lazily, &[urgent(), replicated()]);
        run.publish_for(Span::millis(500));
        run.publish_for(Span::micros(moment * 1_700));
        run.world.kill(0);
        run.publish_for(Span::millis(500));
        run.assert_nothing_missing();
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing_that_may_not_be_lost() {
    for moment in 0..60 {
        let mut run = run(&[urgent(), replicated()]);
        run.publish_for(Span::millis(500));
        run.world.run_for(Span::micros(moment * 20));
        let moment = Span::micros(moment * 1_700);
        run.publish_for(moment);
        run.world.kill(0);
        run.publish_for(Span::millis(500));
        run.assert_nothing_missing();
        assert!(run.world.broker(1).is_primary());
    }
}

#[test]
fn a_tolerated_run_is_not_exceeded_when_nothing_is_retained() {
    let tolerant = Contract::every(Span::millis(50)).tolerate(3).retain(0);
    for moment in 0..50 {
        let mut run = run(&[tolerant]);
        run.publish_for(Span::millis(moment * 7));
        run.world.kill(0);
        run.publish_for(Span::millis(500));
        run.world.run_for(Span::millis(500));
        let missing = run.missing().remove(0);
        let longest = missing.chunk_by(|a, b| a + 1 == *b).map(<[u64]>::len).max().unwrap_or(0);
        assert!(longest <= 3, "{missing:?}");
    }
}

#[test]
fn a_paused_primary_is_replaced_and_steps_down_when_it_wakes() {
    let mut run = run(&[urgent(), replicated()]);
    run.publish_for(Span::millis(300));
    run.world.pause(Who::Broker(0));
    run.publish_for(Span::millis(300));
    assert!(run.world.broker(1).is_primary());
    run.world.resume(Who::Broker(0));
    run.publish_for(Span::millis(500));
    run.assert_nothing_missing();
    assert!(!run.world.broker(0).is_primary() && run.world.broker(1).is_protected(), "{:?}", run.logs());
}

#[test]
fn a_restarted_broker_rejoins_and_a_second_crash_is_survived() {
    let mut run = run(&[urgent(), replicated()]);
    run.publish_for(Span::millis(300));
    run.world.kill(0);
    run.publish_for(Span::millis(300));
    run.world.start(0);
    run.publish_for(Span::secs(2));
    assert!(run.world.broker(1).is_protected(), "{:?}", run.logs());
    run.world.kill(1);
    run.publish_for(Span::millis(500));
    run.assert_nothing_missing();
    assert!(run.world.broker(0).is_primary());
}

#[test]
fn a_backup_that_dies_leaves_the_pair_unprotected_and_loses_nothing() {
    let mut run = run(&[urgent(), replicated()]);
    run.publish_for(Span::millis(300));
    run.world.kill(1);
    run.publish_for(Span::millis(300));
    assert!(!run.world.broker(0).is_protected());
    assert!(run.world.log(0).iter().any(|line| line.contains("UNPROTECTED")));
    run.world.start(1);
    run.publish_for(Span::secs(1));
    assert!(run.world.broker(0).is_protected());
    run.assert_nothing_missing();
}

#[test]
fn a_planned_handover_loses_nothing_and_can_be_repeated() {
    let mut run = run(&[urgent(), replicated(), Contract::every(Span::millis(50)).tolerate(3).retain(0)]);
    for round in 0..4_u8 {
        run.publish_for(Span::millis(333));
        let from = round % 2;
        run.world.request(run.publisher, from, &Frame::Handover);
        run.publish_for(Span::millis(700));
        assert!(run.world.broker(usize::from(1 - from)).is_primary(), "{:?}", run.logs());
        assert!(run.world.broker(usize::from(1 - from)).is_protected(), "{:?}", run.logs());
    }
    let answers = run.world.seen(run.publisher).answers.join("\n");
    assert_eq!(answers.matches("done: true").count(), 4, "{answers}");
    run.assert_nothing_missing();
}

#[test]
fn a_handover_without_a_backup_is_refused_with_the_reason() {
    let mut run = run(&[urgent()]);
    run.world.kill(1);
    run.world.run_for(Span::millis(100));
    run.world.request(run.publisher, 0, &Frame::Handover);
    run.world.run_for(Span::millis(10));
    assert!(run.world.seen(run.publisher).answers[0].contains("unprotected"));
}

#[test]
fn a_primary_that_is_asked_to_end_hands_over_and_leaves() {
    let mut run = run(&[urgent(), replicated(), Contract::every(Span::millis(50)).tolerate(3).retain(0)]);
    run.publish_for(Span::millis(333));
    run.world.leave(0);
    let asked = run.world.now;
    while !run.world.brokers[0].as_ref().unwrap().has_left(run.world.now) {
        run.publish_for(Span::millis(1));
    }
    assert!(run.world.now.since(asked) < Span::millis(100), "its publishers have moved, so it need not wait");
    run.world.kill(0);
    run.publish_for(Span::millis(500));
    assert!(run.world.broker(1).is_primary());
    run.assert_nothing_missing();
}

#[test]
fn brokers_that_are_cut_off_from_each_other_end_with_one_primary_and_nothing_lost() {
    let mut run = run(&[urgent(), replicated()]);
    run.publish_for(Span::millis(300));
    run.world.cut_pair();
    run.publish_for(Span::millis(700));
    assert!(run.world.broker(1).is_primary() && !run.world.broker(0).is_primary(), "{:?}", run.logs());
    run.world.mend_pair();
    run.publish_for(Span::secs(1));
    assert!(run.world.broker(1).is_primary() && run.world.broker(1).is_protected(), "{:?}", run.logs());
    run.assert_nothing_missing();
}

#[test]
fn brokers_that_stay_cut_off_do_not_take_the_reign_from_each_other_again_and_again() {
    let mut run = run(&[urgent()]);
    run.world.cut_pair();
    run.publish_for(Span::secs(20));
    assert!(run.world.broker(1).is_primary());
    let promotions = run.logs().concat().iter().filter(|line| line.contains("is primary")).count();
    assert_eq!(promotions, 2, "{:?}", run.logs());
    run.assert_nothing_missing();
}

#[test]
fn two_brokers_that_both_prefer_to_reign_agree_on_one() {
    let mut world = World::new(|settings| settings.prefers_to_reign = true);
    world.run_for(Span::secs(2));
    assert_ne!(world.broker(0).is_primary(), world.broker(1).is_primary());
    let reigning = usize::from(world.broker(1).is_primary());
    assert!(world.broker(reigning).is_protected());
}

#[test]
fn two_primaries_that_meet_end_as_one_pair() {
    let mut world = World::new(|settings| settings.prefers_to_reign = true);
    world.cut_pair();
    world.run_for(Span::secs(2));
    assert!(world.broker(0).is_primary() && world.broker(1).is_primary());
    world.mend_pair();
    world.run_for(Span::secs(2));
    assert_ne!(world.broker(0).is_primary(), world.broker(1).is_primary());
}

#[test]
fn a_backup_alone_waits_for_its_primary_and_then_serves() {
    let mut world = World::new(|_| {});
    world.kill(0);
    world.run_for(Span::secs(1));
    assert!(!world.broker(1).is_primary());
    world.run_for(Span::secs(3));
    assert!(world.broker(1).is_primary());
}

#[test]
fn a_pair_that_lost_its_memory_reigns_above_what_its_clients_remember() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::millis(100));
    run.world.kill(0);
    run.publish_for(Span::millis(200));
    run.world.kill(1);
    run.publish_for(Span::millis(200));
    run.world.start(0);
    run.world.start(1);
    run.publish_for(Span::secs(2));
    let before = run.world.seen(run.subscriber).messages.len();
    run.publish_for(Span::secs(1));
    assert!(run.world.seen(run.subscriber).messages.len() >= before + 19, "{:?}", run.logs());
}

#[test]
fn a_refused_contract_is_not_carried_and_says_what_would_be() {
    let mut world = World::protected(|_| {});
    let client = world.add_client("c");
    world.run_for(Span::millis(50));
    let number = world.advertise(client, "t", Contract::every(Span::millis(50)).retain(1));
    world.run_for(Span::millis(50));
    let Some(PublicationState::Refused(text, remedies)) = world.seen(client).verdicts.get(&number).cloned()
    else {
        panic!("must be refused")
    };
    assert!(text.contains("a crash could lose 1 in a row"), "{text}");
    assert_eq!(remedies.retain, Some(2));
    assert!(world.publish(client, number, b"x").is_err());
}

#[test]
fn a_configured_contract_serves_publishers_that_state_none() {
    fn tune(settings: &mut broker::Settings) {
        let filter: TopicFilter = "turbine/+/speed".parse().unwrap();
        settings.topics.push(broker::TopicRule::new(filter, urgent()));
    }
    let mut world = World::protected(tune);
    let client = world.add_client("c");
    world.run_for(Span::millis(50));
    let known = world.advertise_as(client, "turbine/7/speed", None);
    let unknown = world.advertise_as(client, "turbine/7/noise", None);
    let other = world.advertise_as(client, "turbine/8/speed", Some(replicated()));
    world.run_for(Span::millis(50));
    let verdicts = &world.seen(client).verdicts;
    assert_eq!(verdicts[&known], PublicationState::Admitted(urgent()));
    assert!(matches!(&verdicts[&unknown], PublicationState::Refused(text, _) if text.contains("[[topic]]")));
    assert!(
        matches!(&verdicts[&other], PublicationState::Refused(text, _) if text.contains("another contract"))
    );
}

#[test]
fn a_contract_taken_on_trust_by_a_backup_is_judged_when_it_reigns() {
    let mut world = World::protected(|_| {});
    let client = world.add_client("c");
    world.run_for(Span::millis(50));
    world.pause(Who::Broker(0));
    let good = world.advertise(client, "good", urgent());
    world.run_for(Span::millis(200));
    assert_eq!(world.seen(client).verdicts.get(&good), Some(&PublicationState::Admitted(urgent())));
}

#[test]
fn a_subscriber_that_never_reads_loses_its_own_oldest_messages_and_nobody_elses() {
    let mut run = run_with(
        |settings| {
            settings.limits.subscriber_backlog_bytes = 2_000;
            settings.limits.deferred_per_subscriber = 5;
            settings.limits.silence = Span::secs(60);
        },
        &[urgent()],
    );
    let sleeper = run.world.add_client("sleeper");
    run.world.run_for(Span::millis(100));
    run.world.subscribe(sleeper, "#");
    run.publish_for(Span::millis(200));
    run.world.stall(sleeper, true);
    run.world.pause(Who::Client(sleeper));
    run.publish_for(Span::secs(8));
    assert!(run.world.log(0).iter().any(|line| line.contains("sleeper does not read")), "{:?}", run.logs());
    run.assert_nothing_missing();
    run.world.stall(sleeper, false);
    run.world.resume(Who::Client(sleeper));
    run.world.run_for(Span::millis(50));
    let newest = run.sent[0] - 1;
    assert!(
        run.world.seen(sleeper).messages.iter().any(|(_, seq, ..)| *seq == newest),
        "the newest are kept"
    );
}

#[test]
fn a_confirmed_message_counts_as_dispatched_only_when_it_has_arrived() {
    let mut run = run(&[replicated().confirmed()]);
    run.publish_for(Span::millis(500));
    run.world.stall(run.subscriber, true);
    run.world.publish(run.publisher, run.topics[0].0, b"written, not read").unwrap();
    run.sent[0] += 1;
    run.world.run_for(Span::millis(20));
    // The host dies: what was only written is gone with it.
    run.world.kill(0);
    run.world.stall(run.subscriber, false);
    run.world.run_for(Span::millis(200));
    run.publish_for(Span::millis(300));
    run.assert_nothing_missing();
}

#[test]
fn two_publishers_of_one_topic_are_two_streams() {
    let mut world = World::protected(|_| {});
    let (one, two, subscriber) = (world.add_client("one"), world.add_client("two"), world.add_client("s"));
    world.run_for(Span::millis(50));
    world.subscribe(subscriber, "t");
    let (first, second) = (world.advertise(one, "t", urgent()), world.advertise(two, "t", urgent()));
    world.run_for(Span::millis(50));
    for _ in 0..3 {
        world.publish(one, first, b"1").unwrap();
        world.publish(two, second, b"2").unwrap();
        world.run_for(Span::millis(50));
    }
    assert_eq!(world.seen(subscriber).messages.len(), 6);
    assert_eq!(world.endpoint(subscriber).streams().count(), 2);
    assert!(world.endpoint(subscriber).streams().all(|stream| stream.tally.lost() == 0));
}

#[test]
fn a_publisher_that_restarts_begins_a_new_stream() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::millis(500));
    let again = run.world.add_client("publisher");
    run.world.run_for(Span::millis(100));
    let number = run.world.advertise(again, "t/0", urgent());
    run.world.run_for(Span::millis(100));
    let before = run.world.seen(run.subscriber).messages.len();
    for _ in 0..5 {
        run.world.publish(again, number, b"new life").unwrap();
        run.world.run_for(Span::millis(50));
    }
    assert_eq!(run.world.seen(run.subscriber).messages.len(), before + 5);
    assert!(run.world.seen(run.publisher).dismissed.iter().any(|text| text.contains("connected again")));
    let lost: u64 = run.world.endpoint(run.subscriber).streams().map(|stream| stream.tally.lost()).sum();
    assert_eq!(lost, 0);
}

#[test]
fn a_publisher_faster_than_its_period_is_named_and_hurts_nobody_else() {
    let mut run = run(&[urgent(), replicated()]);
    for burst in 0..200 {
        run.world.publish(run.publisher, run.topics[1].0, &[burst]).unwrap();
    }
    run.sent[1] += 200;
    run.publish_for(Span::millis(500));
    run.world.run_for(Span::millis(500));
    assert!(
        run.world.log(0).iter().any(|line| line.contains("although its period is 100ms")),
        "{:?}",
        run.logs()
    );
    let missing = run.missing();
    assert!(missing[0].is_empty());
}

#[test]
fn a_publisher_whose_clock_is_a_second_off_is_named_and_served() {
    let ahead = (Span::secs(1), "ahead of this broker's: deadlines mean nothing");
    let behind = (Span::secs(-1), "its clock is behind this broker's, or they have waited");
    for (offset, told) in [ahead, behind] {
        let mut run = run(&[urgent(), replicated()]);
        for _ in 0..10 {
            let created = run.world.now + offset;
            run.world.publish_created(run.publisher, run.topics[0].0, b"x", created).unwrap();
            run.sent[0] += 1;
            run.world.run_for(Span::millis(50));
        }
        run.assert_nothing_missing();
        assert!(run.world.log(0).iter().any(|line| line.contains(told)), "{:?}", run.logs());
    }
}

#[test]
fn strangers_are_told_apart_and_shown_the_door() {
    let mut world = World::protected(|_| {});
    let farewell = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(farewell(&world.intrude(0, b"GET / HTTP/1.1\r\n\r\n")).contains("does not speak"));
    assert!(
        farewell(&world.intrude(0, &[0x04, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]))
            .contains("greeting")
    );
    let mut version = vec![0x01, 0, 0, 0, 6, 0, 0, 0];
    version.extend_from_slice(b"VRGE");
    version.extend_from_slice(&(wire::PROTOCOL_VERSION + 1).to_le_bytes());
    assert!(farewell(&world.intrude(0, &version)).contains("same release"));
    assert_eq!(world.intrude(0, &[0x01, 0, 0]), b"", "half a frame is waited for");
    world.run_for(Span::secs(3));
    assert!(world.log(0).iter().any(|line| line.contains("no greeting came")));
    assert!(world.broker(0).is_protected());
}

#[test]
fn a_stream_whose_publisher_is_gone_is_forgotten_after_a_while() {
    let mut run = run_with(|settings| settings.limits.stream_linger = Span::secs(1), &[urgent()]);
    run.publish_for(Span::millis(200));
    run.world.withdraw(run.publisher, run.topics[0].0);
    run.world.run_for(Span::millis(500));
    run.world.request(run.subscriber, 0, &Frame::StatusRequest { first_stream: 0, rows: 10 });
    run.world.run_for(Span::millis(10));
    let answer = run.world.seen(run.subscriber).answers.join("\n");
    assert!(answer.contains("utilisation_ppm: 0,"), "{answer}");
    run.assert_nothing_missing();
}

#[test]
fn of_many_streams_without_their_publisher_some_are_forgotten_at_a_time() {
    const STREAMS: usize = 2_500;
    let contracts = vec![Contract::every(Span::secs(10)).best_effort(); STREAMS];
    let tune = |settings: &mut broker::Settings| {
        settings.limits.stream_linger = Span::secs(1);
        // Nor does it come through the other broker.
        settings.limits.relayed = 0;
    };
    let mut run = run_with(tune, &contracts);
    let slots = |run: &Run| run.world.broker(0).slots();
    let of_one = slots(&run) / STREAMS;
    assert!(of_one > 0);
    run.world.wall(run.publisher, 0, true);
    run.world.break_link(run.publisher, 0);
    let mut left = vec![slots(&run)];
    for _ in 0..15 {
        run.world.run_for(Span::millis(100));
        left.push(slots(&run));
    }
    assert_eq!(left.last(), Some(&0), "{left:?}");
    let most = left.windows(2).map(|pair| pair[0] - pair[1]).max();
    assert!(most <= Some(1_100 * of_one), "{left:?}");
}

#[test]
fn an_unsubscribed_topic_is_no_longer_received() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::millis(200));
    let other = run.world.add_client("other");
    run.world.run_for(Span::millis(100));
    let number = run.world.subscribe(other, "t/+");
    run.publish_for(Span::millis(200));
    let before = run.world.seen(other).messages.len();
    assert_eq!(before, 4);
    let port = number;
    run.world.unsubscribe(other, port);
    run.publish_for(Span::millis(200));
    assert_eq!(run.world.seen(other).messages.len(), before);
}
