//! Clients that reach the backup and not the primary, while the pair is whole: they pass through it.

#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use contract::{Contract, Span};
use endpoint::Reigning;
use wire::{Frame, PeerIndex};
use world::World;
use world::run::{Run, replicated, run, run_with, urgent};

/// A client notices that a broker is out of reach within its polls, and then waits for as long as a failover may take.
const SWITCH: Span = Span::millis(1_350);

/// The primary is out of a client's reach for three seconds and more, and then is not. Between the switch and the end, nothing may
/// be missing; before it, a publisher sends in vain what it no longer retains.
fn cut_for_a_while(run: &mut Run, clients: &[usize]) -> Vec<Vec<u64>> {
    run.publish_for(Span::millis(500));
    let before = run.sent.clone();
    clients.iter().for_each(|client| run.world.cut_client(*client, 0));
    run.publish_for(SWITCH);
    let switched = run.sent.clone();
    run.publish_for(Span::secs(2));
    clients.iter().for_each(|client| run.world.mend_client(*client, 0));
    run.publish_for(Span::secs(1));
    run.world.run_for(Span::millis(500));
    run.assert_no_duplicates();
    let missing = run.missing();
    for (topic, missing) in missing.iter().enumerate() {
        let window = before[topic]..switched[topic];
        assert!(
            missing.iter().all(|seq| window.contains(seq)),
            "topic {topic}: {missing:?} beyond {window:?}\n{:?}",
            run.logs()
        );
    }
    missing
}

/// How a client reached its primaries, one after the other; `None` where it had none.
fn ways(world: &mut World, client: usize) -> Vec<Option<(u8, bool)>> {
    let way = |reigning: &Reigning| match *reigning {
        Reigning::Primary { broker, relayed, .. } => Some((broker.0, relayed)),
        Reigning::Nobody => None,
    };
    world.seen(client).reigning.iter().map(way).collect()
}

/// Directly, not at all, through the backup, directly.
const THERE_AND_BACK: [Option<(u8, bool)>; 4] = [Some((0, false)), None, Some((1, true)), Some((0, false))];

#[test]
fn a_publisher_that_reaches_only_the_backup_publishes_through_it() {
    let mut run = run(&[urgent(), replicated()]);
    let publisher = run.publisher;
    cut_for_a_while(&mut run, &[publisher]);
    assert_eq!(ways(&mut run.world, publisher), THERE_AND_BACK);
    assert!(
        run.world.broker(0).is_primary() && run.world.broker(0).reign().epoch.0 == 1,
        "nobody else reigned"
    );
}

#[test]
fn a_subscriber_that_reaches_only_the_backup_receives_through_it() {
    let mut run = run(&[urgent(), replicated()]);
    let subscriber = run.subscriber;
    cut_for_a_while(&mut run, &[subscriber]);
    assert_eq!(ways(&mut run.world, subscriber), THERE_AND_BACK);
}

#[test]
fn what_subscribers_confirm_is_missing_at_no_time() {
    // As much as a stream's ring holds.
    let mut run = run(&[Contract { confirm: true, ..Contract::every(Span::millis(200)).retain(1) }]);
    let subscriber = run.subscriber;
    let missing = cut_for_a_while(&mut run, &[subscriber]);
    assert!(missing.iter().all(Vec::is_empty), "{missing:?}");
}

#[test]
fn both_ends_may_be_cut_off_at_once() {
    let mut run = run(&[urgent(), replicated()]);
    let clients = [run.publisher, run.subscriber];
    cut_for_a_while(&mut run, &clients);
    let logs = run.logs().concat().join("\n");
    for client in ["publisher", "subscriber"] {
        for words in ["cannot reach the primary, and passes through this broker", "cannot reach this broker"]
        {
            assert!(logs.contains(&format!("{client} {words}")), "{logs}");
        }
    }
    assert_eq!(logs.matches("no longer passes through the backup").count(), 4, "{logs}");
}

#[test]
fn a_client_that_begins_cut_off_finds_its_way() {
    let mut run = run(&[urgent()]);
    let late = run.world.add_client("late");
    run.world.wall(late, 0, true);
    run.world.subscribe(late, "#");
    run.world.run_for(Span::millis(300));
    let before = run.world.seen(late).messages.len();
    run.publish_for(Span::secs(1));
    assert_eq!(run.world.seen(late).messages.len(), before + 20);
    assert_eq!(ways(&mut run.world, late), [Some((1, true))]);
    assert_eq!(run.world.endpoint(late).through(), Some(PeerIndex(1)));
}

#[test]
fn a_relayed_client_is_served_on_when_the_primary_dies() {
    for moment in 0..20 {
        let mut run = run(&[urgent(), replicated()]);
        let clients = [run.publisher, run.subscriber];
        clients.iter().for_each(|client| run.world.cut_client(*client, 0));
        run.publish_for(Span::secs(2));
        let before = run.sent.clone();
        run.publish_for(Span::micros(moment * 5_130));
        run.world.kill(0);
        run.publish_for(Span::secs(1));
        run.world.run_for(Span::millis(500));
        let missing = run.missing();
        let late =
            missing.iter().zip(&before).all(|(missing, before)| missing.iter().all(|seq| seq < before));
        assert!(late, "{moment}: {missing:?} since {before:?}\n{:?}", run.logs());
        run.assert_no_duplicates();
        assert!(run.world.broker(1).is_primary());
        assert_eq!(ways(&mut run.world, run.publisher).last(), Some(&Some((1, false))));
    }
}

#[test]
fn a_handover_loses_nothing_of_relayed_clients() {
    for moment in 0..20 {
        let mut run = run(&[urgent(), replicated()]);
        let clients = [run.publisher, run.subscriber];
        clients.iter().for_each(|client| run.world.cut_client(*client, 0));
        run.publish_for(Span::secs(2));
        let before = run.sent.clone();
        let operator = run.world.add_client("operator");
        run.world.run_for(Span::micros(10_000 + moment * 37));
        run.publish_for(Span::micros(moment * 5_130));
        run.world.request(operator, 0, &Frame::Handover);
        run.publish_for(Span::secs(1));
        run.world.run_for(Span::millis(500));
        assert!(run.world.broker(1).is_primary() && run.world.broker(1).is_protected());
        let missing = run.missing();
        let late =
            missing.iter().zip(&before).all(|(missing, before)| missing.iter().all(|seq| seq < before));
        assert!(late, "{moment}: {missing:?} since {before:?}\n{:?}", run.logs());
        run.assert_no_duplicates();
    }
}

#[test]
fn a_reign_given_back_finds_the_channels_free_again() {
    let mut run = run(&[urgent()]);
    let (publisher, subscriber) = (run.publisher, run.subscriber);
    run.world.cut_client(publisher, 0);
    run.publish_for(Span::secs(2));
    let operator = run.world.add_client("operator");
    run.world.run_for(Span::millis(10));
    run.world.request(operator, 0, &Frame::Handover);
    run.publish_for(Span::secs(1));
    // Now the other one reigns, and the subscriber is cut off from that.
    run.world.cut_client(subscriber, 1);
    run.publish_for(SWITCH);
    let before = run.sent[0];
    run.publish_for(Span::secs(1));
    run.world.run_for(Span::millis(500));
    let missing = run.missing().remove(0);
    assert!(missing.iter().all(|seq| *seq < before), "{missing:?} since {before}\n{:?}", run.logs());
    assert_eq!(run.world.endpoint(subscriber).through(), Some(PeerIndex(0)));
}

#[test]
fn the_death_of_the_backup_is_the_end_of_the_way() {
    let mut run = run(&[urgent()]);
    run.world.cut_client(run.publisher, 0);
    run.publish_for(Span::secs(2));
    run.world.kill(1);
    run.publish_for(Span::millis(200));
    assert!(!run.world.endpoint(run.publisher).has_primary());
    assert_eq!(run.world.broker(0).occupancy().clients, 1, "only the subscriber is left: {:?}", run.logs());
    // And begins anew with its next life.
    run.world.start(1);
    run.publish_for(Span::secs(2));
    assert_eq!(run.world.endpoint(run.publisher).through(), Some(PeerIndex(1)));
}

#[test]
fn nobody_is_let_through_by_a_backup_that_lost_its_primary() {
    let mut run = run(&[urgent()]);
    run.world.cut_client(run.publisher, 0);
    run.publish_for(Span::secs(2));
    run.world.cut_pair();
    run.publish_for(Span::secs(2));
    assert!(run.world.broker(1).is_primary(), "its primary is out of its reach as well");
    assert_eq!(ways(&mut run.world, run.publisher).last(), Some(&Some((1, false))));
}

#[test]
fn so_many_are_let_through_and_no_more() {
    let mut run = run_with(|settings| settings.limits.relayed = 1, &[urgent()]);
    let (publisher, subscriber) = (run.publisher, run.subscriber);
    run.world.cut_client(publisher, 0);
    run.publish_for(Span::secs(2));
    run.world.cut_client(subscriber, 0);
    run.publish_for(Span::secs(2));
    assert_eq!(run.world.endpoint(publisher).through(), Some(PeerIndex(1)));
    assert!(!run.world.endpoint(subscriber).has_primary());
    let told = run.world.seen(subscriber).dismissed.join("\n");
    assert!(told.contains("limits.relayed"), "{told}");
}

#[test]
fn status_names_clients_that_are_relayed() {
    let mut run = run(&[urgent()]);
    run.world.cut_client(run.publisher, 0);
    run.publish_for(Span::secs(2));
    for broker in [0, 1] {
        let (asker, index) = (run.subscriber, usize::from(broker));
        run.world.request(asker, broker, &Frame::StatusRequest { first_stream: 0, rows: 10 });
        run.world.run_for(Span::millis(10));
        let answer = run.world.seen(asker).answers.join("\n");
        assert!(answer.contains("relayed: 1, relayed_names: \"publisher\""), "{index}: {answer}");
        run.world.seen(asker).answers.clear();
    }
}

/// What a broker says of the first stream.
fn row_of(run: &mut Run, broker: u8) -> String {
    let asker = run.subscriber;
    run.world.seen(asker).answers.clear();
    run.world.request(asker, broker, &Frame::StatusRequest { first_stream: 0, rows: 1 });
    run.world.run_for(Span::millis(10));
    let answers = &run.world.seen(asker).answers;
    let rows = answers.iter().find(|answer| answer.starts_with("StreamStatuses")).unwrap();
    let bytes = rows.trim_start_matches("StreamStatuses(StreamStatuses([").trim_end_matches("]))");
    let bytes: Vec<u8> = bytes.split(", ").map(|byte| byte.parse().unwrap()).collect();
    let row = wire::StreamStatuses::of(&bytes).next().unwrap();
    format!("{:?} for {}", row.state, row.silence)
}

#[test]
fn a_topic_is_silent_while_its_publisher_reaches_nobody_and_at_risk_while_it_is_relayed() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::secs(1));
    assert_eq!(row_of(&mut run, 0), "Met for 0ms");
    (0..2).for_each(|broker| run.world.cut_client(run.publisher, broker));
    run.publish_for(Span::millis(1_900));
    let row = row_of(&mut run, 0);
    assert!(row.starts_with("Silent for 1."), "during the cut: {row}");
    let logs = run.logs()[0].join("\n");
    assert!(logs.contains("`t/0` of publisher is silent: nothing has come for 1."), "{logs}");
    run.world.mend_client(run.publisher, 1);
    run.publish_for(Span::secs(2));
    // What was missed broke the contract; it is at risk when that is a minute ago.
    assert_eq!(row_of(&mut run, 0), "Broken for 0ms");
    run.publish_for(Span::secs(61));
    assert_eq!(row_of(&mut run, 0), "AtRisk for 0ms", "its publisher hangs by the backup");
    let logs = run.logs()[0].join("\n");
    assert!(logs.contains("`t/0` of publisher goes on"), "{logs}");
}

#[test]
fn a_publisher_that_ends_is_not_silent() {
    let mut run = run(&[urgent()]);
    run.publish_for(Span::secs(1));
    let publication = run.topics[0].0;
    run.world.withdraw(run.publisher, publication);
    run.world.run_for(Span::secs(5));
    assert!(!run.logs().concat().join("").contains("silent"), "{:?}", run.logs());
}

#[test]
fn large_messages_pass_in_pieces() {
    let mut run = run(&[Contract::every(Span::millis(200)).deadline(Span::secs(1)).retain(2)]);
    let (publisher, subscriber) = (run.publisher, run.subscriber);
    run.world.cut_client(publisher, 0);
    run.world.cut_client(subscriber, 0);
    run.world.run_for(SWITCH);
    for size in [100_000_usize, 900_000, 1, 300_000] {
        run.world.publish(publisher, run.topics[0].0, &vec![7; size]).unwrap();
        run.world.run_for(Span::millis(300));
        let (.., payload) = run.world.seen(subscriber).messages.last().unwrap();
        assert_eq!(payload.len(), size);
    }
}

#[test]
fn a_relayed_subscriber_that_does_not_read_holds_up_nobody() {
    let mut run = run(&[Contract::every(Span::millis(1)).deadline(Span::secs(1)).best_effort()]);
    let (publisher, subscriber) = (run.publisher, run.subscriber);
    let other = run.world.add_client("other");
    run.world.run_for(Span::millis(50));
    run.world.subscribe(other, "#");
    run.world.cut_client(subscriber, 0);
    run.world.run_for(SWITCH);
    assert_eq!(run.world.endpoint(subscriber).through(), Some(PeerIndex(1)));
    run.world.stall(subscriber, true);
    for _ in 0..200 {
        run.world.publish(publisher, run.topics[0].0, &[7; 10_000]).unwrap();
        run.world.run_for(Span::millis(1));
    }
    assert_eq!(run.world.seen(other).messages.len(), 200);
    let occupancy = run.world.broker(0).occupancy();
    assert!(occupancy.owed == 0, "it has room for four megabytes: {occupancy:?}");
}
