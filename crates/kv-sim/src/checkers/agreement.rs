//! K1: for each key and publishing time, all correct nodes publish the same value or none.
//!
//! What is compared is the vector of each job, a hash of what was made of it, and every value under each key and instant that a node which is
//! right now gives to its readers, whatever it has missed before.

use super::Ended;
use crate::ledger::Ledger;

pub(super) const NAME: &str = "agreement";
pub(super) const STATEMENT: &str =
    "all correct nodes publish the same value for a key and instant, or none (K1)";

pub(super) fn ended(ledger: &Ledger, node: usize, job: u64, ended: &Ended) -> Result<(), String> {
    if !ledger.terms.is_right(node, job) {
        return Ok(());
    }
    let others = ledger.vectors.get(&job).into_iter().flatten();
    for (other, (vector, digest)) in others.filter(|(other, _)| ledger.terms.is_right(**other, job)) {
        if let Some(source) = (0..vector.len()).find(|source| vector[*source] != ended.vector[*source]) {
            return Err(format!("in job {job}, node {other} has agreed on another batch of node {source}"));
        }
        if *digest != ended.outcome.fused.digest {
            return Err(format!("in job {job}, node {other} has made something else of the same batches"));
        }
    }
    if ended.outcome.fenced {
        return Err(format!("in job {job}, this node is right and publishes nothing"));
    }
    for one in ended.published.iter().chain(&ended.recovered) {
        if let Some((value, other)) = ledger.truth.get(&(one.key, one.stamp))
            && *value != one.value
        {
            return Err(format!(
                "key {} at {}: node {other} has published another value",
                one.key, one.stamp.0
            ));
        }
    }
    Ok(())
}
