//! What an application writes, on its way to the node: a ring of tuples with one writer and one reader.
//!
//! The writer is somebody else's program. It may be killed at any instruction and may put anything at all into the memory, while the
//! node reads it. So the node keeps its own position and sizes to itself, copies before it looks, and believes nothing: the worst
//! that can come of it is a [`RingProblem`], or wrong tuples of this application, which the lane checks like all others.
//!
//! A tuple counts when the writer has moved its position behind it. One that was not written to its end is not there.

use crate::memory::{Memory, MemoryError, WORD, seal_seals};
use crate::writer::pack;
use contract::Time;
use kv::{Config, KeyId, Setup};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const MAGIC: u64 = u64::from_le_bytes(*b"vrgkvrng");
const VERSION: u64 = 1;

/// Words of the header. Those that change have cache lines of their own.
mod field {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const TUPLES_MAX: usize = 2;
    pub(super) const VALUE_BYTES_MAX: usize = 3;
    /// How many tuples have ever been written. The application's.
    pub(super) const WRITTEN: usize = 8;
    /// How many have ever been read. The node's.
    pub(super) const READ: usize = 16;
}

const HEADER_WORDS: usize = 24;

/// What a tuple takes besides its value: one word for key and length, one for the stamp.
const TUPLE_WORDS: usize = 2;

/// As many tuples wait as the application may write for one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0} tuples wait for the next job, as many as this client has asked for: attach with more `tuples`, or write less often"
)]
pub struct Full(pub usize);

/// What a ring has that no correct writer puts there. The node then drops the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingProblem {
    /// More than there is room for.
    #[error("its ring claims {waiting} tuples, and has room for {max}")]
    TooMany {
        /// What it claims.
        waiting: u64,
        /// Its quota.
        max: usize,
    },
    /// A key that is not there.
    #[error("its ring has a tuple of key number {}, of {keys} keys", .key.0)]
    UnknownKey {
        /// The number.
        key: KeyId,
        /// How many there are.
        keys: usize,
    },
    /// A value that is too long.
    #[error("its ring has a value of {bytes} bytes, longer than `value_bytes_max = {max}`")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
        /// `VS`.
        max: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Form {
    tuples_max: usize,
    value_bytes_max: usize,
}

impl Form {
    fn new(tuples_max: usize, value_bytes_max: usize) -> Option<Form> {
        let possible = (1..=Config::BATCH_TUPLES_MAX).contains(&tuples_max)
            && (1..=Config::VALUE_BYTES_MAX).contains(&value_bytes_max);
        possible.then_some(Form { tuples_max, value_bytes_max })
    }

    fn slot_words(&self) -> usize {
        TUPLE_WORDS + self.value_bytes_max.div_ceil(WORD)
    }

    fn words(&self) -> usize {
        HEADER_WORDS + self.tuples_max * self.slot_words()
    }

    fn slot<'a>(&self, words: &'a [AtomicU64], number: u64) -> &'a [AtomicU64] {
        let at = HEADER_WORDS + (number % self.tuples_max as u64) as usize * self.slot_words();
        &words[at..at + self.slot_words()]
    }
}

/// The node's end.
#[derive(Debug)]
pub struct RingReader {
    file: OwnedFd,
    memory: Memory,
    form: Form,
    keys: usize,
    read: u64,
    /// A value is copied here before anybody looks at it.
    value: Box<[u8]>,
}

impl RingReader {
    /// A new ring for one application, with room for as many tuples as it may write for one job.
    pub fn create(setup: &Setup, tuples_max: usize) -> Result<RingReader, MemoryError> {
        RingReader::with(setup.keys(), setup.value_bytes_max(), tuples_max)
    }

    /// The same without a whole configuration: how many keys there are, the longest value, and the room.
    pub fn with(keys: usize, value_bytes_max: usize, tuples_max: usize) -> Result<RingReader, MemoryError> {
        let form = Form::new(tuples_max, value_bytes_max);
        let form = form.ok_or(MemoryError::TooLarge((tuples_max.saturating_mul(value_bytes_max)) as u64))?;
        let (file, memory) = Memory::create("verge-kv-ring", form.words())?;
        seal_seals(&file)?;
        let words = memory.words();
        words[field::VERSION].store(VERSION, Relaxed);
        words[field::TUPLES_MAX].store(tuples_max as u64, Relaxed);
        words[field::VALUE_BYTES_MAX].store(value_bytes_max as u64, Relaxed);
        words[field::MAGIC].store(MAGIC, Release);
        let value = vec![0; value_bytes_max.next_multiple_of(WORD)].into();
        Ok(RingReader { file, memory, form, keys, read: 0, value })
    }

    /// The descriptor to give to the application.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How many tuples the application may write for one job.
    pub fn tuples_max(&self) -> usize {
        self.form.tuples_max
    }

    /// Takes all tuples that wait, at most as many as there is room for, and says how many. To be called once for each job. After
    /// a problem the ring is of no use any more: drop it, and the application with it.
    pub fn drain(&mut self, mut take: impl FnMut(KeyId, Time, &[u8])) -> Result<usize, RingProblem> {
        let words = self.memory.words();
        let waiting = words[field::WRITTEN].load(Acquire).wrapping_sub(self.read);
        let max = self.form.tuples_max;
        let Some(count) = usize::try_from(waiting).ok().filter(|&count| count <= max) else {
            return Err(RingProblem::TooMany { waiting, max });
        };
        for _ in 0..count {
            let slot = self.form.slot(words, self.read);
            let (key, len) = unpack_head(slot[0].load(Relaxed));
            let stamp = Time(slot[1].load(Relaxed));
            if usize::from(key.0) >= self.keys {
                return Err(RingProblem::UnknownKey { key, keys: self.keys });
            }
            if len > self.form.value_bytes_max {
                return Err(RingProblem::ValueTooLong { bytes: len, max: self.form.value_bytes_max });
            }
            for (bytes, word) in self.value[..len].chunks_mut(WORD).zip(&slot[TUPLE_WORDS..]) {
                bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
            }
            take(key, stamp, &self.value[..len]);
            self.read = self.read.wrapping_add(1);
        }
        // Only now is there room again: what is written meanwhile is for the next job.
        words[field::READ].store(self.read, Release);
        Ok(count)
    }
}

/// The application's end.
#[derive(Debug)]
pub struct RingWriter {
    memory: Memory,
    form: Form,
    written: u64,
}

impl RingWriter {
    /// The ring behind a descriptor that a node has given. Only one may write to it.
    pub fn map(file: impl AsFd) -> Result<RingWriter, MemoryError> {
        let memory = Memory::map(file)?;
        let words = memory.words();
        if words.len() < HEADER_WORDS || words[field::MAGIC].load(Acquire) != MAGIC {
            return Err(MemoryError::Foreign("it is no ring"));
        }
        if words[field::VERSION].load(Relaxed) != VERSION {
            return Err(MemoryError::Foreign("its layout has another version"));
        }
        let number = |field: usize| usize::try_from(words[field].load(Relaxed)).ok();
        let form = number(field::TUPLES_MAX).zip(number(field::VALUE_BYTES_MAX));
        let form = form.and_then(|(tuples, bytes)| Form::new(tuples, bytes));
        let form = form.filter(|form| form.words() == words.len());
        let form = form.ok_or(MemoryError::Foreign("its header does not fit its size"))?;
        let written = words[field::WRITTEN].load(Relaxed);
        Ok(RingWriter { memory, form, written })
    }

    /// How many tuples may wait for a job.
    pub fn tuples_max(&self) -> usize {
        self.form.tuples_max
    }

    /// Hands a tuple to the node, which takes it with the next job.
    ///
    /// # Panics
    /// If the value is longer than the configuration allows; [`Store::check_write`](crate::Store::check_write) says so before.
    #[inline]
    pub fn push(&mut self, key: KeyId, stamp: Time, value: &[u8]) -> Result<(), Full> {
        assert!(value.len() <= self.form.value_bytes_max, "the value was checked before");
        let words = self.memory.words();
        let waiting = self.written.wrapping_sub(words[field::READ].load(Acquire));
        if waiting >= self.form.tuples_max as u64 {
            return Err(Full(self.form.tuples_max));
        }
        let slot = self.form.slot(words, self.written);
        slot[0].store(u64::from(key.0) | (value.len() as u64) << 16, Relaxed);
        slot[1].store(stamp.0, Relaxed);
        for (word, bytes) in slot[TUPLE_WORDS..].iter().zip(value.chunks(WORD)) {
            word.store(pack(bytes), Relaxed);
        }
        self.written = self.written.wrapping_add(1);
        words[field::WRITTEN].store(self.written, Release);
        Ok(())
    }
}

fn unpack_head(word: u64) -> (KeyId, usize) {
    (KeyId(word as u16), (word >> 16 & 0xFFFF) as usize)
}

#[cfg(test)]
mod tests;
