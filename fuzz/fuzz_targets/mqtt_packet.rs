//! Any bytes as MQTT packets of both versions, and as what a connection begins with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqtt::packet::{Decoded, Packet, Properties, Version, decode};

const PACKET_BYTES_MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    for version in [None, Some(Version::V311), Some(Version::V5)] {
        let mut rest = input;
        loop {
            match decode(rest, version, PACKET_BYTES_MAX) {
                Ok(Decoded::Packet(packet, used)) => {
                    assert!(used <= rest.len().min(PACKET_BYTES_MAX));
                    if let Packet::Publish(publish) = packet {
                        forward(publish.properties);
                    }
                    rest = &rest[used..];
                }
                Ok(Decoded::Incomplete) => break,
                Err(malformed) => {
                    // The checks find everything that the library would not read.
                    assert_ne!(malformed.what, "the packet library cannot read it");
                    break;
                }
            }
        }
    }
});

/// What goes on to subscribers reads the same again.
fn forward(properties: Properties<'_>) {
    let mut out = Vec::new();
    properties.forward(&mut out);
    assert_eq!(properties.has_forwardable(), !out.is_empty());
    let stored = Properties::stored(&out);
    assert!(stored.user().eq(properties.user()));
    let mut again = Vec::new();
    stored.forward(&mut again);
    assert_eq!(out, again);
}
