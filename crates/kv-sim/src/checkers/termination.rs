//! K5: a job ends within `R·τ` of its release, plus its own processor time, whatever others do.

use crate::ledger::Ledger;
use contract::{Span, Time};

pub(super) const NAME: &str = "termination";
pub(super) const STATEMENT: &str =
    "a job ends within R rounds of its release, plus its own processor time (K5)";

fn rounds(ledger: &Ledger) -> Span {
    ledger.terms.round * (ledger.terms.tolerated as u64 + 1)
}

pub(super) fn begun(ledger: &Ledger, node: usize) -> Result<(), String> {
    match ledger.job_of(node) {
        Some(job) => Err(format!("job {job} has not ended before the next one")),
        None => Ok(()),
    }
}

pub(super) fn waits(ledger: &Ledger, node: usize, now: Time, until: Time) -> Result<(), String> {
    let Some(release) = ledger.nodes[node].running else { return Ok(()) };
    if until <= now {
        return Err("a round waits for something although its time has come".to_owned());
    }
    let end = release + rounds(ledger);
    if until > end {
        return Err(format!("a round waits until {} after the last one should have ended", until.since(end)));
    }
    Ok(())
}

pub(super) fn ended(ledger: &Ledger, node: usize, now: Time) -> Result<(), String> {
    let Some(release) = ledger.nodes[node].running else { return Ok(()) };
    // Who begins too late is not in time by itself.
    let end = (release + rounds(ledger)).max(ledger.nodes[node].began) + ledger.terms.processor;
    if now > end {
        return Err(format!("a job of {} ended {} later than it may", release.0, now.since(end)));
    }
    Ok(())
}
