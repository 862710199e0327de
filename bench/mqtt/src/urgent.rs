//! A few urgent messages, from a thread of their own, while other publishers send as much as their sockets take. What slows
//! those down is the broker, which therefore never rests.

use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use verge_bench_mqtt::link::Link;
use verge_bench_mqtt::observed::{Quantiles, Times, processor_ns};
use verge_bench_mqtt::packet::{self, PUBLISH, Template, Version, time_of};
use verge_bench_mqtt::poller::{Poller, Ready, now_ns};

/// What is sent.
#[derive(Deserialize)]
pub struct Plan {
    port: u16,
    pid: u32,
    version: u8,
    qos: u8,
    /// Urgent messages per second.
    rate: u64,
    urgent_topic: String,
    bulk_topic: String,
    bulk_publishers: usize,
    bulk_subscribers: usize,
    bulk_payload: usize,
    warm_up_s: f64,
    seconds: f64,
}

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    latency: Quantiles,
    urgent_published: u64,
    urgent_delivered: u64,
    bulk_published_per_s: f64,
    bulk_delivered_per_s: f64,
    /// Of one processor.
    broker_share: f64,
    load_share: f64,
}

#[derive(Default)]
struct Bulk {
    end: AtomicBool,
    published: AtomicU64,
    delivered: AtomicU64,
}

/// What a publisher keeps ready, so that one write takes all that the kernel has room for.
const AHEAD_BYTES: usize = 64 * 1024;
const LOOK_NS: u64 = 20_000_000;
/// How long an urgent message may take before it counts as lost.
const LOST_NS: u64 = 2_000_000_000;

pub fn run(plan: &Plan) -> io::Result<Report> {
    let version = Version(plan.version);
    let filter = Some((plan.urgent_topic.as_str(), plan.qos));
    let subscriber = Link::open(plan.port, version, &format!("us{}", getpid()), filter)?;
    let publisher = Link::open(plan.port, version, &format!("up{}", getpid()), None)?;
    let bulk = Bulk::default();
    std::thread::scope(|scope| {
        let others = scope.spawn(|| bulk_load(plan, &bulk));
        let report = urgent(plan, subscriber, publisher, &bulk);
        bulk.end.store(true, Ordering::Relaxed);
        others.join().expect("invariant: the other thread returns its errors")?;
        report
    })
}

fn urgent(plan: &Plan, mut subscriber: Link, mut publisher: Link, bulk: &Bulk) -> io::Result<Report> {
    let poller = Poller::new()?;
    poller.add(&subscriber.socket, 0)?;
    poller.add(&publisher.socket, 1)?;
    let mut template = Template::new(subscriber.version, &plan.urgent_topic, plan.qos, 64);
    let mut times = Times::new();
    let mut ready: Vec<Ready> = Vec::new();
    let begin = now_ns();
    let period = 1_000_000_000 / plan.rate;
    let measured_from = begin + (plan.warm_up_s * 1e9) as u64;
    let end = measured_from + (plan.seconds * 1e9) as u64;
    let (mut due, mut sent, mut came) = (begin, 0, 0);
    let mut start = None;
    while now_ns() < end + LOST_NS && (now_ns() < end || came < sent) {
        let now = now_ns();
        if now >= measured_from && start.is_none() {
            start = Some(observe(plan, bulk));
        }
        if now >= due && now < end {
            sent += u64::from(due >= measured_from);
            template.put(due, &mut publisher.output);
            due += period;
        }
        publisher.flush()?;
        poller.wait(if now < end { due } else { now + LOOK_NS }, &mut ready)?;
        for one in &ready {
            let link = if one.index == 0 { &mut subscriber } else { &mut publisher };
            let version = link.version;
            link.receive(|packet, answers| {
                let Some((id, payload)) = packet.published(version).filter(|_| packet.kind() == PUBLISH)
                else {
                    return;
                };
                let sent_at = time_of(payload).unwrap_or(0);
                if sent_at >= measured_from {
                    came += 1;
                    times.note(now_ns().saturating_sub(sent_at));
                }
                if let Some(id) = id {
                    packet::acknowledge(id, answers);
                }
            })?;
            link.flush()?;
        }
    }
    let before = start.unwrap_or_else(|| observe(plan, bulk));
    let after = observe(plan, bulk);
    let grown = |index: usize| (after[index] - before[index]) as f64;
    Ok(Report {
        latency: times.quantiles(),
        urgent_published: sent,
        urgent_delivered: came,
        bulk_published_per_s: grown(1) / grown(0) * 1e9,
        bulk_delivered_per_s: grown(2) / grown(0) * 1e9,
        broker_share: grown(3) / grown(0),
        load_share: grown(4) / grown(0),
    })
}

/// Time, messages published and delivered, processor time of the broker and of the load.
fn observe(plan: &Plan, bulk: &Bulk) -> [u64; 5] {
    let counts = [&bulk.published, &bulk.delivered].map(|count| count.load(Ordering::Relaxed));
    [now_ns(), counts[0], counts[1], processor_ns(plan.pid), processor_ns(std::process::id())]
}

fn bulk_load(plan: &Plan, bulk: &Bulk) -> io::Result<()> {
    let version = Version(plan.version);
    let poller = Poller::new()?;
    let mut links = Vec::new();
    for number in 0..plan.bulk_subscribers {
        let filter = Some((plan.bulk_topic.as_str(), 0));
        links.push(Link::open(plan.port, version, &format!("bs{}-{number}", getpid()), filter)?);
    }
    for number in 0..plan.bulk_publishers {
        links.push(Link::open(plan.port, version, &format!("bp{}-{number}", getpid()), None)?);
    }
    for (index, link) in links.iter().enumerate() {
        poller.add(&link.socket, index)?;
        poller.watch(&link.socket, index, index >= plan.bulk_subscribers)?;
    }
    let mut template = Template::new(version, &plan.bulk_topic, 0, plan.bulk_payload);
    let mut ready: Vec<Ready> = Vec::new();
    while !bulk.end.load(Ordering::Relaxed) {
        poller.wait(now_ns() + LOOK_NS, &mut ready)?;
        for one in &ready {
            let link = &mut links[one.index];
            if one.readable {
                let mut came = 0;
                while link.receive(|packet, _| came += u64::from(packet.kind() == PUBLISH))? {}
                bulk.delivered.fetch_add(came, Ordering::Relaxed);
            }
            if one.writable {
                let mut put = 0;
                while link.waiting() < AHEAD_BYTES {
                    template.put(0, &mut link.output);
                    put += 1;
                }
                link.flush()?;
                bulk.published.fetch_add(put, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}
