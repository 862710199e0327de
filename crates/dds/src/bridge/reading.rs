//! Writers of the own domain: when they are read, and what becomes of what they write.

use super::{Bridge, Effect, TOLD_MAX, Wish, shown};
use crate::endpoint::{Endpoint, Guid, Qos, Reliability};
use crate::history::Kept;
use crate::names::topic;
use crate::sample::{Carried, Sample};
use contract::{Loss, Mutant, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Samples of one writer that wait until somebody is ready to write them.
const EARLY_MAX: usize = 1024;
/// And their bytes.
const EARLY_BYTES_MAX: usize = 16 << 20;
/// How often it is asked whether somebody is ready to write for a writer.
const PROBE_AGAIN: Span = Span::millis(50);
/// How long that is waited for.
const PROBE_AT_MOST: Span = Span::secs(5);
/// What several ask for at once is sent once.
const RECALL_AT_LEAST: Span = Span::millis(150);
/// A latency budget above this is none.
const BUDGET_MAX: Span = Span::secs(3600);

/// Several writers that are read by one reader.
#[derive(Debug)]
pub(super) struct Tap {
    like: Endpoint,
    qos: Qos,
    writers: BTreeSet<Guid>,
}

/// A writer of the own domain that is read.
#[derive(Debug)]
pub(super) struct Tapped {
    pub(super) writer: Endpoint,
    /// `None`: it is not read yet, since whoever is to hear it may not be there yet.
    tap: Option<u64>,
    /// Since when that is so.
    since: Time,
    /// When it was last asked whether somebody is there.
    asked: Option<Time>,
    /// Which time it is that it is read.
    life: u64,
    topic: String,
    next: u64,
    kept: Option<Kept>,
    recalled: Option<Time>,
    /// What it has written before it is read.
    early: Vec<Sample>,
    /// It has written samples that are too long.
    has_long: bool,
}

impl Bridge {
    /// A writer of the own domain has written.
    pub fn sample(&mut self, now: Time, tap: u64, writer: Guid, sample: Sample) {
        // It may be of a writer that has just come.
        self.settle_all(now);
        let Some(tapped) = self.tapped.get_mut(&writer) else { return };
        if sample.bytes.len() > self.settings.sample_bytes {
            // It has no number, so that nobody waits for it.
            self.counts.dropped += 1;
            if !std::mem::replace(&mut tapped.has_long, true) {
                let (topic, bytes) = (shown(&tapped.topic), sample.bytes.len());
                let most = self.settings.sample_bytes;
                self.tell(format!("`{topic}`: a sample of {bytes} bytes is not carried, since it is above the limit of {most}"));
            }
            return;
        }
        let alike = |tap: &Tap| tap.qos == of_tap(&tapped.writer.qos) && is_alike(&tap.like, &tapped.writer);
        match tapped.tap {
            Some(own) if own == tap => {}
            // It was found by the reader of another writer, before anybody over there was ready for it.
            None if self.taps.get(&tap).is_some_and(alike) && !tapped.writer.qos.is_durable() => {
                let bytes: usize = tapped.early.iter().map(|early| early.bytes.len()).sum();
                if tapped.early.len() < EARLY_MAX && bytes < EARLY_BYTES_MAX {
                    tapped.early.push(sample);
                } else {
                    self.counts.dropped += 1;
                }
                return;
            }
            _ => return,
        }
        let seq = tapped.next;
        tapped.next += 1;
        if let Some(kept) = tapped.kept.as_mut().filter(|_| !Mutant::KeepNothingForLate.is_on()) {
            kept.keep(now, seq, &sample);
        }
        let carried =
            Carried { bridge: self.settings.who.id, writer, life: tapped.life, seq, again: 0, sample };
        self.counts.sent += 1;
        let (topic, message) = (tapped.topic.clone(), carried.encode());
        self.effects.push_back(Effect::Publish { topic, message });
    }

    /// A writer is to be read. One that is reliable is read only when somebody over there is ready to write: it sees its first reader then,
    /// and whatever it writes from then on comes there.
    pub(super) fn tap(&mut self, now: Time, writer: &Endpoint, at_once: bool) {
        if let Some(known) = self.tapped.get_mut(&writer.guid) {
            let same = of_tap(&known.writer.qos) == of_tap(&writer.qos)
                && is_alike(&known.writer, writer)
                && known.writer.qos.kept() == writer.qos.kept();
            if same {
                known.writer = writer.clone();
                return;
            }
            self.untap(writer.guid);
        }
        let waits =
            !at_once && writer.qos.reliability == Reliability::Reliable && !Mutant::ReadAtOnce.is_on();
        self.lives += 1;
        let tapped = Tapped {
            writer: writer.clone(),
            tap: None,
            since: now,
            asked: None,
            life: self.lives,
            topic: topic(self.settings.domain, &self.settings.who.name, writer),
            next: 0,
            kept: writer.qos.is_durable().then(|| Kept::new(writer.qos.kept())),
            recalled: None,
            early: Vec::new(),
            has_long: false,
        };
        self.tapped.insert(writer.guid, tapped);
        if !waits {
            self.open(now, writer.guid);
        }
    }

    /// Reads a writer, by a reader that is there already, or a new one.
    pub(super) fn open(&mut self, now: Time, writer: Guid) {
        let Some(tapped) = self.tapped.get_mut(&writer).filter(|tapped| tapped.tap.is_none()) else { return };
        let like = &tapped.writer;
        let qos = of_tap(&like.qos);
        let known = self.taps.iter_mut().find(|(_, tap)| tap.qos == qos && is_alike(&tap.like, like));
        let number = match known {
            // What a durable writer wrote before comes to a reader that is new, and to no other.
            Some((number, tap)) if !like.qos.is_durable() => {
                tap.writers.insert(writer);
                *number
            }
            _ => {
                let number = self.next_tap;
                self.next_tap += 1;
                let tap = Tap { like: like.clone(), qos: qos.clone(), writers: BTreeSet::from([writer]) };
                self.taps.insert(number, tap);
                self.effects.push_back(Effect::Tap { tap: number, like: like.clone(), qos });
                number
            }
        };
        tapped.tap = Some(number);
        for sample in std::mem::take(&mut tapped.early) {
            self.sample(now, number, writer, sample);
        }
    }

    /// Asks whether somebody is ready to write what writers will write, where that is waited for; reads them at last all the same.
    pub(super) fn probe(&mut self, now: Time) {
        let (mut probes, mut late) = (Vec::new(), Vec::new());
        let bridge = self.settings.who.id;
        for (writer, tapped) in self.tapped.iter_mut().filter(|(_, tapped)| tapped.tap.is_none()) {
            if now.since(tapped.since) >= PROBE_AT_MOST {
                late.push(*writer);
            } else if tapped.asked.is_none_or(|asked| now.since(asked) >= PROBE_AGAIN) {
                tapped.asked = Some(now);
                let sample = Sample::probe();
                let message =
                    Carried { bridge, writer: *writer, life: tapped.life, seq: 0, again: 0, sample };
                probes.push((tapped.topic.clone(), message.encode()));
            }
        }
        self.effects.extend(probes.into_iter().map(|(topic, message)| Effect::Publish { topic, message }));
        late.into_iter().for_each(|writer| self.open(now, writer));
    }

    pub(super) fn untap(&mut self, guid: Guid) {
        let Some(tapped) = self.tapped.remove(&guid) else { return };
        if let Some(number) = tapped.tap
            && let Some(tap) = self.taps.get_mut(&number)
        {
            tap.writers.remove(&guid);
            if tap.writers.is_empty() {
                self.taps.remove(&number);
                self.effects.push_back(Effect::Untap { tap: number });
            }
        }
        if !self.tapped.values().any(|other| other.topic == tapped.topic) {
            self.wishes.remove(&tapped.topic);
            self.effects.push_back(Effect::Withdraw { topic: tapped.topic });
        }
    }

    /// What the topics of Verge of these writers promise.
    pub(super) fn wish_for(&mut self, local: &[Endpoint]) {
        let mut wishes: BTreeMap<String, Wish> = BTreeMap::new();
        for writer in local {
            let Some(tapped) = self.tapped.get(&writer.guid) else { continue };
            let none = Wish { loss: Loss::Unbounded, deadline: None };
            let wish = wishes.entry(tapped.topic.clone()).or_insert(none);
            if writer.qos.reliability == Reliability::Reliable {
                wish.loss = Loss::AtMost(0);
            }
            let budget = i64::try_from(writer.qos.latency_budget_ns).unwrap_or(i64::MAX);
            let budget =
                Some(Span::nanos(budget)).filter(|budget| *budget > Span::ZERO && *budget < BUDGET_MAX);
            wish.deadline = wish.deadline.into_iter().chain(budget).min();
        }
        for (topic, wish) in wishes {
            match self.wishes.get(&topic) {
                None => {
                    self.wishes.insert(topic.clone(), wish);
                    self.effects.push_back(Effect::Advertise { topic, wish });
                }
                // What is promised of a topic does not change while it is carried.
                Some(said)
                    if wish.deadline.is_some_and(|asked| said.deadline.is_none_or(|said| asked < said)) =>
                {
                    let words = format!(
                        "`{}`: a writer has come whose LATENCY_BUDGET is less than that of those before it, and is not kept: give the topic \
                         a contract in the brokers' configuration ([[topic]])",
                        shown(&topic)
                    );
                    if self.told_budgets.len() < TOLD_MAX && self.told_budgets.insert(topic) {
                        self.tell(words);
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Sends again what a durable writer has written.
    pub(super) fn recall(&mut self, now: Time, writer: Guid) {
        let Some(tapped) = self.tapped.get_mut(&writer) else { return };
        let Some(kept) = &tapped.kept else { return };
        if tapped.recalled.is_some_and(|recalled| now.since(recalled) < RECALL_AT_LEAST) {
            return;
        }
        tapped.recalled = Some(now);
        self.recalls += 1;
        let (bridge, life, again) = (self.settings.who.id, tapped.life, self.recalls);
        let mut samples: Vec<(u64, Sample)> = kept
            .samples(now, tapped.writer.qos.lifespan_ns)
            .map(|(seq, sample)| (seq, sample.clone()))
            .collect();
        samples.push((tapped.next, Sample::end(samples.len())));
        for (seq, sample) in samples {
            let message = Carried { bridge, writer, life, seq, again, sample }.encode();
            self.effects.push_back(Effect::Publish { topic: tapped.topic.clone(), message });
        }
    }
}

/// How writers are read that offer this. What does not decide whom a reader hears is left out, so that few readers are needed.
pub(super) fn of_tap(offered: &Qos) -> Qos {
    let plain = Qos::default();
    Qos {
        strength: 0,
        priority: 0,
        lifespan_ns: None,
        max_blocking_ns: plain.max_blocking_ns,
        ..offered.of_reader()
    }
}

pub(super) fn is_alike(tap: &Endpoint, writer: &Endpoint) -> bool {
    tap.topic == writer.topic
        && tap.type_name == writer.type_name
        && tap.guid.is_keyed() == writer.guid.is_keyed()
}
