//! Messages that are refused: who hears of it, and how often they may come.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, lasting};
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{QoS, publish};

/// A topic that is one, and deeper than is taken.
fn deep() -> String {
    vec!["x"; 250].join("/")
}

/// Connects with MQTT 3.1.1 and sends these, and says what it was answered, until its connection has ended.
fn tries(world: &mut World, bytes: &[u8]) -> Vec<Got> {
    let client = world.connected_3(0, "repeater", true);
    world.say(client, bytes);
    world.run_for(Span::millis(50));
    let got = world.mqtt[client].got[1..].to_vec();
    assert_eq!(world.mqtt[client].closed, got.is_empty(), "{got:?}");
    world.cut_off(client);
    got
}

#[test]
fn a_message_that_is_refused_again_and_again_is_acknowledged_at_last() {
    let mut world = World::serving(|_| {});
    let next = publish(Version::V311, "t", QoS::AtLeastOnce, 8, b"next").unwrap();
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let poison = publish(Version::V311, &deep(), qos, 7, b"x").unwrap();
        let all = [poison, next.clone()].concat();
        for _ in 0..3 {
            assert_eq!(tries(&mut world, &all), []);
        }
        let got = tries(&mut world, &all);
        let answered = match qos {
            QoS::AtLeastOnce => matches!(got[0], Got::Puback(7, 0)),
            _ => matches!(got[0], Got::Pubrec(7, 0)),
        };
        assert!(answered && matches!(got[1], Got::Puback(8, 0)), "{got:?}");
        // Another one begins anew.
        assert!(matches!(tries(&mut world, &next)[..], [Got::Puback(8, 0)]));
        let other = publish(Version::V311, &deep(), qos, 7, b"another").unwrap();
        assert_eq!(tries(&mut world, &other), []);
    }
    assert_eq!(world.stats(0).given_up, 2);
    let told = world.log(0).iter().filter(|line| line.contains("4 times that is refused each time")).count();
    assert_eq!(told, 2, "{:?}", world.log(0));
    let named =
        world.log(0).iter().filter(|line| line.contains("repeater") && line.contains("levels")).count();
    assert!(named >= 8, "{:?}", world.log(0));
}

#[test]
fn it_is_repeated_for_ever_where_that_is_configured() {
    let mut world = World::serving(|settings| settings.limits.repeats = 0);
    let poison = publish(Version::V311, &deep(), QoS::AtLeastOnce, 7, b"x").unwrap();
    for _ in 0..10 {
        assert_eq!(tries(&mut world, &poison), []);
    }
}

#[test]
fn one_that_is_too_large_is_thrown_away_as_it_comes_and_the_next_is_taken() {
    let mut world = World::serving(|settings| settings.limits.packet_bytes = 2_000);
    let all = [
        publish(Version::V311, "large", QoS::AtLeastOnce, 7, &[7; 100_000]).unwrap(),
        publish(Version::V311, "t", QoS::AtLeastOnce, 8, b"next").unwrap(),
    ]
    .concat();
    assert_eq!(tries(&mut world, &all), []);
    assert!(matches!(tries(&mut world, &all)[..], [Got::Puback(7, 0), Got::Puback(8, 0)]));
    let named = world.log(0).iter().any(|line| line.contains("`large`") && line.contains("100013 bytes"));
    assert!(named, "{:?}", world.log(0));
    // One of MQTT 5 that does so all the same hears that it was not taken.
    let bytes = [
        publish(Version::V5, "large", QoS::AtLeastOnce, 7, &[7; 100_000]).unwrap(),
        publish(Version::V5, "t", QoS::AtLeastOnce, 8, b"next").unwrap(),
    ]
    .concat();
    for round in 0..2 {
        let client = world.connected(0, passing("five"));
        world.say(client, &bytes);
        world.run_for(Span::millis(50));
        match (round, &world.mqtt[client].got[1..]) {
            (1, [Got::Puback(7, 0x97), Got::Puback(8, code)]) => assert!(*code < 0x80),
            (0, [Got::Disconnect { code: 0x95, .. }]) => {}
            (_, other) => panic!("{round}: {other:?}"),
        }
        world.cut_off(client);
    }
}

#[test]
fn a_client_of_mqtt_5_hears_of_a_topic_that_is_not_taken_and_goes_on() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    world.send(client, &deep(), QoS::AtLeastOnce, b"x");
    world.send(client, &deep(), QoS::ExactlyOnce, b"x");
    world.send(client, &deep(), QoS::AtMostOnce, b"x");
    world.send(client, "t", QoS::AtLeastOnce, b"x");
    world.run_for(Span::millis(50));
    let got = &world.mqtt[client].got[1..];
    assert!(
        matches!(got, [Got::Puback(_, 0x90), Got::Pubrec(_, 0x90), Got::Puback(_, code)] if *code < 0x80),
        "{got:?}"
    );
    // The same cause is told once in a while.
    let told = world.log(0).iter().filter(|line| line.contains("of client")).count();
    assert_eq!(told, 1, "{:?}", world.log(0));
}

/// A session that is away, for which two messages may wait.
fn full(world: &mut World) -> usize {
    let away = world.connected(0, lasting("away"));
    world.want(away, "t", QoS::AtLeastOnce);
    world.cut_off(away);
    away
}

#[test]
fn what_a_full_queue_cannot_take_drops_the_oldest_and_is_told() {
    let mut world = World::serving(|settings| settings.limits.queue_messages = 2);
    let away = full(&mut world);
    let publisher = world.connected(0, passing("publisher"));
    for text in ["1", "2", "3", "4"] {
        world.send(publisher, "t", QoS::AtLeastOnce, text.as_bytes());
        world.run_for(Span::millis(20));
    }
    assert!(
        world.mqtt[publisher].got[1..].iter().all(|got| matches!(got, Got::Puback(_, code) if *code < 0x80))
    );
    let told = |line: &String| line.contains("session of away") && line.contains("have been lost");
    assert!(world.log(0).iter().any(told), "{:?}", world.log(0));
    assert_eq!(world.stats(0).queue_full, 2);
    world.reconnect(away, 0, v5_again());
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(away), ["3", "4"]);
}

fn v5_again() -> mqtt::testing::v5::Connect {
    mqtt::testing::v5::Connect { clean_start: false, ..lasting("away") }
}

#[test]
fn it_is_refused_to_who_has_published_it_where_that_is_configured() {
    let mut world = World::serving(|settings| {
        settings.limits.queue_messages = 2;
        settings.limits.refuses_when_full = true;
    });
    let away = full(&mut world);
    let reader = world.connected(0, passing("reader"));
    world.want(reader, "t", QoS::AtLeastOnce);
    let publisher = world.connected(0, passing("publisher"));
    for (qos, text) in
        [(QoS::AtLeastOnce, "1"), (QoS::ExactlyOnce, "2"), (QoS::AtLeastOnce, "3"), (QoS::ExactlyOnce, "4")]
    {
        world.send(publisher, "t", qos, text.as_bytes());
        world.run_for(Span::millis(50));
    }
    let codes: Vec<u8> = world.mqtt[publisher].got[1..]
        .iter()
        .filter_map(|got| match got {
            Got::Puback(_, code) | Got::Pubrec(_, code) => Some(*code),
            _ => None,
        })
        .collect();
    assert_eq!(codes, [0, 0, 0x97, 0x97]);
    // Those who have room are given it all the same.
    assert_eq!(world.texts(reader), ["1", "2", "3", "4"]);
    let three = world.connected_3(0, "three", true);
    world.send(three, "t", QoS::AtLeastOnce, b"5");
    world.run_for(Span::millis(50));
    assert!(world.mqtt[three].closed);
    // What of native publishers or of QoS 0 comes is nobody's to refuse, and takes the place of the oldest only with QoS 1.
    world.reconnect(away, 0, v5_again());
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(away), ["1", "2"]);
    assert!(world.log(0).iter().any(|line| line.contains("refused to their publishers")));
}
