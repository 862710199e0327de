//! Contracts that publishers ask for by user properties.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, message};
use contract::Span;
use mqtt::testing::{QoS, encode_5};

/// Publishes with these user properties. Returns the code of the answer.
fn ask(world: &mut World, publisher: usize, topic: &str, terms: &[(&str, &str)]) -> u8 {
    let mut asking = message(topic, QoS::AtLeastOnce, world.new_id(publisher), b"x");
    let properties = asking.properties.as_mut().unwrap();
    properties.user_properties =
        terms.iter().map(|(name, value)| (format!("verge-{name}").into(), (*value).into())).collect();
    world.say(publisher, &encode_5(asking.into()).unwrap());
    world.run_for(Span::millis(50));
    match world.last_got(publisher) {
        Got::Puback(_, code) => *code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frequent_messages_of_which_none_may_be_lost_are_taken_from_who_keeps_enough_of_them() {
    let mut world = World::serving(|_| {});
    let publisher = world.connected(0, passing("publisher"));
    let terms = [("deadline", "20ms"), ("period", "10ms"), ("loss", "0")];
    assert_eq!(ask(&mut world, publisher, "t", &terms), 0x97, "one that keeps none");
    let [deadline, period, loss] = terms;
    for (kept, code) in [("1", 0x97), ("50", 0)] {
        assert_eq!(ask(&mut world, publisher, "t", &[deadline, period, loss, ("retain", kept)]), code);
    }
    // It is the same contract as before, and another number makes another.
    assert_eq!(ask(&mut world, publisher, "t", &[deadline, period, loss, ("retain", "50")]), 0);
    assert_eq!(ask(&mut world, publisher, "t", &[deadline, period, loss, ("retain", "51")]), 0x97);
}

#[test]
fn terms_that_are_none_are_answered_as_such() {
    let mut world = World::serving(|_| {});
    let publisher = world.connected(0, passing("publisher"));
    let bad = [
        ("retain", "-1"),
        ("retain", "many"),
        ("retain", ""),
        ("retain", "4294967296"),
        ("retain", "65537"),
        ("loss", "few"),
        ("deadline", "10"),
        ("deadline", "0"),
        ("period", "often"),
        ("priority", "256"),
    ];
    for term in bad {
        assert_eq!(ask(&mut world, publisher, "t", &[term]), 0x83, "{term:?}");
    }
    assert_eq!(world.broker(0).traffic().0, 0, "none of them is published");
}

#[test]
fn a_message_without_memory_is_answered_with_what_would_help() {
    let mut world = World::with_gateway(|settings| settings.limits.store_bytes = 100_000, Some(|_| {}));
    world.run_for(Span::secs(1));
    let publisher = world.connected(0, passing("publisher"));
    for (bytes, code) in [(90_000, 0), (150_000, 0x97), (90_000, 0)] {
        let sent = message("t", QoS::AtLeastOnce, world.new_id(publisher), &vec![7; bytes]);
        world.say(publisher, &encode_5(sent.into()).unwrap());
        world.run_for(Span::millis(50));
        let Got::Puback(_, got) = world.last_got(publisher) else { panic!("no answer") };
        assert_eq!(*got, code, "{bytes} bytes");
    }
    let log = world.log(0).join("\n");
    assert!(log.contains("150000 bytes without a loss bound") && log.contains("limits.store"), "{log}");
    assert_eq!(
        ask(
            &mut world,
            publisher,
            "sized",
            &[("loss", "0"), ("deadline", "1s"), ("retain", "50"), ("size", "100000")]
        ),
        0x97
    );
    assert_eq!(ask(&mut world, publisher, "sized", &[("size", "many")]), 0x83);
}
