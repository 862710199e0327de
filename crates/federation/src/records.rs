//! What nodes hold: JSON, so that an admin can read it with the service's own tools.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// Who created a node: a site or a router, whichever of its two brokers reigns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// What both brokers of the pair have in common, and nobody else has.
    pub identity: String,
    /// The epoch of the broker that wrote it. A higher one replaces a lower one.
    pub reign: u64,
}

/// A router.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RouterRecord {
    /// Who it is.
    #[serde(flatten)]
    pub holder: Holder,
    /// Where it is reached: `host:port`, both of a pair divided by commas.
    pub locator: String,
    /// It is to be given no topics, and those that it has are moved to others.
    #[serde(default)]
    pub draining: bool,
    /// Filters of the topics that go by it before all other routers, while no others do; none: it is there for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Topics that it is given at most; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics_max: Option<usize>,
    /// What it carries.
    #[serde(default)]
    pub load: Load,
}

/// What a router carries.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// Topics.
    pub topics: u32,
    /// Links to sites.
    pub connections: u32,
    /// Bytes that leave it in a second.
    pub bytes_per_second: u64,
    /// The share of a processor that it takes, in thousandths.
    pub processor_permille: u32,
}

/// A site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SiteRecord {
    /// Who it is.
    #[serde(flatten)]
    pub holder: Holder,
}

/// What a site offers or wants of a topic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndpointRecord {
    /// Whose it is.
    #[serde(flatten)]
    pub holder: Holder,
    /// The terms.
    pub terms: Terms,
}

/// What is kept for a site that is away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptRecord {
    /// Whose it is.
    #[serde(flatten)]
    pub holder: Holder,
    /// Until when, in seconds since the Unix epoch.
    pub until_s: u64,
    /// At most so much.
    pub quota_bytes: u64,
    /// What the site wants of the topic.
    pub terms: Terms,
}

/// A topic.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TopicRecord {
    /// The router that carries it.
    pub router: Option<String>,
    /// How often it has been given to a router. A higher one replaces a lower one.
    pub epoch: u64,
    /// The router that carried it before, and does until the new one has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<String>,
    /// Sites between which it is not carried, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

/// Two sites between which a topic is not carried.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The publishing one.
    pub from: String,
    /// The subscribing one.
    pub to: String,
    /// Why, for people.
    pub why: String,
}

/// Topics of a router, and the epoch of each.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Topics, and the epoch in which the router was given each.
    pub topics: BTreeMap<String, u64>,
}

/// What an endpoint offers or asks, for [`crate::mismatch`]. What is `None` was not said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// The name of the messages' type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The least time between two messages (offered), in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<i64>,
    /// From creation to arrival at the last subscriber, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<i64>,
    /// Losses in a row that are tolerated; `None`: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<u32>,
    /// The greatest time between two messages (DEADLINE of DDS), in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_ns: Option<i64>,
    /// Messages that came before the subscriber.
    #[serde(skip_serializing_if = "is_default")]
    pub durability: Durability,
    /// Who says that the writer lives.
    #[serde(skip_serializing_if = "is_default")]
    pub liveliness: Liveliness,
    /// How long a writer may be silent and still count as living, in nanoseconds; `None`: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ns: Option<i64>,
    /// Whether the strongest writer alone is heard.
    #[serde(skip_serializing_if = "is_default")]
    pub exclusive: bool,
}

/// How long messages outlive their publishing, from less to more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Not at all.
    #[default]
    Volatile,
    /// As long as their writer.
    TransientLocal,
    /// Beyond their writer.
    Transient,
    /// Beyond every process.
    Persistent,
}

/// Who says that a writer lives, from less to more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Liveliness {
    /// Its process.
    #[default]
    Automatic,
    /// Any writer of its participant.
    ManualByParticipant,
    /// Itself.
    ManualByTopic,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn to_bytes(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("invariant: records have text keys and no failing parts")
}

/// What a node holds; `None` where it is none of ours.
pub(crate) fn from_bytes<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    serde_json::from_slice(data).ok()
}

impl TopicRecord {
    /// What a topic's node holds: nothing at first.
    pub(crate) fn of(data: &[u8]) -> Option<TopicRecord> {
        if data.is_empty() { Some(TopicRecord::default()) } else { from_bytes(data) }
    }
}
