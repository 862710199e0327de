//! Topics that a client is sent by number.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::lasting;
use contract::Span;
use mqtt::testing::{QoS, v5};
use std::num::NonZeroU32;

/// A client that takes so many numbers.
fn taking(most: u16, hello: v5::Connect) -> v5::Connect {
    v5::Connect { topic_alias_max: most, ..hello }
}

/// What a subscriber has had since it connected: topics as they came, and their numbers.
fn had(world: &World, subscriber: usize) -> Vec<(String, Option<u16>)> {
    let number = |properties: &v5::PublishProperties| properties.topic_alias.map(|number| number.get());
    world
        .messages(subscriber)
        .map(|message| (message.topic.to_string(), message.properties.as_ref().and_then(number)))
        .collect()
}

/// Publishes on these topics, one after the other, and says what a new subscriber of all has had.
fn sent_to(world: &mut World, hello: v5::Connect, topics: &[&str]) -> Vec<(String, Option<u16>)> {
    let subscriber = world.connected(0, hello);
    world.want(subscriber, "#", QoS::AtMostOnce);
    let publisher = world.connected(0, passing("publisher"));
    for topic in topics {
        world.send(publisher, topic, QoS::AtMostOnce, b"x");
        world.run_for(Span::millis(5));
    }
    had(world, subscriber)
}

fn as_texts(had: &[(String, Option<u16>)]) -> Vec<(&str, Option<u16>)> {
    had.iter().map(|(topic, number)| (topic.as_str(), *number)).collect()
}

#[test]
fn the_first_topics_are_sent_by_number_from_their_second_message_on() {
    let mut world = World::serving(|settings| settings.limits.topic_aliases_out = 3);
    let topics = ["first", "first", "t/4", "other", "third", "other", "first", "third", "t/4"];
    let two = sent_to(&mut world, taking(2, passing("two")), &topics);
    let expected = [
        ("first", Some(1)),
        ("", Some(1)),
        ("t/4", None),
        ("other", Some(2)),
        ("third", None),
        ("", Some(2)),
        ("", Some(1)),
        ("third", None),
        ("t/4", None),
    ];
    assert_eq!(as_texts(&two), expected, "no more than the client takes, and none that saves nothing");
    let topics = ["one/a", "two/a", "three/a", "four/a", "four/a", "three/a"];
    let expected = [
        ("one/a", Some(1)),
        ("two/a", Some(2)),
        ("three/a", Some(3)),
        ("four/a", None),
        ("four/a", None),
        ("", Some(3)),
    ];
    let many = sent_to(&mut world, taking(u16::MAX, passing("many")), &topics);
    assert_eq!(as_texts(&many), expected, "no more than the broker gives");
}

#[test]
fn who_takes_no_numbers_or_gets_none_is_sent_topics() {
    for (out, most) in [(16, 0), (0, 16)] {
        let mut world = World::serving(|_| {});
        if out == 0 {
            world = World::serving(|settings| settings.limits.topic_aliases_out = 0);
        }
        let all = sent_to(&mut world, taking(most, passing("client")), &["first"; 3]);
        assert_eq!(as_texts(&all), [("first", None); 3]);
    }
}

#[test]
fn a_message_that_is_too_large_has_taught_nothing() {
    let mut world = World::serving(|_| {});
    let small = v5::Connect { max_packet_size: NonZeroU32::new(40), ..taking(9, passing("small")) };
    let subscriber = world.connected(0, small);
    world.want(subscriber, "#", QoS::AtLeastOnce);
    let publisher = world.connected(0, passing("publisher"));
    // Of 40 bytes, ten are the header, the topic, an empty identifier and no properties.
    for (length, qos) in [(100, QoS::AtLeastOnce), (100, QoS::AtMostOnce), (30, QoS::AtMostOnce)] {
        world.send(publisher, "first", qos, &vec![b'x'; length]);
        world.run_for(Span::millis(5));
    }
    assert_eq!(as_texts(&had(&world, subscriber)), [("first", None)], "the last one fits without a number");
    for length in [27, 32, 33] {
        world.send(publisher, "first", QoS::AtMostOnce, &vec![b'x'; length]);
        world.run_for(Span::millis(5));
    }
    let expected = [("first", None), ("first", Some(1)), ("", Some(1))];
    assert_eq!(as_texts(&had(&world, subscriber)), expected, "33 bytes do not fit with the number either");
}

#[test]
fn numbers_end_with_their_connection() {
    let mut world = World::serving(|_| {});
    let hello = |most| taking(most, v5::Connect { clean_start: false, ..lasting("client") });
    let subscriber = world.connected(0, hello(4));
    world.want(subscriber, "#", QoS::ExactlyOnce);
    world.mqtt[subscriber].answers = false;
    let publisher = world.connected(0, passing("publisher"));
    for topic in ["first", "other", "other"] {
        world.send(publisher, topic, QoS::AtLeastOnce, b"x");
        world.run_for(Span::millis(5));
    }
    assert_eq!(as_texts(&had(&world, subscriber)), [("first", Some(1)), ("other", Some(2)), ("", Some(2))]);
    world.cut_off(subscriber);
    world.send(publisher, "other", QoS::AtLeastOnce, b"x");
    assert!(world.reconnect(subscriber, 0, hello(1)));
    world.run_for(Span::millis(50));
    let expected = [("first", Some(1)), ("other", None), ("other", None), ("other", None)];
    assert_eq!(as_texts(&had(&world, subscriber)), expected, "sent again by name, and one number now");
    world.cut_off(subscriber);
    assert!(world.reconnect(subscriber, 0, hello(0)));
    world.run_for(Span::millis(50));
    assert!(had(&world, subscriber).iter().all(|(topic, number)| topic.len() == 5 && number.is_none()));
}
