//! What came of it: angles, reads and writes in each part, and whether the store kept what it promises.

use super::replica::Record;
use super::script::Part;
use super::script::Phase;
use super::stand::SAMPLE;
use super::{FLOATS, LIAR, MEASURED};
use crate::pendulum::KvDemoArguments;
use console::{Trouble, line, table};
use contract::{Span, Time};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// With the store the pole stays within this, in degrees; pushes alone make about 8 of them.
pub const BOUND_DEGREES: f64 = 20.0;

/// What there is to judge from.
pub struct Seen<'a> {
    /// With and without the store, every [`SAMPLE`], in rad.
    pub angles: [&'a [f64]; 2],
    /// By replica.
    pub records: &'a [Vec<Record>],
    /// What the nodes say at the end that were honest all the time.
    pub statuses: &'a [Value],
    pub phases: &'a [Phase],
    /// When the poles were let go.
    pub begun: Time,
}

/// The whole demo.
#[derive(Serialize)]
pub struct Report {
    /// Whether the pole stayed within its bound with the store, and nobody disagreed.
    pub kept: bool,
    pub seconds: u32,
    pub period_ms: f64,
    /// What the actuator does with the forces of replicas that do not use the store.
    pub without: String,
    pub bound_degrees: f64,
    pub angle_max_with: f64,
    pub angle_max_without: f64,
    /// When the pole fell that was balanced without the store, in seconds.
    pub fell_without_at: Option<f64>,
    pub parts: Vec<Row>,
    pub agreement: Agreement,
    /// Of a job, in milliseconds, on the nodes that were honest all the time.
    pub coordination_mean_ms: Option<f64>,
    pub coordination_worst_ms: Option<f64>,
    pub jobs: u64,
    /// Those of them in which all four nodes were heard.
    pub jobs_complete: u64,
    /// Where the picture is.
    pub picture: String,
}

/// One part of the demo. Percentages are those of replicas a, b and c.
#[derive(Serialize)]
pub struct Row {
    pub part: &'static str,
    pub from: f64,
    pub until: f64,
    /// The greatest, in degrees.
    pub angle_with: f64,
    pub angle_without: f64,
    pub releases: u64,
    pub releases_missed: u64,
    pub reads_percent: f64,
    pub writes_percent: f64,
}

/// What correct replicas read, held against each other.
#[derive(Serialize, Default)]
pub struct Agreement {
    /// Values that at least two of them read.
    pub compared: u64,
    /// Those of which somebody read another one.
    pub disagreed: u64,
    /// Releases of a correct replica that had all values.
    pub complete: u64,
    /// Nodes that raised an alarm: more than `f` others published something else.
    pub alarms: u64,
}

impl Report {
    pub fn of(seen: &Seen<'_>, arguments: &KvDemoArguments) -> Report {
        let parts: Vec<Row> = seen.phases.iter().map(|phase| seen.row(phase, arguments.period)).collect();
        let greatest = |angle: fn(&Row) -> f64| parts.iter().map(angle).fold(0.0, f64::max);
        let (with, without) = (greatest(|row| row.angle_with), greatest(|row| row.angle_without));
        let agreement = seen.agreement(arguments.period);
        let fell = seen.angles[1].iter().position(|angle| angle.to_degrees().abs() >= 90.0);
        let lanes = || seen.statuses.iter().map(|status| &status["lanes"][0]);
        let count = |name: &str| lanes().filter_map(|lane| lane["jobs"][name].as_u64()).sum::<u64>();
        let millis = |name: &str| {
            lanes()
                .filter_map(|lane| lane["coordination_seconds"][name].as_f64())
                .map(|s| s * 1e3)
                .reduce(f64::max)
        };
        let all_there = seen.statuses.len() == LIAR && agreement.compared > 0;
        Report {
            kept: with <= BOUND_DEGREES && agreement.disagreed == 0 && agreement.alarms == 0 && all_there,
            seconds: arguments.seconds,
            period_ms: arguments.period.as_millis_f64(),
            without: arguments.without.name(),
            bound_degrees: BOUND_DEGREES,
            angle_max_with: with,
            angle_max_without: without,
            fell_without_at: fell.map(|sample| sample as f64 * SAMPLE.0 as f64 / 1e9),
            parts,
            agreement,
            coordination_mean_ms: millis("mean"),
            coordination_worst_ms: millis("worst"),
            jobs: count("counted"),
            jobs_complete: count("complete"),
            picture: arguments.out.display().to_string(),
        }
    }
}

impl Seen<'_> {
    fn row(&self, phase: &Phase, period: Span) -> Row {
        let sample = |at: Span| (at.0 / SAMPLE.0) as usize;
        let greatest = |angles: &[f64]| {
            let shown = angles.iter().take(sample(phase.until)).skip(sample(phase.from));
            shown.map(|angle| angle.to_degrees().abs()).fold(0.0, f64::max)
        };
        let (from, until) = (self.begun + phase.from, self.begun + phase.until);
        let is_in = |record: &&Record| record.release >= from && record.release < until;
        let records: Vec<&Record> = self.records[..LIAR].iter().flatten().filter(is_in).collect();
        let releases = records.len() as u64;
        let due = LIAR as u64 * ((until.0 - 1) / period.0 as u64 - (from.0 - 1) / period.0 as u64);
        let read: usize = records.iter().map(|record| record.read.iter().flatten().count()).sum();
        let written: usize = records.iter().map(|record| record.written).sum();
        let percent = |count: usize| 100.0 * count as f64 / (due.max(1) as usize * FLOATS) as f64;
        Row {
            part: phase.part.name(),
            from: phase.from.0 as f64 / 1e9,
            until: phase.until.0 as f64 / 1e9,
            angle_with: greatest(self.angles[0]),
            angle_without: greatest(self.angles[1]),
            releases,
            releases_missed: due.saturating_sub(releases),
            reads_percent: percent(read),
            writes_percent: percent(written),
        }
    }

    /// The liar's own reads count only where it was honest: nobody promises a faulty node anything.
    fn agreement(&self, period: Span) -> Agreement {
        let mut agreement = Agreement::default();
        let mut values: BTreeMap<(usize, Time), (u64, u64, bool)> = BTreeMap::new();
        let lying: Vec<&Phase> = self.phases.iter().filter(|phase| phase.part == Part::Lying).collect();
        let is_lie = |stamp: Time| {
            // What it published in this time, and what it wrote at its end.
            lying.iter().any(|phase| {
                stamp >= self.begun + phase.from && stamp <= self.begun + phase.until + period * 2
            })
        };
        for (place, records) in self.records.iter().enumerate() {
            for record in records {
                agreement.complete += u64::from(place != LIAR && record.read.iter().all(Option::is_some));
                for (key, (stamp, bits)) in
                    record.read.iter().enumerate().filter_map(|(key, read)| Some((key, (*read)?)))
                {
                    if place == LIAR && is_lie(stamp) {
                        continue;
                    }
                    let (readers, first, differ) = values.entry((key, stamp)).or_insert((0, bits, false));
                    *readers += 1;
                    *differ |= *first != bits;
                }
            }
        }
        agreement.compared = values.values().filter(|(readers, ..)| *readers > 1).count() as u64;
        agreement.disagreed = values.values().filter(|(.., differ)| *differ).count() as u64;
        let alarms = |status: &Value| status["lanes"][0]["jobs"]["alarms"].as_u64();
        agreement.alarms = self.statuses.iter().filter_map(alarms).sum();
        agreement
    }
}

/// Prints the report for people.
pub fn show(report: &Report) -> Result<(), Trouble> {
    let headings = ["part", "s", "with °", "without °", "releases", "missed", "reads %", "writes %"];
    let mut shown = table(&headings, &[1, 2, 3, 4, 5, 6, 7]);
    for row in &report.parts {
        shown.add_row([
            row.part.to_owned(),
            format!("{:.1} to {:.1}", row.from, row.until),
            format!("{:.1}", row.angle_with),
            format!("{:.1}", row.angle_without),
            row.releases.to_string(),
            row.releases_missed.to_string(),
            format!("{:.2}", row.reads_percent),
            format!("{:.2}", row.writes_percent),
        ]);
    }
    line(&shown.to_string())?;
    line(&format!(
        "angles are the greatest of each part; releases, reads and writes are those of replicas a, b and c, {FLOATS} values in each period: \
         {} measured, the rest computed",
        MEASURED.len()
    ))?;
    let agreement = &report.agreement;
    line(&format!(
        "{} values were read by several correct replicas, and {} of them differed; alarms: {}",
        agreement.compared, agreement.disagreed, agreement.alarms
    ))?;
    let millis = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
    line(&format!(
        "a coordination took {} ms on the mean and {} ms at worst, of a period of {} ms; {} of {} heard all nodes",
        millis(report.coordination_mean_ms),
        millis(report.coordination_worst_ms),
        report.period_ms,
        report.jobs_complete,
        report.jobs
    ))?;
    if let Some(at) = report.fell_without_at {
        line(&format!("without the store ({}) the pole fell at {at:.2} s", report.without))?;
    }
    line(&format!("the picture is {}", report.picture))?;
    line(match (report.kept, report.angle_max_with <= report.bound_degrees) {
        (true, _) => "with the store the pole stayed upright, and all correct replicas read the same",
        (false, true) => "correct replicas DISAGREED, or a node that should be there did not answer",
        (false, false) => {
            "with the store the pole did NOT stay within its bound: is this host too busy (see `verge doctor`)?"
        }
    })
}
