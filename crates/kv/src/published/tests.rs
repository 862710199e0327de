use super::*;
use crate::{Config, Key};
use std::collections::BTreeMap;

fn store() -> Published {
    let config = Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: vec![Key::named("a"), Key::named("b")],
        ..Config::default()
    };
    Published::new(&Setup::new(config).unwrap())
}

const A: KeyId = KeyId(0);

#[test]
fn e7_a_value_is_read_from_its_instant_on_and_not_before() {
    let mut store = store();
    assert_eq!(store.insert(A, Time(1_050), b"v"), Inserted::New);
    assert_eq!(store.read(A, Time(950), Time(1_049)), Err(ReadError::Nothing));
    let v = Value { stamp: Time(1_050), bytes: b"v" };
    assert_eq!(store.read(A, Time(950), Time(1_050)), Ok(v));
    assert_eq!(store.read(A, Time(1_000), Time(1_099)), Ok(v));
    assert_eq!(store.read(A, Time(1_050), Time(1_100)), Ok(v), "one missed coordination is tolerated");
    assert_eq!(store.read(A, Time(1_100), Time(1_150)), Err(ReadError::Stale(Span(50))));
    assert_eq!(store.read(A, Time(1_151), Time(1_150)), Err(ReadError::FreshnessInFuture(Span(1))));
    assert_eq!(store.read(KeyId(2), Time(0), Time(1)), Err(ReadError::UnknownKey(KeyId(2))));
}

#[test]
fn the_first_value_of_an_instant_stands() {
    let mut store = store();
    store.insert(A, Time(5), b"first");
    assert_eq!(store.insert(A, Time(5), b"second"), Inserted::Repeated);
    assert_eq!(store.read(A, Time(0), Time(5)).unwrap().bytes, b"first");
}

#[test]
fn i5_the_newest_20_stamps_are_kept_in_any_order_of_arrival() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut store = store();
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for _ in 0..60 {
            let stamp = random.u64(1..50);
            let value: Vec<u8> = (0..random.usize(0..=16)).map(|_| random.u8(..)).collect();
            let expected = if model.contains_key(&stamp) {
                Inserted::Repeated
            } else if model.len() == 20 && *model.keys().next().unwrap() > stamp {
                Inserted::TooOld
            } else {
                model.insert(stamp, value.clone());
                if model.len() > 20 {
                    model.pop_first();
                }
                Inserted::New
            };
            assert_eq!(store.insert(A, Time(stamp), &value), expected);
            store.insert(KeyId(1), Time(stamp), b"of another key");
            for now in 0..50 {
                let read = store.read(A, Time(0), Time(now)).ok();
                let read = read.map(|value| (value.stamp.0, value.bytes.to_vec()));
                let wanted = model.range(..=now).next_back().map(|(stamp, value)| (*stamp, value.clone()));
                assert_eq!(read, wanted);
            }
        }
    }
}

/// What is known of a key, and the newest stamp that made way for others and may have been read.
#[derive(Default)]
struct Model {
    values: BTreeMap<u64, (Vec<u8>, bool)>,
    gone: u64,
}

impl Model {
    fn insert(&mut self, stamp: u64, value: &[u8], held: bool) -> Inserted {
        if self.values.contains_key(&stamp) {
            return Inserted::Repeated;
        }
        let is_full = self.values.len() == HISTORY;
        if stamp <= self.gone || is_full && *self.values.keys().next().unwrap() > stamp {
            return Inserted::TooOld;
        }
        if is_full {
            let (oldest, (_, was_held)) = self.values.pop_first().unwrap();
            self.gone = if was_held { self.gone } else { oldest };
        }
        self.values.insert(stamp, (value.to_vec(), held));
        Inserted::New
    }
}

const HISTORY: usize = 20;

#[test]
fn what_is_held_is_read_by_nobody_until_it_is_released_or_dropped() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut store, mut models) = (store(), [Model::default(), Model::default()]);
        for _ in 0..random.usize(1..150) {
            let key = random.usize(0..2);
            let (id, model) = (KeyId(key as u16), &mut models[key]);
            let stamp = random.u64(1..60);
            match random.u32(0..40) {
                0..34 => {
                    let value: Vec<u8> = (0..random.usize(0..=16)).map(|_| random.u8(..)).collect();
                    let held = random.bool();
                    let inserted = store.insert_as(id, Time(stamp), &value, held);
                    assert_eq!(inserted, model.insert(stamp, &value, held), "seed {seed}");
                }
                34..37 => {
                    store.drop_held(id, Time(stamp));
                    model.values.retain(|at, (_, held)| !*held || *at <= stamp);
                }
                37..39 => {
                    let mut released = Vec::new();
                    store.release_held(|key, stamp, value| released.push((key.0, stamp.0, value.to_vec())));
                    let mut expected = Vec::new();
                    for (key, model) in (0..).zip(&mut models) {
                        for (stamp, (value, held)) in &mut model.values {
                            if std::mem::take(held) {
                                expected.push((key, *stamp, value.clone()));
                            }
                        }
                    }
                    assert_eq!(released, expected, "seed {seed}");
                }
                _ => {
                    store.clear();
                    models = [Model::default(), Model::default()];
                }
            }
            agrees(&store, &models, seed);
        }
    }
}

/// Reads give what the models have, and the digest is that of a store to which the same values were given in another order.
fn agrees(store: &Published, models: &[Model; 2], seed: u64) {
    let mut other = self::store();
    for (key, model) in (0..).map(KeyId).zip(models) {
        for now in 0..60 {
            let read = store.read(key, Time(0), Time(now)).ok();
            let readable = model.values.range(..=now).rfind(|(_, (_, held))| !held);
            let expected = readable.map(|(stamp, (value, _))| (*stamp, value.as_slice()));
            assert_eq!(read.map(|value| (value.stamp.0, value.bytes)), expected, "seed {seed}");
        }
        let since = store.since(key, Time(30)).map(|(stamp, value)| (stamp.0, value.to_vec()));
        let expected = model.values.range(31..).map(|(stamp, (value, _))| (*stamp, value.clone()));
        assert!(since.eq(expected), "seed {seed}");
        assert_eq!(store.is_empty(key), model.values.values().all(|(_, held)| *held), "seed {seed}");
        for (stamp, (value, _)) in model.values.iter().rev() {
            other.insert(key, Time(*stamp), value);
        }
    }
    assert_eq!(store.digest(), other.digest(), "seed {seed}");
}
