//! Whole lanes with liars among them, over many jobs: whatever a liar sends, correct nodes publish the same, and what they agree
//! on lies between what correct nodes have proposed.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Cluster, key};
use contract::{Span, Time};
use kv::frame::{BATCH_HEAD_BYTES, BodyHash, append_batch};
use kv::{Frame, Head, KeyId, Node, NodeSet, Setup, Step, Tuple};

/// A batch that a liar may come up with: proper tuples, absurd ones, and torn bytes.
fn invent(random: &mut fastrand::Rng, setup: &Setup, release: Time) -> Vec<u8> {
    let mut batch = Vec::new();
    for _ in 0..random.usize(..setup.batch_tuples_max() + 2) {
        let stamp = match random.u8(..6) {
            0 => Time(random.u64(..)),
            1 => release + setup.horizon(),
            2 => release + Span(1),
            _ => release + setup.period(),
        };
        let key =
            KeyId(if random.u8(..10) == 0 { random.u16(..) } else { random.u16(..setup.keys() as u16) });
        let value = match random.u8(..4) {
            0 => f64::NAN.to_le_bytes(),
            1 => f64::MAX.to_le_bytes(),
            2 => random.f64().to_le_bytes(),
            _ => random.u64(..).to_le_bytes(),
        };
        let mut bytes = [0; 32];
        let len = Tuple { key, stamp, value: &value[..random.usize(..=8)] }.write(&mut bytes).unwrap();
        batch.extend_from_slice(&bytes[..len]);
    }
    batch.truncate(setup.batch_bytes_max());
    if random.u8(..8) == 0 {
        batch.truncate(random.usize(..=batch.len()));
    }
    batch
}

/// What a liar sends instead of this frame: the labels are as they must be, or nobody would listen.
fn lie(random: &mut fastrand::Rng, setup: &Setup, from: usize, to: usize, honest: &Frame<'_>) -> Vec<u8> {
    let mut head = Head::parse(&honest.head).unwrap();
    let release = setup.release_of(head.job);
    let said = setup.layout().said(usize::from(head.round), Node::at(from));
    let batches: Vec<Vec<u8>> = said.iter().map(|_| invent(random, setup, release)).collect();
    let mut body = vec![0; batches.iter().map(|batch| BATCH_HEAD_BYTES + batch.len()).sum()];
    let mut len = 0;
    for (label, batch) in said.iter().zip(&batches) {
        len = append_batch(&mut body, len, *label, batch);
    }
    head.body_len = body.len() as u32;
    (head.digest, head.sure) = ([random.u64(..), head.digest][random.usize(..2)], random.bool());
    [&head.seal(&BodyHash::of(&body), &key(from, to))[..], &body].concat()
}

fn run(n: usize, f: usize, jobs: u64) {
    const KEYS: usize = 6;
    let mut random = fastrand::Rng::with_seed(n as u64);
    let mut cluster = Cluster::new(n, f, KEYS);
    let setup = cluster.lanes[0].setup().clone();
    let correct = n - f;
    for job in 0..jobs {
        cluster.write(job);
        let release = setup.release_of(job);
        cluster.lanes.iter_mut().for_each(|lane| lane.begin(release, release).unwrap());
        for round in 1..=setup.rounds() {
            for from in 0..n {
                for to in (0..n).filter(|&to| to != from) {
                    if from < correct {
                        cluster.send(from, to).unwrap();
                    } else if random.u8(..10) > 0 {
                        let honest = cluster.lanes[from].frame(Node::at(to));
                        let bytes = lie(&mut random, &setup, from, to, &honest);
                        cluster.lanes[to].take(Node::at(from), &bytes).unwrap();
                    }
                }
            }
            let end = release + setup.round() * round as u64;
            cluster.lanes.iter_mut().for_each(|lane| assert!(!matches!(lane.step(end), Step::Wait { .. })));
        }
        let liars = NodeSet::all(n).without(NodeSet::all(correct));
        let lanes = &mut cluster.lanes[..correct];
        let digests: Vec<u64> = lanes.iter_mut().map(|lane| lane.fuse().digest).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{n} nodes, job {job}");
        for lane in lanes {
            let outcome = lane.publish(release, &mut ());
            assert!(outcome.fused.values as usize >= KEYS && !outcome.alarm);
            assert!(
                outcome.liars.without(liars).is_empty()
                    && outcome.comparison.differ.without(liars).is_empty()
            );
            let now = release + setup.period();
            for key in 0..KEYS {
                let value = lane.read(KeyId(key as u16), now, now).unwrap();
                let value = f64::from_le_bytes(value.bytes.try_into().unwrap());
                // Correct nodes write key + job, and where numbers are voted on, their own number besides.
                let lowest = key as f64 + job as f64;
                let highest = if key % 2 == 0 { lowest + (correct - 1) as f64 } else { lowest };
                assert!((lowest..=highest).contains(&value), "{n} nodes, job {job}, key {key}: {value}");
            }
        }
        for lane in &mut cluster.lanes[correct..] {
            lane.fuse();
            lane.publish(release, &mut ());
        }
    }
    assert!(
        (0..correct).all(|node| cluster.lanes[node].counters(Node::at(correct)).lied > 0),
        "it is found out"
    );
}

#[test]
fn one_liar_among_four_or_five() {
    run(4, 1, 300);
    run(5, 1, 200);
}

#[test]
fn two_liars_among_seven() {
    run(7, 2, 40);
}
