//! The longest run of losses of a stream never exceeds the `L` of its contract.
//!
//! Source: lemma 1 (F1) with the fault model of the analysis: one broker fails at a time, and the redundancy is
//! restored before the next does. Beyond what the source promises, this is demanded of pauses and of a cut between the
//! brokers as well.
//!
//! A failure may cost a run of `L`. Two failures between two messages of a slow topic may cost one each, in one run.
//!
//! What is not held against anybody: messages that were on their way to a subscriber when the sender's host died (a
//! confirmed topic is not excused), those that a subscriber missed while its own connection was broken, those older than
//! what a publisher retains when its connection was, and everything around a fault outside of the model.

use crate::ledger::{Ledger, Stream};
use crate::scenario::{Act, Target};
use contract::{Loss, Span, Time};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "losses";
pub(super) const STATEMENT: &str = "no subscriber misses more than L messages of a stream in a row";

#[derive(Clone, Default)]
pub(super) struct Losses {
    /// When something went wrong.
    faults: Vec<Time>,
    /// Times for which nothing is promised; the last may still be open.
    beyond: Vec<(Time, Option<Time>)>,
    /// Publishers whose connection to a broker was broken, and since when.
    broken: BTreeMap<usize, Time>,
    /// Subscribers whose connection to a broker was broken, from when until when. What waits for them meanwhile is
    /// bounded by the rings of its streams, not by a contract.
    away: Vec<(usize, Time, Option<Time>)>,
}

/// Before a fault, messages may have been on their way for so long beyond their deadline.
const SLACK: Span = Span::secs(1);

impl Losses {
    pub(super) fn fault_begins(&mut self, now: Time, act: &Act, whole: bool) {
        self.faults.push(now);
        match act {
            Act::Break { from: Target::Publisher(index), .. }
            | Act::Break { to: Target::Publisher(index), .. }
                if whole =>
            {
                self.broken.insert(2 + index, now);
            }
            Act::Break { from: Target::Subscriber(index), .. }
            | Act::Break { to: Target::Subscriber(index), .. }
                if whole =>
            {
                self.away.push((*index, now - SLACK, None));
            }
            _ if whole && is_assumed(act) => {}
            _ if self.beyond.last().is_some_and(|(_, to)| to.is_none()) => {}
            _ => self.beyond.push((now - SLACK, None)),
        }
    }

    pub(super) fn whole(&mut self, now: Time) {
        if let Some((_, to)) = self.beyond.last_mut() {
            to.get_or_insert(now + SLACK);
        }
        self.away.iter_mut().for_each(|(.., to)| {
            to.get_or_insert(now + SLACK);
        });
        self.broken.clear();
    }

    /// A publisher has a primary again: what it retains is sent again. What it published since its connection broke and
    /// no longer retains is gone, by contract.
    pub(super) fn follows(&mut self, _now: Time, host: usize, next: &[(u32, u64)], ledger: &mut Ledger) {
        let Some(since) = self.broken.get(&host).copied() else { return };
        for (number, next) in next {
            let Some(stream) = ledger.stream_mut(*number) else { continue };
            let from = stream.messages.partition_point(|message| message.accepted + SLACK < since) as u64;
            let to = next.saturating_sub(u64::from(stream.contract.retain));
            stream.excused.extend(from..to.max(from));
        }
    }

    /// Whether something was accepted at a time for which nothing is promised.
    fn is_beyond(&self, stream: &Stream, subscriber: usize, accepted: Time) -> bool {
        let slack = stream.contract.deadline;
        let within =
            |from: Time, to: Option<Time>| accepted + slack >= from && to.is_none_or(|to| accepted <= to);
        let away = |(who, from, to): &(usize, Time, Option<Time>)| *who == subscriber && within(*from, *to);
        self.beyond.iter().any(|(from, to)| within(*from, *to)) || self.away.iter().any(away)
    }

    /// The longest run of messages that a subscriber misses although they were covered, and where it begins. Those that
    /// nothing covers do not count, nor end it.
    fn longest_covered_run(&self, stream: &Stream, subscriber: usize) -> (u64, u64) {
        let excused = |seq: u64, accepted: Time| {
            let receipt = &stream.receipts[subscriber];
            receipt.as_ref().is_some_and(|receipt| receipt.excused.contains(&seq))
                || stream.excused.contains(&seq)
                || self.is_beyond(stream, subscriber, accepted)
        };
        longest_run(stream, subscriber, excused)
    }

    pub(super) fn ends(&self, ledger: &Ledger) -> Result<(), (Time, String)> {
        for stream in ledger.streams.iter().filter(|stream| stream.contract.loss != Loss::Unbounded) {
            for (index, subscriber) in ledger.subscribers.iter().enumerate() {
                let (run, began) = self.longest_covered_run(stream, index);
                let time = |seq: u64| stream.message(seq).map_or(Time::ZERO, |message| message.accepted);
                let (at, last) = (time(began), time(began + run.saturating_sub(1)));
                let (from, to) = (at - SLACK, last + stream.contract.deadline + ledger.delays.failover);
                let failures =
                    self.faults.iter().filter(|fault| **fault >= from && **fault <= to).count() as u64;
                if !stream.contract.loss.tolerates(run.div_ceil(failures.max(1))) {
                    return Err((
                        at,
                        format!(
                            "{} lost {run} messages of {} in a row, from #{began} on (published at {}), of at most {}; contract {}",
                            subscriber.name,
                            stream.topic,
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

/// The longest run of missing messages, whether or not they were covered.
pub(crate) fn longest_run_at_all(stream: &Stream, subscriber: usize) -> u64 {
    longest_run(stream, subscriber, |_, _| false).0
}

/// The longest run of messages that a subscriber misses, and where it begins. Excused ones do not count, nor end it.
fn longest_run(stream: &Stream, subscriber: usize, excused: impl Fn(u64, Time) -> bool) -> (u64, u64) {
    let Some(receipt) = &stream.receipts[subscriber] else { return (0, 0) };
    let mut longest = (0, 0);
    for (from, to) in &receipt.wanted {
        let (mut run, mut began) = (0, 0);
        for seq in *from..to.unwrap_or(stream.messages.len() as u64) {
            if receipt.has(seq) {
                run = 0;
                continue;
            }
            let accepted = stream.message(seq).map_or(Time::ZERO, |message| message.accepted);
            if excused(seq, accepted) {
                continue;
            }
            if run == 0 {
                began = seq;
            }
            run += 1;
            if run > longest.0 {
                longest = (run, began);
            }
        }
    }
    longest
}

/// Whether the guarantees cover a fault that happens while everything is whole.
pub(super) fn is_assumed(act: &Act) -> bool {
    let broker = |target: &Target| matches!(target, Target::Primary | Target::Backup | Target::Broker(_));
    match act {
        Act::Crash { target, .. } | Act::HostCrash { target, .. } | Act::Pause { target, .. } => {
            broker(target)
        }
        Act::Partition { from, to, .. } => from.iter().chain(to).all(broker),
        // What is lost with a connection is excused message by message.
        Act::Break { .. } | Act::Handover => true,
        Act::ClockStep { .. } | Act::Slow { .. } => false,
    }
}
