//! Messages to subscribers: how surely, how many at a time, and with what.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::{Got, answer, lasting, message};
use crate::world::run::replicated;
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{Publish, QoS, v5};
use std::num::{NonZeroU16, NonZeroU32};

fn options(qos: QoS) -> v5::SubscriptionOptions {
    v5::SubscriptionOptions { qos, ..Default::default() }
}

#[test]
fn each_quality_of_service_is_the_lower_of_both_sides() {
    let mut world = World::serving(|_| {});
    let all = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
    let publisher = world.connected(0, passing("publisher"));
    for (number, wanted) in all.into_iter().enumerate() {
        for version in [Version::V311, Version::V5] {
            let name = format!("{number} {version:?}");
            let subscriber = match version {
                Version::V31 | Version::V311 => world.connected_3(0, &name, true),
                Version::V5 => world.connected(0, passing(&name)),
            };
            assert_eq!(usize::from(world.want(subscriber, "t", wanted)), number);
            for sent in all {
                world.send(publisher, "t", sent, b"x");
            }
            world.run_for(Span::millis(50));
            let had: Vec<QoS> = world.messages(subscriber).map(|message| message.qos).collect();
            assert_eq!(had, all.map(|sent| if (sent as u8) < wanted as u8 { sent } else { wanted }));
        }
    }
}

#[test]
fn no_more_are_sent_at_a_time_than_the_client_takes() {
    let mut world = World::serving(|_| {});
    let narrow = v5::Connect { receive_max: NonZeroU16::new(3), ..lasting("narrow") };
    let subscriber = world.connected(0, narrow);
    world.want(subscriber, "t", QoS::ExactlyOnce);
    world.mqtt[subscriber].answers = false;
    let publisher = world.connected(0, passing("publisher"));
    for number in 0..6 {
        world.send(publisher, "t", QoS::ExactlyOnce, format!("{number}").as_bytes());
    }
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["0", "1", "2"]);
    // PUBREC alone does not make room; PUBCOMP does.
    let first = world.messages(subscriber).next().unwrap().packet_id.unwrap().get();
    world.say(subscriber, &answer(5, first));
    world.run_for(Span::millis(50));
    assert_eq!(world.last_got(subscriber), &Got::Pubrel(first, 0));
    assert_eq!(world.texts(subscriber).len(), 3);
    world.say(subscriber, &answer(7, first));
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["0", "1", "2", "3"]);
}

#[test]
fn a_refused_message_makes_room_without_a_release() {
    let mut world = World::serving(|_| {});
    let narrow = v5::Connect { receive_max: NonZeroU16::new(1), ..lasting("narrow") };
    let subscriber = world.connected(0, narrow);
    world.want(subscriber, "t", QoS::ExactlyOnce);
    world.mqtt[subscriber].answers = false;
    let publisher = world.connected(0, passing("publisher"));
    world.send(publisher, "t", QoS::ExactlyOnce, b"unwanted");
    world.send(publisher, "t", QoS::ExactlyOnce, b"wanted");
    world.run_for(Span::millis(50));
    let id = world.messages(subscriber).next().unwrap().packet_id.unwrap().get();
    let [high, low] = id.to_be_bytes();
    world.say(subscriber, &[0x50, 3, high, low, 0x97]);
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["unwanted", "wanted"]);
    assert!(!world.mqtt[subscriber].got.iter().any(|got| matches!(got, Got::Pubrel(..))));
}

#[test]
fn the_oldest_give_way_where_the_queue_is_full() {
    let mut world = World::serving(|settings| settings.limits.queue_messages = 3);
    let subscriber = world.connected(0, lasting("away"));
    world.want(subscriber, "t", QoS::AtLeastOnce);
    world.cut_off(subscriber);
    let publisher = world.connected(0, passing("publisher"));
    for number in 0..5 {
        world.send(publisher, "t", QoS::AtLeastOnce, format!("{number}").as_bytes());
    }
    world.run_for(Span::millis(50));
    assert_eq!(world.stats(0).dropped, 2);
    assert!(world.reconnect(subscriber, 0, v5::Connect { clean_start: false, ..lasting("away") }));
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["2", "3", "4"]);
    assert_eq!((world.stats(0).waiting, world.stats(0).waiting_bytes), (0, 0));
}

#[test]
fn a_message_that_has_expired_is_not_delivered_and_others_say_what_is_left() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, lasting("away"));
    world.want(subscriber, "t", QoS::AtLeastOnce);
    world.cut_off(subscriber);
    let publisher = world.connected(0, passing("publisher"));
    for (seconds, text) in [(2, b"short"), (60, b"long.")] {
        let mut expiring = message("t", QoS::AtLeastOnce, world.new_id(publisher), text);
        expiring.properties.as_mut().unwrap().message_expiry_interval = NonZeroU32::new(seconds);
        world.say_5(publisher, expiring);
    }
    world.run_for(Span::secs(10));
    assert!(world.reconnect(subscriber, 0, v5::Connect { clean_start: false, ..lasting("away") }));
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(subscriber), ["long."]);
    let left =
        world.messages(subscriber).next().unwrap().properties.as_ref().unwrap().message_expiry_interval;
    assert_eq!(left, NonZeroU32::new(50));
}

#[test]
fn overlapping_subscriptions_are_one_message_with_all_their_numbers() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, passing("subscriber"));
    world.want_with(subscriber, "a/#", 1, options(QoS::AtMostOnce));
    world.want_with(subscriber, "a/+", 2, options(QoS::ExactlyOnce));
    world.want_with(subscriber, "a/b", 0, options(QoS::AtLeastOnce));
    let publisher = world.connected(0, passing("publisher"));
    world.send(publisher, "a/b", QoS::ExactlyOnce, b"x");
    world.run_for(Span::millis(50));
    let [only] = &world.messages(subscriber).collect::<Vec<_>>()[..] else { panic!("not one") };
    assert_eq!(only.qos, QoS::ExactlyOnce);
    let numbers: Vec<u32> =
        only.properties.as_ref().unwrap().subscription_ids.iter().map(|id| id.get()).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn no_local_and_retain_as_published_are_kept_to() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    world.want_with(
        client,
        "own",
        0,
        v5::SubscriptionOptions { no_local: true, ..options(QoS::AtLeastOnce) },
    );
    let as_published = v5::SubscriptionOptions { retain_as_published: true, ..options(QoS::AtLeastOnce) };
    world.want_with(client, "as/published", 0, as_published);
    world.want_with(client, "plain", 0, options(QoS::AtLeastOnce));
    let other = world.connected(0, passing("other"));
    for publisher in [client, other] {
        for topic in ["own", "as/published", "plain"] {
            let mut retained = message(topic, QoS::AtLeastOnce, world.new_id(publisher), b"x");
            retained.retain = true;
            world.say_5(publisher, retained);
        }
        world.run_for(Span::millis(50));
    }
    let had: Vec<(String, bool)> =
        world.messages(client).map(|message| (message.topic.to_string(), message.retain)).collect();
    let expected =
        [("as/published", true), ("plain", false), ("own", false), ("as/published", true), ("plain", false)];
    assert_eq!(had, expected.map(|(topic, retain)| (topic.to_owned(), retain)));
}

#[test]
fn aliases_stand_for_topics_and_unknown_ones_end_the_connection() {
    let mut world = World::serving(|_| {});
    let subscriber = world.connected(0, passing("subscriber"));
    world.want(subscriber, "#", QoS::AtMostOnce);
    let publisher = world.connected(0, passing("publisher"));
    for (topic, alias) in [("a", 1), ("", 1), ("b", 1), ("", 1), ("c", 64), ("", 64)] {
        let mut aliased = message(topic, QoS::AtMostOnce, 0, b"x");
        aliased.properties.as_mut().unwrap().topic_alias = NonZeroU16::new(alias);
        world.say_5(publisher, aliased);
    }
    world.run_for(Span::millis(50));
    let topics: Vec<String> = world.messages(subscriber).map(|message| message.topic.to_string()).collect();
    assert_eq!(topics, ["a", "a", "b", "b", "c", "c"]);
    for (alias, code) in [(2, 0x82), (65, 0x94)] {
        let mut unknown = message("", QoS::AtMostOnce, 0, b"x");
        unknown.properties.as_mut().unwrap().topic_alias = NonZeroU16::new(alias);
        world.say_5(publisher, unknown);
        world.run_for(Span::millis(50));
        assert_eq!(world.last_got(publisher), &Got::Disconnect { code, reference: None });
        world.reconnect(publisher, 0, passing("publisher"));
    }
}

#[test]
fn what_is_larger_than_a_client_takes_is_left_out_for_it_alone() {
    let mut world = World::serving(|_| {});
    let small = world.connected(0, v5::Connect { max_packet_size: NonZeroU32::new(100), ..passing("small") });
    let large = world.connected(0, passing("large"));
    for subscriber in [small, large] {
        world.want(subscriber, "t", QoS::AtLeastOnce);
    }
    let publisher = world.connected(0, passing("publisher"));
    world.send(publisher, "t", QoS::AtLeastOnce, &[b'x'; 200]);
    world.send(publisher, "t", QoS::AtLeastOnce, b"fits");
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(small), ["fits"]);
    assert_eq!(world.texts(large).len(), 2);
}

#[test]
fn what_a_client_says_in_the_wrong_order_is_answered_as_the_protocol_has_it() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, passing("client"));
    world.say(client, &answer(6, 77));
    world.run_for(Span::millis(50));
    assert_eq!(world.last_got(client), &Got::Pubcomp(77, 0x92), "a release of nothing");
    world.say(client, &answer(5, 78));
    world.run_for(Span::millis(50));
    assert_eq!(world.last_got(client), &Got::Pubrel(78, 0x92), "a receipt of nothing");
    for kind in [4, 7] {
        world.say(client, &answer(kind, 79));
    }
    world.run_for(Span::millis(50));
    assert!(!world.mqtt[client].closed, "late answers are no harm");
    // QoS 2 with the same number is the same message until its number is released.
    for _ in 0..2 {
        world.mqtt[client].answers = false;
        world.say_5(client, message("t", QoS::ExactlyOnce, 9, b"x"));
        world.run_for(Span::millis(50));
        assert_eq!(world.last_got(client), &Got::Pubrec(9, 0));
    }
    assert_eq!(world.broker(0).traffic().0, 1);
}

#[test]
fn a_number_that_a_client_does_not_know_of_any_more_is_free_for_another_message() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, lasting("client"));
    world.mqtt[client].answers = false;
    let publish = |dup, id| Publish { dup, ..message("t", QoS::ExactlyOnce, id, b"x") };
    for id in 1..=3 {
        world.say_5(client, publish(false, id));
    }
    world.run_for(Span::millis(50));
    world.cut_off(client);
    assert!(world.reconnect(client, 0, lasting("client")));
    // What was under way comes again, from some clients without a word of it.
    for (dup, id) in [(true, 1), (false, 2)] {
        world.say_5(client, publish(dup, id));
        world.run_for(Span::millis(50));
        assert_eq!(world.last_got(client), &Got::Pubrec(id, 0));
    }
    assert_eq!(world.broker(0).traffic().0, 3, "nothing has come twice");
    // After the first that is new, it has begun anew; only what it says to be sent again is.
    for (dup, id, arrived) in [(false, 9, 4), (true, 2, 4), (false, 2, 5), (false, 3, 6), (false, 3, 6)] {
        world.say_5(client, publish(dup, id));
        world.run_for(Span::millis(50));
        assert_eq!(world.last_got(client), &Got::Pubrec(id, 0));
        assert_eq!(world.broker(0).traffic().0, arrived, "{dup} {id}");
    }
}

#[test]
fn native_and_mqtt_clients_hear_each_other() {
    let mut world = World::serving(|_| {});
    let (native, mqtt) = (world.add_client("native"), world.connected(0, passing("mqtt")));
    world.run_for(Span::millis(50));
    world.subscribe(native, "from/mqtt");
    world.want(mqtt, "from/native", QoS::ExactlyOnce);
    let topic = world.advertise(native, "from/native", replicated());
    world.run_for(Span::millis(50));
    world.publish(native, topic, b"to mqtt").unwrap();
    let mut with_trailer = message("from/mqtt", QoS::AtLeastOnce, 1, b"to native");
    with_trailer.properties.as_mut().unwrap().content_type = Some("text/plain".into());
    world.say_5(mqtt, with_trailer);
    world.run_for(Span::millis(50));
    let had: Vec<_> = world.messages(mqtt).map(|message| (message.qos, message.payload.to_vec())).collect();
    assert_eq!(had, [(QoS::AtLeastOnce, b"to mqtt".to_vec())], "losses are bounded, so at least once");
    assert_eq!(world.seen(native).messages[0].3, b"to native", "and no properties in the payload");
}

#[test]
fn a_subscriber_that_stops_reading_loses_qos_0_and_keeps_qos_1() {
    let mut world = World::serving(|settings| {
        (settings.limits.backlog_bytes, settings.limits.queue_messages) = (2_000, 100);
    });
    let subscriber = world.connected(0, passing("slow"));
    world.want(subscriber, "t", QoS::AtLeastOnce);
    let publisher = world.connected(0, passing("publisher"));
    world.stall_mqtt(subscriber, 0, true);
    for number in 0..50 {
        world.send(publisher, "t", QoS::AtMostOnce, &[0; 200]);
        world.send(publisher, "t", QoS::AtLeastOnce, format!("{number}").as_bytes());
        world.run_for(Span::millis(1));
    }
    assert!(world.stats(0).dropped > 30);
    world.stall_mqtt(subscriber, 0, false);
    world.run_for(Span::millis(50));
    let had: Vec<String> = world.texts(subscriber).into_iter().filter(|text| text.len() < 200).collect();
    assert_eq!(had, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
}
