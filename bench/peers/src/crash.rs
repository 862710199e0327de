//! The most urgent category of FRAME, table 3.2, while somebody else ends a broker: every message that came, and when. Only for clients that
//! find the other broker by themselves.

use crate::account::Head;
use crate::arguments::Crash;
use crate::links::{self, Find, Route};
use crate::observe::{Clock, troubles};
use crate::pace::sleep_until;
use serde::Serialize;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use verge::{Contract, Span};
use verge_bench_mqtt::poller::now_ns;

/// Times are those of the clock that never jumps.
#[derive(Serialize)]
pub struct Report {
    /// Messages of each topic.
    sent: Vec<u32>,
    /// Topic, number, when it was due, when it came.
    came: Vec<(u32, u32, u64, u64)>,
    troubles: Vec<String>,
}

/// What a publisher keeps of each topic: enough for a failover of 50 ms.
const RETAIN: u32 = 2;
/// Room, so that nothing is copied while it counts.
const ROOM: usize = 100_000;
const SETTLE: Duration = Duration::from_secs(1);

/// Prints `ready` when the first message is due, and the report at the end.
pub fn run(plan: &Crash, find: Find) -> io::Result<Report> {
    let common = &plan.common;
    let peer = find(common)?;
    let period_ns = plan.period_ms * 1_000_000;
    let contract = Contract::every(Span::nanos(period_ns as i64)).tolerate(0).retain(RETAIN);
    let topics = links::named("c0", plan.topics, contract);
    let filters = ["c0/+".to_owned()];
    let route =
        |name| Route { name, channel: "crash", topics: &topics, filters: &filters, bytes: common.bytes() };
    let came = Arc::new(Mutex::new(Vec::with_capacity(ROOM)));
    let kept = Arc::clone(&came);
    let take = move |payload: &[u8]| {
        let Some(head) = Head::of(payload) else { return };
        let message = (head.topic, head.seq, head.due_ns, now_ns());
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    };
    let subscriber = peer.subscribe(&route("crash-subscriber"), Box::new(take))?;
    let mut publisher = peer.publish(&route("crash-publisher"))?;
    let clock = Clock::start(common.warm_up, common.seconds);
    println!("ready");
    let mut sent = vec![0; topics.len()];
    let mut payload = vec![0; common.bytes()];
    let count = topics.len() as u64;
    for number in 0.. {
        let due_ns = clock.begin_ns + number * period_ns / count;
        if due_ns >= clock.to_ns {
            break;
        }
        sleep_until(due_ns);
        let topic = (number % count) as usize;
        Head { due_ns, topic: topic as u32, seq: sent[topic] }.put(&mut payload);
        publisher.put(topic, &payload);
        publisher.send()?;
        sent[topic] += 1;
    }
    std::thread::sleep(SETTLE);
    drop(subscriber);
    drop(publisher);
    let came = std::mem::take(&mut *came.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Report { sent, came, troubles: troubles() })
}
