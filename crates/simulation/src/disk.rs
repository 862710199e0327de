//! A disk with files, and what becomes of them when the power fails.
//!
//! What has been written is seen by whoever reads, and is on the disk only when it has been synced. When the power fails, each file
//! keeps what was synced, and of what was done to it since, in order, some number of things, the next of them in part. Names are as
//! on a real disk: that a file exists, and what it is called, is synced on its own ([`Disk::sync_names`]), and of what was done to
//! names since, in order, some number of things is kept.
//!
//! Files do not wait for each other, nor for names. What is lost leaves nothing behind, not even zeros.

use crate::Latency;
use contract::Span;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// What a disk is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes of all files, at most.
    pub bytes_max: u64,
    /// How long a sync takes.
    pub sync: Latency,
}

/// An invented disk.
#[derive(Clone, Debug)]
pub struct Disk {
    settings: Settings,
    /// How long syncs take.
    random: fastrand::Rng,
    refuses_syncs: bool,
    /// Power failures so far: what was being synced at one of them is not by the next.
    failures: u32,
    files: BTreeMap<FileId, Kept<Vec<u8>, Change>>,
    names: Kept<Names, Naming>,
    next_file: FileId,
}

/// Why a disk does not do something. It has changed nothing then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiskError {
    /// There is too little room.
    Full {
        /// How many bytes more it would be.
        wanted: u64,
        /// For how many there is room.
        free: u64,
    },
    /// No file has this name.
    NotFound,
    /// A file has this name.
    Exists,
    /// The disk does not sync. What is not synced may stay so for good.
    SyncRefused,
}

/// A sync that has begun: it holds for what was done before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syncing {
    /// How long it takes.
    pub takes: Span,
    /// Nothing: that of names.
    file: Option<FileId>,
    up_to: u64,
    failures: u32,
}

impl Disk {
    /// An empty disk. The seed decides how long syncs take.
    pub fn new(settings: Settings, seed: u64) -> Disk {
        Disk {
            settings,
            random: fastrand::Rng::with_seed(seed),
            refuses_syncs: false,
            failures: 0,
            files: BTreeMap::new(),
            names: Kept::default(),
            next_file: 0,
        }
    }

    /// A new file, with nothing in it.
    pub fn create(&mut self, name: &str) -> Result<(), DiskError> {
        if self.names.now.contains_key(name) {
            return Err(DiskError::Exists);
        }
        self.files.insert(self.next_file, Kept::default());
        self.names.make(Naming::Create(name.to_owned(), self.next_file));
        self.next_file += 1;
        Ok(())
    }

    /// Writes at the end of a file. Returns where that was.
    pub fn append(&mut self, name: &str, bytes: &[u8]) -> Result<u64, DiskError> {
        let end = self.len(name)?;
        self.write_at(name, end, bytes)?;
        Ok(end)
    }

    /// Writes at a place of a file; if that is behind its end, there are zeros in between.
    pub fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let len = self.len(name)?.max(at.saturating_add(bytes.len() as u64));
        self.change(name, len, Change::Write(at, bytes.to_vec()))
    }

    /// Makes a file so long: what is behind that is gone, or zeros are added.
    pub fn truncate(&mut self, name: &str, len: u64) -> Result<(), DiskError> {
        self.change(name, len, Change::Length(len))
    }

    /// Reads from a place of a file. Returns how many bytes there were; fewer than asked for at its end.
    pub fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let content = &self.file(name)?.now;
        let rest = usize::try_from(at).ok().and_then(|at| content.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    /// The length of a file.
    pub fn len(&self, name: &str) -> Result<u64, DiskError> {
        Ok(self.file(name)?.now.len() as u64)
    }

    /// Gives a file another name. If another file has that, it is gone.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.id(from)?;
        self.names.make(Naming::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    /// A file is gone, and its room is free.
    pub fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.id(name)?;
        self.names.make(Naming::Remove(name.to_owned()));
        Ok(())
    }

    /// The names of all files, in order.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.names.now.keys().map(String::as_str)
    }

    /// Whether there is a file of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.names.now.contains_key(name)
    }

    /// For how many bytes there is room.
    pub fn free_bytes(&self) -> u64 {
        let used: u64 = self.names.now.values().map(|id| self.files[id].now.len() as u64).sum();
        self.settings.bytes_max.saturating_sub(used)
    }

    /// Syncs what was done to a file, at once. Returns how long it takes.
    pub fn sync(&mut self, name: &str) -> Result<Span, DiskError> {
        let syncing = self.begin_sync(name)?;
        self.end_sync(syncing);
        Ok(syncing.takes)
    }

    /// Syncs which files there are, and their names, at once. Returns how long it takes.
    pub fn sync_names(&mut self) -> Result<Span, DiskError> {
        let syncing = self.begin_sync_names()?;
        self.end_sync(syncing);
        Ok(syncing.takes)
    }

    /// Begins to sync what was done to a file; [`Disk::end_sync`] is to be called when its time is over.
    pub fn begin_sync(&mut self, name: &str) -> Result<Syncing, DiskError> {
        let (id, up_to) = (self.id(name)?, self.file(name)?.made);
        self.begin(Some(id), up_to)
    }

    /// Begins to sync names; [`Disk::end_sync`] is to be called when its time is over.
    pub fn begin_sync_names(&mut self) -> Result<Syncing, DiskError> {
        self.begin(None, self.names.made)
    }

    /// A sync has had its time: what was done before it began is on the disk. `false`: the power has failed since, or the file is
    /// gone for good.
    pub fn end_sync(&mut self, syncing: Syncing) -> bool {
        let Syncing { file, up_to, failures, .. } = syncing;
        if failures != self.failures {
            return false;
        }
        let Some(id) = file else {
            self.names.sync(up_to);
            self.forget_nameless();
            return true;
        };
        let file = self.files.get_mut(&id);
        file.map(|file| file.sync(up_to)).is_some()
    }

    /// The disk syncs nothing from now on, or does again.
    pub fn refuse_syncs(&mut self, refuses: bool) {
        self.refuses_syncs = refuses;
    }

    /// From now on there is room for so many bytes; nothing is lost if it is less than there are.
    pub fn resize(&mut self, bytes_max: u64) {
        self.settings.bytes_max = bytes_max;
    }

    /// From now on syncs take so long.
    pub fn slow_down(&mut self, sync: Latency) {
        self.settings.sync = sync;
    }

    /// The power fails. Chance decides how much of what was not synced is lost.
    pub fn crash(&mut self, random: &mut fastrand::Rng) {
        self.failures += 1;
        self.names.crash(random);
        self.files.values_mut().for_each(|file| file.crash(random));
        self.forget_nameless();
    }

    /// A sector of a file becomes something else, and nobody is told. The file was on the disk by then. Returns how many of its
    /// bytes it was; none behind its end.
    pub fn damage(
        &mut self,
        name: &str,
        sector: u64,
        random: &mut fastrand::Rng,
    ) -> Result<usize, DiskError> {
        let id = self.id(name)?;
        let Some(file) = self.files.get_mut(&id) else { return Err(DiskError::NotFound) };
        file.sync(file.made);
        let begin = usize::try_from(sector).map_or(usize::MAX, |sector| sector.saturating_mul(SECTOR_BYTES));
        let end = begin.saturating_add(SECTOR_BYTES).min(file.now.len());
        let Some(bytes) = file.now.get_mut(begin..end) else { return Ok(0) };
        bytes.iter_mut().for_each(|byte| *byte ^= random.u8(1..));
        file.synced.clone_from(&file.now);
        Ok(end - begin)
    }

    fn id(&self, name: &str) -> Result<FileId, DiskError> {
        self.names.now.get(name).copied().ok_or(DiskError::NotFound)
    }

    fn file(&self, name: &str) -> Result<&Kept<Vec<u8>, Change>, DiskError> {
        Ok(&self.files[&self.id(name)?])
    }

    /// Something is done to a file, which has this length afterwards.
    fn change(&mut self, name: &str, len: u64, change: Change) -> Result<(), DiskError> {
        let (id, free) = (self.id(name)?, self.free_bytes());
        let wanted = len.saturating_sub(self.len(name)?);
        if wanted > free {
            return Err(DiskError::Full { wanted, free });
        }
        self.files.entry(id).or_default().make(change);
        Ok(())
    }

    fn begin(&mut self, file: Option<FileId>, up_to: u64) -> Result<Syncing, DiskError> {
        if self.refuses_syncs {
            return Err(DiskError::SyncRefused);
        }
        let takes = self.settings.sync.sample(&mut self.random);
        Ok(Syncing { takes, file, up_to, failures: self.failures })
    }

    /// Files that have no name, and get none back when the power fails, are gone.
    fn forget_nameless(&mut self) {
        let Kept { now, synced, changes, .. } = &self.names;
        let comes =
            |id: &FileId| changes.iter().any(|naming| matches!(naming, Naming::Create(_, it) if it == id));
        let has_name = |id: &FileId| now.values().chain(synced.values()).any(|it| it == id);
        self.files.retain(|id, _| has_name(id) || comes(id));
    }
}

type FileId = u64;
type Names = BTreeMap<String, FileId>;

/// Something on the disk, and what was done to it and is not on the disk yet, in order.
#[derive(Clone, Debug)]
struct Kept<T, C> {
    now: T,
    synced: T,
    changes: VecDeque<C>,
    /// How many changes there have been.
    made: u64,
}

impl<T: Default, C> Default for Kept<T, C> {
    fn default() -> Kept<T, C> {
        Kept { now: T::default(), synced: T::default(), changes: VecDeque::new(), made: 0 }
    }
}

/// What can be done to something on a disk.
trait Act<T> {
    fn act(&self, on: &mut T);

    /// What is left of it when the power fails in the middle, if anything can be.
    fn torn(&self, random: &mut fastrand::Rng) -> Option<Self>
    where
        Self: Sized;
}

impl<T: Clone, C: Act<T>> Kept<T, C> {
    fn make(&mut self, change: C) {
        change.act(&mut self.now);
        self.changes.push_back(change);
        self.made += 1;
    }

    /// So many of the changes that there have been are on the disk now, if not more.
    fn sync(&mut self, up_to: u64) {
        while self.made - (self.changes.len() as u64) < up_to
            && let Some(change) = self.changes.pop_front()
        {
            change.act(&mut self.synced);
        }
    }

    fn crash(&mut self, random: &mut fastrand::Rng) {
        let whole = random.usize(0..=self.changes.len());
        self.sync(self.made - (self.changes.len() - whole) as u64);
        let torn = self.changes.front().and_then(|change| change.torn(random));
        torn.iter().for_each(|change| change.act(&mut self.synced));
        self.changes.clear();
        self.now = self.synced.clone();
    }
}

/// What is done to a file.
#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl Act<Vec<u8>> for Change {
    fn act(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write(at, bytes) => {
                let begin = *at as usize;
                let end = begin + bytes.len();
                content.resize(content.len().max(end), 0);
                content[begin..end].copy_from_slice(bytes);
            }
            Change::Length(len) => content.resize(*len as usize, 0),
        }
    }

    fn torn(&self, random: &mut fastrand::Rng) -> Option<Change> {
        let Change::Write(at, bytes) = self else { return None };
        let count = random.usize(0..=bytes.len());
        (count > 0).then(|| Change::Write(*at, bytes[..count].to_vec()))
    }
}

/// What is done to names: each wholly or not at all.
#[derive(Clone, Debug)]
enum Naming {
    Create(String, FileId),
    Rename(String, String),
    Remove(String),
}

impl Act<Names> for Naming {
    fn act(&self, names: &mut Names) {
        match self {
            Naming::Create(name, id) => _ = names.insert(name.clone(), *id),
            Naming::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            Naming::Remove(name) => _ = names.remove(name),
        }
    }

    fn torn(&self, _random: &mut fastrand::Rng) -> Option<Naming> {
        None
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Full { wanted, free } => write!(f, "{wanted} bytes more do not fit, {free} do"),
            DiskError::NotFound => f.write_str("no file has this name"),
            DiskError::Exists => f.write_str("a file of this name exists"),
            DiskError::SyncRefused => f.write_str("the disk does not sync"),
        }
    }
}

impl std::error::Error for DiskError {}

/// What is damaged at once.
pub const SECTOR_BYTES: usize = 512;

#[cfg(test)]
mod tests;
