//! A writer that publishes as fast as it can, and readers that look at the same values all the time. What a value is follows from
//! its key and stamp, so a torn one, one of another instant, or a second one for the same instant is noticed.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

mod common;

use common::{config, setup};
use contract::Time;
use kv::{Config, Key, KeyId, Node, Publish};
use kv_shared::{ReadError, Store, StoreWriter, clock};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const KEYS: u16 = 6;
const VALUE_BYTES_MAX: usize = 100;
const READERS: usize = 2;

/// The only value that there may be: its length and every byte depend on key and stamp.
fn value(key: KeyId, stamp: Time, buffer: &mut [u8; VALUE_BYTES_MAX]) -> &[u8] {
    let mut random = fastrand::Rng::with_seed(stamp.0 ^ u64::from(key.0) << 56);
    let len = random.usize(0..=VALUE_BYTES_MAX);
    random.fill(&mut buffer[..len]);
    &buffer[..len]
}

/// Publishes around the present time until all readers are done.
fn write(writer: &mut StoreWriter, done: &AtomicUsize) -> u64 {
    let mut random = fastrand::Rng::with_seed(1);
    let mut buffer = [0; VALUE_BYTES_MAX];
    let mut published = 0;
    while done.load(Ordering::Relaxed) < READERS {
        for key in (0..KEYS).map(KeyId) {
            let stamp = Time(clock::now().0 + random.u64(..1_000));
            writer.publish(key, stamp, value(key, stamp, &mut buffer));
            // There is a value for this instant already.
            writer.publish(key, stamp, b"another");
            published += 1;
        }
    }
    published
}

/// Reads so many times; how often there was a value and how often it was replaced too often.
fn read(store: &Store, reads: usize, seed: u64) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut buffer, mut expected) = ([0; VALUE_BYTES_MAX], [0; VALUE_BYTES_MAX]);
    let mut newest = [Time::ZERO; KEYS as usize];
    let (mut found, mut restless) = (0, 0);
    for _ in 0..reads {
        let key = KeyId(random.u16(..KEYS));
        let now = clock::now();
        let newest = &mut newest[usize::from(key.0)];
        match store.read(key, Time::ZERO, now, &mut buffer) {
            Ok(read) => {
                assert!(read.stamp <= clock::now(), "a value before its instant");
                assert!(read.stamp >= *newest, "back from {newest:?} to {:?}", read.stamp);
                assert_eq!(&buffer[..read.len], value(key, read.stamp, &mut expected), "a torn value");
                *newest = read.stamp;
                found += 1;
            }
            Err(ReadError::Restless) => restless += 1,
            Err(error) => {
                assert_eq!(error, kv::ReadError::Nothing.into());
                // Interrupted since it looked at the clock, for so long that all places have later stamps.
                let seen_later = || store.read(key, Time::ZERO, clock::now(), &mut buffer).is_ok();
                let seen =
                    *newest == Time::ZERO || std::iter::repeat_with(seen_later).take(1_000).any(|seen| seen);
                assert!(seen, "what was there is gone");
            }
        }
    }
    (found, restless)
}

fn compete(history: usize, reads: usize) -> (usize, usize) {
    let keys = (0..KEYS).map(|key| Key::named(&format!("k{key}"))).collect();
    let setup = setup(Config { keys, history, value_bytes_max: VALUE_BYTES_MAX, ..config() });
    let mut writer = StoreWriter::create(&setup, Node(0)).unwrap();
    let store = writer.reader().unwrap();
    let done = AtomicUsize::new(0);
    let (found, restless, published) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    // Also if an assertion fails, the writer must end.
                    let _count = CountOnDrop(done);
                    read(store, reads, reader as u64)
                })
            })
            .collect();
        let published = write(&mut writer, &done);
        let sums = readers.into_iter().map(|reader| reader.join().unwrap());
        let (found, restless) = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (found, restless, published)
    });
    println!(
        "history {history}: {published} published, {found} of {} reads found, {restless} gave up",
        READERS * reads
    );
    assert!(published > 1_000);
    (found, restless)
}

struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn readers_beside_a_writer_at_full_speed_see_whole_values_in_order() {
    let (found, restless) = compete(20, 1_000_000);
    assert!(found > 500_000);
    assert_eq!(restless, 0, "with a history, a read always comes to its end");
}

/// The longest values and the shortest history: most reads are overtaken in the middle of a value.
#[test]
fn values_that_are_overwritten_while_they_are_read_are_never_torn() {
    const LEN: usize = Config::VALUE_BYTES_MAX;
    let setup = setup(Config { keys: vec![Key::named("k")], history: 1, value_bytes_max: LEN, ..config() });
    let mut writer = StoreWriter::create(&setup, Node(0)).unwrap();
    let store = writer.reader().unwrap();
    let stop = AtomicBool::new(false);
    let (found, restless, torn) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut step = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                step += 1;
                writer.publish(KeyId(0), Time(step), &[step as u8; LEN]);
                if step.is_multiple_of(1_000) {
                    writer.clear();
                }
            }
        });
        let mut buffer = [0; LEN];
        let (mut found, mut restless, mut torn) = (0_u32, 0_u32, 0_u32);
        while found < 100_000 {
            match store.read(KeyId(0), Time::ZERO, Time::NEVER, &mut buffer) {
                Ok(read) => {
                    found += 1;
                    torn += u32::from(buffer != [read.stamp.0 as u8; LEN]);
                }
                Err(error) => restless += u32::from(error == ReadError::Restless),
            }
        }
        stop.store(true, Ordering::Relaxed);
        (found, restless, torn)
    });
    println!("{found} found, {restless} gave up");
    assert_eq!(torn, 0);
}

/// What is published again under the same stamp after all was forgotten, in the same place: a reader that was overtaken finds the
/// stamp that it had seen, but must not take the halves of two values for one.
#[test]
fn a_stamp_that_comes_back_does_not_hide_that_its_value_was_replaced() {
    const LEN: usize = 64;
    let setup = setup(Config { keys: vec![Key::named("k")], history: 1, value_bytes_max: LEN, ..config() });
    let mut writer = StoreWriter::create(&setup, Node(0)).unwrap();
    let store = writer.reader().unwrap();
    let stop = AtomicBool::new(false);
    let torn = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut life = 0_u8;
            while !stop.load(Ordering::Relaxed) {
                life = life.wrapping_add(1);
                writer.clear();
                writer.publish(KeyId(0), Time(1), &[life; LEN]);
            }
        });
        let mut buffer = [0; LEN];
        let (mut found, mut torn) = (0, 0);
        while found < 1_000_000 {
            if store.read(KeyId(0), Time::ZERO, Time::NEVER, &mut buffer).is_ok() {
                found += 1;
                torn += u32::from(buffer != [buffer[0]; LEN]);
            }
        }
        stop.store(true, Ordering::Relaxed);
        torn
    });
    assert_eq!(torn, 0);
}
