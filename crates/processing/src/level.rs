//! The operators of one level: what waits, whose turn it is, and what has to be handed to other levels.
//!
//! The problem: urgent steps must not wait for others, and still share what they make with less urgent ones. The idea: each
//! operator belongs to one level, which has its own queue and its own workers. Whatever goes to another level waits in this
//! level's hand-over queue until nothing of this level is ready, and goes before anything of a lower level runs. So the order
//! is: run level 0, hand over from level 0, run level 1, hand over from level 1, and so on.
//!
//! Within a level the earliest deadline goes first; without deadlines, the first that became ready.
//!
//! Source: CPEP §2.4.1 and §2.4.2 (A3 and A5). There each event waits in a queue for its operator; here it waits
//! in the operator's input, and the operator in the queue, which is the same order with fewer entries.

use crate::event::{Event, Pulse};
use crate::memory::Streams;
use crate::operator::{Answer, Fault};
use crate::station::{Outlet, Place, Route, Run, Save, Station};
use crate::stats::Stats;
use contract::{Mutant, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The operators of one level.
#[derive(Default)]
pub struct LevelQueue {
    stations: Vec<Option<Box<Station>>>,
    /// Deadline, order of becoming ready, place.
    ready: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// What goes to other levels: the more urgent ones first, and in order.
    moving: BinaryHeap<Moving>,
    entered: u64,
}

/// An event that waits to be handed to another level.
struct Moving {
    rank: Reverse<(u8, u64)>,
    route: Route,
    event: Event,
}

impl PartialEq for Moving {
    fn eq(&self, other: &Moving) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Moving {}

impl PartialOrd for Moving {
    fn partial_cmp(&self, other: &Moving) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moving {
    fn cmp(&self, other: &Moving) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// Who takes the results of a level.
pub trait Results {
    /// A result for somebody outside of the graph.
    fn result(&mut self, outlet: Outlet, event: Event);

    /// A run failed.
    fn fault(&mut self, operator: &Arc<str>, stats: &Arc<Stats>, fault: &Fault);

    /// A run took longer than was said: so long, and this was said.
    fn overran(&mut self, operator: &Arc<str>, stats: &Arc<Stats>, took: Span, cost: Span) {
        let _ = (operator, stats, took, cost);
    }
}

impl LevelQueue {
    /// Puts an operator at its place.
    pub fn add(&mut self, station: Box<Station>) {
        let index = station.place.index as usize;
        if self.stations.len() <= index {
            self.stations.resize_with(index + 1, || None);
        }
        self.stations[index] = Some(station);
    }

    /// Takes an operator away, with what waits for it. A run that is under way ends without effect.
    pub fn remove(&mut self, place: Place) {
        if let Some(there) = self.stations.get_mut(place.index as usize) {
            there.take_if(|station| station.place == place);
        }
    }

    /// Gives an event to one of its operators.
    pub fn offer(&mut self, route: Route, mut event: Event) {
        let found = self.stations.get_mut(route.to.index as usize).and_then(Option::as_mut);
        let Some(station) = found.filter(|station| station.place == route.to) else {
            // Its graph was taken away while the event was on its way.
            return;
        };
        // It moves until it is known whether the operator has its turn.
        let _moving = event.arrive();
        station.take(usize::from(route.slot), event);
        self.entered += 1;
        enqueue(&mut self.ready, self.entered, station);
    }

    /// An operator is to be asked what it remembers, where nothing moves in its instance.
    pub fn begin_save(&mut self, place: Place) -> Result<Save, Fault> {
        self.station(place).ok_or(Fault::Failed("it is gone"))?.begin_save()
    }

    /// It has been. Returns that, with what waits in its inputs.
    pub fn end_save(&mut self, save: Save) -> Result<Vec<u8>, Fault> {
        self.station(save.place()).ok_or(Fault::Failed("it is gone"))?.end_save(save)
    }

    /// Makes an operator go on as the one that has saved this.
    pub fn restore(&mut self, place: Place, memory: &[u8], streams: &Streams, results: &mut impl Results) {
        let Some(station) = self.station(place) else { return };
        (station.queued, station.turn) = (false, None);
        if let Err(fault) = station.restore(memory, streams) {
            results.fault(station.name(), station.stats(), &fault);
        }
    }

    fn station(&mut self, place: Place) -> Option<&mut Box<Station>> {
        let there = self.stations.get_mut(place.index as usize)?.as_mut();
        there.filter(|station| station.place == place)
    }

    /// Whether an operator may be able to run.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Begins the next run.
    pub fn begin(&mut self, now: Time) -> Option<Run> {
        while let Some(Reverse((_, _, index))) = self.ready.pop() {
            let Some(Some(station)) = self.stations.get_mut(index as usize) else { continue };
            station.queued = false;
            let _turn = station.turn.take();
            if let Some(run) = station.begin(now) {
                return Some(run);
            }
        }
        None
    }

    /// Ends a run: its result goes to operators of this level at once, to those of others when nothing is ready here, and to
    /// those outside through `results`.
    pub fn end(
        &mut self,
        now: Time,
        mut run: Run,
        outcome: &Result<Answer, Fault>,
        results: &mut impl Results,
    ) {
        let index = run.place.index as usize;
        let there = self.stations.get_mut(index).and_then(Option::as_mut);
        let Some(station) = there.filter(|station| station.place == run.place) else { return };
        if let Err(fault) = outcome {
            results.fault(station.name(), station.stats(), fault);
        }
        if let Some((took, cost)) = station.overran(now, &run) {
            results.overran(station.name(), station.stats(), took, cost);
        }
        // It moves until what comes of it does.
        let _moving = run.moving.take();
        let result = station.end(now, run, outcome);
        self.entered += 1;
        enqueue(&mut self.ready, self.entered, station);
        let Some(event) = result else { return };
        for outlet in &station.outlets {
            results.result(*outlet, event.clone().on_its_way(station.pulse.as_ref()));
        }
        let pulse = station.pulse.clone();
        // Its routes are put back below; nothing in between can look at them.
        let routes = std::mem::take(&mut station.routes);
        let level = station.place.level;
        // The last one takes this reference along.
        if let Some((last, others)) = routes.split_last() {
            let moving = |event: Event| event.on_its_way(pulse.as_ref());
            others.iter().for_each(|route| self.pass_on(level, *route, moving(event.clone())));
            self.pass_on(level, *last, moving(event));
        }
        if let Some(Some(station)) = self.stations.get_mut(index) {
            station.routes = routes;
        }
    }

    /// Gives a result to an operator, or lets it wait to be handed to another level.
    fn pass_on(&mut self, level: u8, route: Route, event: Event) {
        if route.to.level == level {
            return self.offer(route, event);
        }
        self.entered += 1;
        let rank = Reverse((route.to.level, self.entered));
        self.moving.push(Moving { rank, route, event });
    }

    /// Takes out the next event for another level.
    pub fn hand_over(&mut self) -> Option<(Route, Event)> {
        self.moving.pop().map(|moving| (moving.route, moving.event))
    }

    /// Whether something waits to be handed over.
    pub fn has_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// The name of the operator at this place, for people.
    pub fn name(&self, place: Place) -> Option<&Arc<str>> {
        let there = self.stations.get(place.index as usize)?.as_ref();
        there.filter(|station| station.place == place).map(|station| station.name())
    }
}

/// Puts an operator that could run into the queue, once.
fn enqueue(ready: &mut BinaryHeap<Reverse<(Time, u64, u32)>>, order: u64, station: &mut Station) {
    if !station.queued && station.is_ready() {
        station.queued = true;
        station.turn = station.pulse.as_ref().map(Pulse::beat);
        let due = if Mutant::ServeInOrderOfArrival.is_on() { Time(order) } else { station.due() };
        ready.push(Reverse((due, order, station.place.index)));
    }
}
