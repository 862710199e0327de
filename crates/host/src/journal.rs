//! The files of a site's journal on Linux.
//!
//! **The problem**: the data thread appends millions of items in a burst and may not wait for a system call each time, let alone for the disk.
//! **The idea**: what is written to is mapped, and appending is a copy into memory; the system writes it back when it likes, or when a helper that
//! has time carries an order out ([`JournalSync`]). Everything is read by calls that can fail, never through the map.
//!
//! **Why an access to the map does not end the process** (SIGBUS): a file has all of its blocks before it is mapped (`fallocate`, which says
//! that the disk is full where a copy could not), it never becomes shorter, and it is fresh, so that no page has to come from a disk that may
//! fail; under memory pressure that could happen to a page in the middle of which writing goes on, and brokers lock theirs (`realtime.rs`). Mapped is only
//! where the file system keeps the blocks that it has given (ext4, XFS, tmpfs); elsewhere, as where blocks are copied when they are written (btrfs, ZFS), and where
//! blocks cannot be had beforehand, each append is a call of its own, which may fail. The folder is locked and nobody else's, so
//! no other process cuts files. Who is root, or the same user, and cuts a file all the same, ends the broker.
#![allow(unsafe_code, reason = "mapping a file is unsafe by its nature; the one place says why it is sound")]

use journal::{FileError, FileName, Files, SyncOrder};
use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fstatfs};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a journal, in a folder of their own.
#[derive(Debug)]
pub struct JournalFiles {
    folder: PathBuf,
    directory: Arc<File>,
    /// Locked as long as this lives.
    lock: File,
    is_mapped: bool,
    written: Vec<Written>,
    /// Files that were written to and will not be any more; an order may still name them, and an error is told to who wrote.
    finished: Vec<(FileName, Arc<File>)>,
    /// Files that were read lately, the last one at the end.
    read: RefCell<Vec<(FileName, Arc<File>)>>,
}

#[derive(Debug)]
struct Written {
    name: FileName,
    file: Arc<File>,
    /// Nothing: written by calls.
    map: Option<MmapMut>,
}

/// An order that is being carried out, by any thread. It waits for the disk.
#[derive(Debug)]
#[must_use = "nothing is synced until it runs"]
pub struct JournalSync {
    ticket: u64,
    files: Vec<Arc<File>>,
    directory: Option<Arc<File>>,
}

/// Why the files of a journal cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalFilesError {
    /// The system refused.
    #[error("cannot {step} {path}: {reason}")]
    System {
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// Another process has the journal.
    #[error("the journal in {0} is in use by another process; give each broker a folder of its own")]
    InUse(PathBuf),
}

/// Files that are open to be read.
const READ_MAX: usize = 16;
/// Files that are open because they may still be synced; of more, those that were finished first are opened again where they must be.
const FINISHED_MAX: usize = 64;
/// What is locked.
const LOCK: &str = "lock";
/// File systems that keep the blocks which they have given: ext2 to ext4, XFS, tmpfs.
const KEEPING: [u64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];

impl JournalFiles {
    /// The files in a folder, which is made if it is not there, and locked.
    pub fn open(folder: &Path) -> Result<JournalFiles, JournalFilesError> {
        let refusal = |step, path: &Path| {
            let path = path.to_owned();
            move |reason| JournalFilesError::System { step, path, reason }
        };
        // A file-size limit is an error, not the end of the process.
        let _ = signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), Arc::default());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(refusal("make the folder", folder))?;
        let path = folder.join(LOCK);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(refusal("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalFilesError::InUse(folder.to_owned())),
            Err(TryLockError::Error(reason)) => return Err(refusal("lock", &path)(reason)),
        }
        let directory = File::open(folder).map_err(refusal("open", folder))?;
        let kind = fstatfs(&directory).map(|found| found.f_type.cast_unsigned());
        let is_mapped = kind.is_ok_and(|kind| KEEPING.contains(&kind));
        Ok(JournalFiles {
            folder: folder.to_owned(),
            directory: Arc::new(directory),
            lock,
            is_mapped,
            written: Vec::new(),
            finished: Vec::new(),
            read: RefCell::default(),
        })
    }

    /// Whether appending is a copy into memory, or a call.
    pub fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// What carries an order out.
    pub fn prepare(&self, order: &SyncOrder) -> Result<JournalSync, FileError> {
        let files = order.files.iter().filter_map(|name| match self.any(*name) {
            Err(reason) if reason.kind() == ErrorKind::NotFound => None,
            file => Some(file.map_err(|reason| failed("open", *name, &reason))),
        });
        Ok(JournalSync {
            ticket: order.ticket,
            files: files.collect::<Result<_, _>>()?,
            directory: order.names.then(|| self.directory.clone()),
        })
    }

    /// A file as it was opened to be written, or else opened now.
    fn any(&self, name: FileName) -> io::Result<Arc<File>> {
        if let Some(written) = self.written.iter().find(|written| written.name == name) {
            return Ok(written.file.clone());
        }
        match self.finished.iter().find(|(finished, _)| *finished == name) {
            Some((_, file)) => Ok(file.clone()),
            None => self.opened(name),
        }
    }

    /// A file to be read.
    fn opened(&self, name: FileName) -> io::Result<Arc<File>> {
        let mut read = self.read.borrow_mut();
        if let Some(index) = read.iter().position(|(known, _)| *known == name) {
            let found = read.remove(index);
            let file = found.1.clone();
            read.push(found);
            return Ok(file);
        }
        let file = Arc::new(File::open(self.folder.join(name.to_string()))?);
        if read.len() >= READ_MAX {
            read.remove(0);
        }
        read.push((name, file.clone()));
        Ok(file)
    }

    /// A file that was there is written on.
    fn write_on(&mut self, name: FileName) -> Result<usize, FileError> {
        let path = self.folder.join(name.to_string());
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|reason| failed("open", name, &reason))?;
        let bytes = file.metadata().map_err(|reason| failed("look at", name, &reason))?.len();
        self.take(name, file, bytes)
    }

    /// All blocks of a file are taken from the disk, and it is mapped if it may be. Returns where it is among those that are written to.
    fn take(&mut self, name: FileName, file: File, bytes: u64) -> Result<usize, FileError> {
        let mut has_blocks = true;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                has_blocks = false;
                file.set_len(bytes).map_err(|reason| failed("lengthen", name, &reason))?;
            }
            Err(error) => return Err(failed("take room for", name, &error.into())),
        }
        let map = if self.is_mapped && has_blocks {
            let length = usize::try_from(bytes).unwrap_or(0);
            // SAFETY: the file is at least this long and has all of its blocks; nobody makes it shorter, since the folder is locked, and
            // nothing else in this process writes to it or maps it. It is only written through the map, and read by calls.
            let map = unsafe { MmapOptions::new().len(length).map_mut(&file) };
            Some(map.map_err(|reason| failed("map", name, &reason))?)
        } else {
            None
        };
        self.written.push(Written { name, file: Arc::new(file), map });
        Ok(self.written.len() - 1)
    }
}

impl JournalSync {
    /// Carries the order out. Returns its ticket, and what [`journal::Journal::handle_synced`] is to be told.
    pub fn run(self) -> (u64, Result<(), String>) {
        // What was written through a map is written back as well: a page that was written to is known to be dirty, on Linux.
        let files = self.files.iter().map(|file| file.sync_data());
        let names = self.directory.iter().map(|directory| directory.sync_all());
        let done: io::Result<()> = files.chain(names).collect();
        (self.ticket, done.map_err(|reason| format!("sync: {reason}")))
    }
}

impl Files for JournalFiles {
    fn list(&mut self) -> Result<Vec<(FileName, u64)>, FileError> {
        let told = |reason: io::Error| FileError::Failed(format!("list {}: {reason}", self.folder.display()));
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(told)? {
            let entry = entry.map_err(told)?;
            if let Some(name) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                found.push((name, entry.metadata().map_err(told)?.len()));
            }
        }
        Ok(found)
    }

    fn create(&mut self, name: FileName, bytes: u64) -> Result<(), FileError> {
        let path = self.folder.join(name.to_string());
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|reason| failed("make", name, &reason))?;
        self.take(name, file, bytes).map(drop).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })
    }

    fn write(&mut self, name: FileName, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        let index = match self.written.iter().position(|written| written.name == name) {
            Some(index) => index,
            None => self.write_on(name)?,
        };
        let Some(written) = self.written.get_mut(index) else { return Err(FileError::Full) };
        let Some(map) = &mut written.map else {
            return written.file.write_all_at(bytes, at).map_err(|reason| failed("write to", name, &reason));
        };
        let place = usize::try_from(at).ok().and_then(|at| map.get_mut(at..at.checked_add(bytes.len())?));
        let Some(place) = place else {
            return Err(FileError::Failed(format!("write to {name}: {at} is behind its end")));
        };
        place.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, name: FileName, at: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let file = self.any(name).map_err(|reason| failed("open", name, &reason))?;
        let mut count = 0;
        while count < buffer.len() {
            match file.read_at(&mut buffer[count..], at + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(reason) if reason.kind() == ErrorKind::Interrupted => {}
                Err(reason) => return Err(failed("read", name, &reason)),
            }
        }
        Ok(count)
    }

    fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        self.written.retain(|written| written.name != name);
        self.finished.retain(|(finished, _)| *finished != name);
        self.read.borrow_mut().retain(|(read, _)| *read != name);
        let removed = std::fs::remove_file(self.folder.join(name.to_string()));
        removed.map_err(|reason| failed("remove", name, &reason))
    }

    fn finish(&mut self, name: FileName) {
        let Some(index) = self.written.iter().position(|written| written.name == name) else { return };
        let written = self.written.swap_remove(index);
        if self.finished.len() >= FINISHED_MAX {
            self.finished.remove(0);
        }
        self.finished.push((name, written.file));
    }

    fn sync(&mut self, order: &SyncOrder) -> Result<(), FileError> {
        let (_, done) = self.prepare(order)?.run();
        done.map_err(FileError::Failed)
    }
}

impl Drop for JournalFiles {
    /// What is in memory and known to be on the disk is dropped, so that who opens the journal next reads what the disk has: after a sync
    /// that failed, memory may have what the disk has not, and the system takes it for written.
    fn drop(&mut self) {
        for written in &mut self.written {
            written.map = None;
            let _ = fadvise(&written.file, 0, None, Advice::DontNeed);
        }
        for (_, file) in &self.finished {
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
        // A process that has just been forked from this one holds the lock too, until it runs its program.
        let _ = self.lock.unlock();
    }
}

fn failed(step: &str, name: FileName, reason: &io::Error) -> FileError {
    match reason.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => FileError::Full,
        _ => FileError::Failed(format!("{step} {name}: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_free_as_soon_as_its_journal_is_closed_although_a_forked_process_has_the_lock() {
        let folder = std::env::temp_dir().join(format!("verge-journal-lock-{}", std::process::id()));
        let files = JournalFiles::open(&folder).unwrap();
        assert!(matches!(JournalFiles::open(&folder), Err(JournalFilesError::InUse(_))));
        let inherited = files.lock.try_clone().unwrap();
        drop(files);
        assert!(JournalFiles::open(&folder).is_ok());
        drop(inherited);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
