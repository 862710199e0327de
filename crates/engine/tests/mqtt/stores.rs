//! Brokers whose stores do not hold the same, after both have died.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{lasting, message};
use contract::Span;
use engine::testing::Disk;
use mqtt::testing::{QoS, v5};

/// A pair with a store each.
fn world() -> World {
    let mut world = World::serving(|_| {});
    for broker in [0, 1] {
        world.kill(broker);
        world.stores[broker] = Some(Disk::default());
    }
    world.start(0);
    world.start(1);
    world.run_for(Span::secs(2));
    assert!(world.broker(0).is_primary() && world.broker(0).is_protected());
    world
}

fn retain(world: &mut World, client: usize, topic: &str, payload: &[u8]) {
    let mut retained = message(topic, QoS::AtLeastOnce, world.new_id(client), payload);
    retained.retain = true;
    world.say_5(client, retained);
    world.run_for(Span::millis(5));
}

fn disk(world: &mut World, broker: usize) -> &mut Disk {
    world.brokers[broker].as_mut().unwrap().reporter().disk.as_mut().unwrap()
}

fn retain_many(world: &mut World, broker: u8, topics: std::ops::Range<u32>) {
    let publisher = world.connected(broker, passing("publisher"));
    for topic in topics {
        retain(world, publisher, &format!("t/{topic}"), format!("first {topic}").as_bytes());
    }
    world.cut_off(publisher);
}

/// The store of one broker is given up after 10 of 30 retained messages; then both die.
fn with_a_store_given_up(broker: usize) -> World {
    let mut world = world();
    retain_many(&mut world, 0, 0..10);
    disk(&mut world, broker).given_up = true;
    retain_many(&mut world, 0, 10..30);
    let [known, same] =
        [0, 1].map(|broker| world.brokers[broker].as_mut().unwrap().gateway().unwrap().knowledge().clone());
    assert!(known == same && known.total() >= 30, "both agree: {known:?} {same:?}");
    world.kill(0);
    world.kill(1);
    world.run_for(Span::millis(10));
    for disk in world.stores.iter_mut().flatten() {
        disk.given_up = false;
    }
    world
}

fn logs(world: &mut World) -> String {
    [0, 1].map(|broker| world.log(broker).join("\n")).join("\n--\n")
}

/// Both know all 30, and somebody who asks gets them.
fn assert_whole(world: &mut World, expected: &[(u32, &str)]) {
    let logs = logs(world);
    let primary = usize::from(world.broker(1).is_primary());
    assert!(world.broker(primary).is_protected(), "{logs}");
    assert_eq!([0, 1].map(|broker| world.stats(broker).retained), [30, 30], "{logs}");
    let subscriber = world.connected(primary as u8, passing("subscriber"));
    world.want(subscriber, "t/#", QoS::AtLeastOnce);
    world.run_for(Span::millis(100));
    let mut got: Vec<String> = world.texts(subscriber);
    let mut wanted: Vec<String> = (0..30)
        .map(|topic| {
            let later = expected.iter().find(|(changed, _)| *changed == topic);
            later.map_or(format!("first {topic}"), |(_, text)| (*text).to_owned())
        })
        .collect();
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted, "{logs}");
    let records = |broker: usize, world: &mut World| disk(world, broker).records.clone();
    let count = |records: std::collections::BTreeMap<Vec<u8>, Vec<u8>>| {
        records.keys().filter(|key| key[0] == b'R').count()
    };
    assert_eq!([0, 1].map(|broker| count(records(broker, world))), [30, 30], "{logs}");
}

#[test]
fn the_store_that_was_given_up_does_not_reign_over_the_other_when_both_start_together() {
    for broker in [0, 1] {
        let mut world = with_a_store_given_up(broker);
        world.start(0);
        world.start(1);
        world.run_for(Span::secs(10));
        assert_whole(&mut world, &[]);
    }
}

#[test]
fn who_starts_first_with_less_gives_the_reign_to_who_knows_more() {
    let mut world = with_a_store_given_up(0);
    world.start(0);
    world.run_for(Span::secs(10));
    assert!(world.broker(0).is_primary(), "whoever is there reigns");
    assert_eq!(world.stats(0).retained, 10);
    assert!(logs_of(&mut world, 0).contains("without having asked its partner"));
    // What is changed meanwhile is not lost either, nor what is cleared.
    let publisher = world.connected(0, passing("publisher"));
    retain(&mut world, publisher, "t/3", b"second 3");
    retain(&mut world, publisher, "t/20", b"second 20");
    let session = world.connected(0, lasting("session"));
    world.want(session, "s", QoS::AtLeastOnce);
    world.start(1);
    world.run_for(Span::secs(5));
    assert!(world.broker(1).is_primary(), "{}", logs(&mut world));
    assert_whole(&mut world, &[(3, "second 3"), (20, "second 20")]);
    assert!(logs_of(&mut world, 0).contains("is given the reign"));
    assert!(logs_of(&mut world, 1).contains("takes the reign"));
    assert!(world.reconnect(session, 1, v5::Connect { clean_start: false, ..lasting("session") }));
    assert!(disk(&mut world, 0).asides.is_empty() && disk(&mut world, 1).asides.is_empty());
}

#[test]
fn what_was_cleared_by_who_knows_less_stays_cleared() {
    let mut world = with_a_store_given_up(0);
    world.start(0);
    world.run_for(Span::secs(10));
    let publisher = world.connected(0, passing("publisher"));
    retain(&mut world, publisher, "t/3", b"");
    world.start(1);
    world.run_for(Span::secs(5));
    assert!(world.broker(1).is_primary());
    assert_eq!([0, 1].map(|broker| world.stats(broker).retained), [29, 29], "{}", logs(&mut world));
}

#[test]
fn who_starts_first_with_more_reigns_and_the_other_learns() {
    let mut world = with_a_store_given_up(0);
    world.start(1);
    world.run_for(Span::secs(10));
    assert!(world.broker(1).is_primary());
    world.start(0);
    world.run_for(Span::secs(5));
    assert!(world.broker(1).is_primary());
    assert_whole(&mut world, &[]);
}

#[test]
fn what_was_changed_by_who_knows_less_outlives_its_process_as_well() {
    let mut world = with_a_store_given_up(0);
    for life in 0..3 {
        world.start(0);
        world.run_for(Span::secs(10));
        let publisher = world.connected(0, passing("publisher"));
        retain(&mut world, publisher, &format!("t/{}", 20 + life), format!("life {life}").as_bytes());
        retain(&mut world, publisher, &format!("t/{life}"), b"");
        if life < 2 {
            world.kill(0);
            world.run_for(Span::millis(10));
        }
    }
    world.start(1);
    world.run_for(Span::secs(5));
    assert!(world.broker(1).is_primary(), "{}", logs(&mut world));
    for topic in 0..3 {
        let publisher = world.connected(1, passing("publisher"));
        retain(&mut world, publisher, &format!("t/{topic}"), format!("first {topic}").as_bytes());
        assert_eq!(world.stats(1).retained, 28 + topic, "it was cleared");
    }
    assert_whole(&mut world, &[(20, "life 0"), (21, "life 1"), (22, "life 2")]);
    let logged = |disk: &Disk| disk.records.keys().filter(|key| key[0] == b'L').count();
    assert_eq!([0, 1].map(|broker| logged(disk(&mut world, broker))), [0, 0], "nobody is in doubt");
}

#[test]
fn copies_that_grew_apart_are_put_aside_with_the_numbers() {
    let mut world = with_a_store_given_up(0);
    world.start(0);
    world.run_for(Span::secs(10));
    let publisher = world.connected(0, passing("publisher"));
    // More than is kept for the partner.
    for number in 0..160 {
        retain(&mut world, publisher, &format!("apart/{number}"), &[7; 60_000]);
    }
    world.start(1);
    world.run_for(Span::secs(30));
    let logs = logs(&mut world);
    assert!(world.broker(0).is_primary() && world.broker(0).is_protected(), "{logs}");
    let said = logs_of(&mut world, 1);
    assert!(said.contains("kept in aside") && said.contains("put it in the place of records.redb"), "{said}");
    let aside = &disk(&mut world, 1).asides;
    assert_eq!(aside.len(), 1);
    assert_eq!(aside[0].keys().filter(|key| key[0] == b'R').count(), 30, "nothing of it is overwritten");
}

#[test]
fn a_fail_over_and_a_restart_leave_the_numbers_equal_and_nothing_aside() {
    let mut world = world();
    retain_many(&mut world, 0, 0..10);
    for round in 0..40 {
        let (dies, reigns) = (round % 2, 1 - round % 2);
        world.kill(dies);
        world.run_for(Span::secs(1));
        assert!(world.broker(reigns).is_primary());
        retain_many(&mut world, reigns as u8, 10..20);
        world.start(dies);
        world.run_for(Span::secs(2));
        let [one, other] = [0, 1]
            .map(|broker| world.brokers[broker].as_mut().unwrap().gateway().unwrap().knowledge().clone());
        assert_eq!(one, other, "in round {round}: {}", logs(&mut world));
        let said = logs(&mut world);
        assert!(!said.contains("kept in") && !said.contains("takes the reign"), "in round {round}: {said}");
        let keys = |disk: &Disk| disk.records.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(disk(&mut world, 0)), keys(disk(&mut world, 1)), "in round {round}");
    }
}

#[test]
fn a_session_that_its_client_ends_with_its_farewell_leaves_nothing_in_a_store() {
    let mut world = world();
    let subscriber = world.connected(0, passing("subscriber"));
    world.want(subscriber, "t", QoS::AtMostOnce);
    let client = world.connected(0, lasting("client"));
    world.want(client, "other", QoS::AtLeastOnce);
    world.mqtt[client].answers = false;
    world.send(subscriber, "other", QoS::AtLeastOnce, b"waits");
    world.say_5(client, message("t", QoS::ExactlyOnce, 7, b"first"));
    world.run_for(Span::millis(50));
    let farewell = v5::Disconnect { session_expiry_interval_secs: Some(0), ..Default::default() };
    world.say_5(client, v5::Packet::Disconnect(farewell));
    world.run_for(Span::millis(50));
    let of_client = |disk: &Disk| disk.records.keys().filter(|key| b"SQI".contains(&key[0])).count();
    assert_eq!([0, 1].map(|broker| of_client(disk(&mut world, broker))), [0, 0]);
    // Its next life is a new one after a restart as well.
    assert!(!world.reconnect(client, 0, lasting("client")));
    for broker in [0, 1] {
        world.kill(broker);
    }
    world.start(0);
    world.start(1);
    world.run_for(Span::secs(3));
    let reigns = u8::from(!world.broker(0).is_primary());
    assert!(world.reconnect(client, reigns, v5::Connect { clean_start: false, ..lasting("client") }));
    world.reconnect(subscriber, reigns, passing("subscriber"));
    world.want(subscriber, "t", QoS::AtMostOnce);
    world.say_5(client, message("t", QoS::ExactlyOnce, 7, b"second"));
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["second"]);
}

fn logs_of(world: &mut World, broker: usize) -> String {
    world.log(broker).join("\n")
}
