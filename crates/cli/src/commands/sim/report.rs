//! The result of simulating a configuration: a row for each family of topics, and whether all contracts were kept.

use super::costing::Costing;
use super::runs::Flaw;
use super::tally::{Breach, Fate, Tally};
use crate::output::{Trouble, line, millis, table};
use config::{Config, TopicFamily};
use contract::{Admission, Loss, Span};
use planner::admit;
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// What is printed, or handed over as JSON.
#[derive(Serialize)]
pub struct Report {
    pub kept: bool,
    first_seed: u64,
    runs: u64,
    simulated_s: f64,
    real_s: f64,
    times_real_time: f64,
    deaths: u64,
    worst_failover_ms: f64,
    assumed_failover_ms: f64,
    costs_us: [f64; 3],
    true_costs_us: [f64; 3],
    /// What to add to the command for the same costs on another host.
    pub repeat: Vec<String>,
    /// Why loss bounds and deadlines are not demanded, if so.
    pub beyond: Vec<String>,
    /// Configured operators, which are not simulated.
    operators_left_out: usize,
    topics: Vec<Row>,
    pub violations: Vec<Violation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub story: Vec<String>,
}

/// A run that went wrong.
#[derive(Serialize)]
pub struct Violation {
    pub seed: u64,
    pub checker: &'static str,
    pub what: String,
    pub replay: String,
}

impl Violation {
    /// A flaw with the command that shows it again.
    pub fn new(seed: u64, flaw: &Flaw, replay: String) -> Violation {
        Violation { seed, checker: flaw.checker, what: flaw.what.clone(), replay }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Kept,
    Broken,
    Refused,
    /// A run was broken off by a violated invariant.
    Unclear,
}

#[derive(Serialize)]
struct Row {
    filter: String,
    streams: u32,
    period_ms: Option<f64>,
    deadline_ms: Option<f64>,
    loss: String,
    retain: u32,
    link: String,
    published: u64,
    received: u64,
    copied_share: f64,
    utilisation: f64,
    worst_run: u64,
    /// How many more in a row might have been lost.
    spare_run: Option<i64>,
    /// Nothing where faults left no calm.
    worst_ms: Option<f64>,
    /// How much later the latest message might have come, faults aside.
    spare_ms: Option<f64>,
    late: u64,
    worst_around_faults_ms: Option<f64>,
    late_around_faults: u64,
    refused_streams: u64,
    reason: String,
    verdict: Verdict,
    /// Why no guarantee was violated though the contract was broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_covered: Vec<String>,
    /// The command that tells the story of the run that broke the contract most.
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<String>,
}

/// So many families with the same trouble are named.
const BROKEN_LISTED: usize = 6;
/// So many violating runs are described.
const VIOLATIONS_SHOWN: usize = 3;

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

    fn cells(&self) -> [String; 16] {
        let flowed = |text: String| if self.published > 0 { text } else { "-".to_owned() };
        let ms = |value: f64| millis(Span((value * 1e6).round() as i64));
        let plain = |value: Option<f64>| {
            value.map_or("∞".to_owned(), |ms| Span((ms * 1e6) as i64).as_millis_f64().to_string())
        };
        let spare_run = self.spare_run.map_or("-".to_owned(), |run| run.to_string());
        [
            self.filter.clone(),
            self.streams.to_string(),
            plain(self.period_ms),
            plain(self.deadline_ms),
            self.loss.clone(),
            self.retain.to_string(),
            flowed(format!("{:.1}", self.copied_share * 100.0)),
            format!("{:.3}", self.utilisation * 100.0),
            flowed(self.worst_run.to_string()),
            spare_run,
            self.worst_ms.map_or("-".to_owned(), ms),
            self.spare_ms.map_or("-".to_owned(), ms),
            flowed(self.late.to_string()),
            self.worst_around_faults_ms.map_or("-".to_owned(), ms),
            flowed(self.late_around_faults.to_string()),
            match self.verdict {
                Verdict::Kept => "kept",
                Verdict::Broken => "BROKEN",
                Verdict::Refused => "REFUSED",
                Verdict::Unclear => "unclear",
            }
            .to_owned(),
        ]
    }
}

const HEADINGS: [&str; 16] = [
    "topics",
    "streams",
    "T ms",
    "D ms",
    "L",
    "N",
    "copied %",
    "CPU %",
    "lost run",
    "spare",
    "worst ms",
    "spare ms",
    "late",
    "fault ms",
    "fault late",
    "contract",
];

/// Prints the report for people.
pub fn show(report: &Report) -> Result<(), Trouble> {
    let mut shown = table(&HEADINGS, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    for row in &report.topics {
        shown.add_row(row.cells());
    }
    line(&shown.to_string())?;
    for row in report.topics.iter().filter(|row| row.verdict == Verdict::Refused) {
        let reason = if row.reason.is_empty() { "not admitted" } else { &row.reason };
        line(&format!("{}: {reason} (see `verge check`)", row.filter))?;
    }
    show_broken(report)?;
    show_costs(report)?;
    let failover = if report.worst_failover_ms > 0.0 {
        let (worst, assumed) = (report.worst_failover_ms, report.assumed_failover_ms);
        format!("worst failover {worst:.3} ms of {assumed} ms (network.failover)")
    } else {
        "no failover after a death".to_owned()
    };
    line(&format!(
        "{failover}; {} with seeds from {}, {} of a broker; {:.1} s \
         simulated in {:.1} s, {:.0} times real time",
        number_of(report.runs, "run", "runs"),
        report.first_seed,
        number_of(report.deaths, "death", "deaths"),
        report.simulated_s,
        report.real_s,
        report.times_real_time
    ))?;
    if report.operators_left_out > 0 {
        line(&format!(
            "{} not simulated: topics are taken as if nobody processed them, without the copies and the load that \
             results need (see `verge graph` for those)",
            number_of(report.operators_left_out as u64, "configured operator is", "configured operators are")
        ))?;
    }
    for violation in report.violations.iter().take(VIOLATIONS_SHOWN) {
        line(&format!("seed {}: {}\n  again: {}", violation.seed, violation.what, violation.replay))?;
    }
    line(&conclusion(report))
}

/// Of broken contracts, those together that have the same excuse, with the story to look at.
fn show_broken(report: &Report) -> Result<(), Trouble> {
    let broken: Vec<&Row> = report.topics.iter().filter(|row| row.verdict == Verdict::Broken).collect();
    let mut shown: Vec<&[String]> = Vec::new();
    for row in &broken {
        if shown.contains(&row.not_covered.as_slice()) {
            continue;
        }
        shown.push(&row.not_covered);
        let alike: Vec<&str> = broken
            .iter()
            .filter(|other| other.not_covered == row.not_covered)
            .map(|row| row.filter.as_str())
            .collect();
        let (listed, others) = alike.split_at(alike.len().min(BROKEN_LISTED));
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        let why = if !row.not_covered.is_empty() {
            format!(
                ", though no guarantee was violated, since none covers this: {}",
                row.not_covered.join("; and ")
            )
        } else if report.violations.is_empty() {
            ", and nothing in this scenario excuses it: please report the command below".to_owned()
        } else {
            String::new()
        };
        line(&format!("{}{more}: BROKEN{why}", listed.join(", ")))?;
        if let Some(again) = &row.again {
            line(&format!("  the story of the worst run: {again}"))?;
        }
    }
    Ok(())
}

fn show_costs(report: &Report) -> Result<(), Trouble> {
    let [arrival, dispatch, replication] = report.costs_us;
    let measured = if report.repeat.is_empty() {
        String::new()
    } else {
        format!("\n  for the same again: {}", report.repeat.join(" "))
    };
    line(&format!(
        "a message costs {arrival:.2} us to take in, {dispatch:.2} us per subscriber, {replication:.2} us to copy, as \
         admission counts; in truth {:.2}, {:.2} and {:.2} us{measured}",
        report.true_costs_us[0], report.true_costs_us[1], report.true_costs_us[2]
    ))
}

/// A number with its noun.
pub fn number_of(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn conclusion(report: &Report) -> String {
    let late: u64 = report.topics.iter().map(|row| row.late_around_faults).sum();
    if report.kept {
        let late = match late {
            0 => String::new(),
            late => format!(
                "; {} came late around a fault, which deadlines do not cover",
                number_of(late, "message", "messages")
            ),
        };
        return format!("every contract was kept{late}");
    }
    let count = |verdict| report.topics.iter().filter(|row| row.verdict == verdict).count() as u64;
    let family = |number, what| {
        (number > 0).then(|| {
            format!("{} {what}", number_of(number, "family of topics has", "families of topics have"))
        })
    };
    let violations = report.violations.len() as u64;
    let parts = [
        family(count(Verdict::Broken), "a BROKEN contract"),
        family(count(Verdict::Refused), "REFUSED streams"),
        (violations > 0).then(|| format!("{} violated an invariant", number_of(violations, "run", "runs"))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
