//! What MQTT promises, tried with rumqttc in both of its APIs.

use crate::broker::{Broker, Kind, kind};
use crate::rumqttc_peer::{Api, Peer, Said, Way, Who, v3, v5};
use crate::tools::skipped;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::PublishProperties;

/// Runs a scenario with a broker of its own, if there is one.
fn with_broker(test: &str, act: impl Fn(Way<'_>)) {
    match Broker::start() {
        Ok(broker) => act(Way { port: broker.port, authority: None }),
        Err(reason) => skipped(test, &reason),
    }
}

fn peer<A: Api>(way: Way<'_>, name: &str) -> Peer<A> {
    Peer::connect(&Who { way, name, stay: false, will: None })
}

pub fn every_qos<A: Api>(way: Way<'_>) {
    let mut publisher = peer::<A>(way, "publisher");
    for wanted in 0..3 {
        let mut subscriber = peer::<A>(way, &format!("subscriber-{wanted}"));
        subscriber.subscribe("some/+", wanted);
        for sent in 0..3 {
            for number in 0..5 {
                publisher.publish("some/topic", sent, false, &format!("{sent} {number}"));
            }
            for number in 0..5 {
                let message = subscriber.expect(&format!("{sent} {number}"));
                let as_sent = (message.topic.as_str(), message.qos, message.retain);
                assert_eq!(as_sent, ("some/topic", sent.min(wanted), false));
            }
        }
        subscriber.leave();
    }
}

pub fn retained<A: Api>(way: Way<'_>) {
    let mut publisher = peer::<A>(way, "publisher");
    publisher.publish("kept", 1, true, "old");
    publisher.publish("kept", 1, true, "new");
    let mut late = peer::<A>(way, "late");
    late.subscribe("#", 1);
    assert!(late.expect("new").retain);
    publisher.publish("kept", 1, true, "");
    assert!(!late.expect("").retain);
    let mut after = peer::<A>(way, "after");
    after.subscribe("#", 1);
    publisher.publish("marker", 1, false, "marker");
    after.expect("marker");
}

pub fn wills<A: Api>(way: Way<'_>) {
    let mut watcher = peer::<A>(way, "watcher");
    watcher.subscribe("#", 1);
    let dying = |name| Peer::<A>::connect(&Who { way, name, stay: false, will: Some(name) });
    dying("killed").kill();
    watcher.expect("killed");
    dying("leaving").leave();
    dying("again").kill();
    watcher.expect("again");
}

fn sessions<A: Api>(way: Way<'_>) {
    let keeper = || Peer::<A>::connect(&Who { way, name: "keeper", stay: true, will: None });
    let mut first = keeper();
    assert!(!first.session);
    first.subscribe("queue", 2);
    first.leave();
    let mut publisher = peer::<A>(way, "publisher");
    for number in 0..20 {
        publisher.publish("queue", 1 + number % 2, false, &number.to_string());
    }
    let mut second = keeper();
    assert!(second.session);
    for number in 0..20 {
        assert_eq!(second.expect(&number.to_string()).qos, 1 + number % 2);
    }
    second.leave();
    let mut anew = peer::<A>(way, "keeper");
    assert!(!anew.session);
    anew.subscribe("marker", 0);
    publisher.publish("queue", 1, false, "nobody's");
    publisher.publish("marker", 1, false, "marker");
    anew.expect("marker");
}

fn properties(way: Way<'_>) {
    let (mut subscriber, mut publisher) = (peer::<v5::Version>(way, "to"), peer::<v5::Version>(way, "from"));
    subscriber.subscribe("t", 1);
    let given = PublishProperties {
        payload_format_indicator: Some(1),
        message_expiry_interval: Some(60),
        response_topic: Some("answers/1".to_owned()),
        correlation_data: Some(vec![0, 255, 1].into()),
        user_properties: ["K", "again"].map(|unit| ("unit".to_owned(), unit.to_owned())).to_vec(),
        content_type: Some("text/plain".to_owned()),
        ..PublishProperties::default()
    };
    publisher.client.publish_with_properties("t", QoS::AtLeastOnce, false, "21.5", given.clone()).unwrap();
    publisher.wait_for_answer();
    let mut got = subscriber.expect("21.5").properties.unwrap();
    assert!(got.message_expiry_interval.take().is_some_and(|left| (1..=60).contains(&left)));
    assert_eq!(got, PublishProperties { message_expiry_interval: None, ..given });
}

fn aliases(way: Way<'_>) {
    let (mut subscriber, mut publisher) = (peer::<v5::Version>(way, "to"), peer::<v5::Version>(way, "from"));
    subscriber.subscribe("#", 1);
    for (topic, alias, payload) in
        [("one", 1, "1"), ("two", 2, "2"), ("", 1, "3"), ("three", 1, "4"), ("", 1, "5")]
    {
        let given = PublishProperties { topic_alias: Some(alias), ..PublishProperties::default() };
        publisher.client.publish_with_properties(topic, QoS::AtLeastOnce, false, payload, given).unwrap();
        publisher.wait_for_answer();
    }
    for (topic, payload) in [("one", "1"), ("two", "2"), ("one", "3"), ("three", "4"), ("three", "5")] {
        assert_eq!(subscriber.expect(payload).topic, topic);
    }
}

fn takeover(way: Way<'_>) {
    let mut first = peer::<v5::Version>(way, "one");
    let mut second = peer::<v5::Version>(way, "one");
    let ended = first.wait("end", |said| match said {
        Said::Ended(why) => Some(why.clone()),
        _ => None,
    });
    // Debian's mosquitto closes the connection without a reason.
    assert!(kind() == Kind::Mosquitto || ended.contains("SessionTakenOver"), "{ended}");
    second.subscribe("t", 1);
    second.publish("t", 1, false, "still here");
    second.expect("still here");
}

#[test]
fn rumqttc_exchanges_messages_of_every_qos_in_both_versions() {
    with_broker("rumqttc", every_qos::<v3::Version>);
    with_broker("rumqttc 5", every_qos::<v5::Version>);
}

#[test]
fn rumqttc_gets_retained_messages_until_they_are_cleared() {
    with_broker("rumqttc and retained messages", retained::<v3::Version>);
    with_broker("rumqttc 5 and retained messages", retained::<v5::Version>);
}

#[test]
fn wills_of_rumqttc_are_published_when_it_is_killed_and_not_when_it_leaves() {
    with_broker("wills of rumqttc", wills::<v3::Version>);
    with_broker("wills of rumqttc 5", wills::<v5::Version>);
}

#[test]
fn sessions_of_rumqttc_get_what_was_published_meanwhile() {
    with_broker("sessions of rumqttc", sessions::<v3::Version>);
    with_broker("sessions of rumqttc 5", sessions::<v5::Version>);
}

#[test]
fn rumqttc_passes_properties_and_aliases_and_hears_of_a_takeover() {
    with_broker("properties of rumqttc", properties);
    with_broker("aliases of rumqttc", aliases);
    with_broker("takeover of rumqttc", takeover);
}
