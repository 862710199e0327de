//! Readers and writers of DDS, and whether one offers what the other asks (DDS 1.4 §2.2.3; PubSubCoord §2.2, W6).

use serde::{Deserialize, Serialize};
use std::fmt;

/// The identity of an endpoint: 16 bytes, unique on its network and, since they hold chance, beyond it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Whether samples of this endpoint have keys: the kind of an entity is in the last byte (RTPS 2.5 §9.3.1.2).
    pub fn is_keyed(self) -> bool {
        matches!(self.0[15] & 0x3f, 0x02 | 0x07)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> String {
        guid.to_string()
    }
}

impl TryFrom<String> for Guid {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Guid, &'static str> {
        let bad = "a GUID has 32 hexadecimal digits";
        let text = text.as_bytes();
        if text.len() != 32 || !text.iter().all(u8::is_ascii_hexdigit) {
            return Err(bad);
        }
        let mut guid = Guid::default();
        for (byte, digits) in guid.0.iter_mut().zip(text.chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| bad)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad)?;
        }
        Ok(guid)
    }
}

/// Whether samples that are lost are sent again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// They are not.
    BestEffort,
    /// They are.
    Reliable,
}

/// How long samples are kept for those who come late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Not at all.
    Volatile,
    /// As long as their writer is there.
    TransientLocal,
    /// Longer than their writer is there.
    Transient,
    /// Longer than anything runs.
    Persistent,
}

/// What a writer keeps of each instance. Not everybody says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// It has not been said.
    Unsaid,
    /// The newest of them, so many.
    KeepLast(u32),
    /// All.
    KeepAll,
}

/// Who says that a writer lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveliness {
    /// Its library.
    Automatic,
    /// Its program, for all its writers at once.
    ManualByParticipant,
    /// Its program, for each writer.
    ManualByTopic,
}

/// Whether several writers may write one instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ownership {
    /// All of them.
    Shared,
    /// The strongest alone is heard.
    Exclusive,
}

/// How samples of several writers are put in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As they come.
    ByReception,
    /// By their writers' clocks.
    BySource,
}

/// Which changes belong together, and what is to be kept of that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Presentation {
    /// 0 instance, 1 topic, 2 group.
    pub scope: u8,
    /// Whether sets of changes are seen as a whole.
    pub coherent: bool,
    /// Whether their order is kept.
    pub ordered: bool,
}

/// What an endpoint offers or asks. Times are in nanoseconds; `None`: without end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Qos {
    /// RELIABILITY.
    pub reliability: Reliability,
    /// Its longest wait of a writer.
    pub max_blocking_ns: u64,
    /// DURABILITY.
    pub durability: Durability,
    /// HISTORY.
    pub history: History,
    /// That of DURABILITY_SERVICE.
    pub service: History,
    /// DEADLINE: the greatest gap between two samples of an instance.
    pub deadline_ns: Option<u64>,
    /// LATENCY_BUDGET; zero says nothing.
    pub latency_budget_ns: u64,
    /// LIFESPAN.
    pub lifespan_ns: Option<u64>,
    /// LIVELINESS.
    pub liveliness: Liveliness,
    /// Its lease.
    pub lease_ns: Option<u64>,
    /// OWNERSHIP.
    pub ownership: Ownership,
    /// OWNERSHIP_STRENGTH.
    pub strength: i32,
    /// DESTINATION_ORDER.
    pub order: Order,
    /// PRESENTATION.
    pub presentation: Presentation,
    /// TRANSPORT_PRIORITY.
    pub priority: i32,
    /// DATA_REPRESENTATION: bit 0 XCDR1, bit 2 XCDR2.
    pub representations: u32,
    /// PARTITION; empty: the one without a name.
    pub partitions: Vec<String>,
}

impl Default for Qos {
    /// What DDS says where nothing is said (of a reader).
    fn default() -> Qos {
        Qos {
            reliability: Reliability::BestEffort,
            max_blocking_ns: 100_000_000,
            durability: Durability::Volatile,
            history: History::KeepLast(1),
            service: History::Unsaid,
            deadline_ns: None,
            latency_budget_ns: 0,
            lifespan_ns: None,
            liveliness: Liveliness::Automatic,
            lease_ns: None,
            ownership: Ownership::Shared,
            strength: 0,
            order: Order::ByReception,
            presentation: Presentation::default(),
            priority: 0,
            representations: 1,
            partitions: Vec::new(),
        }
    }
}

/// Nothing is longer than what has no end.
fn no_longer(offered: Option<u64>, asked: Option<u64>) -> bool {
    asked.is_none_or(|asked| offered.is_some_and(|offered| offered <= asked))
}

impl Qos {
    /// The policies in which this is less than what is `asked`, by their names in DDS.
    pub fn lacks(&self, asked: &Qos) -> Vec<&'static str> {
        let suits = [
            ("RELIABILITY", self.reliability >= asked.reliability),
            ("DURABILITY", self.durability >= asked.durability),
            ("DEADLINE", no_longer(self.deadline_ns, asked.deadline_ns)),
            ("LATENCY_BUDGET", self.latency_budget_ns <= asked.latency_budget_ns),
            ("LIVELINESS", self.liveliness >= asked.liveliness && no_longer(self.lease_ns, asked.lease_ns)),
            ("OWNERSHIP", self.ownership == asked.ownership),
            ("DESTINATION_ORDER", self.order >= asked.order),
            // Sets of changes are not carried as such, so none are offered elsewhere.
            ("PRESENTATION", asked.presentation == Presentation::default()),
            ("DATA_REPRESENTATION", self.representations & asked.representations != 0),
        ];
        suits.into_iter().filter(|(_, suits)| !suits).map(|(policy, _)| policy).collect()
    }

    /// What a reader asks that wants everything of a writer that offers this.
    pub fn of_reader(&self) -> Qos {
        Qos {
            history: History::KeepAll,
            service: History::Unsaid,
            // Nobody else keeps samples for long here, and each form of them will do.
            durability: self.durability.min(Durability::TransientLocal),
            representations: 0b101,
            deadline_ns: None,
            latency_budget_ns: u64::MAX >> 1,
            liveliness: Liveliness::Automatic,
            lease_ns: None,
            presentation: Presentation::default(),
            ..self.clone()
        }
    }

    /// What a durable writer keeps of each instance for those who come late. Who does not say its HISTORY goes by that, whatever it says of
    /// DURABILITY_SERVICE.
    pub fn kept(&self) -> History {
        if self.history == History::Unsaid || self.service == History::Unsaid {
            self.history
        } else {
            self.service
        }
    }

    /// Whether there is something for those who come late.
    pub fn is_durable(&self) -> bool {
        self.durability > Durability::Volatile
    }
}

/// A reader or a writer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// Which.
    pub guid: Guid,
    /// Whether it writes.
    pub writes: bool,
    /// Its topic, in DDS.
    pub topic: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What it offers or asks.
    pub qos: Qos,
}

/// Why a reader does not hear a writer of its topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mismatch {
    /// They are in different partitions, which is nobody's mistake.
    Partition,
    /// Their types have different names, or one has keys and the other has not.
    Type,
    /// Less is offered than asked, in these policies.
    Policies(Vec<&'static str>),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Partition => f.write_str("other partitions"),
            Mismatch::Type => f.write_str("the types differ"),
            Mismatch::Policies(policies) => write!(f, "less is offered than asked: {}", policies.join(", ")),
        }
    }
}

impl Endpoint {
    /// Whether a partition is a pattern.
    pub(crate) fn has_pattern(&self) -> bool {
        self.qos.partitions.iter().any(|name| is_pattern(name))
    }

    /// Why `reader`, of the same topic, does not hear this writer. `Ok`: it does.
    pub fn is_heard_by(&self, reader: &Endpoint) -> Result<(), Mismatch> {
        if !share_partition(&self.qos.partitions, &reader.qos.partitions) {
            return Err(Mismatch::Partition);
        }
        if self.type_name != reader.type_name || self.guid.is_keyed() != reader.guid.is_keyed() {
            return Err(Mismatch::Type);
        }
        match self.qos.lacks(&reader.qos) {
            lacks if lacks.is_empty() => Ok(()),
            lacks => Err(Mismatch::Policies(lacks)),
        }
    }
}

/// Whether two endpoints share a partition. Either may say patterns; two patterns never mean each other (DDS 1.4 §2.2.3.13). `*` and `?` are
/// what Cyclone DDS takes for patterns.
fn share_partition(ours: &[String], theirs: &[String]) -> bool {
    let unnamed = [String::new()];
    let named = |names: &[String]| if names.is_empty() { unnamed.to_vec() } else { names.to_vec() };
    let (ours, theirs) = (named(ours), named(theirs));
    ours.iter().any(|a| {
        theirs.iter().any(|b| match (is_pattern(a), is_pattern(b)) {
            (false, false) => a == b,
            (true, false) => means(a.as_bytes(), b.as_bytes()),
            (false, true) => means(b.as_bytes(), a.as_bytes()),
            (true, true) => false,
        })
    })
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Whether a pattern means a name. The work is bounded by the product of their lengths.
fn means(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where the last star stands, and the first byte of the name that it does not cover yet.
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at, of));
                at += 1;
            }
            (Some(byte), _) if *byte == b'?' || *byte == name[of] => (at, of) = (at + 1, of + 1),
            (_, Some((before, covered))) => {
                star = Some((before, covered + 1));
                (at, of) = (before + 1, covered + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn partitions_are_shared_by_name_and_by_pattern() {
        for (ours, theirs, shared) in [
            (&[][..], &[][..], true),
            (&[], &[""], true),
            (&["a"], &[], false),
            (&["a", "b"], &["b", "c"], true),
            (&["plant*"], &["plant7"], true),
            (&["plant7"], &["plant*"], true),
            (&["plant*"], &["plant*"], false),
            (&["*"], &[], true),
            (&["a?c"], &["abc"], true),
            (&["a?c"], &["ac"], false),
            (&["[a-c]x"], &["bx"], false),
            (&["*a*b"], &["xxaxxb"], true),
            (&["*a*b"], &["xxaxxbx"], false),
        ] {
            assert_eq!(
                share_partition(&partitions(ours), &partitions(theirs)),
                shared,
                "{ours:?} and {theirs:?}"
            );
            assert_eq!(share_partition(&partitions(theirs), &partitions(ours)), shared);
        }
    }

    #[test]
    fn what_is_offered_is_at_least_what_is_asked() {
        let offered = Qos {
            reliability: Reliability::Reliable,
            durability: Durability::TransientLocal,
            deadline_ns: Some(100),
            lease_ns: Some(50),
            latency_budget_ns: 10,
            ..Qos::default()
        };
        assert_eq!(offered.lacks(&offered), Vec::<&str>::new());
        assert_eq!(offered.lacks(&offered.of_reader()), Vec::<&str>::new());
        let asked = |change: fn(&mut Qos)| {
            let mut asked = offered.clone();
            change(&mut asked);
            offered.lacks(&asked)
        };
        assert_eq!(asked(|qos| qos.durability = Durability::Transient), ["DURABILITY"]);
        assert_eq!(asked(|qos| qos.deadline_ns = Some(99)), ["DEADLINE"]);
        assert_eq!(asked(|qos| qos.lease_ns = Some(49)), ["LIVELINESS"]);
        assert_eq!(asked(|qos| qos.latency_budget_ns = 9), ["LATENCY_BUDGET"]);
        assert_eq!(asked(|qos| qos.ownership = Ownership::Exclusive), ["OWNERSHIP"]);
        assert_eq!(asked(|qos| qos.presentation.coherent = true), ["PRESENTATION"]);
        assert_eq!(asked(|qos| qos.representations = 4), ["DATA_REPRESENTATION"]);
        assert_eq!(Qos::default().lacks(&offered), ["RELIABILITY", "DURABILITY", "DEADLINE", "LIVELINESS"]);
    }

    #[test]
    fn a_guid_is_read_as_it_is_written() {
        let guid = Guid(std::array::from_fn(|i| (i * 17) as u8));
        assert_eq!(Guid::try_from(guid.to_string()), Ok(guid));
        for bad in [
            "",
            "00",
            "zz112233445566778899aabbccddeeff",
            "+0112233445566778899aabbccddeeff",
            "éééééééééééééééé",
        ] {
            assert!(Guid::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
