//! Section 8, 1: a node notices when more than `f` others have published something else in the job before, and only then.
//!
//! What the others say is read off the frames that were taken, what they published is known here.

use super::Ended;
use crate::ledger::Ledger;
use kv::{Node, NodeSet};

pub(super) const NAME: &str = "alarm";
pub(super) const STATEMENT: &str =
    "the alarm goes up where more than f others published something else, and only there";

pub(super) fn ended(ledger: &Ledger, node: usize, job: u64, ended: &Ended) -> Result<(), String> {
    let facts = &ledger.nodes[node];
    let own = facts.digest.filter(|(before, _)| before + 1 == job).map(|(_, digest)| digest);
    let differs = |told: &u64| own.is_some_and(|own| own != *told);
    let differ: NodeSet =
        facts.told.iter().filter(|(_, told)| differs(told)).map(|(peer, _)| Node::at(*peer)).collect();
    let comparison = ended.outcome.comparison;
    if comparison.differ != differ {
        return Err(format!(
            "in job {job}, {differ:?} had published something else, and {:?} are noticed",
            comparison.differ
        ));
    }
    let is_due = differ.len() > ledger.terms.tolerated;
    if is_due != ended.outcome.alarm {
        return Err(format!(
            "in job {job}, {} others had published something else: alarm {}",
            differ.len(),
            !is_due
        ));
    }
    let was_right = job > 0 && ledger.terms.is_right(node, job - 1);
    if ended.outcome.alarm && was_right && ledger.terms.is_right(node, job) {
        return Err(format!("in job {job} there was an alarm although no more than f nodes were faulty"));
    }
    Ok(())
}
