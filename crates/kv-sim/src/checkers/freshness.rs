//! I2: a read gives the newest value with `t_min ≤ t ≤ now`, or says why there is none; held against a plain table.

use crate::ledger::{Ledger, NodeFacts, Read};
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
    let facts = &ledger.nodes[node];
    if !facts.sure || facts.blurred {
        return blurred(facts, read);
    }
    let stamps = facts.store.get(key);
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

/// Of a node that lacks something, or has: what it holds back may have taken the place of what is older.
fn blurred(facts: &NodeFacts, read: &Read) -> Result<(), String> {
    match &read.result {
        Ok((stamp, value)) => {
            let is_given = facts.seen.get(&(read.key, *stamp)) == Some(value);
            expect(is_given && *stamp >= read.freshness, read, "that was not given to readers")
        }
        Err(ReadError::Unknown) => expect(!facts.sure, read, "it lacks nothing"),
        Err(ReadError::Nothing | ReadError::Stale(_)) => expect(facts.sure, read, "it lacks something"),
        Err(_) => expect(false, read, "there is such a key, and it is asked for what has come"),
    }
}

fn expect(holds: bool, read: &Read, why: &str) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    let Read { key, freshness, now, result } = read;
    Err(format!("key {key}, not older than {}, at {}: {result:?}, but {why}", freshness.0, now.0))
}
