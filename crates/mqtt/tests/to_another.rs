//! What the broker says is read by another implementation of MQTT as what it meant.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/made_up.rs"]
mod made_up;

use made_up::{bytes, publish_properties, subscription_id, text, topic};
use mqtt::packet::{
    Answer, ConnAck, Decoded, Delivery, PACKET_BYTES_MAX, Packet, Qos, Reason, Version, acknowledge,
    acknowledge_error, connack, decode, delivery, delivery_bytes, disconnect, pong, suback, unsuback,
};
use mqtt::testing::{FromBroker, MqttPacket, Publish, QoS, encode_5, v3, v5};
use proptest::prelude::*;
use std::num::NonZeroU16;

fn read_3(bytes: &[u8]) -> v3::Packet {
    let mut broker = FromBroker::new(Version::V311);
    broker.feed(bytes);
    match broker.packet().unwrap() {
        Some(MqttPacket::V3(packet)) => packet,
        other => panic!("{other:?} of {bytes:02X?}"),
    }
}

fn read_5(bytes: &[u8]) -> v5::Packet {
    let mut broker = FromBroker::new(Version::V5);
    broker.feed(bytes);
    match broker.packet().unwrap() {
        Some(MqttPacket::V5(packet)) => packet,
        other => panic!("{other:?} of {bytes:02X?}"),
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    // What stands in the buffer already stays.
    let mut out = vec![7; 3];
    write(&mut out);
    assert_eq!(out[..3], [7; 3]);
    out.split_off(3)
}

fn qos() -> impl Strategy<Value = (Qos, QoS)> {
    prop::sample::select(vec![
        (Qos::AtMostOnce, QoS::AtMostOnce),
        (Qos::AtLeastOnce, QoS::AtLeastOnce),
        (Qos::ExactlyOnce, QoS::ExactlyOnce),
    ])
}

fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec![
        Reason::SUCCESS,
        Reason::UNSPECIFIED,
        Reason::PROTOCOL_ERROR,
        Reason::UNSUPPORTED_VERSION,
        Reason::BAD_CREDENTIALS,
        Reason::SERVER_MOVED,
        Reason::CONNECTION_RATE_EXCEEDED,
    ])
}

/// Payloads around the places where lengths get another byte.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let edge = prop::sample::select(vec![100usize, 16_370, 2_097_140]);
    prop_oneof![8 => bytes(200), 1 => (edge, 0..40usize).prop_map(|(edge, more)| vec![9; edge + more])]
}

proptest! {
    #[test]
    fn deliveries(
        (dup, retain, (ours, theirs), topic, id) in (any::<bool>(), any::<bool>(), qos(), topic(), any::<NonZeroU16>()),
        properties in publish_properties(),
        subscriptions in prop::collection::vec(subscription_id(), 0..5),
        payload in payload(),
    ) {
        // What goes on to subscribers, as it comes out of a PUBLISH.
        let came = Publish {
            dup: false, retain: false, qos: QoS::AtMostOnce, topic: "t".into(), packet_id: None, payload: vec![].into(),
            properties: Some(properties.clone()),
        };
        let came = encode_5(came.into()).unwrap();
        let Ok(Decoded::Packet(Packet::Publish(came), _)) = decode(&came, Some(Version::V5), PACKET_BYTES_MAX) else { panic!() };
        let forwarded = written(|out| came.properties.forward(out));
        let numbers: Vec<u32> = subscriptions.iter().map(|number| number.get()).collect();
        let id = if ours == Qos::AtMostOnce { 0 } else { id.get() };
        let sent = Delivery {
            dup, qos: ours, retain, topic: &topic, id, alias: came.alias, expiry: came.expiry, subscriptions: &numbers,
            properties: &forwarded, payload: &payload,
        };
        let mut expected = Publish {
            dup, retain, qos: theirs, topic: topic.as_str().into(), packet_id: NonZeroU16::new(id),
            payload: payload.clone().into(),
            properties: Some(v5::PublishProperties { subscription_ids: subscriptions, ..properties }),
        };
        let five = written(|out| delivery(out, Version::V5, &sent));
        prop_assert_eq!(five.len(), delivery_bytes(Version::V5, &sent));
        prop_assert!(read_5(&five) == v5::Packet::Publish(Box::new(expected.clone())));
        expected.properties = None;
        let three = written(|out| delivery(out, Version::V311, &sent));
        prop_assert_eq!(three.len(), delivery_bytes(Version::V311, &sent));
        prop_assert!(read_3(&three) == v3::Packet::Publish(Box::new(expected)));
    }

    #[test]
    fn connacks_of_5(
        (present, reason, expiry, receive, size) in
            (any::<bool>(), reason(), any::<Option<u32>>(), any::<Option<NonZeroU16>>(), any::<Option<u32>>()),
        (client, aliases, keep_alive, reference, words) in
            (prop::option::of(text()), any::<u16>(), any::<Option<u16>>(), prop::option::of(text()), prop::option::of(text())),
    ) {
        let sent = ConnAck {
            session_present: present, reason, session_expiry: expiry, receive_maximum: receive.map(Into::into),
            packet_bytes_max: size, assigned_client: client.as_deref(), topic_alias_maximum: aliases,
            server_keep_alive: keep_alive, server_reference: reference.as_deref(), text: words.as_deref(),
        };
        let v5::Packet::ConnectAck(came) = read_5(&written(|out| connack(out, Version::V5, &sent))) else { panic!() };
        prop_assert_eq!(came.session_present, present && reason == Reason::SUCCESS);
        prop_assert_eq!(u8::from(came.reason_code), reason.0);
        let expected = v5::ConnectAck {
            session_present: came.session_present,
            reason_code: came.reason_code,
            session_expiry_interval_secs: expiry,
            receive_max: receive.unwrap_or(NonZeroU16::MAX),
            max_packet_size: size,
            assigned_client_id: client.map(Into::into),
            topic_alias_max: aliases,
            server_keepalive_sec: keep_alive,
            server_reference: reference.map(Into::into),
            reason_string: words.map(Into::into),
            ..Default::default()
        };
        prop_assert_eq!(*came, expected);
    }

    #[test]
    fn answers_to_messages(id in any::<NonZeroU16>(), fine in any::<bool>()) {
        for answer in [Answer::PubAck, Answer::PubRec, Answer::PubRel, Answer::PubComp] {
            let early = matches!(answer, Answer::PubAck | Answer::PubRec);
            let reason = match (fine, early) {
                (true, _) => Reason::SUCCESS,
                (false, true) => Reason::NO_MATCHING_SUBSCRIBERS,
                (false, false) => Reason::PACKET_ID_NOT_FOUND,
            };
            let bytes = written(|out| acknowledge(out, Version::V5, answer, id.get(), reason));
            prop_assert_eq!(bytes.len(), if fine { 4 } else { 5 });
            let (came, code): (_, u8) = match (answer, read_5(&bytes)) {
                (Answer::PubAck, v5::Packet::PublishAck(it)) => (it.packet_id, it.reason_code.into()),
                (Answer::PubRec, v5::Packet::PublishReceived(it)) => (it.packet_id, it.reason_code.into()),
                (Answer::PubRel, v5::Packet::PublishRelease(it)) => (it.packet_id, it.reason_code.into()),
                (Answer::PubComp, v5::Packet::PublishComplete(it)) => (it.packet_id, it.reason_code.into()),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!((came, code), (id, reason.0));
            let expected = match answer {
                Answer::PubAck => v3::Packet::PublishAck { packet_id: id },
                Answer::PubRec => v3::Packet::PublishReceived { packet_id: id },
                Answer::PubRel => v3::Packet::PublishRelease { packet_id: id },
                Answer::PubComp => v3::Packet::PublishComplete { packet_id: id },
            };
            prop_assert_eq!(read_3(&written(|out| acknowledge(out, Version::V311, answer, id.get(), reason))), expected);
        }
    }

    #[test]
    fn answers_to_messages_that_are_refused(id in any::<NonZeroU16>(), words in prop::option::of(text())) {
        let reason = Reason::QUOTA_EXCEEDED;
        let bytes = |answer| written(|out| acknowledge_error(out, answer, id.get(), reason, words.as_deref()));
        let v5::Packet::PublishAck(came) = read_5(&bytes(Answer::PubAck)) else { panic!() };
        prop_assert_eq!((came.packet_id, u8::from(came.reason_code)), (id, reason.0));
        prop_assert_eq!(came.reason_string.as_deref(), words.as_deref());
        let v5::Packet::PublishReceived(came) = read_5(&bytes(Answer::PubRec)) else { panic!() };
        prop_assert_eq!((came.packet_id, u8::from(came.reason_code)), (id, reason.0));
        prop_assert_eq!(came.reason_string.as_deref(), words.as_deref());
    }

    #[test]
    fn answers_to_subscriptions(
        id in any::<NonZeroU16>(),
        words in prop::option::of(text()),
        granted in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0x80, 0x87, 0x8F, 0x97, 0x9E]), 1..300),
        ended in prop::collection::vec(prop::sample::select(vec![0u8, 0x11, 0x87]), 1..300),
    ) {
        let reasons = |codes: &[u8]| codes.iter().map(|code| Reason(*code)).collect::<Vec<_>>();
        let (granted_reasons, ended_reasons) = (reasons(&granted), reasons(&ended));
        let bytes = written(|out| suback(out, Version::V5, id.get(), &granted_reasons, words.as_deref()));
        let v5::Packet::SubscribeAck(came) = read_5(&bytes) else { panic!() };
        prop_assert_eq!(came.packet_id, id);
        prop_assert_eq!(came.reason_string.as_deref(), words.as_deref());
        prop_assert_eq!(came.status.into_iter().map(u8::from).collect::<Vec<_>>(), granted.clone());
        let bytes = written(|out| suback(out, Version::V311, id.get(), &granted_reasons, words.as_deref()));
        let v3::Packet::SubscribeAck { packet_id, status } = read_3(&bytes) else { panic!() };
        let expected: Vec<_> = granted.iter().map(|code| match code {
            0 => v3::SubscribeReturnCode::Success(QoS::AtMostOnce),
            1 => v3::SubscribeReturnCode::Success(QoS::AtLeastOnce),
            2 => v3::SubscribeReturnCode::Success(QoS::ExactlyOnce),
            _ => v3::SubscribeReturnCode::Failure,
        }).collect();
        prop_assert_eq!((packet_id, status), (id, expected));
        let bytes = written(|out| unsuback(out, Version::V5, id.get(), &ended_reasons, words.as_deref()));
        let v5::Packet::UnsubscribeAck(came) = read_5(&bytes) else { panic!() };
        prop_assert_eq!(came.packet_id, id);
        prop_assert_eq!(came.reason_string.as_deref(), words.as_deref());
        prop_assert_eq!(came.status.into_iter().map(u8::from).collect::<Vec<_>>(), ended);
        let bytes = written(|out| unsuback(out, Version::V311, id.get(), &ended_reasons, words.as_deref()));
        prop_assert_eq!(read_3(&bytes), v3::Packet::UnsubscribeAck { packet_id: id });
    }

    #[test]
    fn last_words(words in prop::option::of(text()), reference in prop::option::of(text())) {
        let bytes = written(|out| disconnect(out, Reason::SERVER_MOVED, words.as_deref(), reference.as_deref()));
        let v5::Packet::Disconnect(came) = read_5(&bytes) else { panic!() };
        prop_assert_eq!(came, v5::Disconnect {
            reason_string: words.map(Into::into),
            server_reference: reference.map(Into::into),
            ..v5::Disconnect::new(v5::DisconnectReasonCode::ServerMoved)
        });
    }
}

#[test]
fn pongs() {
    assert_eq!(read_3(&written(pong)), v3::Packet::PingResponse);
    assert_eq!(read_5(&written(pong)), v5::Packet::PingResponse);
}

#[test]
fn connacks_of_3_have_the_nearest_code_or_are_left_out() {
    use v3::ConnectAckReason as Code;
    for (reason, present, expected) in [
        (Reason::SUCCESS, true, Some(Code::ConnectionAccepted)),
        (Reason::UNSUPPORTED_VERSION, true, Some(Code::UnacceptableProtocolVersion)),
        (Reason::CLIENT_ID_NOT_VALID, false, Some(Code::IdentifierRejected)),
        (Reason::SERVER_MOVED, true, Some(Code::ServiceUnavailable)),
        (Reason::SERVER_BUSY, false, Some(Code::ServiceUnavailable)),
        (Reason::BAD_CREDENTIALS, false, Some(Code::BadUserNameOrPassword)),
        (Reason::NOT_AUTHORIZED, false, Some(Code::NotAuthorized)),
        (Reason::MALFORMED_PACKET, false, None),
        (Reason::PROTOCOL_ERROR, false, None),
    ] {
        let sent = ConnAck { session_present: present, reason, ..ConnAck::default() };
        let bytes = written(|out| connack(out, Version::V311, &sent));
        let expected = expected.map(|return_code| {
            v3::Packet::ConnectAck(v3::ConnectAck {
                return_code,
                session_present: reason == Reason::SUCCESS && present,
            })
        });
        assert_eq!((!bytes.is_empty()).then(|| read_3(&bytes)), expected, "{reason:?}");
    }
}

#[test]
fn a_text_that_is_too_long_is_cut_at_a_character() {
    let long = "ä".repeat(40_000);
    let bytes = written(|out| disconnect(out, Reason::SERVER_BUSY, Some(&long), None));
    let v5::Packet::Disconnect(came) = read_5(&bytes) else { panic!() };
    assert_eq!(came.reason_string.unwrap().len(), 65_534);
}
