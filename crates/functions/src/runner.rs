//! Which functions run here.

use crate::running::Running;
use crate::spec::FunctionSpec;
use host::Helpers;
use peer_host::{Duty, Journal, Work};
use rendezvous::Space;
use report::{RunningReport, TracedReport};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use verge::Client;

/// Functions that one peer runs at once.
const FUNCTIONS_MAX: usize = 64;

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

/// Runs functions, each on a thread.
pub struct Runner {
    hosting: Hosting,
    helpers: Helpers,
    /// Those that run, by name.
    running: Mutex<BTreeMap<Arc<str>, Arc<Running>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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

    fn begin(&self, duty: Duty) -> Arc<Running> {
        let running = Arc::new(Running::new(duty, &self.hosting));
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (hosting, runs) = (self.hosting.clone(), Arc::clone(&running));
        let work = move || {
            runs.run(&hosting, number);
            Ok(())
        };
        match self.helpers.hire("function", work) {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(error) => self.hosting.journal.warn(&format!("a function has no thread: {error}")),
        }
        running
    }
}

impl Work for Runner {
    fn check(&self, text: &str) -> Result<(), String> {
        FunctionSpec::read(text, &self.hosting.space).map(drop).map_err(|error| error.to_string())
    }

    fn assign(&self, mut duties: Vec<Duty>) {
        if duties.len() > FUNCTIONS_MAX {
            let beyond = duties.split_off(FUNCTIONS_MAX);
            let names: Vec<&str> = beyond.iter().map(|duty| &*duty.name).collect();
            let why = format!(
                "this peer runs {FUNCTIONS_MAX} functions at once, and these not: {}; start more peers in its region",
                names.join(", ")
            );
            self.hosting.journal.warn(&why);
        }
        let mut running = lock(&self.running);
        running.retain(|_, running| {
            let stays = duties.contains(&running.duty);
            if !stays {
                running.end();
                self.hosting.journal.note(&format!("function {} ends here", running.duty.name));
            }
            stays
        });
        for duty in duties {
            let name = Arc::clone(&duty.name);
            running.entry(name).or_insert_with(|| self.begin(duty));
        }
    }

    fn running(&self) -> Vec<RunningReport> {
        lock(&self.running).values().map(|running| running.report()).collect()
    }

    fn trace(&self, name: &str) -> Option<Vec<TracedReport>> {
        let running = lock(&self.running).get(name).cloned()?;
        Some(running.trace())
    }
}
