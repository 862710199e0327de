//! The floor of CPEP, figure 2.6: bare threads with the kernel's priorities that burn what the operators take, and nothing else. No graph, no
//! payload, no validity, no check of anything, no results that come back to somebody. It is what threads cost here, and no bound: a level
//! is served in order of arrival, where a better order of its readings may be faster.
//!
//! There are two ways, and the better one of a level counts. *Chained*: each thread of a level has streams of its own, sleeps until the
//! next of their readings is due and does itself whatever follows. *Handed over*: one thread above all levels sleeps until the next
//! reading is due and wakes a thread of its level, whichever is free.

use crate::busy::{self, Burn};
use crate::process::used;
use crate::tally::{Quantiles, Tally};
use crate::time::{span, timespec};
use contract::{Span, Time};
use host::now;
use host::realtime::{Wishes, ask};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What runs, and how.
#[derive(Deserialize)]
pub struct Plan {
    /// The most urgent first.
    levels: Vec<LevelPlan>,
    /// One thread sleeps for all and wakes those that work.
    handed_over: bool,
    /// Threads of each level.
    workers: usize,
    seconds: f64,
    warm_up: f64,
    drain: f64,
    seed: u64,
    /// How far apart the suppliers of one stream begin.
    apart_ms: f64,
}

#[derive(Deserialize, Clone)]
struct LevelPlan {
    name: String,
    streams: usize,
    suppliers: usize,
    period_ms: i64,
    /// Of the operator behind each supplier, of the one that takes a reading of each, and of the one behind that; 0: there is none.
    costs_us: [f64; 3],
}

/// What came of it; each as in the report of `load`.
#[derive(Serialize)]
pub struct Report {
    levels: BTreeMap<String, Quantiles>,
    processor_share: f64,
    stolen_share: f64,
    supplied_late_ms: f64,
    step_ns: f64,
    took: Option<f64>,
    notes: Vec<String>,
}

/// The thread that sleeps for all; each level is two below the one before.
const PRIORITY: u8 = 50;
/// Until all threads are there.
const START: Span = Span::millis(200);
/// Readings that may wait for a level.
const ROOM: usize = 65_536;

/// Runs it.
pub fn run(plan: &Plan) -> Report {
    busy::step_ns();
    let begin = now() + START;
    let times = Times {
        from: begin + span(plan.warm_up),
        until: begin + span(plan.warm_up + plan.seconds),
        end: begin + span(plan.warm_up + plan.seconds + plan.drain),
    };
    let mut chance = fastrand::Rng::with_seed(plan.seed);
    let floors: Vec<_> = plan.levels.iter().map(|level| Arc::new(Floor::new(level, times))).collect();
    let agendas: Vec<_> = plan.levels.iter().map(|level| agenda(level, plan, begin, &mut chance)).collect();
    let threads =
        if plan.handed_over { hand_over(plan, &floors, agendas) } else { chain(plan, &floors, agendas) };
    sleep_until(times.from);
    let (before, counted_from) = (used(), now());
    sleep_until(times.until);
    let (after, seconds) = (used(), now().since(counted_from).0 as f64 / 1e9);
    let mut notes: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
    notes.sort();
    notes.dedup();
    let late = floors.iter().map(|floor| floor.late_ns.load(SeqCst)).max().unwrap_or_default();
    let levels = floors.iter().zip(&plan.levels).map(|(floor, level)| {
        let tally = floor.tally.lock().unwrap_or_else(PoisonError::into_inner);
        (level.name.clone(), tally.quantiles(plan.seconds))
    });
    Report {
        levels: levels.collect(),
        processor_share: after.share_since(&before, seconds),
        stolen_share: after.stolen_since(&before, seconds),
        supplied_late_ms: late as f64 / 1e6,
        step_ns: busy::step_ns(),
        took: busy::took(),
        notes,
    }
}

fn sleep_until(time: Time) {
    // A signal ends the sleep too soon, and there are none.
    let _ = clock_nanosleep_absolute(ClockId::Realtime, &timespec(time));
}

/// Which readings count, and when everybody stops.
#[derive(Clone, Copy)]
struct Times {
    from: Time,
    until: Time,
    end: Time,
}

/// When readings are due, by the stream and the supplier.
type Agenda = BinaryHeap<Reverse<(Time, usize, usize)>>;

/// Streams begin anywhere in their period, suppliers of a stream near each other.
fn agenda(level: &LevelPlan, plan: &Plan, begin: Time, chance: &mut fastrand::Rng) -> Agenda {
    let period = Span::millis(level.period_ms).0 as f64;
    let mut agenda = Agenda::new();
    for stream in 0..level.streams {
        let begin = begin + Span::nanos((chance.f64() * period) as i64);
        for supplier in 0..level.suppliers {
            let apart = Span::nanos((chance.f64() * plan.apart_ms * 1e6) as i64);
            agenda.push(Reverse((begin + apart, stream, supplier)));
        }
    }
    agenda
}

/// One level.
struct Floor {
    period: Span,
    costs_us: [f64; 3],
    /// By stream: the reading of each supplier that waits for the others.
    joins: Vec<Mutex<Vec<Option<Time>>>>,
    tally: Mutex<Tally>,
    late_ns: AtomicU64,
    times: Times,
    inbox: Inbox,
}

impl Floor {
    fn new(level: &LevelPlan, times: Times) -> Floor {
        let per_second = level.streams as f64 * 1e3 / level.period_ms as f64;
        Floor {
            period: Span::millis(level.period_ms),
            costs_us: level.costs_us,
            joins: (0..level.streams).map(|_| Mutex::new(vec![None; level.suppliers])).collect(),
            tally: Mutex::new(Tally::new(level.name.clone(), per_second)),
            late_ns: AtomicU64::new(0),
            times,
            inbox: Inbox::new(),
        }
    }

    /// Sleeps until the next reading is due. `None`: it is time to stop.
    fn next(&self, agenda: &mut Agenda) -> Option<(Time, usize, usize)> {
        let Reverse((due, stream, supplier)) = agenda.pop().filter(|next| next.0.0 < self.times.end)?;
        agenda.push(Reverse((due + self.period, stream, supplier)));
        if now() < due {
            sleep_until(due);
        }
        if due >= self.times.from && due < self.times.until {
            self.late_ns.fetch_max(now().since(due).as_nanos_u64(), SeqCst);
        }
        Some((due, stream, supplier))
    }

    /// All that becomes of a reading.
    fn work(&self, hands: &mut [Option<Burn>; 3], due: Time, stream: usize, supplier: usize) {
        let [first, together, last] = hands;
        first.iter_mut().for_each(Burn::run);
        let mut there = self.joins[stream].lock().unwrap_or_else(PoisonError::into_inner);
        there[supplier] = Some(due);
        if !there.iter().all(Option::is_some) {
            return;
        }
        let created = there.iter_mut().filter_map(Option::take).max().unwrap_or(due);
        drop(there);
        together.iter_mut().chain(last).for_each(Burn::run);
        if created >= self.times.from && created < self.times.until {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.latency.saturating_record(now().since(created).as_nanos_u64() / 1_000);
        }
    }

    /// A thread's own operators.
    fn hands(&self) -> [Option<Burn>; 3] {
        self.costs_us.map(|cost_us| (cost_us > 0.0).then(|| Burn::new(cost_us)))
    }
}

/// A thread, and in sentences what it was not granted.
type Thread = JoinHandle<Vec<String>>;

/// Starts a thread of this priority.
fn start(priority: u8, work: impl FnOnce() + Send + 'static) -> Thread {
    std::thread::spawn(move || {
        let refusals = ask(&Wishes { priority: Some(priority), processors: Vec::new(), lock_memory: false });
        work();
        refusals
    })
}

fn priority_of(level: usize) -> u8 {
    PRIORITY.saturating_sub(1 + 2 * level as u8).max(1)
}

/// Each thread sleeps for its own streams.
fn chain(plan: &Plan, floors: &[Arc<Floor>], agendas: Vec<Agenda>) -> Vec<Thread> {
    let mut threads = Vec::new();
    for (level, (floor, agenda)) in floors.iter().zip(agendas).enumerate() {
        for number in 0..plan.workers {
            let own = |next: &&Reverse<(Time, usize, usize)>| next.0.1 % plan.workers == number;
            let mut agenda: Agenda = agenda.iter().filter(own).copied().collect();
            let floor = Arc::clone(floor);
            threads.push(start(priority_of(level), move || {
                let mut hands = floor.hands();
                while let Some((due, stream, supplier)) = floor.next(&mut agenda) {
                    floor.work(&mut hands, due, stream, supplier);
                }
            }));
        }
    }
    threads
}

/// One thread sleeps for all of them.
fn hand_over(plan: &Plan, floors: &[Arc<Floor>], agendas: Vec<Agenda>) -> Vec<Thread> {
    let mut threads = Vec::new();
    for (level, floor) in floors.iter().enumerate() {
        for _ in 0..plan.workers {
            let floor = Arc::clone(floor);
            threads.push(start(priority_of(level), move || {
                let mut hands = floor.hands();
                while let Some((due, stream, supplier)) = floor.inbox.take() {
                    floor.work(&mut hands, due, stream, supplier);
                }
            }));
        }
    }
    let (floors, workers) = (floors.to_vec(), plan.workers);
    threads.push(start(PRIORITY, move || {
        let mut agendas = agendas;
        let first = |agenda: &Agenda| agenda.peek().map_or(Time::NEVER, |next| next.0.0);
        while let Some(level) = (0..floors.len()).min_by_key(|level| first(&agendas[*level])) {
            let Some((due, stream, supplier)) = floors[level].next(&mut agendas[level]) else { break };
            floors[level].inbox.put(Some((due, stream, supplier)));
        }
        floors.iter().for_each(|floor| (0..workers).for_each(|_| floor.inbox.put(None)));
    }));
    threads
}

/// Readings on their way to the threads of a level: one puts them, each takes the next. No lock, since who puts them must not wait for
/// who is less urgent.
struct Inbox {
    /// When the reading was due, its stream, its supplier; nobody's time says that there are no more.
    slots: Vec<[AtomicU64; 3]>,
    put: AtomicUsize,
    taken: AtomicUsize,
    /// Counts readings; whoever takes one waits for one.
    there: OwnedFd,
}

impl Inbox {
    fn new() -> Inbox {
        let slot = || [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
        Inbox {
            slots: (0..ROOM).map(|_| slot()).collect(),
            put: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            there: eventfd(0, EventfdFlags::SEMAPHORE).expect("there are descriptors"),
        }
    }

    fn put(&self, reading: Option<(Time, usize, usize)>) {
        let at = self.put.fetch_add(1, SeqCst);
        assert!(
            at - self.taken.load(SeqCst) < ROOM,
            "the floor is too slow for this load: {ROOM} readings wait"
        );
        let (due, stream, supplier) = reading.unwrap_or((Time::NEVER, 0, 0));
        for (slot, value) in self.slots[at % ROOM].iter().zip([due.0, stream as u64, supplier as u64]) {
            slot.store(value, SeqCst);
        }
        rustix::io::write(&self.there, &1_u64.to_ne_bytes())
            .expect("invariant: the count is far below its limit");
    }

    fn take(&self) -> Option<(Time, usize, usize)> {
        rustix::io::read(&self.there, &mut [0_u8; 8]).expect("invariant: it is open");
        // Whoever has counted one down finds one that was put before it was counted up.
        let at = self.taken.fetch_add(1, SeqCst);
        let [due, stream, supplier] = [0, 1, 2].map(|part: usize| self.slots[at % ROOM][part].load(SeqCst));
        (due != Time::NEVER.0).then_some((Time(due), stream as usize, supplier as usize))
    }
}
