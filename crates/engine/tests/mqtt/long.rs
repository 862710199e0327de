//! Topics as long and as deep as MQTT has them, and that many of them take no more memory than as many usual ones.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, lasting};
use contract::{Span, TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX};
use mqtt::packet::Version;
use mqtt::testing::{QoS, publish, v5};
use std::num::NonZeroU16;

/// A topic of so many bytes that ends with this number.
fn long(bytes: usize, number: usize) -> String {
    let end = format!("/{number}");
    format!("{}{end}", "x".repeat(bytes - end.len()))
}

fn deep(levels: usize) -> String {
    vec!["x"; levels].join("/")
}

#[test]
fn the_longest_and_the_deepest_are_carried_kept_and_outlive_a_primary() {
    let mut world = World::serving(|_| {});
    let topics = [long(TOPIC_BYTES_MAX, 1), deep(TOPIC_LEVELS_MAX)];
    let subscriber = world.connected(0, lasting("subscriber"));
    let publisher = world.connected(0, passing("publisher"));
    for topic in &topics {
        assert!(world.want(subscriber, topic, QoS::AtLeastOnce) < 0x80);
        let mut bytes = publish(Version::V5, topic, QoS::AtLeastOnce, 9, b"kept").unwrap();
        bytes[0] |= 1;
        world.say(publisher, &bytes);
        world.run_for(Span::millis(50));
        assert!(matches!(world.last_got(publisher), Got::Puback(9, code) if *code < 0x80));
    }
    let had = |world: &World, client| -> Vec<String> {
        world.messages(client).map(|message| message.topic.to_string()).collect()
    };
    assert_eq!(had(&world, subscriber), topics);
    world.cut_off(subscriber);
    for topic in &topics {
        world.send(publisher, topic, QoS::AtLeastOnce, b"waits");
    }
    world.run_for(Span::millis(100));
    world.kill(0);
    world.run_for(Span::secs(1));
    assert!(world.reconnect(subscriber, 1, lasting("subscriber")), "its session is there");
    let late = world.connected(1, passing("late"));
    for topic in &topics {
        assert!(world.want(late, topic, QoS::AtLeastOnce) < 0x80);
    }
    world.run_for(Span::millis(100));
    assert_eq!(had(&world, late), topics);
    assert_eq!(world.texts(subscriber), ["waits", "waits"]);
}

#[test]
fn what_is_longer_or_deeper_than_configured_is_refused_by_name() {
    let mut world = World::serving(|settings| {
        (settings.limits.topic_bytes, settings.limits.topic_levels) = (100, 5);
    });
    let client = world.connected(0, passing("client"));
    for (topic, code, key) in [
        (long(100, 1), 0, ""),
        (long(101, 1), 0x90, "mqtt.topic_bytes"),
        (deep(5), 0, ""),
        (deep(6), 0x90, "mqtt.topic_levels"),
    ] {
        world.send(client, &topic, QoS::AtLeastOnce, b"x");
        world.run_for(Span::millis(50));
        assert!(matches!(world.last_got(client), Got::Puback(_, got) if *got & 0x90 == code), "{topic}");
        assert!(world.log(0).iter().any(|line| line.contains(key)), "{:?}", world.log(0));
        let wanted = world.want(client, &topic, QoS::AtLeastOnce);
        assert_eq!(wanted >= 0x80, code != 0, "{topic}");
    }
}

#[test]
fn filters_of_a_session_take_no_more_memory_together_than_usual_ones() {
    let mut world = World::serving(|settings| settings.limits.subscriptions_per_session = 256);
    let client = world.connected(0, passing("client"));
    let wanted = |world: &mut World, filter: &str| world.want(client, filter, QoS::AtMostOnce);
    // Two of the longest fit into what 256 usual ones may take.
    assert_eq!(wanted(&mut world, &long(TOPIC_BYTES_MAX, 1)), 0);
    assert_eq!(wanted(&mut world, &long(TOPIC_BYTES_MAX, 2)), 0);
    assert_eq!(wanted(&mut world, &long(60_000, 3)), 0x97);
    world.unwant(client, &long(TOPIC_BYTES_MAX, 1));
    assert_eq!(wanted(&mut world, &long(60_000, 3)), 0);
    assert_eq!(wanted(&mut world, &long(TOPIC_BYTES_MAX, 2)), 0, "what it has it may ask for again");
}

#[test]
fn filters_of_all_sessions_take_no_more_memory_than_is_theirs_whatever_they_begin_with() {
    let mut world = World::serving(|settings| settings.limits.filters_bytes = 300_000);
    let mut taken = [0, 0];
    // Levels that nobody else has take more than ones that begin alike.
    for (kind, count) in taken.iter_mut().enumerate() {
        let client = world.connected(0, passing(&format!("client {kind}")));
        for number in 0..100 {
            let begin = if kind == 0 { format!("{number}/") } else { String::new() };
            let code = world.want(client, &format!("{begin}{}/{number}", deep(30)), QoS::AtMostOnce);
            assert!(code == 0 || code == 0x97, "{code}");
            *count += usize::from(code == 0);
        }
        world.cut_off(client);
        world.run_for(Span::millis(50));
    }
    assert!(taken[0] < 40 && taken[1] == 100, "{taken:?}");
    assert!(world.log(0).iter().any(|line| line.contains("limits.memory")), "{:?}", world.log(0));
}

#[test]
fn topics_of_aliases_are_together_as_long_as_usual_ones() {
    let mut world = World::serving(|settings| settings.limits.topic_aliases = 256);
    let client = world.connected(0, passing("client"));
    let give = |world: &mut World, number: u16, topic: &str| {
        let properties = v5::PublishProperties { topic_alias: NonZeroU16::new(number), ..Default::default() };
        let mut message = crate::world::mqtt::message(topic, QoS::AtMostOnce, 0, b"x");
        message.properties = Some(properties);
        world.say_5(client, message);
        world.run_for(Span::millis(50));
    };
    give(&mut world, 1, &long(TOPIC_BYTES_MAX, 1));
    give(&mut world, 2, &long(TOPIC_BYTES_MAX, 2));
    give(&mut world, 1, &long(TOPIC_BYTES_MAX, 3));
    assert!(!world.mqtt[client].closed, "another topic takes the place of the first");
    give(&mut world, 3, &long(512, 4));
    assert!(world.mqtt[client].closed);
    assert!(world.log(0).iter().any(|line| line.contains("mqtt.topic_aliases")), "{:?}", world.log(0));
}

#[test]
fn names_of_topics_are_counted_as_memory() {
    let mut world = World::serving(|_| {});
    let before = world.broker(0).occupancy().store_bytes;
    let client = world.connected(0, passing("client"));
    world.send(client, &long(60_000, 1), QoS::AtLeastOnce, b"x");
    world.run_for(Span::millis(50));
    let with = world.broker(0).occupancy().store_bytes;
    assert!(with - before > 4 * 59_000, "{before} {with}");
}
