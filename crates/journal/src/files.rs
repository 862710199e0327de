//! What a journal needs of a disk. Whoever drives it implements [`Files`].

use std::fmt;

/// The files of one journal.
///
/// **What is promised to the driver**: nothing is written outside of what [`Files::create`] was asked for, and no place is written
/// twice, unless a write failed there. **What the driver promises**: a file that was created has all of its bytes, all zero; what was written
/// is read again at once; nobody else changes the files.
pub trait Files {
    /// All files that have names of a journal, and their lengths, in any order.
    fn list(&mut self) -> Result<Vec<(FileName, u64)>, FileError>;

    /// A new file of so many bytes, all zero, which are taken from the disk now. A file of this name that is there is an error.
    fn create(&mut self, name: FileName, bytes: u64) -> Result<(), FileError>;

    /// Writes at a place of a file.
    fn write(&mut self, name: FileName, at: u64, bytes: &[u8]) -> Result<(), FileError>;

    /// Reads from a place of a file. Returns how many bytes there were; fewer than asked for at its end.
    fn read(&self, name: FileName, at: u64, buffer: &mut [u8]) -> Result<usize, FileError>;

    /// A file is gone, and its room is free.
    fn remove(&mut self, name: FileName) -> Result<(), FileError>;

    /// Nothing will be written to a file any more. What was written and is not synced has still to be, if an order says so.
    fn finish(&mut self, name: FileName);

    /// Syncs, and returns when that is done. Called by [`Journal::open`](crate::Journal::open) alone; later orders are values
    /// ([`Journal::poll_sync`](crate::Journal::poll_sync)).
    fn sync(&mut self, order: &SyncOrder) -> Result<(), FileError>;
}

/// A file of a journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileName {
    /// Notes: names of topics, receivers and how far they have come.
    Notes(u64),
    /// A segment of the log.
    Segment {
        /// Segments of a priority follow each other by this.
        id: u64,
        /// How often it was compacted.
        generation: u32,
    },
}

/// What is to be synced now.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "nothing else is synced until this is"]
pub struct SyncOrder {
    /// To be given back when it is done.
    pub ticket: u64,
    /// Which files there are is synced as well.
    pub names: bool,
    /// The files. One that has been removed since needs nothing.
    pub files: Vec<FileName>,
}

/// Why a disk does not do something.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is no room.
    #[error("the disk is full")]
    Full,
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Notes(number) => write!(f, "notes-{number:010}"),
            FileName::Segment { id, generation } => write!(f, "segment-{id:010}.{generation}"),
        }
    }
}

impl std::str::FromStr for FileName {
    type Err = ();

    fn from_str(name: &str) -> Result<FileName, ()> {
        let found = if let Some(number) = name.strip_prefix("notes-") {
            FileName::Notes(number.parse().map_err(|_| ())?)
        } else {
            let numbers = name.strip_prefix("segment-").ok_or(())?;
            let (id, generation) = numbers.split_once('.').ok_or(())?;
            let (id, generation) = (id.parse().map_err(|_| ())?, generation.parse().map_err(|_| ())?);
            FileName::Segment { id, generation }
        };
        // Only as it is written: a file of any other name is none of ours.
        (found.to_string() == name).then_some(found).ok_or(())
    }
}
