//! To which router a topic is given.

use crate::records::Load;
use crate::tree::hash;
use contract::{Mutant, TopicFilter};

/// By what routers are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// By how many topics they carry (rule W2).
    #[default]
    LeastTopics,
    /// By the bytes that leave them.
    LeastTraffic,
    /// By their links to sites.
    LeastConnections,
    /// By the share of a processor that they take.
    LeastProcessor,
    /// By nothing: each topic has a router by its name, and keeps it while that router lives.
    Hash,
}

/// A router as the leader sees it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a str,
    /// Topics that it has been given.
    pub(crate) topics: usize,
    /// What it said of itself, when it last did.
    pub(crate) load: Load,
    /// It is to be rid of its topics.
    pub(crate) drains: bool,
    /// Topics that it is there for before all others; none: for any.
    pub(crate) only: Vec<TopicFilter>,
    /// Topics that it is given at most.
    pub(crate) topics_max: usize,
}

/// How well a router is the one for a topic: less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    /// It is there for this topic.
    Meant,
    /// It is there for any.
    Open,
    /// It is there for others.
    Foreign,
    /// It is to be rid of what it has.
    Drained,
}

/// How well a router that is there for these topics (none: for any) is the one for a topic.
pub fn fit(only: &[TopicFilter], topic: &str) -> Fit {
    if only.is_empty() || Mutant::IgnoreMeaning.is_on() {
        Fit::Open
    } else if only.iter().any(|filter| filter.matches(topic)) {
        Fit::Meant
    } else {
        Fit::Foreign
    }
}

impl Candidate<'_> {
    pub(crate) fn fit(&self, topic: &str) -> Fit {
        if self.drains { Fit::Drained } else { fit(&self.only, topic) }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.topics < self.topics_max
    }
}

/// Of these routers those that fit a topic best.
pub(crate) fn best_for<'b, 'a>(
    topic: &str,
    candidates: impl Iterator<Item = &'b Candidate<'a>> + Clone,
) -> Vec<&'b Candidate<'a>>
where
    'a: 'b,
{
    let best = candidates.clone().map(|candidate| candidate.fit(topic)).min();
    candidates.filter(|candidate| Some(candidate.fit(topic)) == best).collect()
}

/// The router for a topic; `None` where there are none. Equals are decided by topics, and then by name, so that every leader decides alike.
pub(crate) fn choose<'a>(policy: Policy, topic: &str, candidates: &[&Candidate<'a>]) -> Option<&'a str> {
    if policy == Policy::Hash {
        return carrier(topic, candidates.iter().map(|candidate| candidate.name));
    }
    let spoke =
        || candidates.iter().map(|candidate| &candidate.load).filter(|load| **load != Load::default());
    let had = |load: &Load| u64::from(load.topics.max(1));
    // What has been given since it last spoke of itself weighs as much as what it had then, each. One that has not spoken, since it has just begun
    // or failed over, is taken to be like the others.
    let scaled = |candidate: &Candidate<'_>, figure: fn(&Load) -> u64| {
        let (all, topics) = if candidate.load == Load::default() {
            spoke().fold((0, 0), |(all, topics): (u64, u64), load| {
                (all.saturating_add(figure(load)), topics + had(load))
            })
        } else {
            (figure(&candidate.load), had(&candidate.load))
        };
        all.saturating_mul(candidate.topics as u64) / topics.max(1)
    };
    let key = |candidate: &Candidate<'_>| match policy {
        Policy::LeastTopics | Policy::Hash => 0,
        Policy::LeastTraffic => scaled(candidate, |load| load.bytes_per_second),
        // Each topic that was given since may bring a link.
        Policy::LeastConnections => {
            let given = (candidate.topics as u64).saturating_sub(u64::from(candidate.load.topics));
            u64::from(candidate.load.connections) + given
        }
        Policy::LeastProcessor => scaled(candidate, |load| u64::from(load.processor_permille)),
    };
    let best = candidates.iter().min_by_key(|candidate| (key(candidate), candidate.topics, candidate.name));
    best.map(|candidate| candidate.name)
}

/// The router that carries a topic where there is no coordination service, and routers are listed in a file: the one whose name together with
/// the topic's hashes highest. Where a router is added or removed, only its own topics move.
pub fn carrier<'a>(topic: &str, routers: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    routers.into_iter().max_by_key(|router| (hash(&[topic, router]), *router))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn candidate(name: &str, topics: usize, load: Load) -> Candidate<'_> {
        Candidate { name, topics, load, drains: false, only: Vec::new(), topics_max: usize::MAX }
    }

    fn choose<'a>(policy: Policy, topic: &str, candidates: &[Candidate<'a>]) -> Option<&'a str> {
        super::choose(policy, topic, &candidates.iter().collect::<Vec<_>>())
    }

    #[test]
    fn who_is_there_for_a_topic_comes_first_and_who_drains_last() {
        let only = |name, filter: &str| Candidate {
            only: vec![filter.parse().unwrap()],
            ..candidate(name, 0, Load::default())
        };
        let drained = Candidate { drains: true, ..candidate("drained", 0, Load::default()) };
        let all = [only("alarms", "alarm/#"), candidate("open", 9, Load::default()), drained];
        let names = |topic, of: &[Candidate<'static>]| {
            best_for(topic, of.iter()).iter().map(|candidate| candidate.name).collect::<Vec<_>>()
        };
        assert_eq!(names("alarm/1", &all), ["alarms"]);
        assert_eq!(names("flow/1", &all), ["open"]);
        let [alarms, _, drained] = all;
        assert_eq!(names("flow/1", &[alarms, drained.clone()]), ["alarms"]);
        assert_eq!(names("flow/1", &[drained]), ["drained"]);
    }

    #[test]
    fn the_fewest_topics_win_and_then_the_first_name() {
        let none = Load::default();
        let choose = |candidates: &[Candidate<'static>]| choose(Policy::LeastTopics, "t", candidates);
        assert_eq!(choose(&[candidate("r2", 1, none), candidate("r1", 2, none)]), Some("r2"));
        assert_eq!(choose(&[candidate("r2", 1, none), candidate("r1", 1, none)]), Some("r1"));
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn other_policies_go_by_what_routers_say_of_themselves() {
        let busy = Load { topics: 1, connections: 1, bytes_per_second: 900, processor_permille: 10 };
        let calm = Load { topics: 1, connections: 9, bytes_per_second: 100, processor_permille: 90 };
        let routers = [candidate("busy", 1, busy), candidate("calm", 1, calm)];
        for (policy, best) in [
            (Policy::LeastTraffic, "calm"),
            (Policy::LeastConnections, "busy"),
            (Policy::LeastProcessor, "busy"),
            (Policy::LeastTopics, "busy"),
        ] {
            assert_eq!(choose(policy, "t", &routers), Some(best), "{policy:?}");
        }
        // Ten topics given since: it is not the calmer one any more.
        let given = [candidate("busy", 1, busy), candidate("calm", 10, calm)];
        assert_eq!(choose(Policy::LeastTraffic, "t", &given), Some("busy"));
        let given = [candidate("busy", 10, busy), candidate("calm", 1, calm)];
        assert_eq!(choose(Policy::LeastConnections, "t", &given), Some("calm"));
    }

    /// A router that has just failed over has said nothing yet, and has as many topics as before.
    #[test]
    fn who_has_not_spoken_is_taken_to_be_like_the_others() {
        let spoken = Load { topics: 10, connections: 5, bytes_per_second: 1_000, processor_permille: 100 };
        let silent = Load::default();
        for (topics, best) in [(30, "spoken"), (5, "silent")] {
            let routers = [candidate("silent", topics, silent), candidate("spoken", 10, spoken)];
            for policy in [Policy::LeastTraffic, Policy::LeastProcessor] {
                assert_eq!(choose(policy, "t", &routers), Some(best), "{policy:?} {topics}");
            }
        }
        let routers = [candidate("silent", 6, silent), candidate("spoken", 10, spoken)];
        assert_eq!(choose(Policy::LeastConnections, "t", &routers), Some("spoken"));
    }

    /// Only the topics of a router that goes move, and the others share them about equally.
    #[test]
    fn by_hash_only_what_must_move_moves() {
        let all = ["r1", "r2", "r3", "r4"];
        let mut share: BTreeMap<&str, usize> = BTreeMap::new();
        for topic in (0..4_000).map(|n| format!("plant/{n}")) {
            let before = carrier(&topic, all).unwrap();
            let after = carrier(&topic, all.into_iter().filter(|router| *router != "r2")).unwrap();
            assert!(before == "r2" || before == after, "{topic} moved from {before} to {after}");
            *share.entry(before).or_default() += 1;
        }
        assert!(share.len() == 4 && share.values().all(|count| (850..1_150).contains(count)), "{share:?}");
    }
}
