//! From the vector to what is published (A3): for each key and instant at most one value of each node, then the key's vote.
//!
//! Everything here is a pure function of the vector, the job's release and the configuration, so that all correct nodes publish
//! the same. Tuples are sorted by counting their keys, then within each key; a job costs little more than looking at each
//! tuple a few times, whatever a liar has put in its batch.

use crate::resolve::Vector;
use crate::vote::Ballots;
use crate::{KeyId, Node, NodeSet, Setup, TUPLE_HEAD_BYTES, Tuple, Tuples};
use contract::{Mutant, Time};
use std::sync::Arc;

/// One proposal, and where its value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) stamp: Time,
    pub(crate) at: u32,
    pub(crate) key: KeyId,
    pub(crate) len: u16,
    pub(crate) node: Node,
}

impl Entry {
    pub(crate) fn value(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at as usize..][..usize::from(self.len)]
    }
}

/// What fuses vectors, with room for the largest.
#[derive(Debug)]
pub struct Fuse {
    setup: Arc<Setup>,
    /// Proposals in the order of the vector, then by key.
    entries: Vec<Entry>,
    by_key: Box<[Entry]>,
    /// Where the entries of a key begin.
    starts: Box<[u32]>,
    /// For each value, where in `by_key` the proposals begin that it was made of, and how many they are.
    made_of: Box<[(u32, u8)]>,
    /// The result, as a batch.
    result: Box<[u8]>,
    result_len: usize,
    fused: Fused,
}

/// What nodes have proposed under a key for an instant, as all correct nodes have agreed: the part of the vector that a value was made
/// of.
#[derive(Clone, Copy, Debug)]
pub struct Proposals<'a> {
    entries: &'a [Entry],
    bytes: &'a [u8],
}

impl<'a> Proposals<'a> {
    /// Who proposed what, in ascending order of nodes. Who is missing proposed nothing, or has lied.
    pub fn iter(&self) -> impl Iterator<Item = (Node, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.entries.iter().map(move |entry| (entry.node, entry.value(bytes)))
    }
}

/// What came of fusing one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fused {
    /// How many values there are.
    pub values: u32,
    /// How many keys and instants were proposed without coming to a value: too few proposals, or no majority.
    pub undecided: u32,
    /// Tuples whose publishing time is not in `(release, release + H]`.
    pub out_of_horizon: u32,
    /// Tuples that no correct node proposes: of an unknown key, by somebody who is no writer of it, of a value too long.
    pub improper: u32,
    /// Whose batches were malformed. They count as empty.
    pub malformed: NodeSet,
    /// 64 bits of a hash of all values with their keys and times.
    pub digest: u64,
}

impl Fuse {
    /// With room for what the configuration allows.
    pub fn new(setup: Arc<Setup>) -> Fuse {
        let entries = setup.nodes() * setup.batch_tuples_max();
        let nothing = Entry { stamp: Time::ZERO, at: 0, key: KeyId(0), len: 0, node: Node(0) };
        let result = entries * (TUPLE_HEAD_BYTES + setup.value_bytes_max());
        Fuse {
            entries: Vec::with_capacity(entries),
            by_key: vec![nothing; entries].into(),
            starts: vec![0; setup.keys() + 1].into(),
            made_of: vec![(0, 0); entries].into(),
            result: vec![0; result].into(),
            result_len: 0,
            fused: Fused::default(),
            setup,
        }
    }

    /// Fuses the vector of the job that was released at this time.
    pub fn fuse(&mut self, release: Time, vector: Vector<'_>) -> Fused {
        self.entries.clear();
        self.fused = Fused::default();
        self.result_len = 0;
        for node in 0..vector.slots.len() {
            self.collect(release, vector, Node::at(node));
        }
        self.sort_by_key();
        let setup = self.setup.clone();
        for key in 0..setup.keys() {
            self.decide(&setup, KeyId(key as u16), vector.bytes);
        }
        self.fused.digest = crate::digest::first_word(&blake3::hash(&self.result[..self.result_len]));
        self.fused
    }

    /// The values, in ascending order of keys and times.
    pub fn values(&self) -> Tuples<'_> {
        Tuples::of(&self.result[..self.result_len])
    }

    /// The same, each with what it was made of; these are the bytes of the vector that was fused last.
    pub(crate) fn decided<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (Tuple<'a>, Proposals<'a>)> {
        self.values().zip(&self.made_of).map(move |(tuple, &(begin, count))| {
            let entries = &self.by_key[begin as usize..][..usize::from(count)];
            (tuple, Proposals { entries, bytes })
        })
    }

    fn collect(&mut self, release: Time, vector: Vector<'_>, node: Node) {
        let (batch, begin) = (vector.batch(node), self.entries.len());
        let (until, before) = (release + self.setup.horizon(), self.fused);
        let mut tuples = Tuples::of(batch);
        let (mut at, mut count) = (vector.slots[node.index()].at(), 0);
        for tuple in tuples.by_ref() {
            at += TUPLE_HEAD_BYTES as u32;
            let len = tuple.value.len();
            count += 1;
            if count > self.setup.batch_tuples_max() {
                break;
            }
            let terms = self.setup.terms(tuple.key).filter(|terms| terms.writers.contains(node));
            if terms.is_none() || len > self.setup.value_bytes_max() {
                self.fused.improper += 1;
            } else if (tuple.stamp <= release || tuple.stamp > until) && !Mutant::TakeAnyStamp.is_on() {
                self.fused.out_of_horizon += 1;
            } else {
                let entry = Entry { stamp: tuple.stamp, at, key: tuple.key, len: len as u16, node };
                self.entries.push(entry);
            }
            at += len as u32;
        }
        if !tuples.is_whole() || count > self.setup.batch_tuples_max() {
            self.entries.truncate(begin);
            self.fused = before;
            self.fused.malformed.insert(node);
        }
    }

    /// Groups the entries by key; those of one key stay in the order of nodes and batches.
    fn sort_by_key(&mut self) {
        self.starts.fill(0);
        for entry in &self.entries {
            self.starts[usize::from(entry.key.0) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        // Each key's start moves to its end while its entries are put down, which is where the next one's was.
        for entry in &self.entries {
            let start = &mut self.starts[usize::from(entry.key.0)];
            self.by_key[*start as usize] = *entry;
            *start += 1;
        }
    }

    fn decide(&mut self, setup: &Setup, key: KeyId, bytes: &[u8]) {
        let key_index = usize::from(key.0);
        let begin = if key_index == 0 { 0 } else { self.starts[key_index - 1] as usize };
        let group = &mut self.by_key[begin..self.starts[key_index] as usize];
        let Some(terms) = setup.terms(key).filter(|_| !group.is_empty()) else { return };
        let order = |entry: &Entry| (entry.stamp, entry.node, entry.at);
        if !group.is_sorted_by_key(order) {
            group.sort_unstable_by_key(order);
        }
        let (mut rest, mut at) = (group, begin);
        while let Some(first) = rest.first() {
            let stamp = first.stamp;
            let count = rest.iter().take_while(|entry| entry.stamp == stamp).count();
            let (run, later) = rest.split_at_mut(count);
            rest = later;
            let entries = last_of_each_node(run);
            self.made_of[self.fused.values as usize] = (at as u32, entries.len() as u8);
            at += count;
            let head = self.result_len + TUPLE_HEAD_BYTES;
            let room = &mut self.result[head..head + setup.value_bytes_max()];
            let ballots = Ballots { entries, bytes };
            let Some(len) = terms.vote.decide(&ballots, terms.quorum, room) else {
                self.fused.undecided += 1;
                continue;
            };
            Tuple { key, stamp, value: &[] }
                .write(&mut self.result[self.result_len..])
                .expect("room was made");
            self.result[self.result_len + 2..self.result_len + 4]
                .copy_from_slice(&(len as u16).to_le_bytes());
            self.result_len = head + len;
            self.fused.values += 1;
        }
    }
}

/// Moves the last entry of each node to the front: who writes a key twice for one instant means the second.
fn last_of_each_node(run: &mut [Entry]) -> &[Entry] {
    let mut kept = 0;
    for at in 0..run.len() {
        if kept > 0 && run[kept - 1].node == run[at].node {
            kept -= 1;
        }
        run[kept] = run[at];
        kept += 1;
    }
    &run[..kept]
}

#[cfg(test)]
mod tests;
