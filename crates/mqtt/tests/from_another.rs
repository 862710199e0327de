//! What another implementation of MQTT sends as a client is read as what it meant.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/made_up.rs"]
mod made_up;

use made_up::*;
use mqtt::packet::{
    Answer, Connect, Decoded, PACKET_BYTES_MAX, Packet, Properties, Qos, RetainHandling, Version, Will,
    decode,
};
use mqtt::testing::{Publish, QoS, encode_3, encode_5, v3, v5};
use proptest::prelude::*;

fn whole(bytes: &[u8], version: Option<Version>) -> Packet<'_> {
    match decode(bytes, version, PACKET_BYTES_MAX) {
        Ok(Decoded::Packet(packet, used)) if used == bytes.len() => packet,
        other => panic!("{other:?}"),
    }
}

fn same(qos: QoS) -> Qos {
    match qos {
        QoS::AtMostOnce => Qos::AtMostOnce,
        QoS::AtLeastOnce => Qos::AtLeastOnce,
        QoS::ExactlyOnce => Qos::ExactlyOnce,
    }
}

fn check_publish(bytes: &[u8], version: Version, sent: &Publish) {
    let Packet::Publish(came) = whole(bytes, Some(version)) else { panic!("no PUBLISH") };
    assert_eq!((came.dup, came.retain, came.qos), (sent.dup, sent.retain, same(sent.qos)));
    assert_eq!(came.topic, &*sent.topic);
    assert_eq!(came.id, sent.packet_id.map_or(0, Into::into));
    assert_eq!(came.payload, &sent.payload[..]);
    let Some(properties) = &sent.properties else {
        assert!(came.properties.is_empty() && came.alias.is_none() && came.expiry.is_none());
        return;
    };
    assert_eq!(came.alias, properties.topic_alias.map(Into::into));
    assert_eq!(came.expiry, properties.message_expiry_interval.map(Into::into));
    check_user(came.properties, &properties.user_properties);
    // What goes on, seen by the other implementation.
    let mut forwarded = Vec::new();
    came.properties.forward(&mut forwarded);
    assert_eq!(came.properties.has_forwardable(), !forwarded.is_empty());
    let kept =
        v5::PublishProperties { topic_alias: None, message_expiry_interval: None, ..properties.clone() };
    assert_eq!(read_properties(&forwarded), kept);
    assert_eq!(Properties::stored(&forwarded).user().count(), properties.user_properties.len());
}

fn check_user(came: Properties<'_>, sent: &v5::UserProperties) {
    let sent: Vec<(&str, &str)> = sent.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(came.user().collect::<Vec<_>>(), sent);
}

/// Has the library read encoded properties of a message.
fn read_properties(encoded: &[u8]) -> v5::PublishProperties {
    let mut out = Vec::new();
    let delivery = mqtt::packet::Delivery {
        dup: false,
        qos: Qos::AtMostOnce,
        retain: false,
        topic: "t",
        id: 0,
        alias: None,
        expiry: None,
        subscriptions: &[],
        properties: encoded,
        payload: &[],
    };
    mqtt::packet::delivery(&mut out, Version::V5, &delivery);
    let mut broker = mqtt::testing::FromBroker::new(Version::V5);
    broker.feed(&out);
    match broker.packet().unwrap() {
        Some(mqtt::testing::MqttPacket::V5(v5::Packet::Publish(publish))) => publish.properties.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn read_connect(bytes: &[u8]) -> Connect {
    let Packet::Connect(connect) = whole(bytes, None) else { panic!("no CONNECT") };
    *connect
}

proptest! {
    #[test]
    fn publishes_of_3(sent in publish(Version::V311)) {
        check_publish(&encode_3(sent.clone().into()).unwrap(), Version::V311, &sent);
    }

    #[test]
    fn publishes_of_5(sent in publish(Version::V5)) {
        check_publish(&encode_5(sent.clone().into()).unwrap(), Version::V5, &sent);
    }

    #[test]
    fn connects_of_3(sent in connect_3()) {
        let came = read_connect(&encode_3(sent.clone().into()).unwrap());
        let will = sent.last_will.map(|will| Will {
            topic: (&*will.topic).into(),
            payload: will.message.to_vec().into(),
            qos: same(will.qos),
            retain: will.retain,
            delay: 0,
            expiry: None,
            properties: Box::default(),
        });
        prop_assert_eq!(came, Connect {
            version: Version::V311,
            bridge: false,
            client: (&*sent.client_id).into(),
            clean_start: sent.clean_session,
            keep_alive: sent.keep_alive,
            will,
            user: sent.username.map(|user| (&*user).into()),
            password: sent.password.map(|password| password.to_vec().into()),
            session_expiry: if sent.clean_session { 0 } else { u32::MAX },
            receive_maximum: 65_535,
            packet_bytes_max: None,
            topic_alias_maximum: 0,
            wants_problems: false,
            authentication: None,
        });
    }

    #[test]
    fn connects_of_5(sent in connect_5()) {
        let came = read_connect(&encode_5(sent.clone().into()).unwrap());
        prop_assert_eq!(&*came.client, &*sent.client_id);
        prop_assert_eq!((came.version, came.clean_start, came.keep_alive), (Version::V5, sent.clean_start, sent.keep_alive));
        prop_assert_eq!(came.session_expiry, sent.session_expiry_interval_secs);
        prop_assert_eq!(came.receive_maximum, sent.receive_max.map_or(65_535, Into::into));
        prop_assert_eq!(came.packet_bytes_max, sent.max_packet_size.map(Into::into));
        prop_assert_eq!(came.topic_alias_maximum, sent.topic_alias_max);
        prop_assert_eq!(came.wants_problems, sent.request_problem_info);
        prop_assert_eq!(came.authentication.as_deref(), sent.auth_method.as_deref());
        prop_assert_eq!(came.user.as_deref(), sent.username.as_deref());
        prop_assert_eq!(came.password.as_deref(), sent.password.as_deref());
        prop_assert_eq!(came.will.is_some(), sent.last_will.is_some());
        if let (Some(came), Some(sent)) = (came.will, sent.last_will) {
            prop_assert_eq!((&*came.topic, &*came.payload), (&*sent.topic, &sent.message[..]));
            prop_assert_eq!((came.qos, came.retain), (same(sent.qos), sent.retain));
            prop_assert_eq!(came.delay, sent.will_delay_interval_sec.unwrap_or(0));
            prop_assert_eq!(came.expiry, sent.message_expiry_interval.map(Into::into));
            let properties = read_properties(&came.properties);
            check_user(Properties::stored(&came.properties), &sent.user_properties);
            prop_assert_eq!(properties, v5::PublishProperties {
                topic_alias: None,
                correlation_data: sent.correlation_data,
                message_expiry_interval: None,
                content_type: sent.content_type,
                user_properties: sent.user_properties,
                is_utf8_payload: sent.is_utf8_payload.unwrap_or(false),
                response_topic: sent.response_topic,
                subscription_ids: Vec::new(),
            });
        }
    }

    #[test]
    fn subscribes(sent in subscribe_5()) {
        let bytes = encode_5(v5::Packet::Subscribe(sent.clone())).unwrap();
        let Packet::Subscribe(came) = whole(&bytes, Some(Version::V5)) else { panic!("no SUBSCRIBE") };
        prop_assert_eq!((came.id, came.subscription), (sent.packet_id.into(), sent.id.map(Into::into)));
        prop_assert_eq!(came.filters.len(), sent.topic_filters.len());
        for (came, (filter, options)) in came.filters.iter().zip(&sent.topic_filters) {
            prop_assert_eq!(&*came.filter, &**filter);
            prop_assert_eq!(came.options.qos, same(options.qos));
            prop_assert_eq!(came.options.no_local, options.no_local);
            prop_assert_eq!(came.options.retain_as_published, options.retain_as_published);
            prop_assert_eq!(came.options.retain_handling, match options.retain_handling {
                v5::RetainHandling::AtSubscribe => RetainHandling::Send,
                v5::RetainHandling::AtSubscribeNew => RetainHandling::SendIfNew,
                v5::RetainHandling::NoAtSubscribe => RetainHandling::Keep,
            });
        }
        let topic_filters: Vec<_> = sent.topic_filters.into_iter().map(|(filter, options)| (filter, options.qos)).collect();
        let bytes = encode_3(v3::Packet::Subscribe { packet_id: sent.packet_id, topic_filters: topic_filters.clone() }).unwrap();
        let Packet::Subscribe(came) = whole(&bytes, Some(Version::V311)) else { panic!("no SUBSCRIBE") };
        prop_assert_eq!((came.id, came.subscription), (sent.packet_id.into(), None));
        let came: Vec<_> = came.filters.iter().map(|wanted| (&*wanted.filter, wanted.options.qos)).collect();
        let sent: Vec<_> = topic_filters.iter().map(|(filter, qos)| (&**filter, same(*qos))).collect();
        prop_assert_eq!(came, sent);
    }

    #[test]
    fn unsubscribes(sent in unsubscribe_5()) {
        let filters: Vec<&str> = sent.topic_filters.iter().map(|filter| &**filter).collect();
        let five = encode_5(v5::Packet::Unsubscribe(sent.clone())).unwrap();
        let three = v3::Packet::Unsubscribe { packet_id: sent.packet_id, topic_filters: sent.topic_filters.clone() };
        for (bytes, version) in [(five, Version::V5), (encode_3(three).unwrap(), Version::V311)] {
            let Packet::Unsubscribe(came) = whole(&bytes, Some(version)) else { panic!("no UNSUBSCRIBE") };
            prop_assert_eq!(came.id, sent.packet_id.get());
            prop_assert_eq!(came.filters.iter().map(|filter| &**filter).collect::<Vec<_>>(), filters.clone());
        }
    }

    #[test]
    fn answers_to_messages((sent, first) in answer_5()) {
        let bytes = encode_5(sent.clone()).unwrap();
        let Packet::Acknowledge(came) = whole(&bytes, Some(Version::V5)) else { panic!("no answer") };
        let (id, reason): (_, u8) = match sent {
            v5::Packet::PublishAck(it) | v5::Packet::PublishReceived(it) => (it.packet_id, it.reason_code.into()),
            v5::Packet::PublishRelease(it) | v5::Packet::PublishComplete(it) => (it.packet_id, it.reason_code.into()),
            other => panic!("{other:?}"),
        };
        let answer = match first {
            0x40 => Answer::PubAck,
            0x50 => Answer::PubRec,
            0x62 => Answer::PubRel,
            _ => Answer::PubComp,
        };
        prop_assert_eq!((came.answer, came.id, came.reason.0), (answer, id.get(), reason));
    }

    #[test]
    fn last_words(sent in disconnect()) {
        let bytes = encode_5(v5::Packet::Disconnect(sent.clone())).unwrap();
        let Packet::Disconnect(came) = whole(&bytes, Some(Version::V5)) else { panic!("no DISCONNECT") };
        prop_assert_eq!((came.reason.0, came.session_expiry), (sent.reason_code.into(), sent.session_expiry_interval_secs));
    }
}

#[test]
fn what_has_no_fields() {
    for (bytes, version, packet) in [
        (encode_3(v3::Packet::PingRequest).unwrap(), Version::V311, v5::Packet::PingRequest),
        (encode_5(v5::Packet::PingRequest).unwrap(), Version::V5, v5::Packet::PingRequest),
    ] {
        assert_eq!(whole(&bytes, Some(version)), Packet::Ping, "{packet:?}");
    }
    let bytes = encode_3(v3::Packet::Disconnect).unwrap();
    assert!(matches!(whole(&bytes, Some(Version::V311)), Packet::Disconnect(_)));
    let auth = v5::Auth {
        reason_code: v5::AuthReasonCode::ReAuth,
        auth_method: Some("m".into()),
        auth_data: Some(vec![1, 2].into()),
        reason_string: None,
        user_properties: Vec::new(),
    };
    let bytes = encode_5(v5::Packet::Auth(auth)).unwrap();
    assert_eq!(whole(&bytes, Some(Version::V5)), Packet::Auth(mqtt::packet::Reason(0x19)));
}
