//! Four lanes in one process, whose frames are handed over at once.

#![allow(dead_code, reason = "no test uses all of it")]

use contract::{Span, Time};
use kv::{Config, Dropped, Format, HEAD_BYTES, Key, Lane, LinkKey, Node, Outcome, Setup, Start, Step, Vote};

/// The key of two nodes.
pub fn key(one: usize, other: usize) -> LinkKey {
    LinkKey([(one.min(other) * 16 + one.max(other)) as u8; 32])
}

pub struct Cluster {
    pub lanes: Vec<Lane>,
    buffer: Vec<u8>,
}

impl Cluster {
    /// `n` nodes that tolerate `f` liars, and so many keys of eight bytes, of which the even ones vote by median.
    pub fn new(n: usize, f: usize, keys: usize) -> Cluster {
        let terms = |key: usize| {
            let vote = if key.is_multiple_of(2) { Vote::Median(Format::F64) } else { Vote::Majority };
            Key::named(&format!("key/{key}")).vote(vote)
        };
        let config = Config {
            nodes: (0..n).map(|n| format!("n{n}")).collect(),
            faults: f,
            keys: (0..keys).map(terms).collect(),
            period: Span::millis(50),
            value_bytes_max: 8,
            batch_tuples_max: Some(keys),
            ..Config::default()
        };
        let setup = Setup::new(config).expect("a proper configuration");
        let lane = |me: usize| {
            let links: Vec<LinkKey> = (0..n).map(|peer| key(me, peer)).collect();
            Lane::new(setup.clone(), Node::at(me), &links, Start::Founding, Time(0))
        };
        let buffer = vec![0; setup.frame_bytes_max()];
        Cluster { lanes: (0..n).map(lane).collect(), buffer }
    }

    /// Every node writes all keys for the next period: the same, but where numbers are voted on, its own number besides.
    pub fn write(&mut self, job: u64) {
        let setup = self.lanes[0].setup().clone();
        let release = setup.release_of(job);
        for (node, lane) in self.lanes.iter_mut().enumerate() {
            for key in 0..setup.keys() {
                let noise = if key.is_multiple_of(2) { node as f64 } else { 0.0 };
                let value = (key as f64 + job as f64 + noise).to_le_bytes();
                let publishing = release + setup.period();
                lane.write(kv::KeyId(key as u16), &value, publishing, release).expect("is written");
            }
        }
    }

    /// Hands the frame of this round over from one node to another; its bytes, if it was taken.
    pub fn send(&mut self, from: usize, to: usize) -> Result<usize, Dropped> {
        let frame = self.lanes[from].frame(Node::at(to));
        let len = frame.bytes();
        self.buffer[..HEAD_BYTES].copy_from_slice(&frame.head);
        self.buffer[HEAD_BYTES..len].copy_from_slice(frame.body);
        self.lanes[to].take(Node::at(from), &self.buffer[..len]).map(|_| len)
    }

    /// One job; the bytes that one node sent, and what came of it at the last.
    pub fn run(&mut self, job: u64) -> (usize, Outcome) {
        let setup = self.lanes[0].setup().clone();
        let release = setup.release_of(job);
        self.lanes.iter_mut().for_each(|lane| lane.begin(release, release).expect("begins"));
        let mut sent = 0;
        for round in 1..=setup.rounds() {
            for from in 0..self.lanes.len() {
                for to in (0..self.lanes.len()).filter(|&to| to != from) {
                    let bytes = self.send(from, to).expect("is taken");
                    sent += if from == 0 { bytes } else { 0 };
                }
            }
            let expected = if round == setup.rounds() { Step::Over } else { Step::Send };
            self.lanes.iter_mut().for_each(|lane| assert_eq!(lane.step(release), expected));
        }
        let mut last = None;
        for lane in &mut self.lanes {
            lane.fuse();
            last = Some(lane.publish(release, &mut ()));
        }
        (sent, last.expect("there are nodes"))
    }
}
