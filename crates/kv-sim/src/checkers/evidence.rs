//! Nobody correct is missed, or called lying or forging; silence is no lie; and what was changed after its code was made is never taken.

use super::Ended;
use crate::ledger::Ledger;
use kv::{Dropped, Node, NodeSet, Taken};

pub(super) const NAME: &str = "evidence";
pub(super) const STATEMENT: &str =
    "nobody correct is called silent, lying or forging, and no forged frame is taken";

pub(super) fn took(ledger: &Ledger, frame: &[u8], result: Result<Taken, Dropped>) -> Result<(), String> {
    if result.is_ok() && ledger.tampered.contains(frame) {
        return Err("a frame was taken that was changed after its code was made".to_owned());
    }
    Ok(())
}

pub(super) fn ended(ledger: &Ledger, node: usize, job: u64, ended: &Ended) -> Result<(), String> {
    if !ledger.terms.is_right(node, job) {
        return Ok(());
    }
    let terms = &ledger.terms;
    let right: NodeSet = (0..terms.nodes).filter(|peer| terms.is_right(*peer, job)).map(Node::at).collect();
    if let Some(peer) = ended.outcome.silent.iter().find(|peer| right.contains(*peer)) {
        return Err(format!("in job {job}, {peer} is right and is called silent"));
    }
    let lying = terms.lying.get(job as usize).copied().unwrap_or_default();
    match ended.outcome.liars.without(lying).iter().next() {
        Some(peer) => Err(format!("in job {job}, {peer} does not lie and is called a liar")),
        None => Ok(()),
    }
}

pub(super) fn ends(ledger: &Ledger, node: usize, accused: impl Iterator<Item = Node>) -> Result<(), String> {
    let terms = &ledger.terms;
    if !terms.assumed || terms.ever_faulty.contains(Node::at(node)) {
        return Ok(());
    }
    match accused.into_iter().find(|peer| !terms.ever_faulty.contains(*peer)) {
        Some(peer) => {
            Err(format!("{peer} has always been right, and its counters say that it lied or forged"))
        }
        None => Ok(()),
    }
}
