//! What the library lets pass and the protocol forbids, and everything else that is wrong with a rare packet: checked before
//! the library sees it, so that the operator reads what it is.

use super::property::{self, Value};
use super::reader::{Reader, is_without_wildcards, variable};
use super::{Disconnect, Malformed, Packet, Properties, Reason, Version, library};
use contract::invariant;

/// Bits of the connect flags.
mod flag {
    pub(super) const RESERVED: u8 = 0x01;
    pub(super) const CLEAN_START: u8 = 0x02;
    pub(super) const WILL: u8 = 0x04;
    pub(super) const WILL_QOS: u8 = 0x18;
    pub(super) const WILL_RETAIN: u8 = 0x20;
    pub(super) const PASSWORD: u8 = 0x40;
    pub(super) const USER: u8 = 0x80;
}

/// A CONNECT that keeps to the rules, cut into what the library reads and what it does not.
pub(super) struct Checked<'a> {
    pub(super) version: Version,
    pub(super) bridge: bool,
    pub(super) clean_start: bool,
    /// With a clean start: for any other, the library refuses an empty client identifier, which MQTT 5 allows.
    pub(super) flags: u8,
    /// From there to the will's properties, or to the end.
    pub(super) middle: &'a [u8],
    /// The will's properties. The library refuses a message expiry of zero, and the rest of the crate wants them encoded.
    pub(super) will: Option<WillProperties>,
    /// What follows the will's properties.
    pub(super) tail: &'a [u8],
}

/// What stands before a will.
#[derive(Default)]
pub(super) struct WillProperties {
    pub(super) delay: u32,
    pub(super) expiry: Option<u32>,
    /// What goes on to subscribers.
    pub(super) forward: Vec<u8>,
}

pub(super) fn connect(body: &[u8]) -> Result<Packet<'static>, Malformed> {
    let mut reader = Reader(body);
    let (version, bridge) = protocol(&mut reader)?;
    let flags = reader.byte()?;
    check_connect_flags(flags, version)?;
    let after_flags = reader.0;
    reader.two()?;
    if version.is_5() {
        check_connect_properties(reader.section()?)?;
    }
    let clean_start = flags & flag::CLEAN_START != 0;
    let client = reader.text("the client identifier is no valid text (UTF-8 without NUL)")?;
    if client.is_empty() && (version == Version::V31 || (version == Version::V311 && !clean_start)) {
        let what = "an empty client identifier without a clean session, or in MQTT 3.1";
        return Err(Malformed::new(Reason::CLIENT_ID_NOT_VALID, what));
    }
    let (mut middle, mut tail, mut will) = (after_flags, &[][..], None);
    if flags & flag::WILL != 0 {
        if version.is_5() {
            middle = before(after_flags, reader);
            will = Some(will_properties(reader.section()?)?);
            tail = reader.0;
        }
        check_will_topic(reader.text("the will's topic is no valid text (UTF-8 without NUL)")?)?;
        reader.binary()?;
    }
    if flags & flag::USER != 0 {
        reader.text("the user name is no valid text (UTF-8 without NUL)")?;
    }
    if flags & flag::PASSWORD != 0 {
        reader.binary()?;
    }
    reader.end()?;
    let flags = (flags | flag::CLEAN_START) & !flag::RESERVED;
    library::connect(Checked { version, bridge, clean_start, flags, middle, will, tail })
}

/// What of the bytes has been read.
fn before<'a>(bytes: &'a [u8], reader: Reader<'_>) -> &'a [u8] {
    let read = bytes.len().checked_sub(reader.0.len()).and_then(|read| bytes.get(..read));
    read.unwrap_or_else(|| invariant!("what is left is the end of what there was", &[]))
}

/// The highest bit of the protocol level, by which bridges of mosquitto say what they are.
const BRIDGE: u8 = 0x80;

/// The protocol's name and level, and whether a bridge speaks.
fn protocol(reader: &mut Reader<'_>) -> Result<(Version, bool), Malformed> {
    let unsupported = |what| Err(Malformed::new(Reason::UNSUPPORTED_VERSION, what));
    let (name, level) = (reader.binary()?, reader.byte()?);
    let bridge = level & BRIDGE != 0;
    match (name, level & !BRIDGE) {
        (b"MQIsdp", 3) => Ok((Version::V31, bridge)),
        (b"MQTT", 4) => Ok((Version::V311, bridge)),
        (b"MQTT", 5) => Ok((Version::V5, bridge)),
        (b"MQIsdp", _) => unsupported("a protocol level that is not 3, which is that of `MQIsdp` (MQTT 3.1)"),
        (b"MQTT", _) => unsupported(
            "a protocol level that is neither 4 (MQTT 3.1.1) nor 5 (MQTT 5), nor 3 with `MQIsdp` (MQTT 3.1)",
        ),
        _ => unsupported("a protocol name that is not MQTT"),
    }
}

/// The version in which a client that sent a CONNECT can be told that something is wrong with it.
#[cold]
pub(super) fn version_hint(bytes: &[u8]) -> Option<Version> {
    let (first, rest) = bytes.split_first()?;
    if *first != super::decode::CONNECT << 4 {
        return None;
    }
    let mut reader = Reader(variable(rest).ok()??.1);
    match (reader.binary().ok()?, reader.byte().ok()?) {
        (b"MQIsdp", _) => Some(Version::V31),
        (b"MQTT", level) => Some(if level & !BRIDGE < 5 { Version::V311 } else { Version::V5 }),
        _ => None,
    }
}

fn check_connect_flags(flags: u8, version: Version) -> Result<(), Malformed> {
    let has = |bits| flags & bits != 0;
    let wrong = if has(flag::RESERVED) && version != Version::V31 {
        "the reserved connect flag is set"
    } else if flags & flag::WILL_QOS == flag::WILL_QOS {
        "a will with QoS 3"
    } else if !has(flag::WILL) && has(flag::WILL_QOS) {
        "a QoS for a will, but no will"
    } else if !has(flag::WILL) && has(flag::WILL_RETAIN) {
        "a retain flag for a will, but no will"
    } else if !version.is_5() && has(flag::PASSWORD) && !has(flag::USER) {
        "a password without a user name"
    } else {
        return Ok(());
    };
    Err(Malformed::packet(wrong))
}

fn check_connect_properties(section: &[u8]) -> Result<(), Malformed> {
    let (mut method, mut data) = (false, false);
    property::check(&property::CONNECT, section, |id, _| {
        method |= id == property::AUTHENTICATION_METHOD;
        data |= id == property::AUTHENTICATION_DATA;
        Ok(())
    })?;
    if data && !method {
        return Err(Malformed::protocol("authentication data without an authentication method"));
    }
    Ok(())
}

fn will_properties(section: &[u8]) -> Result<WillProperties, Malformed> {
    let mut will = WillProperties::default();
    property::check(&property::WILL, section, |id, value| {
        match (id, value) {
            (property::WILL_DELAY, Value::Number(seconds)) => will.delay = seconds,
            (property::MESSAGE_EXPIRY, Value::Number(seconds)) => will.expiry = Some(seconds),
            // They go on to subscribers as they are.
            _ => {}
        }
        Ok(())
    })?;
    Properties(section).forward(&mut will.forward);
    Ok(will)
}

fn check_will_topic(topic: &str) -> Result<(), Malformed> {
    if topic.is_empty() {
        Err(Malformed::new(Reason::TOPIC_NAME_INVALID, "a will without a topic"))
    } else if !is_without_wildcards(topic) {
        Err(Malformed::new(Reason::TOPIC_NAME_INVALID, "a will to a topic with a wildcard"))
    } else {
        Ok(())
    }
}

pub(super) fn subscribe(body: &[u8], version: Version) -> Result<Packet<'static>, Malformed> {
    let mut reader = Reader(body);
    reader.id()?;
    if version.is_5() {
        property::check(&property::SUBSCRIBE, reader.section()?, |_, _| Ok(()))?;
    }
    if reader.0.is_empty() {
        return Err(Malformed::protocol("a SUBSCRIBE without a topic filter"));
    }
    while !reader.0.is_empty() {
        let filter = filter(&mut reader, version)?;
        check_options(reader.byte()?, filter, version)?;
    }
    library::subscribe(body, version)
}

fn check_options(options: u8, filter: &str, version: Version) -> Result<(), Malformed> {
    let (reserved, no_local) = match version {
        Version::V31 | Version::V311 => (0xFC, 0),
        Version::V5 => (0xC0, 0x04),
    };
    if options & reserved != 0 {
        Err(Malformed::packet("subscription options with reserved bits"))
    } else if options & 3 == 3 {
        Err(Malformed::protocol("a subscription with QoS 3"))
    } else if version.is_5() && options & 0x30 == 0x30 {
        Err(Malformed::protocol("a subscription with a retain handling of 3"))
    } else if options & no_local != 0 && filter.starts_with(SHARED) {
        Err(Malformed::protocol("a shared subscription that asks for no local messages"))
    } else {
        Ok(())
    }
}

fn filter<'a>(reader: &mut Reader<'a>, version: Version) -> Result<&'a str, Malformed> {
    let filter = reader.text("a topic filter is no valid text (UTF-8 without NUL)")?;
    if filter.is_empty() {
        return Err(Malformed::packet("an empty topic filter"));
    }
    // MQTT 3.1.1 has no shared subscriptions: there the gateway says of each that it is none.
    let topics = match filter.strip_prefix(SHARED).filter(|_| version.is_5()) {
        None => filter,
        Some(shared) => match shared.split_once('/') {
            Some((group, topics)) if !topics.is_empty() && is_group(group) => topics,
            _ => return Err(Malformed::packet("a shared subscription that is not `$share/GROUP/FILTER`")),
        },
    };
    let mut levels = topics.split('/').peekable();
    while let Some(level) = levels.next() {
        if !is_without_wildcards(level) && level.len() > 1 {
            return Err(Malformed::packet(
                "a topic filter with a wildcard that does not stand alone in its level",
            ));
        }
        if level == "#" && levels.peek().is_some() {
            return Err(Malformed::packet("a topic filter with a `#` that is not its last level"));
        }
    }
    Ok(filter)
}

/// What a shared subscription begins with.
const SHARED: &str = "$share/";

/// Whether several subscribers may have this name together.
fn is_group(name: &str) -> bool {
    !name.is_empty() && is_without_wildcards(name)
}

pub(super) fn unsubscribe(body: &[u8], version: Version) -> Result<Packet<'static>, Malformed> {
    let mut reader = Reader(body);
    reader.id()?;
    if version.is_5() {
        property::check(&property::UNSUBSCRIBE, reader.section()?, |_, _| Ok(()))?;
    }
    if reader.0.is_empty() {
        return Err(Malformed::protocol("an UNSUBSCRIBE without a topic filter"));
    }
    while !reader.0.is_empty() {
        filter(&mut reader, version)?;
    }
    library::unsubscribe(body, version)
}

pub(super) fn disconnect(body: &[u8], version: Version) -> Result<Packet<'static>, Malformed> {
    if body.is_empty() {
        return Ok(Packet::Disconnect(Disconnect { reason: Reason::SUCCESS, session_expiry: None }));
    }
    if !version.is_5() {
        return Err(Malformed::packet("a DISCONNECT with a body"));
    }
    let mut reader = Reader(body);
    let reason = Reason(reader.byte()?);
    if !is_reason_of_disconnect(reason) {
        return Err(Malformed::protocol("a reason code that a client's DISCONNECT does not have"));
    }
    if !reader.0.is_empty() {
        property::check(&property::DISCONNECT, reader.section()?, |_, _| Ok(()))?;
    }
    reader.end()?;
    library::disconnect(body)
}

fn is_reason_of_disconnect(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::SUCCESS
            | Reason::DISCONNECT_WITH_WILL
            | Reason::UNSPECIFIED
            | Reason::MALFORMED_PACKET
            | Reason::PROTOCOL_ERROR
            | Reason::IMPLEMENTATION_SPECIFIC
            | Reason::TOPIC_NAME_INVALID
            | Reason::RECEIVE_MAXIMUM_EXCEEDED
            | Reason::TOPIC_ALIAS_INVALID
            | Reason::PACKET_TOO_LARGE
            | Reason::MESSAGE_RATE_TOO_HIGH
            | Reason::QUOTA_EXCEEDED
            | Reason::ADMINISTRATIVE_ACTION
            | Reason::PAYLOAD_FORMAT_INVALID
    )
}

pub(super) fn auth(body: &[u8]) -> Result<Packet<'static>, Malformed> {
    let mut reader = Reader(body);
    if !body.is_empty() {
        match reader.byte()? {
            0x00 | 0x18 | 0x19 => {}
            _ => return Err(Malformed::protocol("a reason code that an AUTH does not have")),
        }
        let mut method = false;
        property::check(&property::AUTH, reader.section()?, |id, _| {
            method |= id == property::AUTHENTICATION_METHOD;
            Ok(())
        })?;
        reader.end()?;
        if !method {
            return Err(Malformed::protocol("an AUTH without an authentication method"));
        }
    }
    if matches!(body.first(), None | Some(0)) {
        return Err(Malformed::protocol("an AUTH that says success, which only brokers do"));
    }
    library::auth(body)
}
