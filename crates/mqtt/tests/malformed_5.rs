//! Packets of MQTT 5 that break the protocol, each with the reason that the client is told.

mod support;

use mqtt::packet::{Reason, Version};
use support::{Row, connect_body, frame, refuse_all};

const MALFORMED: Reason = Reason::MALFORMED_PACKET;
const PROTOCOL: Reason = Reason::PROTOCOL_ERROR;

#[test]
fn publishes() {
    let text = |bytes: &[u8]| [&[0, bytes.len() as u8], bytes].concat();
    let with = |first: u8, topic: &[u8], rest: &[u8]| frame(first, &[&text(topic), rest]);
    let properties = |bytes: &[u8]| with(0x30, b"t", &[&[bytes.len() as u8], bytes].concat());
    let rows: Vec<Row> = vec![
        ("QoS 3", with(0x36, b"t", &[0, 1, 0]), MALFORMED),
        ("DUP with QoS 0", with(0x38, b"t", &[0]), MALFORMED),
        ("no packet identifier", with(0x32, b"t", &[0]), MALFORMED),
        ("packet identifier 0", with(0x32, b"t", &[0, 0, 0]), PROTOCOL),
        ("packet identifier 0 with QoS 2", with(0x34, b"t", &[0, 0, 0]), PROTOCOL),
        ("no topic", with(0x30, b"", &[0]), PROTOCOL),
        ("+ in the topic", with(0x30, b"a/+/b", &[0]), Reason::TOPIC_NAME_INVALID),
        ("# in the topic", with(0x30, b"a/#", &[0]), Reason::TOPIC_NAME_INVALID),
        ("NUL in the topic", with(0x30, b"a\0b", &[0]), MALFORMED),
        ("bad UTF-8", with(0x30, b"a\xFF", &[0]), MALFORMED),
        ("overlong UTF-8", with(0x30, b"a\xC0\x80", &[0]), MALFORMED),
        ("a surrogate", with(0x30, b"a\xED\xA0\x80", &[0]), MALFORMED),
        ("a topic longer than the packet", frame(0x30, &[&[0, 9], b"t"]), MALFORMED),
        ("nothing at all", frame(0x30, &[]), MALFORMED),
        ("no properties", with(0x30, b"t", &[]), MALFORMED),
        ("properties longer than the packet", with(0x30, b"t", &[3, 1, 0]), MALFORMED),
        ("a length of properties longer than it must be", with(0x30, b"t", &[0x80, 0]), MALFORMED),
        ("a length of properties of five bytes", with(0x30, b"t", &[0x80, 0x80, 0x80, 0x80, 1]), MALFORMED),
        ("a length of properties that ends early", with(0x30, b"t", &[0x80]), MALFORMED),
        ("an unknown property", properties(&[0x7E, 0]), MALFORMED),
        ("a property identifier of two bytes", properties(&[0x81, 0]), MALFORMED),
        ("a property of a CONNECT", properties(&[0x21, 0, 9]), MALFORMED),
        ("a will delay", properties(&[0x18, 0, 0, 0, 9]), MALFORMED),
        ("a property that ends early", properties(&[2, 0, 0, 0]), MALFORMED),
        ("a property's text that ends early", properties(&[3, 0, 9, b'a']), MALFORMED),
        ("payload format 2", properties(&[1, 2]), PROTOCOL),
        ("payload format twice", properties(&[1, 1, 1, 1]), PROTOCOL),
        ("expiry twice", properties(&[2, 0, 0, 0, 1, 2, 0, 0, 0, 1]), PROTOCOL),
        ("content type twice", properties(&[3, 0, 1, b'a', 3, 0, 1, b'a']), PROTOCOL),
        ("response topic twice", properties(&[8, 0, 1, b'a', 8, 0, 1, b'a']), PROTOCOL),
        ("correlation data twice", properties(&[9, 0, 1, b'a', 9, 0, 1, b'a']), PROTOCOL),
        ("alias twice", properties(&[0x23, 0, 1, 0x23, 0, 1]), PROTOCOL),
        ("alias 0", properties(&[0x23, 0, 0]), Reason::TOPIC_ALIAS_INVALID),
        ("a response topic with a wildcard", properties(&[8, 0, 3, b'a', b'/', b'#']), PROTOCOL),
        ("an empty response topic", properties(&[8, 0, 0]), PROTOCOL),
        ("NUL in the content type", properties(&[3, 0, 1, 0]), MALFORMED),
        ("NUL in a user property's name", properties(&[0x26, 0, 1, 0, 0, 1, b'v']), MALFORMED),
        ("bad UTF-8 in a user property's value", properties(&[0x26, 0, 1, b'n', 0, 1, 0xFF]), MALFORMED),
        ("a user property without a value", properties(&[0x26, 0, 1, b'n']), MALFORMED),
        ("a subscription identifier", properties(&[0x0B, 1]), PROTOCOL),
        ("a subscription identifier of 0", properties(&[0x0B, 0]), PROTOCOL),
    ];
    refuse_all(Some(Version::V5), &rows);
}

#[test]
fn answers_to_messages() {
    let mut rows: Vec<Row> = Vec::new();
    for first in [0x40, 0x50, 0x62, 0x70] {
        let unknown = if first == 0x40 || first == 0x50 { 0x92 } else { 0x10 };
        rows.extend([
            ("flags", frame(first ^ 1, &[&[0, 1]]), MALFORMED),
            ("flags", frame(first ^ 2, &[&[0, 1]]), MALFORMED),
            ("nothing", frame(first, &[]), MALFORMED),
            ("half a packet identifier", frame(first, &[&[1]]), MALFORMED),
            ("packet identifier 0", frame(first, &[&[0, 0]]), PROTOCOL),
            ("an unknown reason", frame(first, &[&[0, 1, 0x42]]), PROTOCOL),
            ("another answer's reason", frame(first, &[&[0, 1, unknown]]), PROTOCOL),
            ("properties that end early", frame(first, &[&[0, 1, 0, 5, 0x1F]]), MALFORMED),
            ("a misplaced property", frame(first, &[&[0, 1, 0, 2, 1, 1]]), MALFORMED),
            ("a reason string twice", frame(first, &[&[0, 1, 0, 6, 0x1F, 0, 0, 0x1F, 0, 0]]), PROTOCOL),
            ("trailing bytes", frame(first, &[&[0, 1, 0, 0, 0]]), MALFORMED),
        ]);
    }
    refuse_all(Some(Version::V5), &rows);
}

#[test]
fn subscriptions() {
    let subscribe =
        |properties: &[u8], rest: &[u8]| frame(0x82, &[&[0, 1], &[properties.len() as u8], properties, rest]);
    let unsubscribe =
        |properties: &[u8], rest: &[u8]| frame(0xA2, &[&[0, 1], &[properties.len() as u8], properties, rest]);
    let rows: Vec<Row> = vec![
        ("flags", frame(0x80, &[&[0, 1, 0, 0, 1, b'a', 0]]), MALFORMED),
        ("packet identifier 0", frame(0x82, &[&[0, 0, 0, 0, 1, b'a', 0]]), PROTOCOL),
        ("no filter", subscribe(&[], &[]), PROTOCOL),
        ("no properties", frame(0x82, &[&[0, 1]]), MALFORMED),
        ("an empty filter", subscribe(&[], &[0, 0, 0]), MALFORMED),
        ("no options", subscribe(&[], &[0, 1, b'a']), MALFORMED),
        ("bits 6 of the options", subscribe(&[], &[0, 1, b'a', 0x40]), MALFORMED),
        ("bits 7 of the options", subscribe(&[], &[0, 1, b'a', 0x80]), MALFORMED),
        ("QoS 3", subscribe(&[], &[0, 1, b'a', 3]), PROTOCOL),
        ("retain handling 3", subscribe(&[], &[0, 1, b'a', 0x30]), PROTOCOL),
        ("the second filter's QoS", subscribe(&[], &[0, 1, b'a', 0, 0, 1, b'b', 3]), PROTOCOL),
        ("no local and shared", subscribe(&[], &[&[0, 10][..], b"$share/g/a", &[4]].concat()), PROTOCOL),
        ("subscription identifier 0", subscribe(&[0x0B, 0], &[0, 1, b'a', 0]), PROTOCOL),
        ("two subscription identifiers", subscribe(&[0x0B, 1, 0x0B, 1], &[0, 1, b'a', 0]), PROTOCOL),
        ("one longer than it must be", subscribe(&[0x0B, 0x81, 0], &[0, 1, b'a', 0]), MALFORMED),
        ("a misplaced property", subscribe(&[1, 1], &[0, 1, b'a', 0]), MALFORMED),
        ("NUL in a filter", subscribe(&[], &[0, 2, b'a', 0, 0]), MALFORMED),
        ("a surrogate in a filter", subscribe(&[], &[0, 3, 0xED, 0xBF, 0xBF, 0]), MALFORMED),
        ("a filter that ends early", subscribe(&[], &[0, 5, b'a', 0]), MALFORMED),
        ("UNSUBSCRIBE: flags", frame(0xA0, &[&[0, 1, 0, 0, 1, b'a']]), MALFORMED),
        ("UNSUBSCRIBE: packet identifier 0", frame(0xA2, &[&[0, 0, 0, 0, 1, b'a']]), PROTOCOL),
        ("UNSUBSCRIBE: no filter", unsubscribe(&[], &[]), PROTOCOL),
        ("UNSUBSCRIBE: an empty filter", unsubscribe(&[], &[0, 0]), MALFORMED),
        ("UNSUBSCRIBE: a misplaced property", unsubscribe(&[0x0B, 1], &[0, 1, b'a']), MALFORMED),
        ("UNSUBSCRIBE: half a filter", unsubscribe(&[], &[0, 1, b'a', 0]), MALFORMED),
        ("UNSUBSCRIBE: NUL in a filter", unsubscribe(&[], &[0, 1, 0]), MALFORMED),
    ];
    refuse_all(Some(Version::V5), &rows);
}

#[test]
fn last_words() {
    let mut auth = vec![0x18, 4, 0x15, 0, 1, b'm'];
    auth.push(0);
    let rows: Vec<Row> = vec![
        ("flags", frame(0xE1, &[]), MALFORMED),
        ("an unknown reason", frame(0xE0, &[&[0x42]]), PROTOCOL),
        ("a broker's reason", frame(0xE0, &[&[0x8E]]), PROTOCOL),
        ("session expiry twice", frame(0xE0, &[&[0, 10, 0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1]]), PROTOCOL),
        ("a server reference", frame(0xE0, &[&[0, 4, 0x1C, 0, 1, b's']]), MALFORMED),
        ("trailing bytes", frame(0xE0, &[&[0, 0, 0]]), MALFORMED),
        ("AUTH: flags", frame(0xF2, &[&[0x18, 0]]), MALFORMED),
        ("AUTH: success", frame(0xF0, &[]), PROTOCOL),
        ("AUTH: success with a method", frame(0xF0, &[&[0, 4, 0x15, 0, 1, b'm']]), PROTOCOL),
        ("AUTH: an unknown reason", frame(0xF0, &[&[1, 4, 0x15, 0, 1, b'm']]), PROTOCOL),
        ("AUTH: no method", frame(0xF0, &[&[0x18, 0]]), PROTOCOL),
        ("AUTH: no properties", frame(0xF0, &[&[0x18]]), MALFORMED),
        ("AUTH: trailing bytes", frame(0xF0, &[&auth]), MALFORMED),
        ("PINGREQ with a body", frame(0xC0, &[&[0]]), MALFORMED),
        ("PINGREQ: flags", frame(0xC1, &[]), MALFORMED),
    ];
    refuse_all(Some(Version::V5), &rows);
}

#[test]
fn connects() {
    let client: &[u8] = &[0, 1, b'c'];
    let with = |flags: u8, properties: &[u8], rest: &[&[u8]]| {
        frame(0x10, &[&connect_body(5, flags), &[properties.len() as u8], properties, &rest.concat()])
    };
    let plain = |properties: &[u8]| with(2, properties, &[client]);
    let will = |flags: u8, properties: &[u8], topic: &[u8]| {
        let topic = [&[0, topic.len() as u8], topic].concat();
        with(flags, &[], &[client, &[properties.len() as u8], properties, &topic, &[0, 0]])
    };
    let rows: Vec<Row> = vec![
        ("flags of the packet", frame(0x11, &[&connect_body(5, 2), &[0], client]), MALFORMED),
        ("the reserved flag", with(3, &[], &[client]), MALFORMED),
        ("a will's QoS without a will", with(0x0A, &[], &[client]), MALFORMED),
        ("a will's retain without a will", with(0x22, &[], &[client]), MALFORMED),
        ("a will with QoS 3", will(0x1E, &[], b"t"), MALFORMED),
        ("no properties", frame(0x10, &[&connect_body(5, 2)]), MALFORMED),
        ("no client identifier", with(2, &[], &[]), MALFORMED),
        ("NUL in the client identifier", with(2, &[], &[&[0, 1, 0]]), MALFORMED),
        ("bad UTF-8 in the client identifier", with(2, &[], &[&[0, 1, 0xFF]]), MALFORMED),
        ("no user name where the flags have one", with(0x82, &[], &[client]), MALFORMED),
        ("NUL in the user name", with(0x82, &[], &[client, &[0, 1, 0]]), MALFORMED),
        ("no password where the flags have one", with(0x42, &[], &[client]), MALFORMED),
        ("a user name where the flags have none", with(2, &[], &[client, &[0, 1, b'u']]), MALFORMED),
        ("receive maximum 0", plain(&[0x21, 0, 0]), PROTOCOL),
        ("maximum packet size 0", plain(&[0x27, 0, 0, 0, 0]), PROTOCOL),
        ("problem information 2", plain(&[0x17, 2]), PROTOCOL),
        ("response information 2", plain(&[0x19, 2]), PROTOCOL),
        ("session expiry twice", plain(&[0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1]), PROTOCOL),
        ("receive maximum twice", plain(&[0x21, 0, 1, 0x21, 0, 1]), PROTOCOL),
        ("a topic alias", plain(&[0x23, 0, 1]), MALFORMED),
        ("a server keep-alive", plain(&[0x13, 0, 1]), MALFORMED),
        ("authentication data alone", plain(&[0x16, 0, 1, 1]), PROTOCOL),
        ("an unknown property", plain(&[0x2B, 0]), MALFORMED),
        ("a will without a topic", will(6, &[], b""), Reason::TOPIC_NAME_INVALID),
        ("a will to a wildcard", will(6, &[], b"a/#"), Reason::TOPIC_NAME_INVALID),
        ("NUL in a will's topic", will(6, &[], b"\0"), MALFORMED),
        ("a will with an alias", will(6, &[0x23, 0, 1], b"t"), MALFORMED),
        ("a will with two delays", will(6, &[0x18, 0, 0, 0, 1, 0x18, 0, 0, 0, 1], b"t"), PROTOCOL),
        ("a will with payload format 2", will(6, &[1, 2], b"t"), PROTOCOL),
        ("a will without a payload", with(6, &[], &[client, &[0, 0, 1, b't']]), MALFORMED),
    ];
    refuse_all(None, &rows);
}
