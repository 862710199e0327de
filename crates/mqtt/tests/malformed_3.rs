//! Packets of MQTT 3.1.1 that break the protocol, and what is wrong in the same way for both versions.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use mqtt::packet::{Decoded, Packet, Reason, Version, decode};
use support::{Row, connect_body, frame, refuse_all};

const MALFORMED: Reason = Reason::MALFORMED_PACKET;
const PROTOCOL: Reason = Reason::PROTOCOL_ERROR;

#[test]
fn publishes() {
    let with = |first: u8, topic: &[u8], rest: &[u8]| frame(first, &[&[0, topic.len() as u8], topic, rest]);
    let rows: Vec<Row> = vec![
        ("QoS 3", with(0x36, b"t", &[0, 1]), MALFORMED),
        ("DUP with QoS 0", with(0x38, b"t", &[]), MALFORMED),
        ("no packet identifier", with(0x32, b"t", &[]), MALFORMED),
        ("half a packet identifier", with(0x32, b"t", &[1]), MALFORMED),
        ("packet identifier 0", with(0x32, b"t", &[0, 0]), PROTOCOL),
        ("packet identifier 0 with QoS 2", with(0x34, b"t", &[0, 0]), PROTOCOL),
        ("no topic", with(0x30, b"", &[]), PROTOCOL),
        ("+ in the topic", with(0x30, b"a/+", &[]), Reason::TOPIC_NAME_INVALID),
        ("# in the topic", with(0x30, b"#", &[]), Reason::TOPIC_NAME_INVALID),
        ("NUL in the topic", with(0x30, b"\0", &[]), MALFORMED),
        ("bad UTF-8", with(0x30, b"\xC3", &[]), MALFORMED),
        ("a surrogate", with(0x30, b"\xED\xA0\x80", &[]), MALFORMED),
        ("a topic longer than the packet", frame(0x30, &[&[0, 2], b"t"]), MALFORMED),
        ("nothing at all", frame(0x30, &[]), MALFORMED),
    ];
    refuse_all(Some(Version::V311), &rows);
}

#[test]
fn answers_to_messages() {
    let mut rows: Vec<Row> = Vec::new();
    for first in [0x40, 0x50, 0x62, 0x70] {
        rows.extend([
            ("flags", frame(first ^ 1, &[&[0, 1]]), MALFORMED),
            ("flags", frame(first ^ 2, &[&[0, 1]]), MALFORMED),
            ("nothing", frame(first, &[]), MALFORMED),
            ("half a packet identifier", frame(first, &[&[1]]), MALFORMED),
            ("packet identifier 0", frame(first, &[&[0, 0]]), PROTOCOL),
            ("a reason", frame(first, &[&[0, 1, 0]]), MALFORMED),
        ]);
    }
    refuse_all(Some(Version::V311), &rows);
}

#[test]
fn subscriptions_and_the_rest() {
    let rows: Vec<Row> = vec![
        ("SUBSCRIBE: flags", frame(0x80, &[&[0, 1, 0, 1, b'a', 0]]), MALFORMED),
        ("SUBSCRIBE: packet identifier 0", frame(0x82, &[&[0, 0, 0, 1, b'a', 0]]), PROTOCOL),
        ("SUBSCRIBE: no filter", frame(0x82, &[&[0, 1]]), PROTOCOL),
        ("SUBSCRIBE: an empty filter", frame(0x82, &[&[0, 1, 0, 0, 0]]), MALFORMED),
        ("SUBSCRIBE: no QoS", frame(0x82, &[&[0, 1, 0, 1, b'a']]), MALFORMED),
        ("SUBSCRIBE: QoS 3", frame(0x82, &[&[0, 1, 0, 1, b'a', 3]]), PROTOCOL),
        ("SUBSCRIBE: options of MQTT 5", frame(0x82, &[&[0, 1, 0, 1, b'a', 4]]), MALFORMED),
        ("SUBSCRIBE: NUL in a filter", frame(0x82, &[&[0, 1, 0, 1, 0, 0]]), MALFORMED),
        ("SUBSCRIBE: bad UTF-8 in a filter", frame(0x82, &[&[0, 1, 0, 1, 0x80, 0]]), MALFORMED),
        ("UNSUBSCRIBE: flags", frame(0xA0, &[&[0, 1, 0, 1, b'a']]), MALFORMED),
        ("UNSUBSCRIBE: packet identifier 0", frame(0xA2, &[&[0, 0, 0, 1, b'a']]), PROTOCOL),
        ("UNSUBSCRIBE: no filter", frame(0xA2, &[&[0, 1]]), PROTOCOL),
        ("UNSUBSCRIBE: an empty filter", frame(0xA2, &[&[0, 1, 0, 0]]), MALFORMED),
        ("UNSUBSCRIBE: half a filter", frame(0xA2, &[&[0, 1, 0, 1, b'a', 0]]), MALFORMED),
        ("PINGREQ: a body", frame(0xC0, &[&[0]]), MALFORMED),
        ("PINGREQ: flags", frame(0xC8, &[]), MALFORMED),
        ("DISCONNECT: a body", frame(0xE0, &[&[0]]), MALFORMED),
        ("DISCONNECT: flags", frame(0xE2, &[]), MALFORMED),
        ("AUTH", frame(0xF0, &[]), MALFORMED),
    ];
    refuse_all(Some(Version::V311), &rows);
}

#[test]
fn connects() {
    let client: &[u8] = &[0, 1, b'c'];
    let with = |flags: u8, rest: &[&[u8]]| frame(0x10, &[&connect_body(4, flags), &rest.concat()]);
    let rows: Vec<Row> = vec![
        ("flags of the packet", frame(0x12, &[&connect_body(4, 2), client]), MALFORMED),
        ("the reserved flag", with(3, &[client]), MALFORMED),
        ("a will's QoS without a will", with(0x12, &[client]), MALFORMED),
        ("a will's retain without a will", with(0x22, &[client]), MALFORMED),
        ("a will with QoS 3", with(0x1E, &[client, &[0, 1, b't', 0, 0]]), MALFORMED),
        ("a password without a user name", with(0x42, &[client, &[0, 1, b'p']]), MALFORMED),
        ("no client identifier", with(2, &[]), MALFORMED),
        ("an empty client identifier with a session", with(0, &[&[0, 0]]), Reason::CLIENT_ID_NOT_VALID),
        ("NUL in the client identifier", with(2, &[&[0, 1, 0]]), MALFORMED),
        ("a will without a topic", with(6, &[client, &[0, 0, 0, 0]]), Reason::TOPIC_NAME_INVALID),
        ("a will to a wildcard", with(6, &[client, &[0, 1, b'+', 0, 0]]), Reason::TOPIC_NAME_INVALID),
        ("a will without a payload", with(6, &[client, &[0, 1, b't']]), MALFORMED),
        ("bad UTF-8 in the user name", with(0x82, &[client, &[0, 1, 0xFE]]), MALFORMED),
        ("no user name where the flags have one", with(0x82, &[client]), MALFORMED),
        ("no password where the flags have one", with(0xC2, &[client, &[0, 1, b'u']]), MALFORMED),
        ("trailing bytes", with(2, &[client, &[0]]), MALFORMED),
        ("cut after the protocol's name", frame(0x10, &[&[0, 4], b"MQTT"]), MALFORMED),
        ("nothing at all", frame(0x10, &[]), MALFORMED),
        ("no CONNECT", frame(0xC0, &[]), PROTOCOL),
        ("a broker's first packet", frame(0x20, &[&[0, 0]]), PROTOCOL),
        ("a TLS handshake", vec![0x16, 3, 1, 2, 0, 1], MALFORMED),
        ("HTTP", b"GET / HTTP/1.1\r\n".to_vec(), PROTOCOL),
    ];
    refuse_all(None, &rows);
}

#[test]
fn both_versions_refuse_what_only_brokers_send_and_lengths_that_are_none() {
    let rows: Vec<Row> = vec![
        ("CONNACK", frame(0x20, &[&[0, 0]]), PROTOCOL),
        ("SUBACK", frame(0x90, &[&[0, 1, 0]]), PROTOCOL),
        ("UNSUBACK", frame(0xB0, &[&[0, 1]]), PROTOCOL),
        ("PINGRESP", frame(0xD0, &[]), PROTOCOL),
        ("packet type 0", frame(0x00, &[]), MALFORMED),
        ("a second CONNECT", frame(0x10, &[&connect_body(4, 2), &[0, 1, b'c']]), PROTOCOL),
        ("a length longer than it must be", vec![0xC0, 0x80, 0], MALFORMED),
        ("a length much longer than it must be", vec![0x40, 0x82, 0x80, 0x80, 0, 0, 1], MALFORMED),
        ("a length of five bytes", vec![0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1], MALFORMED),
        ("a fifth byte that has not come", vec![0x30, 0x80, 0x80, 0x80, 0x80], MALFORMED),
    ];
    refuse_all(Some(Version::V311), &rows);
    refuse_all(Some(Version::V5), &rows);
}

#[test]
fn versions_that_are_not_spoken_say_how_their_client_is_told() {
    let client: &[u8] = &[0, 1, b'c'];
    let old = |level| frame(0x10, &[&[0, 6], b"MQIsdp", &[level, 2, 0, 60], client]);
    let other = frame(0x10, &[&[0, 4], b"MQTX", &[4, 2, 0, 60], client]);
    let level = |level| frame(0x10, &[&connect_body(level, 2), client]);
    for (bytes, hint) in [
        (old(4), Some(Version::V31)),
        (old(0x84), Some(Version::V31)),
        (level(3), Some(Version::V311)),
        (level(0x83), Some(Version::V311)),
        (level(6), Some(Version::V5)),
        (level(255), Some(Version::V5)),
        (other, None),
    ] {
        let malformed = decode(&bytes, None, 1000).unwrap_err();
        assert_eq!(
            (malformed.reason, malformed.version_hint),
            (Reason::UNSUPPORTED_VERSION, hint),
            "{malformed}"
        );
    }
}

#[test]
fn a_packet_that_is_too_large_is_refused_before_it_has_come() {
    for version in [Version::V311, Version::V5] {
        for (header, bytes) in [
            (&[0x30, 98][..], 100),
            (&[0x30, 0xE8, 0x07], 1003),
            (&[0x30, 0xFF, 0xFF, 0xFF, 0x7F], 268_435_460),
        ] {
            assert_eq!(decode(header, Some(version), bytes), Ok(Decoded::Incomplete));
            let malformed = decode(header, Some(version), bytes - 1).unwrap_err();
            assert_eq!(malformed.reason, Reason::PACKET_TOO_LARGE);
        }
    }
    // A first packet whose version has come says in which words it can be told.
    let start = [&[0x10, 0xFF, 0x7F][..], &connect_body(5, 2)].concat();
    let malformed = decode(&start, None, 1000).unwrap_err();
    assert_eq!((malformed.reason, malformed.version_hint), (Reason::PACKET_TOO_LARGE, Some(Version::V5)));
}

#[test]
fn errors_name_what_is_wrong() {
    let error = decode(&[0x16, 3, 1], None, 1000).unwrap_err();
    assert_eq!(error.to_string(), "malformed packet: a TLS handshake on a listener without TLS");
    let error = decode(b"POST /x", None, 1000).unwrap_err();
    assert_eq!(error.to_string(), "protocol error: an HTTP request on a listener for MQTT over TCP");
    let error = decode(&[0xE0, 1, 0], Some(Version::V311), 1000).unwrap_err();
    assert_eq!(error.to_string(), "malformed packet: a DISCONNECT with a body");
}

fn take(bytes: &[u8], version: Option<Version>) -> Packet<'_> {
    match decode(bytes, version, 1000) {
        Ok(Decoded::Packet(packet, used)) if used == bytes.len() => packet,
        other => panic!("{other:?} for {bytes:02X?}"),
    }
}

#[test]
fn what_is_unusual_but_allowed_is_taken() {
    // MQTT 5: no client identifier without a clean start, a password without a user name, a will that expires at once.
    let will = [2, 0, 0, 0, 0];
    let bytes =
        frame(0x10, &[&connect_body(5, 0x44), &[0, 0, 0, 5], &will, &[0, 1, b't', 0, 1, b'w', 0, 1, b'p']]);
    let Packet::Connect(connect) = take(&bytes, None) else { panic!("{bytes:?}") };
    assert_eq!((&*connect.client, connect.clean_start, connect.user), ("", false, None));
    assert_eq!(connect.password.as_deref(), Some(&b"p"[..]));
    assert_eq!(connect.will.unwrap().expiry, Some(0));
    // A topic by its alias only; a message that expires at once.
    let bytes = frame(0x30, &[&[0, 0, 8, 0x23, 0, 7, 2, 0, 0, 0, 0], b"payload"]);
    let Packet::Publish(publish) = take(&bytes, Some(Version::V5)) else { panic!("{bytes:?}") };
    assert_eq!((publish.topic, publish.alias, publish.expiry), ("", Some(7), Some(0)));
    // Bridges say what they are; MQTT 3.1 has its own name, and says of packets other than messages that they are sent again.
    for (level, version, bridge) in
        [(0x84, Version::V311, true), (0x85, Version::V5, true), (4, Version::V311, false)]
    {
        let properties: &[u8] = if version == Version::V5 { &[0] } else { &[] };
        let bytes = frame(0x10, &[&connect_body(level, 2)[..10], properties, &[0, 1, b'c']]);
        let Packet::Connect(connect) = take(&bytes, None) else { panic!("{bytes:?}") };
        assert_eq!((connect.version, connect.bridge, &*connect.client), (version, bridge, "c"));
    }
    for (level, bridge, first, flags) in [(3, false, 0x10, 2), (0x83, true, 0x10, 2), (3, false, 0x1F, 3)] {
        let bytes = frame(first, &[&[0, 6], b"MQIsdp", &[level, flags, 0, 60], &[0, 1, b'c']]);
        for cut in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..cut], None, 1000), Ok(Decoded::Incomplete)), "{cut}");
        }
        let Packet::Connect(connect) = take(&bytes, None) else { panic!("{bytes:?}") };
        assert_eq!((connect.version, connect.bridge, &*connect.client), (Version::V31, bridge, "c"));
    }
    for (flags, kind) in [(2, 0x80), (0x0A, 0x80), (0x0B, 0x80), (0x0A, 0xA0), (0x0A, 0x60)] {
        let body: &[u8] = match kind {
            0x60 => &[0, 1],
            0xA0 => &[0, 1, 0, 1, b'a'],
            _ => &[0, 1, 0, 1, b'a', 0],
        };
        let bytes = frame(kind | flags, &[body]);
        take(&bytes, Some(Version::V31));
        assert_eq!(decode(&bytes, Some(Version::V311), 1000).is_ok(), flags == 2, "{bytes:02X?}");
    }
    // The same user property twice; what a filter means is for the gateway to judge.
    let user = [0x26, 0, 1, b'a', 0, 1, b'b'];
    take(&frame(0x30, &[&[0, 1, b't', 14], &user, &user]), Some(Version::V5));
    take(&frame(0x82, &[&[0, 1, 0, 0, 3], b"a/\x07", &[0]]), Some(Version::V5));
    take(&frame(0x82, &[&[0, 1, 0, 7], b"$share/", &[0]]), Some(Version::V311));
    // Reserved characters of Unicode are characters.
    take(&frame(0x30, &[&[0, 3], "\u{FFFE}".as_bytes()]), Some(Version::V311));
}
