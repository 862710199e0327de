//! What a backup knows, and what clients find there.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, lasting, message};
use crate::world::run::replicated;
use contract::Span;
use mqtt::packet::Version;
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
        world.say(subscriber, &crate::world::mqtt::answer(Version::V5, 4, id));
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
