//! Retained messages, wills, and what the broker says of itself.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, lasting, message, will};
use contract::Span;
use mqtt::testing::{QoS, v5};
use std::num::NonZeroU32;

fn retain(world: &mut World, publisher: usize, topic: &str, payload: &[u8]) {
    let mut retained = message(topic, QoS::AtLeastOnce, world.new_id(publisher), payload);
    retained.retain = true;
    world.say_5(publisher, retained);
    world.run_for(Span::millis(20));
}

#[test]
fn the_last_message_is_kept_replaced_and_cleared() {
    let mut world = World::serving(|_| {});
    let publisher = world.connected(0, passing("publisher"));
    let late = |world: &mut World| {
        let subscriber = world.connected(0, passing("late"));
        world.want(subscriber, "+/t", QoS::AtLeastOnce);
        world.run_for(Span::millis(20));
        assert!(world.messages(subscriber).all(|message| message.retain));
        world.texts(subscriber)
    };
    retain(&mut world, publisher, "a/t", b"first");
    assert_eq!(late(&mut world), ["first"]);
    retain(&mut world, publisher, "a/t", b"second");
    retain(&mut world, publisher, "b/t", b"other");
    assert_eq!(late(&mut world), ["second", "other"]);
    retain(&mut world, publisher, "a/t", b"");
    assert_eq!(late(&mut world), ["other"]);
}

#[test]
fn a_subscriber_says_whether_it_wants_what_is_retained() {
    let mut world = World::serving(|_| {});
    let publisher = world.connected(0, passing("publisher"));
    retain(&mut world, publisher, "t", b"kept");
    let subscriber = world.connected(0, passing("subscriber"));
    let how = |retain_handling| v5::SubscriptionOptions {
        retain_handling,
        qos: QoS::AtLeastOnce,
        ..Default::default()
    };
    let handling = [
        (v5::RetainHandling::NoAtSubscribe, 0),
        (v5::RetainHandling::AtSubscribeNew, 0),
        (v5::RetainHandling::AtSubscribe, 1),
        (v5::RetainHandling::AtSubscribe, 2),
    ];
    for (retain_handling, had) in handling {
        world.want_with(subscriber, "t", 0, how(retain_handling));
        assert_eq!(world.texts(subscriber).len(), had, "{retain_handling:?}");
    }
    world.unwant(subscriber, "t");
    world.want_with(subscriber, "t", 0, how(v5::RetainHandling::AtSubscribeNew));
    assert_eq!(world.texts(subscriber).len(), 3);
    world.want(subscriber, "$share/g/t", QoS::AtLeastOnce);
    assert_eq!(world.texts(subscriber).len(), 3, "nothing for who shares a subscription");
}

#[test]
fn what_is_retained_expires_and_keeps_to_its_limit() {
    let mut world = World::serving(|settings| settings.limits.retained_messages = 2);
    let publisher = world.connected(0, passing("publisher"));
    let mut short = message("short", QoS::AtLeastOnce, world.new_id(publisher), b"x");
    short.retain = true;
    short.properties.as_mut().unwrap().message_expiry_interval = NonZeroU32::new(2);
    world.say_5(publisher, short);
    retain(&mut world, publisher, "a", b"kept");
    retain(&mut world, publisher, "b", b"refused");
    assert_eq!((world.stats(0).retained, world.stats(0).retained_refused), (2, 1));
    world.run_for(Span::secs(3));
    retain(&mut world, publisher, "b", b"kept");
    let subscriber = world.connected(0, passing("subscriber"));
    world.want(subscriber, "#", QoS::AtLeastOnce);
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["kept", "kept"]);
    assert_eq!(world.stats(1).retained, 2, "the backup knows");
}

/// The texts that a client has which listens to wills.
fn wills(part: impl FnOnce(&mut World, usize, usize)) -> Vec<String> {
    let mut world = World::serving(|_| {});
    let listener = world.connected(0, passing("listener"));
    world.want(listener, "will", QoS::AtLeastOnce);
    let client = world.add_mqtt(mqtt::packet::Version::V5);
    part(&mut world, client, listener);
    world.texts(listener)
}

fn with_will(client: &str, delay: u32) -> v5::Connect {
    let delayed = v5::LastWill { will_delay_interval_sec: Some(delay), ..will("will", "gone") };
    v5::Connect { last_will: Some(delayed), clean_start: false, ..lasting(client) }
}

#[test]
fn a_will_is_published_when_its_client_goes_without_a_word_and_not_after_one() {
    for (code, had) in [
        (v5::DisconnectReasonCode::NormalDisconnection, 0),
        (v5::DisconnectReasonCode::DisconnectWithWillMessage, 1),
    ] {
        let texts = wills(|world, client, _| {
            world.reconnect(client, 0, with_will("client", 0));
            world.part(client, code);
            world.run_for(Span::secs(1));
        });
        assert_eq!(texts.len(), had, "{code:?}");
    }
    let texts = wills(|world, client, _| {
        world.reconnect(client, 0, with_will("client", 0));
        world.cut_off(client);
        world.run_for(Span::secs(1));
    });
    assert_eq!(texts, ["gone"]);
}

#[test]
fn a_will_waits_for_its_delay_and_who_is_back_leaves_none() {
    let texts = wills(|world, client, listener| {
        world.reconnect(client, 0, with_will("client", 5));
        world.cut_off(client);
        world.run_for(Span::secs(4));
        assert!(world.reconnect(client, 0, with_will("client", 5)));
        world.run_for(Span::secs(10));
        assert!(world.texts(listener).is_empty());
        world.cut_off(client);
        world.run_for(Span::secs(4));
        assert!(world.texts(listener).is_empty());
        world.run_for(Span::secs(2));
    });
    assert_eq!(texts, ["gone"]);
}

#[test]
fn a_will_is_published_at_the_latest_when_its_session_ends() {
    let texts = wills(|world, client, _| {
        let short = v5::Connect { session_expiry_interval_secs: 2, ..with_will("client", 60) };
        world.reconnect(client, 0, short);
        world.cut_off(client);
        world.run_for(Span::secs(3));
    });
    assert_eq!(texts, ["gone"]);
    let texts = wills(|world, client, _| {
        world.reconnect(client, 0, with_will("client", 60));
        world.cut_off(client);
        world.reconnect(client, 0, v5::Connect { clean_start: true, ..lasting("client") });
        world.run_for(Span::millis(50));
    });
    assert_eq!(texts, ["gone"], "a clean start ends the session");
}

#[test]
fn a_will_of_who_was_connected_to_a_primary_that_dies_waits_for_the_grace() {
    for back in [false, true] {
        let mut world = World::serving(|settings| settings.limits.grace = Span::secs(5));
        let client = world.connected(0, with_will("client", 0));
        world.kill(0);
        world.run_for(Span::secs(1));
        let listener = world.connected(1, passing("listener"));
        world.want(listener, "will", QoS::AtLeastOnce);
        if back {
            assert!(world.reconnect(client, 1, with_will("client", 0)));
        }
        world.run_for(Span::secs(3));
        assert!(world.texts(listener).is_empty());
        world.run_for(Span::secs(4));
        assert_eq!(world.texts(listener).len(), usize::from(!back));
    }
}

#[test]
fn a_client_that_passes_begins_anew_after_a_failover_and_leaves_no_will() {
    let mut world = World::serving(|_| {});
    let hello =
        || v5::Connect { last_will: Some(will("will", "gone")), clean_start: false, ..passing("client") };
    let client = world.connected(0, hello());
    world.want(client, "t", QoS::AtLeastOnce);
    world.kill(0);
    world.run_for(Span::secs(1));
    let listener = world.connected(1, passing("listener"));
    world.want(listener, "will", QoS::AtLeastOnce);
    assert!(!world.reconnect(client, 1, hello()), "its session ended with its connection");
    assert_eq!(world.stats(1).subscriptions, 1);
    world.run_for(Span::secs(10));
    assert!(world.texts(listener).is_empty());
}

#[test]
fn the_broker_speaks_of_itself_at_once_and_every_interval() {
    let mut world = World::serving(|settings| settings.limits.sys_interval = Span::secs(10));
    let client = world.connected(0, passing("client"));
    assert_eq!(world.want(client, "$SYS/broker/clients/connected", QoS::AtMostOnce), 0);
    assert_eq!(world.texts(client), ["1"]);
    world.connected(0, passing("another"));
    world.run_for(Span::secs(10));
    assert_eq!(world.texts(client), ["1", "2"]);
    world.run_for(Span::secs(20));
    assert_eq!(world.texts(client).len(), 4);
    // Nobody else may speak there.
    let id = world.send(client, "$SYS/broker/uptime", QoS::AtLeastOnce, b"forged");
    world.run_for(Span::millis(50));
    assert_eq!(world.last_got(client), &Got::Puback(id, 0x87));
}

#[test]
fn a_subscriber_is_given_everything_that_is_retained_however_much_it_is() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut world = World::serving(|settings| {
            (settings.limits.backlog_bytes, settings.limits.queue_messages) = (100_000, 10);
        });
        let publisher = world.connected(0, passing("publisher"));
        for number in 0..1_000 {
            let mut retained =
                message(&format!("t/{number}"), QoS::AtLeastOnce, world.new_id(publisher), &[7; 500]);
            retained.retain = true;
            world.say_5(publisher, retained);
        }
        world.run_for(Span::millis(50));
        let subscriber = world.connected(0, lasting("all"));
        let how = v5::SubscriptionOptions { qos, ..Default::default() };
        let number = world.new_id(subscriber);
        let wanted = v5::Subscribe {
            packet_id: std::num::NonZeroU16::new(number).unwrap(),
            id: None,
            user_properties: Vec::new(),
            topic_filters: vec![("t/#".into(), how)],
        };
        world.stall_mqtt(subscriber, 0, true);
        world.say_5(subscriber, v5::Packet::Subscribe(wanted));
        world.run_for(Span::millis(50));
        for _ in 0..20 {
            world.stall_mqtt(subscriber, 0, false);
            world.run_for(Span::millis(50));
        }
        assert_eq!(world.texts(subscriber).len(), 1_000, "{qos:?}");
        assert_eq!(world.stats(0).dropped, 0);
    }
}
