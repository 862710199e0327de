//! What TLS costs against plain connections, and whether handshakes disturb an urgent client. It prints a table; run it with
//! `cargo run --release -p verge-host --example transports`.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should end")]

#[path = "../tests/support/mod.rs"]
mod support;

use host::realtime::{Wishes, ask};
use host::tls::ClientCertificates;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::certificates::Plant;
use support::house::{House, Plan, pattern, plain, secure};

const ROUNDS: usize = 20_000;
const WARM_UP: usize = 500;
/// Handshakes under way at once.
const HANDSHAKES: usize = 200;

fn main() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::planned(&plant.settings, &Plan { realtime: true, ..Plan::default() });
    let config = plant.client(None);
    println!("round trips through an echoing node, {ROUNDS} of each, in microseconds");
    println!("{:>8} {:>10} {:>8} {:>8}", "bytes", "transport", "p50", "p99");
    for length in [64, 1_024, 16_384] {
        row(length, "plain", &round_trips(&mut plain(house.plain), length, ROUNDS));
        row(length, "TLS", &round_trips(&mut secure(house.tls, &config), length, ROUNDS));
    }
    println!("\nan urgent plain client, 64 bytes every 2 ms, for 6 s each");
    let over = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicU64::new(0));
    let flood = {
        let (over, begun) = (Arc::clone(&over), Arc::clone(&begun));
        let hello = hello(&config, house.tls);
        let address = house.tls;
        std::thread::spawn(move || keep_half_open(address, &hello, &over, &begun))
    };
    // Client and node go before others, as on a host that is set up for it. What was started before does not.
    let wishes = Wishes { priority: Some(40), processors: Vec::new(), lock_memory: false };
    ask(&wishes).iter().for_each(|refused| eprintln!("note: {refused}"));
    let before = (Instant::now(), begun.load(Ordering::Relaxed));
    urgent(&format!("{HANDSHAKES} handshakes under way"), house.plain);
    let rate = (begun.load(Ordering::Relaxed) - before.1) as f64 / before.0.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    println!("handshakes begun per second meanwhile: {rate:.0}");
    urgent("alone", house.plain);
}

fn round_trips(stream: &mut (impl Read + Write), length: usize, rounds: usize) -> Vec<Duration> {
    let (bytes, mut back) = (pattern(length), vec![0; length]);
    let mut once = || {
        let began = Instant::now();
        stream.write_all(&bytes).unwrap();
        stream.read_exact(&mut back).unwrap();
        began.elapsed()
    };
    // The first ones warm up.
    (0..rounds + WARM_UP).map(|_| once()).skip(WARM_UP).collect()
}

fn row(length: usize, name: &str, times: &[Duration]) {
    let [p50, p99, _] = quantiles(times);
    println!("{length:>8} {name:>10} {p50:>8.1} {p99:>8.1}");
}

fn quantiles(times: &[Duration]) -> [f64; 3] {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    [at(0.5), at(0.99), at(1.0)]
}

fn urgent(name: &str, address: SocketAddr) {
    let mut stream = plain(address);
    let mut times = Vec::new();
    for _ in 0..3_000 {
        times.extend(round_trip(&mut stream));
        std::thread::sleep(Duration::from_millis(2));
    }
    let [p50, p99, max] = quantiles(&times);
    println!("{name:>28}: p50 {p50:.1} us, p99 {p99:.1} us, max {max:.1} us");
}

fn round_trip(stream: &mut TcpStream) -> Option<Duration> {
    let began = Instant::now();
    stream.write_all(&[7; 64]).ok()?;
    stream.read_exact(&mut [0; 64]).ok()?;
    Some(began.elapsed())
}

/// What a client says first; the answer takes the server its whole public-key work.
fn hello(config: &Arc<rustls::ClientConfig>, address: SocketAddr) -> Vec<u8> {
    let mut stream = secure(address, config);
    let mut bytes = Vec::new();
    stream.conn.write_tls(&mut bytes).unwrap();
    bytes
}

/// Keeps so many handshakes under way, the oldest making room for a new one when it has been answered.
fn keep_half_open(address: SocketAddr, hello: &[u8], over: &AtomicBool, begun: &AtomicU64) {
    let mut open = std::collections::VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        let mut stream = plain(address);
        stream.write_all(hello).unwrap();
        open.push_back(stream);
        begun.fetch_add(1, Ordering::Relaxed);
        if open.len() > HANDSHAKES
            && let Some(mut oldest) = open.pop_front()
        {
            let _ = oldest.read(&mut [0; 4096]);
        }
    }
}
