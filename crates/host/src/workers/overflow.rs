//! Events for a level that is so far behind that its inbox is full.
//!
//! The problem: an inbox that is full of old events, and refuses what is new, leaves a level with nothing but what is stale when its
//! turn comes. The idea: what does not fit waits here, where an input that wants the newest (`keep = "latest"`) has one place, and of all
//! others the oldest gives way. The workers take what is in the inbox into the operators' inputs before anything runs, and these
//! keep the newest as well, so what is here is what is worth keeping.

use processing::{Event, Place, Route, Station, Stats};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What waits in front of an inbox, for one level.
#[derive(Default)]
pub(crate) struct Overflow {
    /// Operators whose inputs keep only the newest.
    latest: BTreeMap<Place, Arc<Stats>>,
    /// What waits for those, by input.
    newest: BTreeMap<(Place, u8), Event>,
    /// What waits for all others, in order.
    others: VecDeque<(Route, Event)>,
}

impl Overflow {
    /// There is an operator.
    pub(crate) fn add(&mut self, station: &Station) {
        if station.keeps_latest() {
            self.latest.insert(station.place(), Arc::clone(station.stats()));
        }
    }

    /// It is gone, with what waits for it.
    pub(crate) fn remove(&mut self, place: Place) {
        self.latest.remove(&place);
        self.newest.retain(|(there, _), _| *there != place);
        self.others.retain(|(route, _)| route.to != place);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.others.is_empty()
    }

    /// Keeps an event. No more than `most` wait in order. Returns whether an older one of another input had to go for it.
    pub(crate) fn keep(&mut self, route: Route, event: Event, most: usize) -> bool {
        if let Some(stats) = self.latest.get(&route.to) {
            if self.newest.insert((route.to, route.slot), event).is_some() {
                stats.count_overtaken();
            }
            return false;
        }
        self.others.push_back((route, event));
        self.others.len() > most && self.others.pop_front().is_some()
    }

    /// The next that goes into the inbox.
    pub(crate) fn take(&mut self) -> Option<(Route, Event)> {
        let newest = self.newest.pop_first();
        let newest = newest.map(|((to, slot), event)| (Route { to, slot }, event));
        newest.or_else(|| self.others.pop_front())
    }
}
