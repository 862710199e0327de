//! K4: a key and publishing time never have two values on one node, whatever others do.

use super::{Ended, Publication};
use crate::ledger::{Ledger, Read};

pub(super) const NAME: &str = "single";
pub(super) const STATEMENT: &str = "a key and instant never have two values on one node (K4)";

pub(super) fn published(ledger: &Ledger, node: usize, ended: &Ended) -> Result<(), String> {
    let seen = &ledger.nodes[node].seen;
    let given: Vec<&Publication> = ended.recovered.iter().chain(&ended.published).collect();
    for (at, one) in given.iter().enumerate() {
        let again = given[..at].iter().any(|other| (other.key, other.stamp) == (one.key, one.stamp));
        if again || seen.get(&(one.key, one.stamp)).is_some_and(|value| *value != one.value) {
            return Err(format!("key {} has a second value for the instant {}", one.key, one.stamp.0));
        }
    }
    Ok(())
}

pub(super) fn read(ledger: &Ledger, node: usize, read: &Read) -> Result<(), String> {
    let Ok((stamp, value)) = &read.result else { return Ok(()) };
    match ledger.nodes[node].seen.get(&(read.key, *stamp)) {
        Some(known) if known != value => {
            Err(format!("key {} reads as another value than was published", read.key))
        }
        _ => Ok(()),
    }
}
