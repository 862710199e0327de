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
