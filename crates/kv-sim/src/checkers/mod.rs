//! What must hold: one property per file, demanded of plain facts that are written down here. [`Watch`] hears all that happens in a lane.
//!
//! The first thing that is broken ends the run; later ones are usually its consequences.

mod agreement;
mod alarm;
mod evidence;
mod freshness;
mod history;
mod instants;
mod recovery;
mod single;
mod termination;
mod validity;
mod votes;
mod writes;

use crate::ledger::{Ledger, Read, Terms};
use crate::part::Write;
use crate::report::Findings;
use contract::{Span, Time};
use kv::{Dropped, Node, Outcome, Taken, WriteError};
use std::fmt;

/// Something that must hold did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The checker that noticed.
    pub checker: &'static str,
    /// When, since the beginning, on a right clock.
    pub at: Span,
    /// At which node.
    pub node: usize,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}, node {}: {}", self.checker, self.at, self.node, self.what)
    }
}

/// The names of all checkers, with what each of them states.
pub const CHECKERS: &[(&str, &str)] = &[
    (agreement::NAME, agreement::STATEMENT),
    (validity::NAME, validity::STATEMENT),
    (instants::NAME, instants::STATEMENT),
    (single::NAME, single::STATEMENT),
    (termination::NAME, termination::STATEMENT),
    (freshness::NAME, freshness::STATEMENT),
    (history::NAME, history::STATEMENT),
    (votes::NAME, votes::STATEMENT),
    (evidence::NAME, evidence::STATEMENT),
    (writes::NAME, writes::STATEMENT),
    (alarm::NAME, alarm::STATEMENT),
    (recovery::NAME, recovery::STATEMENT),
];

/// A value that has been published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Publication {
    pub(crate) key: u16,
    pub(crate) stamp: Time,
    pub(crate) value: Vec<u8>,
}

/// What a job came to at a node.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// What was agreed on, by node.
    pub(crate) vector: Vec<Vec<u8>>,
    /// What the lane gave to others, of this job, and of those before.
    pub(crate) published: Vec<Publication>,
    pub(crate) recovered: Vec<Publication>,
    /// How many values the lane counts as late since it began.
    pub(crate) late_in_all: u64,
}

/// Hears everything that happens in one lane.
pub(crate) struct Watch {
    pub(crate) ledger: Ledger,
    violation: Option<(&'static str, usize, String)>,
    only: Option<&'static str>,
}

impl Watch {
    pub(crate) fn new(terms: Terms, only: Option<&'static str>) -> Watch {
        Watch { ledger: Ledger::new(terms), violation: None, only }
    }

    /// What was broken first, if anything: the checker, the node, and what happened.
    pub(crate) fn violation(&self) -> Option<&(&'static str, usize, String)> {
        self.violation.as_ref()
    }

    fn note(&mut self, node: usize, name: &'static str, result: Result<(), String>) {
        if let (Err(what), None) = (result, &self.violation)
            && self.only.is_none_or(|only| only == name)
        {
            self.violation = Some((name, node, what));
        }
    }

    /// A node's lane begins its life.
    pub(crate) fn born(&mut self, node: usize, now: Time, rejoins: bool) {
        self.ledger.born(node, now, rejoins);
    }

    /// A task, or a ring, has tried to write.
    pub(crate) fn wrote(&mut self, node: usize, now: Time, write: &Write, result: Result<(), WriteError>) {
        let checked = writes::wrote(&self.ledger, node, now, write, result);
        self.note(node, writes::NAME, checked);
        if result.is_ok() {
            self.ledger.wrote(node, write);
        }
    }

    /// A job has begun.
    pub(crate) fn begun(&mut self, node: usize, release: Time, now: Time) {
        let checked = writes::begun(&self.ledger, node, release);
        self.note(node, writes::NAME, checked);
        let checked = termination::begun(&self.ledger, node);
        self.note(node, termination::NAME, checked);
        self.ledger.begun(node, release, now);
    }

    /// A job has been skipped, and what was written for it.
    pub(crate) fn missed(&mut self, node: usize) {
        self.ledger.missed(node);
    }

    /// A frame has been given to the lane.
    pub(crate) fn took(&mut self, node: usize, from: usize, frame: &[u8], result: Result<Taken, Dropped>) {
        let checked = evidence::took(&self.ledger, frame, result);
        self.note(node, evidence::NAME, checked);
        if result.is_ok() {
            self.ledger.took(node, from, frame);
        }
    }

    /// The lane waits, by its own clock.
    pub(crate) fn waits(&mut self, node: usize, now: Time, until: Time) {
        let checked = termination::waits(&self.ledger, node, now, until);
        self.note(node, termination::NAME, checked);
    }

    /// A job has ended and its values are published.
    pub(crate) fn ended(&mut self, node: usize, now: Time, ended: &Ended) {
        let ledger = &self.ledger;
        let Some(job) = ledger.job_of(node) else { return };
        let checks = [
            (single::NAME, single::published(ledger, node, ended)),
            (instants::NAME, instants::published(ledger, node, now, ended)),
            (termination::NAME, termination::ended(ledger, node, now)),
            (agreement::NAME, agreement::ended(ledger, node, job, ended)),
            (validity::NAME, validity::ended(ledger, node, job, ended)),
            (votes::NAME, votes::ended(ledger, node, ended)),
            (alarm::NAME, alarm::ended(ledger, node, job, ended)),
            (recovery::NAME, recovery::ended(ledger, node, job, ended)),
            (evidence::NAME, evidence::ended(ledger, node, job, ended)),
        ];
        for (name, result) in checks {
            self.note(node, name, result);
        }
        self.ledger.ended(node, job, ended);
    }

    /// Somebody has read.
    pub(crate) fn read(&mut self, node: usize, read: &Read) {
        let checks = [
            (single::NAME, single::read(&self.ledger, node, read)),
            (instants::NAME, instants::read(read)),
            (freshness::NAME, freshness::read(&self.ledger, node, read)),
        ];
        for (name, result) in checks {
            self.note(node, name, result);
        }
    }

    /// Somebody has read all that is kept under a key, newest first.
    pub(crate) fn looked_back(&mut self, node: usize, key: u16, kept: &[(Time, Vec<u8>)]) {
        let checked = history::kept(&self.ledger, node, key, kept);
        self.note(node, history::NAME, checked);
    }

    /// The run is over; `accused` are the peers that a node's counters call lying or forging.
    pub(crate) fn ends(&mut self, node: usize, accused: impl Iterator<Item = Node>) {
        let checked = evidence::ends(&self.ledger, node, accused);
        self.note(node, evidence::NAME, checked);
        let checked = termination::begun(&self.ledger, node);
        self.note(node, termination::NAME, checked);
    }

    pub(crate) fn findings(&self, findings: &mut Findings) {
        let found = &self.ledger.found;
        findings.jobs += found.jobs;
        findings.values += found.values;
        findings.late += found.late;
        findings.undecided += found.undecided;
        findings.alarms += found.alarms;
        findings.disagreements += found.disagreements;
        findings.accusations += found.accusations;
        findings.writes += found.writes;
    }
}
