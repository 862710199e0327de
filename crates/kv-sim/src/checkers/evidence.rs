//! Nobody correct is missed, or called lying or forging; and what was changed after its code was made is never taken.

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
    let right: NodeSet =
        (0..ledger.terms.nodes).filter(|peer| ledger.terms.is_right(*peer, job)).map(Node::at).collect();
    for (called, who) in [("lying", ended.outcome.liars), ("silent", ended.outcome.silent)] {
        if let Some(peer) = who.iter().find(|peer| right.contains(*peer)) {
            return Err(format!("in job {job}, {peer} is right and is called {called}"));
        }
    }
    Ok(())
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
