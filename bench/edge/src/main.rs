//! Made-up workloads at half to all of what a broker of this host admits, with real processes, and how late they are at their subscribers.

mod brokers;
mod subscribers;
mod workload;

use brokers::Brokers;
use clap::Parser;
use contract::Span;
use serde::Serialize;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use subscribers::{Seen, Subscriber, receive};
use verge::{Client, Contract};
use verge_bench_mqtt::poller::now_ns;
use verge_bench_peers::pace::go_first;
use workload::{Host, PROCESSED, Workload};

/// Runs one made-up workload and reports what came of it as JSON.
#[derive(Parser)]
struct Arguments {
    /// From which the workload is made up.
    #[arg(long)]
    seed: u64,
    /// The program.
    #[arg(long)]
    verge: PathBuf,
    /// What `verge calibrate` has kept.
    #[arg(long)]
    profile: PathBuf,
    /// What counts, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Instead of a half to all of what is admitted; above 1, the broker is told to refuse nothing.
    #[arg(long)]
    load: Option<f64>,
}

/// What came of a workload.
#[derive(Default, Serialize)]
struct Report {
    #[serde(flatten)]
    workload: Workload,
    /// The shortest deadline that is admitted; none: not even 5 s.
    edge_ms: Option<f64>,
    deadline_ms: f64,
    /// Why it was refused after all.
    refused: Option<String>,
    expected: u64,
    received: u64,
    late: u64,
    p50_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
    /// How late the publishers were themselves.
    load_late_ms: f64,
    /// Of the broker's process, in processors.
    used: f64,
}

/// Above the broker's own, where the host allows it.
const PRIORITY: u8 = 60;
const SETTLE: Duration = Duration::from_millis(700);
const QUIET: Duration = Duration::from_millis(300);

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let host = Host::load(&arguments.profile).map_err(io::Error::other)?;
    let mut workload = Workload::of(arguments.seed);
    workload.load = arguments.load.unwrap_or(workload.load);
    let report = run(&arguments, &host, workload)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn millis(span: Span) -> f64 {
    span.0 as f64 / 1e6
}

/// What was carried.
struct Carried {
    seen: Seen,
    /// Messages that were sent while it counted.
    sent: u64,
    load_late_ns: u64,
    used: f64,
}

fn run(arguments: &Arguments, host: &Host, workload: Workload) -> io::Result<Report> {
    let edge = workload.edge(host);
    // The ways take their part of the deadline, whatever the load.
    let ways = contract::Delays::default().publisher_to_broker + Span::millis(1);
    let at_edge = edge.unwrap_or(Span::secs(5));
    let deadline = ways + Span(((at_edge - ways).0 as f64 / workload.load) as i64);
    let mut report = Report { edge_ms: edge.map(millis), deadline_ms: millis(deadline), ..Report::default() };
    if edge.is_some() {
        let brokers = Brokers::start(&arguments.verge, &arguments.profile, &workload, workload.load > 1.0)?;
        match carry(&brokers, &workload, deadline, arguments.seconds) {
            Ok(carried) => report.fill(carried, &workload, deadline),
            Err(error) => report.refused = Some(error.to_string()),
        }
    }
    report.workload = workload;
    Ok(report)
}

impl Report {
    fn fill(&mut self, carried: Carried, workload: &Workload, deadline: Span) {
        let mut latencies = carried.seen.latencies;
        latencies.sort_unstable();
        let at = |share: f64| {
            let index = ((latencies.len() as f64 - 1.0) * share).max(0.0) as usize;
            latencies.get(index).map_or(0.0, |latency| *latency as f64 / 1e6)
        };
        self.expected = carried.sent * workload.subscribers() as u64;
        self.received = latencies.len() as u64;
        self.late = latencies.iter().filter(|latency| **latency > deadline.0 as u64).count() as u64;
        (self.p50_ms, self.p99_ms, self.worst_ms) = (at(0.5), at(0.99), at(1.0));
        (self.load_late_ms, self.used) = (carried.load_late_ns as f64 / 1e6, carried.used);
    }
}

fn subscribe_all(brokers: &Brokers, workload: &Workload) -> io::Result<Vec<Subscriber>> {
    let kind = |number: usize| {
        if number < workload.tcp {
            (brokers.tcp, None, false)
        } else if number < workload.tcp + workload.tls {
            (brokers.tls, Some(&brokers.trust), false)
        } else {
            (brokers.mqtt, None, true)
        }
    };
    let open = |number: usize| {
        let (address, tls, mqtt) = kind(number);
        Subscriber::open(number, address, tls, mqtt)
    };
    (0..workload.subscribers()).map(open).collect()
}

/// Everything at once: subscribers, publishers, operators. `Err`: why it was refused, or what broke.
fn carry(brokers: &Brokers, workload: &Workload, deadline: Span, seconds: f64) -> io::Result<Carried> {
    let (contract, all) = (workload.contract(deadline), subscribe_all(brokers, workload)?);
    let stop = AtomicBool::new(false);
    let registering = Duration::from_millis(1_500 + workload.topics() as u64 / 4);
    let from = now_ns() + (SETTLE + registering).as_nanos() as u64;
    let until = from + (seconds * 1e9) as u64;
    let (sent, load_late) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            go_first(PRIORITY);
            receive(all, from, &stop)
        });
        let publishing = (0..workload.publishers).map(|number| {
            let (contract, sent, load_late) = (&contract, &sent, &load_late);
            scope.spawn(move || publish(number, workload, contract, brokers, [from, until], sent, load_late))
        });
        let mut publishing: Vec<_> = publishing.collect();
        if workload.operators {
            publishing.push(scope.spawn(|| publish_processed(brokers, until)));
        }
        let before = wait_for_use(brokers, from);
        let used = (wait_for_use(brokers, until) - before) / seconds;
        let panicked = |_| Err(io::Error::other("a publisher panicked"));
        let mut publishing = publishing.into_iter();
        let published = publishing.try_for_each(|thread| thread.join().unwrap_or_else(panicked));
        std::thread::sleep(QUIET + Duration::from_nanos(deadline.0.min(1_000_000_000) as u64));
        stop.store(true, Ordering::Relaxed);
        let seen = receiving.join().unwrap_or_else(|_| Err(io::Error::other("receiving panicked")))?;
        published?;
        let (sent, load_late_ns) = (sent.load(Ordering::Relaxed), load_late.load(Ordering::Relaxed));
        Ok(Carried { seen, sent, load_late_ns, used })
    })
}

fn wait_for_use(brokers: &Brokers, at: u64) -> f64 {
    sleep_until(at);
    brokers.used()
}

fn sleep_until(at: u64) {
    std::thread::sleep(Duration::from_nanos(at.saturating_sub(now_ns())));
}

/// All topics of one connection, together in each period.
fn publish(
    number: usize,
    workload: &Workload,
    contract: &Contract,
    brokers: &Brokers,
    [from, until]: [u64; 2],
    sent: &AtomicU64,
    load_late: &AtomicU64,
) -> io::Result<()> {
    let client = Client::builder()
        .name(&format!("edge-publisher-{number}"))
        .patience(Duration::from_secs(20))
        .connect(&brokers.addresses)
        .map_err(io::Error::other)?;
    let names: Vec<String> =
        (0..workload.topics_each).map(|topic| format!("edge/t/{number}/{topic}")).collect();
    let topics = names.iter().map(|name| (name.as_str(), Some(*contract)));
    let publishers = client.publishers(topics).map_err(io::Error::other)?;
    go_first(PRIORITY);
    let period = (workload.period_ms * 1_000_000) as u64;
    // A second before anything counts, and each connection at a time of its own.
    let mut due = from - 1_000_000_000 + period * number as u64 / workload.publishers as u64;
    let mut payload = vec![7; workload.bytes];
    while due < until {
        sleep_until(due);
        let now = now_ns();
        payload[..8].copy_from_slice(&now.to_le_bytes());
        client
            .batch(|batch| publishers.iter().try_for_each(|one| batch.publish(one, &payload).map(drop)))
            .map_err(io::Error::other)?;
        if now >= from {
            sent.fetch_add(publishers.len() as u64, Ordering::Relaxed);
            load_late.fetch_max(now - due, Ordering::Relaxed);
        }
        // One that was late is not followed sooner: the contract says how long the period is at least.
        due = (due + period).max(now + period);
    }
    std::thread::sleep(QUIET);
    Ok(())
}

/// What operators take.
fn publish_processed(brokers: &Brokers, until: u64) -> io::Result<()> {
    let client =
        Client::builder().name("edge-processed").connect(&brokers.addresses).map_err(io::Error::other)?;
    let contract = Contract::every(Span::millis(50)).best_effort();
    let publisher = client.publisher(PROCESSED, contract).map_err(io::Error::other)?;
    while now_ns() < until {
        publisher.publish(&1.5_f32.to_le_bytes()).map_err(io::Error::other)?;
        std::thread::sleep(Duration::from_millis(55));
    }
    Ok(())
}
