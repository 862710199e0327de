//! Packets of one connection take effect in their order, however they are read.

use crate::sessions::passing;
use crate::world::World;
use contract::{Mutant, Span};
use mqtt::testing::{Publish, QoS, encode_5, v5};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// What a client says.
#[derive(Clone, Debug)]
enum Said {
    /// A topic, whether it is retained, and whether there is a payload.
    Publish(usize, QoS, bool, bool),
    Subscribe(usize, QoS),
    Unsubscribe(usize),
}

const TOPICS: [&str; 3] = ["a", "b", "b/c"];
/// Of the second topic: its messages are more urgent than all others.
const DEADLINE: (&str, &str) = ("verge-deadline", "5ms");
const FILTERS: [&str; 4] = ["a", "b", "b/#", "+"];

fn any_qos() -> impl Strategy<Value = QoS> {
    prop::sample::select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn any_said() -> impl Strategy<Value = Said> {
    prop_oneof![
        4 => (0..TOPICS.len(), any_qos(), any::<bool>(), prop::bool::weighted(0.7))
            .prop_map(|(topic, qos, retain, full)| Said::Publish(topic, qos, retain, full)),
        2 => (0..FILTERS.len(), any_qos()).prop_map(|(filter, qos)| Said::Subscribe(filter, qos)),
        1 => (0..FILTERS.len()).prop_map(Said::Unsubscribe),
    ]
}

fn packet(said: &Said, number: usize) -> Vec<u8> {
    let packet_id = NonZeroU16::new(number as u16 + 1).unwrap();
    match *said {
        Said::Publish(topic, qos, retain, full) => {
            let payload = if full { number.to_string() } else { String::new() };
            let mut properties = v5::PublishProperties::default();
            if topic == 1 {
                properties.user_properties.push((DEADLINE.0.into(), DEADLINE.1.into()));
                properties.user_properties.push(("verge-loss".into(), "unbounded".into()));
            }
            encode_5(v5::Packet::Publish(Box::new(Publish {
                dup: false,
                retain,
                qos,
                topic: TOPICS[topic].into(),
                packet_id: (qos != QoS::AtMostOnce).then_some(packet_id),
                payload: payload.into(),
                properties: Some(properties),
            })))
        }
        Said::Subscribe(filter, qos) => encode_5(v5::Packet::Subscribe(v5::Subscribe {
            packet_id,
            id: None,
            user_properties: Vec::new(),
            topic_filters: vec![(
                FILTERS[filter].into(),
                v5::SubscriptionOptions { qos, ..Default::default() },
            )],
        })),
        Said::Unsubscribe(filter) => encode_5(v5::Packet::Unsubscribe(v5::Unsubscribe {
            packet_id,
            user_properties: Vec::new(),
            topic_filters: vec![FILTERS[filter].into()],
        })),
    }
    .unwrap()
}

/// What a client has had of each topic with each QoS, in its order.
type Had = BTreeMap<(String, u8), Vec<(String, bool)>>;

/// What the client has had when it has said all that, in so many packets a read.
fn had(all: &[Said], packets: usize) -> Had {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    let bytes: Vec<Vec<u8>> = all.iter().enumerate().map(|(number, said)| packet(said, number)).collect();
    for read in bytes.chunks(packets) {
        world.say(client, &read.concat());
        world.run_for(Span::millis(20));
    }
    let mut had = Had::new();
    for message in world.messages(client) {
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        had.entry((message.topic.to_string(), message.qos.into())).or_default().push((text, message.retain));
    }
    had
}

fn check(all: &[Said]) -> Result<(), TestCaseError> {
    let (one_by_one, at_once) = (had(all, 1), had(all, all.len()));
    prop_assert_eq!(one_by_one, at_once);
    Ok(())
}

fn try_all(cases: u32) -> Result<(), TestError<Vec<Said>>> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&prop::collection::vec(any_said(), 2..25), |all| check(&all))
}

#[test]
fn packets_that_come_in_one_read_do_what_they_do_one_by_one() {
    if let Err(error) = try_all(300) {
        panic!("{error}");
    }
}

#[test]
fn commands_that_overtake_messages_are_noticed() {
    Mutant::switch(Some(Mutant::Overtake));
    let result = try_all(300);
    Mutant::switch(None);
    assert!(matches!(result, Err(TestError::Fail(..))), "{result:?}");
}

#[test]
fn who_deletes_what_is_retained_and_subscribes_at_once_is_not_given_it() {
    let mut world = World::serving(|_| {});
    let keeper = world.connected(0, passing("keeper"));
    let retained = Said::Publish(0, QoS::AtLeastOnce, true, true);
    world.say(keeper, &packet(&retained, 1));
    world.run_for(Span::millis(20));
    let client = world.connected(0, passing("client"));
    let deletes = packet(&Said::Publish(0, QoS::AtMostOnce, true, false), 2);
    world.say(client, &[deletes, packet(&Said::Subscribe(0, QoS::AtLeastOnce), 3)].concat());
    world.run_for(Span::millis(20));
    assert_eq!(world.texts(client), Vec::<String>::new());
}

#[test]
fn who_publishes_on_very_many_topics_in_one_read_is_given_all() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    let topics: Vec<String> = (0..500).map(|number| format!("many/{number}")).collect();
    let one = |topic: &String| {
        mqtt::testing::publish(mqtt::packet::Version::V5, topic, QoS::AtMostOnce, 0, b"x").unwrap()
    };
    let mut bytes: Vec<u8> = topics.iter().flat_map(one).collect();
    // The second filter is subscribed after all of them, and the retained one of the first is not there.
    bytes.extend(packet(&Said::Subscribe(0, QoS::AtMostOnce), 1));
    bytes.extend(packet(&Said::Publish(0, QoS::AtMostOnce, false, true), 2));
    world.say(client, &bytes);
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(client), ["2"]);
    assert_eq!(world.stats(0).messages_received, 501);
}
