//! The rare packets through the library `rmqtt-codec`, into the types of this crate. `checks` has seen them before.

use super::checks::Checked;
use super::{
    ASKING, Connect, Disconnect, Malformed, Options, Packet, Qos, Reason, RetainHandling, Subscribe,
    Unsubscribe, Version, Wanted, Will, decode, encode,
};
use bytes::BytesMut;
use rmqtt_codec::{types::QoS, v3, v5};
use tokio_util::codec::Decoder;

pub(super) fn connect(checked: Checked<'_>) -> Result<Packet<'static>, Malformed> {
    let no_properties: &[u8] = if checked.will.is_some() { &[0] } else { &[] };
    // The library knows neither MQTT 3.1 nor bridges.
    let level = if checked.version.is_5() { 5 } else { 4 };
    let parts = [b"\0\x04MQTT", &[level, checked.flags][..], checked.middle, no_properties, checked.tail];
    let connect = match through(decode::CONNECT << 4, &parts, checked.version)? {
        Either::V3(v3::Packet::Connect(connect)) => connect_3(*connect, &checked),
        Either::V5(v5::Packet::Connect(connect)) => connect_5(*connect, checked),
        _ => return Err(disagreement()),
    };
    Ok(Packet::Connect(Box::new(connect)))
}

fn connect_3(connect: v3::Connect, checked: &Checked<'_>) -> Connect {
    let Checked { version, bridge, clean_start, .. } = *checked;
    Connect {
        version,
        bridge,
        client: text(&connect.client_id),
        clean_start,
        keep_alive: connect.keep_alive,
        will: connect.last_will.map(|will| Will {
            topic: text(&will.topic),
            payload: will.message.to_vec().into(),
            qos: qos(will.qos),
            retain: will.retain,
            delay: 0,
            expiry: None,
            properties: Box::default(),
        }),
        user: connect.username.map(|user| text(&user)),
        password: connect.password.map(|password| password.to_vec().into()),
        session_expiry: if clean_start { 0 } else { u32::MAX },
        receive_maximum: u16::MAX,
        packet_bytes_max: None,
        topic_alias_maximum: 0,
        wants_problems: false,
        authentication: None,
    }
}

fn connect_5(connect: v5::Connect, checked: Checked<'_>) -> Connect {
    let properties = checked.will.unwrap_or_default();
    Connect {
        version: Version::V5,
        bridge: checked.bridge,
        client: text(&connect.client_id),
        clean_start: checked.clean_start,
        keep_alive: connect.keep_alive,
        will: connect.last_will.map(|will| Will {
            topic: text(&will.topic),
            payload: will.message.to_vec().into(),
            qos: qos(will.qos),
            retain: will.retain,
            delay: properties.delay,
            expiry: properties.expiry,
            properties: properties.forward.into(),
        }),
        user: connect.username.map(|user| text(&user)),
        password: connect.password.map(|password| password.to_vec().into()),
        session_expiry: connect.session_expiry_interval_secs,
        receive_maximum: connect.receive_max.map_or(u16::MAX, Into::into),
        packet_bytes_max: connect.max_packet_size.map(Into::into),
        topic_alias_maximum: connect.topic_alias_max,
        wants_problems: connect.request_problem_info,
        authentication: connect.auth_method.map(|method| text(&method)),
    }
}

pub(super) fn subscribe(body: &[u8], version: Version) -> Result<Packet<'static>, Malformed> {
    let subscribe = match through(decode::SUBSCRIBE << 4 | 2, &[body], version)? {
        Either::V3(v3::Packet::Subscribe { packet_id, topic_filters }) => Subscribe {
            id: packet_id.into(),
            subscription: None,
            asks: Vec::new(),
            filters: topic_filters
                .into_iter()
                .map(|(filter, granted)| Wanted {
                    filter: text(&filter),
                    options: Options { qos: qos(granted), ..Options::default() },
                })
                .collect(),
        },
        Either::V5(v5::Packet::Subscribe(subscribe)) => Subscribe {
            id: subscribe.packet_id.into(),
            subscription: subscribe.id.map(Into::into),
            asks: subscribe
                .user_properties
                .iter()
                .filter(|(name, _)| name.starts_with(ASKING))
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            filters: subscribe
                .topic_filters
                .into_iter()
                .map(|(filter, wanted)| Wanted { filter: text(&filter), options: options(wanted) })
                .collect(),
        },
        _ => return Err(disagreement()),
    };
    Ok(Packet::Subscribe(subscribe))
}

fn options(options: v5::SubscriptionOptions) -> Options {
    Options {
        qos: qos(options.qos),
        no_local: options.no_local,
        retain_as_published: options.retain_as_published,
        retain_handling: match options.retain_handling {
            v5::RetainHandling::AtSubscribe => RetainHandling::Send,
            v5::RetainHandling::AtSubscribeNew => RetainHandling::SendIfNew,
            v5::RetainHandling::NoAtSubscribe => RetainHandling::Keep,
        },
    }
}

pub(super) fn unsubscribe(body: &[u8], version: Version) -> Result<Packet<'static>, Malformed> {
    let (id, filters) = match through(decode::UNSUBSCRIBE << 4 | 2, &[body], version)? {
        Either::V3(v3::Packet::Unsubscribe { packet_id, topic_filters }) => (packet_id, topic_filters),
        Either::V5(v5::Packet::Unsubscribe(unsubscribe)) => {
            (unsubscribe.packet_id, unsubscribe.topic_filters)
        }
        _ => return Err(disagreement()),
    };
    let filters = filters.iter().map(|filter| text(filter)).collect();
    Ok(Packet::Unsubscribe(Unsubscribe { id: id.into(), filters }))
}

pub(super) fn disconnect(body: &[u8]) -> Result<Packet<'static>, Malformed> {
    match through(decode::DISCONNECT << 4, &[body], Version::V5)? {
        Either::V5(v5::Packet::Disconnect(disconnect)) => Ok(Packet::Disconnect(Disconnect {
            reason: Reason(disconnect.reason_code.into()),
            session_expiry: disconnect.session_expiry_interval_secs,
        })),
        _ => Err(disagreement()),
    }
}

pub(super) fn auth(body: &[u8]) -> Result<Packet<'static>, Malformed> {
    match through(decode::AUTH << 4, &[body], Version::V5)? {
        Either::V5(v5::Packet::Auth(auth)) => Ok(Packet::Auth(Reason(auth.reason_code.into()))),
        _ => Err(disagreement()),
    }
}

enum Either {
    V3(v3::Packet),
    V5(v5::Packet),
}

/// Has the library read a packet with this first byte and this body. The body is copied: it must own what it reads.
fn through(first: u8, body: &[&[u8]], version: Version) -> Result<Either, Malformed> {
    let mut bytes = Vec::with_capacity(8 + body.iter().map(|part| part.len()).sum::<usize>());
    encode::header(&mut bytes, first, body.iter().map(|part| part.len()).sum());
    body.iter().for_each(|part| bytes.extend_from_slice(part));
    let mut bytes = BytesMut::from(bytes.as_slice());
    let packet = match version {
        Version::V31 | Version::V311 => {
            v3::Codec::default().decode(&mut bytes).map(|packet| packet.map(|(it, _)| Either::V3(it)))
        }
        Version::V5 => {
            v5::Codec::default().decode(&mut bytes).map(|packet| packet.map(|(it, _)| Either::V5(it)))
        }
    };
    packet.ok().flatten().ok_or_else(disagreement)
}

/// The library refuses what the checks let pass, or reads something else than they did.
#[cold]
fn disagreement() -> Malformed {
    Malformed::packet("the packet library cannot read it")
}

fn text(text: &str) -> Box<str> {
    text.into()
}

fn qos(qos: QoS) -> Qos {
    match qos {
        QoS::AtMostOnce => Qos::AtMostOnce,
        QoS::AtLeastOnce => Qos::AtLeastOnce,
        QoS::ExactlyOnce => Qos::ExactlyOnce,
    }
}
