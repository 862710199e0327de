//! Shared subscriptions.

use crate::world::World;
use contract::{Contract, Span};
use mqtt::testing::{QoS, v5};

/// A CONNECT whose session ends with its connection.
fn passing(client: &str) -> v5::Connect {
    v5::Connect { client_id: client.into(), keep_alive: 60, ..Default::default() }
}

#[test]
fn members_of_a_group_take_turns() {
    let mut world = World::serving(|_| {});
    let members = ["one", "two", "three"].map(|name| world.connected(0, passing(name)));
    for member in members {
        assert_eq!(world.want(member, "$share/g/t", QoS::AtLeastOnce), 1);
    }
    let publisher = world.connected(0, passing("publisher"));
    for number in 0..6 {
        world.send(publisher, "t", QoS::AtLeastOnce, format!("{number}").as_bytes());
    }
    world.run_for(Span::millis(50));
    assert_eq!(members.map(|member| world.texts(member)), [["0", "3"], ["1", "4"], ["2", "5"]]);
}

#[test]
fn members_that_have_gone_are_no_load_any_more() {
    let mut world = World::serving(|_| {});
    let native = world.add_client("native");
    world.run_for(Span::millis(50));
    // About 800 subscribers could be served in time.
    let topic = world.advertise(
        native,
        "t",
        Contract::every(Span::millis(1)).tolerate(200).deadline(Span::millis(5)),
    );
    world.run_for(Span::millis(50));
    assert!(
        matches!(world.seen(native).verdicts[&topic], endpoint::PublicationState::Admitted(_)),
        "{:?}",
        world.seen(native).verdicts
    );
    for round in 0..1_500 {
        let member = world.connected(0, passing("member"));
        assert_eq!(world.want(member, "$share/g/t", QoS::AtMostOnce), 0, "in round {round}");
        world.part(member, v5::DisconnectReasonCode::NormalDisconnection);
    }
}
