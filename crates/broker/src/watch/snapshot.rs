//! Everything that a broker measures, at one instant, for whoever watches it from another thread.

use crate::broker::{Broker, Occupancy};
use crate::settings::Limits;
use crate::watch::classes::ClassCounts;
use crate::watch::status::{Failing, Survey};
use contract::{Epoch, NodeId, Reign, Span, Time, invariant};
use wire::{Counters, LevelStatus, LevelStatuses, NodeStatus, Standing, StoreState, TopicState};

/// A broker at one instant. It is filled again and again: what it has reserved stays, so that filling it does not allocate.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whether streams are to be looked at, one by one. Who asks says so.
    pub with_streams: bool,
    /// The broker's name.
    pub name: String,
    /// Its counters and standing. The name in it is empty.
    pub node: NodeStatus<'static>,
    /// How full its tables are.
    pub occupancy: Occupancy,
    /// Their limits.
    pub limits: Limits,
    /// The share of one processor that admission may give away, in millionths.
    pub share_ppm: u32,
    /// Whether it has a partner by its configuration.
    pub has_peer: bool,
    /// Whether it reigns, or knows who does.
    pub knows_primary: bool,
    /// Whether it has been asked to end.
    pub leaving: bool,
    /// Why the store was given up; empty while it writes, or if there is none. What it does is in `node`.
    pub store_reason: String,
    /// Streams whose contract is met, at risk, broken, and those that are silent; only if they were asked for.
    pub states: [u64; 4],
    /// Counts by class of contract.
    pub classes: Vec<(String, ClassCounts)>,
    /// Levels of operators that have something to show.
    pub levels: Vec<LevelStatus>,
    /// Operators whose runs have failed.
    pub failing: Vec<Failing>,
    /// How often promises of the program to itself were broken in this process.
    pub broken_invariants: u64,
    /// What other parts of the node count, by the names of their metrics.
    pub figures: Vec<(&'static str, u64)>,
    /// Connections that the process refused or gave up before the node knew them, by cause.
    pub troubles: Vec<(&'static str, u64)>,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot {
            with_streams: false,
            name: String::new(),
            node: EMPTY,
            occupancy: Occupancy::default(),
            limits: Limits::default(),
            share_ppm: 0,
            has_peer: false,
            knows_primary: false,
            leaving: false,
            store_reason: String::new(),
            states: [0; 4],
            classes: Vec::new(),
            levels: Vec::new(),
            failing: Vec::new(),
            broken_invariants: 0,
            figures: Vec::new(),
            troubles: Vec::new(),
        }
    }
}

/// A broker of which nothing is known.
const EMPTY: NodeStatus<'static> = NodeStatus {
    name: "",
    standing: Standing::Seeking,
    reign: Reign { epoch: Epoch(0), node: NodeId(0) },
    node: NodeId(0),
    protected: false,
    started: Time::ZERO,
    taken: Time::ZERO,
    streams: 0,
    operators: 0,
    clients: 0,
    relayed: 0,
    relayed_names: "",
    silent: 0,
    utilisation_ppm: 0,
    queued: 0,
    counters: Counters::ZERO,
    latency: [Span::ZERO; 3],
    known: 0,
    store: StoreState::None,
    store_reason: "",
};

impl Broker {
    /// Fills a snapshot. `survey` is what operators do; its levels are taken over.
    pub fn fill(&self, now: Time, survey: &Survey, into: &mut Snapshot) {
        into.name.clear();
        into.name.push_str(&self.settings.name);
        into.node = self.node_status("", now, survey);
        into.occupancy = self.occupancy();
        into.limits = self.settings.limits;
        into.share_ppm = self.settings.supply.share_ppm;
        into.has_peer = self.settings.has_peer;
        into.knows_primary = self.is_primary() || self.membership.pair.forward_link().is_some();
        into.leaving = self.is_leaving();
        into.states = [0; 4];
        if into.with_streams {
            for (_, stream) in self.flow.store.table.streams() {
                let Some(topic) = self.flow.store.table.topic(stream.topic) else {
                    invariant!("a stream's topic is there");
                    continue;
                };
                let place = match self.state(now, stream, topic) {
                    TopicState::Met => 0,
                    TopicState::AtRisk => 1,
                    TopicState::Broken => 2,
                    TopicState::Silent => 3,
                };
                into.states[place] += 1;
            }
        }
        // Classes stay the same while a process lives.
        if into.classes.len() == self.flow.stats.classes.iter().count() {
            let pairs = into.classes.iter_mut().zip(self.flow.stats.classes.iter());
            pairs.for_each(|((_, known), (_, counts))| *known = *counts);
        } else {
            let classes = self.flow.stats.classes.iter().map(|(name, counts)| (name.to_owned(), *counts));
            into.classes = classes.collect();
        }
        into.broken_invariants = contract::invariants::broken();
        into.levels.clear();
        into.levels.extend(LevelStatuses::of(&survey.levels));
        into.failing.clone_from(&survey.failing);
    }
}
