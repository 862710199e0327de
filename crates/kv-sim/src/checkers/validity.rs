//! K2: what a correct node wrote is in the list of every correct node, unchanged.
//!
//! What it wrote is put together here from the writes that were accepted, byte by byte.

use super::Ended;
use crate::ledger::Ledger;

pub(super) const NAME: &str = "validity";
pub(super) const STATEMENT: &str =
    "what a correct node wrote is in the list of every correct node, unchanged (K2)";

pub(super) fn ended(ledger: &Ledger, node: usize, job: u64, ended: &Ended) -> Result<(), String> {
    if !ledger.terms.is_right(node, job) {
        return Ok(());
    }
    for source in (0..ledger.terms.nodes).filter(|source| ledger.terms.is_right(*source, job)) {
        let batch = ledger.batches.get(&(job, source)).map_or(&[][..], Vec::as_slice);
        if ended.vector[source] != batch {
            let (got, wrote) = (ended.vector[source].len(), batch.len());
            return Err(format!(
                "in job {job}, node {source} wrote {wrote} bytes, and {got} bytes were agreed on"
            ));
        }
    }
    Ok(())
}
