//! What the brokers of a pair say together: what `verge status --format json` shows.

use crate::broker::{NodeReport, StreamReport};
use crate::rows::{Before, LevelRow, OperatorRow};
use contract::Reign;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use wire::{Concern, Standing, TopicState};

/// The number of this form: it grows when a field goes or means something else.
pub const SCHEMA: u32 = 1;

/// A pair, as those of its brokers that answer see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PairReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Whether a crash of the primary would now be survived within every contract.
    pub protected: bool,
    /// Streams whose contract is kept.
    pub met: usize,
    /// Streams whose contract the next fault may break.
    pub at_risk: usize,
    /// Streams whose contract is broken.
    pub broken: usize,
    /// Topics of results that the primary refuses.
    pub refused_results: u64,
    /// Streams of which nothing comes.
    pub silent: usize,
    /// Clients that cannot reach the primary, and pass through the backup to it.
    pub relayed: u32,
    /// Brokers that answer.
    pub brokers: Vec<BrokerRow>,
    /// Addresses of brokers of another pair than the one whose topics are shown.
    pub other_pairs: Vec<String>,
    /// Addresses at which nobody answers.
    pub unreachable: Vec<String>,
    /// Why, by address.
    pub troubles: BTreeMap<String, String>,
    /// Streams of the primary, the worst first.
    pub topics: Vec<TopicRow>,
    /// Levels of its operators.
    pub levels: Vec<LevelRow>,
    /// Its operators.
    pub operators: Vec<OperatorRow>,
}

/// What a broker is in its pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It reigns.
    Primary,
    /// It stands by.
    Backup,
    /// It looks for its partner.
    #[default]
    Seeking,
}

/// One broker.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct BrokerRow {
    /// Where it was asked.
    pub address: String,
    /// Its name.
    pub name: String,
    /// What it is in its pair.
    pub role: Role,
    /// The epoch that it knows of.
    pub epoch: u64,
    /// Whether it says that a crash would be survived.
    pub protected: bool,
    /// Connected clients.
    pub clients: u32,
    /// Those of them that pass through the backup.
    pub relayed: u32,
    /// Their names, or the first of them.
    pub relayed_names: String,
    /// Streams that it knows.
    pub streams: usize,
    /// The share of one processor that admission counts with.
    pub utilisation: f64,
    /// The median time from creation to dispatch.
    pub latency_p50_ms: f64,
    /// The 99th percentile of it.
    pub latency_p99_ms: f64,
    /// The longest.
    pub latency_max_ms: f64,
    /// Since its process started.
    pub uptime_s: f64,
    /// Changes of sessions and retained messages that it knows of.
    pub known_changes: u64,
    /// What its store does.
    pub store: String,
    /// Why the store was given up; empty while it writes.
    pub store_reason: String,
    /// All counters.
    pub counters: BTreeMap<String, u64>,
}

/// Whether a contract is kept, as far as the primary can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
pub enum State {
    /// It is.
    #[default]
    #[serde(rename = "met")]
    Met,
    /// The next fault may break it.
    #[serde(rename = "at risk")]
    AtRisk,
    /// It is not.
    #[serde(rename = "broken")]
    Broken,
    /// Nothing comes.
    #[serde(rename = "silent")]
    Silent,
}

/// One stream.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct TopicRow {
    /// Its topic.
    pub topic: String,
    /// Its publisher.
    pub publisher: String,
    /// Whether its contract is kept.
    pub state: State,
    /// Why it is not met.
    pub why: Option<String>,
    /// For how long nothing has come, where it is silent.
    pub silent_s: f64,
    /// `L`.
    pub loss: String,
    /// By what the topic is planned, whole.
    pub contract: String,
    /// The longest run of messages that never arrived.
    pub longest_run: u32,
    /// All of those.
    pub lost: u64,
    /// Messages that were dispatched after their deadline.
    pub late: u64,
    /// What subscribers say that they missed, all of them together.
    pub subscribers_lost: u64,
    /// The longest run of that.
    pub subscribers_longest_run: u32,
    /// What came to them late.
    pub subscribers_late: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Subscribers.
    pub subscribers: u32,
    /// Whether copies are made.
    pub replicated: bool,
    /// The latest time from creation to dispatch.
    pub latency_last_ms: f64,
    /// The longest.
    pub latency_max_ms: f64,
    /// By what the topic is planned: the strictest of its contract and of what its subscribers need.
    pub deadline_ms: f64,
    /// Who needs more than the contract says, and what.
    pub needs: Option<String>,
}

/// How a broker was reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where.
    pub address: String,
    /// Why it is not; none if it is.
    pub trouble: Option<String>,
    /// Who reigns, as far as it knows. Brokers of one pair agree on it, but for a moment.
    pub reign: Option<Reign>,
}

impl Default for PairReport {
    /// Where nobody was asked.
    fn default() -> PairReport {
        PairReport::new(&[], &[], &mut Before::default())
    }
}

impl PairReport {
    /// Of the places that were tried, and of what came from them, by address.
    pub fn new(places: &[Place], reports: &[(String, NodeReport)], before: &mut Before) -> PairReport {
        let reigning = reports.iter().filter(|(_, report)| report.standing == Standing::Primary);
        let primary = reigning.max_by_key(|(_, report)| report.epoch);
        let mut topics: Vec<&StreamReport> = primary.iter().flat_map(|(_, report)| &report.streams).collect();
        topics.sort_by_key(|stream| (Reverse(stream.state), Reverse(stream.longest_run), &stream.topic));
        let count = |state| topics.iter().filter(|stream| stream.state == state).count();
        let answers = |address: &String| reports.iter().any(|(there, _)| there == address);
        let missing = places.iter().filter(|place| !answers(&place.address));
        let troubled = places.iter().filter(|place| place.trouble.is_some() || !answers(&place.address));
        let why = |place: &Place| place.trouble.clone().unwrap_or_else(|| "does not answer".to_owned());
        PairReport {
            schema: SCHEMA,
            other_pairs: other_pairs(places, reports, primary.map(|(address, _)| address)),
            unreachable: missing.map(|place| place.address.clone()).collect(),
            troubles: troubled.map(|place| (place.address.clone(), why(place))).collect(),
            protected: primary.is_some_and(|(_, report)| report.protected),
            met: count(TopicState::Met),
            at_risk: count(TopicState::AtRisk),
            broken: count(TopicState::Broken),
            refused_results: primary.map_or(0, |(_, report)| report.counter("results_broken")),
            silent: count(TopicState::Silent),
            relayed: primary.map_or(0, |(_, report)| report.relayed),
            topics: topics.iter().map(|stream| TopicRow::new(stream)).collect(),
            levels: primary.map(|(_, report)| before.levels(report)).unwrap_or_default(),
            operators: primary.map(|(_, report)| OperatorRow::all(report)).unwrap_or_default(),
            brokers: reports.iter().map(|(address, report)| BrokerRow::new(address, report)).collect(),
        }
    }
}

/// Two brokers that are both protected are either of one reign, or of two pairs: the addresses of those that are not of the primary's.
fn other_pairs(places: &[Place], reports: &[(String, NodeReport)], primary: Option<&String>) -> Vec<String> {
    let protected = |place: &&Place| reports.iter().any(|(at, it)| *at == place.address && it.protected);
    let shown = |place: &&Place| primary.is_none_or(|address| *address == place.address);
    let Some(reign) = places.iter().filter(protected).find(shown).and_then(|place| place.reign) else {
        return Vec::new();
    };
    let others = places.iter().filter(protected).filter(|place| place.reign != Some(reign));
    others.map(|place| place.address.clone()).collect()
}

impl Role {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Primary => "primary",
            Role::Backup => "backup",
            Role::Seeking => "seeking",
        }
    }
}

impl From<Standing> for Role {
    fn from(standing: Standing) -> Role {
        match standing {
            Standing::Primary => Role::Primary,
            Standing::Backup => Role::Backup,
            _ => Role::Seeking,
        }
    }
}

impl BrokerRow {
    fn new(address: &str, report: &NodeReport) -> BrokerRow {
        let [p50, p99, max] = report.latency.map(|span| span.as_millis_f64());
        BrokerRow {
            address: address.to_owned(),
            name: report.name.clone(),
            role: report.standing.into(),
            epoch: report.epoch.0,
            protected: report.protected,
            clients: report.clients,
            relayed: report.relayed,
            relayed_names: report.relayed_names.clone(),
            streams: report.streams.len(),
            utilisation: report.utilisation,
            latency_p50_ms: p50,
            latency_p99_ms: p99,
            latency_max_ms: max,
            uptime_s: report.taken.since(report.started).as_millis_f64() / 1e3,
            known_changes: report.known,
            store: report.store.as_str().to_owned(),
            store_reason: report.store_reason.clone(),
            counters: report.counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        }
    }
}

impl State {
    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Met => "met",
            State::AtRisk => "at risk",
            State::Broken => "broken",
            State::Silent => "silent",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<TopicState> for State {
    fn from(state: TopicState) -> State {
        match state {
            TopicState::Met => State::Met,
            TopicState::AtRisk => State::AtRisk,
            TopicState::Broken => State::Broken,
            TopicState::Silent => State::Silent,
        }
    }
}

impl TopicRow {
    fn new(stream: &StreamReport) -> TopicRow {
        TopicRow {
            topic: stream.topic.clone(),
            publisher: stream.publisher.clone(),
            state: stream.state.into(),
            why: (stream.concern != Concern::Nothing).then(|| stream.concern.to_string()),
            silent_s: stream.silence.as_millis_f64() / 1e3,
            loss: stream.strictest.loss.to_string(),
            contract: stream.strictest.to_string(),
            longest_run: stream.longest_run,
            lost: stream.lost,
            late: stream.late,
            subscribers_lost: stream.subscribers_lost,
            subscribers_longest_run: stream.subscribers_longest_run,
            subscribers_late: stream.subscribers_late,
            arrived: stream.arrived,
            subscribers: stream.subscribers,
            replicated: stream.replicate,
            latency_last_ms: stream.latency[0].as_millis_f64(),
            latency_max_ms: stream.latency[1].as_millis_f64(),
            deadline_ms: stream.strictest.deadline.as_millis_f64(),
            needs: Some(stream.needs.clone()).filter(|needs| !needs.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back_and_names_its_form() {
        let mut report = PairReport::new(
            &[Place { address: "plant-a:7571".to_owned(), trouble: None, reign: None }],
            &[],
            &mut Before::default(),
        );
        report.topics.push(TopicRow { topic: "a".to_owned(), state: State::AtRisk, ..TopicRow::default() });
        report.brokers.push(BrokerRow { role: Role::Backup, ..BrokerRow::default() });
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.starts_with("{\"schema\":1,\"protected\":false"), "{text}");
        assert!(text.contains("\"state\":\"at risk\"") && text.contains("\"role\":\"backup\""), "{text}");
        assert_eq!(serde_json::from_str::<PairReport>(&text).unwrap(), report);
        assert_eq!(report.unreachable, ["plant-a:7571"]);
    }
}
