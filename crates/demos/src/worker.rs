//! The demo's clients: one that publishes the workload, and some that receive. They end when their input closes, and
//! print what they saw as JSON.

use crate::workload::{Category, Table};
use clap::Subcommand;
use config::Config;
use console::{Outcome, Trouble, line, yes};
use hdrhistogram::Histogram;
use node::client::{Wanted, connect};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use verge::{Client, Delivery, Publisher, Reigning};

/// What it does.
#[derive(Subcommand, Debug)]
pub enum WorkerRole {
    /// Publishes a workload of FRAME or ARREC until its input closes.
    Publish {
        /// Topics.
        #[arg(long)]
        topics: u32,
        /// Of which publication.
        #[arg(long, value_enum, default_value_t)]
        table: Table,
        /// Only one in so many of the topics of each category.
        #[arg(long, default_value_t = 1)]
        divide: u32,
    },
    /// Receives until its input closes.
    Receive {
        /// What it subscribes.
        #[arg(long)]
        filter: Vec<String>,
        /// Reports the latency of every message.
        #[arg(long)]
        latencies: bool,
        /// Reports number, creation and latency of every message of topics whose last level is 0.
        #[arg(long)]
        trace: bool,
    },
}

/// What a worker says when it has begun.
pub(crate) const READY: &str = "ready";

/// What the publisher saw.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct PublishReport {
    /// Messages numbered, by topic.
    pub sent: Vec<(String, u64)>,
    /// How long there was no primary, each time after the first.
    pub outages_ms: Vec<f64>,
    /// The largest delay of a batch behind its schedule.
    pub behind_ms: f64,
    /// Messages that the schedule had for this time: more than were sent if the publisher was held up.
    pub scheduled: u64,
}

/// What a receiver saw.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct ReceiveReport {
    pub streams: Vec<StreamReport>,
    /// Latencies by the first level of the topic.
    pub latency: BTreeMap<String, LatencyReport>,
    /// When messages of the most urgent category arrived, by topic, in nanoseconds since the Unix epoch.
    pub arrivals: BTreeMap<String, Vec<u64>>,
    /// If asked for: of every message, when it arrived, in nanoseconds since the Unix epoch, and its latency in
    /// microseconds, by the first level of its topic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latencies: BTreeMap<String, Vec<(u64, u64)>>,
    /// If asked for: every message of the first topic of each group, by topic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traced: BTreeMap<String, Vec<Traced>>,
}

/// One message of a traced topic.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Traced {
    pub seq: u64,
    /// In nanoseconds since the Unix epoch.
    pub created_ns: u64,
    pub latency_ns: u64,
}

/// One stream as it was received.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct StreamReport {
    pub topic: String,
    pub received: u64,
    pub duplicates: u64,
    pub longest_run: u64,
    pub next_seq: u64,
    pub late: u64,
    pub tolerates: Option<u64>,
}

/// Latencies in milliseconds.
#[derive(Serialize, Deserialize, Clone, Default)]
pub(crate) struct LatencyReport {
    pub messages: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

/// Runs the worker.
pub fn run(config: &Config, brokers: &Wanted, role: &WorkerRole) -> Outcome {
    let over = watch_input()?;
    match role {
        WorkerRole::Publish { topics, table, divide } => {
            let categories = table.categories(*topics, *divide);
            publish(&connect(config, brokers, Some("demo-publisher"))?, &categories, &over)?;
        }
        WorkerRole::Receive { filter, latencies, trace } => {
            let collected = Collected {
                latencies: latencies.then(Vec::new),
                traced: trace.then(BTreeMap::new),
                ..Collected::default()
            };
            receive(&connect(config, brokers, None)?, filter, collected, &over)?;
        }
    }
    Ok(yes(true))
}

fn watch_input() -> Result<Arc<AtomicBool>, Trouble> {
    let over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&over);
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    })?;
    Ok(over)
}

fn print(report: &impl Serialize) -> Result<(), Trouble> {
    line(&serde_json::to_string(report).map_err(|error| Trouble(error.to_string()))?)
}

/// How much shorter than its period a step may be; less than `network.publisher_to_broker`, which covers it.
const JITTER: Duration = Duration::from_micros(500);

/// The largest payload of a workload.
const PAYLOAD_BYTES_MAX: usize = 512;

/// A batch of topics that are published together; ordered so that the next one due is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Proxy {
    due: std::cmp::Reverse<Instant>,
    first: usize,
    count: usize,
    period: Duration,
    payload_bytes: usize,
}

fn publish(client: &Client, categories: &[Category], over: &AtomicBool) -> Result<(), Trouble> {
    let outages = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outages);
    client.on_reign(move |reigning| {
        if let Reigning::Primary { outage, .. } = reigning {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(outage.as_millis_f64());
        }
    })?;
    let names: Vec<(String, &Category)> = categories
        .iter()
        .flat_map(|category| (0..category.topics).map(move |index| (category.topic(index), category)))
        .collect();
    let publishers =
        client.publishers(names.iter().map(|(name, category)| (name.as_str(), Some(category.contract))))?;
    line(READY)?;
    let mut proxies = plan(categories);
    let schedule: Vec<Scheduled> = proxies.iter().map(Scheduled::from).collect();
    let mut behind = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let Some(mut proxy) = proxies.pop() else { break };
        let now = Instant::now();
        if proxy.due.0 > now {
            std::thread::sleep(proxy.due.0 - now);
        }
        behind = behind.max(Instant::now().saturating_duration_since(proxy.due.0));
        let began = Instant::now();
        publish_batch(client, &publishers[proxy.first..proxy.first + proxy.count], proxy.payload_bytes)?;
        // A publisher that was held up does not catch up with a burst: that would break its own contract.
        proxy.due.0 = (proxy.due.0 + proxy.period).max(began + proxy.period - JITTER);
        proxies.push(proxy);
    }
    let ended = Instant::now();
    let scheduled = schedule.iter().map(|proxy| proxy.messages(ended)).sum();
    let sent =
        publishers.iter().map(|publisher| (publisher.topic().to_owned(), publisher.published())).collect();
    let outages_ms = outages.lock().unwrap_or_else(PoisonError::into_inner).clone();
    print(&PublishReport { sent, outages_ms, behind_ms: behind.as_secs_f64() * 1e3, scheduled })
}

/// What a proxy was to publish.
struct Scheduled {
    first: Instant,
    period: Duration,
    topics: u64,
}

impl From<&Proxy> for Scheduled {
    fn from(proxy: &Proxy) -> Scheduled {
        Scheduled { first: proxy.due.0, period: proxy.period, topics: proxy.count as u64 }
    }
}

impl Scheduled {
    /// Messages until then.
    fn messages(&self, until: Instant) -> u64 {
        let Some(passed) = until.checked_duration_since(self.first) else { return 0 };
        self.topics * (1 + (passed.as_nanos() / self.period.as_nanos().max(1)) as u64)
    }
}

/// The proxies of all categories, their first batches spread over their periods.
fn plan(categories: &[Category]) -> BinaryHeap<Proxy> {
    let begin = Instant::now() + Duration::from_millis(50);
    let mut proxies = BinaryHeap::new();
    let mut first = 0;
    for category in categories {
        let period = Duration::from_nanos(category.contract.period.as_nanos_u64());
        let batches = category.topics.div_ceil(category.batch.max(1));
        for batch in 0..batches {
            let count = category.batch.min(category.topics - batch * category.batch) as usize;
            let due = std::cmp::Reverse(begin + period * batch / batches.max(1));
            let payload_bytes = category.payload_bytes;
            proxies.push(Proxy { due, first, count, period, payload_bytes });
            first += count;
        }
    }
    proxies
}

fn publish_batch(client: &Client, publishers: &[Publisher], bytes: usize) -> Result<(), Trouble> {
    let payload = &[0x5a; PAYLOAD_BYTES_MAX][..bytes.min(PAYLOAD_BYTES_MAX)];
    client.batch(|batch| {
        for publisher in publishers {
            match batch.publish(publisher, payload) {
                Err(error) if !error.is_retryable() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// What has come, as it comes. Streams are looked up by their number, so that receiving costs little.
#[derive(Default)]
struct Collected {
    groups: Vec<(String, Histogram<u64>)>,
    /// By the number of the stream: its group, and when its messages arrived if those are remembered.
    streams: Vec<Option<(usize, Option<Vec<u64>>)>>,
    arrivals: BTreeMap<String, usize>,
    /// By group; `None` if nobody asked.
    latencies: Option<Vec<Vec<(u64, u64)>>>,
    /// By topic; `None` if nobody asked.
    traced: Option<BTreeMap<String, Vec<Traced>>>,
}

/// Latencies remembered per group.
const LATENCIES_MAX: usize = 1_000_000;
/// Messages remembered per traced topic.
const TRACED_MAX: usize = 100_000;
/// The last level of topics that are traced: one per group.
const TRACED: &str = "/0";
/// Arrivals remembered per topic.
const ARRIVALS_MAX: usize = 100_000;
/// The group of topics whose arrivals are remembered: the most urgent one.
const REMEMBERED: &str = "c0";

impl Collected {
    fn take(&mut self, delivery: &Delivery<'_>) {
        let index = delivery.stream as usize;
        if self.streams.get(index).is_none_or(Option::is_none) {
            self.begin(index, delivery.topic);
        }
        let Some(Some((group, arrivals))) = self.streams.get_mut(index) else { return };
        if let Some((_, histogram)) = self.groups.get_mut(*group) {
            histogram.saturating_record(delivery.latency.as_nanos_u64() / 1_000);
        }
        if let Some(latencies) = self.latencies.as_mut().and_then(|groups| groups.get_mut(*group))
            && latencies.len() < LATENCIES_MAX
        {
            let arrived = delivery.created + delivery.latency;
            latencies.push((arrived.0, delivery.latency.as_nanos_u64() / 1_000));
        }
        if let Some(traced) = self.traced.as_mut().filter(|_| delivery.topic.ends_with(TRACED)) {
            trace(traced, delivery);
        }
        if let Some(arrivals) = arrivals.as_mut().filter(|arrivals| arrivals.len() < ARRIVALS_MAX) {
            arrivals.push((delivery.created + delivery.latency).0);
        }
    }

    /// The first message of a stream.
    fn begin(&mut self, index: usize, topic: &str) {
        let name = topic.split('/').next().unwrap_or(topic);
        let known = self.groups.iter().position(|(group, _)| group == name);
        let group = known.unwrap_or(self.groups.len());
        if known.is_none() {
            let Ok(histogram) = Histogram::new_with_bounds(1, 60_000_000, 3) else { return };
            self.groups.push((name.to_owned(), histogram));
            self.latencies.iter_mut().for_each(|groups| groups.push(Vec::new()));
        }
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, || None);
        }
        let remembered = name == REMEMBERED;
        if remembered {
            self.arrivals.insert(topic.to_owned(), index);
        }
        self.streams[index] = Some((group, remembered.then(Vec::new)));
    }

    fn arrivals(&self) -> BTreeMap<String, Vec<u64>> {
        let of = |index: usize| self.streams.get(index)?.as_ref()?.1.clone();
        self.arrivals.iter().filter_map(|(topic, index)| Some((topic.clone(), of(*index)?))).collect()
    }
}

fn trace(traced: &mut BTreeMap<String, Vec<Traced>>, delivery: &Delivery<'_>) {
    if !traced.contains_key(delivery.topic) {
        traced.insert(delivery.topic.to_owned(), Vec::new());
    }
    if let Some(messages) = traced.get_mut(delivery.topic).filter(|messages| messages.len() < TRACED_MAX) {
        messages.push(Traced {
            seq: delivery.seq,
            created_ns: delivery.created.0,
            latency_ns: delivery.latency.as_nanos_u64(),
        });
    }
}

fn receive(
    client: &Client,
    filters: &[String],
    collected: Collected,
    over: &AtomicBool,
) -> Result<(), Trouble> {
    let collected = Arc::new(Mutex::new(collected));
    for filter in filters {
        let sink = Arc::clone(&collected);
        client.subscribe_with(filter, move |delivery| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).take(delivery);
        })?;
    }
    line(READY)?;
    while !over.load(Ordering::Relaxed) {
        client.check()?;
        std::thread::sleep(Duration::from_millis(20));
    }
    let streams = client.accounts()?.into_iter().map(|account| StreamReport {
        tolerates: match account.contract.loss {
            verge::Loss::AtMost(most) => Some(u64::from(most)),
            verge::Loss::Unbounded => None,
        },
        topic: account.topic,
        received: account.received,
        duplicates: account.duplicates,
        longest_run: account.longest_run,
        next_seq: account.next_seq,
        late: account.late,
    });
    let collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
    let ms = |micros: u64| micros as f64 / 1e3;
    let latency = collected.groups.iter().map(|(group, histogram)| {
        let report = LatencyReport {
            messages: histogram.len(),
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            p999_ms: ms(histogram.value_at_quantile(0.999)),
            max_ms: ms(histogram.max()),
        };
        (group.clone(), report)
    });
    let (streams, latency) = (streams.collect(), latency.collect());
    let names = collected.groups.iter().map(|(name, _)| name.clone());
    let latencies = names.zip(collected.latencies.iter().flatten().cloned()).collect();
    let traced = collected.traced.clone().unwrap_or_default();
    print(&ReceiveReport { streams, latency, arrivals: collected.arrivals(), latencies, traced })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_counts_the_first_batch_and_one_for_each_period_passed() {
        let first = Instant::now() + Duration::from_secs(1);
        let proxy = Scheduled { first, period: Duration::from_millis(100), topics: 50 };
        let after = |ms| proxy.messages(first + Duration::from_millis(ms));
        assert_eq!(proxy.messages(first - Duration::from_millis(1)), 0);
        assert_eq!([after(0), after(99), after(100), after(250)], [50, 50, 100, 150]);
    }
}
