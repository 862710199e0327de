//! The tasks of one node, each a thread.

use crate::Outcome;
use crate::account::{Account, Report};
use crate::arguments::Tasks;
use crate::pendulum::{self, State};
use crate::stores::{self, Found, Store};
use crate::workload::{Task, Value, Workload, expected};
use contract::{Span, Time};
use kv_shared::clock::sleep_towards;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use verge_kv::{Releases, now};

/// When iterations count.
#[derive(Clone, Copy)]
struct Window {
    begin: Time,
    from: Time,
    end: Time,
}

/// A task while it runs.
struct Runner<'a> {
    workload: &'a Workload,
    task: &'a Task,
    number: usize,
    store: Box<dyn Store>,
    lies: &'a AtomicBool,
    account: Account,
    wanted: Vec<(usize, Time)>,
    found: Vec<Option<Found>>,
    values: Vec<(usize, Value)>,
}

/// Connects, says so, waits for the word, and runs until the time is over.
pub fn run(plan: &Tasks) -> Outcome<Report> {
    let workload = Workload::new(plan);
    let lies = Arc::new(AtomicBool::new(false));
    if plan.may_lie {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, lies.clone())?;
    }
    let runners = workload.tasks.iter().enumerate().map(|(number, task)| {
        let store = stores::open(plan, &workload, task, number)?;
        Ok(Runner::new(&workload, task, number, store, &lies))
    });
    let runners = runners.collect::<Outcome<Vec<_>>>()?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let begin = now();
    let from = begin + plan.warm_up;
    let window = Window { begin, from, end: from + plan.measure };
    let mut all = Account::default();
    std::thread::scope(|scope| {
        let started: Vec<_> =
            runners.into_iter().map(|runner| scope.spawn(move || runner.run(window))).collect();
        for thread in started {
            all.add(thread.join().expect("invariant: a task does not panic"));
        }
    });
    Ok(all.report())
}

impl<'a> Runner<'a> {
    fn new(
        workload: &'a Workload,
        task: &'a Task,
        number: usize,
        store: Box<dyn Store>,
        lies: &'a AtomicBool,
    ) -> Runner<'a> {
        let (wanted, values) = (Vec::with_capacity(task.reads.len()), Vec::with_capacity(task.writes.len()));
        let found = vec![None; task.reads.len()];
        Runner { workload, task, number, store, lies, account: Account::default(), wanted, found, values }
    }

    fn run(mut self, window: Window) -> Account {
        // Where it is not granted, the runner has said so.
        drop(verge_kv::realtime(Some(priority(self.task.period)), None));
        let period = self.task.period;
        let mut release = Releases::after(window.begin, period);
        while release < window.end {
            let time = sleep_towards(release).unwrap_or_else(|_| now());
            if time < release {
                continue;
            }
            let counts = release >= window.from;
            if time >= release + period {
                if counts {
                    self.account.missed(1);
                }
            } else {
                self.iterate(release, counts);
            }
            release = release + period;
        }
        self.account
    }

    fn iterate(&mut self, release: Time, counts: bool) {
        let (task, workload) = (self.task, self.workload);
        self.wanted.clear();
        let freshness = |key: &usize| (*key, workload.freshness(*key, task, release));
        self.wanted.extend(task.reads.iter().map(freshness));
        self.found.fill(None);
        let publishing = release + task.period;
        let begun = now();
        let read = self.store.read(&self.wanted, publishing, &mut self.found);
        let reading = now().since(begun);
        let wrong = self.compute(publishing);
        let begun = now();
        let written = self.store.write(&self.values, publishing);
        let writing = now().since(begun);
        if counts {
            self.account.read(reading, &read, wrong);
            self.account.written(writing, &written);
            if read.is_ok() {
                let newest = |at: usize| workload.newest(task.reads[at], release);
                self.account.digest(self.number, release, &self.found, newest);
            }
        }
    }

    /// Makes the values of this iteration; how many of those that were read are wrong.
    fn compute(&mut self, publishing: Time) -> usize {
        let task = self.task;
        self.values.clear();
        let wrong = if task.is_controller {
            let (state, wrong) = self.state();
            let next = pendulum::next(&state, task.period, publishing);
            let value = |number: &f64| Value::of(&number.to_le_bytes()).expect("invariant: eight bytes fit");
            self.values.extend(task.writes.iter().copied().zip(next.iter().map(value)));
            wrong
        } else {
            let value = |key: &usize| (*key, expected(*key, &self.workload.keys[*key], publishing));
            self.values.extend(task.writes.iter().map(value));
            let is_wrong = |(key, found): &(&usize, &Option<Found>)| {
                found.is_some_and(|found| {
                    found.value != expected(**key, &self.workload.keys[**key], found.stamp)
                })
            };
            task.reads.iter().zip(&self.found).filter(is_wrong).count()
        };
        if self.lies.load(Ordering::Relaxed) {
            self.values.iter_mut().for_each(|(_, value)| *value = value.twisted());
        }
        wrong
    }

    /// What a controller goes on from, and whether it is wrong: anew if something could not be read, or is of different instants.
    fn state(&self) -> (State, usize) {
        let mut state = pendulum::upright();
        let stamp = self.found.first().copied().flatten().map(|found| found.stamp);
        for (number, found) in state.iter_mut().zip(&self.found) {
            let bytes = found.filter(|found| Some(found.stamp) == stamp);
            let Some(bytes) = bytes.and_then(|found| found.value.as_bytes().try_into().ok()) else {
                return (pendulum::upright(), 0);
            };
            *number = f64::from_le_bytes(bytes);
        }
        let is_right = stamp.is_some_and(|stamp| pendulum::is_of(&state, self.task.period, stamp));
        if is_right { (state, 0) } else { (pendulum::upright(), 1) }
    }
}

/// As In-ConcReTeS has it: the more frequent, the more urgent, and all before the store.
fn priority(period: Span) -> u8 {
    match period.0 / 1_000_000 {
        ..=1 => 25,
        2..=50 => 20,
        51..=100 => 19,
        101..=200 => 18,
        _ => 17,
    }
}
