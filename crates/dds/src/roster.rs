//! Who is there: what this bridge says of its domain, and what it has heard of others. Words may be lost; versions show it, and the whole
//! list is asked for.

use crate::endpoint::{Endpoint, Guid};
use crate::words::{BridgeId, Counts, Who, Word, in_parts};
use contract::{Mutant, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Bridges that are known at once. Further ones are not heard.
pub const BRIDGES_MAX: usize = 256;
/// Endpoints of all other bridges together. Further ones are not heard.
pub const ENDPOINTS_MAX: usize = 65_536;
/// How long to wait for a list before asking again.
const ASK_AGAIN: Span = Span::secs(1);
/// Bridges of which the newest word is known; those that have ended are forgotten above it.
const NEWEST_MAX: usize = 4 * BRIDGES_MAX;
/// Parts of one list.
const PARTS_MAX: u32 = 16_384;

/// What this bridge says of its own domain.
#[derive(Debug, Default)]
pub(crate) struct Said {
    version: u64,
    endpoints: BTreeMap<Guid, Endpoint>,
    added: BTreeSet<Guid>,
    removed: BTreeSet<Guid>,
}

impl Said {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn add(&mut self, endpoint: &Endpoint) {
        self.removed.remove(&endpoint.guid);
        self.added.insert(endpoint.guid);
        self.endpoints.insert(endpoint.guid, endpoint.clone());
    }

    pub(crate) fn remove(&mut self, guid: Guid) {
        if self.endpoints.remove(&guid).is_some() {
            self.added.remove(&guid);
            self.removed.insert(guid);
        }
    }

    /// What has changed since this was last called.
    pub(crate) fn changes(&mut self, who: &Who) -> Vec<Word> {
        if self.added.is_empty() && self.removed.is_empty() {
            return Vec::new();
        }
        let added = std::mem::take(&mut self.added);
        let added = added.iter().filter_map(|guid| self.endpoints.get(guid).cloned());
        let mut removed: Vec<Guid> = std::mem::take(&mut self.removed).into_iter().collect();
        let word = |added| {
            self.version += 1;
            Word::Change {
                bridge: who.clone(),
                version: self.version,
                added,
                removed: removed.split_off(removed.len().saturating_sub(REMOVED_MAX)),
            }
        };
        let mut words: Vec<Word> = in_parts(added).into_iter().map(word).collect();
        while !removed.is_empty() {
            self.version += 1;
            let part = removed.split_off(removed.len().saturating_sub(REMOVED_MAX));
            words.push(Word::Change {
                bridge: who.clone(),
                version: self.version,
                added: Vec::new(),
                removed: part,
            });
        }
        words
    }

    /// The whole list. Changes that have not been said are in it, and are said all the same.
    pub(crate) fn all(&self, who: &Who) -> Vec<Word> {
        let parts = in_parts(self.endpoints.values().cloned());
        let count = parts.len() as u32;
        let word = |(part, endpoints)| Word::All {
            bridge: who.clone(),
            version: self.version,
            part: part as u32,
            parts: count,
            endpoints,
        };
        parts.into_iter().enumerate().map(word).collect()
    }
}

/// Endpoints that go with one word.
const REMOVED_MAX: usize = 256;

/// Another bridge.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Who it is.
    pub who: Who,
    /// Whether it waits, since another one serves its domain.
    pub stands_by: bool,
    /// What it has done.
    pub counts: Counts,
    /// The readers and writers of its domain.
    pub endpoints: BTreeMap<Guid, Endpoint>,
    /// The state of that list; `None`: it has not come yet.
    version: Option<u64>,
    coming: Option<Coming>,
    heard: Time,
    asked: Option<Time>,
}

/// A list that comes in parts.
#[derive(Clone, Debug)]
struct Coming {
    version: u64,
    parts: BTreeMap<u32, Vec<Endpoint>>,
}

/// What other bridges have said.
#[derive(Debug, Default)]
pub struct Heard {
    bridges: BTreeMap<BridgeId, Remote>,
    /// The newest word of each bridge, also of those that have ended: what they said before may still come.
    newest: BTreeMap<BridgeId, u64>,
    by_topic: BTreeMap<String, BTreeSet<(BridgeId, Guid)>>,
    announced: BTreeMap<Guid, BTreeSet<BridgeId>>,
    endpoints: usize,
    /// Bridges and endpoints that were too many.
    refused: u64,
}

/// What follows from a word.
#[derive(Debug, Default)]
pub struct Heed {
    /// Topics of DDS of which something has changed.
    pub topics: BTreeSet<String>,
    /// Whom to ask for its list.
    pub ask: Option<BridgeId>,
}

impl Heard {
    /// Those who are there.
    pub fn bridges(&self) -> impl Iterator<Item = &Remote> {
        self.bridges.values()
    }

    /// Bridges and endpoints that were too many to be heard.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Endpoints of a topic of DDS, in other domains.
    pub(crate) fn of_topic(&self, topic: &str) -> impl Iterator<Item = (BridgeId, &Endpoint)> {
        let known = self.by_topic.get(topic).into_iter().flatten();
        known.filter_map(|(id, guid)| Some((*id, self.bridges.get(id)?.endpoints.get(guid)?)))
    }

    /// Whether a bridge says that a writer is in its domain.
    pub(crate) fn is_said_by(&self, writer: Guid, bridge: BridgeId) -> bool {
        self.announced.get(&writer).is_some_and(|bridges| bridges.contains(&bridge))
    }

    /// Who says that a writer is in its domain.
    pub(crate) fn sayer_of(&self, writer: Guid) -> Option<BridgeId> {
        self.announced.get(&writer)?.first().copied()
    }

    /// Something has come of a bridge.
    pub(crate) fn is_alive(&mut self, now: Time, bridge: BridgeId) {
        if let Some(remote) = self.bridges.get_mut(&bridge) {
            remote.heard = now;
        }
    }

    /// What a bridge is called.
    pub(crate) fn name_of(&self, bridge: BridgeId) -> &str {
        self.bridges.get(&bridge).map_or("", |remote| &remote.who.name)
    }

    /// Whether another bridge of this name has been heard since then.
    pub(crate) fn is_heard_since(&self, since: Time, name: &str, but: BridgeId) -> bool {
        self.bridges.values().any(|it| it.who.id != but && it.who.name == name && it.heard > since)
    }

    /// Takes a word of another bridge, with its number. One that is older than another of the same bridge says nothing.
    pub fn hear(&mut self, now: Time, number: u64, word: Word) -> Heed {
        let mut heed = Heed::default();
        let Some(speaker) = word.speaker() else { return heed };
        let newest = self.newest.entry(speaker.id).or_default();
        if number <= *newest && !Mutant::HeedOldWords.is_on() {
            return heed;
        }
        *newest = number;
        if self.newest.len() > NEWEST_MAX {
            let bridges = &self.bridges;
            self.newest.retain(|id, _| bridges.contains_key(id));
        }
        match word {
            Word::Beat { bridge, version, stands_by, counts } => {
                let Some(remote) = self.of(now, &bridge) else { return heed };
                (remote.stands_by, remote.counts) = (stands_by, counts);
                if stands_by {
                    // It serves nobody, so that it has no list.
                    remote.version = Some(version);
                    let listed: Vec<Guid> = remote.endpoints.keys().copied().collect();
                    listed.into_iter().for_each(|guid| self.forget(bridge.id, guid, &mut heed.topics));
                } else {
                    heed.ask = remote.wants_list(now, version);
                }
            }
            Word::Change { bridge, version, added, removed } => {
                let Some(remote) = self.of(now, &bridge) else { return heed };
                if remote.version.map(|known| known.wrapping_add(1)) == Some(version) {
                    remote.version = Some(version);
                    removed.iter().for_each(|guid| self.forget(bridge.id, *guid, &mut heed.topics));
                    added.into_iter().for_each(|endpoint| self.learn(bridge.id, endpoint, &mut heed.topics));
                } else {
                    heed.ask = remote.wants_list(now, version);
                }
            }
            Word::All { bridge, version, part, parts, endpoints } if part < parts && parts <= PARTS_MAX => {
                let Some(remote) = self.of(now, &bridge) else { return heed };
                let fresh = remote.coming.as_ref().is_none_or(|coming| coming.version != version);
                if fresh {
                    remote.coming = Some(Coming { version, parts: BTreeMap::new() });
                }
                let Some(coming) = &mut remote.coming else { return heed };
                coming.parts.insert(part, endpoints);
                let so_far: usize = coming.parts.values().map(Vec::len).sum();
                if coming.parts.len() < parts as usize && so_far <= ENDPOINTS_MAX {
                    return heed;
                }
                let all: Vec<Endpoint> = std::mem::take(&mut coming.parts).into_values().flatten().collect();
                (remote.coming, remote.version) = (None, Some(version));
                let kept: BTreeSet<Guid> = all.iter().map(|endpoint| endpoint.guid).collect();
                let gone: Vec<Guid> =
                    remote.endpoints.keys().filter(|guid| !kept.contains(guid)).copied().collect();
                gone.into_iter().for_each(|guid| self.forget(bridge.id, guid, &mut heed.topics));
                all.into_iter().for_each(|endpoint| self.learn(bridge.id, endpoint, &mut heed.topics));
            }
            Word::Gone { bridge } => self.end(bridge.id, &mut heed.topics),
            Word::All { .. } | Word::Ask { .. } | Word::Recall { .. } | Word::Ready { .. } => {}
        }
        heed
    }

    /// Forgets bridges of which nothing has been heard for so long. Returns the topics of DDS of which something has changed.
    pub fn age(&mut self, now: Time, lease: Span) -> BTreeSet<String> {
        let mut topics = BTreeSet::new();
        let silent = self.bridges.values().filter(|remote| now.since(remote.heard) > lease);
        let silent: Vec<BridgeId> = silent.map(|remote| remote.who.id).collect();
        silent.into_iter().for_each(|id| self.end(id, &mut topics));
        topics
    }

    fn of(&mut self, now: Time, who: &Who) -> Option<&mut Remote> {
        if !self.bridges.contains_key(&who.id) && self.bridges.len() >= BRIDGES_MAX {
            self.refused += 1;
            return None;
        }
        let remote = self.bridges.entry(who.id).or_insert_with(|| Remote {
            who: who.clone(),
            stands_by: false,
            counts: Counts::default(),
            endpoints: BTreeMap::new(),
            version: None,
            coming: None,
            heard: now,
            asked: None,
        });
        remote.heard = now;
        Some(remote)
    }

    fn learn(&mut self, id: BridgeId, endpoint: Endpoint, topics: &mut BTreeSet<String>) {
        let Some(remote) = self.bridges.get_mut(&id) else { return };
        let known = remote.endpoints.get(&endpoint.guid);
        if known == Some(&endpoint) {
            return;
        }
        if known.is_some() {
            self.forget(id, endpoint.guid, topics);
        }
        if self.endpoints >= ENDPOINTS_MAX {
            self.refused += 1;
            return;
        }
        self.endpoints += 1;
        topics.insert(endpoint.topic.clone());
        self.by_topic.entry(endpoint.topic.clone()).or_default().insert((id, endpoint.guid));
        if endpoint.writes {
            self.announced.entry(endpoint.guid).or_default().insert(id);
        }
        if let Some(remote) = self.bridges.get_mut(&id) {
            remote.endpoints.insert(endpoint.guid, endpoint);
        }
    }

    fn forget(&mut self, id: BridgeId, guid: Guid, topics: &mut BTreeSet<String>) {
        let remote = self.bridges.get_mut(&id);
        let Some(endpoint) = remote.and_then(|remote| remote.endpoints.remove(&guid)) else { return };
        self.endpoints -= 1;
        if let Some(known) = self.by_topic.get_mut(&endpoint.topic) {
            known.remove(&(id, guid));
            if known.is_empty() {
                self.by_topic.remove(&endpoint.topic);
            }
        }
        if let Some(bridges) = self.announced.get_mut(&guid) {
            bridges.remove(&id);
            if bridges.is_empty() {
                self.announced.remove(&guid);
            }
        }
        topics.insert(endpoint.topic);
    }

    fn end(&mut self, id: BridgeId, topics: &mut BTreeSet<String>) {
        let Some(remote) = self.bridges.get(&id) else { return };
        let guids: Vec<Guid> = remote.endpoints.keys().copied().collect();
        guids.into_iter().for_each(|guid| self.forget(id, guid, topics));
        self.bridges.remove(&id);
    }
}

impl Remote {
    /// Whether its list has come.
    pub fn is_known(&self) -> bool {
        self.version.is_some()
    }

    /// Itself, where its list is not the one that is known, and nobody has asked just now.
    fn wants_list(&mut self, now: Time, version: u64) -> Option<BridgeId> {
        let asked = self.asked.is_some_and(|asked| now.since(asked) < ASK_AGAIN);
        if self.version == Some(version) || asked {
            return None;
        }
        self.asked = Some(now);
        Some(self.who.id)
    }
}
