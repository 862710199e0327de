//! A node that has missed something knows what that was soon after all are right again, unless its store had grown apart, which is an alarm.

use super::Ended;
use crate::ledger::Ledger;

pub(super) const NAME: &str = "recovery";
pub(super) const STATEMENT: &str =
    "a node that has missed something knows it within ten jobs in which nobody is faulty";

/// One to notice, and two for each answer; the stores of made-up clusters fit few answers.
const JOBS: u64 = 10;

pub(super) fn ended(ledger: &Ledger, node: usize, job: u64, ended: &Ended) -> Result<(), String> {
    let facts = &ledger.nodes[node];
    let is_calm = ledger.terms.is_calm(job) && facts.calm_jobs >= JOBS;
    let is_due = ledger.terms.assumed && is_calm && !facts.alarmed && !ended.outcome.alarm;
    if is_due && !ended.outcome.sure {
        return Err(format!(
            "in job {job}, after {} jobs in which nobody was faulty, it still lacks something",
            facts.calm_jobs
        ));
    }
    Ok(())
}
