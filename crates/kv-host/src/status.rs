//! What tasks and tools get when they ask: places at a lane, and how the node does.

use crate::clients::Change;
use crate::links::Links;
use crate::report::Shared;
use crate::settings::NodeSettings;
use contract::{Span, Time};
use kv::{NodeSet, PeerCounters, Setup};
use kv_shared::{Backend, Quotas, RingReader, Seat, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// One for the whole node.
pub(crate) struct Desk {
    settings: NodeSettings,
    lanes: Vec<LaneDesk>,
    links: Arc<Links>,
}

/// One lane, for those who are not on time.
pub(crate) struct LaneDesk {
    setup: Arc<Setup>,
    store: Arc<Store>,
    vectors: Option<Arc<Store>>,
    changes: SyncSender<Change>,
    shared: Shared,
    clients: Mutex<Book>,
}

/// Who has which place.
struct Book {
    quotas: Quotas,
    names: BTreeMap<u32, (String, usize)>,
}

impl LaneDesk {
    pub(crate) fn new(
        setup: Arc<Setup>,
        (store, vectors): (Store, Option<Store>),
        changes: SyncSender<Change>,
        shared: Shared,
    ) -> LaneDesk {
        let book = Book { quotas: Quotas::new(setup.batch_tuples_max()), names: BTreeMap::new() };
        let vectors = vectors.map(Arc::new);
        LaneDesk { setup, store: Arc::new(store), vectors, changes, shared, clients: Mutex::new(book) }
    }

    fn attach(&self, tuples: usize, name: &str) -> Result<Seat, String> {
        let ring = RingReader::create(&self.setup, tuples).map_err(|error| error.to_string())?;
        let file = ring.file().try_clone_to_owned().map_err(|error| error.to_string())?;
        let mut book = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = book.quotas.take(tuples).map_err(|error| error.to_string())?;
        if self.changes.try_send(Change::Attach(slot, ring)).is_err() {
            book.quotas.give_back(slot);
            return Err(
                "the lane has not begun yet, or clients come faster than it takes them: try again".to_owned()
            );
        }
        book.names.insert(slot, (name.to_owned(), tuples));
        Ok(Seat { slot, ring: file })
    }

    fn detach(&self, slot: u32) {
        let mut book = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if book.names.remove(&slot).is_some() {
            // Nobody hears it once the lane has ended.
            drop(self.changes.send(Change::Detach(slot)));
            book.quotas.give_back(slot);
        }
    }
}

impl Desk {
    pub(crate) fn new(settings: NodeSettings, lanes: Vec<LaneDesk>, links: Arc<Links>) -> Desk {
        Desk { settings, lanes, links }
    }

    pub(crate) fn name(&self, node: kv::Node) -> &str {
        self.settings.nodes.get(node.index()).map_or("", |node| &node.name)
    }

    pub(crate) fn nodes(&self) -> usize {
        self.settings.nodes.len()
    }

    fn names(&self, set: NodeSet) -> Vec<&str> {
        set.iter().map(|node| self.name(node)).collect()
    }

    fn lane(&self, number: u16) -> Option<&LaneDesk> {
        self.lanes.iter().find(|lane| lane.setup.config().lane == number)
    }

    fn lane_status(&self, lane: &LaneDesk) -> Value {
        let report = lane.shared.read();
        let facts = &report.facts;
        let seconds = |nanos: f64| nanos / 1e9;
        let coordination = (!report.coordination.is_empty()).then(|| {
            let at = |quantile| seconds(report.coordination.value_at_quantile(quantile) as f64);
            json!({
                "mean": seconds(report.coordination.mean()), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999),
                "worst": seconds(report.coordination.max() as f64),
            })
        });
        let last = facts.last.map(|last| {
            json!({
                "job": last.job, "published": last.published, "late": last.late, "silent": self.names(last.silent),
                "liars": self.names(last.liars), "agree": self.names(last.comparison.agree),
                "differ": self.names(last.comparison.differ), "alarm": last.alone, "fenced": last.fenced, "sure": last.sure,
            })
        });
        let peers = (0..self.nodes()).map(kv::Node::at).filter(|peer| *peer != self.settings.me);
        let peers: Vec<Value> = peers
            .map(|peer| {
                let (sends, hears) = (facts.sends_to.contains(peer), facts.hears.contains(peer));
                self.peer_status(peer, &report.peers[peer.index()], sends, hears)
            })
            .collect();
        let votes: Vec<Value> = lane
            .setup
            .vote_functions()
            .iter()
            .map(|vote| json!({ "name": vote.name(), "failed": vote.failed(), "last_failure": vote.last_failure() }))
            .collect();
        let margin = (report.margin_min != Span::FOREVER).then(|| report.margin_min.0 as f64 / 1e9);
        let (jobs, writes) = (facts.jobs, facts.writes);
        json!({
            "lane": lane.setup.config().lane,
            "state": lane.store.state().name(),
            "period_seconds": lane.setup.period().0 as f64 / 1e9,
            "offset_seconds": lane.setup.config().offset.0 as f64 / 1e9,
            "round_seconds": lane.setup.round().0 as f64 / 1e9,
            "keys": lane.setup.keys(),
            "jobs": { "counted": jobs, "complete": facts.complete, "skipped": facts.skipped, "fenced": facts.fenced, "recovered": facts.recovered, "disagreed": facts.disagreed, "alarms": facts.alarms },
            "troubled_seconds_ago": (facts.troubled != Time::ZERO).then(|| host::now().since(facts.troubled).0 as f64 / 1e9),
            "knows_all": facts.last.is_some_and(|last| last.sure),
            "alarm": facts.last.is_some_and(|last| last.alone),
            "last": last,
            "coordination_seconds": coordination,
            "margin_min_seconds": margin,
            "late_publish": facts.late_publish,
            "votes_failed": facts.votes_failed,
            "votes": votes,
            "clock_back_seconds": facts.clock_back.0 as f64 / 1e9,
            "writes": { "taken": writes.taken, "too_late": writes.too_late, "refused": writes.refused, "broken_clients": writes.broken },
            "peers": peers,
            "clients": lane.clients_status(),
        })
    }

    fn peer_status(&self, peer: kv::Node, counters: &PeerCounters, sends: bool, hears: bool) -> Value {
        let clock = self
            .links
            .clocks
            .bounds(peer)
            .map(|(low, high)| json!([low.0 as f64 / 1e9, high.0 as f64 / 1e9]));
        json!({
            "name": self.name(peer),
            "address": self.settings.nodes[peer.index()].address.to_string(),
            "sends": sends,
            "hears": hears,
            "silent": counters.silent, "late": counters.late, "forged": counters.forged, "wrong": counters.wrong,
            "repeated": counters.repeated, "lied": counters.lied, "differed": counters.differed,
            "clock_ahead_seconds": clock,
        })
    }
}

impl LaneDesk {
    fn clients_status(&self) -> Vec<Value> {
        let book = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |(slot, (name, tuples)): (&u32, &(String, usize))| json!({ "slot": slot, "name": name, "tuples": tuples });
        book.names.iter().map(one).collect()
    }
}

impl Backend for Desk {
    fn store(&self, lane: u16) -> Option<Arc<Store>> {
        self.lane(lane).map(|lane| lane.store.clone())
    }

    fn vectors(&self, lane: u16) -> Option<Arc<Store>> {
        self.lane(lane)?.vectors.clone()
    }

    fn nodes(&self) -> Vec<String> {
        self.settings.nodes.iter().map(|node| node.name.clone()).collect()
    }

    fn attach(&self, lane: u16, tuples: usize, name: &str) -> Result<Seat, String> {
        let lane = self
            .lane(lane)
            .ok_or_else(|| format!("there is no lane {lane}: `verge kv status` names them"))?;
        lane.attach(tuples, name)
    }

    fn detach(&self, lane: u16, slot: u32) {
        if let Some(lane) = self.lane(lane) {
            lane.detach(slot);
        }
    }

    fn status(&self) -> Value {
        let lanes: Vec<Value> = self.lanes.iter().map(|lane| self.lane_status(lane)).collect();
        let setup = self.lanes.first().map(|lane| &lane.setup);
        json!({
            "node": self.name(self.settings.me),
            "version": env!("CARGO_PKG_VERSION"),
            "faults": setup.map(|setup| setup.faults()),
            "nodes": self.settings.nodes.iter().map(|node| &node.name).collect::<Vec<_>>(),
            "lanes": lanes,
        })
    }
}
