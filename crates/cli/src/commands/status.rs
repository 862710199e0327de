//! `verge status`: both brokers, whether contracts are kept, and what operators do.

mod load;
pub mod top;

use super::{admin_name, start_client};
use crate::arguments::{Format, Sort, StatusArguments};
use comfy_table::Table;
use config::Config;
use console::{
    GREEN, Outcome, RED, Trouble, YELLOW, begin_screen, coloured, fit, json, line, millis, table, terminal,
    yes,
};
use contract::{TOPIC_BYTES_SHOWN, shortened};
use load::{level_table, operator_table};
use node::status::{PATIENCE, look};
use report::{Before, PairReport, Role, State, TopicRow};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use verge::Reach;

/// Topics shown without `--all`: the worst first.
const TOPICS_SHOWN: usize = 15;
/// Operators shown without `--all`: the most urgent first, and in each level those that fail most.
const OPERATORS_SHOWN: usize = 15;

/// Shows the pair once, or again and again.
pub fn run(config: &Config, arguments: &StatusArguments, format: Format) -> Outcome {
    let watch = arguments.watch;
    let client = start_client(config, &arguments.brokers, Some(&admin_name()))?;
    let until = Instant::now() + PATIENCE;
    let mut before = Before::default();
    loop {
        let mut report = look(&client, until, &mut before)?;
        sort(&mut report.topics, arguments.sort);
        let kept = report.broken == 0 && report.silent == 0 && report.refused_results == 0;
        let healthy = report.protected && report.other_pairs.is_empty() && kept;
        if report.brokers.is_empty() && !watch {
            return Err(Trouble(no_broker(&client.reaches()?)));
        }
        match format {
            Format::Json => json(&report)?,
            Format::Table => {
                let terminal = terminal();
                if watch {
                    begin_screen()?;
                }
                let lines = terminal.map(|(_, lines)| lines).filter(|_| watch && !arguments.all);
                let columns = terminal.map(|(columns, _)| columns).filter(|_| !arguments.wide);
                show(&report, View { all: arguments.all, columns, lines })?;
            }
        }
        if !watch {
            return Ok(yes(healthy));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What is said when there is none, with what is known of each address.
fn no_broker(reaches: &[Reach]) -> String {
    let one = |reach: &Reach| {
        format!("{} {}", reach.address, reach.trouble.as_deref().unwrap_or("does not answer"))
    };
    let all = reaches.iter().map(one).collect::<Vec<_>>().join(", ");
    let remedy = if reaches.iter().all(|reach| reach.is_wrong) {
        "correct the addresses: clients connect at brokers.NAME.clients"
    } else {
        "start one with `verge broker a`, or correct the addresses"
    };
    format!("no broker answers: {all}; {remedy}")
}

/// How much of a report there is room for.
#[derive(Clone, Copy)]
struct View {
    all: bool,
    /// Of a terminal; `None` where there is none, or all columns are wanted.
    columns: Option<usize>,
    /// The same of its lines, where brokers have to stay in sight.
    lines: Option<usize>,
}

impl View {
    /// So much of a topic is shown: JSON has all of it.
    fn topic_bytes(self) -> usize {
        self.columns.map_or(TOPIC_BYTES_SHOWN, |columns| (columns / 2).clamp(24, TOPIC_BYTES_SHOWN))
    }
}

const BROKER_HEADINGS: [&str; 17] = [
    "broker",
    "address",
    "role",
    "epoch",
    "clients",
    "streams",
    "CPU planned %",
    "p50 ms",
    "p99 ms",
    "max ms",
    "arrived",
    "copied",
    "late",
    "dropped",
    "store",
    "known",
    "up s",
];
const TOPIC_HEADINGS: [&str; 12] = [
    "topic",
    "publisher",
    "state",
    "L",
    "longest run",
    "lost",
    "late",
    "arrived",
    "subscribers",
    "last ms",
    "max ms",
    "D ms",
];
/// Lines of a report besides the rows of topics, about.
const OTHER_LINES: usize = 16;
/// Topics that are shown however low the screen is.
const TOPICS_LEAST: usize = 3;
/// Columns that are left out where there is no room, the least important first.
const BROKER_COLUMNS_LESS: [&str; 10] = [
    "known",
    "store",
    "copied",
    "streams",
    "clients",
    "epoch",
    "p50 ms",
    "max ms",
    "arrived",
    "CPU planned %",
];
const TOPIC_COLUMNS_LESS: [&str; 7] =
    ["publisher", "subscribers", "last ms", "arrived", "D ms", "longest run", "L"];

fn sort(topics: &mut [TopicRow], by: Sort) {
    match by {
        // As brokers are asked: what is broken first.
        Sort::State => {}
        Sort::Topic => topics.sort_by(|one, other| one.topic.cmp(&other.topic)),
        Sort::Late => topics.sort_by_key(|row| Reverse(row.late.max(row.subscribers_late))),
        Sort::Lost => topics.sort_by_key(|row| Reverse(row.lost.max(row.subscribers_lost))),
        Sort::Arrived => topics.sort_by_key(|row| Reverse(row.arrived)),
        Sort::Latency => topics.sort_by(|one, other| other.latency_max_ms.total_cmp(&one.latency_max_ms)),
    }
}

/// A table, and what of it does not fit.
fn fitting(mut table: Table, view: View, headings: &[&str], less: &[&str]) -> Result<(), Trouble> {
    let left_out = view.columns.map_or_else(Vec::new, |columns| fit(&mut table, columns, headings, less));
    line(&table.to_string())?;
    if !left_out.is_empty() {
        line(&format!("left out: {} (--wide shows them)", left_out.join(", ")))?;
    }
    Ok(())
}

fn show(report: &PairReport, view: View) -> Result<(), Trouble> {
    fitting(broker_table(report), view, &BROKER_HEADINGS, &BROKER_COLUMNS_LESS)?;
    let room = view.lines.map_or(TOPICS_SHOWN, |lines| {
        lines.saturating_sub(OTHER_LINES + report.brokers.len()).clamp(TOPICS_LEAST, TOPICS_SHOWN)
    });
    let shown = if view.all { report.topics.len() } else { report.topics.len().min(room) };
    if shown > 0 {
        fitting(
            topic_table(&report.topics[..shown], view.topic_bytes()),
            view,
            &TOPIC_HEADINGS,
            &TOPIC_COLUMNS_LESS,
        )?;
    }
    if shown < report.topics.len() {
        line(&format!("… and {} more streams (--all lists them)", report.topics.len() - shown))?;
    }
    show_load(report, view.all)?;
    for row in report.brokers.iter().filter(|row| !row.store_reason.is_empty()) {
        line(&format!(
            "STORE of {} {}: sessions and retained messages would not outlive a restart of both brokers. {}. Mend the disk or free \
             some space; the store comes back by itself",
            row.name, row.store, row.store_reason
        ))?;
    }
    if report.refused_results > 0 {
        line(&format!(
            "REFUSED: nothing is published on {} topics of results. `verge graph` says why, and so does the log (result_refused)",
            report.refused_results
        ))?;
    }
    show_relayed(report)?;
    for (address, trouble) in &report.troubles {
        line(&format!("{address} {trouble}."))?;
    }
    show_concerns(report)?;
    if !report.other_pairs.is_empty() {
        line(&format!(
            "MORE THAN ONE PAIR: {} belongs elsewhere, and shows nothing here of what it serves. Ask each pair by itself (-h), or correct \
             the addresses.",
            report.other_pairs.join(", ")
        ))?;
    }
    let (protection, colour) = protection(report);
    let protection = coloured(protection, colour);
    line(&format!(
        "{protection}. Topics: {} met, {} at risk, {} silent, {} broken.",
        report.met, report.at_risk, report.silent, report.broken
    ))
}

/// Whether a crash is survived, and what to do where it is not, as far as those who answer tell.
fn protection(report: &PairReport) -> (&'static str, u8) {
    let primaries = report.brokers.iter().filter(|row| row.role == Role::Primary).count();
    match (report.brokers.len(), primaries) {
        (0, _) => ("NO BROKER answers", RED),
        (_, 2..) => (
            "TWO PRIMARIES: each serves clients of its own, since the brokers do not hear or know each other; their logs say why \
             (security.pair_secret_file, tls.ca, the link between them)",
            RED,
        ),
        _ if report.protected => ("protected: a crash of the primary is survived", GREEN),
        (_, 0) if !report.troubles.is_empty() => {
            ("CANNOT TELL whether a crash is survived, since no primary could be asked: see above", YELLOW)
        }
        (2.., _) => (
            "UNPROTECTED: a crash now loses messages; the other broker runs and does not stand by yet: its log says why",
            RED,
        ),
        _ => ("UNPROTECTED: a crash now loses messages; start the other broker", RED),
    }
}

fn show_concerns(report: &PairReport) -> Result<(), Trouble> {
    concerns(report).into_iter().try_for_each(|(state, text)| {
        let colour = if state == State::Broken { RED } else { YELLOW };
        line(&format!("{}: {text}", coloured(&state.as_str().to_uppercase(), colour)))
    })
}

/// Why topics are broken or at risk, each cause once.
fn concerns(report: &PairReport) -> Vec<(State, String)> {
    let mut concerns: BTreeMap<(State, &str), Vec<&str>> = BTreeMap::new();
    for row in report.topics.iter().filter(|row| row.state != State::Silent) {
        if let Some(why) = &row.why {
            concerns.entry((row.state, why)).or_default().push(&row.topic);
        }
    }
    let told = concerns.into_iter().map(|((state, why), topics)| {
        let more = match topics.len() {
            1 => String::new(),
            others => format!(" and {} more", others - 1),
        };
        (state, format!("{}{more}, since {why}.", shortened(topics[0], TOPIC_BYTES_SHOWN)))
    });
    told.collect()
}

/// Clients that hang by the backup, where there are any.
fn show_relayed(report: &PairReport) -> Result<(), Trouble> {
    let Some(primary) = report.brokers.iter().find(|row| row.role == Role::Primary && row.relayed > 0) else {
        return Ok(());
    };
    let backup =
        report.brokers.iter().find(|row| row.role == Role::Backup).map_or("the backup", |row| &row.name);
    line(&format!(
        "{} cannot reach {} at {} and {} through {backup}: {}. Mend the way to {}; should {backup} fail, nothing serves them.",
        if primary.relayed == 1 { "1 client".to_owned() } else { format!("{} clients", primary.relayed) },
        primary.name,
        primary.address,
        if primary.relayed == 1 { "passes" } else { "pass" },
        primary.relayed_names,
        primary.name
    ))
}

/// Levels and operators, where there are any.
fn show_load(report: &PairReport, all: bool) -> Result<(), Trouble> {
    let (levels, operators) = (&report.levels, &report.operators);
    if !levels.is_empty() {
        line(&level_table(levels).to_string())?;
    }
    let shown = if all { operators.len() } else { operators.len().min(OPERATORS_SHOWN) };
    if shown > 0 {
        line(&operator_table(&operators[..shown]).to_string())?;
    }
    if shown < operators.len() {
        line(&format!("… and {} more operators (--all lists them)", operators.len() - shown))?;
    }
    Ok(())
}

fn ms(value: f64) -> String {
    millis(contract::Span((value * 1e6) as i64))
}

fn broker_table(report: &PairReport) -> Table {
    let mut brokers = table(&BROKER_HEADINGS, &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16]);
    for row in &report.brokers {
        let counter = |name| row.counters.get(name).copied().unwrap_or(0).to_string();
        brokers.add_row([
            row.name.clone(),
            row.address.clone(),
            row.role.as_str().to_owned(),
            row.epoch.to_string(),
            row.clients.to_string(),
            row.streams.to_string(),
            format!("{:.2}", row.utilisation * 100.0),
            ms(row.latency_p50_ms),
            ms(row.latency_p99_ms),
            ms(row.latency_max_ms),
            counter("arrived"),
            counter("replicated"),
            counter("late"),
            counter("dropped"),
            row.store.clone(),
            row.known_changes.to_string(),
            format!("{:.0}", row.uptime_s),
        ]);
    }
    for address in &report.unreachable {
        let mut cells = vec!["?".to_owned(), address.clone(), "NO ANSWER".to_owned()];
        cells.resize(BROKER_HEADINGS.len(), "-".to_owned());
        brokers.add_row(cells);
    }
    brokers
}

fn state_in_words(row: &TopicRow) -> String {
    match row.silent_s {
        // What is broken is more than silent.
        silent if silent > 0.0 && row.state == State::Silent => format!("silent for {silent:.0} s"),
        _ => row.state.as_str().to_owned(),
    }
}

fn topic_table(rows: &[TopicRow], topic_bytes: usize) -> Table {
    let mut topics = table(&TOPIC_HEADINGS, &[3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for row in rows {
        topics.add_row([
            shortened(&row.topic, topic_bytes).into_owned(),
            row.publisher.clone(),
            state_in_words(row),
            row.loss.clone(),
            // The worse of what the broker has seen and what subscribers say.
            row.longest_run.max(row.subscribers_longest_run).to_string(),
            row.lost.max(row.subscribers_lost).to_string(),
            row.late.max(row.subscribers_late).to_string(),
            row.arrived.to_string(),
            row.subscribers.to_string(),
            ms(row.latency_last_ms),
            ms(row.latency_max_ms),
            ms(row.deadline_ms),
        ]);
    }
    topics
}
