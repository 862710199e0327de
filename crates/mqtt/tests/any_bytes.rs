//! Any bytes: an answer and never a panic; and packets that come in pieces.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/made_up.rs"]
mod made_up;

use made_up::any_packet;
use mqtt::packet::{Decoded, PACKET_BYTES_MAX, Version, decode};
use proptest::prelude::*;

/// Reads the bytes in every way.
fn read(bytes: &[u8]) {
    for version in [None, Some(Version::V311), Some(Version::V5)] {
        for packet_bytes_max in [8, PACKET_BYTES_MAX] {
            match decode(bytes, version, packet_bytes_max) {
                Ok(Decoded::Packet(_, used)) => {
                    assert!(used >= 2 && used <= bytes.len().min(packet_bytes_max));
                }
                Ok(Decoded::Incomplete) => {}
                Err(malformed) => {
                    // The checks find everything that the library would not read.
                    assert_ne!(
                        malformed.what, "the packet library cannot read it",
                        "{bytes:02X?} as {version:?}"
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        read(&bytes);
    }

    #[test]
    fn any_body_has_an_answer(first in any::<u8>(), body in prop::collection::vec(0u8..64, 0..100)) {
        read(&[&[first, body.len() as u8], body.as_slice()].concat());
    }

    #[test]
    fn a_packet_with_other_bytes_in_it_has_an_answer(
        (mut bytes, _) in any_packet(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        read(&bytes);
    }

    #[test]
    fn a_packet_is_awaited_until_its_last_byte((bytes, version) in any_packet(), next in any::<u8>()) {
        for length in 0..bytes.len() {
            prop_assert_eq!(decode(&bytes[..length], version, PACKET_BYTES_MAX), Ok(Decoded::Incomplete));
        }
        // What follows belongs to the next packet.
        let followed = [bytes.as_slice(), &[next]].concat();
        let whole = decode(&bytes, version, bytes.len());
        prop_assert!(matches!(&whole, Ok(Decoded::Packet(_, used)) if *used == bytes.len()), "{:?}", whole);
        prop_assert_eq!(decode(&followed, version, bytes.len()), whole);
    }
}
