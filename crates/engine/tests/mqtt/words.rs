//! Reasons in words: where there are any, and when they are left out.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, message};
use contract::Span;
use mqtt::testing::{QoS, v5};
use std::num::NonZeroU32;

/// A filter that is one, and deeper than is taken.
fn deep() -> String {
    vec!["+"; 250].join("/")
}

/// Has a client refused in every way that does not end its connection, and once in one that does. Returns the codes and the
/// words that it heard of errors.
fn refusals(world: &mut World, hello: v5::Connect) -> (Vec<u8>, Vec<String>) {
    let client = world.connected(0, hello);
    world.mqtt[client].words.clear();
    for (qos, terms) in [
        (QoS::AtLeastOnce, vec![("deadline", "20ms"), ("period", "10ms"), ("loss", "0")]),
        (QoS::ExactlyOnce, vec![("retain", "many")]),
        (QoS::AtMostOnce, vec![("retain", "many")]),
    ] {
        let id = if qos == QoS::AtMostOnce { 0 } else { world.new_id(client) };
        let mut asking = message("t", qos, id, b"x");
        let term = |(name, value): (&str, &str)| (format!("verge-{name}").into(), value.into());
        asking.properties.as_mut().unwrap().user_properties = terms.into_iter().map(term).collect();
        world.say_5(client, asking);
        world.run_for(Span::millis(50));
    }
    world.send(client, "$SYS/mine", QoS::AtLeastOnce, b"x");
    world.want(client, &deep(), QoS::AtMostOnce);
    world.unwant(client, &deep());
    let mut unknown = message("", QoS::AtMostOnce, 0, b"x");
    unknown.properties.as_mut().unwrap().topic_alias = std::num::NonZeroU16::new(9);
    world.say_5(client, unknown);
    world.run_for(Span::millis(50));
    let code = |got: &Got| match got {
        Got::Puback(_, code) | Got::Pubrec(_, code) | Got::Disconnect { code, .. } => Some(*code),
        Got::Suback(_, codes) | Got::Unsuback(_, codes) => codes.first().copied(),
        _ => None,
    };
    (world.mqtt[client].got.iter().filter_map(code).collect(), world.mqtt[client].words.clone())
}

const CODES: [u8; 6] = [0x97, 0x83, 0x87, 0x8F, 0x8F, 0x82];

#[test]
fn refusals_say_why_and_what_to_do() {
    let mut world = World::serving(|_| {});
    let (codes, words) = refusals(&mut world, passing("client"));
    assert_eq!(codes, CODES);
    let expected = [
        "retain",
        "65536 at most",
        "publish on another one",
        "250 levels",
        "250 levels",
        "never given a topic",
    ];
    assert_eq!(words.len(), expected.len(), "{words:?}");
    for (words, expected) in words.iter().zip(expected) {
        assert!(words.contains(expected), "{words:?} has no {expected:?}");
    }
}

#[test]
fn who_wants_no_words_or_takes_only_small_packets_hears_codes_alone() {
    let mut world = World::serving(|_| {});
    let silent = v5::Connect { request_problem_info: false, ..passing("silent") };
    let small = v5::Connect { max_packet_size: NonZeroU32::new(40), ..passing("small") };
    for hello in [silent, small] {
        let (codes, words) = refusals(&mut world, hello);
        assert_eq!(codes, CODES);
        assert_eq!(words, [""; 6]);
    }
}

#[test]
fn words_that_just_fit_are_said() {
    let mut world = World::serving(|_| {});
    let unknown_group = |world: &mut World, bytes| {
        let hello = v5::Connect { max_packet_size: NonZeroU32::new(bytes), ..passing("client") };
        let client = world.connected(0, hello);
        assert_eq!(world.want(client, &deep(), QoS::AtMostOnce), 0x8F);
        world.mqtt[client].words.last().cloned().unwrap()
    };
    let words = unknown_group(&mut world, 1_000);
    // First byte, length, identifier, length of the properties, the property, a code.
    let bytes = 1 + 1 + 2 + 1 + 3 + words.len() as u32 + 1;
    assert!(words.len() > 20 && bytes < 127, "{words}");
    assert_eq!(unknown_group(&mut world, bytes), words);
    assert_eq!(unknown_group(&mut world, bytes - 1), "");
}

#[test]
fn a_refused_connection_hears_no_words_that_it_does_not_take() {
    let mut world = World::serving(|_| {});
    let client = world.add_mqtt(mqtt::packet::Version::V5);
    let name = "x".repeat(200);
    for (bytes, said) in [(20, false), (200, true)] {
        let hello = v5::Connect { max_packet_size: NonZeroU32::new(bytes), ..passing(&name) };
        world.dial(client, 0, mqtt::testing::encode_5(hello.into()).unwrap());
        world.run_for(Span::millis(50));
        assert!(matches!(world.last_got(client), Got::Connack { code: 0x85, .. }));
        assert_eq!(!world.mqtt[client].words.last().unwrap().is_empty(), said);
    }
}
