//! Which functions run here.

use crate::running::Running;
use crate::spec::FunctionSpec;
use engine::Where;
use host::Helpers;
use peer_host::{Duty, Journal, Work};
use rendezvous::Space;
use report::{RunningReport, TracedReport};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::Client;

/// How often it is tried again to begin something.
const TRIES_EVERY: Duration = Duration::from_secs(2);
/// How long it holds how busy the processors are.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Makes a client of the brokers, which has this name. It does not wait for one of them.
pub type Connect = dyn Fn(&str) -> Result<Client, String> + Send + Sync;

/// What functions have around them.
#[derive(Clone)]
pub struct Hosting {
    /// The name of the peer.
    pub peer: String,
    /// Where they ask it.
    pub http: Option<String>,
    /// At the edge or at the core; nothing runs there, if it is nowhere.
    pub at: Option<Where>,
    /// What is said of things.
    pub space: Space,
    /// Their brokers.
    pub connect: Arc<Connect>,
    /// Their log.
    pub journal: Arc<dyn Journal>,
}

/// So many functions count as much as a quarter of the processors' time.
const BUSY: u32 = 1_000;

/// Why nobody runs a function.
fn nobody(at: Where) -> String {
    let role = if at == Where::Anywhere { String::new() } else { format!(", `role = \"{at}\"`") };
    format!("no peer of its region that runs functions (with `http` and brokers{role}) has room for it")
}

/// The load of the last minute, in quarters of what there are of processors; four at most.
fn busy() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    (4.0 * load / processors).clamp(0.0, 4.0) as u32
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
    /// Those that nobody in the region would run.
    unplaced: Mutex<Vec<(Arc<str>, Where)>>,
    /// What it was told to run last.
    duties: Mutex<Vec<Duty>>,
    /// Since when something has not begun that should have.
    lacks_thread: Mutex<Option<Instant>>,
    /// How busy the processors were when that was looked at last.
    busy: Mutex<Option<(Instant, u32)>>,
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
            unplaced: Mutex::default(),
            duties: Mutex::default(),
            lacks_thread: Mutex::default(),
            busy: Mutex::default(),
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

    fn busy(&self) -> u32 {
        let mut known = lock(&self.busy);
        match *known {
            Some((at, busy)) if at.elapsed() < LOOKS_EVERY => busy,
            _ => {
                let busy = busy();
                *known = Some((Instant::now(), busy));
                busy
            }
        }
    }

    /// Begins with one. Returns whether it could.
    fn begin(&self, running: &Arc<Running>) -> bool {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (hosting, runs) = (self.hosting.clone(), Arc::clone(running));
        let work = move || {
            runs.run(&hosting, number);
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
                *lock(&self.lacks_thread) = Some(Instant::now());
                false
            }
        }
    }
}

impl Work for Runner {
    fn check(&self, text: &str) -> Result<Where, String> {
        let spec = FunctionSpec::read(text, &self.hosting.space);
        spec.map(|spec| spec.at).map_err(|error| error.to_string())
    }

    fn load(&self, at: Where, runs: usize) -> Option<u32> {
        let own = self.hosting.at?;
        let may = at == Where::Anywhere || at == own;
        may.then(|| (self.busy() * BUSY).saturating_add(u32::try_from(runs).unwrap_or(u32::MAX)))
    }

    fn try_again(&self) {
        let lacks = lock(&self.lacks_thread).take_if(|since| since.elapsed() >= TRIES_EVERY);
        if lacks.is_some() {
            let duties = lock(&self.duties).clone();
            self.assign(duties);
        }
    }

    fn assign(&self, duties: Vec<Duty>) {
        lock(&self.duties).clone_from(&duties);
        let mut running = lock(&self.running);
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
        for duty in duties {
            let (name, is_started) = (Arc::clone(&duty.name), duty.is_started);
            let (known, runs) =
                running.entry(name).or_insert_with(|| (Arc::new(Running::new(duty, &self.hosting)), false));
            if !*runs && known.is_due(is_started) {
                // Without a thread it is tried again.
                *runs = self.begin(known);
            }
        }
    }

    fn have_unplaced(&self, unplaced: Vec<(Arc<str>, Where)>) {
        let mut known = lock(&self.unplaced);
        for (name, at) in unplaced.iter().filter(|(name, _)| !known.iter().any(|(said, _)| said == name)) {
            self.hosting.journal.warn(&format!("function {name} runs nowhere: {}", nobody(*at)));
        }
        *known = unplaced;
    }

    fn running(&self) -> Vec<RunningReport> {
        let mut reports: Vec<RunningReport> =
            lock(&self.running).values().map(|(running, _)| running.report()).collect();
        reports.extend(lock(&self.unplaced).iter().map(|(name, at)| RunningReport {
            name: name.to_string(),
            trouble: Some(nobody(*at)),
            ..RunningReport::default()
        }));
        reports
    }

    fn trace(&self, name: &str) -> Option<Vec<TracedReport>> {
        let (running, _) = lock(&self.running).get(name).cloned()?;
        Some(running.trace())
    }
}
