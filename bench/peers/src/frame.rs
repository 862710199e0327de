//! The workload of FRAME, table 3.2: proxies that publish a message of each of their topics with one write, in turn.

use crate::account::{Account, Accounts, Class, Head};
use crate::arguments::Frame;
use crate::links::{self, Find, Publisher, Route, Topic};
use crate::observe::{Clock, Usage, troubles, watch};
use crate::pace::{awake, sleep_until};
use crate::stream::wait_until_quiet;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use verge::{Contract, LinkClass, Loss, Span};
use verge_bench_mqtt::observed::{Quantiles, Times};
use verge_bench_mqtt::poller::now_ns;

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    usage: Usage,
    topics: u32,
    latency: Quantiles,
    /// Of the two categories with a period of 50 ms.
    urgent: Quantiles,
    load_late: Quantiles,
    sent: u64,
    missing: u64,
    longest_run_of_losses: u32,
    /// Of messages that count, those that came within the period of their topic.
    in_time: f64,
    /// Topics that lost more in a row than they tolerate.
    broken_loss_bounds: u32,
    strange: u64,
    troubles: Vec<String>,
}

/// Topics of one contract, and how many of them one proxy has.
struct Category {
    contract: Contract,
    topics: u32,
    batch: u32,
}

/// Topics of the categories whose number is fixed; the others share the rest.
const FIXED: [u32; 6] = [10, 10, 0, 0, 0, 5];
const SHARING: u32 = 3;
const URGENT: std::ops::Range<usize> = 0..2;

fn categories(topics: u32) -> Vec<Category> {
    let every = |ms: i64| Contract::every(Span::millis(ms));
    let contracts = [
        (every(50).tolerate(0).retain(2), 10),
        (every(50).tolerate(3).retain(0), 10),
        (every(100).tolerate(0).retain(1), 50),
        (every(100).tolerate(3).retain(0), 50),
        (every(100).best_effort(), 50),
        (every(500).tolerate(0).retain(1).over(LinkClass::CLOUD), 1),
    ];
    let each = topics.saturating_sub(FIXED.iter().sum()) / SHARING;
    let one = |((contract, batch), fixed)| Category {
        contract,
        topics: if fixed == 0 { each } else { fixed },
        batch,
    };
    contracts.into_iter().zip(FIXED).map(one).collect()
}

/// Ordered so that the next one due is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Proxy {
    due_ns: Reverse<u64>,
    first: usize,
    count: usize,
    period_ns: u64,
    round: u32,
}

/// Their first messages are spread over their periods.
fn plan(categories: &[Category], begin_ns: u64) -> BinaryHeap<Proxy> {
    let mut proxies = BinaryHeap::new();
    let mut first = 0;
    for category in categories {
        let period_ns = category.contract.period.as_nanos_u64();
        let batches = category.topics.div_ceil(category.batch);
        for batch in 0..batches {
            let count = category.batch.min(category.topics - batch * category.batch) as usize;
            let due_ns = Reverse(begin_ns + period_ns * u64::from(batch) / u64::from(batches));
            proxies.push(Proxy { due_ns, first, count, period_ns, round: 0 });
            first += count;
        }
    }
    proxies
}

pub fn run(arguments: &Frame, find: Find) -> io::Result<Report> {
    let common = &arguments.common;
    let _awake = awake(common.awake);
    let peer = find(common)?;
    let categories = categories(arguments.topics);
    let numbered = categories.iter().enumerate();
    let topics: Vec<Topic> = numbered
        .clone()
        .flat_map(|(number, category)| {
            links::named(&format!("c{number}"), category.topics, category.contract)
        })
        .collect();
    let filters: Vec<String> = (0..categories.len()).map(|number| format!("c{number}/+")).collect();
    let class = |(number, category): (usize, &Category)| Class {
        topics: category.topics,
        deadline_ns: category.contract.period.as_nanos_u64(),
        group: u32::from(!URGENT.contains(&number)),
    };
    let classes: Vec<Class> = numbered.map(class).collect();
    let route =
        |name| Route { name, channel: "all", topics: &topics, filters: &filters, bytes: common.bytes() };
    let mut publisher = peer.publish(&route("frame-publisher"))?;
    let clock = Clock::start(SUBSCRIBING_S + common.warm_up, common.seconds);
    let accounts = Accounts::default();
    let account = accounts.open(common.bytes(), &classes, clock.window_ns());
    let subscriber = peer.subscribe(&route("frame-subscriber"), links::keep(account, true))?;
    let published = AtomicU64::new(0);
    let mut sent = vec![0; topics.len()];
    let (usage, late) = std::thread::scope(|scope| {
        let watching = watch(scope, common.pid, clock, [&published, &accounts.delivered]);
        let mut proxies = plan(&categories, now_ns());
        let late = publish(&mut *publisher, &mut proxies, &mut sent, common.bytes(), &clock, &published);
        let usage = watching.join().expect("invariant: looking does not fail");
        late.map(|late| (usage, late))
    })?;
    wait_until_quiet(&accounts);
    // First who receives: a publisher that ends takes its streams with it.
    drop(subscriber);
    drop(publisher);
    let ended = accounts.collect();
    let Some(account) = ended.first() else { return Err(io::Error::other("the subscriber is gone")) };
    Ok(judge(account, &topics, &sent, usage, &late))
}

/// Room for the subscriber to connect in.
const SUBSCRIBING_S: f64 = 0.3;

fn publish(
    publisher: &mut dyn Publisher,
    proxies: &mut BinaryHeap<Proxy>,
    sent: &mut [u32],
    bytes: usize,
    clock: &Clock,
    published: &AtomicU64,
) -> io::Result<Times> {
    let mut late = Times::new();
    let mut payload = vec![0; bytes];
    while let Some(first) = proxies.peek().map(|proxy| proxy.due_ns.0).filter(|due_ns| *due_ns < clock.to_ns)
    {
        sleep_until(first);
        // What is due by now leaves in one piece. Otherwise how many turns it costs a broker would depend on how fast the load
        // makes the next batch.
        let by_ns = now_ns().min(clock.to_ns - 1);
        let mut count = 0;
        while let Some(mut proxy) = proxies.peek_mut().filter(|proxy| proxy.due_ns.0 <= by_ns) {
            let due_ns = proxy.due_ns.0;
            if due_ns >= clock.from_ns {
                late.note(now_ns().saturating_sub(due_ns));
            }
            for (topic, sent) in sent.iter_mut().enumerate().skip(proxy.first).take(proxy.count) {
                Head { due_ns, topic: topic as u32, seq: proxy.round }.put(&mut payload);
                publisher.put(topic, &payload);
                *sent += 1;
            }
            count += proxy.count as u64;
            proxy.round += 1;
            proxy.due_ns.0 += proxy.period_ns;
        }
        publisher.send()?;
        published.fetch_add(count, Ordering::Relaxed);
    }
    Ok(late)
}

fn judge(account: &Account, topics: &[Topic], sent: &[u32], usage: Usage, late: &Times) -> Report {
    let runs: Vec<u32> =
        sent.iter().enumerate().map(|(topic, sent)| account.longest_run(topic, *sent)).collect();
    let broken = |(topic, run): &(&Topic, &u32)| match topic.contract.loss {
        Loss::AtMost(most) => **run > most,
        Loss::Unbounded => false,
    };
    let total = sent.iter().map(|sent| u64::from(*sent)).sum::<u64>();
    let mut all = Times::new();
    account.times.iter().for_each(|times| all.add(times));
    let counted = all.count();
    Report {
        usage,
        topics: topics.len() as u32,
        latency: all.quantiles(),
        urgent: account.times[0].quantiles(),
        load_late: late.quantiles(),
        sent: total,
        missing: total.saturating_sub(account.received),
        longest_run_of_losses: runs.iter().copied().max().unwrap_or(0),
        in_time: 1.0 - account.late as f64 / counted.max(1) as f64,
        broken_loss_bounds: topics.iter().zip(&runs).filter(broken).count() as u32,
        strange: account.strange,
        troubles: troubles(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_and_rates_of_the_table_are_met() {
        for (topics, per_second) in [(1525, 15_410), (7525, 75_410), (13_525, 135_410)] {
            let all = categories(topics);
            assert_eq!(all.iter().map(|category| category.topics).sum::<u32>(), topics);
            let second = 1_000_000_000;
            let mut proxies = plan(&all, 0);
            let mut count = 0;
            while let Some(mut proxy) = proxies.pop().filter(|proxy| proxy.due_ns.0 < second) {
                count += proxy.count;
                proxy.due_ns.0 += proxy.period_ns;
                proxies.push(proxy);
            }
            assert_eq!(count, per_second);
        }
    }

    /// What was put, and how often it was sent.
    #[derive(Default)]
    struct Recorder {
        heads: Vec<Head>,
        sends: usize,
    }

    impl Publisher for Recorder {
        fn put(&mut self, topic: usize, payload: &[u8]) {
            let head = Head::of(payload).unwrap();
            assert_eq!(head.topic as usize, topic);
            self.heads.push(head);
        }

        fn send(&mut self) -> io::Result<()> {
            self.sends += 1;
            Ok(())
        }
    }

    #[test]
    fn what_is_due_leaves_in_one_piece_and_in_order() {
        let (second, to_ns) = (1_000_000_000, now_ns());
        let begin_ns = to_ns - second;
        let mut proxies = plan(&categories(1525), begin_ns);
        let mut recorder = Recorder::default();
        let mut sent = vec![0; 1525];
        let published = AtomicU64::new(0);
        let clock = Clock { begin_ns, from_ns: begin_ns + second / 2, to_ns };
        let late = publish(&mut recorder, &mut proxies, &mut sent, 64, &clock, &published).unwrap();
        assert_eq!((recorder.sends, recorder.heads.len()), (1, 15_410));
        assert!(recorder.heads.is_sorted_by_key(|head| head.due_ns));
        assert_eq!((published.into_inner(), sent.iter().sum::<u32>()), (15_410, 15_410));
        assert!(late.count() > 0);
    }
}
