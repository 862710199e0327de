//! The result of simulating a configuration, for people.

use console::{Trouble, line, millis, table};
use contract::Span;
use trials::Report;
use trials::report::{Row, Verdict};

/// So many families with the same trouble are named.
const BROKEN_LISTED: usize = 6;
/// So many violating runs are described.
const VIOLATIONS_SHOWN: usize = 3;

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
        shown.add_row(cells(row));
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

fn cells(row: &Row) -> [String; 16] {
    let flowed = |text: String| if row.published > 0 { text } else { "-".to_owned() };
    let ms = |value: f64| millis(Span((value * 1e6).round() as i64));
    let plain = |value: Option<f64>| {
        value.map_or("∞".to_owned(), |ms| Span((ms * 1e6) as i64).as_millis_f64().to_string())
    };
    let spare_run = row.spare_run.map_or("-".to_owned(), |run| run.to_string());
    [
        row.filter.clone(),
        row.streams.to_string(),
        plain(row.period_ms),
        plain(row.deadline_ms),
        row.loss.clone(),
        row.retain.to_string(),
        flowed(format!("{:.1}", row.copied_share * 100.0)),
        format!("{:.3}", row.utilisation * 100.0),
        flowed(row.worst_run.to_string()),
        spare_run,
        row.worst_ms.map_or("-".to_owned(), ms),
        row.spare_ms.map_or("-".to_owned(), ms),
        flowed(row.late.to_string()),
        row.worst_around_faults_ms.map_or("-".to_owned(), ms),
        flowed(row.late_around_faults.to_string()),
        match row.verdict {
            Verdict::Kept => "kept",
            Verdict::Broken => "BROKEN",
            Verdict::Refused => "REFUSED",
            Verdict::Unclear => "unclear",
        }
        .to_owned(),
    ]
}
