//! How long it takes to read a PUBLISH and to write one, in nanoseconds, the best of several rounds, and how long the library
//! for the rare packets takes for the same: `cargo run --release -p verge-mqtt --example packet_speed`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use mqtt::packet::{Decoded, Delivery, PACKET_BYTES_MAX, Packet, Qos, Version, decode, delivery};
use mqtt::testing::{FromBroker, QoS, publish};
use std::hint::black_box;
use std::time::Instant;

const TOPIC: &str = "plant/line-3/press-12/temperature";
const CALLS: u32 = 200_000;
const ROUNDS: u32 = 15;

/// Nanoseconds for one call in the best round.
fn best(mut work: impl FnMut()) -> f64 {
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round(&mut work)).fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("{:<10}{:>10}{:>10}{:>10}{:>14}", "version", "payload", "read", "write", "library reads");
    for version in [Version::V311, Version::V5] {
        for bytes in [64, 1024] {
            let payload = vec![b'7'; bytes];
            let packet = publish(version, TOPIC, QoS::AtLeastOnce, 7, &payload)
                .expect("a packet that the library writes");
            let read = best(|| match decode(black_box(&packet), Some(version), PACKET_BYTES_MAX) {
                Ok(Decoded::Packet(Packet::Publish(publish), _)) => drop(black_box(publish)),
                other => panic!("{other:?}"),
            });
            let mut out = Vec::with_capacity(2048);
            let write = best(|| {
                out.clear();
                let sent = Delivery {
                    dup: false,
                    qos: Qos::AtLeastOnce,
                    retain: false,
                    topic: black_box(TOPIC),
                    id: 7,
                    alias: None,
                    expiry: None,
                    subscriptions: &[],
                    properties: &[],
                    payload: black_box(&payload),
                };
                delivery(&mut out, version, &sent);
                black_box(&out);
            });
            let mut library = FromBroker::new(version);
            let library = best(|| {
                library.feed(black_box(&packet));
                drop(black_box(library.packet()));
            });
            println!("{:<10}{bytes:>10}{read:>10.1}{write:>10.1}{library:>14.1}", format!("{version:?}"));
        }
    }
}
