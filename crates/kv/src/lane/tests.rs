use super::*;
use crate::{Config, Format, Key, Mode, Vote};

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

const OFFSET: u64 = 4;
const A: KeyId = KeyId(0);
const X: KeyId = KeyId(1);
const OWN: KeyId = KeyId(2);

fn config() -> Config {
    Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: vec![
            Key::named("a"),
            Key::named("x").vote(Vote::Median(Format::F64)),
            Key::of_one("own", Node(3)),
        ],
        batch_tuples_max: Some(4),
        ..Config::default()
    }
}

fn lanes(config: Config, first: Time) -> Vec<Lane> {
    let setup = Setup::new(config).unwrap();
    let lane = |me| lane(&setup, me, Standing::Founding, first);
    (0..setup.nodes()).map(lane).collect()
}

fn lane(setup: &Arc<Setup>, me: usize, standing: Standing, first: Time) -> Lane {
    let key = |peer: usize| LinkKey([(me.min(peer) * 16 + me.max(peer)) as u8; 32]);
    let links: Vec<LinkKey> = (0..setup.nodes()).map(key).collect();
    Lane::new(setup.clone(), Node::at(me), &links, standing, first)
}

/// One job of these lanes, whose frames all arrive at once; the others are silent. What came of it at each.
fn job(lanes: &mut [&mut Lane], release: Time, published: Time) -> Vec<Outcome> {
    for lane in &mut *lanes {
        lane.begin(release, release).unwrap();
    }
    let rounds = lanes[0].setup.rounds();
    for round in 1..=rounds {
        for from in 0..lanes.len() {
            for to in (0..lanes.len()).filter(|&to| to != from) {
                let (sender, receiver) = (lanes[from].me, lanes[to].me);
                let frame = lanes[from].frame(receiver);
                let bytes = [&frame.head[..], frame.body].concat();
                lanes[to].take(sender, &bytes).unwrap();
            }
        }
        let end = release + lanes[0].setup.round() * round as u64;
        lanes.iter_mut().for_each(|lane| assert!(matches!(lane.step(end), Step::Send | Step::Over)));
    }
    let fused = lanes.iter_mut().map(|lane| {
        lane.fuse();
        lane.publish(published, &mut ())
    });
    fused.collect()
}

#[test]
fn e7_what_is_written_before_its_instant_is_read_from_it_on_at_every_node() {
    let mut lanes = lanes(config(), ms(1_000 + OFFSET));
    for lane in &mut lanes {
        assert_eq!(lane.write(A, b"v", ms(1_050), ms(1_003)), Ok(()));
        assert_eq!(lane.write(A, b"v", ms(1_050), ms(1_050)), Err(WriteError::PublishingTimePast(Span(0))));
    }
    let outcomes = job(&mut lanes.iter_mut().collect::<Vec<_>>(), ms(1_004), ms(1_049));
    for (lane, outcome) in lanes.iter().zip(outcomes) {
        assert_eq!((outcome.published, outcome.late, outcome.silent), (1, 0, NodeSet::EMPTY));
        assert_eq!(lane.read(A, ms(950), ms(1_049)), Err(ReadError::Nothing));
        assert_eq!(lane.read(A, ms(950), ms(1_050)).unwrap().bytes, b"v");
        assert_eq!(lane.read(A, ms(1_000), ms(1_099)).unwrap().stamp, ms(1_050));
        assert!(lane.read(A, ms(1_050), ms(1_100)).is_ok(), "the job of 1050 may fail");
        assert_eq!(lane.read(A, ms(1_100), ms(1_150)), Err(ReadError::Stale(Span::millis(50))));
    }
}

#[test]
fn writes_that_nobody_could_use_are_refused_with_the_reason() {
    let mut lanes = lanes(config(), ms(1_004));
    let now = ms(1_000);
    let write = |lane: &mut Lane, key, value: &[u8], stamp| lane.write(key, value, stamp, now).unwrap_err();
    let lane = &mut lanes[0];
    assert_eq!(write(lane, KeyId(3), b"v", ms(1_050)), WriteError::UnknownKey(KeyId(3)));
    assert_eq!(write(lane, OWN, b"v", ms(1_050)), WriteError::NotAWriter);
    assert_eq!(write(lane, A, &[0; 17], ms(1_050)), WriteError::ValueTooLong { bytes: 17, max: 16 });
    assert_eq!(write(lane, X, &f64::NAN.to_le_bytes(), ms(1_050)), WriteError::NotANumber);
    assert_eq!(write(lane, X, b"1.0", ms(1_050)), WriteError::NotANumber);
    let far = WriteError::PublishingTimeTooFar { ahead: Span::millis(501), horizon: Span::millis(500) };
    assert_eq!(write(lane, A, b"v", ms(1_505)), far, "the job that would carry it is that of 1004");
    assert_eq!(far.to_string(), "the publishing time is 501ms after the next job: at most 500ms (`horizon`)");
    assert_eq!(lane.waiting(), 0);
    for _ in 0..4 {
        lane.write(A, b"v", ms(1_050), now).unwrap();
    }
    assert_eq!(write(lane, A, b"v", ms(1_050)), WriteError::Full(4));
    lane.begin(ms(1_004), ms(1_004)).unwrap();
    assert_eq!(
        lane.write(A, b"v", ms(1_554), ms(1_005)),
        Ok(()),
        "the next job has room again, and is 50 ms later"
    );
    assert!(lane.write(A, b"v", ms(1_554) + Span(1), ms(1_005)).is_err());
    assert_eq!(lane.write(A, b"v", ms(9_500), ms(9_000)), Ok(()), "there has been no job for long");
}

#[test]
fn values_that_come_after_their_instant_are_counted_and_readable_from_then_on() {
    let mut lanes = lanes(config(), ms(1_004));
    lanes.iter_mut().for_each(|lane| lane.write(A, b"v", ms(1_050), ms(1_003)).unwrap());
    let outcomes = job(&mut lanes.iter_mut().collect::<Vec<_>>(), ms(1_004), ms(1_051));
    assert_eq!((outcomes[2].late, lanes[2].late_publish()), (1, 1));
    assert!(lanes[2].read(A, ms(1_000), ms(1_052)).is_ok());
}

#[test]
fn what_nobody_could_agree_on_before_its_instant_is_refused() {
    let mut lanes = lanes(config(), ms(1_004));
    let lane = &mut lanes[0];
    let soon = |span| Err(WriteError::PublishingTimeTooSoon(span));
    assert_eq!(lane.write(A, b"v", ms(1_004), ms(1_003)), soon(Span::ZERO));
    assert_eq!(lane.write(A, b"v", ms(1_004) + Span(1), ms(1_003)), Ok(()));
    lane.begin(ms(1_004), ms(1_004)).unwrap();
    assert_eq!(
        lane.write(A, b"v", ms(1_050), ms(1_005)),
        soon(Span::millis(4)),
        "the next job is that of 1054"
    );
}

#[test]
fn a_node_without_a_quarter_of_the_period_left_skips_the_job() {
    let mut lanes = lanes(config(), ms(1_004));
    let lane = &mut lanes[0];
    lane.write(A, b"v", ms(1_100), ms(1_003)).unwrap();
    assert_eq!(lane.begin(ms(1_005), ms(1_005)), Err(BeginError::NotARelease));
    assert_eq!(lane.begin(ms(1_054), ms(1_053)), Err(BeginError::NotYet(Span::millis(1))));
    let just = Span(12_499_999);
    assert_eq!(lane.begin(ms(1_004), ms(1_004) + just), Ok(()));
    assert_eq!(lane.begin(ms(1_004), ms(1_004)), Err(BeginError::ClockWentBack(Span(0))));
    lane.write(A, b"v", ms(1_100), ms(1_050)).unwrap();
    let late = Span::micros(12_500);
    assert_eq!(
        lane.begin(ms(1_054), ms(1_054) + late),
        Err(BeginError::Missed { late, limit: late }),
        "a quarter of 50 ms"
    );
    assert_eq!(
        (lane.skipped(), lane.waiting()),
        (2, 0),
        "that of 1004 has no end; what was written is dropped"
    );
    assert_eq!(lane.begin(ms(1_054), ms(1_054)), Err(BeginError::ClockWentBack(Span::millis(50))));
    assert_eq!(lane.begin(ms(1_154), ms(1_154)), Ok(()));
    assert_eq!(lane.skipped(), 3, "nobody has begun that of 1104");
}

#[test]
fn a_node_that_rejoins_writes_a_key_when_it_can_read_it() {
    let mut all = lanes(config(), ms(1_004));
    let write =
        |lane: &mut Lane, period: u64| lane.write(A, b"v", ms(1_050 + 50 * period), ms(1_000 + 50 * period));
    all.iter_mut().for_each(|lane| write(lane, 0).unwrap());
    job(&mut all.iter_mut().collect::<Vec<_>>(), ms(1_004), ms(1_020));
    // Node 3 starts again.
    let setup = all[0].setup().clone();
    all[3] = lane(&setup, 3, Standing::Rejoining, ms(1_054));
    assert_eq!(write(&mut all[3], 1), Err(WriteError::Rejoining));
    assert_eq!(all[3].write(OWN, b"v", ms(1_100), ms(1_050)), Ok(()), "nobody else can have written it");
    all[..3].iter_mut().for_each(|lane| write(lane, 1).unwrap());
    let outcomes = job(&mut all.iter_mut().collect::<Vec<_>>(), ms(1_054), ms(1_070));
    assert_eq!(outcomes[3].comparison, Comparison::default(), "it has nothing to compare yet");
    assert_eq!(outcomes[0].comparison.agree, [Node(1), Node(2)].into_iter().collect());
    assert_eq!(all[3].read(A, ms(1_050), ms(1_100)).unwrap().bytes, b"v");
    assert_eq!(write(&mut all[3], 2), Ok(()));
    assert_eq!(all[3].write(X, &1.0_f64.to_le_bytes(), ms(1_150), ms(1_100)), Err(WriteError::Rejoining));
    let after = ms(1_054 + 500);
    assert_eq!(all[3].write(X, &1.0_f64.to_le_bytes(), after + Span(1), after), Ok(()), "nobody writes it");
}

#[test]
fn a_node_that_has_published_something_else_is_noticed_one_job_later() {
    let mut all = lanes(config(), ms(1_004));
    // Node 3 is alone in the first job and publishes nothing; the others do.
    let (three, alone) = all.split_at_mut(3);
    three.iter_mut().for_each(|lane| lane.write(A, b"v", ms(1_050), ms(1_003)).unwrap());
    job(&mut three.iter_mut().collect::<Vec<_>>(), ms(1_004), ms(1_020));
    let outcome = job(&mut alone.iter_mut().collect::<Vec<_>>(), ms(1_004), ms(1_030));
    assert_eq!(outcome[0].silent.len(), 3);
    let outcomes = job(&mut all.iter_mut().collect::<Vec<_>>(), ms(1_054), ms(1_070));
    assert_eq!(outcomes[0].comparison.differ, [Node(3)].into_iter().collect());
    assert!(!outcomes[0].alarm, "one may be faulty");
    assert_eq!(all[0].counters(Node(3)).differed, 1);
    assert!(outcomes[3].alarm, "three are too many: it is node 3 itself");
    assert_eq!(outcomes[3].comparison.differ.len(), 3);
    let outcomes = job(&mut all.iter_mut().collect::<Vec<_>>(), ms(1_104), ms(1_120));
    assert_eq!(outcomes[3].comparison.agree.len(), 3);
}

#[test]
fn the_first_value_of_an_instant_stands_at_every_node() {
    let config = Config { mode: Mode::Crash, faults: 2, ..config() };
    let mut lanes = lanes(config, ms(1_004));
    lanes.iter_mut().for_each(|lane| lane.write(A, b"one", ms(1_300), ms(1_003)).unwrap());
    job(&mut lanes.iter_mut().collect::<Vec<_>>(), ms(1_004), ms(1_020));
    lanes.iter_mut().for_each(|lane| lane.write(A, b"two", ms(1_300), ms(1_050)).unwrap());
    let outcomes = job(&mut lanes.iter_mut().collect::<Vec<_>>(), ms(1_054), ms(1_070));
    assert_eq!((outcomes[1].published, outcomes[1].ignored), (0, 1));
    assert_eq!(lanes[1].read(A, ms(0), ms(1_300)).unwrap().bytes, b"one");
}

#[test]
fn what_is_published_is_given_to_others_as_well() {
    #[derive(Default)]
    struct Shared(Vec<(KeyId, Time, Vec<u8>)>);
    impl Publish for Shared {
        fn publish(&mut self, key: KeyId, stamp: Time, value: &[u8]) {
            self.0.push((key, stamp, value.to_vec()));
        }
    }
    let single = Config { nodes: vec!["only".into()], faults: 0, keys: vec![Key::named("a")], ..config() };
    let mut lane = lanes(single, ms(1_004)).remove(0);
    lane.write(A, b"v", ms(1_050), ms(1_003)).unwrap();
    lane.begin(ms(1_004), ms(1_004)).unwrap();
    assert_eq!(lane.step(ms(1_004)), Step::Over);
    lane.fuse();
    assert_eq!(
        Tuple { key: A, stamp: ms(1_050), value: b"v" },
        crate::Tuples::of(lane.agreed(Node(0))).next().unwrap()
    );
    let mut shared = Shared::default();
    lane.publish(ms(1_005), &mut shared);
    assert_eq!(shared.0, [(A, ms(1_050), b"v".to_vec())]);
}
