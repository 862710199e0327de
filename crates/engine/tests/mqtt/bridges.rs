//! Bridges of mosquitto: how they introduce themselves, and what they may do.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::Got;
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{QoS, connect, publish};

const STATE: &str = "$SYS/broker/connection/here.bridge/state";

/// A CONNECT as a bridge sends it, with a will on its own state.
fn hello(name: &str, version: Version) -> Vec<u8> {
    let (protocol, level): (&[u8], u8) = match version {
        Version::V31 => (b"MQIsdp", 0x83),
        _ => (b"MQTT", 0x84),
    };
    let text = |text: &[u8]| [&(text.len() as u16).to_be_bytes(), text].concat();
    let body = [
        &text(protocol)[..],
        // Clean session, and a retained will with QoS 1.
        &[level, 0x2E, 0, 60],
        &text(name.as_bytes()),
        &text(STATE.as_bytes()),
        &text(b"0"),
    ]
    .concat();
    [&[0x10, body.len() as u8], &body[..]].concat()
}

/// A bridge that is connected.
fn bridge(world: &mut World, name: &str, version: Version) -> usize {
    let client = world.add_mqtt(Version::V311);
    world.dial(client, 0, hello(name, version));
    world.run_for(Span::millis(5));
    assert!(
        matches!(world.mqtt[client].got[..], [Got::Connack { code: 0, .. }]),
        "{:?}",
        world.mqtt[client].got
    );
    client
}

fn retained(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] |= 1;
    bytes
}

#[test]
fn a_bridge_comes_in_and_says_how_it_is() {
    for version in [Version::V31, Version::V311] {
        let mut world = World::serving(|_| {});
        let watcher = world.connected(0, passing("watcher"));
        world.want(watcher, "$SYS/broker/connection/+/state", QoS::AtLeastOnce);
        let client = bridge(&mut world, "here.bridge", version);
        world.say(client, &retained(publish(Version::V311, STATE, QoS::AtLeastOnce, 1, b"1").unwrap()));
        world.run_for(Span::millis(50));
        world.cut_off(client);
        world.run_for(Span::millis(50));
        assert_eq!(world.texts(watcher), ["1", "0"]);
        let late = world.connected(0, passing("late"));
        world.want(late, STATE, QoS::AtLeastOnce);
        world.run_for(Span::millis(50));
        assert_eq!(world.texts(late), ["0"]);
    }
}

#[test]
fn nobody_else_publishes_on_the_brokers_own_topics() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    for topic in
        ["$SYS/broker/connection/state", "$SYS/broker/connection/a/b/state", "$SYS/broker/uptime", "$x"]
    {
        world.send(client, topic, QoS::AtLeastOnce, b"1");
        world.run_for(Span::millis(50));
        assert!(
            matches!(world.last_got(client), Got::Puback(_, 0x87)),
            "{topic}: {:?}",
            world.last_got(client)
        );
    }
}

#[test]
fn a_bridge_is_not_given_back_what_it_has_brought_and_hears_what_is_retained() {
    let mut world = World::serving(|_| {});
    let client = bridge(&mut world, "bridge", Version::V311);
    let usual = world.add_mqtt(Version::V311);
    world.dial(usual, 0, connect(Version::V311, "usual", true).unwrap());
    world.run_for(Span::millis(5));
    for subscriber in [client, usual] {
        world.want(subscriber, "t", QoS::AtLeastOnce);
    }
    for (publisher, text) in [(client, b"bridge"), (usual, b"usual!")] {
        world.say(publisher, &retained(publish(Version::V311, "t", QoS::AtLeastOnce, 9, text).unwrap()));
        world.run_for(Span::millis(50));
    }
    assert_eq!(world.texts(client), ["usual!"]);
    assert!(world.messages(client).all(|message| message.retain));
    assert_eq!(world.texts(usual), ["bridge", "usual!"]);
    assert!(world.messages(usual).all(|message| !message.retain));
}

#[test]
fn bridges_that_carry_a_message_round_are_named_and_others_are_not() {
    for (bridged, times, named) in [(true, 250, true), (true, 199, false), (false, 250, false)] {
        let mut world = World::serving(|_| {});
        let there = bridge(&mut world, "there", Version::V311);
        let away = if bridged {
            bridge(&mut world, "away", Version::V311)
        } else {
            world.connected(0, passing("away"))
        };
        world.want(away, "plant/#", QoS::AtMostOnce);
        for number in 0..times {
            for text in [b"same".to_vec(), format!("other {number}").into_bytes()] {
                world.say(there, &publish(Version::V311, "plant/7", QoS::AtMostOnce, 0, &text).unwrap());
            }
            world.run_for(Span::millis(10));
        }
        world.run_for(Span::millis(50));
        let told = |line: &String| ["there", "away", "plant/7"].iter().all(|part| line.contains(part));
        assert_eq!(world.log(0).iter().any(told), named, "{bridged} {times}: {:?}", world.log(0));
    }
}
