//! The longest run of losses of a stream never exceeds the `L` of its contract, and without a failure nothing is lost.
//!
//! Source: FRAME, lemma 1 (F1), with its fault model (§3.3.2): one broker fails at a time, and the redundancy is
//! restored before the next does. Beyond what FRAME promises, this is demanded of pauses and of a cut between the
//! brokers as well, and of the death of a broker that has just handed over.
//!
//! A failure is the death of a broker, or a promotion by suspicion. It may cost a run of `L`; a run in whose time there was
//! none must be empty, and two failures between two messages of a slow topic may cost one each, in one run.
//!
//! A result that stands for a message is held to the same, and what excuses the message excuses it.
//!
//! What is not held against anybody, message by message where that can be told:
//! - what was on its way to a subscriber when a fault cut its connection, when the sender's host died, or when the kernel of
//!   a dead process discarded it. A confirmed topic is not excused;
//! - the same on a connection that a client gives up because its broker stood still for as long as it is patient;
//! - what a subscriber missed while a fault had cut it off, as far as newer messages have taken its place in the ring;
//! - what a publisher sent while a fault had cut it off and no longer retains;
//! - what was under way around a fault outside of the model;
//! - what a client that is cut off from the primary alone misses or sends before it has found its way through the backup;
//! - what a death costs of which the backup had told that it would notice it later than contracts count with;
//! - results that no broker's graphs promised while they changed ([`super::served`]);
//! - where a new primary dies before it has a backup, what its predecessor, who handed over and lives, was never sent, or does not admit
//!   and says so: it carries other connections, and had not been told of what the other one promised.

use super::served::Served;
use crate::ledger::{Ledger, Stream};
use crate::scenario::{Act, Scenario, Target};
use broker::PromotionCause;
use contract::{Span, Time};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "losses";
pub(super) const STATEMENT: &str = "no subscriber misses more than L messages of a stream in a row";

/// Messages for which nothing is promised: those published in this time.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Time,
    to: Option<Time>,
    /// Also those that may still have been on their way when it began.
    and_before: bool,
    /// Those that were sent to this broker are covered all the same.
    spared: Option<usize>,
}

#[derive(Clone)]
pub(super) struct Losses {
    failover: Span,
    /// When a broker failed, or was given up.
    failures: Vec<Time>,
    beyond: Vec<Window>,
    /// Clients whose connection to the primary was cut, and since when.
    cut: BTreeMap<usize, Time>,
    /// Until when those of them have to have found a way that can find one: the pair is whole.
    way_by: BTreeMap<usize, Time>,
    /// What such publishers sent in vain: stream and number.
    sent_in_vain: Vec<(u32, u64)>,
    /// The latest handover while everything was whole, and who reigned until then.
    handover: Option<(Time, usize)>,
}

/// A client that reaches the backup only gives its connection to the primary up after a second of silence, waits for a failover, and
/// is let through.
const FINDS_WAY_WITHIN: Span = Span::secs(2);
/// Around a fault outside of the model, messages may have been on their way for so long beyond their deadline.
const SLACK: Span = Span::secs(1);

impl Losses {
    pub(super) fn new(scenario: &Scenario) -> Losses {
        Losses {
            failover: scenario.delays.failover,
            failures: Vec::new(),
            beyond: Vec::new(),
            cut: BTreeMap::new(),
            way_by: BTreeMap::new(),
            sent_in_vain: Vec::new(),
            handover: None,
        }
    }

    /// `victim`: the host that the act takes away, if it does. `clients`: those that it cuts off from the primary.
    pub(super) fn fault_begins(
        &mut self,
        now: Time,
        act: &Act,
        whole: bool,
        primary: usize,
        strike: &Strike,
    ) {
        let handover = self.handover.take().filter(|_| !whole);
        if whole && is_assumed(act) {
            strike.cut_off.iter().for_each(|client| {
                self.cut.insert(*client, now);
                if matches!(act, Act::Partition { .. }) {
                    self.way_by.insert(*client, now + FINDS_WAY_WITHIN);
                }
            });
            self.handover = (*act == Act::Handover).then_some((now, primary));
            return;
        }
        match handover.zip(strike.victim) {
            // It no longer reigns; what it has not forwarded yet, its publishers retain.
            Some(((_, deposed), victim)) if victim == deposed => {}
            // It reigns, and has no backup yet.
            Some(((since, deposed), _)) if is_assumed(act) => {
                self.beyond.push(Window { from: since, to: None, and_before: false, spared: Some(deposed) });
            }
            _ => self.is_outside(now),
        }
    }

    /// What happens now is outside of the model, and what follows until all is whole again.
    pub(super) fn is_outside(&mut self, now: Time) {
        if self.beyond.last().is_none_or(|window| window.to.is_some()) {
            self.beyond.push(Window { from: now - SLACK, to: None, and_before: true, spared: None });
        }
    }

    pub(super) fn promoted(&mut self, now: Time, cause: PromotionCause) {
        use PromotionCause::{Alone, Disconnected, Restarted, Silent, TakenBack};
        if matches!(cause, Alone | Disconnected | Restarted | Silent | TakenBack) {
            self.fails(now);
        }
    }

    /// A broker has failed. Its death and the promotion that follows are one failure.
    pub(super) fn fails(&mut self, now: Time) {
        if self.failures.last().is_none_or(|last| now > *last + self.failover) {
            self.failures.push(now);
        }
    }

    pub(super) fn whole(&mut self, now: Time) {
        if let Some(window) = self.beyond.last_mut() {
            window.to.get_or_insert(if window.and_before { now + SLACK } else { now });
        }
        self.cut.clear();
        self.way_by.clear();
        self.sent_in_vain.clear();
        self.handover = None;
    }

    /// A message of a publisher has been lost with its connection.
    pub(super) fn sends_in_vain(&mut self, ledger: &Ledger, stream: u32, seq: u64) {
        if ledger.stream(stream).is_some_and(|stream| self.cut.contains_key(&stream.host)) {
            self.sent_in_vain.push((stream, seq));
        }
    }

    /// A client has a primary again. What a publisher retains is sent again; what it no longer does is gone, by contract.
    /// What a subscriber missed is sent, as far as the broker still has it. `next`: the numbers that come next in a
    /// publisher's streams.
    pub(super) fn follows(&mut self, host: usize, relayed: bool, next: &[(u32, u64)], ledger: &mut Ledger) {
        // Older news may still reach it before it notices, so it counts as cut off until everything is whole. Not so one that passes
        // through the backup: from now on nothing of it may be lost.
        let since = if relayed { self.cut.remove(&host) } else { self.cut.get(&host).copied() };
        let Some(since) = since else { return };
        let until = self.way_by.get(&host).copied().unwrap_or(Time::NEVER);
        let on_the_way = ledger.delays.publisher_to_broker;
        for (number, next) in next {
            let Some(stream) = ledger.stream_mut(*number) else { continue };
            // What was on its way to the primary when its way was cut dies with the connection, which is given up.
            let begin = since - on_the_way;
            let from = stream.messages.partition_point(|message| message.accepted < begin) as u64;
            let end = stream.messages.partition_point(|message| message.accepted < until) as u64;
            let to = next.saturating_sub(u64::from(stream.contract.retain)).min(end);
            let lost = self.sent_in_vain.iter().filter(|(of, seq)| of == number && *seq < to);
            stream.excused.extend(lost.map(|(_, seq)| *seq));
            stream.excused.extend(from..to.max(from));
        }
        let Some(index) = ledger.subscriber_of(host) else { return };
        for stream in &mut ledger.streams {
            let next = stream.messages.partition_point(|message| message.accepted < until) as u64;
            let kept = if until == Time::NEVER { stream.kept } else { 0 };
            let begin = since - stream.contract.deadline;
            let from = stream.messages.partition_point(|message| message.accepted < begin) as u64;
            if let Some(receipt) = &mut stream.receipts[index] {
                receipt.excused.extend(from..next.saturating_sub(kept).max(from));
            }
        }
    }

    /// A publisher is told that a stream is not admitted, after it may have been by a primary that died alone.
    pub(super) fn refuses(&self, stream: &mut Stream) {
        let Some(window) = self.beyond.last().filter(|window| window.spared.is_some()) else { return };
        let until = window.to.unwrap_or(Time::NEVER);
        let from = stream.messages.partition_point(|message| message.accepted < window.from) as u64;
        let to = stream.messages.partition_point(|message| message.accepted <= until) as u64;
        stream.excused.extend(from..to);
    }

    /// Whether something was accepted at a time for which nothing is promised.
    fn is_beyond(&self, stream: &Stream, seq: u64, accepted: Time) -> bool {
        let sent_to =
            |broker: usize| stream.message(seq).is_some_and(|message| message.sent >> broker & 1 == 1);
        self.beyond.iter().filter(|window| !window.spared.is_some_and(sent_to)).any(|window| {
            let before = if window.and_before { stream.contract.deadline } else { Span::ZERO };
            accepted + before >= window.from && window.to.is_none_or(|to| accepted <= to)
        })
    }

    /// The longest run of messages that a subscriber misses although they were covered. Those that nothing covers do not
    /// count, nor end it.
    fn longest_covered_run(
        &self,
        ledger: &Ledger,
        served: &Served,
        stream: &Stream,
        subscriber: usize,
    ) -> Run {
        let origin = ledger.origin_of(stream);
        let excused = |seq: u64, accepted: Time| {
            let receipt = &stream.receipts[subscriber];
            receipt.as_ref().is_some_and(|receipt| receipt.excused.contains(&seq))
                || stream.excused.contains(&seq)
                || origin.excused.contains(&seq)
                || self.is_beyond(origin, seq, accepted)
                || !served.is_promised(ledger, stream, seq)
        };
        longest_run(stream, subscriber, excused)
    }

    pub(super) fn ends(&self, ledger: &Ledger, served: &Served) -> Result<(), (Time, String)> {
        for stream in ledger.streams.iter().filter(|stream| !stream.refused) {
            for (index, subscriber) in ledger.subscribers.iter().enumerate() {
                let run = self.longest_covered_run(ledger, served, stream, index);
                if run.length == 0 {
                    continue;
                }
                let time = |seq: u64| stream.message(seq).map_or(Time::ZERO, |message| message.accepted);
                let (at, last) = (time(run.first), time(run.last));
                let (from, to) = (at - self.failover, last + stream.contract.deadline + self.failover);
                let near = self.failures.iter().filter(|failure| **failure >= from && **failure <= to);
                let failures = near.count() as u64;
                if failures == 0 || !stream.contract.loss.tolerates(run.length.div_ceil(failures)) {
                    return Err((
                        at,
                        format!(
                            "{} lost {} messages of {} in a row, from #{} on (published at {}), of at most {} for each of \
                             {failures} failures; contract {}",
                            subscriber.name,
                            run.length,
                            stream.topic,
                            run.first,
                            at.since(crate::world::START),
                            stream.contract.loss,
                            stream.contract
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Messages missed in a row.
#[derive(Clone, Copy, Default)]
struct Run {
    length: u64,
    first: u64,
    last: u64,
}

/// The longest run of missing messages, whether or not they were covered.
pub(crate) fn longest_run_at_all(stream: &Stream, subscriber: usize) -> u64 {
    longest_run(stream, subscriber, |_, _| false).length
}

/// The longest run of messages that a subscriber misses. Excused ones do not count, nor end it.
fn longest_run(stream: &Stream, subscriber: usize, excused: impl Fn(u64, Time) -> bool) -> Run {
    let mut longest = Run::default();
    let Some(receipt) = &stream.receipts[subscriber] else { return longest };
    for (from, to) in &receipt.wanted {
        let mut run = Run::default();
        for seq in *from..to.unwrap_or(stream.messages.len() as u64) {
            if receipt.has(seq) {
                run = Run::default();
                continue;
            }
            let accepted = stream.message(seq).map_or(Time::ZERO, |message| message.accepted);
            if excused(seq, accepted) {
                continue;
            }
            let first = if run.length == 0 { seq } else { run.first };
            run = Run { length: run.length + 1, first, last: seq };
            if run.length > longest.length {
                longest = run;
            }
        }
    }
    longest
}

/// What an act does to the hosts that it means at that moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strike {
    /// The host that it takes away.
    pub(crate) victim: Option<usize>,
    /// The clients that it cuts off from the primary.
    pub(crate) cut_off: Vec<usize>,
}

/// Whether one client is cut off from the primary alone.
fn is_half_reachable(from: &[Target], to: &[Target]) -> bool {
    matches!((from, to), ([Target::Publisher(_) | Target::Subscriber(_)], [Target::Primary]))
}

/// Whether the guarantees cover a fault that happens while everything is whole.
pub(super) fn is_assumed(act: &Act) -> bool {
    let broker = |target: &Target| matches!(target, Target::Primary | Target::Backup | Target::Broker(_));
    match act {
        Act::Crash { target, .. } | Act::HostCrash { target, .. } | Act::Pause { target, .. } => {
            broker(target)
        }
        Act::Partition { from, to, one_way: false, .. } if is_half_reachable(from, to) => true,
        Act::Partition { from, to, .. } => from.iter().chain(to).all(broker),
        // Whoever sets a clock takes nothing away, whosever it is.
        Act::Break { .. }
        | Act::Handover
        | Act::Graphs { .. }
        | Act::Priorities { .. }
        | Act::ClockStep { .. } => true,
        Act::Slow { .. } => false,
    }
}
