//! What a backup knows, and what clients find there.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, lasting, message};
use crate::world::run::replicated;
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::publish;
use mqtt::testing::{QoS, encode_5, v5};

#[test]
fn each_backup_that_joins_is_told_what_is_retained() {
    let mut world = World::serving(|_| {});
    let publisher = world.connected(0, passing("publisher"));
    for topic in ["a", "b"] {
        let mut retained = message(topic, QoS::AtLeastOnce, world.new_id(publisher), b"kept");
        retained.retain = true;
        world.say_5(publisher, retained);
    }
    world.run_for(Span::millis(50));
    for round in 0..4 {
        let (dies, reigns) = (round % 2, 1 - round % 2);
        world.kill(dies);
        world.run_for(Span::secs(2));
        world.start(dies);
        world.run_for(Span::secs(2));
        assert!(world.broker(reigns).is_protected());
        assert_eq!(world.stats(dies).retained, 2, "in round {round}");
        // The next backup joins one that has told before.
        world.kill(dies);
        world.run_for(Span::secs(1));
        world.start(dies);
        world.run_for(Span::secs(2));
        assert_eq!(world.stats(dies).retained, 2, "in round {round}");
    }
}

#[test]
fn a_native_publisher_that_has_restarted_loses_nothing_for_lasting_sessions() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, lasting("subscriber"));
    world.want(subscriber, "t", QoS::AtLeastOnce);
    let first = world.add_client_as("native", 1);
    world.run_for(Span::millis(50));
    let topic = world.advertise(first, "t", replicated());
    world.run_for(Span::millis(50));
    for number in 0..20 {
        world.publish(first, topic, format!("old {number}").as_bytes()).unwrap();
        world.run_for(Span::millis(100));
    }
    assert_eq!(world.texts(subscriber).len(), 20);
    // Its next life numbers from zero again.
    let second = world.add_client_as("native", 2);
    world.run_for(Span::millis(50));
    let topic = world.advertise(second, "t", replicated());
    world.run_for(Span::millis(50));
    world.kill(0);
    world.publish(second, topic, b"new").unwrap();
    world.run_for(Span::secs(1));
    assert!(world.reconnect(subscriber, 1, v5::Connect { clean_start: false, ..lasting("subscriber") }));
    world.run_for(Span::secs(1));
    assert_eq!(world.texts(subscriber), ["new"]);
}

#[test]
fn what_is_sent_again_keeps_to_the_window_and_the_packet_size_and_has_its_subscription_numbers() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, lasting("subscriber"));
    let at_least_once = v5::SubscriptionOptions { qos: QoS::AtLeastOnce, ..Default::default() };
    world.want_with(subscriber, "t", 7, at_least_once);
    world.want_with(subscriber, "#", 8, at_least_once);
    world.mqtt[subscriber].answers = false;
    let publisher = world.connected(0, passing("publisher"));
    for number in 0..20 {
        let text = if number == 3 { "x".repeat(1_000) } else { format!("{number}") };
        world.send(publisher, "t", QoS::AtLeastOnce, text.as_bytes());
    }
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber).len(), 20);
    world.cut_off(subscriber);
    let narrow = v5::Connect {
        clean_start: false,
        receive_max: std::num::NonZeroU16::new(5),
        max_packet_size: std::num::NonZeroU32::new(500),
        ..lasting("subscriber")
    };
    assert!(world.reconnect(subscriber, 0, narrow));
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["0", "1", "2", "4", "5"]);
    for message in world.messages(subscriber) {
        assert!(message.dup);
        let numbers: Vec<u32> =
            message.properties.as_ref().unwrap().subscription_ids.iter().map(|id| id.get()).collect();
        assert_eq!(numbers, [7, 8]);
    }
    // Answers let the others come, and then new ones.
    world.mqtt[subscriber].answers = true;
    let ids: Vec<u16> = world.messages(subscriber).map(|message| message.packet_id.unwrap().get()).collect();
    for id in ids {
        world.say(subscriber, &crate::world::mqtt::answer(4, id));
    }
    world.send(publisher, "t", QoS::AtLeastOnce, b"new");
    world.run_for(Span::millis(50));
    let expected = (0..20).filter(|number| *number != 3).map(|number| number.to_string());
    assert_eq!(world.texts(subscriber), expected.chain(["new".to_owned()]).collect::<Vec<_>>());
}

#[test]
fn a_contract_that_changes_is_judged_anew() {
    let mut world = World::serving(|_| {});
    let publisher = world.connected(0, passing("publisher"));
    let mut codes = Vec::new();
    for deadline in ["100ms", "100ms", "50ms"] {
        let mut asking = message("t", QoS::AtLeastOnce, world.new_id(publisher), b"x");
        let properties = asking.properties.as_mut().unwrap();
        properties.user_properties = vec![("verge-deadline".into(), deadline.into())];
        world.say(publisher, &encode_5(asking.into()).unwrap());
        world.run_for(Span::millis(50));
        match world.last_got(publisher) {
            Got::Puback(_, code) => codes.push(*code),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(codes, [0, 0, 0x97], "a topic has one contract");
}

/// What a subscriber does while messages are published and the primary dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subscriber {
    Reads,
    DoesNotRead,
    IsAway,
}

const TEXTS: [&str; 3] = ["one", "two", "three"];

/// Publishes, has the primary die (or hand over) after so many happenings, and comes back to the other with what was not
/// answered. Returns whether everything had been over by then.
fn survives(qos: QoS, subscriber: Subscriber, steps: usize, end: fn(&mut World)) -> bool {
    let mut world = World::serving(|_| {});
    let reader = world.connected(0, lasting("reader"));
    world.want(reader, "t", qos);
    let writer = world.connected(0, lasting("writer"));
    match subscriber {
        Subscriber::Reads => {}
        Subscriber::DoesNotRead => world.stall_mqtt(reader, 0, true),
        Subscriber::IsAway => world.cut_off(reader),
    }
    for (id, text) in (1..).zip(TEXTS) {
        world.say(writer, &publish(Version::V5, "t", qos, id, text.as_bytes()).unwrap());
    }
    let until = world.now + Span::millis(5);
    let over = !(0..steps).all(|_| world.step(until));
    end(&mut world);
    world.run_for(Span::secs(1));
    assert!(world.broker(1).is_primary());
    let had = std::mem::take(&mut world.mqtt[writer].got);
    assert!(world.reconnect(writer, 1, v5::Connect { clean_start: false, ..lasting("writer") }));
    for (id, text) in (1..).zip(TEXTS) {
        let answered =
            had.iter().any(|got| matches!(got, Got::Puback(of, 0) | Got::Pubrec(of, 0) if *of == id));
        if !answered {
            let mut again = message("t", qos, id, text.as_bytes());
            again.dup = true;
            world.say_5(writer, again);
        } else if qos == QoS::ExactlyOnce && !had.contains(&Got::Pubcomp(id, 0)) {
            world.say(writer, &crate::world::mqtt::answer(6, id));
        }
    }
    world.run_for(Span::millis(50));
    let before = world.texts(reader);
    assert!(world.reconnect(reader, 1, v5::Connect { clean_start: false, ..lasting("reader") }));
    world.run_for(Span::millis(50));
    let case = format!("{qos:?}, the subscriber {subscriber:?}, after {steps} steps");
    if qos == QoS::ExactlyOnce {
        let mut once = world.mqtt[reader].once.clone();
        once.sort();
        assert_eq!(once, ["one", "three", "two"], "{case}");
        let open = world.mqtt[writer].got.iter().filter(|got| matches!(got, Got::Pubcomp(..))).count();
        let closed = had.iter().filter(|got| matches!(got, Got::Pubcomp(..))).count();
        assert_eq!(open + closed, 3, "{case}: every number is released");
    }
    let all: Vec<String> = before.into_iter().chain(world.texts(reader)).collect();
    assert!(TEXTS.iter().all(|text| all.iter().any(|had| had == text)), "{case}: {all:?}");
    // Nothing waits any more, on either side.
    assert_eq!(world.stats(1).waiting, 0, "{case}");
    over
}

fn survives_every_step(end: fn(&mut World)) {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for subscriber in [Subscriber::Reads, Subscriber::DoesNotRead, Subscriber::IsAway] {
            let steps = (0..200).find(|steps| survives(qos, subscriber, *steps, end));
            assert!(steps.is_some_and(|steps| steps > 4), "{steps:?}");
        }
    }
}

#[test]
fn messages_survive_a_primary_that_dies_at_any_step() {
    survives_every_step(|world| world.kill(0));
}

#[test]
fn messages_survive_a_handover_at_any_step() {
    survives_every_step(|world| world.leave(0));
}
