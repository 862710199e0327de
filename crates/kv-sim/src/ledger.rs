//! Plain facts of one lane, written down as they happen. Nothing here asks the product what it thinks.

use crate::checkers::{Ended, Publication};
use crate::part::Write;
use crate::scenario::{KeyKind, START, Scenario};
use contract::{Span, Time};
use kv::{Mode, Node, NodeSet, ReadError};
use std::collections::{BTreeMap, BTreeSet};

/// What the lane is told to keep to.
pub(crate) struct Terms {
    pub(crate) nodes: usize,
    pub(crate) tolerated: usize,
    pub(crate) mode: Mode,
    pub(crate) period: Span,
    pub(crate) offset: Span,
    pub(crate) round: Span,
    pub(crate) horizon: Span,
    pub(crate) history: usize,
    pub(crate) tuples_max: usize,
    pub(crate) keys: Vec<(KeyKind, NodeSet)>,
    /// Who is faulty in a job, by its number from 0.
    pub(crate) faulty: Vec<NodeSet>,
    /// Who lies in a job. Others may be silent, late or dead.
    pub(crate) lying: Vec<NodeSet>,
    pub(crate) ever_faulty: NodeSet,
    /// Whether what is faulty is within what the guarantees assume.
    pub(crate) assumed: bool,
    /// How long a node may need to wake up, and to fuse and publish.
    pub(crate) processor: Span,
}

impl Terms {
    pub(crate) fn of(scenario: &Scenario, lane: usize) -> Terms {
        let all = NodeSet::all(scenario.nodes);
        let offset = scenario.offset_of(lane);
        let rounds = scenario.tolerated as i64 + 1;
        Terms {
            nodes: scenario.nodes,
            tolerated: scenario.tolerated,
            mode: scenario.mode,
            period: scenario.period,
            offset,
            round: scenario.round.unwrap_or(Span((scenario.period - offset).0 / (2 * rounds))),
            horizon: scenario.period * scenario.slowest() * 10,
            history: scenario.history,
            tuples_max: scenario.batch_tuples_max,
            keys: scenario.keys.iter().map(|key| (key.kind, key.writers.unwrap_or(all))).collect(),
            faulty: (0..=scenario.jobs + 1).map(|job| scenario.faulty(job)).collect(),
            lying: (0..=scenario.jobs + 1).map(|job| scenario.lying(job)).collect(),
            ever_faulty: scenario.ever_faulty(),
            assumed: scenario.assumed,
            processor: scenario.wake_max() + scenario.cpu,
        }
    }

    /// A job's number from 0, by its release.
    pub(crate) fn job(&self, release: Time) -> u64 {
        release.since(START + self.offset).as_nanos_u64() / self.period.as_nanos_u64()
    }

    /// Whether nobody is faulty in a job.
    pub(crate) fn is_calm(&self, job: u64) -> bool {
        self.faulty.get(job as usize).is_some_and(|faulty| faulty.is_empty())
    }

    /// Whether a node is right in a job, and so is all that is assumed.
    pub(crate) fn is_right(&self, node: usize, job: u64) -> bool {
        self.assumed && self.faulty.get(job as usize).is_some_and(|faulty| !faulty.contains(Node::at(node)))
    }
}

/// One node in its present life.
#[derive(Default)]
pub(crate) struct NodeFacts {
    /// Accepted writes for the next job, as a batch.
    pub(crate) batch: Vec<u8>,
    pub(crate) stamps: Vec<Time>,
    /// The job that has begun and not ended.
    pub(crate) running: Option<Time>,
    /// When that was, by its clock.
    pub(crate) began: Time,
    /// The release of the last job that it began or skipped.
    pub(crate) last: Option<Time>,
    /// Until when it writes nothing that it has not seen published, if it has come to others.
    pub(crate) cautious_until: Option<Time>,
    /// Whether its store lacks nothing, as it said after its last job; whether what it holds may differ from what it gave to readers,
    /// since it has lacked something; and whether any job has ended.
    pub(crate) sure: bool,
    pub(crate) blurred: bool,
    pub(crate) has_ended: bool,
    pub(crate) has_known: bool,
    /// It has raised the alarm in this life.
    pub(crate) alarmed: bool,
    /// Jobs in a row, the last ones, in which nobody was faulty.
    pub(crate) calm_jobs: u64,
    /// What it has published, newest stamps only.
    pub(crate) store: BTreeMap<u16, BTreeMap<Time, Vec<u8>>>,
    /// All that it has ever published.
    pub(crate) seen: BTreeMap<(u16, Time), Vec<u8>>,
    pub(crate) late: u64,
    /// The job before, and the digest of its store after it, where that lacked nothing.
    pub(crate) digest: Option<(u64, u64)>,
    /// Digests of stores that lack nothing, which came in the first round of this job, by peer.
    pub(crate) told: BTreeMap<usize, u64>,
}

/// A read and what it gave.
pub(crate) struct Read {
    pub(crate) key: u16,
    pub(crate) freshness: Time,
    pub(crate) now: Time,
    pub(crate) result: Result<(Time, Vec<u8>), ReadError>,
}

/// Sums for the report.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) jobs: u64,
    pub(crate) values: u64,
    pub(crate) late: u64,
    pub(crate) undecided: u64,
    pub(crate) alarms: u64,
    pub(crate) disagreements: u64,
    pub(crate) accusations: u64,
    pub(crate) writes: u64,
}

/// A vector, and the digest of what was made of it.
pub(crate) type Agreed = (Vec<Vec<u8>>, u64);

/// The facts of one lane.
pub(crate) struct Ledger {
    pub(crate) terms: Terms,
    pub(crate) nodes: Vec<NodeFacts>,
    /// What each node put into each job.
    pub(crate) batches: BTreeMap<(u64, usize), Vec<u8>>,
    /// What each node agreed on and the digest of what it made of it, by job.
    pub(crate) vectors: BTreeMap<u64, BTreeMap<usize, Agreed>>,
    /// What nodes that were always right have published, and the first of them.
    pub(crate) truth: BTreeMap<(u16, Time), (Vec<u8>, usize)>,
    /// Frames that were changed after their codes were made.
    pub(crate) tampered: BTreeSet<Vec<u8>>,
    pub(crate) found: Found,
}

impl Ledger {
    pub(crate) fn new(terms: Terms) -> Ledger {
        Ledger {
            nodes: (0..terms.nodes).map(|_| NodeFacts::default()).collect(),
            terms,
            batches: BTreeMap::new(),
            vectors: BTreeMap::new(),
            truth: BTreeMap::new(),
            tampered: BTreeSet::new(),
            found: Found::default(),
        }
    }

    /// The job that a node has begun and not ended.
    pub(crate) fn job_of(&self, node: usize) -> Option<u64> {
        Some(self.terms.job(self.nodes[node].running?))
    }

    pub(crate) fn born(&mut self, node: usize, now: Time, rejoins: bool) {
        let cautious_until = rejoins.then(|| now + self.terms.horizon);
        self.nodes[node] = NodeFacts { cautious_until, ..NodeFacts::default() };
    }

    pub(crate) fn wrote(&mut self, node: usize, write: &Write) {
        self.found.writes += 1;
        let facts = &mut self.nodes[node];
        facts.batch.extend_from_slice(&write.key.0.to_le_bytes());
        facts.batch.extend_from_slice(&(write.value.len() as u16).to_le_bytes());
        facts.batch.extend_from_slice(&write.publishing.0.to_le_bytes());
        facts.batch.extend_from_slice(&write.value);
        facts.stamps.push(write.publishing);
    }

    pub(crate) fn begun(&mut self, node: usize, release: Time, now: Time) {
        let job = self.terms.job(release);
        let period = self.terms.period;
        let facts = &mut self.nodes[node];
        if facts.last.is_some_and(|last| last + period != release) {
            facts.calm_jobs = 0;
            facts.lacks();
        }
        (facts.running, facts.last, facts.began) = (Some(release), Some(release), now);
        facts.stamps.clear();
        facts.told.clear();
        let batch = std::mem::take(&mut facts.batch);
        self.batches.insert((job, node), batch);
    }

    pub(crate) fn missed(&mut self, node: usize) {
        let facts = &mut self.nodes[node];
        facts.batch.clear();
        facts.stamps.clear();
        (facts.running, facts.calm_jobs) = (None, 0);
        facts.lacks();
    }

    /// A frame was taken. Where its numbers are is in the head's table.
    pub(crate) fn took(&mut self, node: usize, from: usize, frame: &[u8]) {
        if frame.len() >= 40 && frame[16] == 1 && frame[19] & 1 == 1 {
            let digest = u64::from_le_bytes(std::array::from_fn(|at| frame[32 + at]));
            self.nodes[node].told.insert(from, digest);
        }
    }

    pub(crate) fn ended(&mut self, node: usize, job: u64, ended: &Ended) {
        let outcome = &ended.outcome;
        self.found.jobs += 1;
        self.found.values += ended.published.len() as u64;
        self.found.late += u64::from(outcome.late);
        self.found.undecided += u64::from(outcome.fused.undecided);
        self.found.alarms += u64::from(outcome.alarm);
        self.found.accusations += outcome.liars.len() as u64;
        let (is_right, is_calm) = (self.terms.is_right(node, job), self.terms.is_calm(job));
        let facts = &mut self.nodes[node];
        facts.running = None;
        facts.calm_jobs = if is_calm { facts.calm_jobs + 1 } else { 0 };
        if !outcome.sure {
            facts.lacks();
        }
        (facts.sure, facts.has_ended) = (outcome.sure, true);
        facts.has_known |= outcome.sure;
        facts.alarmed |= outcome.alarm;
        // Where no more is faulty than is assumed, what it lacked has come, and what it held back is given or gone.
        facts.blurred &= !(outcome.sure && self.terms.assumed && !facts.alarmed);
        facts.digest = outcome.sure.then_some((job, outcome.digest));
        facts.late = ended.late_in_all;
        for publication in ended.recovered.iter().chain(&ended.published) {
            facts.publish(publication, self.terms.history);
            if is_right {
                let place = (publication.key, publication.stamp);
                self.truth.entry(place).or_insert_with(|| (publication.value.clone(), node));
            }
        }
        let all = self.vectors.entry(job).or_default();
        self.found.disagreements +=
            u64::from(all.values().any(|(_, digest)| *digest != outcome.fused.digest));
        all.insert(node, (ended.vector.clone(), outcome.fused.digest));
    }
}

impl NodeFacts {
    /// It may have missed something.
    fn lacks(&mut self) {
        // Also one that has never been sure may have given something, which what it holds may push out.
        self.blurred |= self.sure || self.store.values().any(|stamps| !stamps.is_empty());
        (self.sure, self.digest) = (false, None);
    }

    /// I5: the newest stamps stay.
    fn publish(&mut self, publication: &Publication, history: usize) {
        let (key, stamp) = (publication.key, publication.stamp);
        self.seen.insert((key, stamp), publication.value.clone());
        let stamps = self.store.entry(key).or_default();
        stamps.insert(stamp, publication.value.clone());
        if stamps.len() > history {
            stamps.pop_first();
        }
    }
}
