//! Which functions run here.

use crate::running::Running;
use crate::spec::FunctionSpec;
use host::Helpers;
use peer_host::{Begun, Duty, Journal, Work};
use rendezvous::Space;
use report::{RunningReport, TracedReport};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use verge::Client;

/// Functions that one peer runs at once.
const FUNCTIONS_MAX: usize = 256;

/// Makes a client of the brokers, which has this name. It does not wait for one of them.
pub type Connect = dyn Fn(&str) -> Result<Client, String> + Send + Sync;

/// What functions have around them.
#[derive(Clone)]
pub struct Hosting {
    /// The name of the peer.
    pub peer: String,
    /// Where they ask it.
    pub http: Option<String>,
    /// What is said of things.
    pub space: Space,
    /// Their brokers.
    pub connect: Arc<Connect>,
    /// Their log.
    pub journal: Arc<dyn Journal>,
}

/// By name; and whether it runs, or waits to be started.
type Functions = BTreeMap<Arc<str>, (Arc<Running>, bool)>;

/// Runs functions, each on a thread.
pub struct Runner {
    hosting: Hosting,
    helpers: Helpers,
    /// Those that are to run here.
    running: Mutex<Functions>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Who is told of what has begun.
    begun_told: Mutex<Option<Begun>>,
    /// Those that there is no room for, as the log has said.
    beyond: Mutex<Vec<Arc<str>>>,
    begun: AtomicU64,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// Nothing runs yet.
    pub fn new(hosting: Hosting, helpers: Helpers) -> Runner {
        Runner {
            hosting,
            helpers,
            running: Mutex::default(),
            threads: Mutex::default(),
            begun_told: Mutex::default(),
            beyond: Mutex::default(),
            begun: AtomicU64::new(0),
        }
    }

    /// Ends all, and waits for it.
    pub fn finish(&self) {
        self.assign(Vec::new());
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // Its panic has been told.
            _ = thread.join();
        }
    }

    /// Begins with one. Returns whether it could.
    fn begin(&self, running: &Arc<Running>) -> bool {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (hosting, runs) = (self.hosting.clone(), Arc::clone(running));
        let told = lock(&self.begun_told).clone();
        let work = move || {
            let begun = |name: &Arc<str>| {
                if let Some(told) = &told {
                    told(Arc::clone(name));
                }
            };
            runs.run(&hosting, number, &begun);
            Ok(())
        };
        match self.helpers.hire("function", work) {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                true
            }
            Err(error) => {
                self.hosting.journal.warn(&format!("a function has no thread: {error}"));
                running.have_no_thread(&error);
                false
            }
        }
    }

    /// There is no room for these; the log says so where that is new.
    fn say_beyond(&self, beyond: &[Duty]) {
        let names: Vec<Arc<str>> = beyond.iter().map(|duty| Arc::clone(&duty.name)).collect();
        let mut said = lock(&self.beyond);
        if *said != names && !names.is_empty() {
            let first: Vec<&str> = names.iter().take(5).map(|name| &**name).collect();
            self.hosting.journal.warn(&format!(
                "this peer runs {FUNCTIONS_MAX} functions at once, and {} more not ({}{}); start more peers in its region",
                names.len(),
                first.join(", "),
                if names.len() > first.len() { ", ..." } else { "" }
            ));
        }
        *said = names;
    }
}

impl Work for Runner {
    fn check(&self, text: &str) -> Result<(), String> {
        FunctionSpec::read(text, &self.hosting.space).map(drop).map_err(|error| error.to_string())
    }

    fn assign(&self, mut duties: Vec<Duty>) {
        let mut running = lock(&self.running);
        // What runs goes before what is new.
        duties.sort_by_key(|duty| !running.contains_key(&duty.name));
        self.say_beyond(&duties.split_off(duties.len().min(FUNCTIONS_MAX)));
        let is_same =
            |known: &Running, duty: &Duty| known.duty.name == duty.name && known.duty.version == duty.version;
        running.retain(|_, (known, runs)| {
            let duty = duties.iter().find(|duty| is_same(known, duty));
            // One that has been stopped begins anew with the next start.
            let stays = duty.is_some_and(|duty| !*runs || known.is_due(duty.is_started));
            if !stays && *runs {
                known.end();
                self.hosting.journal.note(&format!("function {} ends here", known.duty.name));
            }
            stays
        });
        let mut here = Vec::new();
        for duty in duties {
            let (name, is_started) = (Arc::clone(&duty.name), duty.is_started);
            let (known, runs) =
                running.entry(name).or_insert_with(|| (Arc::new(Running::new(duty, &self.hosting)), false));
            if !*runs && known.is_due(is_started) {
                // Without a thread it is tried again at the next change.
                *runs = self.begin(known);
            } else if known.is_well() {
                here.push(Arc::clone(&known.duty.name));
            }
        }
        // Those that wait to be started are here as well as those that run; and another peer may have thought since that they are not.
        if let Some(told) = &*lock(&self.begun_told) {
            here.into_iter().for_each(|name| told(name));
        }
    }

    fn tell(&self, begun: Begun) {
        *lock(&self.begun_told) = Some(begun);
    }

    fn running(&self) -> Vec<RunningReport> {
        lock(&self.running).values().map(|(running, _)| running.report()).collect()
    }

    fn trace(&self, name: &str) -> Option<Vec<TracedReport>> {
        let (running, _) = lock(&self.running).get(name).cloned()?;
        Some(running.trace())
    }
}
