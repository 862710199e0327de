//! What a backup knows, and what clients find there.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, message};
use contract::Span;
use mqtt::testing::{QoS, encode_5};

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
