//! Records that outlive the process: sessions, retained messages, queues.
//!
//! A core says what changes, [`Store::put`] and [`Store::remove`], and reads everything back when it starts. The data thread
//! never waits: it hands its changes to a ring. A thread of the store takes them from there and merges them, so that of several
//! changes of one record only the last is written; another one writes what there is in one transaction every few milliseconds,
//! and a transaction counts when the disk says that it has it. What is on the disk is therefore always what the records were
//! at one moment: all changes up to one of them, and none after it.
//!
//! What holds whatever happens: What waits is bounded, by bytes. After a failure nothing further is written to the file that there
//! is, since nobody can say what the disk has after it; [`State::Poisoned`] says why. In a while a new file is begun. Its owner
//! gives it everything ([`Store::wants_everything`]), and when it has that, it takes the place of the old one. The next process is
//! told how the store was left, by a note in a file that has its space beforehand, because a full disk is the usual reason.
//!
//! The store knows how far it is: the note has the number of the last commit and of the owner's last change in it, and so has
//! the file. A file that is behind its note has fallen back; one that is damaged, empty or gone is put aside, and the store begins
//! with nothing. [`Store::found`] says so, with the numbers.
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
use disk::{Disk, FILE, NEXT_FILE};
use folder::{Folder, Ledger, Left};
use rtrb::{Producer, PushError, RingBuffer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};
use writer::Writer;

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

/// What was found of what had been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// All of it, or nothing had been.
    Whole,
    /// An earlier state, or nothing.
    Old {
        /// Why.
        reason: String,
        /// Up to which change of its owner it has everything.
        stored: u64,
        /// Up to which it had, or should have.
        expected: u64,
        /// What could not be used, under its new name.
        aside: Option<PathBuf>,
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
    /// It writes nothing, until it tries again. The broker goes on without.
    Poisoned {
        /// Why, for people.
        reason: Arc<str>,
    },
    /// It was given up, and is being given everything anew.
    Refilling {
        /// Why it was given up.
        reason: Arc<str>,
    },
}

/// An open store. The data thread owns it. Dropping it is [`Store::close`], without the answer.
pub struct Store {
    shared: Arc<Shared>,
    ring: Producer<Step>,
    threads: Vec<JoinHandle<()>>,
    before: Before,
    found: Found,
    given: u64,
    /// It has been given up, and what is given to it now goes into a new file.
    refilling: bool,
    /// It has been given everything, and not all of that has been written.
    completing: bool,
}

/// A look at a store from any thread.
#[derive(Clone)]
pub struct StoreWatch(Arc<Shared>);

/// A record's new value, or that it is no more.
struct Change {
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

/// What the data thread has to say.
enum Step {
    Change(Change),
    /// Everything up to this change of the owner has been given.
    Stored(u64),
    /// What was written is to be kept under this name, and what comes goes into a new file.
    Aside(PathBuf),
    /// From now on everything is given anew; so many changes came before.
    Begin {
        given: u64,
    },
    /// That is all.
    Complete,
}

type Changes = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// What becomes of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StoreDoes {
    /// They are written.
    Write = 0,
    /// Nothing is.
    Nothing = 1,
    /// They are written to a new file, once everything else is given to that as well.
    BeginAnew = 2,
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
    phase: AtomicU8,
    /// Why it was given up the last time, and whether that has been told.
    reason: Mutex<Option<(Arc<str>, bool)>>,
    /// Who is told of the reason.
    told: Mutex<Tell>,
    folder: Folder,
    /// The collector throws away what comes.
    deaf: AtomicBool,
    /// A file is to be put aside and has not been.
    aside_waits: AtomicBool,
    /// Up to which change of the owner everything is on the disk, and has come.
    stored: AtomicU64,
    reached: AtomicU64,
    began: Instant,
    /// When the oldest change in each place came, in nanoseconds since it all began.
    laid_since: AtomicU64,
    writing_since: AtomicU64,
    written: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
}

type Tell = Box<dyn FnMut(&str) + Send>;

/// What waits for the next commit.
#[derive(Default)]
struct Desk {
    changes: Changes,
    stored: Option<u64>,
    /// After those changes the file is put aside, and the others go into a new one.
    aside: Option<PathBuf>,
    later: Changes,
    later_stored: Option<u64>,
    /// After those, a new file has everything.
    complete: bool,
    bytes: usize,
    /// How many changes have come so far.
    upto: u64,
    /// Nothing will come any more.
    ended: bool,
}

impl Desk {
    fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.later.is_empty()
            && self.aside.is_none()
            && self.stored.is_none()
            && !self.complete
    }
}

/// No time.
const NEVER: u64 = u64::MAX;

impl Store {
    /// Opens the store in a folder, which is made if it is not there, and reads its records, in the order of their keys.
    /// `told` is called whenever the store is given up, from a thread of the store.
    pub fn open(
        folder: &Path,
        settings: &StoreSettings,
        told: impl FnMut(&str) + Send + 'static,
    ) -> Result<(Store, Vec<Record>), StoreError> {
        let (folder, left) = Folder::open(folder)?;
        let (disk, records, found) = find(&folder, &left)?;
        let (commit, stored) = (disk.commits(), disk.stored());
        folder.note_open(Ledger { commit, stored, reached: stored })?;
        let (ring, steps) = RingBuffer::new(RING_CHANGES);
        let shared = Arc::new(Shared {
            desk: Mutex::default(),
            laid: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            queue_bytes_max: settings.queue_bytes_max,
            collector: OnceLock::new(),
            asleep: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            phase: AtomicU8::new(StoreDoes::Write as u8),
            reason: Mutex::default(),
            told: Mutex::new(Box::new(told)),
            deaf: AtomicBool::new(false),
            aside_waits: AtomicBool::new(false),
            stored: AtomicU64::new(stored),
            reached: AtomicU64::new(stored),
            began: Instant::now(),
            laid_since: AtomicU64::new(NEVER),
            writing_since: AtomicU64::new(NEVER),
            written: AtomicU64::new(0),
            records: AtomicU64::new(disk.records()),
            bytes: AtomicU64::new(disk.bytes()),
            folder,
        });
        let commit_every = Duration::from_nanos(settings.commit_every.as_nanos_u64());
        let collector = Collector::new(Arc::clone(&shared), steps, commit_every);
        let writer = Writer::new(disk, Arc::clone(&shared), commit_every);
        let hire = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let (owner, thread) = (Arc::clone(&shared), name.to_owned());
            let work = move || {
                // Without either of its threads nothing is written any more.
                if let Err(reason) = last_word(&thread, || {
                    work();
                    Ok(())
                }) {
                    owner.poison(&format!("its thread `{thread}` has ended: {reason}"));
                    owner.laid.notify_all();
                    owner.tell();
                }
            };
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            let path = shared.folder.path().to_owned();
            thread.map_err(|reason| StoreError::System { what: "start a thread for", path, reason })
        };
        // From here on, leaving early ends the threads that there are.
        let (threads, before) = (Vec::new(), left.before);
        let mut store = Store {
            shared: Arc::clone(&shared),
            ring,
            threads,
            before,
            found,
            given: 0,
            refilling: false,
            completing: false,
        };
        store.threads.push(hire("store-collect", Box::new(move || collector.serve()))?);
        let _ = shared.collector.set(store.threads[0].thread().clone());
        store.threads.push(hire("store-write", Box::new(move || writer.serve()))?);
        Ok((store, records))
    }

    /// How the process before has left the store.
    pub fn before(&self) -> &Before {
        &self.before
    }

    /// Whether all that it had written was there.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// A record gets a value. Never waits.
    pub fn put(&mut self, key: Box<[u8]>, value: Box<[u8]>) {
        self.change(Change { key, value: Some(value) });
    }

    /// A record is no more. Never waits.
    pub fn remove(&mut self, key: Box<[u8]>) {
        self.change(Change { key, value: None });
    }

    /// Everything has been given up to this change, by the owner's own numbers.
    pub fn reach(&mut self, change: u64) {
        self.shared.reached.store(change, SeqCst);
        if self.is_taking() {
            self.push(Step::Stored(change));
        }
    }

    /// Up to which change, by the owner's own numbers, everything is on the disk.
    pub fn stored(&self) -> u64 {
        self.shared.stored.load(SeqCst)
    }

    /// What has been given so far is kept in a file of another name, which is returned; what comes goes into a new one. `None`: that
    /// cannot be now, since nothing is written, or the last one has not been put aside yet.
    pub fn set_aside(&mut self) -> Option<PathBuf> {
        if self.shared.phase() != StoreDoes::Write || self.shared.aside_waits.swap(true, SeqCst) {
            return None;
        }
        let path = self.shared.folder.aside("aside");
        self.push(Step::Aside(path.clone()));
        Some(path)
    }

    /// It was given up, and can be written again. `true`, once: its owner is to give it everything, and to say
    /// [`Store::given_all`] then. What is given from this moment on counts.
    pub fn wants_everything(&mut self) -> bool {
        if self.shared.phase() != StoreDoes::BeginAnew {
            self.completing = false;
            return false;
        }
        // What has been given is being written: it is not asked for twice.
        if self.refilling || self.completing {
            return false;
        }
        self.refilling = self.push(Step::Begin { given: self.given });
        self.refilling
    }

    /// Whether it can take more of everything now. `None`: it was given up again, or is not being given everything.
    pub fn takes_more(&mut self) -> Option<bool> {
        if self.shared.phase() == StoreDoes::Nothing {
            self.refilling = false;
        }
        let waiting = self.shared.waiting_bytes.load(SeqCst);
        self.refilling.then_some(waiting <= (self.shared.queue_bytes_max / 4).min(REFILL_BYTES))
    }

    /// It has been given everything.
    pub fn given_all(&mut self) {
        if std::mem::replace(&mut self.refilling, false) {
            self.push(Step::Complete);
            self.completing = true;
        }
    }

    /// How many changes there have been, the number of the last one.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// What it does with what it is given; much cheaper than [`Store::state`].
    pub fn does(&self) -> StoreDoes {
        self.shared.phase()
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
            State::Poisoned { reason } | State::Refilling { reason } => Err(reason),
        }
    }

    /// Whether what is given now is written.
    fn is_taking(&mut self) -> bool {
        match self.shared.phase() {
            StoreDoes::Write => {
                (self.refilling, self.completing) = (false, false);
                true
            }
            StoreDoes::Nothing => {
                (self.refilling, self.completing) = (false, false);
                false
            }
            StoreDoes::BeginAnew => self.refilling || self.completing,
        }
    }

    fn change(&mut self, change: Change) {
        self.given += 1;
        if !self.is_taking() {
            return;
        }
        let bytes = change.bytes();
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, SeqCst).saturating_add(bytes);
        if waiting > self.shared.queue_bytes_max || !self.push(Step::Change(change)) {
            self.shared.poison(&format!(
                "the disk is too slow: {waiting} bytes of changes wait to be written, and {} may (store.queue)",
                self.shared.queue_bytes_max
            ));
            self.shared.wake();
        }
    }

    /// Gives something to the collector. `false`: there is no room.
    fn push(&mut self, step: Step) -> bool {
        let pushed = match self.ring.push(step) {
            Ok(()) => true,
            Err(PushError::Full(Step::Change(change))) => {
                self.shared.waiting_bytes.fetch_sub(change.bytes(), SeqCst);
                false
            }
            Err(PushError::Full(_)) => false,
        };
        // Either this sees that the collector is asleep, or the collector sees the change before it sleeps.
        fence(SeqCst);
        if self.shared.asleep.load(SeqCst) && self.shared.asleep.swap(false, SeqCst) {
            self.shared.wake();
        }
        pushed
    }

    fn end(&mut self) {
        self.shared.closing.store(true, SeqCst);
        self.shared.wake();
        let given_up = self.shared.phase() != StoreDoes::Write;
        for thread in self.threads.drain(..) {
            // A disk that has failed may never answer again, and there is nothing to wait for.
            let until = Instant::now() + PATIENCE;
            while given_up && !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if !given_up || thread.is_finished() {
                let _ = thread.join();
            }
        }
        // The last commit may have failed when the collector was gone.
        self.shared.tell();
    }
}

/// What may wait while a store is given everything anew.
const REFILL_BYTES: usize = 4 << 20;

/// What the folder holds, and whether that is what was written last. What cannot be used is put aside, and never in silence.
fn find(folder: &Folder, left: &Left) -> Result<(Disk, Vec<Record>, Found), StoreError> {
    let path = folder.path().join(FILE);
    // A file that was being filled by a process that has ended does not have everything.
    let _ = std::fs::remove_file(folder.path().join(NEXT_FILE));
    let ledger = left.ledger.unwrap_or_default();
    let expected = ledger.stored.max(ledger.reached);
    let length = std::fs::metadata(&path).map(|file| file.len());
    let nothing = match length {
        Ok(0) => Some("is empty"),
        Ok(_) => None,
        Err(_) if left.before == Before::New => None,
        Err(_) => Some("is gone"),
    };
    let old = |reason: String, stored, aside| Found::Old { reason, stored, expected, aside };
    // Numbers of commits go on, so that a file which comes back later is seen to be old.
    let commits = ledger.commit + 1;
    match Disk::open(folder, FILE, commits, 0) {
        Ok((disk, records)) => {
            let stored = disk.stored();
            let found = if let Some(what) = nothing {
                old(format!("{} {what}", path.display()), stored, None)
            } else if disk.commits() < ledger.commit {
                let (has, had) = (disk.commits(), ledger.commit);
                let what = format!(
                    "{} has fallen back from commit {had} to commit {has}, since it is damaged or is an old copy",
                    path.display()
                );
                old(what, stored, None)
            } else if let Some(damage) = &left.damage {
                old(format!("{damage}, so that nobody can tell whether this is the latest"), stored, None)
            } else if let Before::Poisoned { reason } = &left.before {
                old(format!("it was given up by the process before ({reason})"), stored, None)
            } else {
                Found::Whole
            };
            Ok((disk, records, found))
        }
        Err(StoreError::Damaged { reason, .. }) => {
            let aside = folder.aside("damaged");
            std::fs::rename(&path, &aside).map_err(|reason| folder::refusal("rename", &path, reason))?;
            folder.prune_asides();
            let (disk, records) = Disk::open(folder, FILE, commits, 0)?;
            let what = format!("{} is damaged ({reason})", path.display());
            Ok((disk, records, old(what, 0, Some(aside))))
        }
        Err(error) => Err(error),
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

    fn phase(&self) -> StoreDoes {
        match self.phase.load(SeqCst) {
            0 => StoreDoes::Write,
            1 => StoreDoes::Nothing,
            _ => StoreDoes::BeginAnew,
        }
    }

    fn set_phase(&self, phase: StoreDoes) {
        self.phase.store(phase as u8, SeqCst);
    }

    fn reason(&self) -> MutexGuard<'_, Option<(Arc<str>, bool)>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> State {
        let phase = self.phase();
        if phase != StoreDoes::Write {
            let reason = self.reason().as_ref().map_or(Arc::from(""), |(reason, _)| Arc::clone(reason));
            return match phase {
                StoreDoes::BeginAnew => State::Refilling { reason },
                _ => State::Poisoned { reason },
            };
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
        let mut known = self.reason();
        if self.phase() != StoreDoes::Nothing {
            *known = Some((Arc::from(reason), false));
            self.set_phase(StoreDoes::Nothing);
        }
    }

    /// Tells of it, if that has not been done: who asked for it, and the next process.
    fn tell(&self) {
        let reason = {
            let mut known = self.reason();
            let Some((reason, told)) = known.as_mut().filter(|(_, told)| !told) else { return };
            *told = true;
            Arc::clone(reason)
        };
        self.folder.note_poisoned(&reason);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told(&reason);
    }
}
