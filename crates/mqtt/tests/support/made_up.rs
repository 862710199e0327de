//! Made-up packets of clients, in the types of the other implementation.
#![allow(dead_code, reason = "not every test uses all of it")]

use mqtt::packet::Version;
use mqtt::testing::{Protocol, Publish, QoS, encode_3, encode_5, v3, v5};
use proptest::prelude::*;
use std::num::{NonZeroU16, NonZeroU32};

pub type User = Vec<(String, String)>;

pub fn text() -> impl Strategy<Value = String> {
    let char =
        prop_oneof![4 => prop::char::range('!', '~'), 1 => any::<char>().prop_filter("NUL", |c| *c != '\0')];
    prop::collection::vec(char, 0..12).prop_map(|chars| chars.into_iter().collect())
}

pub fn topic() -> impl Strategy<Value = String> {
    text().prop_map(|text| format!("t/{}", text.replace(['+', '#'], "x")))
}

pub fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

pub fn user() -> impl Strategy<Value = User> {
    prop::collection::vec((text(), text()), 0..4)
}

pub fn of_user(user: &User) -> v5::UserProperties {
    user.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect()
}

pub fn qos() -> impl Strategy<Value = QoS> {
    prop::sample::select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

pub fn publish_properties() -> impl Strategy<Value = v5::PublishProperties> {
    let numbers = (any::<Option<NonZeroU16>>(), any::<Option<NonZeroU32>>(), any::<bool>());
    let words = (prop::option::of(text()), prop::option::of(topic()), prop::option::of(bytes(20)), user());
    (numbers, words).prop_map(|((alias, expiry, utf8), (content, response, correlation, user))| {
        v5::PublishProperties {
            topic_alias: alias,
            correlation_data: correlation.map(Into::into),
            message_expiry_interval: expiry,
            content_type: content.map(Into::into),
            user_properties: of_user(&user),
            is_utf8_payload: utf8,
            response_topic: response.map(Into::into),
            subscription_ids: Vec::new(),
        }
    })
}

pub fn publish(version: Version) -> impl Strategy<Value = Publish> {
    let properties =
        publish_properties().prop_map(move |properties| (version == Version::V5).then_some(properties));
    (any::<bool>(), any::<bool>(), qos(), topic(), any::<NonZeroU16>(), bytes(300), properties).prop_map(
        |(dup, retain, qos, topic, id, payload, properties)| Publish {
            dup: dup && qos != QoS::AtMostOnce,
            retain,
            qos,
            topic: topic.into(),
            packet_id: (qos != QoS::AtMostOnce).then_some(id),
            payload: payload.into(),
            properties,
        },
    )
}

pub fn connect_3() -> impl Strategy<Value = v3::Connect> {
    let will = (qos(), any::<bool>(), topic(), bytes(50));
    (
        any::<bool>(),
        any::<u16>(),
        text(),
        prop::option::of(will),
        prop::option::of((text(), prop::option::of(bytes(20)))),
    )
        .prop_map(|(clean, keep_alive, client, will, user)| v3::Connect {
            protocol: Protocol::default(),
            clean_session: clean || client.is_empty(),
            keep_alive,
            client_id: client.into(),
            last_will: will.map(|(qos, retain, topic, message)| v3::LastWill {
                qos,
                retain,
                topic: topic.into(),
                message: message.into(),
            }),
            username: user.as_ref().map(|(user, _)| user.as_str().into()),
            password: user.and_then(|(_, password)| password).map(Into::into),
            cert: None,
        })
}

fn will_5() -> impl Strategy<Value = v5::LastWill> {
    let words = (prop::option::of(text()), prop::option::of(topic()), prop::option::of(bytes(20)), user());
    let numbers = (any::<Option<u32>>(), any::<Option<NonZeroU32>>(), any::<Option<bool>>());
    (qos(), any::<bool>(), topic(), bytes(200), words, numbers).prop_map(
        |(qos, retain, topic, message, (content, response, correlation, user), (delay, expiry, utf8))| {
            v5::LastWill {
                qos,
                retain,
                topic: topic.into(),
                message: message.into(),
                will_delay_interval_sec: delay,
                correlation_data: correlation.map(Into::into),
                message_expiry_interval: expiry,
                content_type: content.map(Into::into),
                user_properties: of_user(&user),
                is_utf8_payload: utf8,
                response_topic: response.map(Into::into),
            }
        },
    )
}

pub fn connect_5() -> impl Strategy<Value = v5::Connect> {
    let session = (any::<bool>(), any::<u16>(), any::<u32>(), text());
    let limits = (
        any::<Option<NonZeroU16>>(),
        any::<Option<NonZeroU32>>(),
        any::<u16>(),
        any::<bool>(),
        any::<bool>(),
    );
    let who = (prop::option::of(text()), prop::option::of(bytes(20)), prop::option::of((text(), bytes(9))));
    (session, limits, who, prop::option::of(will_5()), user()).prop_map(
        |(
            (clean, keep_alive, expiry, client),
            (receive, size, aliases, problems, responses),
            who,
            will,
            user,
        )| v5::Connect {
            clean_start: clean || client.is_empty(),
            keep_alive,
            session_expiry_interval_secs: expiry,
            auth_method: who.2.as_ref().map(|(method, _)| method.as_str().into()),
            auth_data: who.2.map(|(_, data)| data.into()),
            request_problem_info: problems,
            request_response_info: responses,
            receive_max: receive,
            topic_alias_max: aliases,
            user_properties: of_user(&user),
            max_packet_size: size,
            last_will: will,
            client_id: client.into(),
            username: who.0.map(Into::into),
            password: who.1.map(Into::into),
            cert: None,
        },
    )
}

pub fn options() -> impl Strategy<Value = v5::SubscriptionOptions> {
    let handling = prop::sample::select(vec![
        v5::RetainHandling::AtSubscribe,
        v5::RetainHandling::AtSubscribeNew,
        v5::RetainHandling::NoAtSubscribe,
    ]);
    (qos(), any::<bool>(), any::<bool>(), handling).prop_map(
        |(qos, no_local, retain_as_published, retain_handling)| v5::SubscriptionOptions {
            qos,
            no_local,
            retain_as_published,
            retain_handling,
        },
    )
}

pub fn subscription_id() -> impl Strategy<Value = NonZeroU32> {
    prop_oneof![1..3u32, 126..130u32, 16_382..16_386u32, 2_097_150..2_097_154u32, Just(268_435_455)]
        .prop_filter_map("zero", NonZeroU32::new)
}

pub fn subscribe_5() -> impl Strategy<Value = v5::Subscribe> {
    let filters = prop::collection::vec((topic(), options()), 1..5);
    (any::<NonZeroU16>(), prop::option::of(subscription_id()), user(), filters).prop_map(
        |(packet_id, id, user, filters)| v5::Subscribe {
            packet_id,
            id,
            user_properties: of_user(&user),
            topic_filters: filters.into_iter().map(|(filter, options)| (filter.into(), options)).collect(),
        },
    )
}

pub fn unsubscribe_5() -> impl Strategy<Value = v5::Unsubscribe> {
    (any::<NonZeroU16>(), user(), prop::collection::vec(topic(), 1..5)).prop_map(
        |(packet_id, user, filters)| v5::Unsubscribe {
            packet_id,
            user_properties: of_user(&user),
            topic_filters: filters.into_iter().map(Into::into).collect(),
        },
    )
}

pub fn disconnect() -> impl Strategy<Value = v5::Disconnect> {
    use v5::DisconnectReasonCode as Code;
    let reasons = prop::sample::select(vec![
        Code::NormalDisconnection,
        Code::DisconnectWithWillMessage,
        Code::UnspecifiedError,
        Code::ReceiveMaximumExceeded,
        Code::PacketTooLarge,
    ]);
    (reasons, any::<Option<u32>>(), prop::option::of(text()), user()).prop_map(
        |(code, expiry, text, user)| v5::Disconnect {
            session_expiry_interval_secs: expiry,
            reason_string: text.map(Into::into),
            user_properties: of_user(&user),
            ..v5::Disconnect::new(code)
        },
    )
}

/// One of the four answers, with its first byte.
pub fn answer_5() -> impl Strategy<Value = (v5::Packet, u8)> {
    let which = prop::sample::select(vec![0x40u8, 0x50, 0x62, 0x70]);
    (which, any::<NonZeroU16>(), any::<bool>(), prop::option::of(text()), user()).prop_map(
        |(first, id, fine, text, user)| {
            let reason_string = text.map(Into::into);
            let properties = of_user(&user);
            let early = || v5::PublishAck {
                packet_id: id,
                reason_code: if fine {
                    v5::PublishAckReason::Success
                } else {
                    v5::PublishAckReason::QuotaExceeded
                },
                properties: properties.clone(),
                reason_string: Option::clone(&reason_string),
            };
            let late = || v5::PublishAck2 {
                packet_id: id,
                reason_code: if fine {
                    v5::PublishAck2Reason::Success
                } else {
                    v5::PublishAck2Reason::PacketIdNotFound
                },
                properties: properties.clone(),
                reason_string: Option::clone(&reason_string),
            };
            let packet = match first {
                0x40 => v5::Packet::PublishAck(early()),
                0x50 => v5::Packet::PublishReceived(early()),
                0x62 => v5::Packet::PublishRelease(late()),
                _ => v5::Packet::PublishComplete(late()),
            };
            (packet, first)
        },
    )
}

/// Any packet that a client may send, encoded, with the version that the connection has by then.
pub fn any_packet() -> impl Strategy<Value = (Vec<u8>, Option<Version>)> {
    let three = |packet: v3::Packet| encode_3(packet).unwrap();
    let five = |packet: v5::Packet| encode_5(packet).unwrap();
    let (v311, v5_) = (Some(Version::V311), Some(Version::V5));
    prop_oneof![
        connect_3().prop_map(move |it| (three(it.into()), None)),
        connect_5().prop_map(move |it| (five(it.into()), None)),
        publish(Version::V311).prop_map(move |it| (three(it.into()), v311)),
        publish(Version::V5).prop_map(move |it| (five(it.into()), v5_)),
        subscribe_5().prop_map(move |it| (five(it.into()), v5_)),
        unsubscribe_5().prop_map(move |it| (five(it.into()), v5_)),
        disconnect().prop_map(move |it| (five(v5::Packet::Disconnect(it)), v5_)),
        answer_5().prop_map(move |(it, _)| (five(it), v5_)),
        Just((five(v5::Packet::PingRequest), v5_)),
        subscribe_5().prop_map(move |it| {
            let topic_filters =
                it.topic_filters.into_iter().map(|(filter, options)| (filter, options.qos)).collect();
            (three(v3::Packet::Subscribe { packet_id: it.packet_id, topic_filters }), v311)
        }),
        unsubscribe_5().prop_map(move |it| {
            (
                three(v3::Packet::Unsubscribe { packet_id: it.packet_id, topic_filters: it.topic_filters }),
                v311,
            )
        }),
        any::<NonZeroU16>().prop_map(move |id| (three(v3::Packet::PublishRelease { packet_id: id }), v311)),
        Just((three(v3::Packet::Disconnect), v311)),
    ]
}
