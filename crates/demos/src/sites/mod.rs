//! `verge site demo`: two sites and a router between them, a pair of brokers each, real processes all of them. Every primary is killed in its turn, and
//! then the router is gone for a while, with a primary dying meanwhile. At the end, what was published at one site is compared with what came to the other.

mod ledger;

use crate::crash::{
    Folder, PATIENCE, Process, configuration, free_ports, say, start_broker, wait_for_protection,
};
use clap::Args;
use console::{Format, GREEN, Outcome, RED, Trouble, coloured, json, line, table, yes};
use contract::{Contract, Span};
use indicatif::{ProgressBar, ProgressStyle};
use ledger::{Ledger, Row, Way};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Publisher};

/// What is typed.
#[derive(Args, Debug)]
pub struct SitesDemoArguments {
    /// Topics that cross, each with ten messages in a second.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub topics: u32,
    /// For how many seconds the sites are cut off from each other.
    #[arg(long, default_value_t = 8, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(2..=600))]
    pub cut: u32,
}

/// Between two messages of a topic.
const PERIOD: Span = Span::millis(100);
/// Calm before something dies, and for how long it stays dead.
const CALM: Duration = Duration::from_secs(3);
/// Until everything that was missed has come.
const SETTLE: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Serialize)]
struct Report {
    /// Nothing is missing, and nothing came twice.
    kept: bool,
    topics: u32,
    rows: Vec<Row>,
}

/// Runs the demo.
pub fn run(arguments: &SitesDemoArguments, format: Format) -> Outcome {
    let folder = Folder::new("verge-demo-sites")?;
    let logs = ["router-a.log", "router-b.log", "north-a.log", "north-b.log", "south-a.log", "south-b.log"];
    let rows = perform(&folder, arguments).map_err(|trouble| folder.explain(&trouble, &logs))?;
    let kept = rows.iter().all(|row| row.missing == 0 && row.twice == 0);
    let report = Report { kept, topics: arguments.topics, rows };
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(yes(report.kept))
}

fn show(report: &Report) -> Result<(), Trouble> {
    let headings = [
        "what happened",
        "published",
        "came live",
        "came as backlog",
        "missing",
        "twice",
        "longest silence ms",
    ];
    let mut shown = table(&headings, &[1, 2, 3, 4, 5, 6]);
    for row in &report.rows {
        let counts =
            [row.published, row.live, row.backlog, row.missing, row.twice].map(|count| count.to_string());
        let silence = row.silence_ms.map_or_else(|| "cut off".to_owned(), |silence| format!("{silence:.0}"));
        shown.add_row([row.what.clone()].into_iter().chain(counts).chain([silence]));
    }
    line(&shown.to_string())?;
    line(&if report.kept {
        coloured("Everything that was published at one site came to the other, once.", GREEN)
    } else {
        coloured("Something is missing, or came twice.", RED)
    })?;
    line(
        "`Longest silence` is at the other site, between two messages of a topic; they are published each 100 ms.",
    )
}

/// A pair of brokers, each a process.
struct Pair {
    config: PathBuf,
    logs: [PathBuf; 2],
    brokers: [Option<Process>; 2],
    /// Where clients reach it.
    near: String,
    watcher: Client,
}

impl Pair {
    fn start(folder: &Folder, name: &str, ports: [u16; 4], more: &str) -> Result<Pair, Trouble> {
        let config = folder.file(&format!("{name}.toml"));
        std::fs::write(&config, configuration(ports, 0, None) + more)?;
        let logs = ["a", "b"].map(|broker| folder.file(&format!("{name}-{broker}.log")));
        let near = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[2]);
        let brokers = [Some(start_broker(&config, 0, &logs)?), Some(start_broker(&config, 1, &logs)?)];
        let watcher = Client::builder().patience(PATIENCE).connect(&near)?;
        wait_for_protection(&watcher, 0)?;
        Ok(Pair { config, logs, brokers, near, watcher })
    }

    /// SIGKILL to the one that reigns. Returns its place, and its epoch.
    fn kill_primary(&mut self) -> Result<(usize, u64), Trouble> {
        let (name, epoch) = wait_for_protection(&self.watcher, 0)?;
        let index = usize::from(name == "b");
        self.kill(index)?;
        Ok((index, epoch))
    }

    fn kill(&mut self, index: usize) -> Result<(), Trouble> {
        match self.brokers[index].take() {
            Some(mut broker) => broker.kill(),
            None => Ok(()),
        }
    }

    fn restart(&mut self, index: usize) -> Result<(), Trouble> {
        self.brokers[index] = Some(start_broker(&self.config, index, &self.logs)?);
        Ok(())
    }
}

/// What makes a pair a site.
fn joined(folder: &Folder, name: &str, router: [u16; 4]) -> String {
    let [first, _, second, _] = router;
    let journal = folder.file(&format!("journal-{name}"));
    format!(
        "[site]\nname = \"{name}\"\njournal = \"{}\"\n[routers.r1]\naddress = \"127.0.0.1:{first}\"\npartner = \"127.0.0.1:{second}\"\n\
         [[topic]]\nfilter = \"plant/+\"\nperiod = \"{PERIOD}\"\ndeadline = \"2s\"\nretain = 5\nkeep = \"1h\"\n",
        journal.display()
    )
}

/// Everything that takes part.
struct Stage {
    router: Pair,
    north: Pair,
    south: Pair,
    ledger: Ledger,
    bar: ProgressBar,
}

fn perform(folder: &Folder, arguments: &SitesDemoArguments) -> Result<Vec<Row>, Trouble> {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.map_err(|error| Trouble(error.to_string()))?);
    let (ports, north, south) = (free_ports::<4>()?, free_ports::<4>()?, free_ports::<4>()?);
    say(&bar, "starting a router, and the sites north and south: a pair of brokers each");
    let router = Pair::start(folder, "router", ports, "")?;
    let north = Pair::start(folder, "north", north, &joined(folder, "north", ports))?;
    let south = Pair::start(folder, "south", south, &joined(folder, "south", ports))?;
    let ledger = Ledger::default();
    let historian = Client::builder().patience(PATIENCE).connect(&south.near)?;
    for (way, filter) in [(Way::Live, "plant/+"), (Way::Backlog, "$backlog/plant/+")] {
        let book = ledger.clone();
        historian.subscribe_with(filter, move |delivery| book.came(way, delivery.topic, delivery.payload))?;
    }
    say(&bar, &format!("publishing {} topics at north, and subscribing them at south", arguments.topics));
    let plant = Client::builder().patience(PATIENCE).connect(&north.near)?;
    let topics: Vec<String> = (0..arguments.topics).map(|topic| format!("plant/{topic}")).collect();
    let contract = Contract::every(PERIOD).deadline(Span::secs(2)).retain(5);
    let publishers = plant.publishers(topics.iter().map(|topic| (topic.as_str(), Some(contract))))?;
    let load = Load::start(publishers, ledger.clone());
    let mut stage = Stage { router, north, south, ledger, bar };
    stage.wait_for_the_way(arguments.topics)?;
    stage.play(arguments)?;
    load.stop()?;
    stage.settle();
    stage.bar.finish_and_clear();
    Ok(stage.ledger.rows())
}

impl Stage {
    /// What is published before the way is open has nobody to go to.
    fn wait_for_the_way(&self, topics: u32) -> Result<(), Trouble> {
        let until = Instant::now() + PATIENCE;
        while self.ledger.topics_that_came() < topics as usize {
            if Instant::now() > until {
                return Err(Trouble("nothing has crossed between the sites".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // And the journals' places are known.
        self.watch_for(Duration::from_secs(4));
        Ok(())
    }

    fn play(&mut self, arguments: &SitesDemoArguments) -> Result<(), Trouble> {
        self.ledger.begin("nothing");
        self.watch_for(CALM);
        for who in ["north", "south", "the router"] {
            let pair = self.pair(who);
            let (index, epoch) = pair.kill_primary()?;
            self.ledger.begin(&format!("the primary of {who} was killed"));
            say(&self.bar, &format!("killed the primary of {who} with SIGKILL"));
            self.watch_for(CALM);
            let pair = self.pair(who);
            pair.restart(index)?;
            wait_for_protection(&pair.watcher, epoch)?;
            self.watch_for(CALM);
        }
        self.ledger.begin_cut("both brokers of the router gone, north's primary killed");
        self.router.kill(0)?;
        self.router.kill(1)?;
        say(&self.bar, "killed both brokers of the router: the sites are cut off from each other");
        let cut = Duration::from_secs(arguments.cut.into());
        self.watch_for(cut / 2);
        let (index, epoch) = self.north.kill_primary()?;
        say(&self.bar, "and north's primary meanwhile");
        self.watch_for(cut / 2);
        self.router.restart(0)?;
        self.router.restart(1)?;
        self.north.restart(index)?;
        wait_for_protection(&self.north.watcher, epoch)?;
        wait_for_protection(&self.router.watcher, 0)?;
        say(&self.bar, "the router is back: what was missed comes from the journals");
        self.watch_for(Duration::from_secs(6));
        self.ledger.begin("all is well again");
        self.watch_for(CALM);
        Ok(())
    }

    fn pair(&mut self, who: &str) -> &mut Pair {
        match who {
            "north" => &mut self.north,
            "south" => &mut self.south,
            _ => &mut self.router,
        }
    }

    /// Shows how it goes for a while.
    fn watch_for(&self, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            let (published, live, backlog) = self.ledger.counts();
            self.bar.set_message(format!("{published} published, {live} came live, {backlog} as backlog"));
            self.bar.tick();
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for what is still on its way.
    fn settle(&self) {
        let until = Instant::now() + SETTLE;
        while !self.ledger.is_complete() && Instant::now() < until {
            self.watch_for(Duration::from_millis(200));
        }
    }
}

/// Topics that are published by a thread of their own.
struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Trouble>>,
}

impl Load {
    fn start(publishers: Vec<Publisher>, ledger: Ledger) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || publish(&publishers, &ledger, &stopped));
        Load { stop, thread }
    }

    fn stop(self) -> Result<(), Trouble> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(Trouble("the publisher has ended".to_owned())))
    }
}

/// Publishes all topics at their period, until stopped.
fn publish(publishers: &[Publisher], ledger: &Ledger, stopped: &AtomicBool) -> Result<(), Trouble> {
    // A little more than the period, which is the shortest time.
    let round = Duration::from_nanos(PERIOD.as_nanos_u64() * 102 / 100);
    let mut due = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        for publisher in publishers {
            let number = publisher.published();
            ledger.published(publisher.topic(), number);
            publisher.publish(&number.to_le_bytes())?;
        }
        due = (due + round).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()).max(round / 2));
    }
    Ok(())
}
