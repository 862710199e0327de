//! K3: a value is readable from its publishing time on, and never before; what is published after its instant is counted as late.

use super::Ended;
use crate::ledger::{Ledger, Read};
use contract::Time;

pub(super) const NAME: &str = "instants";
pub(super) const STATEMENT: &str =
    "nothing is readable before its instant, nor late without being counted (K3)";

pub(super) fn published(ledger: &Ledger, node: usize, now: Time, ended: &Ended) -> Result<(), String> {
    let late = ended.published.iter().filter(|one| one.stamp <= now).count() as u64;
    let counted = u64::from(ended.outcome.late);
    let before = ledger.nodes[node].late;
    if late != counted || before + late != ended.late_in_all {
        return Err(format!("{late} values came after their instant, and {counted} were counted"));
    }
    Ok(())
}

pub(super) fn read(read: &Read) -> Result<(), String> {
    match &read.result {
        Ok((stamp, _)) if *stamp > read.now => {
            Err(format!("key {} was read {} before its instant", read.key, stamp.since(read.now)))
        }
        _ => Ok(()),
    }
}
