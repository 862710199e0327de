//! Threads that run operators: a pool for each level, so that urgent steps never wait for others.
//!
//! The order that must hold is: run level 0, hand over from level 0, run level 1, and so on. With real-time rights each level
//! has threads of its own, two priorities apart, and the kernel keeps the order: a thread of a more urgent level interrupts
//! the others at any point. Without them, all threads serve all levels, and look for the most urgent work whenever an
//! operator has ended; so a run waits for one operator of a less urgent level at most.
//!
//! Handing over is the last duty of a worker that finds nothing to run, and not the work of threads of its own, whose
//! priority would lie between the levels. The order is the same, since a worker hands over before it sleeps and lower levels
//! run only when it does. `sleepers/results/processing.md` compares the two and finds no difference beyond its noise, neither in
//! latencies nor in switches, so the fewer threads it is.
//!
//! A thread may be interrupted by a more urgent one at any point, so none may ever wait for a less urgent one. Between the
//! data thread and each level, and from level to level, there are rings with one writer and one reader, neither of which waits
//! for the other. The lock around a level's operators, and its ends of the rings, is shared by the threads of that level, and by
//! the watchdog, which goes before all of them.
//!
//! An operator that never returns takes its thread along: [`watchdog`] notices, says so, and puts another in its place.

mod overflow;
mod sleepers;
mod watchdog;

use crate::clock::now;
use crate::helpers::Helpers;
use crate::realtime;
use contract::Span;
use overflow::Overflow;
use processing::{
    Crew, Event, Fault, LevelQueue, Outlet, Overdue, Place, Product, Results, Route, Run, Station,
    Stats as Counts, Strain, Streams,
};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use sleepers::{Bell, Sleepers};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use watchdog::{RunState, Watchdog};

/// How operators are to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staffing {
    /// How many levels there are.
    pub levels: u8,
    /// Threads of each level; without real-time rights, of all together.
    pub workers: usize,
    /// The priority of the most urgent level under `SCHED_FIFO`; each further one is two below. `None`: ordinary scheduling.
    pub priority: Option<u8>,
    /// The processors to stay on; empty for any.
    pub processors: Vec<usize>,
    /// Events that may wait for one level, and as many again that do not fit; above it, the oldest of those are dropped and counted.
    pub inbox: usize,
    /// Results that may wait for the data thread; above it, workers wait.
    pub results: usize,
    /// Who hands over between levels.
    pub movers: Movers,
}

/// Who hands events over from level to level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Movers {
    /// A worker that finds nothing to run.
    #[default]
    Workers,
    /// A thread for each level, with a priority between that level and the next. For comparison.
    Threads,
}

/// The threads that run operators. They end when this is dropped.
pub struct Workers {
    shared: Arc<Shared>,
    /// By level.
    ends: Vec<DataEnd>,
    /// The level whose results are taken next.
    turn: usize,
    /// There may be results, since the last look found some or somebody has called.
    results: bool,
    /// The same of what the watchdog reports.
    reports: bool,
    threads: Vec<JoinHandle<()>>,
    /// `None` only while this is being dropped.
    watchdog: Option<Watchdog>,
    refusals: Vec<String>,
    /// On how many processors they run.
    processors: usize,
}

/// The data thread's ends of a level's rings.
struct DataEnd {
    inbox: Producer<Item>,
    /// Operators that did not fit into the inbox. Nothing overtakes them.
    waiting: VecDeque<Item>,
    /// Events that did not fit.
    overflow: Overflow,
    results: Consumer<Product>,
}

struct Shared {
    floors: Vec<Floor>,
    /// Wakes the data thread.
    bell: Bell,
    rung: AtomicBool,
    /// Threads that are not asleep.
    awake: AtomicUsize,
    ends: AtomicBool,
    by_priority: bool,
}

/// One level.
struct Floor {
    inside: Mutex<Inside>,
    /// Whoever runs this level's operators waits here.
    workers: Sleepers,
    /// Whoever hands over from it, if that is somebody else.
    mover: Sleepers,
    /// Events for it that were dropped.
    refused: AtomicU64,
    /// Its runs that do not return.
    overdue: AtomicU32,
}

/// What the threads of a level share.
struct Inside {
    queue: LevelQueue,
    /// From the data thread and from each more urgent level.
    inboxes: Vec<Consumer<Item>>,
    /// How many had come from each when it was last looked at.
    came: Vec<usize>,
    /// To each less urgent level.
    below: Vec<Producer<Item>>,
    results: Producer<Product>,
    /// Operators that are to be asked what they remember.
    saves: VecDeque<(Place, u32)>,
}

/// What comes to a level.
enum Item {
    Event(Route, Event),
    Add(Box<Station>),
    Remove(Place),
    /// An operator is to be asked what it remembers, with a ticket.
    Save(Place, u32),
    /// An operator is to go on as another did.
    Restore(Place, Vec<u8>, Streams),
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Duty {
    /// The levels that it serves.
    first: usize,
    last: usize,
    runs: bool,
    hands_over: bool,
}

impl Workers {
    /// Starts the threads.
    pub fn start(staffing: &Staffing, helpers: &Helpers) -> Result<Workers, std::io::Error> {
        let (floors, ends) = build(staffing)?;
        // Whether threads may have priorities is tried by one that ends at once.
        let priority = staffing.priority;
        let probe = std::thread::Builder::new().spawn(move || realtime::try_priority(priority, "workers"))?;
        let refusals = probe.join().unwrap_or_default();
        let shared = Shared {
            floors,
            bell: Bell::new(EventfdFlags::NONBLOCK)?,
            rung: AtomicBool::new(false),
            awake: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
            by_priority: priority.is_some() && refusals.is_empty(),
        };
        let shared = Arc::new(shared);
        let mut workers = Workers {
            shared: Arc::clone(&shared),
            ends,
            turn: 0,
            results: true,
            reports: true,
            threads: Vec::new(),
            watchdog: None,
            refusals,
            processors: match staffing.processors.len() {
                0 => std::thread::available_parallelism().map_or(1, usize::from),
                some => some,
            },
        };
        let mut posts = Vec::new();
        for role in roles(staffing, shared.by_priority) {
            let hired = role.hire(&shared, &staffing.processors, helpers)?;
            workers.threads.push(hired.thread);
            workers.refusals.extend(hired.refusals);
            posts.push((hired.post, role));
        }
        workers.watchdog = Some(Watchdog::start(&shared, staffing, posts, helpers)?);
        workers.refusals.sort();
        workers.refusals.dedup();
        Ok(workers)
    }

    /// What was wished for and not granted, in sentences.
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// Events that were dropped because too many waited for a level.
    pub fn refused(&self) -> u64 {
        self.shared.floors.iter().map(|floor| floor.refused.load(SeqCst)).sum()
    }

    /// What they take of the processors.
    pub fn load(&self) -> Occupancy {
        Occupancy { shared: Arc::clone(&self.shared), processors: self.processors }
    }

    /// What becomes readable when there are results.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

/// What the threads that run operators take of the processors.
#[derive(Clone)]
pub struct Occupancy {
    shared: Arc<Shared>,
    processors: usize,
}

impl Occupancy {
    /// Whether there are at least as many threads with work as processors for them.
    pub fn is_full(&self) -> bool {
        self.shared.awake.load(SeqCst) >= self.processors
    }

    /// Whether a processor is left to another thread after they have one each.
    pub fn leaves_one(&self) -> bool {
        self.shared.awake.load(SeqCst) + 1 < self.processors
    }
}

/// A thread as it is wanted.
#[derive(Clone)]
struct Role {
    name: String,
    duty: Duty,
    priority: Option<u8>,
}

/// A thread that has begun.
struct Hired {
    thread: JoinHandle<()>,
    post: Arc<RunState>,
    /// What it wished for and was not granted.
    refusals: Vec<String>,
}

impl Role {
    /// Starts the thread.
    fn hire(
        &self,
        shared: &Arc<Shared>,
        processors: &[usize],
        helpers: &Helpers,
    ) -> Result<Hired, std::io::Error> {
        let (shared, processors, post) =
            (Arc::clone(shared), processors.to_vec(), Arc::<RunState>::default());
        let (duty, priority, own) = (self.duty, self.priority, Arc::clone(&post));
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = helpers.hire_from(builder, &self.name, move || {
            let mut refusals = realtime::try_priority(priority, "workers");
            refusals.extend(realtime::try_processors(&processors, "workers"));
            let _ = tell.send(refusals);
            shared.serve(duty, &own);
            Ok(())
        })?;
        Ok(Hired { thread, post, refusals: told.recv().unwrap_or_default() })
    }
}

/// The levels, and the data thread's ends of their rings.
fn build(staffing: &Staffing) -> Result<(Vec<Floor>, Vec<DataEnd>), Errno> {
    let levels = usize::from(staffing.levels);
    let (mut floors, mut ends) = (Vec::new(), Vec::new());
    let mut inboxes: Vec<Vec<Consumer<Item>>> = (0..levels).map(|_| Vec::new()).collect();
    for level in 0..levels {
        let (inbox, end) = RingBuffer::new(staffing.inbox.max(1));
        // The data thread's is the first; see `Inside::take_in`.
        inboxes[level].insert(0, end);
        let (results, results_end) = RingBuffer::new(staffing.results.max(1));
        let (waiting, overflow) = (VecDeque::new(), Overflow::default());
        ends.push(DataEnd { inbox, waiting, overflow, results: results_end });
        let below = (level + 1..levels).map(|lower| {
            let (producer, consumer) = RingBuffer::new(staffing.inbox.max(1));
            inboxes[lower].push(consumer);
            producer
        });
        let below = below.collect();
        // All that is above this level has added its ring by now.
        let inboxes = std::mem::take(&mut inboxes[level]);
        let came = Vec::with_capacity(inboxes.len());
        let (queue, saves) = (LevelQueue::default(), VecDeque::new());
        let inside = Inside { queue, inboxes, came, below, results, saves };
        let (workers, mover) = (Sleepers::new()?, Sleepers::new()?);
        let (refused, overdue) = (AtomicU64::new(0), AtomicU32::new(0));
        floors.push(Floor { inside: Mutex::new(inside), workers, mover, refused, overdue });
    }
    Ok((floors, ends))
}

/// Operators need little stack; those of users run on a stack of their own.
const STACK_BYTES: usize = 1 << 20;

/// The threads.
fn roles(staffing: &Staffing, by_priority: bool) -> Vec<Role> {
    let last = usize::from(staffing.levels).saturating_sub(1);
    let (mut roles, workers) = (Vec::new(), staffing.workers.max(1));
    let role = |name, duty, priority| Role { name, duty, priority };
    if !by_priority {
        let all = Duty { first: 0, last, runs: true, hands_over: true };
        roles.extend((0..workers).map(|n| role(format!("operators-{n}"), all, None)));
        return roles;
    }
    for level in 0..=last {
        let below = |steps: usize| Some(staffing.priority?.saturating_sub(steps as u8).max(1));
        let (runs, hands_over) = (true, staffing.movers == Movers::Workers);
        let duty = Duty { first: level, last: level, runs, hands_over };
        roles.extend((0..workers).map(|n| role(format!("level-{level}-{n}"), duty, below(2 * level))));
        if staffing.movers == Movers::Threads {
            let duty = Duty { runs: false, hands_over: true, ..duty };
            roles.push(role(format!("mover-{level}"), duty, below(2 * level + 1)));
        }
    }
    roles
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
        self.threads.extend(self.watchdog.take().map(Watchdog::end).unwrap_or_default());
        // Whoever is asleep wakes; a ring too many does no harm.
        for sleepers in self.shared.floors.iter().flat_map(|floor| [&floor.workers, &floor.mover]) {
            (0..self.threads.len()).for_each(|_| sleepers.bell.ring());
        }
        for thread in self.threads.drain(..) {
            // One that never returns from an operator ends with the process.
            for _ in 0..100 {
                if thread.is_finished() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl Crew for Workers {
    fn add(&mut self, station: Box<Station>) {
        let level = station.place().level;
        self.ends[usize::from(level)].overflow.add(&station);
        self.change(level, Item::Add(station));
    }

    fn remove(&mut self, place: Place) {
        self.ends[usize::from(place.level)].overflow.remove(place);
        self.change(place.level, Item::Remove(place));
    }

    fn save(&mut self, place: Place, ticket: u32) {
        self.change(place.level, Item::Save(place, ticket));
    }

    fn restore(&mut self, place: Place, memory: Vec<u8>, streams: Streams) {
        self.change(place.level, Item::Restore(place, memory, streams));
    }

    fn offer(&mut self, route: Route, event: Event) -> bool {
        let level = usize::from(route.to.level);
        let end = &mut self.ends[level];
        let left = if end.settle() { end.push(route, event) } else { Some((route, event)) };
        if let Some((route, event)) = left {
            let most = end.inbox.buffer().capacity();
            if end.overflow.keep(route, event, most) {
                self.shared.floors[level].refused.fetch_add(1, SeqCst);
            }
            self.results = true;
        }
        self.shared.workers_of(level).wake(&self.shared.awake);
        true
    }

    fn collect(&mut self) -> Option<Product> {
        // Before looking, so that what comes after the last look rings again. The bell itself is never read: whoever waits for
        // it is woken by each ring, and not by its being readable.
        if self.shared.rung.load(SeqCst) {
            self.shared.rung.store(false, SeqCst);
            fence(SeqCst);
            (self.results, self.reports) = (true, true);
        }
        if !self.results {
            return None;
        }
        for _ in 0..self.ends.len() {
            let end = &mut self.ends[self.turn];
            if end.waits() {
                // Some of it may have gone in where not all did.
                end.settle();
                self.shared.workers_of(self.turn).wake(&self.shared.awake);
            }
            if let Ok(product) = end.results.pop() {
                return Some(product);
            }
            self.turn = (self.turn + 1) % self.ends.len();
        }
        // What did not fit into an inbox is tried again without a call.
        self.results = self.ends.iter().any(DataEnd::waits);
        None
    }

    fn overdue(&mut self) -> Option<Overdue> {
        let report = if self.reports { self.watchdog.as_mut()?.next_report() } else { None };
        self.reports = report.is_some();
        report
    }

    fn is_idle(&self) -> bool {
        // Whoever is awake has something to do, or looks whether there is; so has whoever an inbox waits for.
        let empty = |end: &DataEnd| {
            end.inbox.slots() == end.inbox.buffer().capacity() && end.results.is_empty() && !end.waits()
        };
        self.shared.awake.load(SeqCst) == 0 && self.ends.iter().all(empty)
    }

    fn strain(&self, level: u8) -> Strain {
        let floor = self.shared.floors.get(usize::from(level));
        floor.map_or_else(Strain::default, |floor| Strain {
            refused: floor.refused.load(SeqCst),
            overdue: floor.overdue.load(SeqCst),
        })
    }
}

impl Workers {
    fn change(&mut self, level: u8, item: Item) {
        let level = usize::from(level);
        let end = &mut self.ends[level];
        end.waiting.push_back(item);
        end.settle();
        self.results = true;
        self.shared.workers_of(level).wake(&self.shared.awake);
    }
}

impl DataEnd {
    /// Whether something did not fit into the inbox.
    fn waits(&self) -> bool {
        !self.waiting.is_empty() || !self.overflow.is_empty()
    }

    /// Puts what waits into the inbox. `false`: it is full.
    fn settle(&mut self) -> bool {
        while let Some(item) = self.waiting.pop_front() {
            if let Err(PushError::Full(item)) = self.inbox.push(item) {
                self.waiting.push_front(item);
                return false;
            }
        }
        while !self.overflow.is_empty() && self.inbox.slots() > 0 {
            let left = self.overflow.take().and_then(|(route, event)| self.push(route, event));
            assert!(left.is_none(), "an inbox had room, nobody else writes to it, and it is full");
        }
        self.overflow.is_empty()
    }

    /// Puts an event into the inbox. Returns it if that is full.
    fn push(&mut self, route: Route, event: Event) -> Option<(Route, Event)> {
        match self.inbox.push(Item::Event(route, event)) {
            Err(PushError::Full(Item::Event(route, event))) => Some((route, event)),
            _ => None,
        }
    }
}

impl Shared {
    /// Where those sleep who run a level. Threads that serve all levels sleep at the first.
    fn workers_of(&self, level: usize) -> &Sleepers {
        let level = if self.by_priority { level } else { 0 };
        &self.floors[level].workers
    }

    fn serve(&self, duty: Duty, post: &RunState) {
        self.awake.fetch_add(1, SeqCst);
        let levels = duty.first..=duty.last;
        while !self.ends.load(SeqCst) && !post.is_filled_again() {
            // From the most urgent level again after each step.
            let worked = levels.clone().any(|level| self.step(level, duty, post));
            if !worked {
                let sleepers =
                    if duty.runs { &self.floors[duty.first].workers } else { &self.floors[duty.first].mover };
                sleepers.sleep(&self.awake, || levels.clone().any(|level| self.has_work(level, duty)));
            }
        }
        self.awake.fetch_sub(1, SeqCst);
    }

    /// Wakes the data thread, which has not been since it last looked.
    fn call(&self) {
        if !self.rung.swap(true, SeqCst) {
            self.bell.ring();
        }
    }

    fn has_work(&self, level: usize, duty: Duty) -> bool {
        let inside = self.floors[level].lock();
        let runs = inside.queue.is_ready()
            || !inside.saves.is_empty()
            || inside.inboxes.iter().any(|inbox| !inbox.is_empty());
        (duty.runs && runs) || (duty.hands_over && inside.queue.has_moving()) || self.ends.load(SeqCst)
    }

    /// One run, or one event handed over. `false`: nothing to do at this level.
    fn step(&self, level: usize, duty: Duty, post: &RunState) -> bool {
        let floor = &self.floors[level];
        let mut inside = floor.lock();
        if duty.runs {
            if inside.take_in(self) {
                self.call();
            }
            if let Some((place, ticket)) = inside.saves.pop_front() {
                drop(inside);
                self.save(level, place, ticket, post);
                return true;
            }
            if let Some(run) = inside.queue.begin(now()) {
                let more = inside.queue.is_ready();
                drop(inside);
                if more {
                    self.workers_of(level).wake(&self.awake);
                }
                self.run(level, run, duty, post);
                return true;
            }
        }
        if !duty.hands_over {
            let left = inside.queue.has_moving();
            drop(inside);
            if left {
                floor.mover.wake(&self.awake);
            }
            return false;
        }
        let Some((route, event)) = inside.queue.hand_over() else { return false };
        let target = usize::from(route.to.level);
        // Before the lock is released: another worker must not overtake us with the next one. Results only go to less urgent
        // levels (C4).
        let ring = target.checked_sub(level + 1).and_then(|below| inside.below.get_mut(below));
        let taken = ring.is_some_and(|ring| ring.push(Item::Event(route, event)).is_ok());
        if !taken {
            self.floors[target].refused.fetch_add(1, SeqCst);
        }
        drop(inside);
        self.workers_of(target).wake(&self.awake);
        true
    }

    /// An operator is asked what it remembers, as in a run of its own.
    fn save(&self, level: usize, place: Place, ticket: u32, post: &RunState) {
        let floor = &self.floors[level];
        let begun = floor.lock().queue.begin_save(place);
        let begun = begun.map(|mut save| {
            post.begin(place);
            save.work();
            post.end();
            save
        });
        let mut inside = floor.lock();
        let Inside { queue, results, .. } = &mut *inside;
        let memory = begun.and_then(|save| queue.end_save(save));
        Sink { shared: self, results, pushed: false }.push(Product::Saved { place, ticket, memory });
        drop(inside);
        self.call();
    }

    /// A run, and what follows it at once: nothing of another level goes before the next run of the most urgent level that
    /// this thread serves, so that one begins under the same lock and at the same instant.
    fn run(&self, level: usize, mut run: Run, duty: Duty, post: &RunState) {
        let floor = &self.floors[level];
        loop {
            post.begin(run.place());
            let outcome = run.work();
            post.end();
            let mut inside = floor.lock();
            let Inside { queue, results, .. } = &mut *inside;
            let mut sink = Sink { shared: self, results, pushed: false };
            let time = now();
            queue.end(time, run, &outcome, &mut sink);
            let pushed = sink.pushed;
            let goes_on = level == duty.first && !self.ends.load(SeqCst) && !post.is_filled_again();
            let mut pushed = pushed;
            let next = if goes_on {
                pushed |= inside.take_in(self);
                // Whoever is to be asked what he remembers goes before the next run.
                if inside.saves.is_empty() { inside.queue.begin(time) } else { None }
            } else {
                None
            };
            let more = next.is_some() && inside.queue.is_ready();
            drop(inside);
            // Not under the lock: waking somebody takes longer than everything else here.
            if pushed {
                self.call();
            }
            if more {
                self.workers_of(level).wake(&self.awake);
            }
            match next {
                Some(next) => run = next,
                None => return,
            }
        }
    }
}

impl Floor {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing panics while it is held; operators run outside.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Takes in what has come. An operator is there before the first event for it: whatever is in the rings of other levels
    /// now was caused by something that the data thread had sent after the operator. Returns whether the data thread has to be called.
    fn take_in(&mut self, shared: &Shared) -> bool {
        let Inside { queue, inboxes, came, saves, results, .. } = self;
        let mut sink = Sink { shared, results, pushed: false };
        came.clear();
        came.extend(inboxes.iter().map(Consumer::slots));
        for (index, inbox) in inboxes.iter_mut().enumerate() {
            let most = if index == 0 { usize::MAX } else { came[index] };
            for _ in 0..most {
                match inbox.pop() {
                    Ok(Item::Event(route, event)) => queue.offer(route, event),
                    Ok(Item::Add(station)) => queue.add(station),
                    Ok(Item::Remove(place)) => queue.remove(place),
                    Ok(Item::Save(place, ticket)) => saves.push_back((place, ticket)),
                    Ok(Item::Restore(place, memory, streams)) => {
                        queue.restore(place, &memory, &streams, &mut sink);
                    }
                    Err(_) => break,
                }
            }
        }
        sink.pushed
    }
}

/// Results on their way to the data thread.
struct Sink<'a> {
    shared: &'a Shared,
    results: &'a mut Producer<Product>,
    /// The data thread has to be called.
    pushed: bool,
}

/// How long a worker waits when the data thread has not taken results yet.
const PATIENCE: Duration = Duration::from_micros(20);

impl Sink<'_> {
    fn push(&mut self, mut product: Product) {
        while let Err(PushError::Full(back)) = self.results.push(product) {
            if self.shared.ends.load(SeqCst) {
                return;
            }
            product = back;
            self.shared.call();
            std::thread::sleep(PATIENCE);
        }
        self.pushed = true;
    }
}

impl Results for Sink<'_> {
    fn result(&mut self, outlet: Outlet, event: Event) {
        self.push(Product::Result(outlet, event));
    }

    fn fault(&mut self, operator: &Arc<str>, stats: &Arc<Counts>, fault: &Fault) {
        let (operator, stats, fault) = (Arc::clone(operator), Arc::clone(stats), fault.clone());
        self.push(Product::Fault { operator, stats, fault });
    }

    fn overran(&mut self, operator: &Arc<str>, stats: &Arc<Counts>, took: Span, cost: Span) {
        // The data thread is told once in a while, and never made to wait for it.
        if stats.tell_slow(now(), TOLD_EVERY) {
            let (operator, stats) = (Arc::clone(operator), Arc::clone(stats));
            self.push(Product::Overran { operator, stats, took, cost });
        }
    }
}

/// Between two words about the same operator.
const TOLD_EVERY: Span = Span::secs(60);
