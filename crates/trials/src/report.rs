//! The result of simulating a configuration: a row for each family of topics, and whether all contracts were kept.

use crate::costing::Costing;
use crate::runs::Flaw;
use crate::tally::{Breach, Fate, Tally};
use config::{Config, TopicFamily};
use contract::{Admission, Loss, Span};
use planner::admit;
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// What is printed, or handed over as JSON.
#[derive(Serialize)]
pub struct Report {
    /// Whether every contract was kept, and nothing else went wrong.
    pub kept: bool,
    /// The first seed.
    pub first_seed: u64,
    /// How many.
    pub runs: u64,
    /// Invented time of all runs.
    pub simulated_s: f64,
    /// What they took.
    pub real_s: f64,
    /// How much faster that is.
    pub times_real_time: f64,
    /// Brokers that died.
    pub deaths: u64,
    /// The slowest failover.
    pub worst_failover_ms: f64,
    /// What is configured.
    pub assumed_failover_ms: f64,
    /// What admission counts with: to take a message in, per subscriber, to copy.
    pub costs_us: [f64; 3],
    /// The same in truth.
    pub true_costs_us: [f64; 3],
    /// What to add to the command for the same costs on another host.
    pub repeat: Vec<String>,
    /// Why loss bounds and deadlines are not demanded, if so.
    pub beyond: Vec<String>,
    /// Configured operators, which are not simulated.
    pub operators_left_out: usize,
    /// By family.
    pub topics: Vec<Row>,
    /// Runs that went wrong.
    pub violations: Vec<Violation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    /// The story of one run.
    pub story: Vec<String>,
}

/// A run that went wrong.
#[derive(Serialize)]
pub struct Violation {
    /// Its seed.
    pub seed: u64,
    /// Who noticed.
    pub checker: &'static str,
    /// What happened.
    pub what: String,
    /// The command that shows it again.
    pub replay: String,
}

impl Violation {
    /// A flaw with the command that shows it again.
    pub fn new(seed: u64, flaw: &Flaw, replay: String) -> Violation {
        Violation { seed, checker: flaw.checker, what: flaw.what.clone(), replay }
    }
}

/// What a contract came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was kept.
    Kept,
    /// It was not.
    Broken,
    /// It was not admitted.
    Refused,
    /// A run was broken off by a violated invariant.
    Unclear,
}

/// The topics of one family.
#[derive(Serialize)]
pub struct Row {
    /// The filter of the family.
    pub filter: String,
    /// How many streams it has.
    pub streams: u32,
    /// `T`; nothing where there is none.
    pub period_ms: Option<f64>,
    /// `D`; nothing where there is none.
    pub deadline_ms: Option<f64>,
    /// `L`.
    pub loss: String,
    /// `N`.
    pub retain: u32,
    /// The class of the link to its subscribers.
    pub link: String,
    /// Messages that brokers accepted.
    pub published: u64,
    /// Messages that came to subscribers.
    pub received: u64,
    /// How many of those accepted were copied.
    pub copied_share: f64,
    /// The share of a processor that admission counts.
    pub utilisation: f64,
    /// The longest run of losses.
    pub worst_run: u64,
    /// How many more in a row might have been lost.
    pub spare_run: Option<i64>,
    /// Nothing where faults left no calm.
    pub worst_ms: Option<f64>,
    /// How much later the latest message might have come, faults aside.
    pub spare_ms: Option<f64>,
    /// Messages that came late, faults aside.
    pub late: u64,
    /// The slowest around a fault.
    pub worst_around_faults_ms: Option<f64>,
    /// Messages that came late around a fault.
    pub late_around_faults: u64,
    /// Streams that were not admitted.
    pub refused_streams: u64,
    /// Why.
    pub reason: String,
    /// What the contract came to.
    pub verdict: Verdict,
    /// Why no guarantee was violated though the contract was broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_covered: Vec<String>,
    /// The command that tells the story of the run that broke the contract most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

impl Report {
    /// Nothing found yet.
    pub fn new(config: &Config, costing: &Costing, seeds: &Range<u64>) -> Report {
        let micros = |span: Span| span.0 as f64 / 1e3;
        let three = |costs: contract::admission::Costs| {
            [micros(costs.arrival), micros(costs.dispatch), micros(costs.replication)]
        };
        let mut admission =
            Admission::new(config.delays, config.links.clone(), costing.admission, costing.supply)
                .with_lazy(config.replication.lazy())
                .with_best_effort(config.admission.best_effort_subscriptions);
        let row = |family: &TopicFamily| {
            let checked = admit(&mut admission, family);
            Row::new(family, checked.utilisation, checked.reason)
        };
        Report {
            kept: false,
            first_seed: seeds.start,
            runs: seeds.end - seeds.start,
            simulated_s: 0.0,
            real_s: 0.0,
            times_real_time: 0.0,
            deaths: 0,
            worst_failover_ms: 0.0,
            assumed_failover_ms: config.delays.failover.as_millis_f64(),
            costs_us: three(costing.admission),
            true_costs_us: three(costing.truth),
            repeat: Vec::new(),
            beyond: Vec::new(),
            operators_left_out: config.processing.graphs.iter().map(|graph| graph.operators.len()).sum(),
            topics: config.topics.iter().map(row).collect(),
            violations: Vec::new(),
            story: Vec::new(),
        }
    }

    /// Says of broken contracts why, unless an invariant was violated, and how to see it again.
    pub fn explain(
        &mut self,
        tally: &Tally,
        config: &Config,
        excuses: impl Fn(u64, bool) -> Vec<String>,
        again: impl Fn(u64) -> String,
    ) {
        let rows = self.topics.iter_mut().zip(&config.topics).zip(&tally.fates);
        for ((row, family), fate) in rows.filter(|((row, _), _)| row.verdict == Verdict::Broken) {
            let seed = fate.breach.map_or(self.first_seed, Breach::seed);
            row.again = Some(again(seed));
            if self.violations.is_empty() {
                row.not_covered = excuses(seed, family.rule.contract.confirm);
            }
        }
    }

    /// Puts in what all runs together came to.
    pub fn conclude(&mut self, tally: &Tally, config: &Config, took: Duration) {
        self.violations.sort_by_key(|violation| violation.seed);
        for ((row, family), fate) in self.topics.iter_mut().zip(&config.topics).zip(&tally.fates) {
            row.conclude(family, fate);
            if row.verdict == Verdict::Kept && tally.cut_short > 0 {
                row.verdict = Verdict::Unclear;
            }
        }
        self.deaths = tally.deaths;
        self.worst_failover_ms = tally.worst_failover.as_millis_f64();
        self.simulated_s = tally.lasted.0 as f64 / 1e9;
        self.real_s = took.as_secs_f64();
        self.times_real_time = self.simulated_s / self.real_s.max(1e-9);
        let all_kept = self.topics.iter().all(|row| row.verdict == Verdict::Kept);
        self.kept = all_kept && self.violations.is_empty();
    }
}

fn finite(span: Span) -> Option<f64> {
    (!span.is_forever()).then(|| span.as_millis_f64())
}

impl Row {
    fn new(family: &TopicFamily, utilisation: f64, reason: String) -> Row {
        let contract = &family.rule.contract;
        Row {
            filter: family.rule.filter.to_string(),
            streams: family.streams,
            period_ms: finite(contract.period),
            deadline_ms: finite(contract.deadline),
            loss: contract.loss.to_string(),
            retain: contract.retain,
            link: contract.link.to_string(),
            published: 0,
            received: 0,
            copied_share: 0.0,
            utilisation,
            worst_run: 0,
            spare_run: None,
            worst_ms: None,
            spare_ms: None,
            late: 0,
            worst_around_faults_ms: None,
            late_around_faults: 0,
            refused_streams: 0,
            reason,
            verdict: Verdict::Kept,
            not_covered: Vec::new(),
            again: None,
        }
    }

    fn conclude(&mut self, family: &TopicFamily, fate: &Fate) {
        let contract = &family.rule.contract;
        self.published = fate.accepted;
        self.received = fate.calm.count + fate.disturbed.count;
        self.copied_share = fate.copies as f64 / fate.accepted.max(1) as f64;
        self.worst_run = fate.worst_run;
        self.spare_run = match contract.loss {
            _ if fate.accepted == 0 => None,
            Loss::AtMost(most) => Some(i64::from(most) - fate.worst_run as i64),
            Loss::Unbounded => None,
        };
        self.worst_ms = (fate.calm.count > 0).then(|| fate.calm.worst.as_millis_f64());
        self.spare_ms =
            finite(contract.deadline).zip(self.worst_ms).map(|(deadline, worst)| deadline - worst);
        self.late = fate.calm.late;
        let disturbed = fate.disturbed.count > 0;
        self.worst_around_faults_ms = disturbed.then(|| fate.disturbed.worst.as_millis_f64());
        self.late_around_faults = fate.disturbed.late;
        self.refused_streams = fate.refused;
        // A subscription that was refused has no losses to count.
        let nothing_came = fate.accepted > 0 && self.received == 0;
        self.verdict = if fate.refused > 0 {
            Verdict::Refused
        } else if !contract.loss.tolerates(fate.worst_run) || fate.calm.late > 0 || nothing_came {
            Verdict::Broken
        } else {
            Verdict::Kept
        };
    }
}
