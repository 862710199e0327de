//! When everything has been mended, everything works: the pair becomes protected, every live stream flows to everybody
//! who wants it, and in the end every buffer is empty. And no run stands still.
//!
//! Source: the liveness phase. It asks for nothing while faults go on. Where limits are far too low or publishers break
//! their contracts, messages may be missing in the end as well; every stream must be published all the same.

use super::served::Served;
use crate::ledger::{Ledger, Receipt, Stream};
use crate::scenario::{Pace, Scenario};
use contract::Time;

pub(super) const NAME: &str = "progress";
pub(super) const STATEMENT: &str = "when everything is mended, everything flows again, and drains in the end";

/// What still waits somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Left {
    pub(crate) jobs: usize,
    pub(crate) bytes: usize,
    /// Messages for subscribers that are connected.
    pub(crate) deferred: usize,
    /// Messages of devices that were not answered.
    pub(crate) unanswered: usize,
    /// Messages that wait for sessions of devices.
    pub(crate) waiting: u64,
}

impl Left {
    /// Whether less of something waits than ever before; this is the least that has.
    pub(crate) fn shrinks(&mut self, now: &Left) -> bool {
        let before = *self;
        *self = Left {
            jobs: self.jobs.min(now.jobs),
            bytes: self.bytes.min(now.bytes),
            deferred: self.deferred.min(now.deferred),
            unanswered: self.unanswered.min(now.unanswered),
            waiting: self.waiting.min(now.waiting),
        };
        *self != before
    }
}

#[derive(Clone)]
pub(super) struct Progress {
    /// Limits are ample, nobody exceeds its period and admission is on: nothing may be missing.
    ample: bool,
    /// The processor suffices for what is published: the pair must become whole.
    steady: bool,
    from: Option<Time>,
    to: Option<Time>,
    /// Since when everybody has been sending once more.
    proof: Option<Time>,
    /// No message finds a store full of others, or a connection that is full by itself.
    roomy: bool,
}

impl Progress {
    pub(super) fn new(scenario: &Scenario) -> Progress {
        let (limits, usual) = (&scenario.limits, broker::Limits::default());
        let topics = || scenario.publishers.iter().flat_map(|publisher| &publisher.topics);
        let steady = scenario.refuses_what_does_not_fit()
            && topics().all(|topic| !matches!(topic.pace, Pace::Bursts(_)));
        let steady = steady && limits.links >= usual.links;
        let wide = scenario.window_bytes >= 1 << 20;
        let ample = steady
            && limits.jobs >= usual.jobs
            && limits.store_bytes >= usual.store_bytes
            && limits.subscriber_backlog_bytes >= usual.subscriber_backlog_bytes
            && limits.deferred_per_subscriber >= usual.deferred_per_subscriber
            && wide;
        // A message and its results come together.
        let several =
            scenario.processing.is_empty() || limits.deferred_per_subscriber >= usual.deferred_per_subscriber;
        let roomy = steady && wide && several && limits.store_bytes >= usual.store_bytes;
        Progress { ample, steady, from: None, to: None, proof: None, roomy }
    }

    pub(super) fn begins_to_flow(&mut self, now: Time) {
        self.from = Some(now);
    }

    pub(super) fn stops_publishing(&mut self, now: Time) {
        self.to = Some(now);
    }

    pub(super) fn asks_for_proof(&mut self, now: Time) {
        self.proof = Some(now);
    }

    /// When everything has drained, one more message of each stream goes all the way, whatever the limits.
    fn proves_itself(&self, ledger: &Ledger, served: &Served) -> Result<(), (Time, String)> {
        let Some(asked) = self.proof.filter(|_| self.roomy) else { return Ok(()) };
        for stream in ledger.streams.iter().filter(|stream| is_carried(stream)) {
            let seq = stream.messages.partition_point(|message| message.accepted < asked) as u64;
            if seq == stream.messages.len() as u64 {
                return Err((asked, format!("{} could not be published when all was quiet", stream.topic)));
            }
            if !served.is_promised(ledger, stream, seq) {
                continue;
            }
            let wanted = |index: usize| ledger.subscribers[index].is_served(&stream.topic);
            let misses = |(index, receipt): (usize, &Option<Receipt>)| {
                receipt.as_ref().is_some_and(|receipt| wanted(index) && !receipt.has(seq)).then_some(index)
            };
            if let Some(index) = stream.receipts.iter().enumerate().find_map(misses) {
                let name = &ledger.subscribers[index].name;
                let what = format!("{name} misses {} #{seq}, published when all was quiet", stream.topic);
                return Err((asked, what));
            }
        }
        Ok(())
    }

    pub(super) fn ends(&self, ledger: &Ledger, served: &Served) -> Result<(), (Time, String)> {
        self.proves_itself(ledger, served)?;
        let (Some(from), Some(to)) = (self.from.filter(|_| self.steady), self.to) else { return Ok(()) };
        for stream in ledger.streams.iter().filter(|stream| is_carried(stream)) {
            let first = stream.messages.partition_point(|message| message.accepted < from);
            let last = stream.messages.partition_point(|message| message.accepted < to);
            if first == last && !stream.contract.period.is_forever() {
                return Err((from, format!("{} did not flow although everything was mended", stream.topic)));
            }
            for (index, receipt) in stream.receipts.iter().enumerate().filter(|_| self.ample) {
                let wanted = ledger.subscribers[index].is_served(&stream.topic);
                let Some(receipt) = receipt.as_ref().filter(|_| wanted) else {
                    continue;
                };
                let misses = |seq: &u64| !receipt.has(*seq) && served.is_promised(ledger, stream, *seq);
                if let Some(seq) = (first as u64..last as u64).find(misses) {
                    let name = &ledger.subscribers[index].name;
                    let about = stream.message(seq).map_or(from, |message| message.accepted);
                    let what = format!("{name} misses {} #{seq}, published when all was well", stream.topic);
                    return Err((about, what));
                }
            }
        }
        Ok(())
    }

    pub(super) fn never_recovered(&self, ledger: &Ledger, when: &str) -> Result<(), String> {
        if !self.steady {
            return Ok(());
        }
        let waiting = if ledger.everybody_is_answered() { "" } else { "; somebody waits for an answer" };
        Err(format!("the pair did not become protected again {when}{waiting}"))
    }

    pub(super) fn never_drained(&self, left: &Left, most: &str) -> Result<(), String> {
        if !self.steady {
            return Ok(());
        }
        Err(format!(
            "{} jobs, {} bytes, {} deferred messages, {} for sessions of MQTT and {} that their devices had no answer to still \
             wait although nobody publishes any more, most of them in {most}",
            left.jobs, left.bytes, left.deferred, left.waiting, left.unanswered
        ))
    }
}

fn is_carried(stream: &Stream) -> bool {
    !stream.ended && stream.judged == Some(true) && !stream.refused
}

pub(super) fn no_progress(steps: u64, latest: &str) -> Result<(), String> {
    Err(format!("no progress: {steps} steps, and the clock has hardly moved; the last was {latest}"))
}
