//! The node's side of a store.
//!
//! **The problem.** Tasks of the highest priority read what the lowest one publishes, on the same processor. A lock, or a reader that
//! waits until the writer has finished, would make them wait for each other for ever.
//!
//! **The idea.** Each key has one place more than its history. The writer takes the place with the oldest stamp, so that the newest
//! `history` values stay as they are whatever it does, and stands still wherever it is interrupted. A reader looks for the newest
//! stamp that has come, copies, and looks whether the place is still the same.
//!
//! **The invariants.** A place is torn (stamp 0, head without a length) from before the first word of its value changes until after the
//! last one has. A stamp that is there belongs to the value that is there, and neither changes. Whatever a reader finds unchanged
//! after it has copied was the newest visible value at that moment, for older ones are taken first.

use crate::memory::{Memory, MemoryError, WORD, seal_against_writing};
use crate::shape::{Head, KeyTerms, MAGIC, NameEntry, Shape, VERSION, field};
use crate::store::{State, Store};
use contract::Time;
use kv::{KeyId, Node, Publish, Setup};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// A store as its node writes it. Nothing but this can write its memory.
#[derive(Debug)]
pub struct StoreWriter {
    file: OwnedFd,
    memory: Memory,
    shape: Shape,
}

impl StoreWriter {
    /// A new store of one lane of this node, empty and starting. All of its memory is there.
    pub fn create(setup: &Setup, me: Node) -> Result<StoreWriter, MemoryError> {
        let names = Names::of(setup, me);
        let too_large = || MemoryError::TooLarge(setup.store_bytes() as u64);
        let shape = Shape::new(setup.keys(), setup.history(), setup.value_bytes_max(), names.bytes.len())
            .ok_or_else(too_large)?;
        shape.check_size()?;
        let (file, memory) = Memory::create("verge-kv-store", shape.words())?;
        let store = StoreWriter { file, memory, shape };
        store.write_header(setup, me, &names);
        store.write_tables(setup, me, &names);
        seal_against_writing(&store.file)?;
        Ok(store)
    }

    /// The descriptor to give to applications. They can only read through it.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The same memory as applications see it.
    pub fn reader(&self) -> Result<Store, MemoryError> {
        let file = rustix::io::fcntl_dupfd_cloexec(&self.file, 0);
        Store::map(file.map_err(|error| MemoryError::System { step: "duplicating the descriptor", error })?)
    }

    /// What the lane is doing.
    pub fn set_state(&self, state: State) {
        self.set(field::STATE, state as u64);
    }

    /// From which release on jobs count (A5).
    pub fn set_counts_from(&self, release: Time) {
        self.set(field::COUNTS_FROM, release.0);
    }

    /// Until when a key must have been published before this node writes it (A6); see [`kv::Lane::rejoin`].
    pub fn set_cautious_until(&self, until: Time) {
        self.set(field::CAUTIOUS_UNTIL, until.0);
    }

    /// A job begins: what is written from now on goes to the next one. To be said before rings are drained.
    pub fn begun(&self, job: u64) {
        self.set(field::BEGUN, job);
    }

    /// A job is over, be it that its values are published or that it was skipped.
    pub fn finished(&self, job: u64) {
        self.set(field::FINISHED, job);
    }

    /// The node lives. To be said at least once in each period, also while it starts.
    pub fn beat(&self, now: Time) {
        self.set(field::HEARTBEAT, now.0);
    }

    /// Forgets all values; see [`kv::Lane::rejoin`].
    pub fn clear(&mut self) {
        let words = self.memory.words();
        for key in 0..self.shape.keys {
            let (count, stamps) = self.row(key);
            let step = count.load(Relaxed) + 1;
            count.store(step, Relaxed);
            fence(Release);
            for (place, stamp) in stamps.iter().enumerate() {
                stamp.store(0, Relaxed);
                words[self.shape.place(key, place)].store(Head::torn(step).0, Relaxed);
            }
            count.store(step + 1, Release);
        }
    }

    fn set(&self, field: usize, value: u64) {
        self.memory.words()[field].store(value, Release);
    }

    /// A key's count of steps, and its stamps.
    fn row(&self, key: usize) -> (&AtomicU64, &[AtomicU64]) {
        let at = self.shape.row(key);
        let row = &self.memory.words()[at..=at + self.shape.places];
        (&row[0], &row[1..])
    }

    fn write_header(&self, setup: &Setup, me: Node, names: &Names) {
        let config = setup.config();
        for (field, value) in [
            (field::VERSION, VERSION),
            (field::LANE, u64::from(config.lane)),
            (field::NODE, me.index() as u64),
            (field::FINGERPRINT, setup.fingerprint()),
            (field::PERIOD, setup.period().as_nanos_u64()),
            (field::OFFSET, config.offset.as_nanos_u64()),
            (field::ROUND, setup.round().as_nanos_u64()),
            (field::HORIZON, setup.horizon().as_nanos_u64()),
            (field::HISTORY, setup.history() as u64),
            (field::VALUE_BYTES_MAX, setup.value_bytes_max() as u64),
            (field::BATCH_TUPLES_MAX, setup.batch_tuples_max() as u64),
            (field::PERIOD_MAX, config.period_max.unwrap_or(config.period).as_nanos_u64()),
            (field::KEYS, setup.keys() as u64),
            (field::NAMES_BYTES, names.bytes.len() as u64),
            (field::NODE_NAME_BYTES, names.node_len as u64),
            (field::STATE, State::Starting as u64),
            (field::MAGIC, MAGIC),
        ] {
            self.set(field, value);
        }
    }

    fn write_tables(&self, setup: &Setup, me: Node, names: &Names) {
        let words = self.memory.words();
        for key in 0..self.shape.keys {
            let id = KeyId(key as u16);
            let writers = setup.writers(id);
            let alone = writers == [me].into_iter().collect();
            let terms = KeyTerms { may_write: writers.contains(me), alone, format: setup.format(id) };
            words[self.shape.terms() + key].store(terms.to_word(), Relaxed);
            words[self.shape.by_name() + key].store(names.entries[key].to_word(), Relaxed);
        }
        for (word, bytes) in words[self.shape.names()..].iter().zip(names.bytes.chunks(WORD)) {
            word.store(pack(bytes), Release);
        }
    }
}

impl Publish for StoreWriter {
    /// Puts a value where the oldest one was. What is there already under this key and stamp stands.
    ///
    /// # Panics
    /// If there is no such key, or the value is longer than the configuration allows: a lane gives neither.
    fn publish(&mut self, key: KeyId, stamp: Time, value: &[u8]) {
        let key = usize::from(key.0);
        assert!(
            key < self.shape.keys && value.len() <= self.shape.value_bytes_max,
            "a lane checks its values"
        );
        let (count, stamps) = self.row(key);
        let (mut oldest, mut at) = (u64::MAX, 0);
        for (place, word) in stamps.iter().enumerate() {
            let there = word.load(Relaxed);
            if there == stamp.0 {
                // Also a stamp of zero, which would not be one.
                return;
            }
            if there < oldest {
                (oldest, at) = (there, place);
            }
        }
        if stamp.0 < oldest {
            return;
        }
        let place = self.shape.place(key, at);
        let place = &self.memory.words()[place..place + self.shape.place_words()];
        let step = count.load(Relaxed) + 1;
        // From here to the last line, this place is torn, and all others are as they were.
        count.store(step, Relaxed);
        fence(Release);
        stamps[at].store(0, Relaxed);
        place[0].store(Head::torn(step).0, Relaxed);
        fence(Release);
        for (word, bytes) in place[1..].iter().zip(value.chunks(WORD)) {
            word.store(pack(bytes), Relaxed);
        }
        place[0].store(Head::whole(step + 1, value.len()).0, Release);
        stamps[at].store(stamp.0, Release);
        count.store(step + 1, Release);
    }
}

/// Up to eight bytes as a word.
#[inline]
pub(crate) fn pack(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The names of the node and its keys, one after the other, and where they are in the order of the alphabet.
struct Names {
    bytes: Vec<u8>,
    node_len: usize,
    entries: Vec<NameEntry>,
}

impl Names {
    fn of(setup: &Setup, me: Node) -> Names {
        let mut bytes = setup.name(me).as_bytes().to_vec();
        let node_len = bytes.len();
        let mut keys: Vec<u16> = (0..=u16::MAX).take(setup.keys()).collect();
        keys.sort_by_key(|&key| setup.key_name(KeyId(key)));
        let entries = keys.into_iter().map(|key| {
            let name = setup.key_name(KeyId(key)).as_bytes();
            let at = bytes.len();
            bytes.extend_from_slice(name);
            NameEntry { at, len: name.len(), key }
        });
        let entries = entries.collect();
        Names { bytes, node_len, entries }
    }
}
