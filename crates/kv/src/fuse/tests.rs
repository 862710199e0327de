use super::*;
use crate::{Config, Format, Job, Key, LinkKey, Mode, Step, Vote};
use contract::Span;

const RELEASE: Time = Time(1_054_000_000);
const IN_TIME: Time = Time(1_100_000_000);

fn config() -> Config {
    Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: vec![
            Key::named("m"),
            Key::named("x").vote(Vote::Median(Format::F64)),
            Key::of_one("s", Node(2)),
            Key::named("y").vote(Vote::Max(Format::I64)),
        ],
        batch_tuples_max: Some(10),
        ..Config::default()
    }
}

fn batch(tuples: &[(u16, Time, &[u8])]) -> Vec<u8> {
    let mut bytes = [0; 4_096];
    let mut len = 0;
    for &(key, stamp, value) in tuples {
        len += Tuple { key: KeyId(key), stamp, value }.write(&mut bytes[len..]).unwrap();
    }
    bytes[..len].to_vec()
}

/// Fuses these batches as if they had been agreed on.
fn fuse(config: Config, batches: &[Vec<u8>]) -> (Fused, Vec<(u16, u64, Vec<u8>)>) {
    let setup = Setup::new(config).unwrap();
    let mut arena = vec![0; 7];
    let slots: Vec<_> = batches
        .iter()
        .map(|batch| {
            arena.extend_from_slice(batch);
            crate::job::Slot::new(arena.len() - batch.len(), batch.len())
        })
        .collect();
    let mut fuse = Fuse::new(setup.clone());
    let fused = fuse.fuse(RELEASE, Vector { slots: &slots, bytes: &arena });
    assert_eq!(fuse.decided(&arena).count(), fused.values as usize);
    // What a value was made of is what each of its writers has said last.
    for (tuple, proposals) in fuse.decided(&arena) {
        let writers = setup.terms(tuple.key).unwrap().writers;
        let heard = (0..batches.len()).map(Node::at);
        let heard = heard.filter(|node| writers.contains(*node) && !fused.malformed.contains(*node));
        let last = |node: Node| {
            let said = Tuples::of(&batches[node.index()]);
            said.filter(|one| {
                (one.key, one.stamp) == (tuple.key, tuple.stamp) && one.value.len() <= setup.value_bytes_max()
            })
            .last()
            .map(|one| (node, one.value))
        };
        assert!(proposals.iter().eq(heard.filter_map(last)), "{tuple:?}");
    }
    let values = fuse.values().map(|tuple| (tuple.key.0, tuple.stamp.0, tuple.value.to_vec())).collect();
    (fused, values)
}

#[test]
fn the_last_of_two_values_of_one_node_counts_and_the_majority_decides() {
    let twice = batch(&[(0, IN_TIME, b"no"), (0, IN_TIME, b"yes")]);
    let yes = batch(&[(0, IN_TIME, b"yes")]);
    let liar = batch(&[(0, IN_TIME, b"no")]);
    let (fused, values) = fuse(config(), &[twice, yes.clone(), liar, yes]);
    assert_eq!(values, [(0, IN_TIME.0, b"yes".to_vec())]);
    assert_eq!((fused.values, fused.undecided), (1, 0));
}

#[test]
fn a_node_that_writes_a_key_often_has_one_voice() {
    let number = 3.0_f64.to_le_bytes();
    let correct = batch(&[(0, IN_TIME, b"a"), (1, IN_TIME, &number)]);
    let stuffed = batch(&[(0, IN_TIME, &b"lie"[..]); 10]);
    let (_, values) = fuse(config(), &[correct.clone(), correct.clone(), correct.clone(), stuffed]);
    assert_eq!(values, [(0, IN_TIME.0, b"a".to_vec()), (1, IN_TIME.0, number.to_vec())]);
    let lie = 99.0_f64.to_le_bytes();
    let stuffed = batch(&[(1, IN_TIME, &lie[..]); 10]);
    let (_, values) = fuse(config(), &[correct.clone(), correct.clone(), correct, stuffed]);
    assert_eq!(values[1], (1, IN_TIME.0, number.to_vec()));
}

#[test]
fn a_key_that_too_few_propose_comes_to_nothing() {
    let one = batch(&[(0, IN_TIME, b"a"), (1, IN_TIME, &1.0_f64.to_le_bytes())]);
    let (fused, values) = fuse(config(), &[one.clone(), one, vec![], vec![]]);
    assert_eq!((values.len(), fused.undecided), (0, 2));
}

#[test]
fn publishing_times_outside_of_the_horizon_are_refused() {
    let horizon = Span::millis(500);
    let at = |stamp| batch(&[(0, stamp, b"a")]);
    for (stamp, published) in [
        (RELEASE, 0),
        (RELEASE + Span(1), 1),
        (RELEASE + horizon, 1),
        (RELEASE + horizon + Span(1), 0),
        (Time::NEVER, 0),
    ] {
        let (fused, values) = fuse(config(), &[at(stamp), at(stamp), at(stamp), at(stamp)]);
        assert_eq!(values.len(), published, "{stamp:?}");
        assert_eq!(fused.out_of_horizon, if published == 0 { 4 } else { 0 });
    }
}

#[test]
fn only_its_writer_writes_a_key_of_one_source() {
    let own = batch(&[(2, IN_TIME, b"own")]);
    let foreign = batch(&[(2, IN_TIME, b"foreign")]);
    let (fused, values) = fuse(config(), &[foreign.clone(), foreign.clone(), own, foreign]);
    assert_eq!(values, [(2, IN_TIME.0, b"own".to_vec())]);
    assert_eq!(fused.improper, 3);
}

#[test]
fn a_malformed_batch_counts_as_empty_and_does_no_harm() {
    let good = batch(&[(0, IN_TIME, b"good")]);
    let mut torn = good.clone();
    torn.pop();
    let too_many = batch(&[(0, IN_TIME, &b"x"[..]); 11]);
    for bad in [torn, too_many, vec![0xFF; 3]] {
        let (fused, values) = fuse(config(), &[good.clone(), good.clone(), bad, good.clone()]);
        assert_eq!(values, [(0, IN_TIME.0, b"good".to_vec())]);
        assert_eq!(fused.malformed, [Node(2)].into_iter().collect());
    }
    let unknown = batch(&[(9, IN_TIME, b"x"), (0, IN_TIME, &[0; 17]), (0, IN_TIME, b"good")]);
    let (fused, values) = fuse(config(), &[good.clone(), good, unknown, vec![]]);
    assert_eq!((values.len(), fused.improper, fused.malformed), (1, 2, NodeSet::EMPTY));
}

#[test]
fn values_come_in_order_and_the_digest_is_of_all_of_them() {
    let later = IN_TIME + Span(1);
    let one = batch(&[(3, later, &7_i64.to_le_bytes()), (0, later, b"l"), (0, IN_TIME, b"e")]);
    let other = batch(&[(0, IN_TIME, b"e"), (3, later, &9_i64.to_le_bytes()), (0, later, b"l")]);
    let (fused, values) = fuse(config(), &[one.clone(), other.clone(), one.clone(), vec![]]);
    let nine = 9_i64.to_le_bytes().to_vec();
    assert_eq!(values, [(0, IN_TIME.0, b"e".to_vec()), (0, later.0, b"l".to_vec()), (3, later.0, nine)]);
    let (same, _) = fuse(config(), &[other, one.clone(), one.clone(), vec![]]);
    assert_eq!(same.digest, fused.digest);
    let (unlike, _) = fuse(config(), &[one.clone(), one.clone(), one, vec![]]);
    assert_ne!(unlike.digest, fused.digest);
}

#[test]
fn where_nodes_only_crash_those_that_are_left_decide() {
    let crash = Config { mode: Mode::Crash, faults: 3, ..config() };
    let one = batch(&[(0, IN_TIME, b"a"), (1, IN_TIME, &2.0_f64.to_le_bytes())]);
    let (_, values) = fuse(crash, &[vec![], vec![], one, vec![]]);
    assert_eq!(values.len(), 2);
}

#[test]
fn a_batch_full_of_one_key_is_sorted_without_trouble() {
    let config = Config { batch_tuples_max: Some(5_000), faults: 0, ..config() };
    let tuples: Vec<(u16, Time, &[u8])> =
        (0..5_000).map(|i| (0, IN_TIME + Span(i * 7_919 % 5_003), &b"v"[..])).collect();
    let mut bytes = vec![0; 5_000 * 13];
    let mut len = 0;
    for (key, stamp, value) in tuples {
        len += Tuple { key: KeyId(key), stamp, value }.write(&mut bytes[len..]).unwrap();
    }
    let (fused, values) = fuse(config, &[bytes.clone(), bytes.clone(), bytes.clone(), bytes]);
    assert_eq!(fused.values, 5_000);
    assert!(values.is_sorted_by_key(|(_, stamp, _)| *stamp));
}

#[test]
fn what_jobs_of_one_node_agree_on_is_what_it_wrote() {
    let single = Config { nodes: vec!["only".into()], faults: 0, keys: vec![Key::named("m")], ..config() };
    let setup = Setup::new(single).unwrap();
    let number = setup.job_at(RELEASE).unwrap();
    let mut job = Job::new(setup.clone(), Node(0), &[LinkKey([0; 32])], number);
    assert_eq!(job.step(RELEASE), Step::Idle);
    job.begin(&batch(&[(0, IN_TIME, b"alone")]), None, RELEASE);
    assert_eq!(job.step(RELEASE), Step::Over);
    job.resolve();
    let mut fuse = Fuse::new(setup);
    assert_eq!(fuse.fuse(RELEASE, job.vector()).values, 1);
}
