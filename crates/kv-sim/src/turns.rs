//! What the thread of a lane does, in the order in which `kv-host` does it: wakes for a release, takes new connections, empties the
//! rings, begins, sends, hears, waits, and publishes.

use crate::checkers::{Ended, Publication};
use crate::happening::{Happening, Place};
use crate::ledger::Read;
use crate::liar::{Liar, Utterance};
use crate::part::{Broken, Next, Write};
use crate::scenario::{Act, START};
use crate::tasks;
use crate::world::{Strand, World, edge};
use contract::{Span, Time};
use kv::{BeginError, Dropped, KeyId, Node, Publish, Step};
use simulation::hash;

/// Reads from one peer before the others are heard, as in `kv-host`.
const READS_MAX: usize = 16;
/// Frames that are remembered, for whoever repeats them.
const REMEMBERED: usize = 32;

#[derive(Default)]
struct Shared {
    published: Vec<Publication>,
    recovered: Vec<Publication>,
}

impl Publish for Shared {
    fn publish(&mut self, key: KeyId, stamp: Time, value: &[u8]) {
        self.published.push(Publication { key: key.0, stamp, value: value.to_vec() });
    }

    fn recover(&mut self, key: KeyId, stamp: Time, value: &[u8]) {
        self.recovered.push(Publication { key: key.0, stamp, value: value.to_vec() });
    }
}

impl World<'_> {
    /// Sleeps until the next release: the one after `last`, unless that is a quarter of a period ago.
    pub(crate) fn sleep(&mut self, at: Place, last: Option<Time>) {
        let (now, setup) = (self.local(at), &self.strands[at.lane].setup);
        let period = setup.period();
        let due = last.map(|last| last + period).filter(|due| now < *due + Span(period.0 / 4));
        let release = due.unwrap_or_else(|| setup.release_after(now.max(START - Span(1))));
        let job = release.since(START + self.scenario.offset_of(at.lane)).0.div_euclid(period.0) as u64;
        if job >= self.scenario.jobs {
            return;
        }
        let mut random = self.random(&[3, at.lane as u64, at.node as u64, release.0]);
        let mut late = edge(&mut random, self.scenario.wake_max());
        for fault in self.scenario.faults.iter().filter(|fault| fault.is_on(at.node, job)) {
            if let Act::Stall(by) = fault.act {
                late = late.max(by);
            }
        }
        let when = self.when(at, release + late);
        let life = self.life(at);
        self.agenda.push(when, Happening::Release { at, life, release });
    }

    pub(crate) fn work(&mut self, at: Place, release: Time) {
        let now = self.local(at);
        let replaced = self.part_mut(at).adopt();
        self.give_up_all(at, replaced);
        self.part_mut(at).release = release;
        for write in std::mem::take(&mut self.part_mut(at).ring) {
            self.write(at, &write);
        }
        let Strand { parts, watch, .. } = &mut self.strands[at.lane];
        let Some(lane) = &mut parts[at.node].lane else { return };
        match lane.begin(release, now) {
            Ok(()) => {
                watch.begun(at.node, release, now);
                self.tell(at, || format!("begins its job of {}", release.0));
                self.part_mut(at).open(at.node);
                self.send(at);
                self.hear(at);
                self.go_on(at);
            }
            Err(BeginError::Missed { late, .. }) => {
                watch.missed(at.node);
                self.tell(at, || format!("skips a job, {late} late"));
                self.sleep(at, Some(release));
            }
            Err(error) => panic!("the release was asked for: {error}"),
        }
    }

    /// Time has come, or frames have.
    pub(crate) fn turn(&mut self, at: Place) {
        self.part_mut(at).waits_until = None;
        self.hear(at);
        self.go_on(at);
    }

    fn go_on(&mut self, at: Place) {
        loop {
            let now = self.local(at);
            let Some(lane) = &mut self.part_mut(at).lane else { return };
            match lane.step(now) {
                Step::Wait { until, .. } => {
                    self.strands[at.lane].watch.waits(at.node, now, until);
                    return self.wait(at, until);
                }
                Step::Send => {
                    self.send(at);
                    self.hear(at);
                }
                Step::Over | Step::Idle => {
                    let release = self.part(at).release;
                    let cost = edge(
                        &mut self.random(&[4, at.lane as u64, at.node as u64, release.0]),
                        self.scenario.cpu,
                    );
                    let life = self.life(at);
                    return self.agenda.push(self.now + cost, Happening::Finish { at, life });
                }
            }
        }
    }

    fn wait(&mut self, at: Place, until: Time) {
        let more = (0..self.scenario.nodes).any(|peer| self.can_hear(at, peer));
        let mut random =
            self.random(&[5, at.lane as u64, at.node as u64, until.0, u64::from(self.part(at).ticket)]);
        let late = edge(&mut random, self.scenario.wake_max());
        let when = if more { self.now } else { self.when(at, until + late) };
        let part = self.part_mut(at);
        part.waits_until = Some(when);
        part.ticket += 1;
        let ticket = part.ticket;
        let life = self.life(at);
        self.agenda.push(when, Happening::Turn { at, life, ticket });
    }

    /// Bytes have come from a peer: whoever waits for them wakes up.
    pub(crate) fn awaken(&mut self, at: Place, from: usize) {
        let Some(planned) = self.part(at).waits_until.filter(|_| self.can_hear(at, from)) else { return };
        let mut random = self.random(&[6, at.lane as u64, at.node as u64, self.now.0]);
        let when = self.now + edge(&mut random, self.scenario.wake_max());
        if when < planned {
            let part = self.part_mut(at);
            part.waits_until = Some(when);
            part.ticket += 1;
            let ticket = part.ticket;
            let life = self.life(at);
            self.agenda.push(when, Happening::Turn { at, life, ticket });
        }
    }

    fn job(&self, at: Place) -> u64 {
        let since = self.part(at).release.since(START + self.scenario.offset_of(at.lane));
        since.as_nanos_u64() / self.scenario.period.as_nanos_u64()
    }

    fn can_hear(&self, at: Place, from: usize) -> bool {
        let job = self.job(at);
        let is_deaf = self.scenario.faults.iter().any(|fault| {
            let Act::Deaf(to) = fault.act else { return false };
            fault.is_on(at.node, job) && to.contains(Node::at(from))
        });
        !is_deaf && self.part(at).is_readable(from)
    }

    /// Sends the frame of the round that has begun to everybody.
    fn send(&mut self, at: Place) {
        let mut longest = Span::ZERO;
        for to in (0..self.scenario.nodes).filter(|to| *to != at.node) {
            let Some(lane) = &self.part(at).lane else { continue };
            let frame = lane.frame(Node::at(to));
            let took = self.send_frame(at, to, [&frame.head[..], frame.body].concat());
            longest = longest.max(took);
        }
        let left = self.local(at) + longest;
        if let Some(lane) = &mut self.part_mut(at).lane {
            lane.sent(left);
        }
    }

    /// Answers those who have asked in this job for what they have missed.
    fn answer(&mut self, at: Place) {
        for to in (0..self.scenario.nodes).filter(|to| *to != at.node) {
            let Some(lane) = &mut self.part_mut(at).lane else { continue };
            let Some(frame) = lane.answer(Node::at(to)) else { continue };
            let honest = [&frame.head[..], frame.body].concat();
            self.findings.answers += 1;
            self.send_frame(at, to, honest);
        }
    }

    /// Returns how long it takes until it has left.
    fn send_frame(&mut self, at: Place, to: usize, honest: Vec<u8>) -> Span {
        let Some(link) = self.part(at).outgoing[to] else { return Span::ZERO };
        let job = self.job(at);
        let mut random =
            self.random(&[7, at.lane as u64, at.node as u64, to as u64, job, u64::from(honest[16])]);
        let times = self.scenario.link;
        let sending = edge(&mut random, times.send - self.scenario.wake_max());
        let mut way = sending
            + edge(&mut random, times.delay_max + self.scenario.excess)
            + edge(&mut random, times.receive);
        let (utterances, slower) = self.utter(at, to, &honest, &mut random);
        way += slower;
        for utterance in utterances {
            self.findings.frames += 1;
            self.findings.lies += u64::from(utterance.bytes != honest || slower > Span::ZERO);
            if utterance.is_tampered {
                self.strands[at.lane].watch.ledger.tampered.insert(utterance.bytes.clone());
            }
            self.write_to(at, link, &utterance.bytes, way);
        }
        let sent = &mut self.part_mut(at).sent[to];
        if sent.len() == REMEMBERED {
            sent.remove(0);
        }
        sent.push(honest);
        sending
    }

    /// What a node says to a peer instead of a frame, and how much later; the frame itself, if nothing is wrong with the node.
    fn utter(
        &mut self,
        at: Place,
        to: usize,
        honest: &[u8],
        random: &mut fastrand::Rng,
    ) -> (Vec<Utterance>, Span) {
        let (mut said, mut slower) = (vec![Utterance::of(honest.to_vec())], Span::ZERO);
        let job = self.job(at);
        for fault in self.scenario.faults.iter().filter(|fault| fault.is_on(at.node, job)) {
            match fault.act {
                Act::Silent(to_whom) if to_whom.contains(Node::at(to)) => said.clear(),
                Act::Slow(by) => slower = slower.max(by),
                Act::Lie(lie, percent) if random.u8(..100) < percent => {
                    let liar = Liar {
                        scenario: self.scenario,
                        setup: &self.strands[at.lane].setup,
                        seed: self.seed,
                        key: &self.key(at.node, to),
                        sent: &self.part(at).sent[to],
                    };
                    said = liar.utter(lie, honest, random);
                    self.tell(at, || format!("lies to node {to}: {lie:?} in round {}", honest[16]));
                }
                _ => {}
            }
        }
        (said, slower)
    }

    /// Reads and takes what has come, for as long as the lane wants some of it.
    fn hear(&mut self, at: Place) {
        for from in (0..self.scenario.nodes).filter(|from| *from != at.node) {
            if self.can_hear_deaf(at, from) {
                continue;
            }
            if self.hear_from(at, from).is_err() {
                self.fall_silent(at, from);
            }
        }
    }

    fn can_hear_deaf(&self, at: Place, from: usize) -> bool {
        let job = self.job(at);
        self.scenario.faults.iter().any(|fault| {
            matches!(fault.act, Act::Deaf(to) if to.contains(Node::at(from))) && fault.is_on(at.node, job)
        })
    }

    fn hear_from(&mut self, at: Place, from: usize) -> Result<(), Broken> {
        self.take(at, from)?;
        for _ in 0..READS_MAX {
            let part = self.part(at);
            let wants = part.lane.as_ref().is_some_and(|lane| lane.wants(Node::at(from)));
            if !part.incoming[from].as_ref().is_some_and(|wire| wants && !wire.is_ahead()) {
                return Ok(());
            }
            if !self.read_from(at, from)? {
                return Ok(());
            }
            self.take(at, from)?;
        }
        Ok(())
    }

    /// Takes the whole frames that have come, until one that is of a later job.
    fn take(&mut self, at: Place, from: usize) -> Result<(), Broken> {
        let Strand { setup, parts, watch } = &mut self.strands[at.lane];
        let part = &mut parts[at.node];
        let room = setup.frame_bytes_max();
        let (Some(lane), Some(wire)) = (&mut part.lane, &mut part.incoming[from]) else { return Ok(()) };
        let mut told = Vec::new();
        while !wire.is_ahead() && lane.wants(Node::at(from)) {
            let Next::Frame(frame) = wire.next(room)? else { break };
            let result = lane.take(Node::at(from), &frame);
            watch.took(at.node, from, &frame, result);
            self.hash = hash::number(self.hash, u64::from(result.is_ok()));
            self.findings.dropped += u64::from(result.is_err());
            if let Err(dropped) = result {
                told.push(dropped);
            }
            if let Err(Dropped::TooEarly { .. }) = result {
                wire.hold();
                lane.silence(Node::at(from));
                break;
            }
            wire.took(frame.len());
        }
        for dropped in told {
            self.tell(at, || format!("drops from node {from}: {dropped}"));
        }
        Ok(())
    }

    /// A connection cannot be read any further.
    fn fall_silent(&mut self, at: Place, from: usize) {
        let part = self.part_mut(at);
        if let Some(wire) = part.incoming[from].take() {
            if let Some(lane) = &mut part.lane {
                lane.silence(Node::at(from));
            }
            self.findings.broken += 1;
            self.tell(at, || format!("loses its connection from node {from}"));
            let way = self.scenario.link.delay_max;
            wire.link.into_iter().for_each(|link| self.give_up(at, link, way));
        }
    }

    pub(crate) fn publish(&mut self, at: Place) {
        let now = self.local(at);
        let Strand { parts, watch, .. } = &mut self.strands[at.lane];
        let Some(lane) = &mut parts[at.node].lane else { return };
        lane.fuse();
        let vector = (0..parts.len()).map(Node::at);
        let lane = parts[at.node].lane.as_mut().expect("it has just fused");
        let vector: Vec<Vec<u8>> = vector.map(|node| lane.agreed(node).to_vec()).collect();
        let mut shared = Shared::default();
        let outcome = lane.publish(now, &mut shared);
        let Shared { published, recovered } = shared;
        let ended = Ended { outcome, vector, published, recovered, late_in_all: lane.late_publish() };
        watch.ended(at.node, now, &ended);
        self.hash = hash::number(hash::number(self.hash, now.0), outcome.fused.digest);
        self.tell(at, || {
            let (silent, liars) = (outcome.silent, outcome.liars);
            let word = if outcome.fenced {
                ", fenced"
            } else if outcome.sure {
                ""
            } else {
                ", lacks something"
            };
            format!(
                "publishes {} values, holds {}, silent {silent:?}, lying {liars:?}{word}",
                outcome.published, outcome.held
            )
        });
        self.answer(at);
        let release = self.part(at).release;
        self.sleep(at, Some(release));
    }

    /// A task reads and writes.
    pub(crate) fn task(&mut self, at: Place, task: usize, period: u64) {
        let spec = self.scenario.tasks[task];
        if period + spec.periods <= self.scenario.jobs {
            self.plan_task(at, task, period + spec.periods);
        }
        if self.part(at).lane.is_none() {
            return;
        }
        let (now, release) = (self.local(at), self.scenario.beginning(period));
        for (key, other) in self.scenario.keys.iter().enumerate() {
            // I3 for its own, I4 for those of others: the newest release of their writer.
            let every = self.scenario.tasks[other.task].periods;
            let back = if other.task == task { spec.periods } else { period % every };
            self.read(at, key as u16, release - self.scenario.period * back, now);
        }
        let mut random = self.random(&[8, at.lane as u64, at.node as u64, task as u64, period]);
        let seed = hash::number(self.seed, at.lane as u64);
        for write in tasks::writes(self.scenario, seed, (task, at), release, now, &mut random) {
            if self.scenario.rings {
                self.part_mut(at).ring.push(write);
            } else {
                self.write(at, &write);
            }
        }
    }

    fn write(&mut self, at: Place, write: &Write) {
        let now = self.local(at);
        let Strand { parts, watch, .. } = &mut self.strands[at.lane];
        let Some(lane) = &mut parts[at.node].lane else { return };
        let result = lane.write(write.key, &write.value, write.publishing, now);
        watch.wrote(at.node, now, write, result);
    }

    fn read(&mut self, at: Place, key: u16, freshness: Time, now: Time) {
        let Strand { parts, watch, .. } = &mut self.strands[at.lane];
        let Some(lane) = &parts[at.node].lane else { return };
        let result = lane.read(KeyId(key), freshness, now).map(|value| (value.stamp, value.bytes.to_vec()));
        self.findings.reads += 1;
        if let Ok((stamp, value)) = &result {
            self.findings.reads_answered += 1;
            self.hash = hash::bytes(hash::number(self.hash, stamp.0), value);
        }
        watch.read(at.node, &Read { key, freshness, now, result });
    }

    /// A reader looks at every key with several demands, and at all that is kept.
    pub(crate) fn look(&mut self, at: Place) {
        if self.part(at).lane.is_none() {
            return;
        }
        let now = self.local(at);
        for key in 0..=self.scenario.keys.len() as u16 {
            for freshness in [Time::ZERO, now - self.scenario.period, now, now + Span(1)] {
                self.read(at, key, freshness, now);
            }
        }
        let Strand { parts, watch, .. } = &mut self.strands[at.lane];
        let Some(lane) = &parts[at.node].lane else { return };
        for key in 0..self.scenario.keys.len() as u16 {
            let (mut kept, mut before) = (Vec::new(), Time::NEVER);
            while let Ok(value) = lane.read(KeyId(key), Time::ZERO, before)
                && value.stamp <= before
            {
                kept.push((value.stamp, value.bytes.to_vec()));
                before = value.stamp - Span(1);
            }
            watch.looked_back(at.node, key, &kept);
        }
    }
}
