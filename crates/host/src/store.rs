//! Records that outlive the process: sessions, retained messages, queues.
//!
//! A core says what changes, [`Store::put`] and [`Store::remove`], and reads everything back when it starts. The data thread
//! never waits: it hands its changes to a ring. A thread of the store takes them from there and merges them, so that of several
//! changes of one record only the last is written; another one writes what there is in one transaction every few milliseconds,
//! and a transaction counts when the disk says that it has it. What is on the disk is therefore always what the records were
//! at one moment: all changes up to one of them, and none after it.
//!
//! Three things hold whatever happens. What waits is bounded, by bytes. After the first failure nothing further is written by
//! this process, since nobody can say what the disk has after it; [`State::Poisoned`] says why. The next process is told, by a
//! note in a file that has its space beforehand, because a full disk is the usual reason.
//!
//! The records are kept by `redb`: a tree in one file. Compared with the log-structured `fjall` (100 000 records of 180 bytes on
//! average, 5 to 5000 random changes in each commit, synced), it starts six times as fast (25 against 145 ms), takes a third of
//! the disk (35 against 112 MB), its longest commits of 500 changes are 20 against 150 ms, and it finds damage before anything is
//! read. `fjall` makes about twice as many changes each second (61 000 against 27 000 with 50 in a commit) and writes a tenth as
//! much. The merging makes up for some of that: what comes and goes between two commits costs nothing. The example
//! `store_speed` measures the whole.

mod collector;
mod disk;
mod folder;
mod writer;

use crate::helpers::last_word;
use collector::Collector;
use contract::Span;
use disk::Disk;
use folder::Folder;
use rtrb::{Producer, RingBuffer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// A key and its value.
pub type Record = (Box<[u8]>, Box<[u8]>);

/// How a store works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// The time from one commit to the next, if there is anything to write.
    pub commit_every: Span,
    /// What may wait to be written: keys, values, and [`CHANGE_BYTES`] for each change. Above it, the disk is too slow.
    pub queue_bytes_max: usize,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings { commit_every: Span::millis(5), queue_bytes_max: 64 << 20 }
    }
}

/// What a change that waits counts for besides its key and its value.
pub const CHANGE_BYTES: usize = 64;
/// Changes that the data thread may be ahead of the thread that merges them.
const RING_CHANGES: usize = 65_536;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder or a file in it cannot be written.
    #[error(
        "cannot write {path}: {reason}; give the broker's user the folder, or name another as store.folder"
    )]
    NotWritable {
        /// What cannot be written.
        path: PathBuf,
        /// The system's word.
        reason: std::io::Error,
    },
    /// The disk is full.
    #[error("no space for {path}: {reason}; free some, or name a folder on another disk as store.folder")]
    NoSpace {
        /// What has no space.
        path: PathBuf,
        /// The system's word.
        reason: std::io::Error,
    },
    /// Another process has it, or this one has not let go of it since it failed.
    #[error("{path} is in use by {holder}; stop it, or give each broker a store.folder of its own")]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// What is there is not what a broker has written.
    #[error(
        "{path} is damaged: {reason}; move the folder away to begin without sessions and retained messages, or put a copy of it back"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A later version of the broker has written it.
    #[error(
        "{path} has format {found}, and this broker knows {known}; start the version that has written it, or name another store.folder"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The latest that is known here.
        known: u64,
    },
    /// Anything else that the system refused.
    #[error("cannot {what} {path}: {reason}; look at the disk, or name another store.folder")]
    System {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's word.
        reason: std::io::Error,
    },
}

/// How the process that had the store before has left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was none, or its note is gone.
    New,
    /// Everything was written.
    Clean,
    /// It ended without closing the store. What it had not committed is missing.
    Killed,
    /// Its store was poisoned, so the records are those of an earlier time.
    Poisoned {
        /// Why.
        reason: String,
    },
}

/// How a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It writes.
    Healthy {
        /// How old the oldest change is that has not been written.
        behind: Span,
        /// Bytes that wait, counted as in [`StoreSettings::queue_bytes_max`].
        waiting_bytes: usize,
        /// How many records are on the disk.
        records: u64,
        /// The bytes of their keys and values.
        bytes: u64,
    },
    /// It writes nothing any more. The broker goes on without.
    Poisoned {
        /// Why, for people.
        reason: Arc<str>,
    },
}

/// An open store. The data thread owns it. Dropping it is [`Store::close`], without the answer.
pub struct Store {
    shared: Arc<Shared>,
    ring: Producer<Change>,
    threads: Vec<JoinHandle<()>>,
    before: Before,
    given: u64,
}

/// A look at a store from any thread.
#[derive(Clone)]
pub struct StoreWatch(Arc<Shared>);

/// A record's new value, or that it is no more.
struct Change {
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

/// What the threads have in common.
struct Shared {
    desk: Mutex<Desk>,
    /// Rung when there is something on the desk.
    laid: Condvar,
    waiting_bytes: AtomicUsize,
    queue_bytes_max: usize,
    collector: OnceLock<Thread>,
    /// The collector is asleep, or about to be.
    asleep: AtomicBool,
    closing: AtomicBool,
    poisoned: AtomicBool,
    reason: OnceLock<Arc<str>>,
    /// Who is told of the reason.
    told: Mutex<Option<Tell>>,
    folder: Folder,
    began: Instant,
    /// When the oldest change in each place came, in nanoseconds since it all began.
    laid_since: AtomicU64,
    writing_since: AtomicU64,
    written: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
}

type Tell = Box<dyn FnOnce(&str) + Send>;

/// What waits for the next commit.
#[derive(Default)]
struct Desk {
    changes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    bytes: usize,
    /// How many changes have come so far.
    upto: u64,
    /// Nothing will come any more.
    ended: bool,
}

/// No time.
const NEVER: u64 = u64::MAX;

impl Store {
    /// Opens the store in a folder, which is made if it is not there, and reads its records, in the order of their keys.
    /// `told` is called once if the store is poisoned, from a thread of the store.
    pub fn open(
        folder: &Path,
        settings: &StoreSettings,
        told: impl FnOnce(&str) + Send + 'static,
    ) -> Result<(Store, Vec<Record>), StoreError> {
        let (folder, before) = Folder::open(folder)?;
        let (disk, records) = Disk::open(&folder)?;
        folder.note_open()?;
        let (ring, changes) = RingBuffer::new(RING_CHANGES);
        let shared = Arc::new(Shared {
            desk: Mutex::default(),
            laid: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            queue_bytes_max: settings.queue_bytes_max,
            collector: OnceLock::new(),
            asleep: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            reason: OnceLock::new(),
            told: Mutex::new(Some(Box::new(told))),
            began: Instant::now(),
            laid_since: AtomicU64::new(NEVER),
            writing_since: AtomicU64::new(NEVER),
            written: AtomicU64::new(0),
            records: AtomicU64::new(disk.records()),
            bytes: AtomicU64::new(disk.bytes()),
            folder,
        });
        let commit_every = Duration::from_nanos(settings.commit_every.as_nanos_u64());
        let collector = Collector::new(Arc::clone(&shared), changes, commit_every);
        let hire = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let (owner, thread) = (Arc::clone(&shared), name.to_owned());
            let work = move || {
                // Without either of its threads nothing is written any more.
                if let Err(reason) = last_word(&thread, || Ok(work())) {
                    owner.poison(&format!("its thread `{thread}` has ended: {reason}"));
                    owner.laid.notify_all();
                    owner.tell();
                }
            };
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            let path = shared.folder.path().to_owned();
            thread.map_err(|reason| StoreError::System { what: "start a thread for", path, reason })
        };
        let writes = Arc::clone(&shared);
        // From here on, leaving early ends the threads that there are.
        let mut store = Store { shared: Arc::clone(&shared), ring, threads: Vec::new(), before, given: 0 };
        store.threads.push(hire("store-collect", Box::new(move || collector.serve()))?);
        let _ = shared.collector.set(store.threads[0].thread().clone());
        store
            .threads
            .push(hire("store-write", Box::new(move || writer::serve(disk, &writes, commit_every)))?);
        Ok((store, records))
    }

    /// How the process before has left the store.
    pub fn before(&self) -> &Before {
        &self.before
    }

    /// A record gets a value. Never waits.
    pub fn put(&mut self, key: Box<[u8]>, value: Box<[u8]>) {
        self.change(Change { key, value: Some(value) });
    }

    /// A record is no more. Never waits.
    pub fn remove(&mut self, key: Box<[u8]>) {
        self.change(Change { key, value: None });
    }

    /// How many changes there have been, the number of the last one.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// How it is.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// For looking at it from other threads.
    pub fn watch(&self) -> StoreWatch {
        StoreWatch(Arc::clone(&self.shared))
    }

    /// Writes what waits, however long that takes, and says why if it could not.
    pub fn close(mut self) -> Result<(), Arc<str>> {
        self.end();
        match self.shared.state() {
            State::Healthy { .. } => Ok(()),
            State::Poisoned { reason } => Err(reason),
        }
    }

    fn change(&mut self, change: Change) {
        self.given += 1;
        if self.shared.poisoned.load(SeqCst) {
            return;
        }
        let bytes = change.bytes();
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, SeqCst).saturating_add(bytes);
        if waiting > self.shared.queue_bytes_max || self.ring.push(change).is_err() {
            self.shared.poison(&format!(
                "the disk is too slow: {waiting} bytes of changes wait to be written, and {} may (store.queue)",
                self.shared.queue_bytes_max
            ));
        }
        // Either this sees that the collector is asleep, or the collector sees the change before it sleeps.
        fence(SeqCst);
        if self.shared.asleep.load(SeqCst) && self.shared.asleep.swap(false, SeqCst) {
            self.shared.wake();
        }
    }

    fn end(&mut self) {
        self.shared.closing.store(true, SeqCst);
        self.shared.wake();
        let poisoned = self.shared.poisoned.load(SeqCst);
        for thread in self.threads.drain(..) {
            // A disk that has failed may never answer again, and there is nothing to wait for.
            let until = Instant::now() + PATIENCE;
            while poisoned && !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if !poisoned || thread.is_finished() {
                let _ = thread.join();
            }
        }
        // The last commit may have failed when the collector was gone.
        self.shared.tell();
    }
}

/// How long a poisoned store that is closed may take to leave its note.
const PATIENCE: Duration = Duration::from_secs(1);

impl Drop for Store {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end();
        }
    }
}

impl StoreWatch {
    /// How the store is.
    pub fn state(&self) -> State {
        self.0.state()
    }

    /// Up to which change ([`Store::given`]) everything is on the disk.
    pub fn written(&self) -> u64 {
        self.0.written.load(SeqCst)
    }
}

impl Change {
    fn bytes(&self) -> usize {
        change_bytes(&self.key, self.value.as_deref())
    }
}

fn change_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len) + CHANGE_BYTES
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Nothing panics while it is held.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(NEVER)
    }

    fn state(&self) -> State {
        if let Some(reason) = self.reason.get() {
            return State::Poisoned { reason: Arc::clone(reason) };
        }
        let since = self.writing_since.load(SeqCst).min(self.laid_since.load(SeqCst));
        let behind = if since == NEVER { 0 } else { self.clock().saturating_sub(since) };
        State::Healthy {
            behind: Span(i64::try_from(behind).unwrap_or(i64::MAX)),
            waiting_bytes: self.waiting_bytes.load(SeqCst),
            records: self.records.load(SeqCst),
            bytes: self.bytes.load(SeqCst),
        }
    }

    /// Wakes the collector.
    fn wake(&self) {
        if let Some(collector) = self.collector.get() {
            collector.unpark();
        }
    }

    /// From now on nothing is written. The first reason stays.
    fn poison(&self, reason: &str) {
        let _ = self.reason.set(Arc::from(reason));
        self.poisoned.store(true, SeqCst);
    }

    /// Tells of the poisoning, if there was one, once: who asked for it, and the next process.
    fn tell(&self) {
        let Some(reason) = self.reason.get() else { return };
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(told) = told {
            told(reason);
            self.folder.note_poisoned(reason);
        }
    }
}
