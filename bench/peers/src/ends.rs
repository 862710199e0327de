//! The ends of a load, each in a process of its own and as long as it is left running: whoever ends, cuts or moves something between them has a
//! subscriber that keeps account of every message.

use crate::account::Head;
use crate::arguments::{Echo, Publish, Receive};
use crate::links::{self, Find, Route, Taker};
use crate::observe::troubles;
use crate::pace::sleep_until;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use verge::{Contract, Span};
use verge_bench_mqtt::observed::{Quantiles, Times};
use verge_bench_mqtt::poller::now_ns;

/// What was published.
#[derive(Serialize)]
pub struct Published {
    /// Messages of each topic, which are numbered from 0.
    published: Vec<u32>,
    /// How late the publisher was itself, at most.
    late_ms: f64,
    troubles: Vec<String>,
}

/// Publishes until the input ends.
pub fn publish(plan: &Publish, find: Find) -> io::Result<Published> {
    let (ends, common) = (&plan.ends, &plan.ends.common);
    let peer = find(common)?;
    let contract = Contract::every(Span::millis(ends.period_ms as i64));
    let contract = contract.deadline(Span::millis(plan.deadline_ms as i64)).tolerate(0).retain(plan.retain);
    let topics = links::named(&ends.name, ends.topics, contract);
    let name = format!("publisher-{}", ends.name);
    let route = Route { name: &name, channel: &name, topics: &topics, filters: &[], bytes: common.bytes() };
    let mut publisher = peer.publish(&route)?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    thread::spawn(move || {
        wait_for_end();
        end.store(true, Ordering::Relaxed);
    });
    // A period is the shortest time between two messages: the turn of a topic never comes sooner.
    let step = ends.period_ms * 1_000_000 / u64::from(ends.topics);
    let step = step + step / SLOWER_BY;
    let mut payload = vec![0; common.bytes()];
    let (mut sent, mut late) = (vec![0; topics.len()], 0);
    let mut due_ns = now_ns();
    while !ended.load(Ordering::Relaxed) {
        for (topic, seq) in sent.iter_mut().enumerate() {
            sleep_until(due_ns);
            late = late.max(now_ns().saturating_sub(due_ns));
            Head { due_ns, topic: topic as u32, seq: *seq }.put(&mut payload);
            publisher.put(topic, &payload);
            publisher.send()?;
            *seq += 1;
            due_ns += step;
        }
    }
    // What was given to the client leaves.
    thread::sleep(SETTLE);
    Ok(Published { published: sent, late_ms: late as f64 / 1e6, troubles: troubles() })
}

const SLOWER_BY: u64 = 64;
const SETTLE: std::time::Duration = std::time::Duration::from_millis(500);
/// The first messages of a topic, which are not looked at for latencies: its way is being made.
const WARM_UP: u32 = 20;
/// What is older when it comes was missed, whatever way it comes.
const OLD_NS: u64 = 1_000_000_000;

/// What came.
#[derive(Serialize)]
pub struct Received {
    topics: Vec<TopicReport>,
    /// Messages that came once more.
    twice: u64,
    /// Messages before which a later one of their topic had come by itself, or as one that was missed.
    out_of_order: u64,
    missed_out_of_order: u64,
    /// From when they were due, of those that were not old.
    latency: Quantiles,
    /// When the first and the last one came that was older than a second.
    old_ns: Option<(u64, u64)>,
    troubles: Vec<String>,
}

#[derive(Serialize)]
struct TopicReport {
    /// The first number that came; before, there was no way yet.
    first: u32,
    /// Different numbers, and those of them that were older than a second.
    came: usize,
    old: usize,
}

/// A time in which nothing came of a topic, when it ends.
#[derive(Serialize)]
struct Gap {
    gap_ms: f64,
    topic: u32,
    ended_ns: u64,
}

#[derive(Default)]
struct Topic {
    came: BTreeSet<u32>,
    old: usize,
    /// The highest number by itself, and of what was missed.
    last: [Option<u32>; 2],
    /// When something came that was not old.
    live_ns: Option<u64>,
}

struct Account {
    topics: Vec<Topic>,
    times: Times,
    twice: u64,
    out_of_order: [u64; 2],
    old_ns: Option<(u64, u64)>,
    gap_ns: u64,
}

impl Account {
    /// A message has come; `missed`: as one that had been.
    fn take(&mut self, payload: &[u8], missed: bool) {
        let now = now_ns();
        let Some(head) = Head::of(payload) else { return };
        let Some(topic) = self.topics.get_mut(head.topic as usize) else { return };
        let is_new = topic.came.insert(head.seq);
        self.twice += u64::from(!is_new);
        let last = &mut topic.last[usize::from(missed)];
        self.out_of_order[usize::from(missed)] +=
            u64::from(is_new && last.is_some_and(|last| head.seq < last));
        *last = Some(last.map_or(head.seq, |last| last.max(head.seq)));
        let age = now.saturating_sub(head.due_ns);
        if age > OLD_NS {
            topic.old += usize::from(is_new);
            self.old_ns = Some((self.old_ns.map_or(now, |(first, _)| first), now));
            return;
        }
        if head.seq >= WARM_UP && !missed {
            self.times.note(age);
        }
        if let Some(before) = topic.live_ns.replace(now)
            && now - before > self.gap_ns
        {
            let gap = Gap { gap_ms: (now - before) as f64 / 1e6, topic: head.topic, ended_ns: now };
            // Where nobody listens any more, the report says what came.
            _ = crate::print(&gap);
        }
    }

    fn report(&self) -> Received {
        let topic = |topic: &Topic| TopicReport {
            first: topic.came.first().copied().unwrap_or_default(),
            came: topic.came.len(),
            old: topic.old,
        };
        Received {
            topics: self.topics.iter().map(topic).collect(),
            twice: self.twice,
            out_of_order: self.out_of_order[0],
            missed_out_of_order: self.out_of_order[1],
            latency: self.times.quantiles(),
            old_ns: self.old_ns,
            troubles: troubles(),
        }
    }
}

/// Receives until the input ends.
pub fn receive(plan: &Receive, find: Find) -> io::Result<Received> {
    let (ends, common) = (&plan.ends, &plan.ends.common);
    let peer = find(common)?;
    let account = Arc::new(Mutex::new(Account {
        topics: (0..ends.topics).map(|_| Topic::default()).collect(),
        times: Times::new(),
        twice: 0,
        out_of_order: [0; 2],
        old_ns: None,
        gap_ns: ends.period_ms * 1_500_000,
    }));
    let mut subscribers = Vec::new();
    for missed in std::iter::once(None).chain(plan.missed.iter().map(Some)) {
        let name = format!("subscriber-{}-{}", ends.name, missed.is_some());
        let filters = [match missed {
            Some(before) => format!("{before}/{}/+", ends.name),
            None => format!("{}/+", ends.name),
        }];
        let book = Arc::clone(&account);
        let is_missed = missed.is_some();
        let take: Taker = Box::new(move |payload| {
            book.lock().unwrap_or_else(PoisonError::into_inner).take(payload, is_missed);
        });
        let route =
            Route { name: &name, channel: &name, topics: &[], filters: &filters, bytes: common.bytes() };
        subscribers.push(peer.subscribe(&route, take)?);
    }
    println!("{{\"subscribed\":true}}");
    wait_for_end();
    let report = account.lock().unwrap_or_else(PoisonError::into_inner).report();
    drop(subscribers);
    Ok(report)
}

/// As the messages of a load are.
const ECHO_BYTES: usize = 64;

/// Half of the time there and back.
pub fn echo(plan: &Echo) -> io::Result<Quantiles> {
    let door = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(door.local_addr()?)?;
    let (mut far, _) = door.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let other = thread::spawn(move || {
        let mut bytes = [0; ECHO_BYTES];
        while far.read_exact(&mut bytes).is_ok() && far.write_all(&bytes).is_ok() {}
    });
    let (mut halves, mut bytes, mut due) = (Times::new(), [0; ECHO_BYTES], now_ns());
    let end = due + plan.seconds * 1_000_000_000;
    while due < end {
        sleep_until(due);
        let begin = now_ns();
        near.write_all(&bytes)?;
        near.read_exact(&mut bytes)?;
        halves.note((now_ns() - begin) / 2);
        due += 1_000_000_000 / plan.rate;
    }
    drop(near);
    _ = other.join();
    Ok(halves.quantiles())
}

fn wait_for_end() {
    _ = io::stdin().read_to_end(&mut Vec::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_or_out_of_order_or_old_is_told() {
        let topics = vec![Topic::default()];
        let mut account = Account {
            topics,
            times: Times::new(),
            twice: 0,
            out_of_order: [0; 2],
            old_ns: None,
            gap_ns: u64::MAX,
        };
        let mut take = |seq, age_ns, missed| {
            let mut payload = [0; 16];
            Head { due_ns: now_ns() - age_ns, topic: 0, seq }.put(&mut payload);
            account.take(&payload, missed);
        };
        take(30, 0, false);
        take(32, 0, false);
        take(31, 2 * OLD_NS, true);
        take(31, 0, false);
        take(31, 0, true);
        take(29, 0, false);
        let report = account.report();
        let [topic] = report.topics.as_slice() else { panic!("one topic") };
        assert_eq!((topic.first, topic.came, topic.old), (29, 4, 1));
        assert_eq!((report.twice, report.out_of_order, report.missed_out_of_order), (2, 1, 0));
        assert!(report.old_ns.is_some());
    }
}
