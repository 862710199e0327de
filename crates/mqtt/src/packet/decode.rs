//! From bytes to packets. The frequent ones are read here, in place; the rare ones are checked in `checks` and read in
//! `library`.

use super::property::{self, Value};
use super::reader::{Reader, is_without_wildcards, variable};
use super::{Acknowledge, Answer, Malformed, Packet, Properties, Publish, Qos, Reason, Version, checks};
use contract::invariant;

/// What the bytes begin with.
#[derive(Clone, PartialEq, Debug)]
pub enum Decoded<'a> {
    /// A packet, and how many bytes it took.
    Packet(Packet<'a>, usize),
    /// A packet that has not come as a whole.
    Incomplete,
}

/// Reads the packet that the bytes begin with. Without a version, it must be a CONNECT, which says its own; with one, it must
/// be any other packet of a client. A packet of more than `packet_bytes_max` bytes, all of it counted, is refused as soon as
/// its length is known.
pub fn decode(
    bytes: &[u8],
    version: Option<Version>,
    packet_bytes_max: usize,
) -> Result<Decoded<'_>, Malformed> {
    decode_unhinted(bytes, version, packet_bytes_max).map_err(|malformed| Malformed {
        version_hint: version.or_else(|| checks::version_hint(bytes)),
        ..malformed
    })
}

#[inline]
fn decode_unhinted(
    bytes: &[u8],
    version: Option<Version>,
    packet_bytes_max: usize,
) -> Result<Decoded<'_>, Malformed> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(Decoded::Incomplete) };
    let (kind, flags) = (first >> 4, first & 0x0F);
    if version.is_none() && kind != CONNECT {
        return Err(Malformed::protocol(not_mqtt(bytes).unwrap_or("the first packet is not a CONNECT")));
    }
    // In MQTT 3.1 these bits of a CONNECT mean nothing.
    let flags = if kind == CONNECT && begins_as_3_1(rest) { 0 } else { flags };
    check_kind(kind, flags, version).map_err(|malformed| match (version, not_mqtt(bytes)) {
        (None, Some(what)) => Malformed { what, ..malformed },
        _ => malformed,
    })?;
    let Some((length, rest)) = variable(rest)? else { return Ok(Decoded::Incomplete) };
    let header = bytes.len() - rest.len();
    let used = header + length as usize;
    if used > packet_bytes_max {
        return Err(Malformed::new(Reason::PACKET_TOO_LARGE, "the packet is larger than the broker takes"));
    }
    let Some(body) = rest.get(..length as usize) else { return Ok(Decoded::Incomplete) };
    let packet = match version {
        None => checks::connect(body)?,
        Some(version) => match kind {
            PUBLISH => Packet::Publish(publish(flags, body, version)?),
            PUBACK => acknowledge(Answer::PubAck, body, version)?,
            PUBREC => acknowledge(Answer::PubRec, body, version)?,
            PUBREL => acknowledge(Answer::PubRel, body, version)?,
            PUBCOMP => acknowledge(Answer::PubComp, body, version)?,
            PINGREQ if body.is_empty() => Packet::Ping,
            PINGREQ => return Err(Malformed::packet("a PINGREQ with a body")),
            SUBSCRIBE => checks::subscribe(body, version)?,
            UNSUBSCRIBE => checks::unsubscribe(body, version)?,
            DISCONNECT => checks::disconnect(body, version)?,
            _ => checks::auth(body)?,
        },
    };
    Ok(Decoded::Packet(packet, used))
}

/// What can be told of a packet that is larger than is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head<'a> {
    /// Not enough of it has come.
    Incomplete,
    /// A message that waits for an answer.
    Message(Oversized<'a>),
    /// Anything else.
    Other,
}

/// A message of which only the beginning is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oversized<'a> {
    /// Its topic; empty where an alias stands for it.
    pub topic: &'a str,
    /// Its packet identifier.
    pub id: u16,
    /// How surely it is delivered.
    pub qos: Qos,
    /// How long it is, all of it counted.
    pub bytes: usize,
}

/// What a packet is that [`decode`] has found to be too large, of which the beginning is enough.
pub fn oversized(bytes: &[u8]) -> Head<'_> {
    let Some((first, rest)) = bytes.split_first() else { return Head::Incomplete };
    let qos = match (first >> 4, first >> 1 & 3) {
        (PUBLISH, 1) => Qos::AtLeastOnce,
        (PUBLISH, 2) => Qos::ExactlyOnce,
        _ => return Head::Other,
    };
    let Ok(length) = variable(rest) else { return Head::Other };
    let Some((length, body)) = length else { return Head::Incomplete };
    let bytes = bytes.len() - body.len() + length as usize;
    let Some((topic, _)) = body.split_first_chunk::<2>() else { return Head::Incomplete };
    let needed = usize::from(u16::from_be_bytes(*topic)) + 4;
    if needed > length as usize {
        return Head::Other;
    }
    if body.len() < needed {
        return Head::Incomplete;
    }
    let mut reader = Reader(body);
    match (reader.text(""), reader.id()) {
        (Ok(topic), Ok(id)) if is_without_wildcards(topic) => {
            Head::Message(Oversized { topic, id, qos, bytes })
        }
        _ => Head::Other,
    }
}

pub(super) const CONNECT: u8 = 1;
const CONNACK: u8 = 2;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;
const PUBREC: u8 = 5;
const PUBREL: u8 = 6;
const PUBCOMP: u8 = 7;
pub(super) const SUBSCRIBE: u8 = 8;
const SUBACK: u8 = 9;
pub(super) const UNSUBSCRIBE: u8 = 10;
const UNSUBACK: u8 = 11;
const PINGREQ: u8 = 12;
const PINGRESP: u8 = 13;
pub(super) const DISCONNECT: u8 = 14;
pub(super) const AUTH: u8 = 15;

/// Whether what comes after the first byte of a CONNECT may be one of MQTT 3.1, as far as it is there.
fn begins_as_3_1(rest: &[u8]) -> bool {
    let length = rest.iter().take(4).position(|byte| byte & 0x80 == 0).map_or(rest.len(), |last| last + 1);
    rest.iter().skip(length).zip(b"\x00\x06MQIsdp").all(|(byte, wanted)| byte == wanted)
}

/// What is known by the first byte.
#[inline]
fn check_kind(kind: u8, flags: u8, version: Option<Version>) -> Result<(), Malformed> {
    let expected = match kind {
        PUBLISH => return check_publish_flags(flags),
        PUBACK | PUBREC | PUBCOMP | PINGREQ | DISCONNECT => 0,
        // What is sent again says so in MQTT 3.1, and a bit means nothing.
        PUBREL | SUBSCRIBE | UNSUBSCRIBE if version == Some(Version::V31) && flags & 6 == 2 => flags,
        PUBREL | SUBSCRIBE | UNSUBSCRIBE => 2,
        CONNECT if version.is_some() => return Err(Malformed::protocol("a second CONNECT")),
        CONNECT => 0,
        AUTH if version.is_none_or(Version::is_5) => 0,
        CONNACK | SUBACK | UNSUBACK | PINGRESP => {
            return Err(Malformed::protocol("a packet that only brokers send"));
        }
        _ => return Err(Malformed::packet("a packet type that this version does not have")),
    };
    if flags == expected { Ok(()) } else { Err(Malformed::packet("wrong flags in the first byte")) }
}

#[inline]
fn check_publish_flags(flags: u8) -> Result<(), Malformed> {
    match flags >> 1 & 3 {
        3 => Err(Malformed::packet("a PUBLISH with QoS 3")),
        0 if flags & 8 != 0 => Err(Malformed::packet("a PUBLISH with QoS 0 that claims to be sent again")),
        _ => Ok(()),
    }
}

/// What it may be, if somebody speaks another protocol to the listener.
#[cold]
fn not_mqtt(bytes: &[u8]) -> Option<&'static str> {
    let begins = |with: &[u8]| bytes.starts_with(with);
    if begins(&[0x16, 0x03]) || bytes == [0x16] {
        Some("a TLS handshake on a listener without TLS")
    } else if begins(b"GET ") || begins(b"POST ") || begins(b"HEAD ") || begins(b"PUT ") {
        Some("an HTTP request on a listener for MQTT over TCP")
    } else {
        None
    }
}

#[inline]
fn publish(flags: u8, body: &[u8], version: Version) -> Result<Publish<'_>, Malformed> {
    let mut reader = Reader(body);
    let topic = reader.text("the topic is no valid text (UTF-8 without NUL)")?;
    if !is_without_wildcards(topic) {
        return Err(Malformed::new(Reason::TOPIC_NAME_INVALID, "a PUBLISH to a topic with a wildcard"));
    }
    let qos = match flags >> 1 & 3 {
        0 => Qos::AtMostOnce,
        1 => Qos::AtLeastOnce,
        _ => Qos::ExactlyOnce,
    };
    let id = if qos == Qos::AtMostOnce { 0 } else { reader.id()? };
    let (mut alias, mut expiry, mut section) = (None, None, &[][..]);
    if version == Version::V5 {
        section = reader.section()?;
        property::check(&property::PUBLISH, section, |id, value| {
            match (id, value) {
                (property::TOPIC_ALIAS, Value::Number(number)) => {
                    let number = u16::try_from(number).ok();
                    alias = number.or_else(|| invariant!("a topic alias has two bytes", None));
                }
                (property::MESSAGE_EXPIRY, Value::Number(seconds)) => expiry = Some(seconds),
                (property::SUBSCRIPTION_ID, _) => {
                    return Err(Malformed::protocol("a client's PUBLISH with a subscription identifier"));
                }
                // They go on to subscribers as they are.
                _ => {}
            }
            Ok(())
        })?;
    }
    if topic.is_empty() && alias.is_none() {
        return Err(Malformed::protocol("a PUBLISH without a topic"));
    }
    Ok(Publish {
        dup: flags & 8 != 0,
        qos,
        retain: flags & 1 != 0,
        topic,
        id,
        alias,
        expiry,
        properties: Properties(section),
        payload: reader.0,
    })
}

#[inline]
fn acknowledge(answer: Answer, body: &[u8], version: Version) -> Result<Packet<'static>, Malformed> {
    let mut reader = Reader(body);
    let id = reader.id()?;
    let mut reason = Reason::SUCCESS;
    if version == Version::V5 && !reader.0.is_empty() {
        reason = Reason(reader.byte()?);
        if !is_reason_of(answer, reason) {
            return Err(Malformed::protocol("a reason code that an answer to a message does not have"));
        }
        if !reader.0.is_empty() {
            property::check(&property::ACKNOWLEDGE, reader.section()?, |_, _| Ok(()))?;
        }
    }
    reader.end()?;
    Ok(Packet::Acknowledge(Acknowledge { answer, id, reason }))
}

fn is_reason_of(answer: Answer, reason: Reason) -> bool {
    match answer {
        Answer::PubAck | Answer::PubRec => matches!(
            reason,
            Reason::SUCCESS
                | Reason::NO_MATCHING_SUBSCRIBERS
                | Reason::UNSPECIFIED
                | Reason::IMPLEMENTATION_SPECIFIC
                | Reason::NOT_AUTHORIZED
                | Reason::TOPIC_NAME_INVALID
                | Reason::PACKET_ID_IN_USE
                | Reason::QUOTA_EXCEEDED
                | Reason::PAYLOAD_FORMAT_INVALID
        ),
        Answer::PubRel | Answer::PubComp => matches!(reason, Reason::SUCCESS | Reason::PACKET_ID_NOT_FOUND),
    }
}
