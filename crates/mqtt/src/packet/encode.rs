//! From what the broker says to bytes. Everything is appended to a buffer, and nothing else is allocated.

use super::property;
use super::reader::VARIABLE_MAX;
use super::{Answer, ConnAck, Delivery, Qos, Reason, Version};

/// The largest packet that the protocol knows, in bytes.
pub const PACKET_BYTES_MAX: usize = 1 + 4 + VARIABLE_MAX as usize;

/// A CONNACK. MQTT 3.1.1 has codes for five errors only. For a reason that comes near none of them, nothing is appended: such
/// a connection is closed without a word.
pub fn connack(out: &mut Vec<u8>, version: Version, connack: &ConnAck<'_>) {
    let present = u8::from(connack.session_present && connack.reason == Reason::SUCCESS);
    match version {
        Version::V31 | Version::V311 => {
            // MQTT 3.1 has nothing to say there.
            let present = if version == Version::V31 { 0 } else { present };
            if let Some(code) = return_code(connack.reason) {
                out.extend_from_slice(&[0x20, 2, present, code]);
            }
        }
        Version::V5 => {
            let mut section = Length(0);
            connack_properties(&mut section, connack);
            header(out, 0x20, 2 + variable_bytes(section.0) + section.0);
            out.extend_from_slice(&[present, connack.reason.0]);
            variable(out, section.0);
            connack_properties(out, connack);
        }
    }
}

fn connack_properties(to: &mut impl Sink, connack: &ConnAck<'_>) {
    to.four(property::SESSION_EXPIRY, connack.session_expiry);
    to.two(property::RECEIVE_MAXIMUM, connack.receive_maximum);
    to.four(property::MAXIMUM_PACKET, connack.packet_bytes_max);
    to.text(property::ASSIGNED_CLIENT, connack.assigned_client);
    to.two(property::TOPIC_ALIAS_MAXIMUM, Some(connack.topic_alias_maximum).filter(|maximum| *maximum > 0));
    to.text(property::REASON_STRING, connack.text);
    to.two(property::SERVER_KEEP_ALIVE, connack.server_keep_alive);
    to.text(property::SERVER_REFERENCE, connack.server_reference);
}

/// What MQTT 3.1.1 has for a reason.
fn return_code(reason: Reason) -> Option<u8> {
    Some(match reason {
        Reason::SUCCESS => 0,
        Reason::UNSUPPORTED_VERSION => 1,
        Reason::CLIENT_ID_NOT_VALID => 2,
        Reason::SERVER_UNAVAILABLE
        | Reason::SERVER_BUSY
        | Reason::SHUTTING_DOWN
        | Reason::QUOTA_EXCEEDED
        | Reason::USE_ANOTHER_SERVER
        | Reason::SERVER_MOVED
        | Reason::CONNECTION_RATE_EXCEEDED
        | Reason::MESSAGE_RATE_TOO_HIGH
        | Reason::UNSPECIFIED
        | Reason::IMPLEMENTATION_SPECIFIC => 3,
        Reason::BAD_CREDENTIALS | Reason::BAD_AUTHENTICATION_METHOD => 4,
        Reason::NOT_AUTHORIZED
        | Reason::BANNED
        | Reason::TOPIC_NAME_INVALID
        | Reason::ADMINISTRATIVE_ACTION => 5,
        _ => return None,
    })
}

/// A PUBLISH to a client. What it carries must fit into [`PACKET_BYTES_MAX`], and the topic into 65 535 bytes: the broker's own
/// limits are far below.
#[inline]
pub fn delivery(out: &mut Vec<u8>, version: Version, delivery: &Delivery<'_>) {
    let lengths = Lengths::new(version, delivery);
    out.reserve(1 + variable_bytes(lengths.remaining) + lengths.remaining);
    let flags = u8::from(delivery.dup) << 3 | (delivery.qos as u8) << 1 | u8::from(delivery.retain);
    header(out, 0x30 | flags, lengths.remaining);
    string(out, delivery.topic);
    if delivery.qos != Qos::AtMostOnce {
        out.extend_from_slice(&delivery.id.to_be_bytes());
    }
    if version == Version::V5 {
        variable(out, lengths.properties);
        out.two(property::TOPIC_ALIAS, delivery.alias);
        out.four(property::MESSAGE_EXPIRY, delivery.expiry);
        for subscription in delivery.subscriptions {
            out.push(property::SUBSCRIPTION_ID);
            variable(out, *subscription as usize);
        }
        out.extend_from_slice(delivery.properties);
    }
    out.extend_from_slice(delivery.payload);
}

/// How many bytes [`delivery`] appends.
#[inline]
pub fn delivery_bytes(version: Version, delivery: &Delivery<'_>) -> usize {
    let remaining = Lengths::new(version, delivery).remaining;
    1 + variable_bytes(remaining) + remaining
}

struct Lengths {
    properties: usize,
    remaining: usize,
}

impl Lengths {
    #[inline]
    fn new(version: Version, delivery: &Delivery<'_>) -> Lengths {
        let id = if delivery.qos == Qos::AtMostOnce { 0 } else { 2 };
        let bare = 2 + fitting(delivery.topic).len() + id + delivery.payload.len();
        match version {
            Version::V31 | Version::V311 => Lengths { properties: 0, remaining: bare },
            Version::V5 => {
                let subscriptions: usize = delivery
                    .subscriptions
                    .iter()
                    .map(|subscription| 1 + variable_bytes(*subscription as usize))
                    .sum();
                let properties = if delivery.alias.is_some() { 3 } else { 0 }
                    + if delivery.expiry.is_some() { 5 } else { 0 }
                    + subscriptions
                    + delivery.properties.len();
                Lengths { properties, remaining: bare + variable_bytes(properties) + properties }
            }
        }
    }
}

/// One of the four answers to messages. 3.1.1 has no reasons in them.
#[inline]
pub fn acknowledge(out: &mut Vec<u8>, version: Version, answer: Answer, id: u16, reason: Reason) {
    let first = first_byte(answer);
    let [high, low] = id.to_be_bytes();
    if !version.is_5() || reason == Reason::SUCCESS {
        out.extend_from_slice(&[first, 2, high, low]);
    } else {
        out.extend_from_slice(&[first, 3, high, low, reason.0]);
    }
}

#[inline]
fn first_byte(answer: Answer) -> u8 {
    match answer {
        Answer::PubAck => 0x40,
        Answer::PubRec => 0x50,
        Answer::PubRel => 0x62,
        Answer::PubComp => 0x70,
    }
}

/// One of the four answers to messages, for MQTT 5, with a reason in words.
pub fn acknowledge_error(out: &mut Vec<u8>, answer: Answer, id: u16, reason: Reason, text: Option<&str>) {
    let mut section = Length(0);
    section.text(property::REASON_STRING, text);
    if section.0 == 0 {
        return acknowledge(out, Version::V5, answer, id, reason);
    }
    header(out, first_byte(answer), 3 + variable_bytes(section.0) + section.0);
    out.extend_from_slice(&id.to_be_bytes());
    out.push(reason.0);
    variable(out, section.0);
    out.text(property::REASON_STRING, text);
}

/// A SUBACK with one reason for each filter, and in words for MQTT 5. 3.1.1 tells all errors by the same code.
pub fn suback(out: &mut Vec<u8>, version: Version, id: u16, reasons: &[Reason], text: Option<&str>) {
    answers(out, 0x90, version, id, reasons.len(), text);
    out.extend(reasons.iter().map(|reason| match version {
        Version::V31 | Version::V311 if reason.is_error() => 0x80,
        _ => reason.0,
    }));
}

/// An UNSUBACK with one reason for each filter, and in words; without them in 3.1.1.
pub fn unsuback(out: &mut Vec<u8>, version: Version, id: u16, reasons: &[Reason], text: Option<&str>) {
    match version {
        Version::V31 | Version::V311 => answers(out, 0xB0, version, id, 0, None),
        Version::V5 => {
            answers(out, 0xB0, version, id, reasons.len(), text);
            out.extend(reasons.iter().map(|reason| reason.0));
        }
    }
}

/// What comes before the reasons.
fn answers(out: &mut Vec<u8>, first: u8, version: Version, id: u16, reasons: usize, text: Option<&str>) {
    if !version.is_5() {
        header(out, first, 2 + reasons);
        return out.extend_from_slice(&id.to_be_bytes());
    }
    let mut section = Length(0);
    section.text(property::REASON_STRING, text);
    header(out, first, 2 + variable_bytes(section.0) + section.0 + reasons);
    out.extend_from_slice(&id.to_be_bytes());
    variable(out, section.0);
    out.text(property::REASON_STRING, text);
}

/// A PINGRESP.
pub fn pong(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xD0, 0]);
}

/// A DISCONNECT, which only MQTT 5 has from brokers: for 3.1.1, the connection is closed.
pub fn disconnect(out: &mut Vec<u8>, reason: Reason, text: Option<&str>, server_reference: Option<&str>) {
    let mut section = Length(0);
    disconnect_properties(&mut section, text, server_reference);
    if section.0 == 0 {
        out.extend_from_slice(&[0xE0, 1, reason.0]);
        return;
    }
    header(out, 0xE0, 1 + variable_bytes(section.0) + section.0);
    out.push(reason.0);
    variable(out, section.0);
    disconnect_properties(out, text, server_reference);
}

fn disconnect_properties(to: &mut impl Sink, text: Option<&str>, server_reference: Option<&str>) {
    to.text(property::REASON_STRING, text);
    to.text(property::SERVER_REFERENCE, server_reference);
}

/// The first byte and the length of what follows.
#[inline]
pub(super) fn header(out: &mut Vec<u8>, first: u8, remaining: usize) {
    out.push(first);
    variable(out, remaining);
}

/// A variable byte integer.
#[inline]
fn variable(out: &mut Vec<u8>, value: usize) {
    assert!(
        value <= VARIABLE_MAX as usize,
        "invariant: the broker's limits keep packets below {PACKET_BYTES_MAX} bytes"
    );
    let mut rest = value;
    while rest > 0x7F {
        out.push((rest & 0x7F) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline]
fn variable_bytes(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

/// What of a text fits behind its length.
#[inline]
fn fitting(text: &str) -> &str {
    text.get(..text.floor_char_boundary(usize::from(u16::MAX))).unwrap_or_default()
}

#[inline]
fn string(out: &mut Vec<u8>, text: &str) {
    let text = fitting(text);
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Properties, written or only measured.
trait Sink {
    fn two(&mut self, id: u8, value: Option<u16>);
    fn four(&mut self, id: u8, value: Option<u32>);
    fn text(&mut self, id: u8, value: Option<&str>);
}

/// How many bytes properties take.
struct Length(usize);

impl Sink for Length {
    fn two(&mut self, _: u8, value: Option<u16>) {
        self.0 += value.map_or(0, |_| 3);
    }

    fn four(&mut self, _: u8, value: Option<u32>) {
        self.0 += value.map_or(0, |_| 5);
    }

    fn text(&mut self, _: u8, value: Option<&str>) {
        self.0 += value.map_or(0, |text| 3 + fitting(text).len());
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn two(&mut self, id: u8, value: Option<u16>) {
        if let Some(value) = value {
            let [a, b] = value.to_be_bytes();
            self.extend_from_slice(&[id, a, b]);
        }
    }

    #[inline]
    fn four(&mut self, id: u8, value: Option<u32>) {
        if let Some(value) = value {
            let [a, b, c, d] = value.to_be_bytes();
            self.extend_from_slice(&[id, a, b, c, d]);
        }
    }

    fn text(&mut self, id: u8, value: Option<&str>) {
        if let Some(text) = value {
            self.push(id);
            string(self, text);
        }
    }
}
