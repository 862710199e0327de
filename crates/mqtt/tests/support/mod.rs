//! What tests of packets share.
#![allow(dead_code, reason = "not every test uses all of it")]

use mqtt::packet::{Decoded, PACKET_BYTES_MAX, Reason, Version, decode};

/// What is wrong, the packet, and the reason that it is refused with.
pub type Row = (&'static str, Vec<u8>, Reason);

/// A packet with this first byte and this body of less than 128 bytes.
pub fn frame(first: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    assert!(body.len() < 128);
    [&[first, body.len() as u8], body.as_slice()].concat()
}

/// A CONNECT's body up to the keep-alive.
pub fn connect_body(level: u8, flags: u8) -> Vec<u8> {
    [&[0, 4][..], b"MQTT", &[level, flags, 0, 60]].concat()
}

/// Every packet is refused for its reason, as a whole, and with a version in which the client may be told.
pub fn refuse_all(version: Option<Version>, rows: &[Row]) {
    for (what, bytes, reason) in rows {
        match decode(bytes, version, PACKET_BYTES_MAX) {
            Err(malformed) => {
                assert_eq!(malformed.reason, *reason, "{what}: {malformed}, {bytes:02X?}");
                assert!(version.is_none() || malformed.version_hint == version, "{what}");
                assert_ne!(
                    malformed.what, "the packet library cannot read it",
                    "{what}: found by the library only"
                );
            }
            Ok(decoded) => panic!("{what}: taken as {decoded:?}, {bytes:02X?}"),
        }
        // No part of it is a packet either: it is refused, or more is waited for.
        for length in 0..bytes.len() {
            let part = &bytes[..length];
            assert!(
                !matches!(decode(part, version, PACKET_BYTES_MAX), Ok(Decoded::Packet(..))),
                "{what}: {part:02X?}"
            );
        }
    }
}
