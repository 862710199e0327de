//! A node notices when the stores of more than `f` others are not its own, and only then; where nodes only stop, also when
//! as many are not its own as are.
//!
//! What the others say is read off the frames that were taken, what they published is known here.

use super::Ended;
use crate::ledger::Ledger;
use kv::{Mode, Node, NodeSet};

pub(super) const NAME: &str = "alarm";
pub(super) const STATEMENT: &str =
    "the alarm goes up where the stores of more than f others differ, and only there";

pub(super) fn ended(ledger: &Ledger, node: usize, job: u64, ended: &Ended) -> Result<(), String> {
    let facts = &ledger.nodes[node];
    let own = facts.digest.filter(|(before, _)| before + 1 == job).map(|(_, digest)| digest);
    let differs = |told: &u64| own.is_some_and(|own| own != *told);
    let differ: NodeSet =
        facts.told.iter().filter(|(_, told)| differs(told)).map(|(peer, _)| Node::at(*peer)).collect();
    let comparison = ended.outcome.comparison;
    if comparison.differ != differ {
        return Err(format!(
            "in job {job}, the stores of {differ:?} differ, and {:?} are noticed",
            comparison.differ
        ));
    }
    let agree = facts.told.len() - differ.len();
    let bearable = match ledger.terms.mode {
        Mode::Byzantine => ledger.terms.tolerated,
        Mode::Crash => ledger.terms.tolerated.min(agree),
    };
    let is_due = differ.len() > bearable;
    if is_due != ended.outcome.alarm {
        return Err(format!("in job {job}, the stores of {} others differ: alarm {}", differ.len(), !is_due));
    }
    let always_right = ledger.terms.assumed && !ledger.terms.ever_faulty.contains(Node::at(node));
    if ended.outcome.alarm && always_right {
        return Err(format!("in job {job} there was an alarm although no more than f nodes were faulty"));
    }
    Ok(())
}
