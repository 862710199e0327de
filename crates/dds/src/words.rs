//! What bridges tell each other, as JSON on one topic: who they are, and which readers and writers there are in their domains.

use crate::endpoint::{Endpoint, Guid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A bridge's number, made up when it begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BridgeId(pub u64);

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<BridgeId> for String {
    fn from(id: BridgeId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for BridgeId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<BridgeId, &'static str> {
        let plain = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u64::from_str_radix(&text, 16).ok().filter(|_| plain);
        id.map(BridgeId).ok_or("a bridge has a number of 16 hexadecimal digits")
    }
}

/// Who speaks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Who {
    /// Its number.
    pub id: BridgeId,
    /// Its name, for people.
    pub name: String,
    /// The domain in which it stands, as its own network numbers it.
    pub domain: u32,
}

/// What a bridge has done since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Samples of its domain that it sent on.
    pub sent: u64,
    /// Samples of others that it wrote in its domain.
    pub written: u64,
    /// Samples that it could not send or write.
    pub dropped: u64,
    /// Samples that came when they were not valid any more.
    pub expired: u64,
}

/// What is said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Word {
    /// A bridge is there, and this is the state of its list.
    Beat {
        /// Who.
        bridge: Who,
        /// Changes of its list so far.
        version: u64,
        /// Whether it waits, since another one serves its domain.
        stands_by: bool,
        /// What it has done.
        counts: Counts,
    },
    /// A part of a change of its list.
    Change {
        /// Whose.
        bridge: Who,
        /// The state of the list after it.
        version: u64,
        /// What has come, or is different.
        added: Vec<Endpoint>,
        /// What has gone.
        removed: Vec<Guid>,
    },
    /// A part of the whole list.
    All {
        /// Whose.
        bridge: Who,
        /// Its state.
        version: u64,
        /// Which part, from zero.
        part: u32,
        /// How many there are.
        parts: u32,
        /// What is in it.
        endpoints: Vec<Endpoint>,
    },
    /// Somebody wants the whole list of a bridge, or of all.
    Ask {
        /// Whose; `None`: of all.
        of: Option<BridgeId>,
    },
    /// Somebody wants what a writer has written so far.
    Recall {
        /// Which.
        writer: Guid,
    },
    /// Readers have found who stands in for a writer.
    Ready {
        /// Which.
        writer: Guid,
    },
    /// A bridge has ended.
    Gone {
        /// Which.
        bridge: Who,
    },
}

#[derive(Serialize, Deserialize)]
struct Spoken<W> {
    /// Counts what a bridge says. What is sent again after a failover may be old.
    number: u64,
    #[serde(flatten)]
    word: W,
}

impl Word {
    /// As a message, with its number among those of who says it.
    pub fn encode(&self, number: u64) -> Vec<u8> {
        // A value of ours is always JSON.
        serde_json::to_vec(&Spoken { number, word: self }).unwrap_or_default()
    }

    /// Of a message, with its number.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub fn decode(message: &[u8]) -> Result<(u64, Word), String> {
        let spoken: Result<Spoken<Word>, _> = serde_json::from_slice(message);
        spoken.map(|spoken| (spoken.number, spoken.word)).map_err(|error| error.to_string())
    }

    /// The bridge that says something of itself.
    pub(crate) fn speaker(&self) -> Option<&Who> {
        match self {
            Word::Beat { bridge, .. }
            | Word::Change { bridge, .. }
            | Word::All { bridge, .. }
            | Word::Gone { bridge } => Some(bridge),
            Word::Ask { .. } | Word::Recall { .. } | Word::Ready { .. } => None,
        }
    }
}

/// Parts of a list take about so many bytes.
const PART_BYTES: usize = 16 * 1024;

/// Divides endpoints into parts that fit a message. One part at least.
pub(crate) fn in_parts(endpoints: impl IntoIterator<Item = Endpoint>) -> Vec<Vec<Endpoint>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for endpoint in endpoints {
        let names = endpoint.topic.len() + endpoint.type_name.len();
        let partitions: usize = endpoint.qos.partitions.iter().map(|name| name.len() + 3).sum();
        let size = 600 + names + partitions;
        if bytes + size > PART_BYTES && bytes > 0 {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.push(endpoint);
        }
    }
    parts
}
