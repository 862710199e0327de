//! I2: a read gives the newest value with `t_min ≤ t ≤ now`, or says why there is none; held against a plain table.

use crate::ledger::{Ledger, Read};
use kv::ReadError;

pub(super) const NAME: &str = "freshness";
pub(super) const STATEMENT: &str =
    "a read gives the newest value that is fresh enough and whose instant has come (I2)";

pub(super) fn read(ledger: &Ledger, node: usize, read: &Read) -> Result<(), String> {
    let Read { key, freshness, now, result } = read;
    if usize::from(*key) >= ledger.terms.keys.len() {
        return expect(matches!(result, Err(ReadError::UnknownKey(_))), read, "there is no such key");
    }
    if freshness > now {
        return expect(matches!(result, Err(ReadError::FreshnessInFuture(_))), read, "that is in the future");
    }
    let stamps = ledger.nodes[node].store.get(key);
    let newest = stamps.and_then(|stamps| stamps.range(..=*now).next_back());
    match (newest, result) {
        (None, Err(ReadError::Nothing)) => Ok(()),
        (Some((stamp, value)), Ok((got, bytes))) if stamp >= freshness => {
            expect((got, bytes) == (stamp, value), read, "there is another, which is the newest")
        }
        (Some((stamp, _)), Err(ReadError::Stale(_))) => expect(stamp < freshness, read, "there is one"),
        (Some((stamp, _)), _) => expect(false, read, &format!("the newest is of {}", stamp.0)),
        (None, _) => expect(false, read, "there is none"),
    }
}

fn expect(holds: bool, read: &Read, why: &str) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    let Read { key, freshness, now, result } = read;
    Err(format!("key {key}, not older than {}, at {}: {result:?}, but {why}", freshness.0, now.0))
}
