//! What became of each family of topics, over all runs.

use super::deployment::Deployment;
use super::faults::Disturbances;
use super::runs::Flaw;
use contract::Span;
use sim::{Findings, Scenario};

/// What became of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fate {
    /// Messages that publishers handed over.
    pub accepted: u64,
    /// Copies that went to a backup.
    pub copies: u64,
    /// Messages that came.
    pub received: u64,
    /// Those of them that came while nothing was broken.
    pub received_calm: u64,
    /// The longest run of losses of any stream at any subscriber.
    pub worst_run: u64,
    /// The longest way of a message while nothing was broken.
    pub worst_calm: Span,
    /// The longest way of a message around a fault.
    pub worst_disturbed: Span,
    /// Late messages while nothing was broken.
    pub late_calm: u64,
    /// Late messages around a fault.
    pub late_disturbed: u64,
    /// Streams that were refused, in the worst run.
    pub refused: u64,
}

/// What a run, or all of them, came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// By family.
    pub fates: Vec<Fate>,
    /// The longest time that a publisher was without a primary.
    pub worst_failover: Span,
    /// Time of the simulated world.
    pub lasted: Span,
    /// Brokers that died.
    pub deaths: u64,
}

impl Tally {
    /// Nothing yet.
    pub fn new(families: usize) -> Tally {
        Tally { fates: vec![Fate::default(); families], ..Tally::default() }
    }

    /// What one run came to. Of a run that was broken off, losses are not counted: messages were still on their way.
    pub fn of_run(
        scenario: &Scenario,
        findings: &Findings,
        flaw: Option<&Flaw>,
        deployment: &Deployment,
    ) -> Tally {
        let mut tally = Tally::new(scenario.topics.len());
        tally.worst_failover = findings.worst_failover;
        tally.lasted = findings.lasted;
        tally.deaths = findings.deaths.len() as u64;
        let cut_short = flaw.is_some_and(|flaw| flaw.cut_short);
        let mut families = Vec::with_capacity(findings.streams.len());
        for stream in &findings.streams {
            let family = deployment.family_of.get(&stream.topic).copied().unwrap_or(0);
            families.push(family);
            let Some(fate) = tally.fates.get_mut(family) else { continue };
            fate.accepted += stream.accepted;
            fate.copies += stream.copies;
            fate.refused += u64::from(stream.admitted == Some(false));
            if !cut_short {
                fate.worst_run = fate.worst_run.max(stream.worst_run);
            }
        }
        let disturbances = Disturbances::of(scenario, &findings.deaths);
        for sample in &findings.samples {
            let place = sample.stream as usize;
            let (Some(stream), Some(family)) = (findings.streams.get(place), families.get(place)) else {
                continue;
            };
            let Some(fate) = tally.fates.get_mut(*family) else { continue };
            let deadline = stream.contract.deadline;
            let late = u64::from(sample.latency > deadline);
            fate.received += 1;
            if disturbances.are_clear_of(sample.at, sample.latency) {
                fate.received_calm += 1;
                fate.worst_calm = fate.worst_calm.max(sample.latency);
                fate.late_calm += late;
            } else {
                fate.worst_disturbed = fate.worst_disturbed.max(sample.latency);
                fate.late_disturbed += late;
            }
        }
        tally
    }

    /// Adds another run.
    pub fn merge(&mut self, other: &Tally) {
        for (fate, other) in self.fates.iter_mut().zip(&other.fates) {
            fate.accepted += other.accepted;
            fate.copies += other.copies;
            fate.received += other.received;
            fate.received_calm += other.received_calm;
            fate.worst_run = fate.worst_run.max(other.worst_run);
            fate.worst_calm = fate.worst_calm.max(other.worst_calm);
            fate.worst_disturbed = fate.worst_disturbed.max(other.worst_disturbed);
            fate.late_calm += other.late_calm;
            fate.late_disturbed += other.late_disturbed;
            fate.refused = fate.refused.max(other.refused);
        }
        self.worst_failover = self.worst_failover.max(other.worst_failover);
        self.lasted += other.lasted;
        self.deaths += other.deaths;
    }
}
