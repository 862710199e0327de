//! Rubbish on many connections at once, while one good client must notice nothing. `VERGE_FUZZ_SECONDS` says for how long.

use crate::broker::{Broker, Kind, kind};
use crate::by_hand::{Connect, Wire, packet, text};
use crate::support::WATCHDOG;
use crate::tools::skipped;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const STRANGERS: usize = 4;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;

/// Numbers that look like chance, the same from the same beginning.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// Good packets to begin with: of both versions, of every kind that a client sends.
fn samples() -> Vec<Vec<u8>> {
    let named = |version: u8, flags: u8, properties: &[u8], name: &str| {
        let head = [&text("MQTT")[..], &[version, flags, 0, 10], properties, &text(name)].concat();
        packet(0x10, &head)
    };
    let publish = |first: u8, id: &[u8], properties: &[u8]| {
        packet(first, &[&text("f/a")[..], id, properties, b"payload"].concat())
    };
    vec![
        named(4, 2, &[], "f1"),
        named(5, 2, &[0], "f2"),
        named(5, 0, &[5, 0x11, 0, 0, 0, 9], "f3"),
        packet(
            0x10,
            &[
                &text("MQTT")[..],
                &[5, 0xC6, 0, 5, 0],
                &text("f4"),
                &[0],
                &text("f/w"),
                &text("bye"),
                &text("u"),
                &text("p"),
            ]
            .concat(),
        ),
        publish(0x30, &[], &[]),
        publish(0x33, &[0, 7], &[]),
        publish(0x35, &[0, 8], &[0]),
        publish(
            0x32,
            &[0, 9],
            &[21, 2, 0, 0, 0, 1, 3, 0, 1, b'c', 8, 0, 1, b'r', 0x26, 0, 1, b'k', 0, 1, b'v'],
        ),
        publish(0x30, &[], &[3, 0x23, 0, 1]),
        packet(0x82, &[&[0, 1][..], &text("f/#"), &[2]].concat()),
        packet(0x82, &[&[0, 2, 0][..], &text("$share/g/f/+"), &[1], &text("$SYS/#"), &[0]].concat()),
        packet(0xA2, &[&[0, 3][..], &text("f/#")].concat()),
        packet(0x40, &[0, 7]),
        packet(0x50, &[0, 7]),
        packet(0x62, &[0, 8]),
        packet(0x70, &[0, 8, 0x92, 0]),
        packet(0xC0, &[]),
        packet(0xE0, &[4, 5, 0x11, 0, 0, 0, 1]),
        packet(0xF0, &[0x18, 0]),
    ]
}

/// One connection's worth of rubbish: often a good beginning, then packets that are good, damaged, cut or made up.
fn stream(samples: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = Vec::new();
    if chance.below(4) > 0 {
        bytes.extend_from_slice(&samples[chance.below(4)]);
    }
    for _ in 0..chance.below(12) {
        let mut one = samples[chance.below(samples.len())].clone();
        for _ in 0..chance.below(4) {
            let at = chance.below(one.len());
            match chance.below(4) {
                0 => one[at] = chance.below(256) as u8,
                1 => one[at] ^= 1 << chance.below(8),
                2 => one.truncate(at),
                _ => one.insert(at, chance.below(256) as u8),
            }
            if one.is_empty() {
                break;
            }
        }
        bytes.extend_from_slice(&one);
    }
    bytes
}

/// Sends one stream, in pieces, and reads what comes, or does not.
fn annoy(port: u16, samples: &[Vec<u8>], chance: &mut Chance) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_millis(2)))?;
    socket.set_write_timeout(Some(WATCHDOG))?;
    let bytes = stream(samples, chance);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (piece, further) = rest.split_at(chance.below(rest.len()) + 1);
        socket.write_all(piece)?;
        rest = further;
    }
    if chance.below(2) == 0 {
        let _ = socket.read(&mut [0; 4096]);
    }
    Ok(())
}

#[test]
fn rubbish_on_many_connections_disturbs_nobody() {
    if kind() == Kind::Mosquitto {
        return skipped("rubbish", "mosquitto's ways of refusing rubbish are its own");
    }
    let Ok(broker) = Broker::start() else { return };
    let seconds = std::env::var("VERGE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let until = Instant::now() + Duration::from_secs(seconds);
    let (over, streams, rounds) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (port, samples) = (broker.port, samples());
    std::thread::scope(|scope| {
        for number in 0..STRANGERS {
            let (over, streams, samples) = (&over, &streams, &samples);
            scope.spawn(move || {
                let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1));
                while !over.load(Relaxed) {
                    let _ = annoy(port, samples, &mut chance);
                    streams.fetch_add(1, Relaxed);
                }
            });
        }
        let (mut good, _) = Wire::connect(&broker, Connect { name: "good", ..Connect::default() });
        good.send(0x82, &[&[0, 1, 0][..], &text("good"), &[0]].concat());
        assert_eq!(good.next().map(|(first, _)| first >> 4), Some(9));
        while Instant::now() < until {
            let id = (rounds.fetch_add(1, Relaxed) % 60_000 + 1) as u16;
            good.send(0x32, &[&text("good")[..], &id.to_be_bytes(), &[0], b"x"].concat());
            let mut got = [good.next(), good.next()].map(|packet| packet.map(|(first, _)| first >> 4));
            got.sort();
            assert_eq!(got, [Some(PUBLISH), Some(PUBACK)], "the good client lost its broker");
        }
        over.store(true, Relaxed);
    });
    println!("{} streams of rubbish beside {} good messages", streams.into_inner(), rounds.into_inner());
}
