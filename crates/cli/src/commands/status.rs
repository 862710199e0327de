//! `verge status`: both brokers, whether contracts are kept, and what operators do.

mod load;
pub mod top;

use super::{operator, start_client};
use crate::arguments::{BrokerArguments, Format, Sort, StatusArguments};
use crate::output::{
    GREEN, Outcome, RED, Trouble, YELLOW, coloured, fit, json, line, millis, table, terminal, yes,
};
use comfy_table::Table;
use config::Config;
use contract::{TOPIC_BYTES_SHOWN, shortened};
use load::{Before, LevelRow, OperatorRow, level_table, operator_table};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use verge::{Client, Concern, NodeReport, Reach, Standing, StreamReport, TopicState};

#[derive(Default, Serialize)]
struct Report {
    protected: bool,
    met: usize,
    at_risk: usize,
    broken: usize,
    /// Topics of results that the primary refuses.
    refused_results: u64,
    /// Topics of which nothing comes.
    silent: usize,
    /// Clients that cannot reach the primary, and pass through the backup to it.
    relayed: u32,
    brokers: Vec<BrokerRow>,
    /// Addresses of brokers of another pair than the one whose topics are shown.
    other_pairs: Vec<String>,
    /// Addresses at which nobody answers.
    unreachable: Vec<String>,
    /// Why, by address.
    troubles: BTreeMap<String, String>,
    topics: Vec<TopicRow>,
    levels: Vec<LevelRow>,
    operators: Vec<OperatorRow>,
}

#[derive(Default, Serialize)]
struct BrokerRow {
    address: String,
    name: String,
    role: &'static str,
    epoch: u64,
    protected: bool,
    clients: u32,
    relayed: u32,
    relayed_names: String,
    streams: usize,
    utilisation: f64,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    latency_max_ms: f64,
    uptime_s: f64,
    /// Changes of sessions and retained messages that it knows of.
    known_changes: u64,
    store: &'static str,
    /// Why the store was given up; empty while it writes.
    store_reason: String,
    counters: BTreeMap<&'static str, u64>,
}

#[derive(Default, Serialize)]
struct TopicRow {
    topic: String,
    publisher: String,
    state: &'static str,
    /// Why it is not met.
    why: Option<String>,
    /// For how long nothing has come, where it is silent.
    silent_s: f64,
    loss: String,
    /// By what the topic is planned, whole.
    contract: String,
    longest_run: u32,
    lost: u64,
    late: u64,
    /// What subscribers say that they missed, the longest run of that, and what came to them late; all of them together.
    subscribers_lost: u64,
    subscribers_longest_run: u32,
    subscribers_late: u64,
    arrived: u64,
    subscribers: u32,
    replicated: bool,
    latency_last_ms: f64,
    latency_max_ms: f64,
    /// By what the topic is planned: the strictest of its contract and of what its subscribers need.
    deadline_ms: f64,
    /// Who needs more than the contract says, and what.
    needs: Option<String>,
}

/// Topics shown without `--all`: the worst first.
const TOPICS_SHOWN: usize = 15;
/// Operators shown without `--all`: the most urgent first, and in each level those that fail most.
const OPERATORS_SHOWN: usize = 15;
/// How long brokers may take to be reached.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Shows the pair once, or again and again.
pub fn run(config: &Config, arguments: &StatusArguments, format: Format) -> Outcome {
    let watch = arguments.watch;
    let client = start_client(config, &arguments.brokers, Some(&operator()))?;
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
                    // Clears the screen and begins at its top; a file is given one report after the other.
                    line(if terminal.is_some() { "\x1b[2J\x1b[H" } else { "" })?;
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

/// What `--format json` shows, for whoever asks in another way.
pub fn report_json(config: &Config) -> Result<String, String> {
    let made = || {
        let client = start_client(config, &BrokerArguments::default(), Some(&operator()))?;
        let report = look(&client, Instant::now() + PATIENCE, &mut Before::default())?;
        serde_json::to_string_pretty(&report).map_err(|error| Trouble(error.to_string()))
    };
    made().map(|text| text + "\n").map_err(|trouble| trouble.0)
}

/// Asks every broker. Waits until all have answered, or for as long as is left.
fn look(client: &Client, until: Instant, before: &mut Before) -> Result<Report, Trouble> {
    let mut reports: Vec<(String, NodeReport)> = Vec::new();
    let reaches = loop {
        reports.clear();
        let reaches = client.reaches()?;
        for reach in &reaches {
            if let Some(broker) = reach.broker
                && let Some(report) = client.status(broker, true)?
            {
                reports.push((reach.address.clone(), report));
            }
        }
        let all = client.has_asked()? && reports.len() == reaches.len();
        if all || Instant::now() >= until {
            // What was said meanwhile counts.
            break client.reaches()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let reigning = reports.iter().filter(|(_, report)| report.standing == Standing::Primary);
    let primary = reigning.max_by_key(|(_, report)| report.epoch);
    let mut topics: Vec<&StreamReport> = primary.iter().flat_map(|(_, report)| &report.streams).collect();
    topics.sort_by_key(|stream| (Reverse(stream.state), Reverse(stream.longest_run), &stream.topic));
    let count = |state| topics.iter().filter(|stream| stream.state == state).count();
    let answers = |address: &String| reports.iter().any(|(there, _)| there == address);
    let missing = || reaches.iter().filter(|reach| !answers(&reach.address));
    let troubled = reaches.iter().filter(|reach| reach.trouble.is_some() || !answers(&reach.address));
    let why = |reach: &Reach| reach.trouble.clone().unwrap_or_else(|| "does not answer".to_owned());
    // Two brokers that are both protected are either of one reign, or of two pairs.
    let protected = |reach: &&Reach| reports.iter().any(|(at, it)| *at == reach.address && it.protected);
    let shown = |reach: &&Reach| primary.is_none_or(|(address, _)| *address == reach.address);
    let reign = reaches.iter().filter(protected).find(shown);
    let other_pairs = reaches
        .iter()
        .filter(protected)
        .filter(|reach| reign.is_some_and(|primary| primary.reign.is_some() && reach.reign != primary.reign));
    Ok(Report {
        other_pairs: other_pairs.map(|reach| reach.address.clone()).collect(),
        unreachable: missing().map(|reach| reach.address.clone()).collect(),
        troubles: troubled.map(|reach| (reach.address.clone(), why(reach))).collect(),
        protected: primary.is_some_and(|(_, report)| report.protected),
        met: count(TopicState::Met),
        at_risk: count(TopicState::AtRisk),
        broken: count(TopicState::Broken),
        refused_results: primary.map_or(0, |(_, report)| report.counter("results_broken")),
        silent: count(TopicState::Silent),
        relayed: primary.map_or(0, |(_, report)| report.relayed),
        topics: topics.iter().map(|stream| topic_row(stream)).collect(),
        levels: primary.map(|(_, report)| before.levels(report)).unwrap_or_default(),
        operators: primary.map(|(_, report)| OperatorRow::all(report)).unwrap_or_default(),
        brokers: reports.iter().map(|(address, report)| broker_row(address, report)).collect(),
    })
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

fn broker_row(address: &str, report: &NodeReport) -> BrokerRow {
    let [p50, p99, max] = report.latency.map(|span| span.as_millis_f64());
    BrokerRow {
        address: address.to_owned(),
        name: report.name.clone(),
        role: match report.standing {
            Standing::Primary => "primary",
            Standing::Backup => "backup",
            _ => "seeking",
        },
        epoch: report.epoch.0,
        protected: report.protected,
        clients: report.clients,
        relayed: report.relayed,
        relayed_names: report.relayed_names.clone(),
        streams: report.streams.len(),
        utilisation: report.utilisation,
        latency_p50_ms: p50,
        latency_p99_ms: p99,
        latency_max_ms: max,
        uptime_s: report.taken.since(report.started).as_millis_f64() / 1e3,
        known_changes: report.known,
        store: report.store.as_str(),
        store_reason: report.store_reason.clone(),
        counters: report.counters.iter().copied().collect(),
    }
}

fn topic_row(stream: &StreamReport) -> TopicRow {
    TopicRow {
        topic: stream.topic.clone(),
        publisher: stream.publisher.clone(),
        state: match stream.state {
            TopicState::Met => "met",
            TopicState::AtRisk => "at risk",
            TopicState::Broken => "broken",
            TopicState::Silent => "silent",
        },
        why: (stream.concern != Concern::Nothing).then(|| stream.concern.to_string()),
        silent_s: stream.silence.as_millis_f64() / 1e3,
        loss: stream.strictest.loss.to_string(),
        contract: stream.strictest.to_string(),
        longest_run: stream.longest_run,
        lost: stream.lost,
        late: stream.late,
        subscribers_lost: stream.subscribers_lost,
        subscribers_longest_run: stream.subscribers_longest_run,
        subscribers_late: stream.subscribers_late,
        arrived: stream.arrived,
        subscribers: stream.subscribers,
        replicated: stream.replicate,
        latency_last_ms: stream.latency[0].as_millis_f64(),
        latency_max_ms: stream.latency[1].as_millis_f64(),
        deadline_ms: stream.strictest.deadline.as_millis_f64(),
        needs: Some(stream.needs.clone()).filter(|needs| !needs.is_empty()),
    }
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

fn show(report: &Report, view: View) -> Result<(), Trouble> {
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
fn protection(report: &Report) -> (&'static str, u8) {
    let primaries = report.brokers.iter().filter(|row| row.role == "primary").count();
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

fn show_concerns(report: &Report) -> Result<(), Trouble> {
    concerns(report).into_iter().try_for_each(|(state, text)| {
        let colour = if state == "broken" { RED } else { YELLOW };
        line(&format!("{}: {text}", coloured(&state.to_uppercase(), colour)))
    })
}

/// Why topics are broken or at risk, each cause once.
fn concerns(report: &Report) -> Vec<(&str, String)> {
    let mut concerns: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for row in report.topics.iter().filter(|row| row.state != "silent") {
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
fn show_relayed(report: &Report) -> Result<(), Trouble> {
    let Some(primary) = report.brokers.iter().find(|row| row.role == "primary" && row.relayed > 0) else {
        return Ok(());
    };
    let backup = report.brokers.iter().find(|row| row.role == "backup").map_or("the backup", |row| &row.name);
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
fn show_load(report: &Report, all: bool) -> Result<(), Trouble> {
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

fn broker_table(report: &Report) -> Table {
    let mut brokers = table(&BROKER_HEADINGS, &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16]);
    for row in &report.brokers {
        let counter = |name| row.counters.get(name).copied().unwrap_or(0).to_string();
        brokers.add_row([
            row.name.clone(),
            row.address.clone(),
            row.role.to_owned(),
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
            row.store.to_owned(),
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
        silent if silent > 0.0 && row.state == "silent" => format!("silent for {silent:.0} s"),
        _ => row.state.to_owned(),
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
