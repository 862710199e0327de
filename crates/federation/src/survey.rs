//! What stands in the tree, for people.

use crate::records::{Holder, RouterRecord, ShardRecord, SiteRecord, TopicRecord, from_bytes};
use crate::tree::{
    ASSIGN, BROKERS, DRAINS, EDGES, LEADERS, Side, VERSION, VERSION_PATH, last, topic_of, unescape,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What stands in the tree.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Survey {
    /// What the layout is called; empty: there is no tree.
    pub layout: String,
    /// The router that leads, if one does.
    pub leader: Option<String>,
    /// Routers that live, or still have topics.
    pub routers: BTreeMap<String, SurveyedRouter>,
    /// Sites that are there, and the reign in which each has claimed its name.
    pub sites: BTreeMap<String, u64>,
    /// Topics.
    pub topics: BTreeMap<String, SurveyedTopic>,
    /// Nodes that are none of this layout.
    pub foreign: BTreeSet<String>,
}

/// A router.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SurveyedRouter {
    /// What it says of itself; `None`: it does not live.
    pub record: Option<RouterRecord>,
    /// Topics that it has been given.
    pub topics: usize,
    /// An admin has said that it is to be rid of them.
    pub drains: bool,
}

/// A topic.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SurveyedTopic {
    /// Where it goes.
    #[serde(flatten)]
    pub record: TopicRecord,
    /// Sites that publish it.
    pub published: BTreeSet<String>,
    /// Sites that want it.
    pub wanted: BTreeSet<String>,
    /// Sites for which it is kept while they are away.
    pub kept: BTreeSet<String>,
}

impl Survey {
    /// Whether the tree is of this release.
    pub fn is_ours(&self) -> bool {
        self.layout == VERSION
    }

    /// What follows from these nodes and what each holds; folders may be among them or not.
    pub fn of<'a>(nodes: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Survey {
        let mut survey = Survey::default();
        let mut candidates = BTreeMap::new();
        for (path, data) in nodes {
            survey.take(path, data, &mut candidates);
        }
        let first: Option<Holder> = candidates.into_values().next();
        let is_first = |router: &SurveyedRouter| {
            router
                .record
                .as_ref()
                .zip(first.as_ref())
                .is_some_and(|(record, first)| record.holder.identity == first.identity)
        };
        let leader = survey.routers.iter().find(|(_, router)| is_first(router));
        survey.leader = leader.map(|(name, _)| name.clone());
        survey
    }

    fn take(&mut self, path: &str, data: &[u8], candidates: &mut BTreeMap<String, Holder>) {
        let below = |above: &str| path.strip_prefix(above)?.strip_prefix('/').map(str::to_owned);
        let is_foreign = if path == VERSION_PATH {
            self.layout = String::from_utf8_lossy(data).into_owned();
            false
        } else if let Some(name) = below(LEADERS) {
            let holder = from_bytes::<Holder>(data);
            let is_none = holder.is_none();
            candidates.extend(holder.map(|holder| (name, holder)));
            is_none
        } else if let Some(name) = below(BROKERS) {
            let known = unescape(&name).zip(from_bytes::<RouterRecord>(data));
            let is_none = known.is_none();
            known.into_iter().for_each(|(name, record)| {
                self.routers.entry(name).or_default().record = Some(record);
            });
            is_none
        } else if let Some(rest) = below(ASSIGN) {
            let router = unescape(rest.split('/').next().unwrap_or_default());
            let shard = rest.contains('/').then(|| from_bytes::<ShardRecord>(data));
            let topics = shard.flatten().map_or(0, |shard| shard.topics.len());
            let is_none = router.is_none();
            router.into_iter().for_each(|router| self.routers.entry(router).or_default().topics += topics);
            is_none
        } else if let Some(name) = below(DRAINS) {
            let router = unescape(&name);
            let is_none = router.is_none();
            router.into_iter().for_each(|router| self.routers.entry(router).or_default().drains = true);
            is_none
        } else if let Some(name) = below(EDGES) {
            let known = unescape(&name).zip(from_bytes::<SiteRecord>(data));
            let is_none = known.is_none();
            self.sites.extend(known.map(|(name, record)| (name, record.holder.reign)));
            is_none
        } else {
            self.take_topic(path, data)
        };
        if is_foreign {
            self.foreign.insert(path.to_owned());
        }
    }

    /// Returns whether it is none of ours.
    fn take_topic(&mut self, path: &str, data: &[u8]) -> bool {
        let folders = ["", "/topics", BROKERS, ASSIGN, DRAINS, EDGES, LEADERS];
        let depth = path.matches('/').count();
        if folders.contains(&path) || path.starts_with("/topics/") && depth == 2 {
            return false;
        }
        let Some((name, side)) = topic_of(path) else { return true };
        let topic = self.topics.entry(name).or_default();
        match (side, depth, unescape(last(path))) {
            (None, 3, _) => match TopicRecord::of(data) {
                Some(record) => topic.record = record,
                None => return true,
            },
            (Some(_), 4, _) => {}
            (Some(side), 5, Some(site)) => {
                let sites = match side {
                    Side::Publishes => &mut topic.published,
                    Side::Subscribes => &mut topic.wanted,
                    Side::Keeps => &mut topic.kept,
                };
                sites.insert(site);
            }
            _ => return true,
        }
        false
    }
}
