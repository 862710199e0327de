//! What became of each family of topics, over all runs.

use super::deployment::Deployment;
use super::runs::Flaw;
use contract::Span;
use sim::{Findings, Journeys};
use std::cmp::Reverse;

/// What became of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fate {
    /// Messages that publishers handed over.
    pub accepted: u64,
    /// Copies that went to a backup.
    pub copies: u64,
    /// The longest run of losses of any stream at any subscriber.
    pub worst_run: u64,
    /// How long messages took while nothing was broken.
    pub calm: Journeys,
    /// How long those took that were under way while something was.
    pub disturbed: Journeys,
    /// Streams that were refused, in the worst run.
    pub refused: u64,
    /// The run that broke the contract most.
    pub breach: Option<Breach>,
}

/// How a run broke a contract: the greater, the worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Breach {
    /// Losses in a row, where that is more than tolerated.
    run: u64,
    /// Messages that came late though nothing was broken.
    late: u64,
    /// The run; of equals, the first one is shown.
    seed: Reverse<u64>,
}

impl Breach {
    /// The run's seed.
    pub fn seed(self) -> u64 {
        self.seed.0
    }
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
    /// Runs that were broken off, so that what was lost in them is not known.
    pub cut_short: u64,
}

impl Tally {
    /// Nothing yet.
    pub fn new(families: usize) -> Tally {
        Tally { fates: vec![Fate::default(); families], ..Tally::default() }
    }

    /// What one run came to. Of a run that was broken off, losses are not counted: messages were still on their way.
    pub fn of_run(
        seed: u64,
        families: usize,
        findings: &Findings,
        flaw: Option<&Flaw>,
        deployment: &Deployment,
    ) -> Tally {
        let mut tally = Tally::new(families);
        tally.worst_failover = findings.worst_failover;
        tally.lasted = findings.lasted;
        tally.deaths = findings.deaths.len() as u64;
        let cut_short = flaw.is_some_and(|flaw| flaw.cut_short);
        tally.cut_short = u64::from(cut_short);
        for stream in &findings.streams {
            let family = deployment.family_of.get(&stream.topic).copied().unwrap_or(0);
            let Some(fate) = tally.fates.get_mut(family) else { continue };
            fate.accepted += stream.accepted;
            fate.copies += stream.copies;
            fate.refused += u64::from(stream.admitted == Some(false));
            fate.calm = fate.calm.and(stream.calm);
            fate.disturbed = fate.disturbed.and(stream.disturbed);
            if !cut_short {
                fate.worst_run = fate.worst_run.max(stream.worst_run);
                let run = if stream.contract.loss.tolerates(stream.worst_run) { 0 } else { stream.worst_run };
                let late = stream.calm.late;
                if run + late > 0 {
                    fate.breach = fate.breach.max(Some(Breach { run, late, seed: Reverse(seed) }));
                }
            }
        }
        tally
    }

    /// Adds another run.
    pub fn merge(&mut self, other: &Tally) {
        for (fate, other) in self.fates.iter_mut().zip(&other.fates) {
            fate.accepted += other.accepted;
            fate.copies += other.copies;
            fate.worst_run = fate.worst_run.max(other.worst_run);
            fate.calm = fate.calm.and(other.calm);
            fate.disturbed = fate.disturbed.and(other.disturbed);
            fate.refused = fate.refused.max(other.refused);
            fate.breach = fate.breach.max(other.breach);
        }
        self.worst_failover = self.worst_failover.max(other.worst_failover);
        self.lasted += other.lasted;
        self.deaths += other.deaths;
        self.cut_short += other.cut_short;
    }
}
