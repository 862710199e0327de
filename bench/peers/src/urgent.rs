//! Urgent topics, from connections of their own, while one publisher sends as much as its connection takes. The priority of its process
//! decides who is held up: below the broker's, the broker has all that it can use of the processors.

use crate::account::{Accounts, Class, Head};
use crate::arguments::Urgent;
use crate::links::{self, Find, Peer, Publisher, Route};
use crate::observe::{Clock, Usage, trouble, troubles, watch};
use crate::pace::{awake, go_first, sleep_until};
use crate::stream::{Flow, wait_until_quiet};
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use verge::Span;
use verge_bench_mqtt::observed::{Quantiles, Times};
use verge_bench_mqtt::poller::now_ns;

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    /// Of bulk.
    #[serde(flatten)]
    usage: Usage,
    latency: Quantiles,
    load_late: Quantiles,
    urgent_published: u64,
    urgent_missing: u64,
    urgent_longest_run_of_losses: u32,
    bulk_missing: u64,
    bulk_strange: u64,
    troubles: Vec<String>,
}

/// Urgent messages are late after this.
const DEADLINE_MS: i64 = 10;

pub fn run(plan: &Urgent, find: Find) -> io::Result<Report> {
    let common = &plan.common;
    let _awake = awake(common.awake);
    let peer = find(common)?;
    let clock = Clock::start(1.0 + common.warm_up, common.seconds);
    let (published, bulk) = (AtomicU64::new(0), Accounts::default());
    let (usage, urgent) = std::thread::scope(|scope| {
        let watching = watch(scope, common.pid, clock, [&published, &bulk.delivered]);
        let bulk_load = scope.spawn(|| saturate(plan, &*peer, &clock, &published, &bulk));
        let urgent = scope.spawn(|| {
            go_first(plan.urgent_priority);
            send_urgent(plan, &*peer, &clock)
        });
        let urgent = urgent.join().expect("invariant: errors are returned");
        bulk_load.join().expect("invariant: errors are returned")?;
        let usage = watching.join().expect("invariant: looking does not fail");
        io::Result::Ok((usage, urgent?))
    })?;
    let ended = bulk.collect();
    let received: u64 = ended.iter().map(|account| account.received).sum();
    Ok(Report {
        usage,
        latency: urgent.latency,
        load_late: urgent.late,
        urgent_published: urgent.published,
        urgent_missing: urgent.missing,
        urgent_longest_run_of_losses: urgent.longest_run,
        bulk_missing: published.load(Ordering::Relaxed).saturating_sub(received),
        bulk_strange: ended.iter().map(|account| account.strange).sum(),
        troubles: troubles(),
    })
}

/// A broker that ends one of these connections is measured all the same, and the report says so.
fn saturate(
    plan: &Urgent,
    peer: &dyn Peer,
    clock: &Clock,
    published: &AtomicU64,
    accounts: &Accounts,
) -> io::Result<()> {
    let bytes = plan.bulk_bytes as usize;
    let topics = links::bulk("bulk", 1);
    let filters = [topics[0].name.clone()];
    let route = |name| Route { name, channel: "bulk", topics: &topics, filters: &filters, bytes };
    let class = Class { topics: 1, deadline_ns: u64::MAX, group: 0 };
    let account = accounts.open(bytes, &[class], clock.window_ns());
    let subscriber = peer.subscribe(&route("bulk-subscriber"), links::keep(account, false))?;
    let mut publisher = peer.publish(&route("bulk-publisher"))?;
    let flow = Flow { bytes, window: plan.bulk_window };
    if let Err(error) = flow.run(&mut *publisher, published, accounts, clock.to_ns) {
        trouble(format!("bulk: {error}"));
    }
    wait_until_quiet(accounts);
    drop(publisher);
    drop(subscriber);
    Ok(())
}

struct Came {
    latency: Quantiles,
    late: Quantiles,
    published: u64,
    missing: u64,
    longest_run: u32,
}

fn send_urgent(plan: &Urgent, peer: &dyn Peer, clock: &Clock) -> io::Result<Came> {
    let bytes = plan.common.bytes();
    let period_ns = 1_000_000_000 / plan.rate.max(1);
    let span = Span::nanos(period_ns as i64);
    let topics = links::urgent("urgent", plan.topics.max(1), span, Span::millis(DEADLINE_MS));
    let filters: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let route = |name| Route { name, channel: "urgent", topics: &topics, filters: &filters, bytes };
    let accounts = Accounts::default();
    let class = Class { topics: plan.topics.max(1), deadline_ns: DEADLINE_MS as u64 * 1_000_000, group: 0 };
    let account = accounts.open(bytes, &[class], clock.window_ns());
    let subscriber = peer.subscribe(&route("urgent-subscriber"), links::keep(account, true))?;
    let mut publisher = peer.publish(&route("urgent-publisher"))?;
    let late = publish_in_turn(&mut *publisher, clock, &topics, period_ns, bytes)?;
    wait_until_quiet(&accounts);
    drop(publisher);
    drop(subscriber);
    let published = late.1;
    let each = |topic: u64| {
        published / u64::from(class.topics) + u64::from(topic < published % u64::from(class.topics))
    };
    let ended = accounts.collect();
    let Some(account) = ended.first() else { return Err(io::Error::other("the urgent subscriber is gone")) };
    let runs = (0..class.topics).map(|topic| account.longest_run(topic as usize, each(topic.into()) as u32));
    Ok(Came {
        latency: account.times[0].quantiles(),
        late: late.0.quantiles(),
        published,
        missing: published - account.received,
        longest_run: runs.max().unwrap_or(0),
    })
}

/// One topic after the other, evenly over the period. How late the load was, and how many messages there were.
fn publish_in_turn(
    publisher: &mut dyn Publisher,
    clock: &Clock,
    topics: &[links::Topic],
    period_ns: u64,
    bytes: usize,
) -> io::Result<(Times, u64)> {
    let mut payload = vec![0; bytes];
    let mut late = Times::new();
    let count = topics.len() as u64;
    // Bulk is there first.
    let begin_ns = clock.from_ns - (clock.from_ns - clock.begin_ns) / 4;
    for number in 0.. {
        let due_ns = begin_ns + number * period_ns / count;
        if due_ns >= clock.to_ns {
            return Ok((late, number));
        }
        sleep_until(due_ns);
        if due_ns >= clock.from_ns {
            late.note(now_ns().saturating_sub(due_ns));
        }
        let topic = number % count;
        Head { due_ns, topic: topic as u32, seq: (number / count) as u32 }.put(&mut payload);
        publisher.put(topic as usize, &payload);
        publisher.send()?;
    }
    Ok((late, 0))
}
