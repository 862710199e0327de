//! A message goes to the other end and comes back as another one, then the next. The thread that hears of it answers at once, so a
//! round trip is four sockets, the broker twice, and nothing else.

use crate::account::Head;
use crate::arguments::Pingpong;
use crate::links::{self, Find, Publisher, Route};
use crate::observe::{Clock, Usage, trouble, troubles, watch};
use crate::pace::{awake, sleep_until};
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verge_bench_mqtt::observed::{Quantiles, Times};
use verge_bench_mqtt::poller::now_ns;

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    usage: Usage,
    round_trip: Quantiles,
    missing: u64,
    troubles: Vec<String>,
}

/// Sends the next one, and remembers how long the last took.
struct Pinger {
    publisher: Box<dyn Publisher>,
    payload: Vec<u8>,
    next: u32,
    clock: Clock,
    times: Times,
}

impl Pinger {
    fn send(&mut self) {
        let due_ns = now_ns();
        Head { due_ns, topic: 0, seq: self.next }.put(&mut self.payload);
        self.next += 1;
        self.publisher.put(0, &self.payload);
        if let Err(error) = self.publisher.send() {
            trouble(format!("a ping: {error}"));
        }
    }

    fn take(&mut self, payload: &[u8]) {
        let now = now_ns();
        // One that was given up may still come.
        let Some(head) = Head::of(payload).filter(|head| head.seq + 1 == self.next) else { return };
        if head.due_ns >= self.clock.from_ns {
            self.times.note(now - head.due_ns);
        }
        if now < self.clock.to_ns {
            self.send();
        }
    }
}

/// A message that has not come back for so long is lost.
const LOST_NS: u64 = 1_000_000_000;

pub fn run(plan: &Pingpong, find: Find) -> io::Result<Report> {
    let common = &plan.common;
    let _awake = awake(common.awake);
    let peer = find(common)?;
    let (pings, pongs) = (links::bulk("ping", 1), links::bulk("pong", 1));
    let filters = [[pings[0].name.clone()], [pongs[0].name.clone()]];
    let bytes = common.bytes();
    let ping = |name| Route { name, channel: "ping", topics: &pings, filters: &filters[0], bytes };
    let pong = |name| Route { name, channel: "pong", topics: &pongs, filters: &filters[1], bytes };
    let mut answers = peer.publish(&pong("pong-publisher"))?;
    let (sent, came) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let echoed = Arc::clone(&sent);
    let echo = move |payload: &[u8]| {
        answers.put(0, payload);
        if let Err(error) = answers.send() {
            trouble(format!("an answer: {error}"));
        }
        echoed.fetch_add(1, Ordering::Relaxed);
    };
    let there = peer.subscribe(&ping("ping-subscriber"), Box::new(echo))?;
    let clock = Clock::start(common.warm_up, common.seconds);
    let publisher = peer.publish(&ping("ping-publisher"))?;
    let pinger = Pinger { publisher, payload: vec![0; bytes], next: 0, clock, times: Times::new() };
    let pinger = Arc::new(Mutex::new(pinger));
    let (hears, counts) = (Arc::clone(&pinger), Arc::clone(&came));
    let hear = move |payload: &[u8]| {
        lock(&hears).take(payload);
        counts.fetch_add(1, Ordering::Relaxed);
    };
    let back = peer.subscribe(&pong("pong-subscriber"), Box::new(hear))?;
    sleep_until(clock.begin_ns);
    lock(&pinger).send();
    let (usage, missing) = std::thread::scope(|scope| {
        let watching = watch(scope, common.pid, clock, [&sent, &came]);
        let missing = look_after(&pinger, &came, &clock);
        (watching.join().expect("invariant: looking does not fail"), missing)
    });
    drop(back);
    drop(there);
    let round_trip = lock(&pinger).times.quantiles();
    Ok(Report { usage, round_trip, missing, troubles: troubles() })
}

/// Sends another one where one does not come back; how many did not.
fn look_after(pinger: &Mutex<Pinger>, came: &AtomicU64, clock: &Clock) -> u64 {
    let mut missing = 0;
    while now_ns() < clock.to_ns {
        let before = came.load(Ordering::Relaxed);
        sleep_until((now_ns() + LOST_NS).min(clock.to_ns));
        if now_ns() < clock.to_ns && came.load(Ordering::Relaxed) == before {
            missing += 1;
            lock(pinger).send();
        }
    }
    missing
}

fn lock(pinger: &Mutex<Pinger>) -> std::sync::MutexGuard<'_, Pinger> {
    pinger.lock().unwrap_or_else(PoisonError::into_inner)
}
