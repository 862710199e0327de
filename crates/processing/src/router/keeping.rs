//! How what operators remember survives: pictures of instances, when they are taken, and what has to wait for them.
//!
//! A picture of an instance is taken while nothing moves in it; see [`crate::memory`]. Mostly nothing does, for runs are short. Where
//! something always does, messages for it are held until nothing does any more. What comes while a picture is being taken is held as well.
//! A message that an instance was given counts as processed when its last result has been published and a picture of the instance that has
//! the message in it has been handed out; so what no picture has is made again, by whoever has the latest one.

use super::{Crew, Router};
use crate::event::{Event, Number, Pulse};
use crate::memory::{Cuts, MEMORY_BYTES_MAX, Picture, Streams};
use crate::operator::Fault;
use crate::station::{Place, Route};
use contract::{Receipt, Span, StreamId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An instance that does not come to rest, or does not answer, for so long goes on without a picture.
const PATIENCE: Span = Span::secs(1);
/// Pictures that are begun in one turn.
const PER_TURN: usize = 16;
/// A picture has to fit into a frame.
const PICTURE_BYTES_MAX: usize = MEMORY_BYTES_MAX + 40_000;
/// Pictures of instances that are not there yet, and their bytes.
const UNCLAIMED_MAX: usize = 4_096;
const UNCLAIMED_BYTES_MAX: usize = 64 << 20;

/// What is known of an instance that remembers.
pub(super) struct Keeping {
    /// What it is called here and on another broker with the same graphs.
    pub(super) name: Arc<str>,
    pub(super) fingerprint: u64,
    /// By operator: where it is, if it has to be asked.
    pub(super) asks: Vec<Option<Place>>,
    /// By operator: what it is called.
    pub(super) operators: Vec<Arc<str>>,
    /// The topics of its results.
    pub(super) outputs: Vec<String>,
    pub(super) pulse: Arc<Pulse>,
    cuts: Cuts,
    /// It has been given something since the last picture.
    dirty: bool,
    wish: Wish,
    /// Since when it is wished, or a picture is being taken.
    since: Time,
    taking: Option<Taking>,
    held: VecDeque<Held>,
    /// Somebody who has just come waits for its first picture.
    awaited: bool,
    /// Messages that wait for the next picture, by their place in [`Pictures::waits`].
    waiting: Vec<u32>,
    /// The latest picture, with the streams of whoever took it.
    last: Option<(Picture, Streams)>,
}

/// What is to be done when nothing moves in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Nothing,
    /// A picture.
    Picture,
    /// The same, and nothing is to begin to move before.
    Rest,
    /// It is to go on from the latest picture.
    Restore,
}

/// A picture that is being taken.
struct Taking {
    ticket: u32,
    left: usize,
    operators: Vec<Vec<u8>>,
}

/// An event that waits until a picture has been taken.
struct Held {
    number: Number,
    routes: Vec<Route>,
    event: Event,
}

impl Keeping {
    pub(super) fn new(
        name: Arc<str>,
        fingerprint: u64,
        asks: Vec<Option<Place>>,
        operators: Vec<Arc<str>>,
        outputs: Vec<String>,
        pulse: Arc<Pulse>,
    ) -> Keeping {
        Keeping {
            name,
            fingerprint,
            asks,
            operators,
            outputs,
            pulse,
            cuts: Cuts::default(),
            dirty: false,
            wish: Wish::Nothing,
            since: Time::ZERO,
            taking: None,
            held: VecDeque::new(),
            awaited: false,
            waiting: Vec::new(),
            last: None,
        }
    }

    fn holds(&self) -> bool {
        self.taking.is_some() || matches!(self.wish, Wish::Rest | Wish::Restore)
    }

    /// Whether it has been given anything, or is about to be.
    fn has_memory(&self) -> bool {
        let recalled = self.wish == Wish::Restore && self.last.is_some();
        self.dirty || recalled || !self.cuts.is_empty() || !self.held.is_empty()
    }

    /// Gives it what was held.
    fn let_go(&mut self, crew: &mut impl Crew) -> u64 {
        let mut refused = 0;
        for Held { number, routes, event } in std::mem::take(&mut self.held) {
            refused += self.give(&number, &routes, &event, crew);
        }
        refused
    }

    fn give(&mut self, number: &Number, routes: &[Route], event: &Event, crew: &mut impl Crew) -> u64 {
        // It may be in the picture from which the instance goes on.
        if self.cuts.has(number) {
            return 0;
        }
        self.cuts.add(number);
        let moving = || event.clone().on_its_way(Some(&self.pulse));
        routes.iter().map(|route| u64::from(!crew.offer(*route, moving()))).sum()
    }
}

/// What a picture of an instance has to say to the other broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The instance.
    pub instance: Arc<str>,
    /// The picture.
    pub picture: Vec<u8>,
    /// The streams whose messages it has, by our numbers, and the lives of their publishers.
    pub streams: Vec<(StreamId, u64)>,
    waiting: Vec<u32>,
}

/// An instance of which no picture could be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unkept {
    /// The operator that is to blame.
    pub operator: Arc<str>,
    /// Why.
    pub fault: Fault,
    /// The topics of the instance's results.
    pub outputs: Vec<String>,
}

/// Whether there is somebody who keeps pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Not,
    /// Somebody has come, and cannot understand any yet. Messages wait for them already.
    Soon,
    Now,
}

/// All pictures of a broker.
pub(super) struct Pictures {
    /// From one picture of an instance to the next, at least.
    pub(super) interval: Span,
    wanted: Wanted,
    pub(super) keepings: BTreeMap<u32, Keeping>,
    numbered: u32,
    by_name: BTreeMap<Arc<str>, u32>,
    /// Instances that have been given something, and when their next picture is due.
    due: VecDeque<(Time, u32)>,
    fresh: Vec<u32>,
    /// Instances that are waited for to come to rest.
    restless: Vec<u32>,
    tickets: u32,
    /// Of messages that wait for pictures: how many they still wait for.
    waits: Vec<(Receipt, u32)>,
    free: Vec<u32>,
    ready: VecDeque<Kept>,
    unkept: VecDeque<Unkept>,
    /// Instances whose first picture somebody who has just come waits for.
    awaited: usize,
    unclaimed: BTreeMap<Box<str>, (Picture, Streams)>,
    unclaimed_bytes: usize,
}

impl Default for Pictures {
    fn default() -> Pictures {
        Pictures {
            interval: Span::millis(100),
            wanted: Wanted::Not,
            keepings: BTreeMap::new(),
            numbered: 0,
            by_name: BTreeMap::new(),
            due: VecDeque::new(),
            fresh: Vec::new(),
            restless: Vec::new(),
            tickets: 0,
            waits: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            unkept: VecDeque::new(),
            awaited: 0,
            unclaimed: BTreeMap::new(),
            unclaimed_bytes: 0,
        }
    }
}

impl Pictures {
    /// An instance that remembers begins.
    pub(super) fn add(&mut self, mut keeping: Keeping, crew: &mut impl Crew) -> u32 {
        let number = self.numbered;
        self.numbered = number.wrapping_add(1);
        let unclaimed = self.unclaimed.remove(&*keeping.name);
        if let Some((picture, streams)) = unclaimed {
            self.unclaimed_bytes -= bytes_of(&picture);
            keeping.last = keeping.fits(&picture).then_some((picture, streams));
        }
        self.by_name.insert(Arc::clone(&keeping.name), number);
        if keeping.last.is_some() {
            keeping.restore(crew);
        }
        self.keepings.insert(number, keeping);
        number
    }

    /// It ends. Messages that waited for a picture of it do not any more.
    pub(super) fn remove(&mut self, number: u32, done: &mut Vec<Receipt>) {
        let Some(keeping) = self.keepings.remove(&number) else { return };
        // One of the same name may have come meanwhile: where graphs change, topics are bound anew before they are unbound.
        if self.by_name.get(&keeping.name) == Some(&number) {
            self.by_name.remove(&keeping.name);
        }
        self.awaited -= usize::from(keeping.awaited);
        self.settle(keeping.waiting, done);
    }

    /// A message for an instance.
    pub(super) fn give(
        &mut self,
        index: u32,
        number: &Number,
        routes: &[Route],
        event: &Event,
        crew: &mut impl Crew,
    ) -> u64 {
        let Some(keeping) = self.keepings.get_mut(&index) else { return 0 };
        if !std::mem::replace(&mut keeping.dirty, true) && self.wanted != Wanted::Not {
            self.fresh.push(index);
        }
        if keeping.holds() {
            let (routes, event) = (routes.to_vec(), event.clone());
            keeping.held.push_back(Held { number: *number, routes, event });
            return 0;
        }
        keeping.give(number, routes, event, crew)
    }

    /// The last result of a message that these instances were given has been published. `true`: it waits for pictures of them.
    pub(super) fn delay(&mut self, receipt: Receipt, instances: impl Iterator<Item = u32> + Clone) -> bool {
        let there = |index: &u32| self.keepings.contains_key(index);
        let count = instances.clone().filter(there).count() as u32;
        if self.wanted == Wanted::Not || count == 0 {
            return false;
        }
        let wait = self.free.pop().unwrap_or_else(|| {
            self.waits.push((receipt, 0));
            self.waits.len() as u32 - 1
        });
        self.waits[wait as usize] = (receipt, count);
        for index in instances {
            if let Some(keeping) = self.keepings.get_mut(&index) {
                keeping.waiting.push(wait);
            }
        }
        true
    }

    fn settle(&mut self, waiting: Vec<u32>, done: &mut Vec<Receipt>) {
        for wait in waiting {
            let (receipt, left) = &mut self.waits[wait as usize];
            *left -= 1;
            if *left == 0 {
                done.push(*receipt);
                self.free.push(wait);
            }
        }
    }

    /// Somebody keeps pictures who cannot understand any until [`Pictures::retake`], or nobody does; then no message waits for one.
    pub(super) fn want(&mut self, wanted: bool, done: &mut Vec<Receipt>, crew: &mut impl Crew) {
        if wanted {
            self.wanted = Wanted::Soon;
            return;
        }
        self.wanted = Wanted::Not;
        self.awaited = 0;
        self.due.clear();
        self.fresh.clear();
        let ready: Vec<Kept> = self.ready.drain(..).collect();
        ready.into_iter().for_each(|kept| self.settle(kept.waiting, done));
        let indices: Vec<u32> = self.keepings.keys().copied().collect();
        for index in indices {
            let Some(keeping) = self.keepings.get_mut(&index) else { continue };
            (keeping.taking, keeping.awaited) = (None, false);
            if keeping.wish != Wish::Restore {
                keeping.wish = Wish::Nothing;
                keeping.let_go(crew);
            }
            let waiting = std::mem::take(&mut keeping.waiting);
            self.settle(waiting, done);
        }
    }

    /// Whoever has come has no pictures, and understands them now: one of each instance that was ever given something is taken soon.
    pub(super) fn retake(&mut self) {
        self.wanted = Wanted::Now;
        self.awaited = 0;
        self.fresh.clear();
        self.due.clear();
        for (index, keeping) in &mut self.keepings {
            keeping.awaited = keeping.has_memory();
            self.awaited += usize::from(keeping.awaited);
            // What is being taken serves as well, and who is still to go back is told when it has.
            if keeping.awaited && keeping.taking.is_none() && keeping.wish != Wish::Restore {
                keeping.dirty = true;
                self.due.push_back((Time::ZERO, *index));
            }
        }
    }

    /// Whether whoever has just come has a picture of everything.
    pub(super) fn is_kept(&self) -> bool {
        self.wanted != Wanted::Soon && self.awaited == 0 && self.ready.is_empty()
    }

    /// When [`Pictures::tend`] has something to do.
    pub(super) fn next_deadline(&self) -> Time {
        match self.wanted {
            Wanted::Soon => Time::NEVER,
            _ => self.due.front().map_or(Time::NEVER, |(at, _)| *at),
        }
    }

    /// Takes pictures that are due, where nothing moves.
    pub(super) fn tend(&mut self, now: Time, done: &mut Vec<Receipt>, crew: &mut impl Crew) {
        if self.fresh.is_empty()
            && self.restless.is_empty()
            && self.due.front().is_none_or(|(at, _)| *at > now)
        {
            return;
        }
        if self.wanted == Wanted::Soon {
            return self.tend_restless(now, done, crew);
        }
        let at = now + self.interval;
        self.due.extend(self.fresh.drain(..).map(|index| (at, index)));
        for _ in 0..PER_TURN {
            // A clock that went back must not keep us from it.
            let due = self.due.front().filter(|(at, _)| *at <= now || *at > now + self.interval);
            let Some((_, index)) = due.copied() else { break };
            self.due.pop_front();
            let Some(keeping) = self.keepings.get_mut(&index) else { continue };
            if keeping.wish == Wish::Nothing && keeping.taking.is_none() && keeping.dirty {
                (keeping.wish, keeping.since) = (Wish::Picture, now);
                self.restless.push(index);
            }
        }
        self.tend_restless(now, done, crew);
    }

    fn tend_restless(&mut self, now: Time, done: &mut Vec<Receipt>, crew: &mut impl Crew) {
        let mut restless = std::mem::take(&mut self.restless);
        restless.retain(|index| !self.calm(now, *index, done, crew));
        self.restless.append(&mut restless);
    }

    /// Does what is wished for an instance if nothing moves in it. Returns whether that is over.
    fn calm(&mut self, now: Time, index: u32, done: &mut Vec<Receipt>, crew: &mut impl Crew) -> bool {
        let interval = self.interval;
        let Some(keeping) = self.keepings.get_mut(&index) else { return true };
        let (waited, still) = (now.since(keeping.since), keeping.pulse.is_still());
        let patient = waited >= Span::ZERO && waited < PATIENCE;
        match keeping.wish {
            Wish::Restore if still || !patient => self.go_on(index, crew),
            Wish::Picture | Wish::Rest if still => {
                keeping.wish = Wish::Nothing;
                self.tickets = self.tickets.wrapping_add(1);
                keeping.begin(now, self.tickets, crew);
            }
            Wish::Picture if waited >= interval => keeping.wish = Wish::Rest,
            Wish::Nothing if keeping.taking.is_none() => return true,
            Wish::Nothing | Wish::Rest if !patient => {
                let fault = Fault::Failed("its instance does not come to rest, or does not answer");
                self.give_up(index, None, fault, done, crew);
            }
            _ => {}
        }
        let Some(keeping) = self.keepings.get(&index) else { return true };
        keeping.wish == Wish::Nothing && keeping.taking.is_none()
    }

    /// An operator has said what it remembers.
    pub(super) fn saved(
        &mut self,
        place: Place,
        ticket: u32,
        memory: Result<Vec<u8>, Fault>,
        done: &mut Vec<Receipt>,
        crew: &mut impl Crew,
    ) {
        let takes = |keeping: &Keeping| keeping.taking.as_ref().is_some_and(|taking| taking.ticket == ticket);
        let Some((index, keeping)) = self.keepings.iter_mut().find(|(_, keeping)| takes(keeping)) else {
            return;
        };
        let (index, Some(taking)) = (*index, &mut keeping.taking) else { return };
        let Some(operator) = keeping.asks.iter().position(|asked| *asked == Some(place)) else { return };
        let sum: usize = taking.operators.iter().map(Vec::len).sum();
        let memory = match memory {
            Ok(memory) if sum + memory.len() > MEMORY_BYTES_MAX => {
                Err(Fault::Failed("its instance remembers more than a megabyte"))
            }
            memory => memory,
        };
        match memory {
            Ok(memory) => {
                taking.operators[operator] = memory;
                taking.left -= 1;
                if taking.left == 0 {
                    self.finish(index, done, crew);
                }
            }
            Err(fault) => self.give_up(index, Some(operator), fault, done, crew),
        }
    }

    /// A picture has been taken.
    fn finish(&mut self, index: u32, done: &mut Vec<Receipt>, crew: &mut impl Crew) {
        let Some(keeping) = self.keepings.get_mut(&index) else { return };
        let Some(taking) = keeping.taking.take() else { return };
        let picture = Picture {
            fingerprint: keeping.fingerprint,
            cuts: keeping.cuts.clone(),
            operators: taking.operators,
        };
        let written = picture.write();
        if written.len() > PICTURE_BYTES_MAX {
            let fault = Fault::Failed("its instance is given messages of too many publishers");
            return self.give_up(index, None, fault, done, crew);
        }
        let waiting = std::mem::take(&mut keeping.waiting);
        let instance = Arc::clone(&keeping.name);
        self.ready.push_back(Kept { instance, picture: written, streams: picture.cuts.lives(), waiting });
        let streams = picture.cuts.own_streams();
        (keeping.last, keeping.dirty) = (Some((picture, streams)), !keeping.held.is_empty());
        if keeping.dirty {
            self.fresh.push(index);
        }
        self.awaited -= usize::from(std::mem::take(&mut keeping.awaited));
        keeping.let_go(crew);
    }

    /// There is no picture this time: the instance goes on, and nothing waits for it.
    fn give_up(
        &mut self,
        index: u32,
        operator: Option<usize>,
        fault: Fault,
        done: &mut Vec<Receipt>,
        crew: &mut impl Crew,
    ) {
        let Some(keeping) = self.keepings.get_mut(&index) else { return };
        (keeping.taking, keeping.wish, keeping.dirty) = (None, Wish::Nothing, false);
        let operator =
            operator.and_then(|operator| keeping.operators.get(operator)).or(keeping.operators.first());
        let operator = operator.map_or_else(|| Arc::clone(&keeping.name), Arc::clone);
        self.unkept.push_back(Unkept { operator, fault, outputs: keeping.outputs.clone() });
        self.awaited -= usize::from(std::mem::take(&mut keeping.awaited));
        let waiting = std::mem::take(&mut keeping.waiting);
        keeping.let_go(crew);
        self.settle(waiting, done);
    }

    /// The next picture. Messages that waited for it have been processed.
    pub(super) fn next_kept(&mut self, done: &mut Vec<Receipt>) -> Option<Kept> {
        if self.wanted == Wanted::Soon {
            return None;
        }
        let mut kept = self.ready.pop_front()?;
        self.settle(std::mem::take(&mut kept.waiting), done);
        Some(kept)
    }

    pub(super) fn next_unkept(&mut self) -> Option<Unkept> {
        self.unkept.pop_front()
    }

    /// Whoever reigns has taken a picture of an instance: it is to go on from there, should it have to.
    pub(super) fn recall(
        &mut self,
        now: Time,
        name: &str,
        bytes: &[u8],
        ours: &dyn Fn(u32) -> Option<StreamId>,
        crew: &mut impl Crew,
    ) -> bool {
        let Some((picture, streams)) = Picture::read(bytes, ours) else { return false };
        let here = self.by_name.get(name).copied();
        let fits = |index: &u32| self.keepings.get(index).is_some_and(|keeping| keeping.fits(&picture));
        // Where graphs change on one broker first, the instance that it belongs to is still to come here.
        let Some(index) = here.filter(fits) else {
            let room = self.unclaimed.len() < UNCLAIMED_MAX
                && self.unclaimed_bytes + bytes_of(&picture) <= UNCLAIMED_BYTES_MAX;
            if room || self.unclaimed.contains_key(name) {
                self.unclaimed_bytes += bytes_of(&picture);
                let before = self.unclaimed.insert(name.into(), (picture, streams));
                self.unclaimed_bytes -= before.map_or(0, |(before, _)| bytes_of(&before));
            }
            return room;
        };
        let Some(keeping) = self.keepings.get_mut(&index) else { return false };
        keeping.last = Some((picture, streams));
        self.go_back(now, index, crew);
        true
    }

    /// This broker does not reign any more: what instances have seen since their latest pictures, whoever reigns sees again. They go back.
    pub(super) fn step_down(&mut self, now: Time, crew: &mut impl Crew) {
        self.ready.clear();
        (self.waits, self.free, self.awaited) = (Vec::new(), Vec::new(), 0);
        self.fresh.clear();
        self.due.clear();
        let indices: Vec<u32> = self.keepings.keys().copied().collect();
        for index in indices {
            if let Some(keeping) = self.keepings.get_mut(&index) {
                keeping.waiting.clear();
                keeping.held.clear();
                (keeping.taking, keeping.awaited) = (None, false);
            }
            self.go_back(now, index, crew);
        }
    }

    fn go_back(&mut self, now: Time, index: u32, crew: &mut impl Crew) {
        let Some(keeping) = self.keepings.get_mut(&index) else { return };
        (keeping.wish, keeping.since, keeping.taking) = (Wish::Restore, now, None);
        if keeping.pulse.is_still() {
            self.go_on(index, crew);
        } else {
            self.restless.push(index);
        }
    }

    /// An instance goes on from its latest picture with what came meanwhile, of which the next picture tells.
    fn go_on(&mut self, index: u32, crew: &mut impl Crew) {
        let Some(keeping) = self.keepings.get_mut(&index) else { return };
        keeping.restore(crew);
        keeping.dirty = keeping.awaited || !keeping.held.is_empty();
        keeping.let_go(crew);
        if keeping.dirty && self.wanted != Wanted::Not {
            match keeping.awaited {
                true => self.due.push_front((Time::ZERO, index)),
                false => self.fresh.push(index),
            }
        }
    }
}

impl Keeping {
    /// A picture is to be taken.
    fn begin(&mut self, now: Time, ticket: u32, crew: &mut impl Crew) {
        let asked = || self.asks.iter().flatten();
        let left = asked().count();
        asked().for_each(|place| crew.save(*place, ticket));
        self.since = now;
        self.taking = Some(Taking { ticket, left, operators: vec![Vec::new(); self.asks.len()] });
    }

    /// Whether a picture is one of this instance.
    fn fits(&self, picture: &Picture) -> bool {
        picture.fingerprint == self.fingerprint && picture.operators.len() == self.asks.len()
    }

    /// It goes on from the latest picture, or from the beginning.
    fn restore(&mut self, crew: &mut impl Crew) {
        (self.wish, self.dirty) = (Wish::Nothing, false);
        self.cuts = self.last.as_ref().map(|(picture, _)| picture.cuts.clone()).unwrap_or_default();
        for (operator, place) in self.asks.iter().enumerate() {
            let Some(place) = place else { continue };
            let (memory, streams) = match &self.last {
                Some((picture, streams)) => (picture.operators[operator].clone(), streams.clone()),
                None => (Vec::new(), Streams::default()),
            };
            crew.restore(*place, memory, streams);
        }
    }
}

fn bytes_of(picture: &Picture) -> usize {
    picture.operators.iter().map(Vec::len).sum()
}

impl Router {
    /// From one picture of an instance to the next.
    pub fn set_interval(&mut self, interval: Span) {
        self.pictures.interval = interval;
    }

    /// Whether somebody keeps pictures of instances that remember. They are taken once [`Router::retake_pictures`] says that they can be
    /// understood; messages wait for them from now on.
    pub fn want_pictures(&mut self, wanted: bool, crew: &mut impl Crew) {
        self.pictures.want(wanted, &mut self.done, crew);
    }

    /// Whoever keeps them has none yet, and understands them now.
    pub fn retake_pictures(&mut self) {
        self.pictures.retake();
    }

    /// Whether that one has all.
    pub fn is_kept(&self) -> bool {
        self.pictures.is_kept()
    }

    /// Whether there are instances that remember.
    pub fn remembers(&self) -> bool {
        !self.pictures.keepings.is_empty()
    }

    /// When [`Router::tend_pictures`] has something to do.
    pub fn next_deadline(&self) -> Time {
        self.pictures.next_deadline()
    }

    /// Begins to take pictures that are due.
    pub fn tend_pictures(&mut self, now: Time, crew: &mut impl Crew) {
        self.pictures.tend(now, &mut self.done, crew);
    }

    /// An operator has said what it remembers.
    pub fn saved(&mut self, place: Place, ticket: u32, memory: Result<Vec<u8>, Fault>, crew: &mut impl Crew) {
        self.pictures.saved(place, ticket, memory, &mut self.done, crew);
    }

    /// The next picture that has been taken.
    pub fn next_kept(&mut self) -> Option<Kept> {
        self.pictures.next_kept(&mut self.done)
    }

    /// The next that could not be.
    pub fn next_unkept(&mut self) -> Option<Unkept> {
        self.pictures.next_unkept()
    }

    /// Takes over what another broker's instance remembers. `ours`: our numbers for its streams. `false`: there is no such instance and no
    /// room, or its graph is another.
    pub fn recall(
        &mut self,
        now: Time,
        instance: &str,
        picture: &[u8],
        ours: &dyn Fn(u32) -> Option<StreamId>,
        crew: &mut impl Crew,
    ) -> bool {
        self.pictures.recall(now, instance, picture, ours, crew)
    }

    /// This broker does not reign any more.
    pub fn step_down(&mut self, now: Time, crew: &mut impl Crew) {
        self.pictures.step_down(now, crew);
    }
}
