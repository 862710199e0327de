//! I5: of each key the newest stamps are kept, as many as are configured.

use crate::ledger::Ledger;
use contract::Time;

pub(super) const NAME: &str = "history";
pub(super) const STATEMENT: &str =
    "the newest stamps of each key are kept, as many as configured, and no more (I5)";

pub(super) fn kept(ledger: &Ledger, node: usize, key: u16, kept: &[(Time, Vec<u8>)]) -> Result<(), String> {
    if kept.len() > ledger.terms.history {
        let (count, most) = (kept.len(), ledger.terms.history);
        return Err(format!("key {key} has {count} stamps, and {most} are configured"));
    }
    let facts = &ledger.nodes[node];
    if !facts.sure || facts.blurred {
        let is_given = |(stamp, value): &(Time, Vec<u8>)| facts.seen.get(&(key, *stamp)) == Some(value);
        return if kept.iter().all(is_given) {
            Ok(())
        } else {
            Err(format!("key {key} has what was not given to readers"))
        };
    }
    let stamps = facts.store.get(&key);
    let newest = stamps.into_iter().flatten().rev();
    if !newest.eq(kept.iter().map(|(stamp, value)| (stamp, value))) {
        return Err(format!("the stamps of key {key} are not the newest that were published"));
    }
    Ok(())
}
