//! How long a topic takes to find its subscriptions, a filter to find retained messages, and what both take of memory:
//! `cargo run --release -p verge-mqtt --example tree_speed`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it reads a clock")]
#![allow(clippy::expect_used, reason = "a measurement ends where its preparation fails")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use contract::Time;
use mqtt::SessionId;
use mqtt::packet::{Options, Qos};
use mqtt::retained::{Limits, New, Retained};
use mqtt::tree::{Entry, Matches, Subscriptions};

const TOPICS: usize = 4_096;
const ROUNDS: usize = 9;

fn main() {
    memory(100_000);
    retained(100_000);
    println!("{:<58} {:>9} {:>9} {:>8} {:>10}", "subscriptions", "best ns", "median ns", "rows", "insert ns");
    for count in [10_000, 100_000] {
        run(&format!("{count} literal filters, 1 hit"), count, device, device);
        run(&format!("{count} filters, 1 in 4 with wildcards, 5 hits"), count, mixed, device);
        run(
            &format!("{count} filters device/n/+"),
            count,
            |n| format!("device/{n}/+"),
            |n| format!("device/{n}/heat"),
        );
        run(&format!("{count} filters, no hit"), count, device, |n| format!("other/{n}/x"));
    }
    run("100 for one topic, one filter", 100, |_| "hall/oven/heat".into(), |_| "hall/oven/heat".into());
    run("100 for one topic, four filters", 100, overlapping, |_| "hall/oven/heat".into());
    run("100 for one topic among 100 000", 100_100, crowd, |_| "hall/oven/heat".into());
    run("10 000 for one topic, one filter", 10_000, |_| "hall/oven/heat".into(), |_| "hall/oven/heat".into());
    run(
        "100 000 for one topic, one filter",
        100_000,
        |_| "hall/oven/heat".into(),
        |_| "hall/oven/heat".into(),
    );
}

fn device(n: usize) -> String {
    format!("plant/hall{}/device{n}/sensor/temperature", n % 10)
}

fn mixed(n: usize) -> String {
    match n % 400 {
        _ if n < 4 => ["#", "plant/#", "plant/+/+/sensor/+", "+/+/+/+/temperature"][n].into(),
        1 => format!("plant/+/device{n}/#"),
        2 => format!("plant/hall{}/device{n}/+/temperature", n % 10),
        n if n % 4 == 3 => format!("+/+/device{n}/sensor/+"),
        _ => device(n),
    }
}

fn overlapping(n: usize) -> String {
    ["hall/oven/heat", "hall/+/heat", "hall/#", "+/oven/+"][n % 4].into()
}

fn crowd(n: usize) -> String {
    if n < 100 { "hall/oven/heat".into() } else { device(n) }
}

fn run(name: &str, count: usize, filter: impl Fn(usize) -> String, topic: impl Fn(usize) -> String) {
    let mut tree = Subscriptions::new(count);
    let filters: Vec<String> = (0..count).map(filter).collect();
    let options = Options { qos: Qos::AtLeastOnce, ..Options::default() };
    let began = Instant::now();
    for (n, filter) in filters.iter().enumerate() {
        // Numbers in no order, as sessions come and go.
        let session = SessionId((n as u32).wrapping_mul(2_654_435_761));
        tree.insert(filter, session, Entry { options, subscription: Some(1) }).expect("a valid filter");
    }
    let inserted = began.elapsed() / u32::try_from(count).unwrap_or(u32::MAX);
    // Topics far apart, so that caches help no more than in a broker.
    let topics: Vec<String> = (0..TOPICS).map(|n| topic(n * 7_919 % count)).collect();
    let mut found = Matches::default();
    let mut rows = 0;
    let looked = if count >= 10_000 && topics[0] == topics[1] { 64 } else { TOPICS };
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            rows = 0;
            let began = Instant::now();
            for topic in &topics[..looked] {
                tree.matches(black_box(topic), &mut found);
                rows += found.rows().len();
            }
            began.elapsed() / u32::try_from(looked).unwrap_or(u32::MAX)
        })
        .collect();
    times.sort();
    let rows = rows as f64 / looked as f64;
    let (best, median, insert) = (times[0].as_nanos(), times[ROUNDS / 2].as_nanos(), inserted.as_nanos());
    println!("{name:<58} {best:>9} {median:>9} {rows:>8.2} {insert:>10}");
}

/// Before everything else, while no freed memory is used again.
fn memory(count: usize) {
    let before = resident_kb();
    let mut tree = Subscriptions::new(count);
    for n in 0..count {
        tree.insert(&device(n), SessionId(n as u32), Entry::default()).expect("a valid filter");
    }
    println!(
        "{count} literal filters of five levels: {} nodes, {} kB\n",
        tree.nodes(),
        resident_kb() - before
    );
    // Never given back, so that what comes next does not live in it.
    std::mem::forget(tree);
}

fn retained(count: usize) {
    let before = resident_kb();
    let mut retained = Retained::new(Limits { topics_max: count, bytes_max: usize::MAX });
    for n in 0..count {
        let (payload, properties, expires) = (&[0; 64], &[], Some(Time(n as u64 + 1)));
        let new = New { payload, properties, qos: Qos::AtLeastOnce, expires, origin: 0_u64 };
        retained.set(&device(n), new).expect("there is room");
    }
    let (kb, counted) = (resident_kb() - before, retained.bytes() / 1_024);
    println!("{count} retained messages of 64 bytes that expire: {kb} kB, counted as {counted} kB");
    let filters = [
        "plant/hall7/device7/sensor/temperature",
        "plant/hall7/device7/#",
        "plant/hall7/+/sensor/temperature",
    ];
    for filter in filters.into_iter().chain(["plant/hall7/+/sensor/none", "+/+/device7/#", "#", "other/#"]) {
        let mut found = 0;
        let began = Instant::now();
        retained.matching(black_box(filter), Time::ZERO, &mut |_, _| found += 1);
        println!("{filter:<58} {:>12?} {found:>8} found", began.elapsed());
    }
    println!();
}

fn resident_kb() -> i64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
