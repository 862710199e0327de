//! One publisher of one topic, and one subscriber or several. Without a rate, the publisher sends as fast as messages come, but for
//! a window, so that no broker can gain by letting its queues grow. With a rate, messages leave when they are due.

use crate::account::{Accounts, Class, Head};
use crate::arguments::{Common, Fanout, Flood};
use crate::links::{self, Find, Publisher, Route};
use crate::observe::{Clock, Usage, troubles, watch};
use crate::pace::{awake, sleep_until};
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use verge_bench_mqtt::observed::{Quantiles, Times};
use verge_bench_mqtt::poller::now_ns;

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    usage: Usage,
    subscribers: usize,
    /// Of all that was sent, for each subscriber.
    missing: u64,
    longest_run_of_losses: u32,
    repeated: u64,
    strange: u64,
    /// Where there is a rate.
    latency: Option<Quantiles>,
    /// How late the load itself was.
    load_late: Option<Quantiles>,
    troubles: Vec<String>,
}

struct Shape {
    subscribers: usize,
    rate: u64,
    window: u64,
}

/// What a flood keeps on its way, if nothing else is said.
const WINDOW_BYTES: u64 = 4 << 20;
const WINDOW_MESSAGES: std::ops::RangeInclusive<u64> = 64..=65_536;
/// What leaves with one write.
const BATCH_BYTES: usize = 32 * 1024;
const BATCH_MESSAGES: std::ops::RangeInclusive<usize> = 1..=512;
/// What a message costs besides its payload, roughly.
const OVERHEAD_BYTES: usize = 32;
/// How long a publisher rests that has a full window.
const REST: Duration = Duration::from_micros(100);
/// When nothing has come for so long, what is on its way is taken for lost, or a broker that loses the last ones would be waited for.
const GIVEN_UP_NS: u64 = 100_000_000;
/// After this long without anything, nothing more is expected.
const QUIET_NS: u64 = 500_000_000;
const LOOK: Duration = Duration::from_millis(20);

/// One to one.
pub fn flood(plan: &Flood, find: Find) -> io::Result<Report> {
    let window = plan.window.unwrap_or_else(|| usual_window(plan.common.bytes()));
    run(&plan.common, find, &Shape { subscribers: 1, rate: 0, window })
}

/// One to several.
pub fn fan_out(plan: &Fanout, find: Find) -> io::Result<Report> {
    let window = plan.window.unwrap_or_else(|| usual_window(plan.common.bytes()));
    run(&plan.common, find, &Shape { subscribers: plan.subscribers.max(1), rate: plan.rate, window })
}

fn usual_window(bytes: usize) -> u64 {
    (WINDOW_BYTES / bytes as u64).clamp(*WINDOW_MESSAGES.start(), *WINDOW_MESSAGES.end())
}

/// Messages of this length that leave with one write.
pub fn batch_of(bytes: usize) -> usize {
    (BATCH_BYTES / (bytes + OVERHEAD_BYTES)).clamp(*BATCH_MESSAGES.start(), *BATCH_MESSAGES.end())
}

fn run(common: &Common, find: Find, shape: &Shape) -> io::Result<Report> {
    let _awake = awake(common.awake);
    let peer = find(common)?;
    let topics = links::bulk("bulk", 1);
    let filters = [topics[0].name.clone()];
    let route =
        |name| Route { name, channel: "bulk", topics: &topics, filters: &filters, bytes: common.bytes() };
    let names: Vec<String> =
        (0..shape.subscribers).map(|number| format!("bulk-subscriber-{number}")).collect();
    // Connecting takes its time, so the window is known only then; nothing comes before.
    let accounts = Accounts::default();
    let class = Class { topics: 1, deadline_ns: u64::MAX, group: 0 };
    let timed = shape.rate > 0;
    let setting_up = Duration::from_millis(300 + 50 * shape.subscribers as u64).as_secs_f64();
    let clock = Clock::start(setting_up + common.warm_up, common.seconds);
    let mut subscribers = Vec::new();
    for name in &names {
        let account = accounts.open(common.bytes(), &[class], clock.window_ns());
        subscribers.push(peer.subscribe(&route(name), links::keep(account, timed))?);
    }
    let mut publisher = peer.publish(&route("bulk-publisher"))?;
    let published = AtomicU64::new(0);
    let (usage, late) = std::thread::scope(|scope| {
        let watching = watch(scope, common.pid, clock, [&published, &accounts.delivered]);
        let late = if timed {
            at_rate(&mut *publisher, common.bytes(), shape.rate, &clock, &published)
        } else {
            let flow = Flow { bytes: common.bytes(), window: shape.window };
            flow.run(&mut *publisher, &published, &accounts, clock.to_ns).map(|()| Times::new())
        };
        let usage = watching.join().expect("invariant: looking does not fail");
        late.map(|late| (usage, late))
    })?;
    wait_until_quiet(&accounts);
    drop(publisher);
    drop(subscribers);
    let sent = published.load(Ordering::Relaxed);
    let ended = accounts.collect();
    let sum = |of: fn(&crate::account::Account) -> u64| ended.iter().map(of).sum::<u64>();
    let mut all = Times::new();
    ended.iter().flat_map(|account| &account.times).for_each(|times| all.add(times));
    Ok(Report {
        usage,
        subscribers: shape.subscribers,
        missing: (sent * shape.subscribers as u64).saturating_sub(sum(|account| account.received)),
        longest_run_of_losses: ended.iter().map(|one| one.longest_run(0, sent as u32)).max().unwrap_or(0),
        repeated: sum(|account| account.repeated),
        strange: sum(|account| account.strange),
        latency: timed.then(|| all.quantiles()),
        load_late: timed.then(|| late.quantiles()),
        troubles: troubles(),
    })
}

/// Returns when nothing comes any more.
pub fn wait_until_quiet(accounts: &Accounts) {
    let (mut last, mut since) = (accounts.count(), now_ns());
    while now_ns() - since < QUIET_NS {
        std::thread::sleep(LOOK);
        if accounts.count() != last {
            (last, since) = (accounts.count(), now_ns());
        }
    }
}

fn at_rate(
    publisher: &mut dyn Publisher,
    bytes: usize,
    rate: u64,
    clock: &Clock,
    published: &AtomicU64,
) -> io::Result<Times> {
    let mut payload = vec![0; bytes];
    let mut late = Times::new();
    for seq in 0.. {
        let due_ns = clock.begin_ns + u64::from(seq) * 1_000_000_000 / rate;
        if due_ns >= clock.to_ns {
            break;
        }
        sleep_until(due_ns);
        if due_ns >= clock.from_ns {
            late.note(now_ns().saturating_sub(due_ns));
        }
        Head { due_ns, topic: 0, seq }.put(&mut payload);
        publisher.put(0, &payload);
        publisher.send()?;
        published.fetch_add(1, Ordering::Relaxed);
    }
    Ok(late)
}

/// As many messages of one topic as go.
pub struct Flow {
    /// The payload.
    pub bytes: usize,
    /// Messages that may be on their way; 0: no limit.
    pub window: u64,
}

impl Flow {
    /// Publishes until then.
    pub fn run(
        &self,
        publisher: &mut dyn Publisher,
        published: &AtomicU64,
        accounts: &Accounts,
        until_ns: u64,
    ) -> io::Result<()> {
        let mut payload = vec![0; self.bytes];
        let batch = batch_of(self.bytes) as u64;
        let mut sent = 0_u64;
        // What is behind this is there or given up.
        let (mut through, mut since_ns) = (0, now_ns());
        loop {
            let now = now_ns();
            if now >= until_ns {
                return Ok(());
            }
            if self.window > 0 {
                let reached = accounts.reached().max(through);
                if reached > through {
                    (through, since_ns) = (reached, now);
                } else if now - since_ns > GIVEN_UP_NS {
                    (through, since_ns) = (sent, now);
                }
            }
            let free = if self.window == 0 { batch } else { (through + self.window).saturating_sub(sent) };
            if free == 0 {
                std::thread::sleep(REST);
                continue;
            }
            for _ in 0..free.min(batch) {
                Head { due_ns: now, topic: 0, seq: sent as u32 }.put(&mut payload);
                publisher.put(0, &payload);
                sent += 1;
            }
            publisher.send()?;
            published.store(sent, Ordering::Relaxed);
        }
    }
}
