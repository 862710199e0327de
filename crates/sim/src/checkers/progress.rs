//! When everything has been mended, everything works: the pair becomes protected, every live stream flows to everybody
//! who wants it, and in the end every buffer is empty. And no run stands still.
//!
//! Source: the liveness phase. It asks for nothing while faults go on.

use crate::ledger::Ledger;
use contract::Time;

pub(super) const NAME: &str = "progress";
pub(super) const STATEMENT: &str = "when everything is mended, everything flows again, and drains in the end";

#[derive(Clone, Default)]
pub(super) struct Progress {
    from: Option<Time>,
    to: Option<Time>,
}

impl Progress {
    pub(super) fn begins_to_flow(&mut self, now: Time) {
        self.from = Some(now);
    }

    pub(super) fn stops_publishing(&mut self, now: Time) {
        self.to = Some(now);
    }

    pub(super) fn ends(&self, ledger: &Ledger) -> Result<(), String> {
        let (Some(from), Some(to)) = (self.from, self.to) else { return Ok(()) };
        for stream in ledger.streams.iter().filter(|stream| !stream.ended && stream.judged == Some(true)) {
            let first = stream.messages.partition_point(|message| message.accepted < from);
            let last = stream.messages.partition_point(|message| message.accepted < to);
            if first == last && !stream.contract.period.is_forever() {
                return Err(format!("{} did not flow although everything was mended", stream.topic));
            }
            for (index, receipt) in stream.receipts.iter().enumerate() {
                let Some(receipt) = receipt.as_ref().filter(|_| ledger.subscribers[index].is_served()) else {
                    continue;
                };
                if let Some(seq) = (first as u64..last as u64).find(|seq| !receipt.has(*seq)) {
                    let name = &ledger.subscribers[index].name;
                    return Err(format!(
                        "{name} misses {} #{seq}, published when all was well",
                        stream.topic
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn never_recovered(ledger: &Ledger, when: &str) -> Result<(), String> {
    let waiting = if ledger.everybody_is_answered() { "" } else { "; somebody waits for an answer" };
    Err(format!("the pair did not become protected again {when}{waiting}"))
}

pub(super) fn never_drained(queued: usize, unsent: usize) -> Result<(), String> {
    Err(format!("{queued} jobs and {unsent} bytes still wait although nobody publishes any more"))
}

pub(super) fn no_progress(steps: u64, latest: &str) -> Result<(), String> {
    Err(format!("no progress: {steps} steps, and the clock has hardly moved; the last was {latest}"))
}
