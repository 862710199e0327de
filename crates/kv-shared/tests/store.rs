//! A store against the lane that fills it: what is read from shared memory is what the lane itself gives, and what would be refused
//! there is refused here.

mod common;

use common::{Node1, config, setup};
use contract::{Span, Time};
use kv::{Config, Inserted, Key, KeyId, Node, Publish, Published};
use kv_shared::{Gone, ReadError, State, Store, StoreWriter, WriteError};
use std::collections::BTreeMap;

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn read(store: &Store, key: KeyId, freshness: Time, now: Time) -> Result<(Time, Vec<u8>), ReadError> {
    let mut value = [0; 16];
    let found = store.read(key, freshness, now, &mut value)?;
    Ok((found.stamp, value[..found.len].to_vec()))
}

#[test]
fn a_store_says_what_its_lane_runs_by() {
    let setup = setup(Config { lane: 3, period_max: Some(Span::millis(40)), ..config() });
    let writer = StoreWriter::create(&setup, Node(1)).unwrap();
    let store = writer.reader().unwrap();
    let facts = *store.facts();
    assert_eq!((facts.lane, facts.node, store.node_name()), (3, Node(1), "other"));
    assert_eq!(
        (facts.period, facts.offset, facts.round),
        (Span::millis(20), Span::millis(10), setup.round())
    );
    assert_eq!((facts.horizon, facts.period_max), (Span::millis(400), Span::millis(40)));
    assert_eq!((facts.history, facts.value_bytes_max, facts.batch_tuples_max, facts.keys), (20, 16, 30, 5));
    assert_eq!(facts.fingerprint, setup.fingerprint());
    for key in 0..5 {
        let name = setup.key_name(KeyId(key)).to_owned();
        assert_eq!(store.key(&name), Some(KeyId(key)), "{name}");
        assert!(store.keys().any(|(id, text)| id == KeyId(key) && text == name));
        let terms = store.terms(KeyId(key)).unwrap();
        assert_eq!(
            (terms.may_write, terms.alone),
            ([true, true, true, false, true][usize::from(key)], key == 2)
        );
        assert_eq!(terms.format, setup.format(KeyId(key)));
    }
    assert!(["", "b", "pendulum", "zzz", "pendulum/angle/x"].iter().all(|name| store.key(name).is_none()));
    assert!(store.terms(KeyId(5)).is_none());
    assert_eq!(store.state(), State::Starting);
}

#[test]
fn many_keys_are_found_by_name() {
    let keys = (0..2_000).map(|n| Key::named(&format!("k{}/{n}", n % 7))).collect();
    let setup = setup(Config { keys, history: 1, value_bytes_max: 1, ..config() });
    let store = StoreWriter::create(&setup, Node(0)).unwrap().reader().unwrap();
    for key in 0..2_000 {
        assert_eq!(store.key(setup.key_name(KeyId(key))), Some(KeyId(key)));
    }
    assert_eq!(store.keys().count(), 2_000);
}

#[test]
fn e7_a_value_is_read_from_its_instant_on_and_not_before() {
    let mut writer = StoreWriter::create(&setup(config()), Node(0)).unwrap();
    let store = writer.reader().unwrap();
    let (a, b) = (KeyId(1), KeyId(2));
    assert_eq!(read(&store, a, ms(0), ms(1_000)), Err(kv::ReadError::Nothing.into()));
    writer.publish(a, ms(1_050), b"v");
    assert_eq!(read(&store, a, ms(950), ms(1_050) - Span(1)), Err(kv::ReadError::Nothing.into()));
    assert_eq!(read(&store, a, ms(950), ms(1_050)), Ok((ms(1_050), b"v".to_vec())));
    assert_eq!(read(&store, a, ms(1_050), ms(1_100)), Ok((ms(1_050), b"v".to_vec())));
    assert_eq!(read(&store, a, ms(1_100), ms(1_150)), Err(kv::ReadError::Stale(Span::millis(50)).into()));
    assert_eq!(
        read(&store, a, ms(1_151), ms(1_150)),
        Err(kv::ReadError::FreshnessInFuture(Span::millis(1)).into())
    );
    assert_eq!(read(&store, b, ms(0), ms(1_150)), Err(kv::ReadError::Nothing.into()));
    assert_eq!(read(&store, KeyId(5), ms(0), ms(1)), Err(kv::ReadError::UnknownKey(KeyId(5)).into()));
    writer.publish(a, ms(1_050), b"another");
    assert_eq!(read(&store, a, ms(950), ms(1_050)).unwrap().1, b"v", "the first value of an instant stands");
    writer.publish(a, ms(1_060), b"longer than 4");
    let small = store.read(a, ms(0), ms(1_060), &mut [0; 4]);
    assert_eq!(small, Err(ReadError::BufferTooSmall { needed: 13, given: 4 }));
    writer.clear();
    assert_eq!(read(&store, a, ms(0), ms(2_000)), Err(kv::ReadError::Nothing.into()));
    writer.publish(a, ms(1_050), b"");
    assert_eq!(read(&store, a, ms(0), ms(2_000)), Ok((ms(1_050), Vec::new())));
}

#[test]
fn shared_memory_gives_what_the_lane_gives_and_one_stamp_more() {
    let mut random = fastrand::Rng::with_seed(3);
    for history in [1, 2, 3, 20] {
        let setup = setup(Config { history, ..config() });
        let mut lane = Published::new(&setup);
        let mut writer = StoreWriter::create(&setup, Node(0)).unwrap();
        let store = writer.reader().unwrap();
        let mut model = vec![BTreeMap::new(); 5];
        for step in 0..3_000_u64 {
            let key = KeyId(random.u16(..5));
            let places = &mut model[usize::from(key.0)];
            let stamp = Time(1 + step / 4 + random.u64(..60));
            let value: Vec<u8> = (0..random.usize(0..=16)).map(|_| random.u8(..)).collect();
            if lane.insert(key, stamp, &value) == Inserted::New {
                writer.publish(key, stamp, &value);
                places.entry(stamp).or_insert(value);
                if places.len() > history + 1 {
                    places.pop_first();
                }
            }
            let now = Time(step / 4 + random.u64(..60));
            let freshness = Time(now.0.saturating_sub(random.u64(..30)));
            let found = read(&store, key, freshness, now);
            let wanted = match places.range(..=now).next_back() {
                None => Err(kv::ReadError::Nothing.into()),
                Some((stamp, _)) if *stamp < freshness => {
                    Err(kv::ReadError::Stale(freshness.since(*stamp)).into())
                }
                Some((stamp, value)) => Ok((*stamp, value.clone())),
            };
            assert_eq!(found, wanted);
            if let Ok(value) = lane.read(key, freshness, now) {
                assert_eq!(found, Ok((value.stamp, value.bytes.to_vec())));
            }
            if random.u16(..) < 30 {
                lane.clear();
                writer.clear();
                model.iter_mut().for_each(BTreeMap::clear);
            }
        }
    }
}

#[test]
fn a_write_is_refused_here_with_the_words_of_the_lane() {
    let setup = setup(config());
    let first = ms(1_000);
    let mut node = Node1::new(&setup, first);
    let store = node.writer.reader().unwrap();
    let now = ms(1_001);
    node.writer.beat(now);
    let long = [0; 17];
    let nan = f64::NAN.to_le_bytes();
    let one = 1.0_f64.to_le_bytes();
    let writes: [(u16, &[u8], Time); 13] = [
        (9, b"v", ms(1_040)),
        (2, b"v", ms(1_040)),
        (1, b"v", ms(1_001)),
        (1, b"v", ms(900)),
        (1, b"v", ms(1_210)),
        (1, b"v", ms(1_210) + Span(1)),
        (1, &long, ms(1_040)),
        (0, b"1.0", ms(1_040)),
        (0, &nan, ms(1_040)),
        (0, &one, ms(1_040)),
        (4, b"1.5", ms(1_040)),
        (4, b"x", ms(1_040)),
        (3, b"12345678", ms(1_040)),
    ];
    for (key, value, publishing) in writes {
        let key = KeyId(key);
        let here = store.check_write(key, value, publishing, now);
        let there = node.lane.write(key, value, publishing, now).map_err(WriteError::Lane);
        assert_eq!(here, there, "{key:?} {value:?} {publishing:?}");
    }
    // Sooner than the job that would carry it: the lane takes it, and all nodes drop it.
    assert_eq!(
        store.check_write(KeyId(1), b"v", ms(1_009), now),
        Err(WriteError::NoJobBefore(Span::millis(1)))
    );
    // The horizon begins at the next job, which moves on when one has begun.
    let edge = ms(1_030) + setup.horizon();
    assert!(store.check_write(KeyId(1), b"v", edge, ms(1_009)).is_err());
    node.job(ms(1_010));
    for now in [ms(1_011), ms(1_029), ms(1_500)] {
        node.writer.beat(now);
        let here = store.check_write(KeyId(1), b"v", edge + Span(1), now);
        assert_eq!(here, node.lane.write(KeyId(1), b"v", edge + Span(1), now).map_err(WriteError::Lane));
    }
}

#[test]
fn a_node_that_has_rejoined_is_cautious_here_as_well() {
    let setup = setup(config());
    let mut node = Node1::new(&setup, ms(1_000));
    let store = node.writer.reader().unwrap();
    node.lane.rejoin(ms(1_000));
    node.writer.clear();
    node.writer.set_cautious_until(ms(1_000) + setup.horizon());
    let check = |node: &mut Node1, key: u16, value: &[u8], now| {
        node.writer.beat(now);
        let here = store.check_write(KeyId(key), value, now + Span::millis(40), now);
        assert_eq!(
            here,
            node.lane.write(KeyId(key), value, now + Span::millis(40), now).map_err(WriteError::Lane)
        );
        here
    };
    assert_eq!(check(&mut node, 1, b"v", ms(1_001)), Err(kv::WriteError::Rejoining.into()));
    assert_eq!(check(&mut node, 3, &[0; 8], ms(1_001)), Ok(()), "nobody else writes it");
    assert_eq!(check(&mut node, 1, b"v", ms(1_200)), Ok(()), "nobody has written it for long");
}

#[test]
fn a_node_that_has_gone_is_noticed() {
    let node = Node1::new(&setup(config()), ms(1_000));
    let store = node.writer.reader().unwrap();
    assert_eq!(store.node_alive(ms(1_040)), Ok(()));
    let silent = Gone::Silent(Span::millis(41));
    assert_eq!(store.node_alive(ms(1_041)), Err(silent));
    assert_eq!(store.check_write(KeyId(1), b"v", ms(1_060), ms(1_041)), Err(silent.into()));
    node.writer.beat(ms(1_041));
    assert_eq!(store.node_alive(ms(1_041)), Ok(()));
    node.writer.set_state(State::Ended);
    assert_eq!(store.node_alive(ms(1_041)), Err(Gone::Ended));
}
