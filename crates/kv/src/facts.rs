//! A configuration as lines of text: what nodes compare before they talk to each other.

use crate::checks::vote_of;
use crate::setup::{batch_tuples_max, horizon, round};
use crate::{Config, NodeSet};

/// One thing that all nodes must agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Which key of the configuration.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Config {
    /// All that the nodes of a lane must agree on, in a fixed order. What each may have for itself is not there: the times of
    /// links and the memory that may be used.
    pub fn facts(&self) -> Vec<Fact> {
        let all = NodeSet::all(self.nodes.len());
        let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
        let mut facts = vec![
            fact("nodes", format!("{:?}", self.nodes)),
            fact("faults", self.faults.to_string()),
            fact("mode", format!("{:?}", self.mode)),
            fact("resolve", format!("{:?}", self.resolve)),
            fact("lane", self.lane.to_string()),
            fact("period", self.period.to_string()),
            fact("offset", self.offset.to_string()),
            fact("round", round(self).to_string()),
            fact("horizon", horizon(self).to_string()),
            fact("batch_tuples_max", batch_tuples_max(self).to_string()),
            fact("value_bytes_max", self.value_bytes_max.to_string()),
            fact("history", self.history.to_string()),
            fact("number of keys", self.keys.len().to_string()),
        ];
        facts.extend(self.keys.iter().enumerate().map(|(place, key)| {
            let writers = key.writers.unwrap_or(all);
            let value = format!("{:?}, {}, writers {writers:?}", key.name, vote_of(self, key).name());
            fact(&format!("keys[{place}]"), value)
        }));
        facts
    }
}

/// The first thing in which two configurations differ: ours and theirs, `None` where one has nothing.
pub fn first_difference<'a>(
    ours: &'a [Fact],
    theirs: &'a [Fact],
) -> Option<(Option<&'a Fact>, Option<&'a Fact>)> {
    let longer = ours.len().max(theirs.len());
    (0..longer).map(|at| (ours.get(at), theirs.get(at))).find(|(one, other)| one != other)
}

/// The facts as one number. Frames carry it, so that nodes with different configurations never count as agreeing.
pub(crate) fn fingerprint(facts: &[Fact]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for fact in facts {
        for part in [&fact.name, &fact.value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    crate::digest::first_word(&hasher.finalize())
}
