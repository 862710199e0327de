//! Operators that do not return: noticed, reported, and their threads replaced.
//!
//! The problem: an operator is a user's code. One that loops for ever, or waits for something that never comes, keeps its
//! thread, and nobody can take it away: a thread cannot be ended from outside without tearing what it holds. The idea: leave
//! it there, and start another thread in its place, so that the other operators of the level go on. What comes for the
//! operator waits in its inputs, within their bounds.
//!
//! Each worker notes in one number whether it is in a run, and in which. The watchdog looks at those numbers at equal times,
//! and a run that it sees too often is overdue. It counts looks, not time by the clock: a process that was stopped, or a clock
//! that jumped, makes nobody overdue.
//!
//! A worker that has been replaced and does return ends, since its place is taken. So there are never more threads that can
//! work than were asked for, and at most [`REPLACEMENTS_MAX`] that cannot for each group that has been replaced.
//!
//! Under real-time priorities, one that computes for ever keeps its processor from everything less urgent. Another thread is
//! then no help to lower levels where no other processor is left.

use super::{Place, Role, Shared, Staffing, realtime};
use crate::helpers::Helpers;
use contract::Span;
use processing::Overdue;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A run that takes longer is overdue. Far above every deadline that operators can be given a part of, and above what a busy
/// host takes a thread away for.
const OVERDUE: Duration = Duration::from_secs(1);
/// Between two looks; a run is found overdue at most so much later.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks that see the same run until it is overdue.
const LOOKS: u32 = (OVERDUE.as_millis() / LOOK_EVERY.as_millis()) as u32;
/// Threads of a level that may be replaced at once; without real-time rights, of all levels together. Each keeps a stack and
/// perhaps a processor, so there must be an end.
const REPLACEMENTS_MAX: usize = 4;
/// Reports that may wait for the data thread; later ones wait for the next look.
const REPORTS: usize = 64;

/// What a worker is doing, for the watchdog to see.
#[derive(Default)]
pub(super) struct RunState {
    /// The run's number, [`STEP`] apart from that of the next, and the flags below.
    state: AtomicU64,
    /// Where the operator is.
    level: AtomicU8,
    site: AtomicU64,
}

/// In [`RunState::state`]: a run is under way.
const IN_RUN: u64 = 1;
/// In [`RunState::state`]: another thread has this place.
const FILLED_AGAIN: u64 = 2;
/// From one number of a run to the next.
const STEP: u64 = 4;

impl RunState {
    /// A run begins.
    pub(super) fn begin(&self, place: Place) {
        self.level.store(place.level, SeqCst);
        self.site.store(u64::from(place.index) << 32 | u64::from(place.life), SeqCst);
        // After the place, which thus belongs to this run for as long as this number is there.
        self.state.fetch_add(STEP | IN_RUN, SeqCst);
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.state.fetch_and(!IN_RUN, SeqCst);
    }

    /// Whether another thread has this place, and the worker has to end.
    pub(super) fn is_filled_again(&self) -> bool {
        self.state.load(SeqCst) & FILLED_AGAIN != 0
    }

    /// Gives the place away, if this run is still under way.
    fn give_away(&self, run: u64) -> bool {
        self.state.compare_exchange(run, run | FILLED_AGAIN, SeqCst, SeqCst).is_ok()
    }

    fn place(&self) -> Place {
        let site = self.site.load(SeqCst);
        Place { level: self.level.load(SeqCst), index: (site >> 32) as u32, life: site as u32 }
    }
}

/// The thread that looks, as its owner sees it.
pub(super) struct Watchdog {
    thread: JoinHandle<Vec<JoinHandle<()>>>,
    reports: Consumer<Overdue>,
    /// It ends when this is dropped.
    _leash: Sender<()>,
}

impl Watchdog {
    /// Starts to watch these.
    pub(super) fn start(
        shared: &Arc<Shared>,
        staffing: &Staffing,
        posts: Vec<(Arc<RunState>, Role)>,
        helpers: &Helpers,
    ) -> Result<Watchdog, std::io::Error> {
        let (report, reports) = RingBuffer::new(REPORTS);
        let (leash, led) = channel();
        let watched = posts.into_iter().map(|(post, role)| Watched::new(post, role)).collect();
        let mut round = Round {
            shared: Arc::clone(shared),
            processors: staffing.processors.clone(),
            watched,
            vacancies: Vec::new(),
            hired: Vec::new(),
            overdue: vec![0; shared.floors.len()],
            report,
            helpers: helpers.clone(),
        };
        // It takes locks of every level, so none of them may go before it.
        // It nearly always sleeps.
        let priority =
            staffing.priority.filter(|_| shared.by_priority).map(|priority| priority.saturating_add(1));
        let thread = helpers.hire("watchdog", move || {
            realtime::try_priority(priority, "the watchdog");
            realtime::try_processors(&round.processors, "the watchdog");
            round.watch(&led);
            Ok(round.hired)
        })?;
        Ok(Watchdog { thread, reports, _leash: leash })
    }

    /// What it has found.
    pub(super) fn next_report(&mut self) -> Option<Overdue> {
        self.reports.pop().ok()
    }

    /// Ends it. Returns the threads that it has started.
    pub(super) fn end(self) -> Vec<JoinHandle<()>> {
        let Watchdog { thread, _leash, .. } = self;
        drop(_leash);
        thread.join().unwrap_or_default()
    }
}

/// A worker as it was last seen.
struct Watched {
    post: Arc<RunState>,
    role: Role,
    seen: u64,
    /// Looks that have seen the same run.
    looks: u32,
    /// Whether it has been told that this run is overdue.
    told: bool,
}

impl Watched {
    fn new(post: Arc<RunState>, role: Role) -> Watched {
        Watched { post, role, seen: 0, looks: 0, told: false }
    }

    /// Looks. Returns whether its run is overdue.
    fn look(&mut self) -> bool {
        let state = self.post.state.load(SeqCst);
        if state & IN_RUN == 0 || state != self.seen {
            (self.seen, self.looks, self.told) = (state, 0, false);
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        self.looks >= LOOKS
    }
}

/// The watchdog's own state.
struct Round {
    shared: Arc<Shared>,
    processors: Vec<usize>,
    watched: Vec<Watched>,
    /// Threads that could not be started yet.
    vacancies: Vec<Role>,
    hired: Vec<JoinHandle<()>>,
    /// By level, at this look.
    overdue: Vec<u32>,
    report: Producer<Overdue>,
    /// Where those who take a place that was given away are hired.
    helpers: Helpers,
}

impl Round {
    fn watch(&mut self, led: &Receiver<()>) {
        while led.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            self.look();
            self.fill_vacancies();
            self.hired.retain(|thread| !thread.is_finished());
        }
    }

    fn look(&mut self) {
        self.overdue.fill(0);
        for index in 0..self.watched.len() {
            if self.watched[index].look() {
                self.overdue[usize::from(self.watched[index].post.place().level)] += 1;
                self.attend(index);
            }
        }
        for (floor, overdue) in self.shared.floors.iter().zip(&self.overdue) {
            floor.overdue.store(*overdue, SeqCst);
        }
        // Whoever has come back from a place that was given away has ended.
        self.watched.retain(|worker| {
            let state = worker.post.state.load(SeqCst);
            state & FILLED_AGAIN == 0 || state & IN_RUN != 0
        });
    }

    /// Tells of an overdue run, once, and gives its thread's place to another if that may be.
    fn attend(&mut self, index: usize) {
        // The places of a group: of one level, or of all levels together.
        let group = self.watched[index].role.duty.first;
        let of_group = self.watched.iter().filter(|worker| worker.role.duty.first == group);
        let given_away = of_group.filter(|worker| worker.post.is_filled_again()).count();
        let worker = &mut self.watched[index];
        let mut replaced = worker.post.is_filled_again();
        if !replaced && given_away < REPLACEMENTS_MAX && worker.post.give_away(worker.seen) {
            worker.seen |= FILLED_AGAIN;
            self.vacancies.push(worker.role.clone());
            replaced = true;
        }
        if worker.told || self.report.is_full() {
            return;
        }
        let place = worker.post.place();
        let floor = &self.shared.floors[usize::from(place.level)];
        // A number that is still there says that the place belonged to it.
        if worker.post.state.load(SeqCst) != worker.seen {
            return;
        }
        let known = floor.lock().queue.name(place).cloned();
        // It may have been taken out of the configuration meanwhile.
        let operator = known.unwrap_or_else(|| "(taken out of the configuration)".into());
        let limit = Span::nanos(OVERDUE.as_nanos() as i64);
        worker.told = self.report.push(Overdue { operator, level: place.level, limit, replaced }).is_ok();
        self.shared.call();
    }

    /// What the system refuses now, it may grant at the next look.
    fn fill_vacancies(&mut self) {
        while let Some(role) = self.vacancies.pop() {
            match role.hire(&self.shared, &self.processors, &self.helpers) {
                Ok(hired) => {
                    self.hired.push(hired.thread);
                    self.watched.push(Watched::new(hired.post, role));
                }
                Err(_) => {
                    self.vacancies.push(role);
                    return;
                }
            }
        }
    }
}
