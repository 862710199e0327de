//! Sentences of the standard that no other test here is about.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, answer, lasting, message};
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{QoS, encode_5, publish, v5};
use std::num::NonZeroU16;

/// So many messages are retained below `t`.
fn retaining(tune: fn(&mut mqtt::Settings), count: usize) -> World {
    let mut world = World::serving(tune);
    let publisher = world.connected(0, passing("publisher"));
    for number in 0..count {
        let mut retained =
            message(&format!("t/{number:04}"), QoS::AtLeastOnce, 7, number.to_string().as_bytes());
        retained.retain = true;
        world.say_5(publisher, retained);
        world.run_for(Span::millis(1));
    }
    world.run_for(Span::millis(50));
    world
}

fn answer_all(world: &mut World, client: usize) {
    let ids: Vec<u16> = world.messages(client).filter_map(|message| Some(message.packet_id?.get())).collect();
    ids.into_iter().for_each(|id| world.say(client, &answer(4, id)));
    world.run_for(Span::millis(50));
}

#[test]
fn what_is_retained_is_given_whole_although_the_connection_or_the_primary_ends_meanwhile() {
    for (dies, qos) in [(false, QoS::AtLeastOnce), (true, QoS::AtLeastOnce), (false, QoS::ExactlyOnce)] {
        let mut world = retaining(|_| {}, 600);
        let subscriber = world.connected(0, lasting("subscriber"));
        world.mqtt[subscriber].answers = false;
        assert!(world.want(subscriber, "t/#", qos) < 0x80);
        world.run_for(Span::millis(50));
        let first = world.texts(subscriber);
        assert!(first.len() < 600, "its window is full");
        let reigns = u8::from(dies);
        if dies {
            world.kill(0);
            world.run_for(Span::secs(1));
        } else {
            world.cut_off(subscriber);
        }
        world.mqtt[subscriber].answers = true;
        assert!(world.reconnect(
            subscriber,
            reigns,
            v5::Connect { clean_start: false, ..lasting("subscriber") }
        ));
        world.run_for(Span::secs(1));
        let mut all = [first, world.texts(subscriber)].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 600, "{dies} {qos:?}");
        // It has everything now, and is given nothing once more.
        world.cut_off(subscriber);
        world.reconnect(subscriber, reigns, v5::Connect { clean_start: false, ..lasting("subscriber") });
        world.run_for(Span::secs(1));
        assert_eq!(world.texts(subscriber), [""; 0]);
    }
}

#[test]
fn a_release_is_asked_for_again_whatever_the_window_has_become() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, lasting("subscriber"));
    world.want(subscriber, "t", QoS::ExactlyOnce);
    world.mqtt[subscriber].answers = false;
    let publisher = world.connected(0, passing("publisher"));
    (0..5).for_each(|number: u8| _ = world.send(publisher, "t", QoS::ExactlyOnce, &[b'0' + number]));
    world.run_for(Span::millis(50));
    let last = world.messages(subscriber).last().unwrap().packet_id.unwrap().get();
    world.say(subscriber, &answer(5, last));
    world.run_for(Span::millis(50));
    world.cut_off(subscriber);
    let narrow = v5::Connect { clean_start: false, receive_max: NonZeroU16::new(1), ..lasting("subscriber") };
    assert!(world.reconnect(subscriber, 0, narrow));
    world.run_for(Span::millis(50));
    let got = &world.mqtt[subscriber].got;
    let released: Vec<&Got> = got.iter().filter(|got| matches!(got, Got::Pubrel(..))).collect();
    assert!(matches!(released[..], [Got::Pubrel(id, 0)] if *id == last), "{got:?}");
    assert_eq!(world.texts(subscriber), ["0"], "the window is one");
}

#[test]
fn a_name_that_is_given_is_nobody_elses() {
    let mut world = World::serving(|_| {});
    let named = |world: &mut World| match world.try_connect(0, passing("")) {
        Got::Connack { code: 0, more: Some(ack), .. } => ack.assigned_client_id.unwrap().to_string(),
        other => panic!("{other:?}"),
    };
    let first = named(&mut world);
    let (stem, number) = first.rsplit_once('-').unwrap();
    let next = format!("{stem}-{}", number.parse::<u32>().unwrap() + 1);
    let taken = world.connected(0, passing(&next));
    assert_ne!(named(&mut world), next);
    assert!(!world.mqtt[taken].closed);
}

#[test]
fn what_cannot_be_retained_leaves_nothing_older_behind() {
    let mut world = World::serving(|settings| settings.limits.retained_bytes = 2_000);
    let publisher = world.connected(0, passing("publisher"));
    for payload in [&[1; 10][..], &[2; 3_000]] {
        let mut retained = message("t", QoS::AtLeastOnce, world.new_id(publisher), payload);
        retained.retain = true;
        world.say_5(publisher, retained);
        world.run_for(Span::millis(50));
    }
    assert_eq!((world.stats(0).retained, world.stats(1).retained), (0, 0), "the backup knows");
    assert_eq!(world.stats(0).retained_refused, 1);
}

#[test]
fn what_follows_a_connect_that_is_refused_has_no_effect() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, passing("subscriber"));
    world.want(subscriber, "t", QoS::AtMostOnce);
    let refused = v5::Connect { client_id: "x".repeat(124).into(), ..passing("") };
    let client = world.add_mqtt(Version::V5);
    let bytes =
        [encode_5(refused.into()).unwrap(), publish(Version::V5, "t", QoS::AtLeastOnce, 1, b"x").unwrap()];
    world.dial(client, 0, bytes.concat());
    world.run_for(Span::secs(1));
    assert!(
        matches!(world.mqtt[client].got[..], [Got::Connack { code: 0x85, .. }]),
        "{:?}",
        world.mqtt[client].got
    );
    assert!(world.mqtt[client].closed);
    assert_eq!(world.texts(subscriber), [""; 0]);
}

#[test]
fn answers_about_filters_have_their_codes_in_the_order_of_the_filters() {
    let mut world = World::serving(|settings| settings.limits.topic_levels = 3);
    let client = world.connected(0, passing("client"));
    let filters = ["a", "1/2/3/4", "b", "$share/g/1/2/3/4", "c"];
    let how = |qos| v5::SubscriptionOptions { qos, ..Default::default() };
    let wanted = [QoS::AtMostOnce, QoS::AtMostOnce, QoS::ExactlyOnce, QoS::AtMostOnce, QoS::AtLeastOnce];
    let subscribe = v5::Subscribe {
        packet_id: NonZeroU16::new(5).unwrap(),
        id: None,
        user_properties: Vec::new(),
        topic_filters: filters.iter().zip(wanted).map(|(filter, qos)| ((*filter).into(), how(qos))).collect(),
    };
    world.say_5(client, v5::Packet::Subscribe(subscribe));
    world.run_for(Span::millis(50));
    assert_eq!(world.last_got(client), &Got::Suback(5, vec![0, 0x8F, 2, 0x8F, 1]));
    let unsubscribe = v5::Unsubscribe {
        packet_id: NonZeroU16::new(6).unwrap(),
        user_properties: Vec::new(),
        topic_filters: ["c", "nowhere", "a"].map(Into::into).to_vec(),
    };
    world.say_5(client, v5::Packet::Unsubscribe(unsubscribe));
    world.run_for(Span::millis(50));
    assert_eq!(world.last_got(client), &Got::Unsuback(6, vec![0, 0x11, 0]));
}

#[test]
fn that_a_message_is_sent_again_is_said_to_nobody_else() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, passing("subscriber"));
    world.want(subscriber, "t", QoS::ExactlyOnce);
    let publisher = world.connected(0, passing("publisher"));
    for (number, qos) in [(1, QoS::AtLeastOnce), (2, QoS::ExactlyOnce)] {
        let mut again = message("t", qos, number, b"x");
        again.dup = true;
        world.say_5(publisher, again);
        world.run_for(Span::millis(50));
    }
    assert_eq!(world.messages(subscriber).map(|message| message.dup).collect::<Vec<_>>(), [false; 2]);
}

#[test]
fn numbers_of_messages_that_are_under_way_are_not_given_again() {
    let mut world = World::serving(|settings| settings.limits.inflight = 100);
    let subscriber = world.connected(0, lasting("subscriber"));
    world.want(subscriber, "t", QoS::AtLeastOnce);
    let publisher = world.connected(0, passing("publisher"));
    world.mqtt[subscriber].answers = false;
    (0..50).for_each(|_| _ = world.send(publisher, "t", QoS::AtLeastOnce, b"held"));
    world.run_for(Span::millis(50));
    let held: Vec<u16> = world.messages(subscriber).map(|message| message.packet_id.unwrap().get()).collect();
    world.mqtt[subscriber].answers = true;
    // All numbers that there are, and those of the first ones once more.
    for _ in 0..700 {
        world.mqtt[subscriber].got.clear();
        (0..100).for_each(|_| _ = world.send(publisher, "t", QoS::AtMostOnce, b"x"));
        (0..100).for_each(|_| _ = world.send(publisher, "t", QoS::AtLeastOnce, b"x"));
        world.run_for(Span::millis(10));
        let given = world.messages(subscriber).filter_map(|message| message.packet_id);
        assert!(given.into_iter().all(|id| !held.contains(&id.get())));
    }
    world.mqtt[subscriber].got.clear();
    answer_all(&mut world, subscriber);
}
