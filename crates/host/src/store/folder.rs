//! The store's folder, and the note in it that says how the store was left.
//!
//! The note has its space on the disk from the beginning and is overwritten in place, so that a full disk does not keep a broker
//! from saying that it was full. It is also what is locked.

use super::{Before, StoreError};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub(super) struct Folder {
    path: PathBuf,
    note: File,
    ledger: Mutex<Ledger>,
}

/// What the note says of how far the store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ledger {
    /// The commit that is on the disk.
    pub(super) commit: u64,
    /// Up to which change of its owner it has everything.
    pub(super) stored: u64,
    /// Up to which change the owner has come; further than the store only after that was given up.
    pub(super) reached: u64,
}

/// What was found in the folder before anything was opened.
pub(super) struct Left {
    pub(super) before: Before,
    /// `None`: the note does not say, as that of an earlier release does not.
    pub(super) ledger: Option<Ledger>,
    /// What is wrong with the note.
    pub(super) damage: Option<String>,
}

const NOTE: &str = "state";
/// What the note takes on the disk.
const NOTE_BYTES: usize = 1_024;
/// Where it begins to say how far the store is, so that this is overwritten alone.
const LEDGER_AT: usize = 896;
/// The first line of a note.
const TITLE: &str = "verge-store";
/// The layout of the folder.
const LAYOUT: u64 = 1;
/// Files that were put aside; when there are more, the oldest is removed.
const ASIDE_MAX: usize = 8;

impl Folder {
    /// Makes the folder if it is not there, and locks it.
    pub(super) fn open(path: &Path) -> Result<(Folder, Left), StoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|reason| refusal("make the folder", path, reason))?;
        let file = path.join(NOTE);
        let mut note = open_private(&file).map_err(|reason| refusal("open", &file, reason))?;
        let mut text = Vec::new();
        let read = note.by_ref().take(NOTE_BYTES as u64).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        match note.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = text.lines().find_map(|line| line.strip_prefix("process "));
                let holder = holder.map_or("another process".to_owned(), |id| format!("process {id}"));
                return Err(StoreError::InUse { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(reason)) => return Err(refusal("lock", &file, reason)),
        }
        read.map_err(|reason| refusal("read", &file, reason))?;
        let left = understand(&text, &file)?;
        let ledger = Mutex::new(left.ledger.unwrap_or_default());
        Ok((Folder { path: path.to_owned(), note, ledger }, left))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// From now on whoever finds the note knows that the store was not closed.
    pub(super) fn note_open(&self, ledger: Ledger) -> Result<(), StoreError> {
        let path = self.path.join(NOTE);
        *lock(&self.ledger) = ledger;
        let noted = self.write(&format!("open\nprocess {}\n", std::process::id()));
        noted.and_then(|()| self.sync()).map_err(|reason| refusal("write", &path, reason))
    }

    /// Lets go of the folder as well, whoever still looks at the store.
    pub(super) fn note_closed(&self) -> Result<(), String> {
        let failed = |reason| format!("cannot write {}: {reason}", self.path.join(NOTE).display());
        self.write("closed\n").and_then(|()| self.note.unlock()).map_err(failed)
    }

    /// As well as it goes: the disk is in trouble.
    pub(super) fn note_poisoned(&self, reason: &str) {
        let _ = self.write(&format!("poisoned\n{}\n", reason.replace('\n', " ")));
    }

    /// How far the store is. Written after the commit that it names, and not waited for: where the note is behind, it is after a
    /// failure of power, and then the store has more than it says, which is no fault.
    pub(super) fn note_ledger(&self, change: impl FnOnce(&mut Ledger)) {
        let mut ledger = lock(&self.ledger);
        change(&mut ledger);
        let _ = self.note.write_all_at(&ledger.encode(), LEDGER_AT as u64);
    }

    /// The last commit that was noted.
    pub(super) fn commits(&self) -> u64 {
        lock(&self.ledger).commit
    }

    /// A name in this folder for a file that is put aside.
    pub(super) fn aside(&self, why: &str) -> PathBuf {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = since.as_millis() as u64;
        let number = LAST.fetch_max(now, SeqCst).max(now - 1) + 1;
        LAST.fetch_max(number, SeqCst);
        self.path.join(format!("{ASIDE}{why}-{number}.redb"))
    }

    /// Removes the oldest of too many files that were put aside. Their names have the time in them.
    pub(super) fn prune_asides(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        let number = |name: &str| {
            let number = name.strip_prefix(ASIDE)?.strip_suffix(".redb")?.rsplit('-').next()?;
            number.parse::<u64>().ok()
        };
        let mut asides: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((number(entry.file_name().to_str()?)?, entry.path()))
            })
            .collect();
        asides.sort();
        let surplus = asides.len().saturating_sub(ASIDE_MAX);
        asides.iter().take(surplus).for_each(|(_, path)| _ = std::fs::remove_file(path));
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut bytes = format!("{TITLE} {LAYOUT}\n{text}").into_bytes();
        // All of it, so that nothing of a longer note stays.
        bytes.resize(LEDGER_AT, b'\n');
        bytes.extend_from_slice(&lock(&self.ledger).encode());
        self.note.write_all_at(&bytes, 0)?;
        self.note.sync_data()
    }

    /// New files are there after a power failure only if their folder has been written.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.note.sync_all()?;
        File::open(&self.path)?.sync_all()
    }
}

/// How the names of files begin that were put aside.
const ASIDE: &str = "records-";

impl Ledger {
    fn encode(self) -> [u8; NOTE_BYTES - LEDGER_AT] {
        let mut bytes = [b'\n'; NOTE_BYTES - LEDGER_AT];
        let Ledger { commit, stored, reached } = self;
        let text = format!("\ncommit {commit:020} stored {stored:020} reached {reached:020}\n");
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    fn read(text: &str) -> Option<Ledger> {
        let words: Vec<&str> = text.lines().find(|line| line.starts_with("commit "))?.split(' ').collect();
        let &["commit", commit, "stored", stored, "reached", reached] = &words[..] else { return None };
        let number = |word: &str| word.parse().ok();
        Some(Ledger { commit: number(commit)?, stored: number(stored)?, reached: number(reached)? })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that only this user reads, with whatever is in it.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn understand(text: &str, file: &Path) -> Result<Left, StoreError> {
    let mut lines = text.lines();
    // Whatever it was before, a store that cannot say how it was left was not closed.
    let damaged = |reason: &str| {
        let damage = Some(format!("{} {reason}", file.display()));
        Ok(Left { before: Before::Killed, ledger: Ledger::read(text), damage })
    };
    let Some(title) = lines.next() else {
        return Ok(Left { before: Before::New, ledger: None, damage: None });
    };
    let layout = title.strip_prefix(TITLE).and_then(|rest| rest.trim().parse::<u64>().ok());
    match layout {
        Some(LAYOUT) => {}
        Some(found) if found > LAYOUT => {
            return Err(StoreError::Newer { path: file.to_owned(), found, known: LAYOUT });
        }
        _ => return damaged("does not begin as the note of a store does"),
    }
    let before = match lines.next() {
        Some("open") => Before::Killed,
        Some("closed") => Before::Clean,
        Some("poisoned") => Before::Poisoned { reason: lines.next().unwrap_or("unknown").to_owned() },
        _ => return damaged("does not say how the store was left"),
    };
    Ok(Left { before, ledger: Ledger::read(text), damage: None })
}

/// Whose fault it is that something did not go.
pub(super) fn refusal(what: &'static str, path: &Path, reason: io::Error) -> StoreError {
    let path = path.to_owned();
    match reason.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists => StoreError::NotWritable { path, reason },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            StoreError::NoSpace { path, reason }
        }
        _ => StoreError::System { what, path, reason },
    }
}
