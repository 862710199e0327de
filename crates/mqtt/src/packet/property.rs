//! The properties of MQTT 5: which there are, where each may be, and what values it may have.

use super::Malformed;
use super::reader::{Reader, is_without_wildcards};

pub(super) const PAYLOAD_FORMAT: u8 = 0x01;
pub(super) const MESSAGE_EXPIRY: u8 = 0x02;
pub(super) const CONTENT_TYPE: u8 = 0x03;
pub(super) const RESPONSE_TOPIC: u8 = 0x08;
pub(super) const CORRELATION_DATA: u8 = 0x09;
pub(super) const SUBSCRIPTION_ID: u8 = 0x0B;
pub(super) const SESSION_EXPIRY: u8 = 0x11;
pub(super) const ASSIGNED_CLIENT: u8 = 0x12;
pub(super) const SERVER_KEEP_ALIVE: u8 = 0x13;
pub(super) const AUTHENTICATION_METHOD: u8 = 0x15;
pub(super) const AUTHENTICATION_DATA: u8 = 0x16;
pub(super) const REQUEST_PROBLEMS: u8 = 0x17;
pub(super) const WILL_DELAY: u8 = 0x18;
pub(super) const REQUEST_RESPONSE: u8 = 0x19;
pub(super) const RESPONSE_INFORMATION: u8 = 0x1A;
pub(super) const SERVER_REFERENCE: u8 = 0x1C;
pub(super) const REASON_STRING: u8 = 0x1F;
pub(super) const RECEIVE_MAXIMUM: u8 = 0x21;
pub(super) const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
pub(super) const TOPIC_ALIAS: u8 = 0x23;
pub(super) const MAXIMUM_QOS: u8 = 0x24;
pub(super) const RETAIN_AVAILABLE: u8 = 0x25;
pub(super) const USER: u8 = 0x26;
pub(super) const MAXIMUM_PACKET: u8 = 0x27;
pub(super) const WILDCARDS_AVAILABLE: u8 = 0x28;
pub(super) const SUBSCRIPTION_IDS_AVAILABLE: u8 = 0x29;
pub(super) const SHARED_AVAILABLE: u8 = 0x2A;

/// How a property's value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Byte,
    Two,
    Four,
    Variable,
    Text,
    Binary,
    Pair,
}

/// What a property says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Of one, two or four bytes, or of as many as it needs.
    Number(u32),
    Text(&'a str),
    /// Binary data, and pairs of texts.
    Other,
}

/// How the value of a property is written, if there is such a property.
#[inline]
pub(super) fn kind(id: u8) -> Option<Kind> {
    Some(match id {
        PAYLOAD_FORMAT
        | REQUEST_PROBLEMS
        | REQUEST_RESPONSE
        | MAXIMUM_QOS
        | RETAIN_AVAILABLE
        | WILDCARDS_AVAILABLE
        | SUBSCRIPTION_IDS_AVAILABLE
        | SHARED_AVAILABLE => Kind::Byte,
        SERVER_KEEP_ALIVE | RECEIVE_MAXIMUM | TOPIC_ALIAS_MAXIMUM | TOPIC_ALIAS => Kind::Two,
        MESSAGE_EXPIRY | SESSION_EXPIRY | WILL_DELAY | MAXIMUM_PACKET => Kind::Four,
        SUBSCRIPTION_ID => Kind::Variable,
        CONTENT_TYPE
        | RESPONSE_TOPIC
        | ASSIGNED_CLIENT
        | AUTHENTICATION_METHOD
        | RESPONSE_INFORMATION
        | SERVER_REFERENCE
        | REASON_STRING => Kind::Text,
        CORRELATION_DATA | AUTHENTICATION_DATA => Kind::Binary,
        USER => Kind::Pair,
        _ => return None,
    })
}

/// A packet that has properties.
pub(super) struct Place {
    /// One bit for each property that a client may put there.
    allowed: u64,
    misplaced: &'static str,
}

const fn place(ids: &[u8], misplaced: &'static str) -> Place {
    let mut allowed = 1 << USER;
    let mut rest = ids;
    while let [id, after @ ..] = rest {
        allowed |= 1 << *id;
        rest = after;
    }
    Place { allowed, misplaced }
}

pub(super) const CONNECT: Place = place(
    &[
        SESSION_EXPIRY,
        RECEIVE_MAXIMUM,
        MAXIMUM_PACKET,
        TOPIC_ALIAS_MAXIMUM,
        REQUEST_RESPONSE,
        REQUEST_PROBLEMS,
        AUTHENTICATION_METHOD,
        AUTHENTICATION_DATA,
    ],
    "a property that a CONNECT does not have",
);
pub(super) const WILL: Place = place(
    &[WILL_DELAY, PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA],
    "a property that a will does not have",
);
/// With the subscription identifier, which only brokers send: another error than a property that a PUBLISH cannot have.
pub(super) const PUBLISH: Place = place(
    &[
        PAYLOAD_FORMAT,
        MESSAGE_EXPIRY,
        TOPIC_ALIAS,
        RESPONSE_TOPIC,
        CORRELATION_DATA,
        SUBSCRIPTION_ID,
        CONTENT_TYPE,
    ],
    "a property that a PUBLISH does not have",
);
pub(super) const FORWARDED: Place = place(
    &[PAYLOAD_FORMAT, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA],
    "a property that does not go on to subscribers",
);
pub(super) const ACKNOWLEDGE: Place =
    place(&[REASON_STRING], "a property that a PUBACK, PUBREC, PUBREL or PUBCOMP does not have");
pub(super) const SUBSCRIBE: Place = place(&[SUBSCRIPTION_ID], "a property that a SUBSCRIBE does not have");
pub(super) const UNSUBSCRIBE: Place = place(&[], "a property that an UNSUBSCRIBE does not have");
pub(super) const DISCONNECT: Place =
    place(&[SESSION_EXPIRY, REASON_STRING], "a property that a client's DISCONNECT does not have");
pub(super) const AUTH: Place = place(
    &[AUTHENTICATION_METHOD, AUTHENTICATION_DATA, REASON_STRING],
    "a property that an AUTH does not have",
);

/// Checks all properties of a packet and shows each of them.
#[inline]
pub(super) fn check<'a>(
    place: &Place,
    section: &'a [u8],
    mut each: impl FnMut(u8, Value<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut reader = Reader(section);
    let mut seen = 0u64;
    while !reader.0.is_empty() {
        let id = reader.byte()?;
        let kind = kind(id).ok_or_else(|| Malformed::packet("a property that MQTT 5 does not have"))?;
        let bit = 1u64 << (id & 63);
        if place.allowed & bit == 0 {
            return Err(Malformed::packet(place.misplaced));
        }
        if seen & bit != 0 && kind != Kind::Pair {
            return Err(Malformed::protocol(twice(id)));
        }
        seen |= bit;
        let value = match kind {
            Kind::Byte => Value::Number(reader.byte()?.into()),
            Kind::Two => Value::Number(reader.two()?.into()),
            Kind::Four => Value::Number(reader.four()?),
            Kind::Variable => Value::Number(reader.variable()?),
            Kind::Text => Value::Text(reader.text("a property is no valid text (UTF-8 without NUL)")?),
            Kind::Binary => {
                reader.binary()?;
                Value::Other
            }
            Kind::Pair => {
                reader.text("the name of a user property is no valid text (UTF-8 without NUL)")?;
                reader.text("the value of a user property is no valid text (UTF-8 without NUL)")?;
                Value::Other
            }
        };
        if let Some(malformed) = out_of_range(id, value) {
            return Err(malformed);
        }
        each(id, value)?;
    }
    Ok(())
}

#[inline]
fn out_of_range(id: u8, value: Value<'_>) -> Option<Malformed> {
    Some(match (id, value) {
        (PAYLOAD_FORMAT, Value::Number(2..)) => Malformed::protocol("the payload format is neither 0 nor 1"),
        (REQUEST_PROBLEMS, Value::Number(2..)) => {
            Malformed::protocol("the request for problem information is neither 0 nor 1")
        }
        (REQUEST_RESPONSE, Value::Number(2..)) => {
            Malformed::protocol("the request for response information is neither 0 nor 1")
        }
        (RECEIVE_MAXIMUM, Value::Number(0)) => Malformed::protocol("the receive maximum is zero"),
        (MAXIMUM_PACKET, Value::Number(0)) => Malformed::protocol("the maximum packet size is zero"),
        (SUBSCRIPTION_ID, Value::Number(0)) => Malformed::protocol("the subscription identifier is zero"),
        (TOPIC_ALIAS, Value::Number(0)) => {
            Malformed::new(super::Reason::TOPIC_ALIAS_INVALID, "the topic alias is zero")
        }
        (RESPONSE_TOPIC, Value::Text("")) => Malformed::protocol("the response topic is empty"),
        (RESPONSE_TOPIC, Value::Text(topic)) if !is_without_wildcards(topic) => {
            Malformed::protocol("the response topic has a wildcard")
        }
        _ => return None,
    })
}

#[cold]
fn twice(id: u8) -> &'static str {
    match id {
        PAYLOAD_FORMAT => "the payload format is there twice",
        MESSAGE_EXPIRY => "the message expiry is there twice",
        CONTENT_TYPE => "the content type is there twice",
        RESPONSE_TOPIC => "the response topic is there twice",
        CORRELATION_DATA => "the correlation data is there twice",
        SUBSCRIPTION_ID => "the subscription identifier is there twice",
        SESSION_EXPIRY => "the session expiry is there twice",
        AUTHENTICATION_METHOD => "the authentication method is there twice",
        AUTHENTICATION_DATA => "the authentication data is there twice",
        REQUEST_PROBLEMS => "the request for problem information is there twice",
        WILL_DELAY => "the will delay is there twice",
        REQUEST_RESPONSE => "the request for response information is there twice",
        REASON_STRING => "the reason string is there twice",
        RECEIVE_MAXIMUM => "the receive maximum is there twice",
        TOPIC_ALIAS_MAXIMUM => "the topic alias maximum is there twice",
        TOPIC_ALIAS => "the topic alias is there twice",
        MAXIMUM_PACKET => "the maximum packet size is there twice",
        _ => "a property is there twice",
    }
}
