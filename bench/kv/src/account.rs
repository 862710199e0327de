//! What came of iterations.

use crate::stores::Found;
use crate::workload::Hash;
use contract::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;
use verge_bench_mqtt::observed::{Quantiles, Times};

/// Of one task, or of all tasks of a node.
#[derive(Default)]
pub struct Account {
    iterations: u64,
    missed: u64,
    read: u64,
    written: u64,
    wrong: u64,
    reading: Times,
    writing: Times,
    reading_ns: u64,
    writing_ns: u64,
    digests: BTreeMap<String, String>,
    refusals: BTreeMap<String, u64>,
}

/// More kinds of refusal are counted as one.
const REFUSALS_MAX: usize = 8;

impl Account {
    /// Releases that were not served.
    pub fn missed(&mut self, count: u64) {
        self.iterations += count;
        self.missed += count;
    }

    /// All reads of an iteration.
    pub fn read(&mut self, took: Span, result: &Result<(), String>, wrong: usize) {
        self.iterations += 1;
        self.wrong += wrong as u64;
        self.read += u64::from(result.is_ok());
        self.reading.note(took.as_nanos_u64());
        self.reading_ns += took.as_nanos_u64();
        self.refused("read", result);
    }

    /// All its writes.
    pub fn written(&mut self, took: Span, result: &Result<(), String>) {
        self.written += u64::from(result.is_ok());
        self.writing.note(took.as_nanos_u64());
        self.writing_ns += took.as_nanos_u64();
        self.refused("write", result);
    }

    /// What was read by the task of this number, to be compared with the other nodes: only if all is of the newest instants, since
    /// older values are allowed and not the same everywhere.
    pub fn digest(
        &mut self,
        task: usize,
        release: Time,
        found: &[Option<Found>],
        newest: impl Fn(usize) -> Time,
    ) {
        let mut hash = Hash::default();
        for (at, found) in found.iter().enumerate() {
            let Some(found) = found.filter(|found| found.stamp == newest(at)) else { return };
            hash.add(found.value.as_bytes());
        }
        self.digests.insert(format!("{task}@{}", release.0), format!("{:016x}", hash.0));
    }

    fn refused(&mut self, what: &str, result: &Result<(), String>) {
        if let Err(reason) = result {
            // Figures in it make one kind of refusal to many.
            let reason: String = reason.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            let mut kind = format!("{what}: {reason}");
            if self.refusals.len() >= REFUSALS_MAX && !self.refusals.contains_key(&kind) {
                kind = "others".to_owned();
            }
            *self.refusals.entry(kind).or_default() += 1;
        }
    }

    /// Those of another task as well.
    pub fn add(&mut self, other: Account) {
        self.iterations += other.iterations;
        self.missed += other.missed;
        self.read += other.read;
        self.written += other.written;
        self.wrong += other.wrong;
        self.reading.add(&other.reading);
        self.writing.add(&other.writing);
        self.reading_ns += other.reading_ns;
        self.writing_ns += other.writing_ns;
        self.digests.extend(other.digests);
        for (reason, count) in other.refusals {
            *self.refusals.entry(reason).or_default() += count;
        }
    }

    pub fn report(self) -> Report {
        let mean_us = |ns: u64, count: u64| ns as f64 / 1e3 / count.max(1) as f64;
        Report {
            iterations: self.iterations,
            missed: self.missed,
            read_share: self.read as f64 / self.iterations.max(1) as f64,
            write_share: self.written as f64 / self.iterations.max(1) as f64,
            wrong: self.wrong,
            read_mean_us: mean_us(self.reading_ns, self.reading.count()),
            write_mean_us: mean_us(self.writing_ns, self.writing.count()),
            read: self.reading.quantiles(),
            write: self.writing.quantiles(),
            digests: self.digests,
            refusals: self.refusals,
        }
    }
}

/// What a node's tasks have to say.
#[derive(Serialize)]
pub struct Report {
    /// Releases in the time that counts.
    pub iterations: u64,
    /// Those of them that came too late to be served.
    missed: u64,
    /// Iterations in which all reads succeeded.
    read_share: f64,
    /// The same for writes.
    write_share: f64,
    /// Values that were read and that no correct node has written.
    wrong: u64,
    read_mean_us: f64,
    write_mean_us: f64,
    read: Quantiles,
    write: Quantiles,
    /// What was read, by task and release.
    digests: BTreeMap<String, String>,
    refusals: BTreeMap<String, u64>,
}
