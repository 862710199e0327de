//! `verge replay`: publishes a recording at the pace at which it was made, or faster.

use super::connect;
use super::watch::Watch;
use crate::arguments::{Format, ReplayArguments};
use crate::config::Config;
use crate::output::{Outcome, Trouble, complain, json, line, yes};
use crate::recording::{FlawKind, Flaws, Options, Recording, Survey};
use contract::Span;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    };
    let survey = Recording::survey(&arguments.file, &options)?;
    let period = pace(&survey, arguments.speed);
    let mut recording = Recording::open(&arguments.file, &options)?;
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let _watch = Watch::start(&client, config)?;
    let publishers = match advertise(&client, arguments, &recording, period) {
        Err(Error::Refused { topic, reason, .. }) => {
            complain(&format!("verge: the contract of `{topic}` was refused: {reason}"));
            return Ok(yes(false));
        }
        publishers => publishers?,
    };
    if let Some(column) = recording.time_column() {
        complain(&format!(
            "verge: the times are those of the column `{column}`; one contract period is {period}"
        ));
    }
    if !recording.has_time() {
        complain(
            "verge: the recording has no times: one row a second is assumed (or name one with --time-column)",
        );
    }
    let floor =
        if arguments.contract.is_given() { arguments.contract.contract(period).period } else { period };
    let mut replay = Replay::new(arguments, client, publishers, &recording, floor)?;
    replay.run(&mut recording)?;
    let summary = replay.summary(arguments, recording.flaws());
    report_flaws(recording.flaws());
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

/// The period of the contract: the shortest step of the recording, sped up, less a little for the clock's granularity.
fn pace(survey: &Survey, speed: f64) -> Span {
    let step = survey.smallest_step_ns.unwrap_or(1_000_000_000) as f64 / speed;
    Span::nanos(((step * 0.98) as i64).max(1_000))
}

fn advertise(
    client: &Client,
    arguments: &ReplayArguments,
    recording: &Recording,
    period: Span,
) -> Result<Vec<Publisher>, Error> {
    let file = arguments.file.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or("recording");
    let topics: Vec<String> = recording
        .columns()
        .iter()
        .map(|column| {
            arguments.topic.replace("{file}", &level(stem)).replace("{column}", &level(&column.name))
        })
        .collect();
    let contract = arguments.contract.is_given().then(|| arguments.contract.contract(period));
    if let Some(contract) = contract {
        return client.publishers(topics.iter().map(|topic| (topic.as_str(), Some(contract))));
    }
    // The configured contracts where there are some; else one that follows from the recording.
    match client.publishers(topics.iter().map(|topic| (topic.as_str(), None))) {
        Err(Error::Refused { reason, .. }) if reason.contains("has no contract") => {
            let derived = arguments.contract.contract(period).tolerate(2);
            client.publishers(topics.iter().map(|topic| (topic.as_str(), Some(derived))))
        }
        publishers => publishers,
    }
}

/// A text that is one level of a topic.
fn level(text: &str) -> String {
    text.trim().replace(['/', '+', '#', ' '], "_")
}

struct Replay {
    client: Client,
    publishers: Vec<Publisher>,
    speed: f64,
    again: bool,
    until: Option<Instant>,
    stopped: Arc<AtomicBool>,
    bar: ProgressBar,
    /// Rows that were recorded closer together are published this far apart, as the contract says.
    floor: Duration,
    last: Option<Instant>,
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
        let stopped = Arc::new(AtomicBool::new(false));
        if arguments.until_input_closes {
            let stop = Arc::clone(&stopped);
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
            stopped,
            bar,
            floor: if floor.is_forever() {
                Duration::ZERO
            } else {
                Duration::from_nanos(floor.as_nanos_u64())
            },
            last: None,
            began: Instant::now(),
            origin_ns: None,
            rows: 0,
            messages: 0,
            behind: Duration::ZERO,
        })
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
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
            let due = self.last.map_or(recorded, |last| recorded.max(last + self.floor));
            self.last = Some(due);
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
fn report_flaws(flaws: &Flaws) {
    if flaws.is_empty() {
        return;
    }
    for kind in FlawKind::ALL {
        let count = flaws.count(kind);
        if count > 0 {
            complain(&format!("verge: {count} × {kind}: {}", kind.remedy()));
            flaws.first(kind).iter().for_each(|flaw| complain(&format!("         {flaw}")));
        }
    }
}
