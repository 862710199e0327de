//! I1 and A6: what is accepted can still be agreed on before its instant, belongs to the node, and fits; a node that has rejoined
//! writes nothing that it has not seen. What is refused is refused for a reason.

use crate::ledger::{Ledger, NodeFacts};
use crate::part::Write;
use crate::scenario::{KeyKind, Scenario};
use contract::Time;
use kv::{Node, NodeSet, WriteError};

pub(super) const NAME: &str = "writes";
pub(super) const STATEMENT: &str =
    "a write is accepted if its time is to come, it fits, and its node has seen the key (I1, A6)";

/// Why a write must be refused, by the facts. The two that depend on the job that will carry it are looked at when it begins.
fn reason(ledger: &Ledger, node: usize, now: Time, write: &Write) -> Option<&'static str> {
    let (terms, facts) = (&ledger.terms, &ledger.nodes[node]);
    let Some((kind, writers)) = terms.keys.get(usize::from(write.key.0)) else { return Some("unknown key") };
    let number =
        || <[u8; 8]>::try_from(&write.value[..]).is_ok_and(|value| f64::from_le_bytes(value).is_finite());
    let alone: NodeSet = [Node::at(node)].into_iter().collect();
    let is_empty = facts.store.get(&write.key.0).is_none_or(|stamps| stamps.is_empty());
    let is_cautious = is_cautious(facts, now);
    let reasons = [
        (!writers.contains(Node::at(node)), "not a writer"),
        (write.publishing <= now, "past"),
        (write.value.len() > Scenario::VALUE_BYTES_MAX, "too long"),
        (*kind != KeyKind::Majority && !number(), "not a number"),
        (is_cautious && is_empty && *writers != alone, "rejoining"),
        (facts.stamps.len() >= terms.tuples_max, "full"),
    ];
    reasons.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason)
}

/// Whether a node that has come does not know yet what there is.
fn is_cautious(facts: &NodeFacts, now: Time) -> bool {
    !facts.has_known && facts.cautious_until.map_or(facts.has_ended, |until| now < until)
}

pub(super) fn wrote(
    ledger: &Ledger,
    node: usize,
    now: Time,
    write: &Write,
    result: Result<(), WriteError>,
) -> Result<(), String> {
    let reason = reason(ledger, node, now, write);
    let what = || format!("key {} for {} at {}", write.key.0, write.publishing.0, now.0);
    match (result, reason) {
        (Ok(()), Some(reason)) => Err(format!("{} was written, but must not be: {reason}", what())),
        (Err(WriteError::PublishingTimeTooSoon(_)), None) if write.publishing > now + ledger.terms.period => {
            Err(format!("{} was refused as too soon, and is more than a period away", what()))
        }
        (Err(WriteError::PublishingTimeTooFar { .. }), None)
            if write.publishing <= now + ledger.terms.horizon =>
        {
            Err(format!("{} was refused as too far, and is within the horizon", what()))
        }
        (
            Ok(()) | Err(WriteError::PublishingTimeTooSoon(_) | WriteError::PublishingTimeTooFar { .. }),
            None,
        ) => Ok(()),
        // What it holds back may have taken the place of what it had given.
        (Err(WriteError::Rejoining), None) if is_cautious(&ledger.nodes[node], now) => Ok(()),
        (Err(error), None) => Err(format!("{} was refused without a reason: {error}", what())),
        (Err(_), Some(_)) => Ok(()),
    }
}

/// What the job carries that begins now can be agreed on, unless one was left out in between.
pub(super) fn begun(ledger: &Ledger, node: usize, release: Time) -> Result<(), String> {
    let (terms, facts) = (&ledger.terms, &ledger.nodes[node]);
    if facts.last.is_none_or(|last| last + terms.period != release) {
        return Ok(());
    }
    match facts.stamps.iter().find(|stamp| **stamp <= release || **stamp > release + terms.horizon) {
        Some(stamp) => {
            Err(format!("a job of {} carries a value for {}, which all nodes refuse", release.0, stamp.0))
        }
        None => Ok(()),
    }
}
