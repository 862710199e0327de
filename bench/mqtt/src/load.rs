//! Publishers with topics of their own, each with so many subscribers. Without a rate every publisher sends as soon as its
//! earlier messages have come, but for a window; so no broker can gain by letting its queues grow. With a rate, messages are sent
//! when they are due, and their time counts from then, whenever the load got to it.

use serde::{Deserialize, Serialize};
use std::io;
use verge_bench_mqtt::link::Link;
use verge_bench_mqtt::observed::{Quantiles, Times, processor_ns};
use verge_bench_mqtt::packet::{self, PUBACK, PUBLISH, Template, Version, time_of};
use verge_bench_mqtt::poller::{Poller, Ready, now_ns};

/// What is sent.
#[derive(Deserialize)]
pub struct Plan {
    port: u16,
    /// The broker's process.
    pid: u32,
    version: u8,
    qos: u8,
    publishers: usize,
    /// Subscribers of each publisher.
    fan_out: usize,
    payload: usize,
    /// Messages of one publisher that may be on their way.
    window: u64,
    /// Messages per second of all publishers together; 0: as many as go.
    rate: u64,
    warm_up_s: f64,
    seconds: f64,
    topic: String,
}

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    seconds: f64,
    published: u64,
    delivered: u64,
    /// Of what was published while measuring, what had not come when nothing came any more.
    missing: i64,
    broker_s: f64,
    load_s: f64,
    delivered_per_broker_s: f64,
    delivered_per_s: f64,
    latency: Quantiles,
    /// How late the load itself was.
    late: Quantiles,
}

struct Publisher {
    link: usize,
    template: Template,
    sent: u64,
    answered: u64,
    delivered: u64,
}

struct Load<'a> {
    plan: &'a Plan,
    poller: Poller,
    links: Vec<Link>,
    /// The publisher of each link, or of the messages that come on it.
    owner: Vec<usize>,
    publishers: Vec<Publisher>,
    latency: Times,
    late: Times,
    period_ns: u64,
    next_due_ns: u64,
    turn: usize,
}

const SECOND: f64 = 1e9;
/// After this long without anything, nothing more is expected.
const QUIET_NS: u64 = 500_000_000;
const LOOK_NS: u64 = 20_000_000;

pub fn run(plan: &Plan) -> io::Result<Report> {
    let mut load = Load::open(plan)?;
    let begin = now_ns();
    load.next_due_ns = begin;
    load.go_on(begin + (plan.warm_up_s * SECOND) as u64, true)?;
    load.latency.clear();
    load.late.clear();
    let (sent, delivered) = load.counts();
    let owed = (sent * plan.fan_out as u64) as i64 - delivered as i64;
    let (from, broker, own) = (now_ns(), processor_ns(plan.pid), processor_ns(std::process::id()));
    load.go_on(from + (plan.seconds * SECOND) as u64, true)?;
    let (to, broker_after, own_after) = (now_ns(), processor_ns(plan.pid), processor_ns(std::process::id()));
    let (sent_after, delivered_after) = load.counts();
    let latency = load.latency.quantiles();
    load.drain()?;
    let (published, came) = (sent_after - sent, delivered_after - delivered);
    let whole = (published * plan.fan_out as u64) as i64 + owed;
    let seconds = (to - from) as f64 / SECOND;
    let broker_s = (broker_after - broker) as f64 / SECOND;
    Ok(Report {
        seconds,
        published,
        delivered: came,
        missing: whole - (load.counts().1 - delivered) as i64,
        broker_s,
        load_s: (own_after - own) as f64 / SECOND,
        delivered_per_broker_s: came as f64 / broker_s,
        delivered_per_s: came as f64 / seconds,
        latency,
        late: load.late.quantiles(),
    })
}

impl<'a> Load<'a> {
    fn open(plan: &'a Plan) -> io::Result<Load<'a>> {
        let version = Version(plan.version);
        let mut load = Load {
            plan,
            poller: Poller::new()?,
            links: Vec::new(),
            owner: Vec::new(),
            publishers: Vec::new(),
            latency: Times::new(),
            late: Times::new(),
            period_ns: 1_000_000_000_u64.checked_div(plan.rate).unwrap_or(0),
            next_due_ns: 0,
            turn: 0,
        };
        let process = std::process::id();
        for publisher in 0..plan.publishers {
            let topic = format!("{}/{publisher}", plan.topic);
            for subscriber in 0..plan.fan_out {
                let client = format!("s{process}-{publisher}-{subscriber}");
                load.add(Link::open(plan.port, version, &client, Some((&topic, plan.qos)))?, publisher)?;
            }
            let link = load
                .add(Link::open(plan.port, version, &format!("p{process}-{publisher}"), None)?, publisher)?;
            let template = Template::new(version, &topic, plan.qos, plan.payload);
            load.publishers.push(Publisher { link, template, sent: 0, answered: 0, delivered: 0 });
        }
        Ok(load)
    }

    fn add(&mut self, link: Link, owner: usize) -> io::Result<usize> {
        let index = self.links.len();
        self.poller.add(&link.socket, index)?;
        self.links.push(link);
        self.owner.push(owner);
        Ok(index)
    }

    fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Publisher) -> u64| self.publishers.iter().map(of).sum();
        (sum(|publisher| publisher.sent), sum(|publisher| publisher.delivered))
    }

    /// Sends and receives until then.
    fn go_on(&mut self, until_ns: u64, publish: bool) -> io::Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            let now = now_ns();
            if now >= until_ns {
                return Ok(());
            }
            let mut wake = until_ns;
            if publish && self.plan.rate > 0 {
                self.publish_due(now)?;
                wake = wake.min(self.next_due_ns);
            } else if publish {
                self.publish_all(now)?;
            }
            self.poller.wait(wake, &mut ready)?;
            for one in &ready {
                self.serve(*one)?;
            }
        }
    }

    /// Until nothing comes any more.
    fn drain(&mut self) -> io::Result<()> {
        let mut quiet_since = now_ns();
        while now_ns() - quiet_since < QUIET_NS {
            let before = self.counts().1;
            self.go_on(now_ns() + LOOK_NS, false)?;
            if self.counts().1 != before {
                quiet_since = now_ns();
            }
        }
        Ok(())
    }

    fn publish_due(&mut self, now: u64) -> io::Result<()> {
        while self.next_due_ns <= now {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.publishers.len();
            self.late.note(now - self.next_due_ns);
            self.put(index, self.next_due_ns);
            self.flush(self.publishers[index].link)?;
            self.next_due_ns += self.period_ns;
        }
        Ok(())
    }

    fn publish_all(&mut self, now: u64) -> io::Result<()> {
        for index in 0..self.publishers.len() {
            let publisher = &self.publishers[index];
            let mut through = publisher.delivered / self.plan.fan_out as u64;
            if self.plan.qos > 0 {
                through = through.min(publisher.answered);
            }
            let free = self.plan.window.saturating_sub(publisher.sent - through);
            if free > 0 {
                (0..free).for_each(|_| self.put(index, now));
                self.flush(self.publishers[index].link)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, index: usize, time_ns: u64) {
        let publisher = &mut self.publishers[index];
        publisher.template.put(time_ns, &mut self.links[publisher.link].output);
        publisher.sent += 1;
    }

    fn serve(&mut self, ready: Ready) -> io::Result<()> {
        let index = ready.index;
        let publisher = &mut self.publishers[self.owner[index]];
        let latency = &mut self.latency;
        let link = &mut self.links[index];
        let version = link.version;
        let length = self.plan.payload;
        let mut more = ready.readable;
        while more {
            let mut now = 0;
            more = link.receive(|packet, answers| match packet.kind() {
                PUBLISH => {
                    // Once for all that this read has brought.
                    now = if now == 0 { now_ns() } else { now };
                    let whole = |(_, payload): &(_, &[u8])| payload.len() == length;
                    let Some((id, payload)) = packet.published(version).filter(whole) else { return };
                    publisher.delivered += 1;
                    latency.note(now.saturating_sub(time_of(payload).unwrap_or(now)));
                    if let Some(id) = id {
                        packet::acknowledge(id, answers);
                    }
                }
                PUBACK => publisher.answered += 1,
                _ => {}
            })?;
        }
        let waits = ready.writable || link.waiting() > 0;
        if waits { self.flush(index) } else { Ok(()) }
    }

    fn flush(&mut self, index: usize) -> io::Result<()> {
        let link = &mut self.links[index];
        let unfinished = !link.flush()?;
        if unfinished != link.watched {
            self.poller.watch(&link.socket, index, unfinished)?;
            link.watched = unfinished;
        }
        Ok(())
    }
}
