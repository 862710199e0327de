//! What came of it: one row per category, and whether every contract held.

use super::usage::Used;
use crate::worker::{LatencyReport, PublishReport, ReceiveReport};
use console::{Trouble, line, table};
use contract::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// The whole demo.
#[derive(Serialize)]
pub struct Report {
    /// Whether every loss and deadline contract held.
    pub kept: bool,
    pub losses_kept: bool,
    /// How messages were ordered and copied.
    pub policy: String,
    pub topics: usize,
    pub seconds: f64,
    pub categories: Vec<Row>,
    /// How long publishers were without a primary, each time.
    pub outages_ms: Vec<f64>,
    /// The longest silence of a category 0 topic around SIGKILL.
    pub silence_ms: Option<f64>,
    /// The share of one processor that the primary used while all was calm.
    pub broker_cpu: f64,
    /// What all processes used in that time.
    pub processors: Used,
    /// Its largest resident memory.
    pub broker_mib: f64,
    pub replicated_share: f64,
    /// The largest delay of a publisher behind its schedule: how busy this host was.
    pub publisher_behind_ms: f64,
    /// Of the messages that its schedule had, those that it sent: it does not catch up when it is held up.
    pub published_share: f64,
    /// The share of this host's processor time that a hypervisor gave to others.
    pub stolen_share: f64,
}

/// One category.
#[derive(Serialize, Default)]
pub struct Row {
    pub category: String,
    pub topics: u64,
    /// Those whose loss contract was kept.
    pub topics_kept: u64,
    pub period_ms: f64,
    pub deadline_ms: f64,
    pub loss: String,
    pub retain: String,
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    pub longest_run: u64,
    pub late: u64,
    pub in_time: f64,
    pub latency: LatencyReport,
    pub kept: bool,
}

/// What the categories promise: period, deadline, `L` and `N`, by the first level of their topics.
pub type Terms = BTreeMap<String, (Span, Span, String, String)>;

/// Puts together what the publishers sent and the receivers saw.
pub fn compare(terms: &Terms, sent: &[PublishReport], received: &[ReceiveReport]) -> Vec<Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let streams: BTreeMap<&str, _> = received
        .iter()
        .flat_map(|report| &report.streams)
        .map(|stream| (stream.topic.as_str(), stream))
        .collect();
    for (topic, count) in sent.iter().flat_map(|report| &report.sent) {
        let group = topic.split('/').next().unwrap_or(topic);
        let row = rows.entry(group.to_owned()).or_insert_with(|| begin_row(group, terms));
        let stream = streams.get(topic.as_str());
        let came = stream.map_or(0, |stream| stream.received);
        // What is missing at the end was lost in one run.
        let tail = count.saturating_sub(stream.map_or(0, |stream| stream.next_seq));
        let run = stream.map_or(*count, |stream| stream.longest_run.max(tail));
        let tolerated = stream.and_then(|stream| stream.tolerates);
        let bounded = stream.is_none() || tolerated.is_some();
        row.topics += 1;
        row.sent += count;
        row.received += came;
        row.lost += count.saturating_sub(came);
        row.longest_run = row.longest_run.max(run);
        row.late += stream.map_or(0, |stream| stream.late);
        let kept = !bounded || run <= tolerated.unwrap_or(0);
        row.topics_kept += u64::from(kept);
        row.kept &= kept;
    }
    for report in received {
        for (group, latency) in &report.latency {
            if let Some(row) = rows.get_mut(group) {
                row.latency = latency.clone();
            }
        }
    }
    rows.into_values()
        .map(|row| Row { in_time: 1.0 - row.late as f64 / row.received.max(1) as f64, ..row })
        .collect()
}

fn begin_row(group: &str, terms: &Terms) -> Row {
    let unknown = (Span::ZERO, Span::ZERO, "-".to_owned(), "-".to_owned());
    let (period, deadline, loss, retain) = terms.get(group).cloned().unwrap_or(unknown);
    let category = group.to_owned();
    let (period_ms, deadline_ms) = (period.as_millis_f64(), deadline.as_millis_f64());
    Row { category, period_ms, deadline_ms, loss, retain, kept: true, ..Row::default() }
}

/// The longest time without a message on any topic, of those that overlap with the instant.
pub fn silence_around(received: &[ReceiveReport], instant_ns: u64) -> Option<f64> {
    let gaps = received.iter().flat_map(|report| report.arrivals.values()).flat_map(|arrivals| {
        arrivals.windows(2).filter_map(|pair| match pair {
            // The gap may begin shortly before the kill or be caused by it shortly after.
            [from, to] if *to >= instant_ns && *from <= instant_ns + 100_000_000 => {
                Some(to.saturating_sub(*from))
            }
            _ => None,
        })
    });
    gaps.max().map(|gap| gap as f64 / 1e6)
}

/// Stolen processor time above this is mentioned: a few milliseconds at a time are enough to make messages late.
const STOLEN_MENTIONED: f64 = 0.005;

/// Prints the report for people.
pub fn show(report: &Report) -> Result<(), Trouble> {
    let headings = [
        "category",
        "topics",
        "T ms",
        "D ms",
        "L",
        "N",
        "sent",
        "received",
        "lost",
        "longest run",
        "in time %",
        "p50 ms",
        "p99 ms",
        "max ms",
        "kept",
    ];
    let mut shown = table(&headings, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    for row in &report.categories {
        shown.add_row([
            row.category.clone(),
            row.topics.to_string(),
            format!("{:.1}", row.period_ms),
            format!("{:.1}", row.deadline_ms),
            row.loss.clone(),
            row.retain.clone(),
            row.sent.to_string(),
            row.received.to_string(),
            row.lost.to_string(),
            row.longest_run.to_string(),
            format!("{:.3}", row.in_time * 100.0),
            format!("{:.3}", row.latency.p50_ms),
            format!("{:.3}", row.latency.p99_ms),
            format!("{:.3}", row.latency.max_ms),
            if row.kept && row.late == 0 { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    line(&shown.to_string())?;
    if let Some(silence) = report.silence_ms {
        let outages: Vec<String> = report.outages_ms.iter().map(|ms| format!("{ms:.1}")).collect();
        let then = if outages.len() > 1 { " (then for the planned handover)" } else { "" };
        line(&format!(
            "SIGKILL of the primary: the longest silence of a category c0 topic (period 50 ms) was {silence:.1} ms; \
             publishers were without a primary for {} ms{then}, and the contracts assume at most 50 ms",
            outages.join(", ")
        ))?;
    }
    line(&format!(
        "the primary used {:.3} of a processor while all was calm, and {:.1} MiB; {:.1} % of the messages were copied",
        report.broker_cpu,
        report.broker_mib,
        report.replicated_share * 100.0
    ))?;
    if report.stolen_share > STOLEN_MENTIONED {
        line(&format!(
            "a hypervisor took {:.1} % of this host's processor time away: latencies and takeovers are partly its",
            report.stolen_share * 100.0
        ))?;
    }
    let verdict = match (report.losses_kept, report.kept) {
        (true, true) => {
            "every contract held: no topic lost more than it tolerates, and every message was in time"
        }
        (true, false) => {
            "every loss contract held, but some messages were late: this host was too busy (see `verge doctor`)"
        }
        (false, _) => "a loss contract was BROKEN",
    };
    line(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::StreamReport;

    fn stream(
        topic: &str,
        received: u64,
        longest_run: u64,
        next_seq: u64,
        tolerates: Option<u64>,
    ) -> StreamReport {
        StreamReport {
            topic: topic.to_owned(),
            received,
            duplicates: 0,
            longest_run,
            next_seq,
            late: 0,
            tolerates,
        }
    }

    fn rows(streams: Vec<StreamReport>, sent: &[(&str, u64)]) -> Vec<Row> {
        let sent = PublishReport {
            sent: sent.iter().map(|(t, n)| ((*t).to_owned(), *n)).collect(),
            ..Default::default()
        };
        compare(&Terms::new(), &[sent], &[ReceiveReport { streams, ..Default::default() }])
    }

    #[test]
    fn losses_at_the_end_and_topics_that_never_came_count() {
        let result = rows(vec![stream("a/0", 8, 0, 8, Some(1))], &[("a/0", 10), ("b/0", 3)]);
        assert_eq!((result[0].lost, result[0].longest_run, result[0].kept), (2, 2, false));
        assert_eq!((result[1].lost, result[1].longest_run, result[1].kept), (3, 3, false));
    }

    #[test]
    fn topics_that_kept_their_contracts_are_counted() {
        let streams = vec![stream("a/0", 10, 0, 10, Some(0)), stream("a/1", 9, 1, 10, Some(0))];
        let result = rows(streams, &[("a/0", 10), ("a/1", 10)]);
        assert_eq!((result[0].topics, result[0].topics_kept, result[0].kept), (2, 1, false));
    }

    #[test]
    fn a_tolerated_run_and_best_effort_keep_their_contracts() {
        let streams = vec![stream("a/0", 7, 3, 10, Some(3)), stream("b/0", 1, 8, 10, None)];
        let result = rows(streams, &[("a/0", 10), ("b/0", 10)]);
        assert!(result.iter().all(|row| row.kept));
    }

    #[test]
    fn only_gaps_around_the_kill_are_its_silence() {
        let ms = |at: u64| at * 1_000_000;
        let mut report = ReceiveReport::default();
        report.arrivals.insert("c0/0".to_owned(), [0, 500, 550, 620, 670, 1_500].map(ms).to_vec());
        assert_eq!(silence_around(&[report], ms(560)), Some(70.0));
    }
}
