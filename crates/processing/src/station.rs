//! One operator at its place: its inputs, the rules by which it may run, and where its results go.

use crate::event::{Event, Marks, Number, Pulse, Store, Token};
use crate::graph::{Graph, INPUTS_MAX, Together};
use crate::memory::{FOREIGN, Put, Recalled, Streams};
use crate::operator::{Answer, Fault, Input, Operator};
use crate::spec::{Join, Keep, Violation};
use crate::stats::{Stats, count};
use crate::validity::Validity;
use contract::{Mutant, Span, Time};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where an operator runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The level.
    pub level: u8,
    /// The place there.
    pub index: u32,
    /// Which of the operators that have been there; events for an earlier one are dropped.
    pub life: u32,
}

/// Where an event goes: to an operator, as one of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The operator.
    pub to: Place,
    /// Which of its inputs.
    pub slot: u8,
}

/// Somebody who gets results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outlet {
    /// The broker's number for it.
    pub output: u32,
    /// When a result is due, counted from its beginning.
    pub deadline: Span,
}

/// What comes of the work.
#[derive(Clone, Debug)]
pub enum Product {
    /// A result for somebody outside of the graph.
    Result(Outlet, Event),
    /// What an operator remembers, as it was asked to save it with this ticket.
    Saved {
        /// Which one.
        place: Place,
        /// The ticket.
        ticket: u32,
        /// What it remembers, or why it cannot say.
        memory: Result<Vec<u8>, Fault>,
    },
    /// A run failed.
    Fault {
        /// The operator.
        operator: Arc<str>,
        /// Its counts.
        stats: Arc<Stats>,
        /// Why.
        fault: Fault,
    },
    /// A run took longer than its operator was said to take.
    Overran {
        /// The operator.
        operator: Arc<str>,
        /// Its counts.
        stats: Arc<Stats>,
        /// How long it took.
        took: Span,
        /// What was said.
        cost: Span,
    },
}

/// Makes an operator's value, the first time and again after a panic.
pub type Maker = Arc<dyn Fn() -> Option<Box<dyn Operator>> + Send + Sync>;

/// An operator at its place.
pub struct Station {
    pub(crate) place: Place,
    name: Arc<str>,
    join: Join,
    violation: Violation,
    keep: Keep,
    sets: Vec<Together>,
    slots: Vec<VecDeque<Event>>,
    /// How soon the results that it leads to are due after its own.
    deadline: Span,
    /// How long a run takes at most, if somebody said.
    cost: Option<Span>,
    pub(crate) routes: Vec<Route>,
    pub(crate) outlets: Vec<Outlet>,
    stats: Arc<Stats>,
    /// What a run needs; it is away while one is under way.
    kit: Option<Box<Kit>>,
    /// Whether it waits for its turn.
    pub(crate) queued: bool,
    /// Of an instance that remembers: what moves in it, and that this waits for its turn.
    pub(crate) pulse: Option<Arc<Pulse>>,
    pub(crate) turn: Option<Token>,
}

struct Kit {
    operator: Box<dyn Operator>,
    make: Maker,
    /// Where its results are kept.
    store: Arc<Store>,
    /// The events of the run, with their slots.
    inputs: Vec<(usize, Event)>,
}

/// A run that has begun: the operator, its inputs and the result to be.
pub struct Run {
    pub(crate) place: Place,
    kit: Box<Kit>,
    marks: Marks,
    validity: Validity,
    due: Time,
    began: Time,
    result: Option<Event>,
    /// It moves while it lasts.
    pub(crate) moving: Option<Token>,
}

/// What a new station needs to know, besides the graph.
pub(crate) struct Siting {
    pub(crate) place: Place,
    pub(crate) name: Arc<str>,
    pub(crate) routes: Vec<Route>,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) make: Maker,
    /// Where events beyond what its store keeps are counted.
    pub(crate) beyond: Arc<AtomicU64>,
    /// What moves in the instance, if that remembers.
    pub(crate) pulse: Option<Arc<Pulse>>,
}

impl Station {
    /// The operator of a graph at this place; `None` if its value cannot be made.
    pub(crate) fn new(graph: &Graph, operator: usize, siting: Siting) -> Option<Station> {
        let step = &graph.operators[operator];
        let kit = Kit {
            operator: (siting.make)()?,
            make: siting.make,
            store: Store::new(step.source.ring, None, &siting.beyond),
            inputs: Vec::with_capacity(step.inputs.len()),
        };
        let room = |_| VecDeque::with_capacity(2);
        Some(Station {
            place: siting.place,
            name: siting.name,
            join: step.join,
            violation: step.violation,
            keep: step.keep,
            sets: step.sets.clone(),
            slots: (0..step.inputs.len()).map(room).collect(),
            deadline: step.source.deadline,
            cost: step.cost,
            routes: siting.routes,
            outlets: siting.outlets,
            stats: siting.stats,
            kit: Some(Box::new(kit)),
            queued: false,
            pulse: siting.pulse,
            turn: None,
        })
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether its inputs keep only the newest event.
    pub fn keeps_latest(&self) -> bool {
        self.keep == Keep::Latest
    }

    /// Takes an event in. One that is not needed any more is dropped for it.
    pub(crate) fn take(&mut self, slot: usize, event: Event) {
        let Some(waiting) = self.slots.get_mut(slot) else { return };
        let most = match self.keep {
            Keep::Latest => 1,
            Keep::All(most) => most,
        };
        if waiting.len() >= most && !Mutant::KeepEveryEvent.is_on() {
            waiting.pop_front();
            let latest = self.keep == Keep::Latest;
            count(if latest { &self.stats.replaced } else { &self.stats.dropped });
        }
        waiting.push_back(event);
    }

    /// Whether a run could begin. Times are not looked at.
    pub(crate) fn is_ready(&self) -> bool {
        let mut filled = self.slots.iter().map(|slot| !slot.is_empty());
        let complete = match self.join {
            Join::All => filled.all(|filled| filled),
            Join::Any => filled.any(|filled| filled),
        };
        complete && self.kit.is_some()
    }

    /// When the next run is due: the earliest of what it would use.
    pub(crate) fn due(&self) -> Time {
        self.slots
            .iter()
            .filter_map(|slot| slot.front())
            .map(|event| event.deadline)
            .min()
            .unwrap_or(Time::NEVER)
    }

    /// Begins a run with what is there, if that is consistent in time (C1, C3; A4). What is out of date, and of a relative
    /// set the oldest, is dropped where violations are shed; the others may be used with a fresher partner.
    pub(crate) fn begin(&mut self, now: Time) -> Option<Run> {
        let shed = self.violation == Violation::Shed;
        if shed {
            // What is dropped may have had something behind it.
            while self.shed_outdated(now) | self.shed_apart() {}
        }
        if !self.is_ready() {
            return None;
        }
        let apart = !shed && self.join == Join::All && self.furthest_apart().is_some();
        let mut marks = if apart { Marks::APART } else { Marks::NONE };
        let only = match self.join {
            Join::All => None,
            Join::Any => Some(self.oldest()?),
        };
        let mut kit = self.kit.take()?;
        for (slot, waiting) in self.slots.iter_mut().enumerate() {
            if only.is_some_and(|only| only != slot) {
                continue;
            }
            // An event is used once.
            let event = if Mutant::UseTwice.is_on() { waiting.front().cloned() } else { waiting.pop_front() };
            kit.inputs.extend(event.map(|event| (slot, event)));
        }
        let events = || kit.inputs.iter().map(|(_, event)| event);
        let validity = events().map(|event| event.validity).reduce(Validity::and).unwrap_or_default();
        if validity.is_over(now) {
            marks = marks.with(Marks::OUT_OF_DATE);
        }
        marks = events().fold(marks, |marks, event| marks.with(event.marks));
        if marks != Marks::NONE {
            count(&self.stats.marked);
        }
        let due = validity.begins + self.deadline;
        let moving = self.pulse.as_ref().map(Pulse::beat);
        Some(Run { place: self.place, kit, marks, validity, due, began: now, result: None, moving })
    }

    /// The input whose first event is the oldest.
    fn oldest(&self) -> Option<usize> {
        let waiting = self.slots.iter().enumerate();
        let begins = waiting.filter_map(|(slot, waiting)| Some((waiting.front()?.validity.begins, slot)));
        begins.min().map(|(_, slot)| slot)
    }

    /// Drops what is not true any more. Returns whether there was something.
    fn shed_outdated(&mut self, now: Time) -> bool {
        let before = self.stats.shed_absolute.load(Relaxed);
        if Mutant::KeepOutdated.is_on() {
            return false;
        }
        for waiting in &mut self.slots {
            while waiting.front().is_some_and(|event| event.validity.is_over(now)) {
                waiting.pop_front();
                count(&self.stats.shed_absolute);
            }
        }
        // Each may be true by itself without their ever having been true together; then the one that ends first goes.
        if self.join == Join::All && self.slots.iter().all(|waiting| !waiting.is_empty()) {
            let fronts =
                || self.slots.iter().enumerate().filter_map(|(slot, waiting)| Some((slot, waiting.front()?)));
            let together = fronts().map(|(_, event)| event.validity).reduce(Validity::and);
            let first = fronts().min_by_key(|(_, event)| event.validity.ends).map(|(slot, _)| slot);
            if let Some(first) = first.filter(|_| together.is_some_and(|validity| validity.is_over(now))) {
                self.slots[first].pop_front();
                count(&self.stats.shed_absolute);
            }
        }
        self.stats.shed_absolute.load(Relaxed) != before
    }

    /// Of inputs that are too far apart, drops the oldest. Returns whether there was one.
    fn shed_apart(&mut self) -> bool {
        let Some(oldest) = self.furthest_apart() else { return false };
        self.slots[oldest].pop_front();
        count(&self.stats.shed_relative);
        true
    }

    /// **C3**: of the first relative set that is complete and too far apart, the slot of the oldest event.
    fn furthest_apart(&self) -> Option<usize> {
        let begins = |slot: &usize| Some(self.slots.get(*slot)?.front()?.validity.begins);
        for set in &self.sets {
            let complete = set.slots.iter().all(|slot| begins(slot).is_some());
            let spread = Validity::spread(set.slots.iter().filter_map(begins));
            if complete && spread > set.within && !Mutant::KeepApart.is_on() {
                return set.slots.iter().copied().min_by_key(begins);
            }
        }
        None
    }

    /// By how much a run that ends now has taken longer than it was said to take.
    pub(crate) fn overran(&self, now: Time, run: &Run) -> Option<(Span, Span)> {
        let (cost, took) = (self.cost?, now.since(run.began));
        (took > cost).then_some((took, cost))
    }

    /// A run has ended: its inputs are used up and the operator is back. Returns the result.
    pub(crate) fn end(&mut self, now: Time, mut run: Run, outcome: &Result<Answer, Fault>) -> Option<Event> {
        self.stats.took(now.since(run.began).max(Span::ZERO));
        let result = run.result.take();
        run.kit.inputs.clear();
        self.kit = Some(run.kit);
        match outcome {
            Ok(Answer::Result) => {}
            Ok(Answer::Nothing) => return None,
            Err(fault) => {
                self.stats.failed(fault.cause());
                return None;
            }
        }
        let result = result?;
        // True again when it is handed on (C1)?
        let over = result.validity.is_over(now);
        if over && self.violation == Violation::Shed && !Mutant::KeepOutdated.is_on() {
            count(&self.stats.shed_absolute);
            return None;
        }
        count(&self.stats.results);
        Some(result)
    }

    /// Its operator is to be asked what it remembers. Nothing may move in its instance.
    pub(crate) fn begin_save(&mut self) -> Result<Save, Fault> {
        let kit = self.kit.take().ok_or(Fault::Failed("it runs"))?;
        Ok(Save { place: self.place, kit, memory: Ok(Vec::new()) })
    }

    /// That has been done. Returns what it and its inputs remember.
    pub(crate) fn end_save(&mut self, save: Save) -> Result<Vec<u8>, Fault> {
        self.kit = Some(save.kit);
        let (own, mut memory) = (save.memory?, Vec::new());
        memory.put_bytes(&own);
        for waiting in &self.slots {
            memory.put_u64(waiting.len() as u64);
            for event in waiting {
                let Number { stream, incarnation, seq } = event.number;
                let times = [event.validity.begins.0, event.validity.ends.0, event.deadline.0];
                let number = [u64::from(stream.0), incarnation, seq, u64::from(event.marks.bits())];
                times.iter().chain(&number).for_each(|value| memory.put_u64(*value));
                memory.put_bytes(&event.payload);
            }
        }
        Ok(memory)
    }

    /// Goes on as the one that has saved this, whose streams have other numbers here. What waits in its inputs makes way.
    pub(crate) fn restore(&mut self, memory: &[u8], streams: &Streams) -> Result<(), Fault> {
        let Some(kit) = &mut self.kit else { return Err(Fault::Failed("it runs")) };
        self.slots.iter_mut().for_each(VecDeque::clear);
        if memory.is_empty() {
            // It is to remember nothing of what it has seen.
            let again = catch_unwind(AssertUnwindSafe(|| (kit.make)())).ok().flatten();
            kit.operator = again.ok_or(Fault::Failed("it could not be set up again"))?;
            return Ok(());
        }
        let mut recalled = Recalled(memory);
        let own = recalled.bytes().ok_or(FOREIGN)?;
        let restored = catch_unwind(AssertUnwindSafe(|| kit.operator.restore(own)));
        restored.unwrap_or(Err(Fault::Panicked))?;
        for waiting in &mut self.slots {
            for _ in 0..recalled.u64().ok_or(FOREIGN)? {
                let event = waiting_event(&mut recalled, &kit.store, streams).ok_or(FOREIGN)?;
                waiting.extend(event);
            }
        }
        recalled.end().ok_or(FOREIGN)
    }

    /// Its name, for people.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its counts.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }
}

/// An operator that is being asked what it remembers.
pub struct Save {
    place: Place,
    kit: Box<Kit>,
    memory: Result<Vec<u8>, Fault>,
}

impl Save {
    /// Where its operator is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Asks.
    pub fn work(&mut self) {
        let Save { kit, memory, .. } = self;
        let mut own = Vec::new();
        let saved = catch_unwind(AssertUnwindSafe(|| kit.operator.save(&mut own)));
        *memory = saved.unwrap_or(Err(Fault::Panicked)).map(|()| own);
    }
}

/// An event that waited elsewhere, where its stream is known here.
fn waiting_event(
    recalled: &mut Recalled<'_>,
    store: &Arc<Store>,
    streams: &Streams,
) -> Option<Option<Event>> {
    let mut draft = store.draft(None);
    let body = draft.body();
    body.validity = Validity { begins: Time(recalled.u64()?), ends: Time(recalled.u64()?) };
    body.deadline = Time(recalled.u64()?);
    let theirs = u32::try_from(recalled.u64()?).ok()?;
    let (incarnation, seq) = (recalled.u64()?, recalled.u64()?);
    body.marks = Marks::of_bits(u8::try_from(recalled.u64()?).ok()?);
    body.payload.extend_from_slice(recalled.bytes()?);
    let stream = streams.ours(theirs);
    body.number = Number { stream: stream.unwrap_or_default(), incarnation, seq };
    Some(stream.map(|_| draft.done()))
}

impl Run {
    /// Where its operator is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What is wrong with its inputs in time, where that is marked.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// What it uses, and as which input.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Event)> {
        self.kit.inputs.iter().map(|(slot, event)| (*slot, event))
    }

    /// Does the work. What it takes is up to the operator; everything else is held up as little as can be.
    pub fn work(&mut self) -> Result<Answer, Fault> {
        let Kit { operator, make, store, inputs } = &mut *self.kit;
        let mut draft = store.draft(None);
        let body = draft.body();
        let mut given = [Input { slot: 0, payload: &[], created: Time::ZERO }; INPUTS_MAX];
        let given = &mut given[..inputs.len().min(INPUTS_MAX)];
        for (input, (slot, event)) in given.iter_mut().zip(&*inputs) {
            *input = Input { slot: *slot, payload: &event.payload, created: event.validity.begins };
        }
        let work = AssertUnwindSafe(|| operator.run(given, &mut body.payload));
        let outcome = catch_unwind(work).unwrap_or(Err(Fault::Panicked));
        if outcome == Err(Fault::Panicked) {
            // The panic may have left anything in its state.
            let again = catch_unwind(AssertUnwindSafe(|| make())).ok().flatten();
            *operator = again.unwrap_or_else(|| Box::new(Gone));
        }
        if outcome == Ok(Answer::Result) {
            (body.validity, body.deadline, body.marks) = (self.validity, self.due, self.marks);
            body.number = inputs.first().map(|(_, event)| event.number).unwrap_or_default();
            body.parents.extend(inputs.iter().map(|(_, event)| event.clone()));
            self.result = Some(draft.done());
        }
        outcome
    }
}

/// In the place of an operator that could not be made anew.
struct Gone;

impl Operator for Gone {
    fn run(&mut self, _inputs: &[Input<'_>], _output: &mut Vec<u8>) -> Result<Answer, Fault> {
        Err(Fault::Stopped("it panicked, and could not be set up again"))
    }
}
