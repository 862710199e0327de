//! `verge demo`: a pair of brokers under load, real processes all of them; the primary is killed, restarts and rejoins,
//! and gets the reign back by a planned handover. At the end, what was sent is compared with what came.

mod processes;
mod relay;
mod report;
mod settings;
mod trace;
mod usage;

pub use settings::Policy;

use crate::worker::{PublishReport, READY, ReceiveReport};
use clap::Args;
use console::Format;
use console::{Outcome, Trouble, json, yes};
use contract::Span;
use host::realtime::{Wishes, ask};
use indicatif::{ProgressBar, ProgressStyle};
pub(super) use processes::{Folder, Process};
use recording::{Options, Recording};
use report::{Report, Terms, compare, show, silence_around};
use serde::Deserialize;
use settings::table;
pub(super) use settings::{configuration, free_ports};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use usage::{Reading, Ticks, Used, stolen_share};
use verge::{Client, NodeReport, Standing};

/// What is typed.
#[derive(Args, Debug)]
pub struct DemoArguments {
    /// A recording to replay beside the workload: CSV, also packed with gzip or zstd, or Parquet [default: a small generated one].
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Topics of the workload (FRAME, table 3.2): 25, and a multiple of 3 more.
    #[arg(long, default_value_t = 1525, value_name = "N")]
    pub topics: u32,
    /// How long it runs.
    #[arg(long, default_value_t = 16, value_name = "SECONDS")]
    pub seconds: u32,
    /// Kill nothing and hand nothing over: measure the calm.
    #[arg(long)]
    pub calm: bool,
    /// Write every message of one topic of each category into this file: CSV with number, creation and latency.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Order and copy messages as one of the configurations of FRAME §3.6.1 does [default: as brokers are shipped].
    #[arg(long, value_enum, hide = true)]
    pub policy: Option<Policy>,
    /// Leave the killed broker dead, as FRAME §3.6 does.
    #[arg(long, hide = true, conflicts_with = "calm")]
    pub leave_dead: bool,
}

/// The pace at which the recording is replayed: one row in this time.
const ROW_PERIOD: Span = Span::millis(100);
/// The delay to the "cloud", each way.
const CLOUD_DELAY: Duration = Duration::from_millis(20);
/// How long the processes may take to find each other.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How long the dead broker stays dead.
const DEAD: Duration = Duration::from_secs(1);
/// Until every message has come or is lost: the longest deadline, the failover, the time for a gap, the way to the cloud.
const SETTLE: Duration = Duration::from_millis(1_900);

/// The real-time priority of the demo's clients, below that of the brokers.
const CLIENT_PRIORITY: u8 = 10;

/// Runs the demo.
pub fn run(arguments: &DemoArguments, format: Format) -> Outcome {
    if arguments.seconds < 4 {
        return Err(Trouble("the demo needs at least 4 seconds".to_owned()));
    }
    // All clients run on this host as well, where other programs would delay them; in a plant they have hosts of their
    // own. What they are started with, the processes inherit; brokers ask for more by themselves.
    let wishes = Wishes { priority: Some(CLIENT_PRIORITY), processors: Vec::new(), lock_memory: false };
    if !ask(&wishes).is_empty() {
        eprintln!("note: without real-time rights, other programs on this host may delay the demo's clients");
    }
    let folder = Folder::new("verge-demo")?;
    let report =
        perform(&folder, arguments).map_err(|trouble| folder.explain(&trouble, &["a.log", "b.log"]))?;
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(yes(report.kept))
}

fn perform(folder: &Folder, arguments: &DemoArguments) -> Result<Report, Trouble> {
    let mut stage = Stage::set(folder, arguments)?;
    stage.play(arguments)?;
    stage.end(arguments)
}

/// Everything that takes part.
struct Stage {
    config: PathBuf,
    logs: [PathBuf; 2],
    brokers: [Option<Process>; 2],
    workload: Process,
    replay: Process,
    receivers: Vec<Process>,
    watcher: Client,
    terms: Terms,
    bar: ProgressBar,
    killed_at_ns: Option<u64>,
    calm: Used,
    resident: u64,
    began: Instant,
    /// Processor time of this host when the demo began.
    ticks: Option<Ticks>,
}

/// What `verge replay` reports.
#[derive(Deserialize)]
struct Replayed {
    topics: Vec<(String, u64)>,
}

impl Stage {
    /// Starts all processes; returns when the pair is protected and messages flow.
    fn set(folder: &Folder, arguments: &DemoArguments) -> Result<Stage, Trouble> {
        let bar = ProgressBar::new(u64::from(arguments.seconds) * 10);
        let style = ProgressStyle::with_template("{bar:40} {elapsed} {msg}");
        bar.set_style(style.map_err(|error| Trouble(error.to_string()))?);
        let ports = free_ports::<4>()?;
        let config = folder.file("verge.toml");
        std::fs::write(&config, configuration(ports, arguments.topics, arguments.policy))?;
        let logs = [folder.file("a.log"), folder.file("b.log")];
        say(&bar, "starting the brokers a and b");
        let brokers = [Some(start_broker(&config, 0, &logs)?), Some(start_broker(&config, 1, &logs)?)];
        let near = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[2]);
        let watcher = Client::builder().patience(PATIENCE).connect(&near)?;
        wait_for_protection(&watcher, 0)?;

        let address = |port: u16| ([127, 0, 0, 1], port).into();
        let far =
            [relay::start(address(ports[0]), CLOUD_DELAY)?, relay::start(address(ports[2]), CLOUD_DELAY)?];
        let far = format!("{},{}", far[0], far[1]);
        say(&bar, "starting an edge subscriber, and a cloud subscriber 20 ms away");
        let log = folder.file("clients.log");
        let mut receivers = Vec::new();
        for (brokers, filters) in
            [(&near, &["c0/+", "c1/+", "c2/+", "c3/+", "c4/+", "recording/+"][..]), (&far, &["c5/+"][..])]
        {
            let mut words = vec!["worker", "--host", brokers, "receive"];
            words.extend(arguments.trace.as_ref().map(|_| "--trace"));
            filters.iter().for_each(|filter| words.extend(["--filter", filter]));
            receivers.push(Process::start(&owned(&words), &log)?);
        }
        receivers.iter_mut().try_for_each(|receiver| receiver.wait_for(READY))?;
        let recording = arguments.data.clone().map_or_else(|| make_recording(folder), Ok)?;
        let table = table(arguments.policy);
        let count: u32 = table.categories(arguments.topics, 1).iter().map(|category| category.topics).sum();
        say(&bar, &format!("publishing {count} topics, and the recording {}", recording.display()));
        let topics = arguments.topics.to_string();
        let words = ["worker", "--host", &near, "publish", "--topics", &topics, "--table", &table.name()];
        let mut workload = Process::start(&owned(&words), &log)?;
        workload.wait_for(READY)?;
        let (replay, contract) = start_replay(&recording, &near, &log)?;
        let mut terms = Terms::new();
        for category in table.categories(arguments.topics, 1) {
            let c = &category.contract;
            terms.insert(
                format!("c{}", category.number),
                (c.period, c.deadline, c.loss.to_string(), c.retain.to_string()),
            );
        }
        terms.insert("recording".to_owned(), (contract, contract, "2".to_owned(), "1".to_owned()));
        Ok(Stage {
            config,
            logs,
            brokers,
            workload,
            replay,
            receivers,
            watcher,
            terms,
            bar,
            killed_at_ns: None,
            calm: Used::default(),
            resident: 0,
            began: Instant::now(),
            ticks: Ticks::now(),
        })
    }

    /// The play: calm, SIGKILL at half time, restart, planned handover.
    fn play(&mut self, arguments: &DemoArguments) -> Result<(), Trouble> {
        let total = Duration::from_secs(u64::from(arguments.seconds));
        if arguments.calm {
            return self.watch_calm(total);
        }
        self.watch_calm(total / 2)?;
        // On a host that is held up it may have become the other one meanwhile.
        let (name, first) = wait_for_protection(&self.watcher, 0)?;
        let index = usize::from(name == "b");
        let Some(mut primary) = self.brokers[index].take() else { return Ok(()) };
        self.killed_at_ns = Some(host::now().0);
        primary.kill()?;
        say(&self.bar, &format!("killed the primary {name} (process {}) with SIGKILL", primary.id()));
        if arguments.leave_dead {
            return self.watch_for(total.saturating_sub(self.began.elapsed()));
        }
        self.watch_for(DEAD)?;
        self.brokers[index] = Some(start_broker(&self.config, index, &self.logs)?);
        let (primary, _) = wait_for_protection(&self.watcher, first)?;
        say(&self.bar, &format!("{name} has restarted: protected again, {primary} reigns"));
        let handover = total * 4 / 5;
        self.watch_for(handover.saturating_sub(self.began.elapsed()))?;
        let epoch = self.hand_over()?;
        let (primary, _) = wait_for_protection(&self.watcher, epoch.0 - 1)?;
        say(&self.bar, &format!("handed over to {primary} as planned: epoch {epoch}"));
        self.watch_for(total.saturating_sub(self.began.elapsed()))
    }

    /// On a host that is held up, brokers may have suspected each other; then this waits until they are a pair again.
    fn hand_over(&self) -> Result<verge::Epoch, Trouble> {
        const ATTEMPTS: u32 = 5;
        for _ in 1..ATTEMPTS {
            wait_for_protection(&self.watcher, 0)?;
            if let Ok(epoch) = self.watcher.handover() {
                return Ok(epoch);
            }
        }
        Ok(self.watcher.handover()?)
    }

    fn watch_calm(&mut self, span: Duration) -> Result<(), Trouble> {
        // The first second is the start.
        let warm_up = Duration::from_secs(1);
        self.watch_for(warm_up)?;
        let before = self.reading();
        self.watch_for(span.saturating_sub(warm_up))?;
        self.calm = self.reading().since(&before);
        Ok(())
    }

    fn reading(&self) -> Reading {
        let [primary, backup] = &self.brokers;
        let [edge, cloud] = [self.receivers.first(), self.receivers.get(1)];
        Reading::of([primary.as_ref(), backup.as_ref(), Some(&self.workload), edge, cloud])
    }

    /// Shows how it goes for a while.
    fn watch_for(&mut self, span: Duration) -> Result<(), Trouble> {
        let until = Instant::now() + span;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
            self.bar.set_position(self.began.elapsed().as_millis() as u64 / 100);
            let resident = self.brokers.iter().flatten().filter_map(Process::resident_bytes).max();
            self.resident = self.resident.max(resident.unwrap_or(0));
            if !self.bar.is_hidden()
                && let Some(primary) =
                    reports(&self.watcher)?.into_iter().find(|r| r.standing == Standing::Primary)
            {
                self.bar.set_message(describe(&primary));
            }
        }
    }

    /// Stops the publishers, waits until everything has come, stops the receivers and compares.
    fn end(self, arguments: &DemoArguments) -> Result<Report, Trouble> {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut published: PublishReport = self.workload.finish()?;
        let replayed: Replayed = self.replay.finish()?;
        self.bar.set_message("waiting for the last messages");
        std::thread::sleep(SETTLE);
        let received =
            self.receivers.into_iter().map(Process::finish).collect::<Result<Vec<ReceiveReport>, _>>()?;
        let reports = reports(&self.watcher)?;
        let sum = |name: &str| reports.iter().map(|report| report.counter(name)).sum::<u64>() as f64;
        let replicated_share = sum("replicated") / sum("arrived").max(1.0);
        self.bar.finish_and_clear();
        for mut broker in self.brokers.into_iter().flatten().rev() {
            broker.terminate(Duration::from_secs(5))?;
        }
        let outages_ms = published.outages_ms.clone();
        let publisher_behind_ms = published.behind_ms;
        let sent: u64 = published.sent.iter().map(|(_, messages)| messages).sum();
        let published_share = sent as f64 / published.scheduled.max(1) as f64;
        if let Some(path) = &arguments.trace {
            trace::write(path, &received, self.killed_at_ns)
                .map_err(|error| Trouble(format!("cannot write {}: {error}", path.display())))?;
        }
        published.sent.extend(replayed.topics);
        let rows = compare(&self.terms, &[published], &received);
        let losses_kept = rows.iter().all(|row| row.kept);
        Ok(Report {
            losses_kept,
            kept: losses_kept && rows.iter().all(|row| row.late == 0),
            policy: arguments.policy.map_or_else(|| "shipped".to_owned(), Policy::name),
            topics: arguments.topics as usize,
            seconds,
            categories: rows,
            outages_ms,
            silence_ms: self.killed_at_ns.and_then(|at| silence_around(&received, at)),
            broker_cpu: self.calm.primary,
            processors: self.calm,
            broker_mib: self.resident as f64 / f64::from(1 << 20),
            replicated_share,
            publisher_behind_ms,
            published_share,
            stolen_share: stolen_share(self.ticks, Ticks::now()),
        })
    }
}

/// A line for whoever watches, above the progress bar where there is one.
pub(super) fn say(bar: &ProgressBar, text: &str) {
    if bar.is_hidden() {
        eprintln!("{text}");
    } else {
        bar.println(text);
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn start_broker(config: &Path, index: usize, logs: &[PathBuf; 2]) -> Result<Process, Trouble> {
    let config = config.display().to_string();
    Process::start(&owned(&["--config", &config, "--while-input", "broker", ["a", "b"][index]]), &logs[index])
}

fn reports(watcher: &Client) -> Result<Vec<NodeReport>, Trouble> {
    let mut reports = Vec::new();
    for index in 0..watcher.brokers()?.len() {
        reports.extend(watcher.status(index, false).unwrap_or(None));
    }
    Ok(reports)
}

/// Waits until one of the brokers reigns, in an epoch above this one, and the other stands by. Returns which one, and its
/// epoch.
pub(super) fn wait_for_protection(watcher: &Client, above: u64) -> Result<(&'static str, u64), Trouble> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        for (index, name) in ["a", "b"].into_iter().enumerate() {
            if let Ok(Some(report)) = watcher.status(index, false)
                && report.standing == Standing::Primary
                && report.protected
                && report.epoch.0 > above
            {
                return Ok((name, report.epoch.0));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Trouble("the brokers did not become a protected pair".to_owned()))
}

fn describe(report: &NodeReport) -> String {
    let protection = if report.protected { "protected" } else { "UNPROTECTED" };
    format!(
        "{} reigns in epoch {}, {protection}; {} messages, p99 {}",
        report.name,
        report.epoch,
        report.counter("dispatched"),
        report.latency[1]
    )
}

/// Replays the recording at one row every [`ROW_PERIOD`]. Returns the period of the contract as well.
fn start_replay(recording: &Path, brokers: &str, log: &Path) -> Result<(Process, Span), Trouble> {
    let survey = Recording::open(recording, &Options::default())?.survey()?;
    let step =
        survey.median_step_ns.filter(|step| *step > 0).or(survey.smallest_step_ns).unwrap_or(1_000_000_000);
    let speed = step as f64 / ROW_PERIOD.0 as f64;
    let period = Span::nanos(ROW_PERIOD.0 * 98 / 100);
    let (speed, file, period_text) = (speed.to_string(), recording.display().to_string(), period.to_string());
    let words = [
        "--format",
        "json",
        "replay",
        &file,
        "--host",
        brokers,
        "--speed",
        &speed,
        "--loop",
        "--until-input-closes",
        "--topic",
        "recording/{column}",
        "--period",
        &period_text,
        "--loss",
        "2",
        "--retain",
        "1",
        "--id",
        "demo-replay",
    ];
    Ok((Process::start(&owned(&words), log)?, period))
}

/// A small wind farm, for those who have no recording: three turbines, one row every ten minutes, a week long.
pub(super) fn make_recording(folder: &Folder) -> Result<PathBuf, Trouble> {
    const TURBINES: u32 = 3;
    const ROWS: i64 = 7 * 24 * 6;
    let path = folder.file("wind-farm.csv");
    let mut text = String::from("time");
    for turbine in 1..=TURBINES {
        let _ = write!(text, ",t{turbine}_power_kw,t{turbine}_wind_ms,t{turbine}_nacelle_deg");
    }
    for row in 0..ROWS {
        let _ = write!(text, "\n{}", 1_767_225_600 + row * 600);
        for turbine in 1..=TURBINES {
            // A breeze with a daily and a faster swing, a little different at each turbine.
            let phase = row as f64 / 144.0 * std::f64::consts::TAU + f64::from(turbine);
            let wind = (8.0 + 4.0 * phase.sin() + 1.5 * (phase * 9.7).sin()).max(0.0);
            let power = (wind.powi(3) * 0.9).min(1_500.0);
            let _ = write!(text, ",{power:.1},{wind:.2},{:.1}", (phase * 57.3 / 7.0).rem_euclid(360.0));
        }
    }
    std::fs::write(&path, text)?;
    Ok(path)
}
