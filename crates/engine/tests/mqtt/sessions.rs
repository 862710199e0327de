//! Sessions: who is let in, who is taken over, and what outlives a connection.

use crate::world::World;
use crate::world::mqtt::{Got, lasting};
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{QoS, publish, v5};

/// A CONNECT whose session ends with its connection.
pub fn passing(client: &str) -> v5::Connect {
    v5::Connect { client_id: client.into(), keep_alive: 60, ..Default::default() }
}

#[test]
fn a_client_that_comes_and_goes_leaves_no_timers_behind() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, lasting("comes and goes"));
    for _ in 0..100 {
        world.cut_off(client);
        assert!(world.reconnect(client, 0, lasting("comes and goes")));
    }
    assert!(world.timers(0) <= 2, "{} timers", world.timers(0));
}

#[test]
fn a_client_of_3_1_1_that_sends_a_great_deal_at_once_is_slowed_down_and_not_expelled() {
    let mut world = World::serving(|settings| settings.limits.receive_maximum = 10);
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let client = world.connected_3(0, "burst", true);
        let all: Vec<u8> =
            (1..=1_000).flat_map(|id| publish(Version::V311, "t", qos, id, b"x").unwrap()).collect();
        world.say(client, &all);
        world.run_for(Span::secs(1));
        let answered = |got: &&Got| matches!(got, Got::Puback(..) | Got::Pubrec(..));
        assert_eq!(world.mqtt[client].got.iter().filter(answered).count(), 1_000);
        assert!(!world.mqtt[client].closed);
    }
}

#[test]
fn a_client_of_5_that_ignores_the_receive_maximum_is_expelled() {
    let mut world = World::serving(|settings| settings.limits.receive_maximum = 10);
    let client = world.connected(0, passing("burst"));
    let all: Vec<u8> =
        (1..=11).flat_map(|id| publish(Version::V5, "t", QoS::ExactlyOnce, id, b"x").unwrap()).collect();
    world.mqtt[client].answers = false;
    world.say(client, &all);
    world.run_for(Span::secs(1));
    assert_eq!(world.last_got(client), &Got::Disconnect { code: 0x93, reference: None });
}

#[test]
fn a_deposed_primary_forgets_the_sessions_of_clients_that_were_connected_to_it() {
    let mut world = World::serving(|_| {});
    world.cut_pair();
    world.run_for(Span::secs(2));
    assert!(world.broker(0).is_primary() && world.broker(1).is_primary(), "each takes the other for dead");
    for broker in 0..2 {
        let client = world.connected(broker, lasting(["here", "there"][usize::from(broker)]));
        world.want(client, "t", QoS::AtLeastOnce);
    }
    world.mend_pair();
    world.run_for(Span::secs(3));
    let reigning = usize::from(world.broker(1).is_primary());
    assert!(world.broker(reigning).is_protected());
    assert_eq!(world.stats(reigning).sessions, 1);
    assert_eq!(world.stats(1 - reigning).sessions, 1);
    // Who was connected to the deposed one has been sent to the other.
    let sent_away = Got::Disconnect { code: 0x9c, reference: Some(["a:1883", "b:1883"][reigning].into()) };
    assert_eq!(world.last_got(1 - reigning), &sent_away);
}
