//! Answers that do not fit what they answer, and those that do not fit into a packet that the client takes.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, answer};
use contract::Span;
use mqtt::testing::{QoS, v5};
use std::num::{NonZeroU16, NonZeroU32};

/// PUBACK, PUBREC and PUBCOMP.
const KINDS: [u8; 3] = [4, 5, 7];

#[test]
fn an_answer_of_the_wrong_kind_ends_the_connection() {
    for (qos, received, right) in
        [(QoS::AtLeastOnce, false, 4), (QoS::ExactlyOnce, false, 5), (QoS::ExactlyOnce, true, 7)]
    {
        for kind in KINDS {
            let mut world = World::serving(|_| {});
            let client = world.connected(0, passing("client"));
            world.mqtt[client].answers = false;
            world.want(client, "t", QoS::ExactlyOnce);
            let publisher = world.connected(0, passing("publisher"));
            world.send(publisher, "t", qos, b"x");
            world.run_for(Span::millis(50));
            let id = world.messages(client).next().unwrap().packet_id.unwrap().get();
            if received {
                world.say(client, &answer(5, id));
                world.run_for(Span::millis(50));
            }
            world.say(client, &answer(kind, id));
            world.run_for(Span::millis(50));
            // A PUBREC may come twice.
            let fits = kind == right || (received && kind == 5);
            assert_eq!(world.mqtt[client].closed, !fits, "{qos:?} {received} {kind}");
            if !fits {
                assert!(matches!(world.last_got(client), Got::Disconnect { code: 0x82, .. }));
            }
        }
    }
}

#[test]
fn answers_to_nothing_end_no_connection_and_an_error_is_not_answered() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    for kind in KINDS {
        world.say(client, &answer(kind, 9));
    }
    world.run_for(Span::millis(50));
    assert!(matches!(world.last_got(client), Got::Pubrel(9, 0x92)));
    let before = world.mqtt[client].got.len();
    // A PUBREC that says that it was not wanted.
    world.say(client, &[0x50, 3, 0, 9, 0x80]);
    world.run_for(Span::millis(50));
    assert_eq!((world.mqtt[client].got.len(), world.mqtt[client].closed), (before, false));
}

#[test]
fn nothing_is_sent_that_is_larger_than_the_client_takes() {
    let mut world = World::serving(|_| {});
    let small = |bytes| v5::Connect { max_packet_size: NonZeroU32::new(bytes), ..passing("client") };
    // Not even the answer to its CONNECT.
    let client = world.add_mqtt(mqtt::packet::Version::V5);
    world.dial(client, 0, mqtt::testing::encode_5(small(8).into()).unwrap());
    world.run_for(Span::millis(50));
    assert!(world.mqtt[client].closed && world.mqtt[client].got.is_empty(), "{:?}", world.mqtt[client].got);
    // The answers to packets with many filters.
    let id = NonZeroU16::MIN;
    let filters = || (0..60).map(|number| format!("t/{number}"));
    let options = v5::SubscriptionOptions::default();
    let subscribe = v5::Packet::Subscribe(v5::Subscribe {
        packet_id: id,
        id: None,
        user_properties: Vec::new(),
        topic_filters: filters().map(|filter| (filter.into(), options)).collect(),
    });
    let unsubscribe = v5::Packet::Unsubscribe(v5::Unsubscribe {
        packet_id: id,
        user_properties: Vec::new(),
        topic_filters: filters().map(Into::into).collect(),
    });
    for packet in [subscribe, unsubscribe] {
        for (bytes, fits) in [(50, false), (100, true)] {
            let client = world.connected(0, small(bytes));
            world.say_5(client, packet.clone());
            world.run_for(Span::millis(50));
            assert_eq!(world.mqtt[client].closed, !fits);
            match world.last_got(client) {
                Got::Suback(_, codes) | Got::Unsuback(_, codes) => assert!(fits && codes.len() == 60),
                Got::Disconnect { code: 0x95, .. } => assert!(!fits),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn who_does_not_take_the_answer_to_a_subscription_is_given_nothing_by_it() {
    let mut world = World::serving(|_| {});
    let hello = v5::Connect { max_packet_size: NonZeroU32::new(50), ..passing("client") };
    let client = world.connected(0, hello);
    let filters = ["t/+", "$SYS/#"].into_iter().cycle().take(60);
    let options = v5::SubscriptionOptions::default();
    let subscribe = v5::Subscribe {
        packet_id: NonZeroU16::MIN,
        id: None,
        user_properties: Vec::new(),
        topic_filters: filters.map(|filter| (filter.into(), options)).collect(),
    };
    // Its session has gone with its connection, and with that whatever is retained for it.
    world.say_5(client, v5::Packet::Subscribe(subscribe));
    world.run_for(Span::millis(50));
    assert!(
        world.mqtt[client].closed && matches!(world.last_got(client), Got::Disconnect { code: 0x95, .. })
    );
    let again = world.connected(0, passing("client"));
    assert_eq!(world.want(again, "t/+", QoS::AtMostOnce), 0);
}
