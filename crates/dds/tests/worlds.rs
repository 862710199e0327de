//! Bridges in an invented world: domains of DDS with readers and writers, and a network of Verge that delays, loses, and is cut.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::{Mutant, Span, Time};
use dds::{
    Bridge, BridgeId, Durability, Effect, Endpoint, Guid, History, Kind, LISTEN, Neighbour, Ownership, Qos,
    Reliability, Sample, Settings, Who,
};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};

const STEP: Span = Span::millis(10);
const LEASE: Span = Span::secs(5);
const TOPICS: [&str; 3] = ["Square", "rt/chatter", "Temperature"];

fn settings(id: u64) -> Settings {
    let who = Who { id: BridgeId(id), name: format!("bridge-{id}"), domain: 0 };
    Settings {
        who,
        domain: 0,
        only: Vec::new(),
        except: Vec::new(),
        publish: Vec::new(),
        lease: LEASE,
        sample_bytes: 1000,
    }
}

fn guid(number: u64, writes: bool) -> Guid {
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(&number.to_be_bytes());
    guid[15] = if writes { 0x02 } else { 0x07 };
    Guid(guid)
}

fn sample(instance: u8, value: u64, stamp: i64) -> Sample {
    let bytes = [0, 1, 0, 0].into_iter().chain(value.to_le_bytes()).collect();
    Sample { kind: Kind::Data, status: 0, stamp, hash: Some([instance; 16]), bytes }
}

fn value(sample: &Sample) -> u64 {
    u64::from_le_bytes(sample.bytes[4..].try_into().unwrap())
}

/// A writer of a domain, as its library keeps it.
struct Writer {
    endpoint: Endpoint,
    kept: BTreeMap<u8, Vec<(u64, Sample)>>,
    written: u64,
}

impl Writer {
    fn depth(&self) -> usize {
        match self.endpoint.qos.history {
            History::KeepLast(depth) => depth as usize,
            History::KeepAll | History::Unsaid => usize::MAX,
        }
    }

    fn write(&mut self, instance: u8, stamp: i64) -> Sample {
        let sample = sample(instance, self.written, stamp);
        self.written += 1;
        let depth = self.depth();
        let kept = self.kept.entry(instance).or_default();
        kept.push((self.written, sample.clone()));
        if kept.len() > depth {
            kept.remove(0);
        }
        sample
    }

    fn history(&self) -> Vec<Sample> {
        let mut all: Vec<&(u64, Sample)> = self.kept.values().flatten().collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, sample)| sample.clone()).collect()
    }
}

/// A domain with its bridge.
struct Domain {
    bridge: Bridge,
    writers: BTreeMap<Guid, Writer>,
    readers: BTreeMap<Guid, Endpoint>,
    taps: BTreeMap<u64, Endpoint>,
    /// What each stand-in has written.
    stand_ins: BTreeMap<Guid, Vec<u64>>,
    /// What it wrote last of each instance.
    newest: BTreeMap<(Guid, [u8; 16]), u64>,
    subscribed: BTreeSet<String>,
    advertised: BTreeSet<String>,
    tells: Vec<String>,
    /// What libraries will tell of samples, next.
    pending: Vec<(u64, Guid, Sample)>,
}

impl Domain {
    fn receives(&self, topic: &str) -> bool {
        let means = |filter: &String| filter.parse::<contract::TopicFilter>().unwrap().matches(topic);
        self.subscribed.iter().any(means)
    }
}

struct World {
    now: Time,
    chance: Rng,
    domains: Vec<Domain>,
    /// Messages on their way: when, to whom, topic, bytes.
    way: BTreeMap<(Time, u64), (usize, String, Vec<u8>)>,
    sent: u64,
    loss: f64,
    late: f64,
    cut: BTreeSet<(usize, usize)>,
    next_guid: u64,
    stamps: i64,
    restarts: u64,
    /// The first of what is sent again never comes.
    keeps_back: bool,
    /// What is sent again comes one after the other, each so long after the one before.
    crawls: Span,
    /// When the last of it comes.
    crawled: Time,
    /// Somebody publishes what is not true.
    forges: bool,
    /// The first messages that were sent.
    said: Vec<(usize, String, Vec<u8>)>,
}

impl World {
    fn new(seed: u64, domains: usize, loss: f64) -> World {
        let now = Time(1_000_000_000);
        let domain = |id: usize| Domain {
            bridge: Bridge::new(now, settings(id as u64 + 1)),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            taps: BTreeMap::new(),
            stand_ins: BTreeMap::new(),
            newest: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            advertised: BTreeSet::new(),
            tells: Vec::new(),
            pending: Vec::new(),
        };
        World {
            now,
            chance: Rng::with_seed(seed),
            domains: (0..domains).map(domain).collect(),
            way: BTreeMap::new(),
            sent: 0,
            loss,
            late: 0.0,
            cut: BTreeSet::new(),
            next_guid: 1,
            stamps: 0,
            restarts: 0,
            keeps_back: false,
            crawls: Span::ZERO,
            crawled: now,
            forges: false,
            said: Vec::new(),
        }
    }

    fn writer(&mut self, at: usize, topic: &str, qos: Qos) -> Guid {
        let guid = guid(self.next_guid, true);
        self.next_guid += 1;
        let endpoint =
            Endpoint { guid, writes: true, topic: topic.to_owned(), type_name: "T".to_owned(), qos };
        let writer = Writer { endpoint: endpoint.clone(), kept: BTreeMap::new(), written: 0 };
        self.domains[at].writers.insert(guid, writer);
        self.domains[at].bridge.found(self.now, endpoint);
        guid
    }

    fn reader(&mut self, at: usize, topic: &str, qos: Qos) -> Guid {
        let guid = guid(self.next_guid, false);
        self.next_guid += 1;
        let endpoint =
            Endpoint { guid, writes: false, topic: topic.to_owned(), type_name: "T".to_owned(), qos };
        self.domains[at].readers.insert(guid, endpoint.clone());
        self.domains[at].bridge.found(self.now, endpoint);
        guid
    }

    fn ends(&mut self, at: usize, guid: Guid) {
        self.domains[at].writers.remove(&guid);
        self.domains[at].readers.remove(&guid);
        self.domains[at].bridge.lost(self.now, guid);
    }

    fn write(&mut self, at: usize, writer: Guid, instance: u8) {
        // No two samples have one stamp, as with clocks that count nanoseconds.
        self.stamps += 1;
        let stamp = self.now.0 as i64 + self.stamps;
        let domain = &mut self.domains[at];
        let Some(known) = domain.writers.get_mut(&writer) else { return };
        let sample = known.write(instance, stamp);
        let taps = domain.taps.iter().filter(|(_, like)| like.topic == known.endpoint.topic);
        taps.for_each(|(tap, _)| domain.pending.push((*tap, writer, sample.clone())));
    }

    /// The bridge of a domain dies, and another one begins there.
    fn restart(&mut self, at: usize) {
        self.restarts += 1;
        let id = self.restarts + 1_000;
        let domain = &mut self.domains[at];
        domain.bridge = Bridge::new(self.now, settings(id));
        domain.taps.clear();
        domain.stand_ins.clear();
        domain.newest.clear();
        domain.subscribed.clear();
        domain.advertised.clear();
        domain.pending.clear();
        let writers = domain.writers.values().map(|writer| writer.endpoint.clone());
        let all: Vec<Endpoint> = writers.chain(domain.readers.values().cloned()).collect();
        all.into_iter().for_each(|endpoint| domain.bridge.found(self.now, endpoint));
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        while let Some(entry) = self.way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, topic, message) = entry.remove();
            if self.domains[to].receives(&topic) {
                self.domains[to].bridge.message(self.now, &topic, &message, Span::millis(20));
            }
        }
        for at in 0..self.domains.len() {
            for (tap, writer, sample) in std::mem::take(&mut self.domains[at].pending) {
                self.domains[at].bridge.sample(self.now, tap, writer, sample);
            }
            self.domains[at].bridge.tick(self.now, true);
            while let Some(effect) = self.domains[at].bridge.poll() {
                self.carry_out(at, effect);
            }
        }
    }

    fn publish(&mut self, at: usize, topic: &str, message: &[u8]) {
        assert!(self.domains[at].advertised.contains(topic), "{topic} is not published");
        assert!(message.len() < 128 * 1024);
        let recalled = dds::Carried::decode(message).is_some_and(|it| it.again > 0 && it.seq == 0);
        if self.keeps_back && recalled {
            return;
        }
        for to in (0..self.domains.len()).filter(|to| *to != at) {
            let lost = self.cut.contains(&(at.min(to), at.max(to))) || self.chance.f64() < self.loss;
            if !lost {
                self.sent += 1;
                // A stream keeps its order but for what a failover sends again.
                let late = if self.chance.f64() < self.late { self.chance.i64(1..400) } else { 0 };
                let mut due = self.now + Span::millis(30 + late);
                if self.crawls > Span::ZERO && dds::Carried::decode(message).is_some_and(|it| it.again > 0) {
                    self.crawled = self.crawled.max(due) + self.crawls;
                    due = self.crawled;
                }
                if self.said.len() < 100 {
                    self.said.push((to, topic.to_owned(), message.to_vec()));
                }
                self.way.insert((due, self.sent), (to, topic.to_owned(), message.to_vec()));
            }
        }
    }

    fn carry_out(&mut self, at: usize, effect: Effect) {
        let domain = &mut self.domains[at];
        match effect {
            Effect::Tap { tap, like, qos } => {
                for writer in domain.writers.values().filter(|writer| writer.endpoint.topic == like.topic) {
                    let heard = writer.endpoint.is_heard_by(&Endpoint { qos: qos.clone(), ..like.clone() });
                    if heard.is_ok() && writer.endpoint.qos.durability > Durability::Volatile {
                        let guid = writer.endpoint.guid;
                        domain.pending.extend(writer.history().into_iter().map(|old| (tap, guid, old)));
                    }
                }
                assert!(domain.taps.insert(tap, like).is_none(), "a tap is opened twice");
            }
            Effect::Untap { tap } => assert!(domain.taps.remove(&tap).is_some(), "no such tap"),
            Effect::StandIn { writer, .. } => {
                assert!(!domain.writers.contains_key(&writer.guid), "who is here needs nobody to stand in");
                assert!(domain.stand_ins.insert(writer.guid, Vec::new()).is_none(), "it stands in twice");
            }
            Effect::StandDown { writer } => {
                assert!(domain.stand_ins.remove(&writer).is_some(), "nobody stands in");
                domain.newest.retain(|(of, _), _| *of != writer);
            }
            Effect::Write { writer, sample } => {
                let values = domain.stand_ins.get_mut(&writer).expect("a stand-in writes");
                if self.forges {
                    values.push(0);
                    return;
                }
                let value = value(&sample);
                let newest = domain.newest.insert((writer, sample.hash.unwrap()), value);
                assert!(!values.contains(&value), "{writer} writes {value} twice");
                assert!(
                    newest.is_none_or(|newest| newest < value),
                    "{writer} writes {value} after {newest:?}"
                );
                values.push(value);
            }
            Effect::Advertise { topic, .. } => drop(domain.advertised.insert(topic)),
            Effect::Withdraw { topic } => {
                assert!(domain.advertised.remove(&topic), "{topic} is not published");
            }
            Effect::Publish { topic, message } => self.publish(at, &topic, &message),
            Effect::Subscribe { topic } => assert!(domain.subscribed.insert(topic), "it is subscribed twice"),
            Effect::Unsubscribe { topic } => {
                assert!(domain.subscribed.remove(&topic), "it is not subscribed");
            }
            Effect::Look { writer } => {
                if domain.stand_ins.contains_key(&writer) {
                    domain.bridge.is_found(writer);
                }
            }
            Effect::Mark { .. } => {}
            Effect::Tell(words) => domain.tells.push(words),
        }
    }

    fn run(&mut self, time: Span) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    /// Once nothing changes any more: exactly those are tapped and stood in for that are heard elsewhere.
    fn check_who_is_served(&self) {
        for (at, domain) in self.domains.iter().enumerate() {
            let elsewhere =
                || self.domains.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, it)| it);
            let wanted: BTreeSet<Guid> = elsewhere()
                .flat_map(|other| other.writers.values())
                .filter(|writer| domain.readers.values().any(|reader| heard(&writer.endpoint, reader)))
                .map(|writer| writer.endpoint.guid)
                .collect();
            assert_eq!(domain.stand_ins.keys().copied().collect::<BTreeSet<Guid>>(), wanted, "domain {at}");
            let tapped: BTreeSet<&str> = domain.taps.values().map(|like| like.topic.as_str()).collect();
            let asked: BTreeSet<&str> = domain
                .writers
                .values()
                .filter(|writer| {
                    let mut readers = elsewhere().flat_map(|other| other.readers.values());
                    readers.any(|reader| heard(&writer.endpoint, reader))
                })
                .map(|writer| writer.endpoint.topic.as_str())
                .collect();
            assert_eq!(tapped, asked, "domain {at}");
        }
    }
}

fn heard(writer: &Endpoint, reader: &Endpoint) -> bool {
    // A writer in a pattern of partitions is not bridged.
    let patterns = writer.qos.partitions.iter().any(|name| name.contains('*'));
    !patterns && writer.topic == reader.topic && writer.is_heard_by(reader).is_ok()
}

fn reliable() -> Qos {
    Qos { reliability: Reliability::Reliable, ..Qos::default() }
}

fn durable(history: History) -> Qos {
    Qos { durability: Durability::TransientLocal, history, ..reliable() }
}

#[test]
fn a_reader_hears_a_writer_of_another_domain_and_only_while_it_is_there() {
    let mut world = World::new(1, 2, 0.0);
    let writer = world.writer(0, "Square", reliable());
    world.run(Span::secs(3));
    assert!(world.domains[0].taps.is_empty(), "nobody wants it");
    let reader = world.reader(1, "Square", reliable());
    world.run(Span::millis(500));
    world.check_who_is_served();
    for _ in 0..100 {
        world.write(0, writer, 1);
        world.step();
    }
    world.run(Span::millis(200));
    assert_eq!(world.domains[1].stand_ins[&writer], (0..100).collect::<Vec<u64>>());
    world.ends(1, reader);
    world.run(Span::millis(500));
    assert!(world.domains[0].taps.is_empty() && world.domains[1].stand_ins.is_empty());
    assert!(world.domains[0].advertised.iter().all(|topic| topic.starts_with("dds/0/bridges/")));
}

#[test]
fn who_comes_late_has_what_the_writer_keeps_and_then_what_is_live() {
    let mut world = World::new(2, 3, 0.0);
    let writer = world.writer(0, "Temperature", durable(History::KeepLast(2)));
    world.run(Span::secs(2));
    (0..50).for_each(|i| world.write(0, writer, (i % 5) as u8));
    // One before anything is tapped, one long after.
    let _ = world.reader(1, "Temperature", durable(History::KeepAll));
    world.run(Span::secs(1));
    (50..60).for_each(|_| {
        world.write(0, writer, 7);
        world.step();
    });
    let _ = world.reader(2, "Temperature", durable(History::KeepAll));
    for _ in 60..160 {
        world.write(0, writer, 8);
        world.step();
    }
    world.run(Span::secs(2));
    let expected: Vec<u64> = (40..160).collect();
    assert_eq!(world.domains[1].stand_ins[&writer], expected);
    let late = &world.domains[2].stand_ins[&writer];
    let first_live = late.iter().position(|value| *value >= 60).unwrap();
    assert_eq!(late[..first_live], (40..50).chain(58..60).collect::<Vec<u64>>());
    // Of what was live meanwhile, so much as the writer keeps.
    assert!(late[first_live..].windows(2).all(|pair| pair[1] == pair[0] + 1), "{late:?}");
    assert_eq!(late.last(), Some(&159));
}

#[test]
fn what_a_failover_brings_late_is_put_in_order_and_what_is_lost_is_not_waited_for_long() {
    let mut world = World::new(5, 2, 0.0);
    let writer = world.writer(0, "Square", reliable());
    let _ = world.reader(1, "Square", reliable());
    world.run(Span::secs(3));
    world.late = 0.1;
    for _ in 0..2000 {
        world.write(0, writer, 1);
        world.step();
    }
    world.run(Span::secs(1));
    assert_eq!(world.domains[1].stand_ins[&writer], (0..2000).collect::<Vec<u64>>());
    (world.late, world.loss) = (0.0, 1.0);
    world.write(0, writer, 1);
    world.step();
    world.step();
    world.loss = 0.0;
    for _ in 0..50 {
        world.write(0, writer, 1);
        world.step();
    }
    world.run(Span::secs(1));
    assert_eq!(world.domains[1].stand_ins[&writer].len(), 2000, "it is waited for");
    world.run(Span::secs(2));
    assert_eq!(world.domains[1].stand_ins[&writer][2000..], (2001..2051).collect::<Vec<u64>>());
}

/// After a failover of brokers what was said before may come again.
#[test]
fn what_a_bridge_said_before_it_said_something_else_is_not_heeded() {
    let mut world = World::new(7, 2, 0.0);
    let writer = world.writer(0, "Square", reliable());
    let _ = world.reader(1, "Square", reliable());
    world.run(Span::millis(1200));
    let first = world.said.clone();
    world.run(Span::secs(3));
    for (to, topic, message) in first {
        world.domains[to].bridge.message(world.now, &topic, &message, Span::secs(3));
        world.write(0, writer, 1);
        world.step();
    }
    world.run(Span::secs(1));
    let written = world.domains[0].writers[&writer].written;
    assert!(written > 1);
    assert_eq!(world.domains[1].stand_ins[&writer], (0..written).collect::<Vec<u64>>());
}

/// A program may write as soon as its writer is found.
#[test]
fn what_a_writer_writes_once_it_is_found_comes() {
    for seed in 0..50 {
        let mut world = World::new(seed, 2, 0.0);
        let _ = world.reader(1, "Square", reliable());
        let before = Span::millis(world.chance.i64(0..4000));
        world.run(before);
        let writer = world.writer(0, "Square", reliable());
        while world.domains[0].taps.is_empty() {
            world.step();
        }
        world.write(0, writer, 1);
        world.run(Span::millis(200));
        assert_eq!(world.domains[1].stand_ins[&writer], [0]);
        // The next one is found at once, by the reader that is there.
        let second = world.writer(0, "Square", reliable());
        for _ in 0..20 {
            world.write(0, second, 1);
            world.step();
        }
        world.run(Span::millis(400));
        assert_eq!(world.domains[1].stand_ins[&second], (0..20).collect::<Vec<u64>>());
    }
}

/// What was written before may never come, or not all of it: nobody waits for it for ever.
#[test]
fn a_stand_in_goes_on_without_what_was_written_before() {
    for reliability in [Reliability::Reliable, Reliability::BestEffort] {
        let mut world = World::new(9, 2, 0.0);
        let qos = Qos { reliability, ..durable(History::KeepAll) };
        let writer = world.writer(0, "Square", qos.clone());
        let _ = world.reader(1, "Square", qos);
        world.run(Span::secs(3));
        world.keeps_back = true;
        (0..20).for_each(|_| world.write(0, writer, 1));
        world.restart(1);
        world.run(Span::secs(20));
        world.write(0, writer, 1);
        world.run(Span::secs(1));
        let best_effort = reliability == Reliability::BestEffort;
        assert_eq!(world.domains[1].stand_ins[&writer].contains(&20), best_effort, "{reliability:?}");
        world.run(Span::secs(60));
        world.write(0, writer, 1);
        world.run(Span::secs(1));
        assert_eq!(world.domains[1].stand_ins[&writer].last(), Some(&21), "{reliability:?}");
    }
}

/// It comes over a slow link, and takes longer than nothing would be waited for.
#[test]
fn what_was_written_before_is_waited_for_while_more_of_it_comes() {
    let mut world = World::new(9, 2, 0.0);
    let writer = world.writer(0, "Square", durable(History::KeepAll));
    let _ = world.reader(1, "Square", durable(History::KeepAll));
    world.run(Span::secs(3));
    (0..400).for_each(|_| world.write(0, writer, 1));
    world.crawls = Span::millis(200);
    world.restart(1);
    world.run(Span::secs(95));
    assert_eq!(world.domains[1].stand_ins[&writer], (0..400).collect::<Vec<_>>());
}

#[test]
fn what_is_too_long_is_not_carried_and_nobody_waits_for_it() {
    let mut world = World::new(6, 2, 0.0);
    let writer = world.writer(0, "Square", reliable());
    let _ = world.reader(1, "Square", reliable());
    world.run(Span::secs(3));
    let tap = *world.domains[0].taps.keys().next().unwrap();
    let long = Sample { bytes: vec![0; 1001], ..sample(1, 0, 0) };
    world.domains[0].bridge.sample(world.now, tap, writer, long);
    world.write(0, writer, 1);
    world.run(Span::millis(200));
    assert_eq!(world.domains[1].stand_ins[&writer], [0]);
    assert!(world.domains[0].tells.iter().any(|words| words.contains("above the limit of 1000")));
}

#[test]
fn a_bridge_that_dies_is_missed_after_its_lease_and_comes_back_without_repeating() {
    let mut world = World::new(3, 2, 0.0);
    let writer = world.writer(0, "Temperature", durable(History::KeepLast(1)));
    let _ = world.reader(1, "Temperature", durable(History::KeepLast(1)));
    world.run(Span::secs(2));
    for i in 0..20 {
        world.write(0, writer, i % 4);
        world.step();
    }
    world.run(Span::millis(200));
    world.restart(0);
    world.run(Span::secs(2));
    for _ in 20..30 {
        world.write(0, writer, 9);
        world.step();
    }
    world.run(Span::secs(9));
    world.check_who_is_served();
    let values = &world.domains[1].stand_ins[&writer];
    assert_eq!(values[..20], (0..20).collect::<Vec<u64>>());
    let after: BTreeSet<u64> = values[20..].iter().copied().collect();
    assert!(after.len() == values.len() - 20 && after.iter().all(|value| *value >= 20), "{values:?}");
    world.cut.insert((0, 1));
    world.run(LEASE + Span::secs(2));
    assert!(world.domains[1].stand_ins.is_empty(), "nothing has been heard for longer than a lease");
    world.cut.clear();
    world.run(Span::secs(4));
    world.check_who_is_served();
    assert_eq!(world.domains[1].stand_ins[&writer], [16, 17, 18, 19, 29], "the newest of each instance");
}

#[test]
fn who_offers_less_than_is_asked_is_told_at_both_ends() {
    let mut world = World::new(4, 2, 0.0);
    let _ = world.writer(0, "Square", Qos::default());
    let _ = world.reader(1, "Square", Qos { ownership: Ownership::Exclusive, ..reliable() });
    world.run(Span::secs(3));
    for domain in &world.domains {
        let words: Vec<&String> =
            domain.tells.iter().filter(|words| words.contains("less is offered")).collect();
        assert_eq!(words.len(), 1);
        assert!(words[0].contains("RELIABILITY, OWNERSHIP"), "{words:?}");
        assert!(domain.taps.is_empty() && domain.stand_ins.is_empty());
    }
}

#[test]
fn one_of_two_bridges_of_a_domain_serves_it() {
    let now = Time(0);
    let mut bridges = [Bridge::new(now, settings(1)), Bridge::new(now, settings(2))];
    let participants = [guid(100, true), guid(101, true)];
    let serve = |bridges: &mut [Bridge; 2], now: Time| {
        let marks: Vec<bool> = bridges.iter().map(Bridge::serves).collect();
        for (at, bridge) in bridges.iter_mut().enumerate() {
            let other = 1 - at;
            let neighbour = Neighbour { id: BridgeId(other as u64 + 1), serves: marks[other] };
            bridge.neighbour(participants[other], Some(neighbour));
            bridge.tick(now, true);
        }
    };
    for step in 0..300 {
        serve(&mut bridges, now + STEP * step);
    }
    assert!(bridges[0].serves() && !bridges[1].serves());
    bridges[1].neighbour(participants[0], None);
    bridges[1].tick(now + LISTEN + Span::secs(3), true);
    assert!(bridges[1].serves(), "the other one has gone");
    // It comes back, and there is one that serves.
    bridges[0] = Bridge::new(now + Span::secs(5), settings(1));
    for step in 500..900 {
        serve(&mut bridges, now + STEP * step);
    }
    assert!(!bridges[0].serves() && bridges[1].serves());
}

#[allow(clippy::disallowed_methods, reason = "whoever runs the test chooses seeds")]
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Whoever may publish there may publish anything.
#[test]
fn whatever_is_published_on_a_bridges_topics_ends_no_bridge() {
    let mut chance = Rng::with_seed(8);
    let mut world = World::new(8, 2, 0.0);
    let writer = world.writer(0, "Square", durable(History::KeepLast(2)));
    let _ = world.reader(1, "Square", durable(History::KeepAll));
    world.run(Span::secs(3));
    let mut seen: Vec<(usize, String, Vec<u8>)> = world.said.clone();
    world.forges = true;
    for round in 0..20_000 {
        let (to, topic, mut message) = seen[chance.usize(..seen.len())].clone();
        for _ in 0..chance.usize(..4) {
            let at = chance.usize(..message.len().max(1));
            match chance.usize(..4) {
                0 if at < message.len() => message[at] = chance.u8(..),
                1 if at < message.len() => drop(message.remove(at)),
                2 => message.insert(at.min(message.len()), b"0919{}[]\"\\"[chance.usize(..10)]),
                _ => message.truncate(at),
            }
        }
        world.domains[to].bridge.message(world.now, &topic, &message, Span::nanos(chance.i64(..)));
        if round % 50 == 0 {
            world.write(0, writer, chance.u8(..3));
            world.step();
            seen.extend(world.way.values().take(2).cloned());
        }
    }
    // Who may publish there is believed; but nothing that is said ends a bridge, or keeps a new one from being heard.
    world.forges = false;
    world.restart(0);
    world.restart(1);
    let (writer, _) =
        (world.writer(0, "Temperature", reliable()), world.reader(1, "Temperature", reliable()));
    world.run(LEASE + Span::secs(3));
    world.write(0, writer, 1);
    world.run(Span::millis(200));
    assert_eq!(world.domains[1].stand_ins[&writer], [0]);
}

/// Anything happens, and then nothing more: what is served is what should be, nothing has come twice to a stand-in, and never out of order.
#[test]
fn anything() {
    let [first, seeds] = [("VERGE_SEED", 0), ("VERGE_SEEDS", 150)].map(|(name, usual)| setting(name, usual));
    for seed in first..first + seeds {
        let mut chance = Rng::with_seed(seed ^ 0x5eed);
        let loss = [0.0, 0.0, 0.1, 0.4][chance.usize(..4)];
        let count = chance.usize(2..4);
        // Whether Verge has kept its promise to lose nothing.
        let mut whole = loss == 0.0;
        let mut world = World::new(seed, count, loss);
        world.late = [0.0, 0.02, 0.2][chance.usize(..3)];
        for _ in 0..chance.usize(20..150) {
            let at = chance.usize(..count);
            let topic = TOPICS[chance.usize(..3)];
            let qos = match chance.usize(..5) {
                0 => Qos::default(),
                1 => reliable(),
                2 => durable(History::KeepAll),
                3 => Qos { partitions: vec![["a", "b", "*"][chance.usize(..3)].to_owned()], ..reliable() },
                _ => durable(History::KeepLast(chance.u32(1..4))),
            };
            match chance.usize(..20) {
                0..3 => drop(world.writer(at, topic, qos)),
                3..6 => drop(world.reader(at, topic, qos)),
                6..8 => {
                    let all = world.domains[at].writers.keys().chain(world.domains[at].readers.keys());
                    let all: Vec<Guid> = all.copied().collect();
                    if let Some(gone) = (!all.is_empty()).then(|| all[chance.usize(..all.len())]) {
                        world.ends(at, gone);
                    }
                }
                8 => world.restart(at),
                9 => {
                    whole = false;
                    world.cut.insert((0, 1));
                }
                10 => world.cut.clear(),
                _ => {
                    for writer in world.domains[at].writers.keys().copied().collect::<Vec<Guid>>() {
                        world.write(at, writer, chance.u8(..4));
                    }
                }
            }
            world.run(Span::millis(chance.i64(10..600)));
        }
        world.cut.clear();
        (world.loss, world.late) = (0.0, 0.0);
        world.run(LEASE + Span::secs(6));
        eprintln!("seed {seed}");
        world.check_who_is_served();
        check_that_all_comes(&mut world, whole);
    }
}

/// Where nothing fails, every sample comes to every stand-in; those of durable writers include what they keep.
fn check_that_all_comes(world: &mut World, whole: bool) {
    let before: Vec<BTreeMap<Guid, usize>> = world
        .domains
        .iter()
        .map(|domain| domain.stand_ins.iter().map(|(k, v)| (*k, v.len())).collect())
        .collect();
    let mut from: BTreeMap<Guid, u64> = BTreeMap::new();
    for at in 0..world.domains.len() {
        for writer in world.domains[at].writers.keys().copied().collect::<Vec<Guid>>() {
            from.insert(writer, world.domains[at].writers[&writer].written);
            (0..3).for_each(|_| world.write(at, writer, 1));
        }
    }
    // What was lost before is waited for meanwhile.
    world.run(Span::millis(2500));
    for (domain, before) in world.domains.iter().zip(before) {
        for (writer, values) in &domain.stand_ins {
            let expected: Vec<u64> = (from[writer]..from[writer] + 3).collect();
            // With them comes what was lost before and is kept.
            let new = &values[before[writer]..];
            assert!(new.ends_with(&expected), "{writer}: {new:?}, not {expected:?}");
        }
        for other in &world.domains {
            for (guid, writer) in &other.writers {
                let Some(values) = domain.stand_ins.get(guid) else { continue };
                if whole && writer.endpoint.qos.durability > Durability::Volatile {
                    let kept: BTreeSet<u64> = writer.history().iter().map(value).collect();
                    let values: BTreeSet<u64> = values.iter().copied().collect();
                    assert!(kept.is_subset(&values), "{guid}: {kept:?} of {values:?}");
                }
            }
        }
    }
}

#[test]
fn every_mutant_is_noticed() {
    let tests: [(Mutant, fn()); 6] = [
        (Mutant::ReadUnwanted, a_reader_hears_a_writer_of_another_domain_and_only_while_it_is_there),
        (Mutant::ReadAtOnce, what_a_writer_writes_once_it_is_found_comes),
        (
            Mutant::WriteAsItComes,
            what_a_failover_brings_late_is_put_in_order_and_what_is_lost_is_not_waited_for_long,
        ),
        (Mutant::HeedOldWords, what_a_bridge_said_before_it_said_something_else_is_not_heeded),
        (Mutant::KeepNothingForLate, who_comes_late_has_what_the_writer_keeps_and_then_what_is_live),
        (Mutant::WriteAgain, a_bridge_that_dies_is_missed_after_its_lease_and_comes_back_without_repeating),
    ];
    for (mutant, test) in tests {
        Mutant::switch(Some(mutant));
        let noticed = std::panic::catch_unwind(test).is_err();
        Mutant::switch(None);
        assert!(noticed, "{mutant:?} is not noticed");
    }
}
