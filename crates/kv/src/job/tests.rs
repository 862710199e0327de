//! The worked examples E1 to E5, and what a liar can and cannot do.

use super::*;
use crate::frame::BodyHash;
use crate::{Config, Key, Mode, ResolveRule};

mod agreement;
mod frames;

type Words = Vec<(u32, Vec<u8>)>;

/// Whoever lies is asked for each frame: round, receiver, and what it would say if it did not. `None` is silence.
type Lie<'a> = dyn FnMut(Node, usize, Node, Words) -> Option<Words> + 'a;

fn config(n: usize, f: usize) -> Config {
    Config {
        nodes: (0..n).map(|n| format!("n{n}")).collect(),
        faults: f,
        keys: vec![Key::named("k")],
        batch_tuples_max: Some(1),
        ..Config::default()
    }
}

fn link(one: usize, other: usize) -> LinkKey {
    let mut key = [7; 32];
    (key[0], key[1]) = (one.min(other) as u8, one.max(other) as u8);
    LinkKey(key)
}

const NUMBER: u64 = 1_000;

fn cluster(setup: &Arc<Setup>) -> Vec<Job> {
    let n = setup.nodes();
    let links = |me| (0..n).map(|peer| link(me, peer)).collect::<Vec<_>>();
    (0..n).map(|me| Job::new(setup.clone(), Node::at(me), &links(me), NUMBER)).collect()
}

/// A frame with these words and a proper code: a liar has its keys.
fn frame(setup: &Setup, from: Node, to: Node, round: usize, words: &Words) -> Vec<u8> {
    let mut body = vec![0; words.iter().map(|(_, batch)| BATCH_HEAD_BYTES + batch.len()).sum()];
    let mut len = 0;
    for (label, batch) in words {
        len = append_batch(&mut body, len, *label, batch);
    }
    let head = Head {
        lane: 0,
        job: NUMBER,
        round: round as u8,
        sender: from,
        receiver: to,
        body_len: body.len() as u32,
        fingerprint: setup.fingerprint(),
        digest: 0,
        sure: false,
        ask: None,
        until: 0,
    };
    let head = head.seal(&BodyHash::of(&body), &link(from.index(), to.index()));
    [&head[..], &body].concat()
}

fn words_of(frame: Frame<'_>) -> Words {
    Batches::of(frame.body).map(|(label, at, len)| (label, frame.body[at..at + len].to_vec())).collect()
}

/// Runs one job with these batches; the vector of each node.
fn run(jobs: &mut [Job], batches: &[Vec<u8>], liars: NodeSet, lie: &mut Lie<'_>) -> Vec<Vec<Vec<u8>>> {
    let setup = jobs[0].setup.clone();
    jobs.iter_mut().zip(batches).for_each(|(job, batch)| job.begin(batch, None, Time::ZERO));
    for round in 1..=setup.rounds() {
        for from in 0..jobs.len() {
            for to in (0..jobs.len()).filter(|&to| to != from) {
                let (sender, receiver) = (Node::at(from), Node::at(to));
                let honest = jobs[from].frame(receiver);
                let bytes = if liars.contains(sender) {
                    let words = lie(sender, round, receiver, words_of(honest));
                    words.map(|words| frame(&setup, sender, receiver, round, &words))
                } else {
                    Some([&honest.head[..], honest.body].concat())
                };
                if let Some(bytes) = bytes {
                    assert_eq!(jobs[to].take(sender, &bytes), Ok(Taken::InTime));
                }
            }
        }
        for job in &mut *jobs {
            let end = job.release() + setup.round() * round as u64;
            let expected = if round == setup.rounds() { Step::Over } else { Step::Send };
            assert_eq!(job.step(end), expected);
        }
    }
    jobs.iter_mut()
        .map(|job| {
            job.resolve();
            job.vector().iter().map(<[u8]>::to_vec).collect()
        })
        .collect()
}

fn one(node: u8) -> NodeSet {
    [Node(node)].into_iter().collect()
}
