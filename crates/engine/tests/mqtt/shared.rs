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

#[test]
fn what_a_member_has_not_acknowledged_goes_to_another_when_its_session_ends() {
    for lasts in [false, true] {
        let mut world = World::serving(|_| {});
        let hello = |name: &str| match lasts {
            true => crate::world::mqtt::lasting(name),
            false => passing(name),
        };
        let [silent, other] = ["silent", "other"].map(|name| world.connected(0, hello(name)));
        world.mqtt[silent].answers = false;
        for member in [silent, other] {
            world.want(member, "$share/g/t", QoS::ExactlyOnce);
        }
        let publisher = world.connected(0, passing("publisher"));
        for (number, qos) in
            [QoS::AtLeastOnce, QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::ExactlyOnce].into_iter().enumerate()
        {
            world.send(publisher, "t", qos, format!("{number}").as_bytes());
        }
        world.run_for(Span::millis(50));
        assert_eq!([silent, other].map(|member| world.texts(member)), [["0", "2"], ["1", "3"]]);
        // Without its connection alone, a session that lasts keeps them.
        world.cut_off(silent);
        world.run_for(Span::millis(50));
        if lasts {
            assert_eq!(world.texts(other), ["1", "3"]);
            world.reconnect(silent, 0, v5::Connect { clean_start: true, ..passing("silent") });
            world.run_for(Span::millis(50));
        }
        // What was on its way with QoS 2 may have arrived: nobody else is given it.
        assert_eq!(world.texts(other), ["1", "3", "0"]);
        assert_eq!((world.stats(0).passed_on, world.stats(0).dropped), (1, 1));
    }
}

#[test]
fn what_waits_for_a_member_goes_to_another_and_is_counted_where_there_is_none() {
    let mut world = World::serving(|settings| settings.limits.inflight = 1);
    let first = world.connected(0, passing("first"));
    world.mqtt[first].answers = false;
    world.want(first, "$share/g/t", QoS::AtLeastOnce);
    let publisher = world.connected(0, passing("publisher"));
    for number in 0..4 {
        world.send(publisher, "t", QoS::AtLeastOnce, format!("{number}").as_bytes());
    }
    world.run_for(Span::millis(50));
    let second = world.connected(0, passing("second"));
    world.want(second, "$share/g/t", QoS::AtLeastOnce);
    world.part(first, v5::DisconnectReasonCode::NormalDisconnection);
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(second), ["0", "1", "2", "3"]);
    world.mqtt[second].answers = false;
    world.send(publisher, "t", QoS::AtLeastOnce, b"4");
    world.run_for(Span::millis(50));
    world.part(second, v5::DisconnectReasonCode::NormalDisconnection);
    world.run_for(Span::millis(50));
    assert_eq!((world.stats(0).passed_on, world.stats(0).dropped, world.stats(0).waiting), (4, 1, 0));
}
