//! No message that is later than its deadline goes unreported, and none that is not is called late.
//!
//! Source: FRAME, lemma 2 (F2): the deadline is counted from creation to arrival, by the clocks of the two ends.

use crate::ledger::Stream;
use crate::node::Got;
use contract::Time;

pub(super) const NAME: &str = "lateness";
pub(super) const STATEMENT: &str = "a message is called late if and only if it is";

pub(super) fn delivered(stream: &Stream, local: Time, got: &Got) -> Result<(), String> {
    let Some(message) = stream.message(got.seq) else { return Ok(()) };
    let latency = local.since(message.stamped);
    let late = latency > stream.contract.deadline;
    if got.late != late || got.latency != latency {
        return Err(format!(
            "{} #{} took {latency} of {} and was called {} after {}",
            stream.topic,
            got.seq,
            stream.contract.deadline,
            if got.late { "late" } else { "in time" },
            got.latency
        ));
    }
    Ok(())
}
