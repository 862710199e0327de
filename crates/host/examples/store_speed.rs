//! What a store does on a disk: changes each second, how long one takes to be there, size and start.
//!
//! `cargo run --release -p verge-host --example store_speed FOLDER`; the folder is removed afterwards.

use host::{State, Store, StoreSettings, StoreWatch};
use std::path::Path;
use std::time::{Duration, Instant};

const RECORDS: u64 = 100_000;
/// How long each load lasts.
const SPAN: Duration = Duration::from_secs(8);
/// What may wait during a load, far below what poisons.
const WAITING_MAX: usize = 8 << 20;

fn main() {
    let folder = std::env::args().nth(1).expect("store_speed FOLDER");
    let folder = Path::new(&folder);
    assert!(!folder.exists(), "the folder is there already");

    let (mut store, _) = open(folder);
    let watch = store.watch();
    for number in 0..RECORDS {
        store.put(key(number), value(number));
        hold_back(&watch);
    }
    wait(&store, &watch);
    println!("filled: {RECORDS} records, {:?}, file {} MB", watch.state(), size(folder) >> 20);

    let mut number = 0;
    load("any record, one in four removed", &mut store, folder, |store| {
        number += 1;
        let key = key(mix(number) % RECORDS);
        if number.is_multiple_of(4) { store.remove(key) } else { store.put(key, value(number)) }
    });
    let mut number = 0;
    load("queues of 100 sessions, first in, first out", &mut store, folder, |store| {
        number += 1;
        let queued = |number: u64| {
            format!("queue/{:02}/{:012}", number % 100, number / 100).into_bytes().into_boxed_slice()
        };
        store.put(queued(number), value(number));
        if let Some(old) = number.checked_sub(5_000) {
            store.remove(queued(old));
        }
    });
    let mut number = 0;
    load("1000 retained messages, over and over", &mut store, folder, |store| {
        number += 1;
        store.put(key(mix(number) % 1_000), value(number));
    });

    let mut times: Vec<Duration> = (0..1_000)
        .map(|number| {
            std::thread::sleep(Duration::from_millis(6));
            let began = Instant::now();
            store.put(key(mix(number) % RECORDS), value(number));
            while watch.written() < store.given() {
                std::thread::sleep(Duration::from_micros(50));
            }
            began.elapsed()
        })
        .collect();
    times.sort();
    println!("one change at a time: p50 {:?}, p99 {:?}, most {:?}", times[500], times[990], times[999]);

    let began = Instant::now();
    store.close().expect("the disk takes it");
    println!("close: {:?}, file {} MB", began.elapsed(), size(folder) >> 20);
    let began = Instant::now();
    let (store, records) = open(folder);
    println!("start: {} records in {:?}", records.len(), began.elapsed());
    drop(store);
    std::fs::remove_dir_all(folder).expect("it was made here");
}

fn open(folder: &Path) -> (Store, Vec<host::Record>) {
    let told = |reason: &str| eprintln!("poisoned: {reason}");
    Store::open(folder, &StoreSettings::default(), told).unwrap_or_else(|error| panic!("{error}"))
}

fn load(name: &str, store: &mut Store, folder: &Path, mut step: impl FnMut(&mut Store)) {
    let (watch, given) = (store.watch(), store.given());
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < SPAN {
        (0..64).for_each(|_| step(store));
        hold_back(&watch);
        most = most.max(size(folder));
    }
    wait(store, &watch);
    let each_second = (store.given() - given) as f64 / began.elapsed().as_secs_f64();
    println!("{name}: {each_second:.0} changes/s, file at most {} MB, {:?}", most >> 20, watch.state());
}

/// As a broker would not: the load is as much as the disk takes.
fn hold_back(watch: &StoreWatch) {
    while matches!(watch.state(), State::Healthy { waiting_bytes, .. } if waiting_bytes > WAITING_MAX) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn wait(store: &Store, watch: &StoreWatch) {
    while watch.written() < store.given() && matches!(watch.state(), State::Healthy { .. }) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn size(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("records.redb")).map_or(0, |file| file.len())
}

fn mix(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD134_2543_DE82_EF95) >> 8
}

fn key(number: u64) -> Box<[u8]> {
    format!("session/{number:08}/subscription").into_bytes().into()
}

fn value(number: u64) -> Box<[u8]> {
    vec![number as u8; 60 + (mix(number) % 200) as usize].into()
}
