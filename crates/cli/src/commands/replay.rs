//! `verge replay`: publishes a recording at the pace at which it was made, or faster.

use super::connect;
use super::stopping::Stop;
use super::watch::Watch;
use crate::arguments::{ContractArguments, Format, ReplayArguments};
use config::Config;
use console::{Outcome, Trouble, complain, json, line, table, yes};
use contract::{Contract, Loss, Span};
use indicatif::{ProgressBar, ProgressStyle};
use recording::{DateOrder, FlawKind, Flaws, Kind, Options, Recording, Survey};
use serde::Serialize;
use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use verge::{Client, Error, Publisher};

#[derive(Serialize)]
struct Summary {
    file: String,
    rows: u64,
    messages: u64,
    behind_ms: f64,
    flaws: Vec<(String, u64)>,
    topics: Vec<(String, u64)>,
}

/// Replays the file.
pub fn run(config: &Config, arguments: &ReplayArguments, format: Format) -> Outcome {
    if !(arguments.speed.is_finite() && arguments.speed > 0.0) {
        return Err(Trouble(format!("--speed {} makes no sense: give a factor above 0", arguments.speed)));
    }
    let options = Options {
        time_column: arguments.time_column.clone(),
        columns: arguments.columns.clone(),
        delimiter: arguments.delimiter.and_then(|c| u8::try_from(c).ok()),
        dates: arguments.dates,
        time_unit: arguments.time_unit,
    };
    let mut recording = Recording::open(&arguments.file, &options)?;
    let survey = recording.survey()?;
    let period = pace(&survey, arguments.speed);
    let derived = derived(config, period, &arguments.contract);
    let topics = topics(arguments, &recording)?;
    let plan = Plan::new(arguments, &recording, &survey, &topics, &derived);
    if arguments.plan {
        match format {
            Format::Json => json(&plan)?,
            Format::Table => plan.lines().iter().try_for_each(|text| line(text))?,
        }
        return Ok(yes(true));
    }
    if format == Format::Table {
        plan.lines().iter().for_each(|text| complain(text));
    }
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let _watch = Watch::start(&client, config)?;
    let (publishers, period) = match admitted(&client, config, arguments, &topics, derived) {
        Err(Error::Refused { topic, reason, .. }) => {
            complain(&format!("verge: the contract of `{topic}` was refused: {reason}"));
            return Ok(yes(false));
        }
        found => found?,
    };
    let mut replay = Replay::new(arguments, client, publishers, &recording, period)?;
    replay.run(&mut recording)?;
    let summary = replay.summary(arguments, recording.flaws());
    report_flaws(recording.flaws(), survey.is_sparse);
    match format {
        Format::Json => json(&summary)?,
        Format::Table => line(&format!(
            "{} rows, {} messages on {} topics; at most {:.1} ms behind the recording's pace",
            summary.rows,
            summary.messages,
            summary.topics.len(),
            summary.behind_ms
        ))?,
    }
    Ok(yes(true))
}

/// What a person checks before anything is published.
#[derive(Serialize)]
struct Plan {
    file: String,
    rows: u64,
    understood: Vec<(&'static str, String)>,
    columns: Vec<PlannedColumn>,
    /// As flags.
    contract: String,
}

#[derive(Serialize)]
struct PlannedColumn {
    column: String,
    topic: String,
    kind: &'static str,
    values: u64,
    outliers: u64,
    /// Bytes of the longest value.
    longest: usize,
}

impl Plan {
    fn new(
        arguments: &ReplayArguments,
        recording: &Recording,
        survey: &Survey,
        topics: &[String],
        contract: &Contract,
    ) -> Plan {
        let mut understood = recording.understood();
        understood.push(("time", times(recording, survey)));
        if let Some(pace) = paced(survey, arguments.speed) {
            understood.push(("pace", pace));
        }
        let is_flaw = |kind: &FlawKind| !(survey.is_sparse && *kind == FlawKind::MissingCell);
        for kind in FlawKind::ALL.into_iter().filter(|kind| is_flaw(kind) && survey.flaws.count(*kind) > 0) {
            let first =
                survey.flaws.first(kind).first().map_or_else(String::new, |flaw| format!(" ({flaw})"));
            understood.push(("flawed", format!("{} × {kind}{first}", survey.flaws.count(kind))));
        }
        let columns = recording.columns().iter().zip(topics).enumerate();
        let columns = columns.map(|(at, (column, topic))| PlannedColumn {
            column: column.name.clone(),
            topic: topic.clone(),
            kind: match column.kind {
                Kind::Number => "number",
                Kind::Text => "text",
            },
            values: survey.values[at],
            outliers: survey.outliers[at],
            longest: survey.longest_cells[at],
        });
        Plan {
            file: arguments.file.display().to_string(),
            rows: survey.rows,
            understood,
            columns: columns.collect(),
            contract: as_flags(contract),
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut shown = table(&["column", "topic", "type", "values", "outliers", "longest"], &[3, 4, 5]);
        for PlannedColumn { column, topic, kind, values, outliers, longest } in &self.columns {
            let (values, outliers) = (values.to_string(), outliers.to_string());
            shown.add_row([column.as_str(), topic, kind, &values, &outliers, &format!("{longest} bytes")]);
        }
        let facts = self.understood.iter().map(|(name, text)| format!("{name:<10} {text}"));
        let mut lines = vec![format!("{:<10} {}, {} rows", "recording", self.file, self.rows)];
        lines.extend(facts);
        lines.push(format!("{:<10} {} (where a topic has none)", "contract", self.contract));
        lines.push(shown.to_string());
        lines
    }
}

/// Where the times are from, and how they go.
fn times(recording: &Recording, survey: &Survey) -> String {
    let Some(column) = recording.time_column() else {
        return "none: one row a second is assumed (or name a column with --time-column)".to_owned();
    };
    let at = |nanos: Option<i64>| {
        let time = nanos.and_then(|nanos| jiff::Timestamp::from_nanosecond(i128::from(nanos)).ok());
        time.map_or_else(String::new, |time| time.to_string())
    };
    let order = match recording.date_order() {
        DateOrder::DayFirst => ", the day first",
        DateOrder::MonthFirst => "",
    };
    let step =
        survey.usual_step_ns.map_or_else(String::new, |step| format!(", usually {} apart", Span(step)));
    let gaps = match survey.gaps {
        gaps if gaps.count == 0 => String::new(),
        gaps => {
            let noun = if gaps.count == 1 { "gap" } else { "gaps" };
            format!(
                "; {} {noun}, the longest {} before line {}",
                gaps.count,
                Span(gaps.longest_ns),
                gaps.line
            )
        }
    };
    format!("`{column}`{order}, {} to {}{step}{gaps}", at(survey.first_ns), at(survey.last_ns))
}

/// Rows that would come more closely are published so far apart.
const PERIOD_LEAST: Span = Span::micros(100);
/// A deadline is no shorter than what a loaded host can keep, and no longer than anybody would wait to see a value.
const DEADLINES: (Span, Span) = (Span::millis(20), Span::secs(1));
/// The usual step, in ns, of a file that has none.
const STEP_NS: i64 = 1_000_000_000;
/// Of the usual step: a little less, for the clock's granularity.
const OF_THE_STEP: f64 = 0.98;
/// Where some rows came closer together: those after them have to catch up.
const OF_AN_UNEVEN_STEP: f64 = 0.5;

/// Between two rows, in nanoseconds, where nothing else bounds it.
fn least_step(survey: &Survey, speed: f64) -> f64 {
    let usual = survey.usual_step_ns.unwrap_or(STEP_NS) as f64;
    let is_uneven = survey.smallest_step_ns.is_some_and(|step| (step as f64) < usual * OF_THE_STEP);
    usual / speed * if is_uneven { OF_AN_UNEVEN_STEP } else { OF_THE_STEP }
}

/// The period of the contract: the usual step of the recording, sped up.
fn pace(survey: &Survey, speed: f64) -> Span {
    rounded_down(Span::nanos(least_step(survey, speed) as i64)).max(PERIOD_LEAST)
}

/// Three digits are enough for a person to read.
fn rounded_down(span: Span) -> Span {
    let digits = span.0.max(1).ilog10();
    let unit = 10_i64.pow(digits.saturating_sub(2));
    Span(span.0 / unit * unit)
}

/// Said where the recording cannot be replayed as fast as was asked for.
fn paced(survey: &Survey, speed: f64) -> Option<String> {
    let step = least_step(survey, speed);
    let told = || format!("a row every {PERIOD_LEAST} at most, which is slower than --speed {speed}");
    (step < PERIOD_LEAST.0 as f64).then(told)
}

/// A contract that brokers of this configuration can keep, by which nothing is lost: what the publisher keeps lasts through a failover, and
/// until a message is late, so that nothing has to be copied.
pub fn derived(config: &Config, period: Span, flags: &ContractArguments) -> Contract {
    let period = flags.period.unwrap_or(period);
    let mut contract = flags.contract(period);
    let delays = &config.delays;
    let away = delays.failover + delays.publisher_to_broker + delays.broker_to_broker;
    if flags.deadline.is_none() && !period.is_forever() {
        contract.deadline = period.max(DEADLINES.0).min(DEADLINES.1);
    }
    if flags.retain.is_none() && contract.loss != Loss::Unbounded && period > Span::ZERO {
        let lasts = (away + contract.deadline).0.max(0);
        let kept = (lasts / period.0.max(1)).saturating_add(2);
        contract.retain = u32::try_from(kept).unwrap_or(u32::MAX);
    }
    contract
}

/// Each time rows are published half as fast as brokers have just refused.
const SLOWER_MOST: u32 = 12;
/// A topic whose publisher has ended has its contract until everything has been dispatched.
const LEAVING: Duration = Duration::from_secs(5);

/// The publishers, and the least time between two rows. Where brokers have no time for so many messages, rows come more slowly, unless a
/// person has said how fast.
fn admitted(
    client: &Client,
    config: &Config,
    arguments: &ReplayArguments,
    topics: &[String],
    mut contract: Contract,
) -> Result<(Vec<Publisher>, Span), Error> {
    let until = Instant::now() + LEAVING;
    let mut slower = 0;
    loop {
        let may = |given: bool| given && !arguments.contract.is_given();
        match advertise(client, arguments, topics, contract) {
            Err(Error::Refused { reason, .. })
                if may(Instant::now() < until)
                    && reason.contains("already carried with another contract") =>
            {
                // A replay that has just ended may be the other; what it published is still on its way.
                std::thread::sleep(NAP);
            }
            Err(Error::Refused { reason, .. })
                if may(slower < SLOWER_MOST) && reason.starts_with("not schedulable") =>
            {
                slower += 1;
                contract = derived(config, contract.period * 2, &arguments.contract);
                complain(&format!("verge: {reason}; a row every {} instead", contract.period));
            }
            found => return found.map(|publishers| (publishers, contract.period)),
        }
    }
}

fn as_flags(contract: &Contract) -> String {
    let loss = match contract.loss {
        Loss::Unbounded => "unbounded".to_owned(),
        Loss::AtMost(most) => most.to_string(),
    };
    let Contract { period, deadline, retain, .. } = contract;
    format!("--period {period} --deadline {deadline} --loss {loss} --retain {retain}")
}

/// The topic of each column.
fn topics(arguments: &ReplayArguments, recording: &Recording) -> Result<Vec<String>, Trouble> {
    let file = arguments.file.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or("recording");
    let pattern = |name: &str| {
        let pattern = arguments.topic.replace("{file}", &level(stem)).replace("{column}", &level(name));
        pattern.replace("{topic}", name)
    };
    let mut topics: Vec<String> = Vec::new();
    for column in recording.columns() {
        let topic = pattern(&column.name);
        if let Err(error) = contract::check_name(&topic) {
            return Err(Trouble(format!(
                "column {:?}: {error}; give --topic, or choose --columns",
                column.name
            )));
        }
        if let Some(other) = topics.iter().position(|known| *known == topic) {
            let other = &recording.columns()[other].name;
            return Err(Trouble(format!(
                "columns {other:?} and {:?} would both be published on `{topic}`: rename one in the file, choose --columns, or give a \
                 --topic with {{column}} in it",
                column.name
            )));
        }
        topics.push(topic);
    }
    Ok(topics)
}

fn advertise(
    client: &Client,
    arguments: &ReplayArguments,
    topics: &[String],
    derived: Contract,
) -> Result<Vec<Publisher>, Error> {
    if arguments.contract.is_given() {
        return client.publishers(topics.iter().map(|topic| (topic.as_str(), Some(derived))));
    }
    // The configured contracts where there are some; else one that follows from the recording.
    let lacks =
        |error: &Error| matches!(error, Error::Refused { reason, .. } if reason.contains("has no contract"));
    let all =
        |contract: Option<Contract>| client.publishers(topics.iter().map(|topic| (topic.as_str(), contract)));
    match all(None) {
        Err(error) if lacks(&error) => {}
        publishers => return publishers,
    }
    match all(Some(derived)) {
        // Some have one and some have not.
        Err(Error::Refused { reason, .. }) if reason.contains("configuration gives") => {}
        publishers => return publishers,
    }
    let one = |topic: &String| match client.publisher_by_configuration(topic) {
        Err(error) if lacks(&error) => client.publisher(topic, derived),
        publisher => publisher,
    };
    topics.iter().map(one).collect()
}

/// A text that is one level of a topic.
fn level(text: &str) -> String {
    text.trim().replace(|c: char| matches!(c, '/' | '+' | '#') || c.is_whitespace() || c.is_control(), "_")
}

struct Replay {
    client: Client,
    publishers: Vec<Publisher>,
    speed: f64,
    again: bool,
    until: Option<Instant>,
    stop: Stop,
    bar: ProgressBar,
    /// Rows that were recorded closer together are published this far apart, as the contract says.
    floor: Duration,
    /// When each was last published on.
    lasts: Vec<Option<Instant>>,
    began: Instant,
    /// The recording's time at which `began` was.
    origin_ns: Option<i64>,
    rows: u64,
    messages: u64,
    behind: Duration,
}

/// The longest sleep before looking whether to stop.
const NAP: Duration = Duration::from_millis(50);

impl Replay {
    fn new(
        arguments: &ReplayArguments,
        client: Client,
        publishers: Vec<Publisher>,
        recording: &Recording,
        floor: Span,
    ) -> Result<Replay, Trouble> {
        // Its topics are free again at once.
        let stop = Stop::on_signals()?;
        if arguments.until_input_closes {
            let stop = stop.handle();
            std::thread::Builder::new().spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                stop.store(true, Ordering::Relaxed);
            })?;
        }
        let bar = ProgressBar::new(recording.progress().1);
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {msg}");
        bar.set_style(style.map_err(|error| Trouble(error.to_string()))?);
        let until = arguments.seconds.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos_u64()));
        Ok(Replay {
            client,
            publishers,
            speed: arguments.speed,
            again: arguments.again,
            until,
            stop,
            bar,
            floor: if floor.is_forever() {
                Duration::ZERO
            } else {
                Duration::from_nanos(floor.as_nanos_u64())
            },
            lasts: vec![None; recording.columns().len()],
            began: Instant::now(),
            origin_ns: None,
            rows: 0,
            messages: 0,
            behind: Duration::ZERO,
        })
    }

    fn is_over(&self) -> bool {
        self.stop.is_asked() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn run(&mut self, recording: &mut Recording) -> Result<(), Trouble> {
        loop {
            let (done, _) = recording.progress();
            let Some(row) = recording.next_row()? else {
                if !self.again || self.rows == 0 {
                    break;
                }
                recording.rewind()?;
                // The next round begins one average step after the last row.
                let step = self.began.elapsed().div_f64(self.rows.max(1) as f64);
                (self.origin_ns, self.began) = (None, Instant::now() + step.min(Duration::from_secs(1)));
                continue;
            };
            let line = row.line;
            let origin = *self.origin_ns.get_or_insert(row.time_ns);
            let offset = (row.time_ns - origin).max(0) as f64 / self.speed;
            let recorded = self.began + Duration::from_nanos(offset as u64);
            // Each topic has a pace of its own.
            let latest = self.lasts.iter().zip(row.cells()).filter(|(_, cell)| cell.is_some());
            let latest = latest.filter_map(|(last, _)| *last).max();
            let due = latest.map_or(recorded, |last| recorded.max(last + self.floor));
            let lasts = self.lasts.iter_mut().zip(row.cells()).filter(|(_, cell)| cell.is_some());
            lasts.for_each(|(last, _)| *last = Some(due));
            if !self.sleep_until(due) {
                break;
            }
            let publishers = &self.publishers;
            let published = self.client.batch(|batch| {
                let mut published = 0;
                for (publisher, cell) in publishers.iter().zip(row.cells()) {
                    if let Some(cell) = cell {
                        batch.publish(publisher, cell.as_bytes())?;
                        published += 1;
                    }
                }
                Ok(published)
            });
            let published =
                published.map_err(|error| Trouble(format!("at line {line} of the recording: {error}")))?;
            self.rows += 1;
            self.messages += published;
            self.behind = self.behind.max(Instant::now().saturating_duration_since(due));
            self.bar.set_position(done);
            self.bar.set_message(format!("{} messages", self.messages));
        }
        self.bar.finish_and_clear();
        Ok(())
    }

    /// `false` if it is over meanwhile.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    fn summary(&self, arguments: &ReplayArguments, flaws: &Flaws) -> Summary {
        let topics =
            self.publishers.iter().map(|publisher| (publisher.topic().to_owned(), publisher.published()));
        let flaws = FlawKind::ALL.iter().map(|kind| (kind.to_string(), flaws.count(*kind)));
        Summary {
            file: arguments.file.display().to_string(),
            rows: self.rows,
            messages: self.messages,
            behind_ms: self.behind.as_secs_f64() * 1e3,
            flaws: flaws.filter(|(_, count)| *count > 0).collect(),
            topics: topics.collect(),
        }
    }
}

/// Tells what was wrong with the recording: how often, where first, and what to do.
fn report_flaws(flaws: &Flaws, is_sparse: bool) {
    if flaws.is_empty() {
        return;
    }
    for kind in FlawKind::ALL.into_iter().filter(|kind| !(is_sparse && *kind == FlawKind::MissingCell)) {
        let count = flaws.count(kind);
        if count > 0 {
            complain(&format!("verge: {count} × {kind}: {}", kind.remedy()));
            flaws.first(kind).iter().for_each(|flaw| complain(&format!("         {flaw}")));
        }
    }
}
