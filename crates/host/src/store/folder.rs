//! The store's folder, and the note in it that says how the store was left.
//!
//! The note has its space on the disk from the beginning and is overwritten in place, so that a full disk does not keep a broker
//! from saying that it was full. It is also what is locked.

use super::{Before, StoreError};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(super) struct Folder {
    path: PathBuf,
    note: File,
}

const NOTE: &str = "state";
/// What the note takes on the disk.
const NOTE_BYTES: usize = 1_024;
/// The first line of a note.
const TITLE: &str = "verge-store";
/// The layout of the folder.
const LAYOUT: u64 = 1;

impl Folder {
    /// Makes the folder if it is not there, and locks it.
    pub(super) fn open(path: &Path) -> Result<(Folder, Before), StoreError> {
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
        let before = understand(&text, &file)?;
        Ok((Folder { path: path.to_owned(), note }, before))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// From now on whoever finds the note knows that the store was not closed.
    pub(super) fn note_open(&self) -> Result<(), StoreError> {
        let path = self.path.join(NOTE);
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

    fn write(&self, text: &str) -> io::Result<()> {
        let mut bytes = format!("{TITLE} {LAYOUT}\n{text}").into_bytes();
        // All of it, so that nothing of a longer note stays.
        bytes.resize(NOTE_BYTES, b'\n');
        self.note.write_all_at(&bytes, 0)?;
        self.note.sync_data()
    }

    /// New files are there after a power failure only if their folder has been written.
    fn sync(&self) -> io::Result<()> {
        self.note.sync_all()?;
        File::open(&self.path)?.sync_all()
    }
}

/// A file that only this user reads, with whatever is in it.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn understand(text: &str, file: &Path) -> Result<Before, StoreError> {
    let mut lines = text.lines();
    let damaged = |reason: &str| StoreError::Damaged { path: file.to_owned(), reason: reason.to_owned() };
    let Some(title) = lines.next() else { return Ok(Before::New) };
    let layout = title.strip_prefix(TITLE).and_then(|rest| rest.trim().parse::<u64>().ok());
    match layout {
        Some(LAYOUT) => {}
        Some(found) if found > LAYOUT => {
            return Err(StoreError::Newer { path: file.to_owned(), found, known: LAYOUT });
        }
        _ => return Err(damaged("it does not begin as the note of a store does")),
    }
    match lines.next() {
        Some("open") => Ok(Before::Killed),
        Some("closed") => Ok(Before::Clean),
        Some("poisoned") => Ok(Before::Poisoned { reason: lines.next().unwrap_or("unknown").to_owned() }),
        _ => Err(damaged("it does not say how the store was left")),
    }
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
