//! `verge bench`: what a running pair does with a load, measured by subscribers.
//!
//! Messages are due at fixed times, whatever became of those before (an open loop), and latency counts from when a message was due. So a
//! standstill shows in all messages that should have been sent meanwhile, and not in one. Publishers and subscribers share this host's clock.

use super::replay::derived;
use super::watch::Watch;
use super::{connect, stopping::Stop};
use crate::arguments::{BenchArguments, Format};
use config::Config;
use console::{Outcome, Trouble, complain, json, line, table, yes};
use contract::{Loss, Span, Time};
use hdrhistogram::Histogram;
use host::now;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use verge::{Client, Publisher, Reigning};

/// Most messages of a run; of each is kept whether it has come.
const MESSAGES_MAX: u64 = 1 << 30;
/// The longest time that is told apart from longer ones.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Digits of latencies that are kept.
const DIGITS: u8 = 3;
/// How long is waited for what has not come, beyond the time of a failover.
const STRAGGLERS: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(1);

/// What was measured. Fields of another version's that are not known are passed over.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Measured {
    topics: u32,
    subscribers: u32,
    /// Messages in a second, over all topics.
    rate: f64,
    payload_bytes: u32,
    seconds: f64,
    contract: String,
    published: u64,
    /// By all subscribers together, each message counted once for each.
    received: u64,
    duplicates: u64,
    lost: u64,
    /// The longest run of losses of one topic at one subscriber.
    longest_run: u64,
    /// Later than the deadline.
    late: u64,
    /// From when a message was due to its arrival.
    latency_us: Times,
    /// How much later than due messages left this program: where that is much, it is this host that is measured.
    sent_after_us: Times,
    failovers: u32,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Times {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Times {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let max = histogram.max() as f64 / 1e3;
        Times { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max }
    }
}

/// What one subscriber has seen.
struct Seen {
    /// By number.
    has: Vec<u64>,
    /// The first that counts.
    first: u64,
    received: u64,
    duplicates: u64,
    late: u64,
    latency: Histogram<u64>,
}

impl Seen {
    fn new(messages: u64, first: u64) -> Result<Seen, Trouble> {
        let words = usize::try_from(messages.div_ceil(64)).unwrap_or(usize::MAX);
        let latency = histogram()?;
        Ok(Seen { has: vec![0; words], first, received: 0, duplicates: 0, late: 0, latency })
    }

    fn hear(&mut self, number: u64, latency: Span, deadline: Span) {
        let Some(word) = self.has.get_mut((number / 64) as usize) else { return };
        let bit = 1 << (number % 64);
        if *word & bit != 0 {
            self.duplicates += u64::from(number >= self.first);
            return;
        }
        *word |= bit;
        if number < self.first {
            return;
        }
        self.received += 1;
        self.late += u64::from(latency > deadline);
        self.latency.saturating_record(latency.as_nanos_u64());
    }

    /// How many of these numbers never came, and the longest run of them.
    fn missing(&self, numbers: impl Iterator<Item = u64>) -> (u64, u64) {
        let (mut lost, mut run, mut longest) = (0, 0_u64, 0);
        for number in numbers {
            let word = self.has.get((number / 64) as usize).copied().unwrap_or(0);
            run = if word & (1 << (number % 64)) == 0 { run + 1 } else { 0 };
            lost += u64::from(run > 0);
            longest = longest.max(run);
        }
        (lost, longest)
    }
}

fn histogram() -> Result<Histogram<u64>, Trouble> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).map_err(|error| Trouble(error.to_string()))
}

/// Measures, and compares with an earlier measurement if there is one.
pub fn run(config: &Config, arguments: &BenchArguments, format: Format) -> Outcome {
    let before = arguments.before.as_deref().map(read).transpose()?;
    if let Some(file) = &arguments.save {
        // Whether it can be written is known before, and what is there stays until there is something else.
        OpenOptions::new().create(true).append(true).open(file).map_err(|error| unwritable(file, &error))?;
    }
    let interval = Span((1e9 / arguments.rate).round().max(1.0) as i64);
    let length = arguments.duration + arguments.warm_up;
    let messages = u64::try_from(length.0 / interval.0).unwrap_or(0);
    if messages > MESSAGES_MAX || messages < u64::from(arguments.topics) {
        return Err(Trouble(format!(
            "{messages} messages on {} topics cannot be measured: at least one for each topic, and at most {MESSAGES_MAX}; change --duration \
             or --rate",
            arguments.topics
        )));
    }
    // A message that leaves late comes sooner before the next one, and breaks no contract by that.
    let period = Span((interval.0.saturating_mul(arguments.topics.into()) / 2).max(1));
    let mut contract = derived(config, period, &arguments.contract);
    if arguments.contract.size.is_none() {
        contract.size = arguments.payload;
    }
    let prefix = format!("bench/{:08x}", host::random_number() as u32);
    let names: Vec<String> = (0..arguments.topics).map(|number| format!("{prefix}/{number}")).collect();
    let client = connect(config, &arguments.brokers, None)?;
    let stop = Stop::on_signals()?;
    let _watch = Watch::start(&client, config)?;
    let first = u64::try_from(arguments.warm_up.0 / interval.0).unwrap_or(0);
    let first = first.next_multiple_of(arguments.topics.into());
    let subscribers = (0..arguments.subscribers)
        .map(|_| {
            let seen = Seen::new(messages, first)?;
            subscribe(config, arguments, &format!("{prefix}/#"), seen, contract.deadline)
        })
        .collect::<Result<Vec<_>, Trouble>>()?;
    // The publishers' client has somebody who hears of reigns.
    let failovers = count_failovers(&subscribers[0].0)?;
    let asked = names.iter().map(|name| (name.as_str(), Some(contract)));
    let publishers = client.publishers(asked)?;
    let mut sent_after = histogram()?;
    let load = Workload { interval, messages, payload: arguments.payload as usize };
    let published = load.publish(&client, &publishers, &mut sent_after, &stop)?;
    let first = first.min(published);
    let patience = STRAGGLERS + Duration::from_nanos(config.delays.failover.as_nanos_u64());
    wait_for(&subscribers, published, patience);
    let mut measured = Measured {
        topics: arguments.topics,
        subscribers: arguments.subscribers,
        rate: 1e9 / interval.0 as f64,
        payload_bytes: arguments.payload,
        seconds: (published - first) as f64 * interval.0 as f64 / 1e9,
        contract: contract.to_string(),
        published: published - first,
        sent_after_us: Times::of(&sent_after),
        failovers: failovers.load(Ordering::Relaxed),
        ..Measured::default()
    };
    measured.hear(&subscribers, first..published)?;
    if measured.published == 0 {
        return Err(Trouble("it was stopped before anything was measured".to_owned()));
    }
    measured.tell(before.as_ref(), arguments.save.as_deref(), format)?;
    if published < messages {
        complain(&format!("verge: stopped after {:.1} s of {}", measured.seconds, arguments.duration));
        return Ok(yes(false));
    }
    let kept = match contract.loss {
        Loss::AtMost(most) => measured.longest_run <= most.into() && measured.late == 0,
        Loss::Unbounded => true,
    };
    Ok(yes(kept))
}

fn unwritable(file: &Path, error: &std::io::Error) -> Trouble {
    Trouble(format!("cannot write {}: {error}", file.display()))
}

/// An earlier measurement.
fn read(file: &Path) -> Result<Measured, Trouble> {
    let at = |error: &dyn std::fmt::Display| Trouble(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| at(&error))?;
    serde_json::from_str(&text).map_err(|error| at(&format!("not what `verge bench --save` writes: {error}")))
}

type Subscriber = (Client, Arc<Mutex<Seen>>);

fn subscribe(
    config: &Config,
    arguments: &BenchArguments,
    filter: &str,
    seen: Seen,
    deadline: Span,
) -> Result<Subscriber, Trouble> {
    let client = connect(config, &arguments.brokers, None)?;
    let seen = Arc::new(Mutex::new(seen));
    let heard = Arc::clone(&seen);
    client.subscribe_with(filter, move |delivery| {
        let word = |at: usize| delivery.payload.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if let (Some(due), Some(number)) = (word(0), word(8)) {
            let latency = now().since(Time(due));
            heard.lock().unwrap_or_else(PoisonError::into_inner).hear(number, latency, deadline);
        }
    })?;
    Ok((client, seen))
}

fn count_failovers(client: &Client) -> Result<Arc<AtomicU32>, Trouble> {
    let failovers = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failovers);
    client.on_reign(move |reigning| {
        if matches!(reigning, Reigning::Primary { .. }) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    })?;
    Ok(failovers)
}

/// What is published.
struct Workload {
    interval: Span,
    messages: u64,
    payload: usize,
}

impl Workload {
    /// Publishes each message when it is due, or as soon after that as may be. Returns how many there were.
    fn publish(
        &self,
        client: &Client,
        publishers: &[Publisher],
        sent_after: &mut Histogram<u64>,
        stop: &Stop,
    ) -> Result<u64, Trouble> {
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} messages, {eta} left");
        let style = style.map_err(|error| Trouble(error.to_string()))?;
        let bar = ProgressBar::new(self.messages).with_style(style);
        let mut payload = vec![0; self.payload];
        let begun = now();
        let due = |number: u64| begun + Span(self.interval.0.saturating_mul(number as i64));
        let mut number = 0;
        while number < self.messages && !stop.is_asked() {
            let early = due(number).since(now());
            if early > Span::ZERO {
                std::thread::sleep(Duration::from_nanos(early.as_nanos_u64()).min(NAP * 50));
                continue;
            }
            // All that is due by now leaves with one write.
            let until = now();
            let all = client.batch(|batch| {
                while number < self.messages && due(number) <= until {
                    payload[..8].copy_from_slice(&due(number).0.to_le_bytes());
                    payload[8..16].copy_from_slice(&number.to_le_bytes());
                    let publisher = &publishers[(number % publishers.len() as u64) as usize];
                    match batch.publish(publisher, &payload) {
                        Err(error) if error.is_retryable() => return Ok(false),
                        result => result?,
                    };
                    sent_after.saturating_record(until.since(due(number)).as_nanos_u64());
                    number += 1;
                }
                Ok(true)
            })?;
            if !all {
                std::thread::sleep(NAP);
            }
            bar.set_position(number);
        }
        bar.finish_and_clear();
        Ok(number)
    }
}

/// Waits until all have everything, or nothing more can be expected.
fn wait_for(subscribers: &[Subscriber], published: u64, patience: Duration) {
    let until = Instant::now() + patience;
    let has_all = |(_, seen): &Subscriber| {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.missing(0..published).0 == 0
    };
    while Instant::now() < until && !subscribers.iter().all(has_all) {
        std::thread::sleep(NAP * 100);
    }
}

fn show(measured: &Measured, before: Option<&Measured>) -> Result<(), Trouble> {
    line(&format!(
        "{} messages/s on {} topics, {} bytes each, to {} subscribers, for {:.1} s; contract: {}",
        shown(measured.rate),
        measured.topics,
        measured.payload_bytes,
        measured.subscribers,
        measured.seconds,
        measured.contract
    ))?;
    if let Some(before) = before.filter(|before| !before.is_like(measured)) {
        line(&format!(
            "note: before, it was {} messages/s on {} topics, {} bytes each, to {} subscribers; contract: {}",
            shown(before.rate),
            before.topics,
            before.payload_bytes,
            before.subscribers,
            before.contract
        ))?;
    }
    let headings = ["", "now", "before", "ratio"];
    let headings = if before.is_some() { &headings[..] } else { &headings[..2] };
    let mut rows = table(headings, &[1, 2, 3][..headings.len() - 1]);
    let old = before.map(Measured::rows);
    for (place, (name, value)) in measured.rows().into_iter().enumerate() {
        let mut row = vec![name.to_owned(), shown(value)];
        if let Some((_, old)) = old.as_ref().and_then(|old| old.get(place)) {
            row.push(shown(*old));
            row.push(if *old > 0.0 { format!("{:.2}", value / old) } else { String::new() });
        }
        rows.add_row(row);
    }
    line(&rows.to_string())?;
    let lag = measured.sent_after_us;
    if lag.p99 > measured.latency_us.p99 / 2.0 {
        line(&format!(
            "note: 1 % of the messages left this program {:.0} us or more after they were due: this host is too slow for this load, or too \
             busy, and latencies are its own rather than the brokers'",
            lag.p99
        ))?;
    }
    Ok(())
}

impl Measured {
    /// Shows it, and keeps it if that is wanted.
    fn tell(&self, before: Option<&Measured>, save: Option<&Path>, format: Format) -> Result<(), Trouble> {
        match format {
            Format::Json => json(self)?,
            Format::Table => show(self, before)?,
        }
        let Some(file) = save else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).map_err(|error| Trouble(error.to_string()))?;
        std::fs::write(file, text + "\n").map_err(|error| unwritable(file, &error))
    }

    /// What subscribers say of the messages of these numbers.
    fn hear(&mut self, subscribers: &[Subscriber], numbers: Range<u64>) -> Result<(), Trouble> {
        let mut latency = histogram()?;
        for (_, seen) in subscribers {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            for topic in 0..u64::from(self.topics) {
                let its = (numbers.start + topic..numbers.end).step_by(self.topics as usize);
                let (lost, run) = seen.missing(its);
                self.lost += lost;
                self.longest_run = self.longest_run.max(run);
            }
            self.received += seen.received;
            self.duplicates += seen.duplicates;
            self.late += seen.late;
            latency.add(&seen.latency).map_err(|error| Trouble(error.to_string()))?;
        }
        self.latency_us = Times::of(&latency);
        Ok(())
    }
}

/// Whole numbers as such, times with one digit.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

impl Measured {
    fn rows(&self) -> Vec<(&'static str, f64)> {
        let Times { p50, p90, p99, p999, max } = self.latency_us;
        vec![
            ("published", self.published as f64),
            ("received", self.received as f64),
            ("lost", self.lost as f64),
            ("longest run", self.longest_run as f64),
            ("late", self.late as f64),
            ("duplicates", self.duplicates as f64),
            ("failovers", f64::from(self.failovers)),
            ("p50 us", p50),
            ("p90 us", p90),
            ("p99 us", p99),
            ("p99.9 us", p999),
            ("max us", max),
        ]
    }

    /// Whether the load was the same.
    fn is_like(&self, other: &Measured) -> bool {
        let load = |it: &Measured| (it.topics, it.subscribers, it.payload_bytes, it.contract.clone());
        load(self) == load(other) && (self.rate / other.rate - 1.0).abs() < 1e-3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_counted_in_runs_of_its_topic() {
        let mut seen = Seen::new(200, 10).unwrap_or_else(|_| panic!("a histogram"));
        let deadline = Span::millis(1);
        for number in (0..200).filter(|number| !(60..70).contains(number) && *number != 199) {
            seen.hear(number, Span::micros(if number == 100 { 2_000 } else { 500 }), deadline);
        }
        seen.hear(5, Span::ZERO, deadline);
        seen.hear(50, Span::ZERO, deadline);
        seen.hear(1_000_000, Span::ZERO, deadline);
        assert_eq!(
            (seen.received, seen.duplicates, seen.late),
            (179, 1, 1),
            "what came first does not count"
        );
        assert_eq!(seen.missing(0..200), (11, 10));
        assert_eq!(seen.missing((60..200).step_by(5)), (2, 2));
        assert_eq!(seen.missing((64..200).step_by(5)), (3, 2), "64, 69 and 199");
        assert_eq!(seen.latency.max() / 1_000, 2_000);
    }
}
