use super::*;
use crate::{Config, Format, Key, Mode, Proposals, Vote};
use std::ops::Range;

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
    let lane = |me| lane(&setup, me, Start::Founding, first);
    (0..setup.nodes()).map(lane).collect()
}

fn lane(setup: &Arc<Setup>, me: usize, start: Start, first: Time) -> Lane {
    let key = |peer: usize| LinkKey([(me.min(peer) * 16 + me.max(peer)) as u8; 32]);
    let links: Vec<LinkKey> = (0..setup.nodes()).map(key).collect();
    Lane::new(setup.clone(), Node::at(me), &links, start, first)
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

/// The same, and those who have asked for something are answered; `lie` may change what is said, to whom.
fn whole_job(lanes: &mut [&mut Lane], release: Time, lie: impl Fn(Node, &mut Vec<u8>)) -> Vec<Outcome> {
    // Answers to what was asked in the job before come with the first frames of this one.
    let outcomes = job(lanes, release, release + Span::millis(20));
    for from in 0..lanes.len() {
        for to in (0..lanes.len()).filter(|&to| to != from) {
            let (sender, receiver) = (lanes[from].me, lanes[to].me);
            let Some(frame) = lanes[from].answer(receiver) else { continue };
            let mut body = frame.body.to_vec();
            lie(sender, &mut body);
            let head =
                crate::Head { body_len: body.len() as u32, ..crate::Head::parse(&frame.head).unwrap() };
            let key = LinkKey([(sender.0.min(receiver.0) * 16 + sender.0.max(receiver.0)); 32]);
            let head = head.seal(&crate::frame::BodyHash::of(&body), &key);
            let _ = lanes[to].take(sender, &[&head[..], &body].concat());
        }
    }
    outcomes
}

fn honestly(_from: Node, _body: &mut Vec<u8>) {}

fn all(lanes: &mut [Lane]) -> Vec<&mut Lane> {
    lanes.iter_mut().collect()
}

/// One that three nodes have agreed on without node 3.
fn missed_by_one() -> Vec<Lane> {
    let mut lanes = lanes(config(), ms(1_004));
    whole_job(&mut all(&mut lanes), ms(1_004), honestly);
    lanes[..3].iter_mut().for_each(|lane| lane.write(A, b"one", ms(1_300), ms(1_050)).unwrap());
    whole_job(&mut all(&mut lanes[..3]), ms(1_054), honestly);
    // Node 3 has stood still, and all write another value for the same instant.
    lanes.iter_mut().for_each(|lane| lane.write(A, b"two", ms(1_300), ms(1_100)).unwrap());
    lanes
}

#[test]
fn a_node_that_missed_a_job_reads_what_the_others_agreed_on_in_it() {
    let mut lanes = missed_by_one();
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_104), honestly);
    assert_eq!((outcomes[3].held, outcomes[3].published, outcomes[3].sure), (1, 0, false));
    assert_eq!(lanes[3].read(A, ms(0), ms(1_300)), Err(ReadError::Unknown));
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_154), honestly);
    assert!(outcomes[3].sure);
    for lane in &lanes {
        assert_eq!(lane.read(A, ms(0), ms(1_300)).unwrap().bytes, b"one");
    }
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_204), honestly);
    assert_eq!(outcomes[3].comparison.agree.len(), 3, "the stores are the same");
    assert_eq!((lanes[3].skipped(), lanes[3].recovered()), (1, 2), "the first time was the first job");
}

#[test]
fn a_liar_is_not_believed_about_what_was_missed() {
    for liar in 0..3 {
        let mut lanes = missed_by_one();
        let lie = |from: Node, body: &mut Vec<u8>| {
            if from == Node(liar) {
                body.iter_mut().rev().take(3).for_each(|byte| *byte = b'x');
            }
        };
        whole_job(&mut all(&mut lanes), ms(1_104), lie);
        whole_job(&mut all(&mut lanes), ms(1_154), lie);
        assert_eq!(lanes[3].read(A, ms(0), ms(1_300)).unwrap().bytes, b"one", "{liar} lies");
    }
}

#[test]
fn where_too_many_lie_about_it_nothing_is_read() {
    let mut lanes = missed_by_one();
    let lie = |from: Node, body: &mut Vec<u8>| {
        if from.0 > 0 {
            body.iter_mut().rev().take(3).for_each(|byte| *byte = b'x' + from.0);
        }
    };
    for job in 2..6 {
        whole_job(&mut all(&mut lanes), ms(1_004 + 50 * job), lie);
        assert_eq!(lanes[3].read(A, ms(0), ms(1_300)), Err(ReadError::Unknown));
    }
    assert_eq!(lanes[0].read(A, ms(0), ms(1_300)).unwrap().bytes, b"one");
}

#[test]
fn what_was_written_once_outlives_a_restart_of_all_nodes_one_after_the_other() {
    let mut lanes = lanes(config(), ms(1_004));
    lanes.iter_mut().for_each(|lane| lane.write(A, b"once", ms(1_050), ms(1_003)).unwrap());
    let setup = lanes[0].setup().clone();
    let mut release = ms(1_004);
    for restarted in 0..4 {
        whole_job(&mut all(&mut lanes), release, honestly);
        release = release + Span::millis(50);
        lanes[restarted] = lane(&setup, restarted, Start::Rejoining, release);
        assert_eq!(lanes[restarted].read(A, ms(0), ms(2_000)), Err(ReadError::Unknown));
        for _ in 0..2 {
            whole_job(&mut all(&mut lanes), release, honestly);
            release = release + Span::millis(50);
        }
        assert!(lanes[restarted].is_sure());
        assert_eq!(lanes[restarted].read(A, ms(0), ms(2_000)).unwrap().bytes, b"once");
    }
}

#[test]
fn what_takes_several_answers_is_recovered_while_jobs_go_on() {
    let keys = 24;
    let config = Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: (0..keys).map(|key| Key::named(&format!("k{key}"))).collect(),
        value_bytes_max: 4_000,
        history: 6,
        batch_tuples_max: Some(keys),
        period: Span::secs(1),
        ..Config::default()
    };
    let second = |job: u64| ms(1_000 * job + OFFSET);
    let value = |key: usize, job: u64| vec![key as u8 ^ job as u8; 4_000 - key];
    let mut lanes = lanes(config, second(1));
    let setup = lanes[0].setup().clone();
    assert!(keys * 2 * 3_900 > 2 * setup.state_bytes_max(), "three answers at least");
    whole_job(&mut all(&mut lanes), second(1), honestly);
    let write = |lanes: &mut [Lane], job: u64, keys: Range<usize>| {
        for lane in lanes {
            for key in keys.clone() {
                let stamp = ms(1_000 * job + 3_000);
                lane.write(KeyId(key as u16), &value(key, job), stamp, second(job) - Span::millis(1))
                    .unwrap();
            }
        }
    };
    for job in 2..4 {
        write(&mut lanes[..3], job, 0..keys);
        whole_job(&mut all(&mut lanes[..3]), second(job), honestly);
    }
    let mut job = 4;
    while job == 4 || !lanes[3].is_sure() {
        assert!(job < 20, "what was missed is recovered at last");
        // Each job publishes something more, of keys that are recovered and of others.
        let first = job as usize * 5 % (keys - 3);
        write(&mut lanes, job, first..first + 3);
        whole_job(&mut all(&mut lanes), second(job), honestly);
        job += 1;
    }
    assert!(job >= 4 + 3 * 2, "{} jobs: an answer comes in every second", job - 4);
    for at in 4..job + 4 {
        for key in (0..keys).map(|key| KeyId(key as u16)) {
            let read = |lane: &Lane| {
                lane.read(key, ms(0), second(at)).map(|value| (value.stamp, value.bytes.to_vec()))
            };
            assert_eq!(read(&lanes[3]), read(&lanes[0]), "{key:?} in second {at}");
        }
    }
    let outcomes = whole_job(&mut all(&mut lanes), second(job), honestly);
    assert_eq!(outcomes[3].comparison.agree.len(), 3, "the stores are the same");
}

#[test]
fn a_pause_of_all_nodes_together_costs_nothing() {
    let mut lanes = lanes(config(), ms(1_004));
    lanes.iter_mut().for_each(|lane| lane.write(A, b"v", ms(1_050), ms(1_003)).unwrap());
    whole_job(&mut all(&mut lanes), ms(1_004), honestly);
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_254), honestly);
    assert!(outcomes.iter().all(|outcome| outcome.sure));
}

#[test]
fn a_node_that_hears_too_few_publishes_nothing_of_that_job() {
    let mut lanes = lanes(config(), ms(1_004));
    whole_job(&mut all(&mut lanes), ms(1_004), honestly);
    lanes.iter_mut().for_each(|lane| lane.write(OWN, b"v", ms(1_100), ms(1_053)).unwrap_or(()));
    // Nodes 2 and 3 hear each other, and nobody else.
    let outcomes = job(&mut all(&mut lanes[2..]), ms(1_054), ms(1_070));
    assert!(outcomes.iter().all(|outcome| outcome.fenced && outcome.published == 0 && !outcome.sure));
    assert_eq!(lanes[3].read(OWN, ms(0), ms(1_100)), Err(ReadError::Unknown));
    assert_eq!((lanes[3].fenced(), lanes[3].skipped()), (1, 0));
}

/// Two nodes that only stop, of which the first stands still in its second round: that begins late, or its frame leaves late.
fn one_of_two_speaks_late(begins: impl Fn(Time, Time) -> (Time, Time)) {
    let two = Config {
        nodes: vec!["a".into(), "b".into()],
        mode: Mode::Crash,
        keys: vec![Key::named("a")],
        ..config()
    };
    let mut lanes = lanes(two, ms(1_004));
    whole_job(&mut all(&mut lanes), ms(1_004), honestly);
    let setup = lanes[0].setup().clone();
    for (node, lane) in (0..).zip(&mut lanes) {
        lane.write(A, &[node], ms(1_100), ms(1_053)).unwrap();
        lane.begin(ms(1_054), ms(1_054)).unwrap();
    }
    let frame = lanes[1].frame(Node(0));
    let bytes = [&frame.head[..], frame.body].concat();
    lanes[0].take(Node(1), &bytes).unwrap();
    let (link, first) = (setup.config().link, ms(1_054) + setup.round());
    let over = first + setup.round();
    let last = over - (link.round_min() - link.send);
    for (node, (begun, left)) in [begins(over, last), (first, last)].into_iter().enumerate() {
        let lane = &mut lanes[node];
        assert_eq!(lane.step(begun), Step::Send);
        lane.sent(left);
        assert_eq!(lane.step(over), Step::Over);
        lane.fuse();
        assert_eq!(lane.publish(ms(1_090), &mut ()).fenced, node == 0);
    }
    assert_eq!(lanes[0].read(A, ms(0), ms(1_100)), Err(ReadError::Unknown));
    whole_job(&mut all(&mut lanes), ms(1_104), honestly);
    whole_job(&mut all(&mut lanes), ms(1_154), honestly);
    assert_eq!(lanes[0].read(A, ms(0), ms(1_200)).unwrap().bytes, [1], "it knows what the other did alone");
    lanes[0].published.insert(A, ms(1_190), b"z");
    let number = lanes[0].job.number();
    lanes[0].expect(number);
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_204), honestly);
    assert!(outcomes.iter().all(|outcome| outcome.alarm && !outcome.sure));
}

#[test]
fn where_nodes_only_stop_one_that_speaks_too_late_is_fenced_and_two_that_differ_are_an_alarm() {
    one_of_two_speaks_late(|over, _| (over, over));
    one_of_two_speaks_late(|_, last| (last - Span::micros(1), last + Span(1)));
}

#[test]
fn who_founds_alone_writes_and_reads_nothing_unless_an_operator_says_so() {
    let setup = Setup::new(config()).unwrap();
    for (start, word) in [(Start::Founding, false), (Start::Founded, true)] {
        let mut alone = lane(&setup, 0, start, ms(1_004));
        assert_eq!(alone.write(A, b"v", ms(1_050), ms(1_003)), Ok(()), "others may come with the first job");
        job(&mut [&mut alone], ms(1_004), ms(1_020));
        assert_eq!(alone.write(A, b"v", ms(1_100), ms(1_053)).is_ok(), word);
        assert_eq!(alone.read(A, ms(0), ms(1_100)), Err(ReadError::Unknown), "it heard nobody");
    }
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
fn a_node_that_rejoins_writes_a_key_when_it_knows_what_the_others_have() {
    let mut lanes = lanes(config(), ms(1_004));
    let write =
        |lane: &mut Lane, period: u64| lane.write(A, b"v", ms(1_050 + 50 * period), ms(1_000 + 50 * period));
    lanes.iter_mut().for_each(|lane| write(lane, 0).unwrap());
    whole_job(&mut all(&mut lanes), ms(1_004), honestly);
    // Node 3 starts again.
    let setup = lanes[0].setup().clone();
    lanes[3] = lane(&setup, 3, Start::Rejoining, ms(1_054));
    assert_eq!(write(&mut lanes[3], 1), Err(WriteError::Rejoining));
    assert_eq!(lanes[3].write(OWN, b"v", ms(1_100), ms(1_050)), Ok(()), "nobody else can have written it");
    lanes[..3].iter_mut().for_each(|lane| write(lane, 1).unwrap());
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_054), honestly);
    assert_eq!(outcomes[3].comparison, Comparison::default(), "it has nothing to compare yet");
    assert_eq!(outcomes[0].comparison.agree, [Node(1), Node(2)].into_iter().collect());
    assert_eq!(write(&mut lanes[3], 2), Err(WriteError::Rejoining));
    whole_job(&mut all(&mut lanes), ms(1_104), honestly);
    assert_eq!(lanes[3].read(A, ms(1_100), ms(1_149)).unwrap().bytes, b"v");
    assert_eq!(write(&mut lanes[3], 3), Ok(()));
    assert_eq!(
        lanes[3].write(X, &1.0_f64.to_le_bytes(), ms(1_250), ms(1_200)),
        Ok(()),
        "nobody has written it"
    );
}

#[test]
fn a_node_whose_store_is_alone_raises_the_alarm_and_gives_nothing_more_to_its_readers() {
    let mut lanes = lanes(config(), ms(1_004));
    whole_job(&mut all(&mut lanes), ms(1_004), honestly);
    lanes[3].published.insert(A, ms(1_050), b"other");
    let number = lanes[3].job.number();
    lanes[3].expect(number);
    lanes.iter_mut().for_each(|lane| lane.write(A, b"v", ms(1_100), ms(1_053)).unwrap());
    let outcomes = whole_job(&mut all(&mut lanes), ms(1_054), honestly);
    assert_eq!(outcomes[0].comparison.differ, [Node(3)].into_iter().collect());
    assert!(!outcomes[0].alarm && outcomes[0].sure, "one may be faulty");
    assert_eq!(lanes[0].counters(Node(3)).differed, 1);
    assert!(outcomes[3].alarm && !outcomes[3].sure, "three are too many: it is node 3 itself");
    assert_eq!(outcomes[3].comparison.differ.len(), 3);
    assert_eq!(lanes[3].read(A, ms(1_100), ms(1_100)), Err(ReadError::Unknown));
    // It stays so, whatever it is told and for however long: what it has given to its readers is another value than theirs.
    let horizon = lanes[3].setup().horizon().as_nanos_u64() / 50_000_000;
    for job in 2..horizon + 4 {
        let release = 1_004 + 50 * job;
        lanes.iter_mut().for_each(|lane| lane.write(X, &[0; 8], ms(release + 46), ms(release - 1)).unwrap());
        let outcomes = whole_job(&mut all(&mut lanes), ms(release), honestly);
        assert!(!outcomes[3].sure && !outcomes[3].alarm, "job {job}");
        assert_eq!((outcomes[0].published, outcomes[3].published), (1, 0), "job {job}");
        assert_eq!(lanes[3].read(X, ms(0), ms(release + 46)), Err(ReadError::Unknown), "job {job}");
    }
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
        fn agreed(&mut self, key: KeyId, stamp: Time, proposals: Proposals<'_>) {
            let all = proposals.iter().map(|(node, value)| [&[node.0][..], value].concat());
            self.0.push((key, stamp, all.collect::<Vec<_>>().concat()));
        }
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
    assert_eq!(shared.0, [(A, ms(1_050), b"\0v".to_vec()), (A, ms(1_050), b"v".to_vec())]);
}
