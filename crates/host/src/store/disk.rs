//! The file of records.

use super::folder::{Folder, open_private, refusal};
use super::{Changes, Record, StoreError};
use redb::{
    Builder, CommitError, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageBackend, StorageError, TableDefinition, TableError, TransactionError,
    backends::FileBackend,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

pub(super) struct Disk {
    database: Database,
    path: PathBuf,
    records: u64,
    bytes: u64,
    /// How many commits there have been.
    commits: u64,
    /// Up to which change of its owner it has everything.
    stored: u64,
    valve: Valve,
}

/// The file of records.
pub(super) const FILE: &str = "records.redb";
/// The one that is to take its place when it has everything.
pub(super) const NEXT_FILE: &str = "next.redb";
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
/// The fact that says how records are to be understood.
const FORMAT: &str = "format";
const COMMITS: &str = "commits";
const STORED: &str = "stored";
const FORMAT_KNOWN: u64 = 1;
/// Pages that the library keeps in memory.
const CACHE_BYTES: usize = 8 << 20;
/// A file that is so many times as large as its records, and so much larger, is made smaller at start.
const SLACK_TIMES: u64 = 4;
const SLACK_BYTES: u64 = 16 << 20;

impl Disk {
    /// Opens a file of the folder, which is made if it is not there. The numbers are those of a new one.
    pub(super) fn open(
        folder: &Folder,
        name: &str,
        commits: u64,
        stored: u64,
    ) -> Result<(Disk, Vec<Record>), StoreError> {
        let path = folder.path().join(name);
        // A file-size limit is a write that fails, not the end of the process.
        let _ = signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), Arc::default());
        let file = open_private(&path).map_err(|reason| refusal("open", &path, reason))?;
        // The library asserts what it expects of a file, and anything may be in one.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let valve = Valve::default();
            let file = FileBackend::new(file).map_err(Trouble::from)?;
            let file = Gated { file, valve: valve.clone() };
            let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(file)?;
            Disk { database, path: path.clone(), records: 0, bytes: 0, commits, stored, valve }.read()
        }));
        let gave_up = |_| Err(Trouble::Damage("the library cannot make sense of it".to_owned()));
        opened.unwrap_or_else(gave_up).map_err(|trouble| match trouble {
            Trouble::Damage(reason) => StoreError::Damaged { path, reason },
            Trouble::Newer(found) => StoreError::Newer { path, found, known: FORMAT_KNOWN },
            Trouble::InUse => {
                let holder = "another process".to_owned();
                StoreError::InUse { path: folder.path().to_owned(), holder }
            }
            Trouble::Io(reason) => match reason.kind() {
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                    StoreError::Damaged { path, reason: reason.to_string() }
                }
                _ => refusal("read", &path, reason),
            },
        })
    }

    /// Everything, checked.
    fn read(mut self) -> Result<(Disk, Vec<Record>), Trouble> {
        if !self.database.check_integrity()? {
            return Err(Trouble::Damage("its checksums are not those of its contents".to_owned()));
        }
        self.check_format()?;
        let mut records = Vec::new();
        let reading = self.database.begin_read()?;
        let table = reading.open_table(RECORDS)?;
        records.reserve(usize::try_from(table.len()?).unwrap_or(0));
        for record in table.iter()? {
            let (key, value) = record?;
            self.bytes += (key.value().len() + value.value().len()) as u64;
            records.push((Box::from(key.value()), Box::from(value.value())));
        }
        self.records = records.len() as u64;
        drop((table, reading));
        let length = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if length > SLACK_BYTES.saturating_add(self.bytes.saturating_mul(SLACK_TIMES)) {
            // Where this fails, it stays as large as it is; what else is wrong shows at the first commit.
            let _ = self.database.compact();
        }
        Ok((self, records))
    }

    /// What the file says of itself; if nothing, it is new.
    fn check_format(&mut self) -> Result<(), Trouble> {
        let reading = self.database.begin_read()?;
        let found = match reading.open_table(FACTS) {
            Ok(facts) => {
                let fact = |name: &str| facts.get(name).map(|fact| fact.map_or(0, |fact| fact.value()));
                (self.commits, self.stored) = (fact(COMMITS)?, fact(STORED)?);
                facts.get(FORMAT)?.map(|format| format.value())
            }
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        match found {
            Some(FORMAT_KNOWN) => return Ok(()),
            Some(found) if found > FORMAT_KNOWN => return Err(Trouble::Newer(found)),
            Some(found) => return Err(Trouble::Damage(format!("its format is {found}"))),
            None if reading.list_tables()?.next().is_some() => {
                return Err(Trouble::Damage("it does not say its format".to_owned()));
            }
            None => {}
        }
        drop(reading);
        let writing = self.database.begin_write()?;
        let mut facts = writing.open_table(FACTS)?;
        facts.insert(FORMAT, FORMAT_KNOWN)?;
        facts.insert(COMMITS, self.commits)?;
        facts.insert(STORED, self.stored)?;
        drop(facts);
        writing.open_table(RECORDS)?;
        Ok(writing.commit()?)
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// All or nothing of some changes. It is on the disk when this returns, and has everything up to that change of its owner.
    pub(super) fn commit(&mut self, changes: &Changes, stored: u64) -> Result<(), String> {
        let failed = |trouble: Trouble| format!("cannot write {}: {trouble}", self.path.display());
        let (records, bytes) = self.write(changes, stored).map_err(failed)?;
        (self.records, self.bytes) = (records, bytes);
        (self.commits, self.stored) = (self.commits + 1, stored);
        Ok(())
    }

    fn write(&self, changes: &Changes, stored: u64) -> Result<(u64, u64), Trouble> {
        let (mut records, mut bytes, mut same) = (self.records, self.bytes, true);
        let mut writing = self.database.begin_write()?;
        writing.set_durability(Durability::Immediate).map_err(|error| Trouble::Damage(error.to_string()))?;
        let mut table = writing.open_table(RECORDS)?;
        for (key, value) in changes {
            let old = match value {
                Some(value) => table.insert(&key[..], &value[..])?,
                None => table.remove(&key[..])?,
            };
            let old = old.map(|old| (key.len() + old.value().len()) as u64);
            (records, bytes) = (records - u64::from(old.is_some()), bytes - old.unwrap_or(0));
            if let Some(value) = value {
                (records, bytes) = (records + 1, bytes + (key.len() + value.len()) as u64);
            }
            same &= old.is_none() && value.is_none();
        }
        drop(table);
        // What came and went between two commits leaves nothing to write.
        if same && stored == self.stored {
            writing.abort()?;
        } else {
            let mut facts = writing.open_table(FACTS)?;
            facts.insert(COMMITS, self.commits + 1)?;
            facts.insert(STORED, stored)?;
            drop(facts);
            writing.commit()?;
        }
        Ok((records, bytes))
    }

    /// Leaves the file as one that was closed.
    pub(super) fn close(self) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| drop(self.database)))
            .map_err(|_| format!("cannot close {}", self.path.display()))
    }

    /// It has another name now.
    pub(super) fn renamed(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Lets go of the file as it is: nothing more is written to it.
    pub(super) fn abandon(self) {
        self.valve.0.store(true, SeqCst);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.database)));
    }
}

/// Whether a file is shut for writing.
#[derive(Clone, Debug, Default)]
struct Valve(Arc<AtomicBool>);

/// A file to which nothing is written any more once its valve is shut, whatever the library would still like to write.
#[derive(Debug)]
struct Gated {
    file: FileBackend,
    valve: Valve,
}

impl Gated {
    fn open(&self) -> Result<&FileBackend, std::io::Error> {
        let shut = self.valve.0.load(SeqCst);
        if shut { Err(std::io::Error::other("the store has been given up")) } else { Ok(&self.file) }
    }
}

impl StorageBackend for Gated {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
        self.open()?.set_len(len)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        self.open()?.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.open()?.write(offset, data)
    }

    fn close(&self) -> Result<(), std::io::Error> {
        self.file.close()
    }
}

/// What the library may say.
enum Trouble {
    Damage(String),
    Newer(u64),
    InUse,
    Io(std::io::Error),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Damage(reason) => f.write_str(reason),
            Trouble::Newer(format) => write!(f, "its format is {format}"),
            Trouble::InUse => f.write_str("it is in use"),
            Trouble::Io(reason) => write!(f, "{reason}"),
        }
    }
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Trouble {
        match error {
            StorageError::Io(reason) => Trouble::Io(reason),
            error => Trouble::Damage(error.to_string()),
        }
    }
}

impl From<DatabaseError> for Trouble {
    fn from(error: DatabaseError) -> Trouble {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Trouble::InUse,
            DatabaseError::Storage(error) => error.into(),
            error => Trouble::Damage(error.to_string()),
        }
    }
}

impl From<TableError> for Trouble {
    fn from(error: TableError) -> Trouble {
        match error {
            TableError::Storage(error) => error.into(),
            error => Trouble::Damage(error.to_string()),
        }
    }
}

impl From<TransactionError> for Trouble {
    fn from(error: TransactionError) -> Trouble {
        match error {
            TransactionError::Storage(error) => error.into(),
            error => Trouble::Damage(error.to_string()),
        }
    }
}

impl From<CommitError> for Trouble {
    fn from(error: CommitError) -> Trouble {
        match error {
            CommitError::Storage(error) => error.into(),
            error => Trouble::Damage(error.to_string()),
        }
    }
}
