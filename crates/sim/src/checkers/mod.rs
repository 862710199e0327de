//! What must hold: one property per file. [`Watch`] hears everything that happens and tells the checkers that care.
//!
//! The first thing that is broken ends the run; later ones are usually its consequences.

mod accounts;
mod admission;
mod clocks;
mod contents;
mod copies;
mod deadlines;
mod departures;
mod devices;
mod duplicates;
mod edf;
mod epochs;
mod failover;
mod handover;
mod lateness;
mod lazy;
mod limits;
mod losses;
mod memories;
mod operators;
mod progress;
mod reigns;
mod served;
mod strangers;
mod told;

pub(crate) use devices::is_of_device;
pub(crate) use failover::Failover;
pub(crate) use losses::{Strike, longest_run_at_all};
pub(crate) use progress::Left;

use crate::device::Word;
use crate::ledger::{self, Ledger, Life};
use crate::node::{Got, Joined, Told};
use crate::operators::Seen;
use crate::port::{Note, Port, Written};
use crate::report::{Findings, Sample};
use crate::scenario::{Act, Scenario, Target, TopicSpec};
use crate::world::START;
use broker::PromotionCause;
use contract::{Reign, Span, Time};
use endpoint::StreamAccount;
use std::fmt;
use wire::{ClockDifference, MarkKind, MessageKind};

/// A subscriber waits so long beyond the deadline and the failover time before it counts a message as lost.
const SETTLING: Span = Span::secs(1);

/// Something that must hold did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The checker that noticed.
    pub checker: &'static str,
    /// When it was noticed, since the beginning of the run.
    pub at: Span,
    /// When what it is about happened; the story around it is worth reading.
    pub about: Span,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.checker, self.at, self.what)
    }
}

/// The names of all checkers, with what each of them states.
pub const CHECKERS: &[(&str, &str)] = &[
    (losses::NAME, losses::STATEMENT),
    (edf::NAME, edf::STATEMENT),
    (duplicates::NAME, duplicates::STATEMENT),
    (reigns::NAME, reigns::STATEMENT),
    (epochs::NAME, epochs::STATEMENT),
    (strangers::NAME, strangers::STATEMENT),
    (copies::NAME, copies::STATEMENT),
    (admission::NAME, admission::STATEMENT),
    (deadlines::NAME, deadlines::STATEMENT),
    (departures::NAME, departures::STATEMENT),
    (told::NAME, told::STATEMENT),
    (failover::NAME, failover::STATEMENT),
    (handover::NAME, handover::STATEMENT),
    (lateness::NAME, lateness::STATEMENT),
    (lazy::NAME, lazy::STATEMENT),
    (accounts::NAME, accounts::STATEMENT),
    (limits::NAME, limits::STATEMENT),
    (operators::NAME, operators::STATEMENT),
    (memories::NAME, memories::STATEMENT),
    (contents::NAME, contents::STATEMENT),
    (progress::NAME, progress::STATEMENT),
    (clocks::NAME, clocks::STATEMENT),
    (devices::ACKNOWLEDGED, devices::ACKNOWLEDGED_STATEMENT),
    (devices::ONCE, devices::ONCE_STATEMENT),
    (devices::RETAINED, devices::RETAINED_STATEMENT),
    (devices::WILLS, devices::WILLS_STATEMENT),
];

/// Whether a property is looked at in such runs: beyond the assumptions, losses, handovers and lazy copies are not.
pub fn is_demanded(checker: &str, assumed: bool) -> bool {
    assumed || ![losses::NAME, handover::NAME, lazy::NAME, memories::NAME, strangers::NAME].contains(&checker)
}

/// What happened in runs, and how often each property was looked at: an empty check is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// By the place in [`CHECKERS`]: how often it was looked whether the property holds.
    pub checks: [u64; CHECKERS.len()],
    /// Brokers that died.
    pub deaths: u64,
    /// Brokers that came to reign, the first time included.
    pub promotions: u64,
    /// Those of them that were handed the reign.
    pub handovers: u64,
    /// Connections or ways that were cut.
    pub cuts: u64,
    /// Clocks that were set.
    pub clock_steps: u64,
    /// Streams and subscriptions that were refused.
    pub refusals: u64,
    /// Subscriptions that were served as best effort instead of being refused.
    pub best_effort: u64,
    /// Messages that publishers handed over.
    pub accepted: u64,
    /// Messages that had to be copied, by their contracts.
    pub needed_copies: u64,
    /// Copies that were sent to a backup.
    pub copies: u64,
    /// Copies that a new primary had when it came to reign.
    pub copies_taken_over: u64,
    /// Messages that came to subscribers.
    pub delivered: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.checks.iter_mut().zip(other.checks).for_each(|(all, some)| *all += some);
        let Counts {
            deaths, promotions, handovers, cuts, clock_steps, refusals, best_effort, accepted, ..
        } = other;
        let Counts { needed_copies, copies, copies_taken_over, delivered, .. } = other;
        for (all, some) in [
            (&mut self.deaths, deaths),
            (&mut self.promotions, promotions),
            (&mut self.handovers, handovers),
            (&mut self.cuts, cuts),
            (&mut self.clock_steps, clock_steps),
            (&mut self.refusals, refusals),
            (&mut self.best_effort, best_effort),
            (&mut self.accepted, accepted),
            (&mut self.needed_copies, needed_copies),
            (&mut self.copies, copies),
            (&mut self.copies_taken_over, copies_taken_over),
            (&mut self.delivered, delivered),
        ] {
            *all += some;
        }
    }

    /// What happened, for people.
    pub fn rows(&self) -> [(&'static str, u64); 12] {
        [
            ("messages handed over", self.accepted),
            ("messages that came", self.delivered),
            ("messages that needed a copy", self.needed_copies),
            ("copies", self.copies),
            ("copies that a new primary took over", self.copies_taken_over),
            ("deaths of brokers", self.deaths),
            ("reigns that began", self.promotions),
            ("reigns that were handed over", self.handovers),
            ("connections and ways that were cut", self.cuts),
            ("clocks that were set", self.clock_steps),
            ("refusals", self.refusals),
            ("subscriptions served as best effort instead", self.best_effort),
        ]
    }

    fn looked(&mut self, checker: &str) {
        self.looked_many(checker, 1);
    }

    fn looked_many(&mut self, checker: &str, times: u64) {
        let checks = CHECKERS.iter().zip(&mut self.checks).find(|((name, _), _)| *name == checker);
        checks.into_iter().for_each(|(_, checks)| *checks += times);
    }
}

/// Hears everything.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) ledger: Ledger,
    violation: Option<Violation>,
    counts: Counts,
    /// The lives of the brokers so far.
    lives: [Life; 2],
    /// In which of them each backup had been told everything.
    told_all: [Option<Life>; 2],
    /// The connections on which the brokers last stood by.
    followed: [Option<(u32, u32)>; 2],
    /// Everything is whole, and has been since.
    calm_since: Option<Time>,
    assumed: bool,
    losses: losses::Losses,
    edf: edf::Edf,
    reigns: reigns::Reigns,
    epochs: epochs::Epochs,
    copies: copies::Copies,
    admission: admission::Admission,
    deadlines: deadlines::Deadlines,
    departures: departures::Departures,
    failover: Failover,
    handover: handover::Handover,
    lazy: lazy::Copies,
    limits: limits::Limits,
    operators: operators::Operators,
    memories: memories::Memories,
    served: served::Served,
    progress: progress::Progress,
    pub(crate) devices: devices::Devices,
    /// Latencies as they came, for a picture; `None` unless asked for.
    pub(crate) samples: Option<Vec<Sample>>,
    /// When brokers began to reign, and when they died.
    promotions: Vec<Time>,
    deaths: Vec<Time>,
}

impl Watch {
    pub(crate) fn new(scenario: &Scenario) -> Watch {
        Watch {
            ledger: Ledger::new(scenario),
            violation: None,
            counts: Counts::default(),
            lives: [Life::default(); 2],
            told_all: [None; 2],
            followed: [None; 2],
            calm_since: None,
            assumed: scenario.assumed,
            losses: losses::Losses::new(scenario),
            edf: edf::Edf::new(scenario),
            reigns: reigns::Reigns::new(scenario.assumed),
            epochs: epochs::Epochs::default(),
            copies: copies::Copies::new(scenario),
            admission: admission::Admission::new(scenario),
            deadlines: deadlines::Deadlines::new(scenario),
            departures: departures::Departures::new(scenario),
            failover: Failover::new(scenario),
            handover: handover::Handover::default(),
            lazy: lazy::Copies::new(scenario),
            limits: limits::Limits::new(scenario),
            operators: operators::Operators::new(scenario),
            memories: memories::Memories::new(scenario),
            served: served::Served::new(scenario),
            progress: progress::Progress::new(scenario),
            devices: devices::Devices::new(scenario),
            samples: None,
            promotions: Vec::new(),
            deaths: Vec::new(),
        }
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn verdict(&mut self, now: Time, checker: &'static str, result: Result<(), String>) {
        self.verdict_about(now, checker, result.map_err(|what| (now, what)));
    }

    /// The same for something that is noticed later than it happened.
    fn verdict_about(&mut self, now: Time, checker: &'static str, result: Result<(), (Time, String)>) {
        self.counts.looked(checker);
        if let Err((about, what)) = result {
            self.break_off(now, checker, about, what);
        }
    }

    fn break_off(&mut self, now: Time, checker: &'static str, about: Time, what: String) {
        if self.violation.is_none() {
            let (at, about) = (now.since(START), about.since(START));
            self.violation = Some(Violation { checker, at, about, what });
        }
    }

    // Clients.

    pub(crate) fn stream_begins(&mut self, host: usize, number: u32, topic: &TopicSpec) -> u32 {
        self.ledger.begin_stream(host, number, topic)
    }

    pub(crate) fn judged(&mut self, now: Time, stream: u32, admitted: bool) {
        self.counts.refusals += u64::from(!admitted);
        self.ledger.judge(stream, admitted);
        if let Some(stream) = self.ledger.stream_mut(stream).filter(|_| !admitted) {
            self.losses.refuses(stream);
        }
        let result = self.admission.judged(&self.ledger, stream, admitted);
        self.verdict(now, admission::NAME, result);
    }

    /// A subscription has been admitted or not; `instead`: it is served as best effort, which was not asked for.
    pub(crate) fn subscribed(
        &mut self,
        now: Time,
        host: usize,
        subscription: u32,
        admitted: bool,
        instead: bool,
    ) {
        self.counts.refusals += u64::from(!admitted && !instead);
        self.counts.best_effort += u64::from(instead);
        self.ledger.answer(now, host, subscription, admitted);
        let result = self.admission.subscribed(&self.ledger, host, admitted && !instead);
        self.verdict(now, admission::NAME, result);
    }

    pub(crate) fn accepted(&mut self, now: Time, stream: u32, seq: u64, stamped: Time) {
        self.counts.accepted += 1;
        // Copies are needed where a message may be dispatched later than they have to be there (F5).
        let needs = |stream: &ledger::Stream| {
            stream.deadlines.is_some_and(|terms| terms.dispatch > terms.replication)
        };
        self.counts.needed_copies += u64::from(self.ledger.stream(stream).is_some_and(needs));
        let result = admission::accepted(&self.ledger, stream);
        self.verdict(now, admission::NAME, result);
        self.ledger.accept(stream, seq, now, stamped);
    }

    pub(crate) fn delivered(&mut self, now: Time, local: Time, host: usize, got: &Got, topic: Option<&str>) {
        let Some(index) = self.ledger.subscriber_of(host) else { return };
        let result = contents::delivered(&self.ledger, index, got, topic);
        let is_known = result.is_ok();
        self.verdict(now, contents::NAME, result);
        if !is_known {
            return;
        }
        self.memories.delivered(&self.ledger, now, index, got);
        let Some(stream) = self.ledger.stream_mut(got.stream) else { return };
        // Results of messages from the future do not have their times.
        let in_step = self.assumed || stream.origin.is_none();
        let result = if in_step { lateness::delivered(stream, local, got) } else { Ok(()) };
        let accepted = stream.message(got.seq).map_or(now, |message| message.accepted);
        let latency = now.since(accepted);
        // A subscriber counts from when it notices the gap, which may be as late as the next message.
        let given_up = self.ledger.delays.failover + SETTLING;
        let given_up = |stream: &ledger::Stream| stream.contract.deadline + given_up;
        let given_up = self.ledger.stream(got.stream).map_or(Span::FOREVER, given_up);
        let overdue = self.ledger.subscribers[index].may_have_given_up(now, accepted, given_up);
        let Some(stream) = self.ledger.stream_mut(got.stream) else { return };
        let (calm, deadline) =
            (self.calm_since.is_some_and(|since| accepted >= since), stream.contract.deadline);
        let duplicate = stream.receipts[index].as_mut().is_some_and(|receipt| {
            let journeys = if calm { &mut receipt.calm } else { &mut receipt.disturbed };
            journeys.add(latency, deadline);
            receipt.called_late += u64::from(got.late);
            receipt.overdue += u64::from(overdue);
            receipt.take(got.seq)
        });
        self.verdict(now, lateness::NAME, result);
        self.counts.looked(duplicates::NAME);
        if let Some(calm) = self.calm_since
            && let Some(stream) = self.ledger.stream(got.stream)
            && self.ledger.subscribers[index].is_served(&stream.topic)
        {
            let result = self.deadlines.delivered(got.stream, stream, index, calm, latency, got.seq);
            self.verdict(now, deadlines::NAME, result);
        }
        if duplicate {
            let result = duplicates::again(&self.ledger, index, got);
            self.verdict(now, duplicates::NAME, result);
        }
        if let Some(samples) = &mut self.samples {
            samples.push(Sample {
                at: accepted.since(START),
                latency,
                stream: got.stream,
                subscriber: index,
            });
        }
    }

    /// A client follows another primary, or none. `next`: the numbers that come next in its streams.
    pub(crate) fn follows(
        &mut self,
        now: Time,
        host: usize,
        reign: Option<Reign>,
        relayed: bool,
        next: &[(u32, u64)],
    ) {
        let result = self.epochs.follows(now, host, reign);
        self.verdict(now, epochs::NAME, result);
        self.judge_strangers(now, host, None);
        let publishes = !next.is_empty();
        let result = self.failover.follows(now, host, reign, publishes);
        self.verdict(now, failover::NAME, result);
        if reign.is_some() {
            self.losses.follows(host, relayed, next, &mut self.ledger);
        }
    }

    /// A client's application was told that a broker is of another pair.
    pub(crate) fn calls_stranger(&mut self, now: Time, host: usize, broker: u8) {
        self.judge_strangers(now, host, Some(broker));
    }

    fn judge_strangers(&mut self, now: Time, host: usize, called: Option<u8>) {
        // Beyond that, brokers with places for two connections may be kept apart by their clients, for example.
        if self.assumed {
            self.verdict(now, strangers::NAME, strangers::agrees(host, called));
        }
    }

    /// A device's application was told something.
    pub(crate) fn device_heard(&mut self, now: Time, device: usize, word: &Word) {
        let result = self.devices.heard(now, device, word, &self.ledger);
        devices::looked_at(word).iter().for_each(|checker| self.counts.looked(checker));
        self.device_verdict(now, result);
    }

    /// A native subscriber was handed a message of a device.
    pub(crate) fn crossed(&mut self, now: Time, host: usize, got: &Got) {
        let name = self.ledger.subscriber_of(host).map_or("?", |index| &self.ledger.subscribers[index].name);
        let result = self.devices.crossed(now, name, got.stream, got.seq, got.intact);
        self.counts.looked(devices::ONCE);
        self.device_verdict(now, result);
    }

    fn device_verdict(&mut self, now: Time, result: devices::Verdict) {
        if let Err((checker, about, what)) = result {
            self.break_off(now, checker, about, what);
        }
    }

    // Brokers.

    pub(crate) fn broker_starts(&mut self, host: usize) {
        self.devices.broker_starts(host);
        self.departures.begins_anew(host);
        self.lives[host] = Life { process: self.lives[host].process + 1, tenure: 0 };
        self.followed[host] = None;
        self.reigns.starts(host);
        self.operators.begins_anew(host);
        self.copies.dies(host);
    }

    /// A process is gone, broker or client.
    /// `reigned`: as a broker. `greetings`: the connection that it had as a device.
    pub(crate) fn dies(&mut self, now: Time, host: usize, reigned: bool, greetings: Option<u64>) {
        if host < 2 {
            self.devices.broker_dies(now, host, reigned);
            self.deaths.push(now);
            self.losses.fails(now);
            self.copies.dies(host);
            self.failover.dies(now, host);
        } else if let Some(device) = self.devices.device_of(host) {
            self.devices.dies(now, device, greetings);
        } else {
            self.ledger.client_dies(now, host);
            self.epochs.dies(host);
        }
        self.disturbed(now);
    }

    /// A message or mark has reached a broker. `followed`: the connection, if the broker stands by on it.
    pub(crate) fn arrived(
        &mut self,
        local: Time,
        came: Time,
        host: usize,
        followed: Option<(u32, u32)>,
        note: &Note,
    ) {
        let follows = followed.is_some();
        if follows && self.followed[host] != followed {
            self.followed[host] = followed;
            self.lives[host].tenure += 1;
        }
        let life = self.lives[host];
        let Some(stream) = self.ledger.streams.get_mut(note.stream as usize) else { return };
        match note.what {
            Written::Message { kind: MessageKind::Publish, resent, .. } => {
                // How long it waits at its host is the broker's to answer for.
                self.deadlines.arrived(note.stream, stream, came, note.seq, resent);
                let ahead = stream.message(note.seq).is_some_and(|message| message.stamped > local);
                let flags = if ahead { ledger::ARRIVED | ledger::AHEAD } else { ledger::ARRIVED };
                stream.trace(host, life, note.seq, flags);
            }
            Written::Message { kind: MessageKind::Forward, .. } if follows => {
                stream.copied(host, life, note.seq);
            }
            Written::Message { kind: MessageKind::Forward, .. } => {
                stream.trace(host, life, note.seq, ledger::ARRIVED);
            }
            Written::Message { kind: MessageKind::Replicate, .. } if follows => {
                stream.copied(host, life, note.seq);
            }
            Written::Mark { kind: MarkKind::Prune } if follows => {
                stream.pruned(host, life, note.seq, self.told_all[host] == Some(life));
            }
            _ => {}
        }
    }

    /// A node has written a message or mark for another.
    pub(crate) fn wrote(&mut self, now: Time, local: Time, host: usize, peer: usize, note: &Note) {
        if host >= 2 {
            if let Written::Message { kind: MessageKind::Publish, .. } = note.what {
                if let Some(stream) = self.ledger.stream_mut(note.stream) {
                    stream.sends(peer, note.seq);
                }
                let result = self.epochs.publishes(now, host, peer, &self.reigns);
                self.verdict(now, epochs::NAME, result);
            }
            return;
        }
        let Written::Message { kind, .. } = note.what else { return };
        let life = self.lives[host];
        let Some(stream) = self.ledger.streams.get_mut(note.stream as usize) else { return };
        match kind {
            MessageKind::Deliver => {
                let edf = self.edf.runs(stream, host, life, note, edf::Kind::Dispatch, local);
                if self.edf.is_running(host) && !note.is_resent() {
                    self.departures.dispatched(host, note.stream, note.seq);
                }
                let copies = if self.edf.is_running(host) {
                    copies::dispatches(stream, host, life, note.seq)
                } else {
                    Ok(())
                };
                stream.trace(host, life, note.seq, ledger::DISPATCHED);
                self.verdict(now, edf::NAME, edf);
                self.verdict(now, copies::NAME, copies);
            }
            MessageKind::Replicate => {
                stream.copies += 1;
                self.counts.copies += 1;
                stream.trace(host, life, note.seq, ledger::COPIED);
                let calm = self.calm_since;
                let lazy =
                    calm.map_or(Ok(()), |calm| self.lazy.wrote(stream, host, life, calm, local, note.seq));
                let result = self.edf.runs(stream, host, life, note, edf::Kind::Copy, local);
                self.verdict(now, edf::NAME, result);
                self.verdict(now, lazy::NAME, lazy);
            }
            _ => {}
        }
    }

    /// A message has left a broker.
    pub(crate) fn left(&mut self, now: Time, local: Time, host: usize, note: &Note) {
        let Written::Message { kind, stamped, .. } = note.what else { return };
        if let Some(stream) = self.ledger.streams.get(note.stream as usize)
            && kind == MessageKind::Deliver
        {
            self.departures.left(host, note.stream, stream, stamped, local, note.seq);
        }
        let Some(calm) = self.calm_since else { return };
        if let Some(stream) = self.ledger.streams.get(note.stream as usize) {
            let result = self.deadlines.left(note.stream, stream, kind, calm, local, note.seq);
            self.verdict(now, deadlines::NAME, result);
        }
    }

    /// A broker has been told that everything it wrote has left.
    pub(crate) fn turn_ends(&mut self, host: usize) {
        self.departures.turn_ends(host);
    }

    pub(crate) fn portion_begins(&mut self, host: usize) {
        self.edf.portion_begins(host);
    }

    pub(crate) fn portion_ends(&mut self, host: usize) {
        self.edf.portion_ends(host);
    }

    /// A broker has these graphs from now on.
    pub(crate) fn loads(&mut self, now: Time, host: usize, plan: usize) {
        self.operators.loads(host, plan);
        self.served.loads(now, host, plan);
    }

    /// Operators of a broker were seen at work.
    pub(crate) fn operators(&mut self, now: Time, host: usize, local: Time, seen: &Seen) {
        let result = self.operators.sees(&self.ledger, host, local, seen);
        self.verdict(now, operators::NAME, result);
    }

    /// A subscriber was handed a joined result.
    pub(crate) fn joined(&mut self, now: Time, joined: &Joined) {
        let result = contents::joined(&self.ledger, joined, self.assumed);
        self.verdict(now, contents::NAME, result);
    }

    /// A broker has told its operator something.
    pub(crate) fn told(&mut self, now: Time, host: usize, told: &Told) {
        match told {
            Told::Promoted { reign, cause, .. } => {
                self.promotions.push(now);
                self.counts.handovers += u64::from(*cause == PromotionCause::Handover);
                self.losses.promoted(now, *cause);
                self.devices.promoted(now, host, *cause == PromotionCause::Handover);
                self.served.promoted(now, host);
                let result = self.reigns.promoted(host, *reign);
                self.verdict(now, reigns::NAME, result);
                self.counts.copies_taken_over +=
                    self.copies.promoted(&self.ledger, host, self.lives[host]) as u64;
                self.failover.promoted(host);
                self.disturbed(now);
            }
            Told::SteppedDown { reign } | Told::Joined { reign } => {
                if matches!(told, Told::Joined { .. }) {
                    self.told_all[host] = Some(self.lives[host]);
                }
                self.devices.follows(now, host);
                let result = self.reigns.hears(host, *reign);
                self.verdict(now, reigns::NAME, result);
                self.copies.dies(host);
            }
            Told::BudgetShort => self.deadlines.budget_is_short(),
            Told::HandedOver { .. } => {
                self.devices.hands_over(now, host);
                self.copies.dies(host);
            }
            // A late consequence of an earlier fault may make it join anew.
            Told::Protected | Told::Unprotected(_) => {
                self.devices.protected(host, *told == Told::Protected);
                self.calm_since = self.calm_since.map(|_| now);
            }
            _ => {}
        }
    }

    /// The simulator looks at a broker.
    pub(crate) fn looks_at(&mut self, now: Time, host: usize, broker: &broker::Broker, port: &Port) {
        let result = self.departures.looks_at(&self.ledger, host, broker);
        self.verdict(now, departures::NAME, result);
        let result = self.limits.looks_at(broker, port);
        self.verdict(now, limits::NAME, result);
        let result = self.copies.looks_at(&self.ledger, host, self.lives[host], broker);
        self.verdict(now, copies::NAME, result);
        let result = self.reigns.hears(host, broker.reign());
        self.verdict(now, reigns::NAME, result);
    }

    // The world.

    /// What was on its way to a host is lost through no fault of the product: with a connection that was cut, or with the
    /// sender's kernel.
    pub(crate) fn lost_on_the_way(&mut self, receiver: usize, note: &Note) {
        let Written::Message { kind, .. } = note.what else { return };
        if kind == MessageKind::Publish {
            self.losses.sends_in_vain(&self.ledger, note.stream, note.seq);
        }
        if kind != MessageKind::Deliver {
            return;
        }
        let Some(index) = self.ledger.subscriber_of(receiver) else { return };
        if let Some(stream) = self.ledger.stream_mut(note.stream)
            && !stream.contract.confirm
            && let Some(receipt) = &mut stream.receipts[index]
        {
            receipt.excused.insert(note.seq);
        }
    }

    /// A node's clock is set.
    pub(crate) fn sets_clock(&mut self, now: Time, host: usize) {
        if let Some(index) = self.ledger.subscriber_of(host) {
            self.ledger.subscribers[index].sets_clock(now);
        }
    }

    /// A fault of the scenario happens.
    pub(crate) fn fault_begins(
        &mut self,
        now: Time,
        act: &Act,
        whole: bool,
        primary: usize,
        strike: &Strike,
    ) {
        self.disturbed(now);
        self.counts.cuts += u64::from(matches!(act, Act::Break { .. } | Act::Partition { .. }));
        self.counts.clock_steps += u64::from(matches!(act, Act::ClockStep { .. }));
        if matches!(act, Act::Graphs { .. } | Act::Priorities { .. }) || self.is_about_devices(act) {
            // It takes nothing away from what is promised but what `served` says.
            return;
        }
        if matches!(act, Act::ClockStep { .. }) {
            // Deadlines are counted by clocks that agree, and nothing makes them agree again.
            self.deadlines.clocks_part();
        }
        self.losses.fault_begins(now, act, whole, primary, strike);
        self.handover.fault_begins(now, act, whole);
        self.failover.fault_begins(now, act, whole, primary);
    }

    /// The backup has told that it may notice the primary's death later than contracts count with.
    pub(crate) fn nothing_is_promised_of_detection(&mut self, now: Time) {
        self.failover.whole();
        self.losses.is_outside(now);
    }

    fn is_about_devices(&self, act: &Act) -> bool {
        let is_device = |target: &Target| matches!(target, Target::Device(_));
        match act {
            Act::Crash { target, .. }
            | Act::HostCrash { target, .. }
            | Act::Pause { target, .. }
            | Act::ClockStep { target, .. }
            | Act::Slow { target, .. } => is_device(target),
            Act::Break { from, to, .. } => is_device(from) || is_device(to),
            Act::Partition { from, to, .. } => from.iter().chain(to).any(is_device),
            Act::Handover | Act::Graphs { .. } | Act::Priorities { .. } => false,
        }
    }

    pub(crate) fn whole(&mut self, now: Time) {
        self.calm_since = Some(now);
        self.losses.whole(now);
        self.handover.whole(now);
        self.failover.whole();
    }

    pub(crate) fn disturbed(&mut self, _now: Time) {
        self.calm_since = None;
    }

    pub(crate) fn begins_to_flow(&mut self, now: Time) {
        self.progress.begins_to_flow(now);
    }

    /// Every publisher sends each of its topics once more.
    pub(crate) fn asks_for_proof(&mut self, now: Time) {
        self.progress.asks_for_proof(now);
    }

    pub(crate) fn stops_publishing(&mut self, now: Time) {
        self.progress.stops_publishing(now);
    }

    pub(crate) fn never_recovered(&mut self, now: Time, when: &str) {
        self.verdict(now, progress::NAME, self.progress.never_recovered(&self.ledger, when));
    }

    pub(crate) fn never_drained(&mut self, now: Time, left: &Left, most: &str) {
        self.verdict(now, progress::NAME, self.progress.never_drained(left, most));
    }

    pub(crate) fn no_progress(&mut self, now: Time, steps: u64, latest: &str) {
        self.verdict(now, progress::NAME, progress::no_progress(steps, latest));
    }

    /// The run is over, and this is what a subscriber says of a stream. `publisher`: the host that published it.
    pub(crate) fn accounts_for(
        &mut self,
        now: Time,
        host: usize,
        publisher: usize,
        account: &StreamAccount<'_>,
    ) {
        let Some(index) = self.ledger.subscriber_of(host) else { return };
        let result = accounts::agrees(&self.ledger, &self.served, index, publisher, account);
        self.verdict(now, accounts::NAME, result);
    }

    /// The run is over. `untold`: since when a client has something to tell the primary.
    pub(crate) fn has_told(&mut self, now: Time, client: &str, local: Time, untold: Option<Time>) {
        let result = told::agrees(client, local, untold);
        self.verdict(now, told::NAME, result);
    }

    /// The run is over, and this is what a client says of its clock. The truth comes with it.
    pub(crate) fn knows_clock(
        &mut self,
        now: Time,
        client: &str,
        known: ClockDifference,
        ahead: Span,
        drift_ppb: i64,
    ) {
        let set = self.counts.clock_steps > 0;
        let result = clocks::known(client, known, ahead, drift_ppb, set);
        self.verdict(now, clocks::NAME, result);
    }

    /// The run is over: what is still missing is lost.
    pub(crate) fn ends(&mut self, now: Time) {
        let result = self.progress.ends(&self.ledger, &self.served);
        self.verdict_about(now, progress::NAME, result);
        let result = self.devices.ends();
        self.counts.looked_many(devices::ACKNOWLEDGED, self.devices.answered());
        self.counts.looked_many(devices::WILLS, self.devices.wills());
        self.device_verdict(now, result);
        self.counts.looked_many(memories::NAME, self.memories.seen());
        if let Err((about, what)) = self.memories.ends(&self.ledger, &self.served) {
            self.break_off(now, memories::NAME, about, what);
        }
        if self.assumed {
            let result = self.handover.ends(&self.ledger, &self.served);
            self.verdict_about(now, handover::NAME, result);
            let result = self.losses.ends(&self.ledger, &self.served);
            self.verdict_about(now, losses::NAME, result);
        }
    }

    pub(crate) fn findings(&mut self, lasted: Span) -> Findings {
        self.counts.deaths = self.deaths.len() as u64;
        self.counts.promotions = self.promotions.len() as u64;
        let moments = [self.promotions.as_slice(), &self.deaths];
        Findings::of(&self.ledger, &self.failover, moments, self.samples.take(), lasted, self.counts)
    }
}
