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
use crate::vector::{self, vector_bytes_max};
use contract::Time;
use kv::{KeyId, Node, Proposals, Publish, Setup};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// A store as its node writes it. Nothing but this can write its memory.
#[derive(Debug)]
pub struct StoreWriter {
    file: OwnedFd,
    memory: Memory,
    shape: Shape,
    vectors: Option<Vectors>,
}

/// What values were made of: a store whose values are vectors, and room to make one.
#[derive(Debug)]
struct Vectors {
    store: Box<StoreWriter>,
    room: Box<[u8]>,
}

impl StoreWriter {
    /// A new store of one lane of this node, empty and starting. All of its memory is there.
    pub fn create(setup: &Setup, me: Node) -> Result<StoreWriter, MemoryError> {
        StoreWriter::create_for(setup, me, setup.history(), setup.value_bytes_max())
    }

    /// The same, with what each value was made of for the `kept` newest stamps of each key; for none, if that is 0.
    pub fn create_with_vectors(setup: &Setup, me: Node, kept: usize) -> Result<StoreWriter, MemoryError> {
        let store = StoreWriter::create(setup, me)?;
        if kept == 0 {
            return Ok(store);
        }
        let longest = vector_bytes_max(setup.nodes(), setup.value_bytes_max());
        let vectors = Box::new(StoreWriter::create_for(setup, me, kept, longest)?);
        Ok(StoreWriter { vectors: Some(Vectors { store: vectors, room: vec![0; longest].into() }), ..store })
    }

    fn create_for(
        setup: &Setup,
        me: Node,
        history: usize,
        entry_bytes_max: usize,
    ) -> Result<StoreWriter, MemoryError> {
        let names = Names::of(setup, me);
        let too_large = || MemoryError::TooLarge(setup.store_bytes() as u64);
        let shape =
            Shape::new(setup.keys(), history, entry_bytes_max, names.bytes.len()).ok_or_else(too_large)?;
        shape.check_size()?;
        let (file, memory) = Memory::create("verge-kv-store", shape.words())?;
        let store = StoreWriter { file, memory, shape, vectors: None };
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

    /// What values were made of, as applications see it, where that is kept.
    pub fn vectors(&self) -> Result<Option<Store>, MemoryError> {
        self.vectors.as_ref().map(|vectors| vectors.store.reader()).transpose()
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

    /// Whether this node may lack what others have agreed on; see [`kv::Lane::is_sure`].
    pub fn set_lacks(&self, lacks: bool) {
        self.set(field::LACKS, u64::from(lacks));
    }

    /// Whether more nodes than may be faulty have another store; see [`kv::Lane::is_alone`].
    pub fn set_alone(&self, alone: bool) {
        self.set(field::ALONE, u64::from(alone));
    }

    /// A job begins: what is written from now on goes to the next one. To be said before rings are drained, and for the job
    /// before the first one when the lane starts.
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
        if let Some(vectors) = &mut self.vectors {
            vectors.store.clear();
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

    /// The head of a place, and the words of its value.
    fn place(&self, key: usize, at: usize) -> &[AtomicU64] {
        let at = self.shape.place(key, at);
        &self.memory.words()[at..at + self.shape.place_words()]
    }

    /// From here on a place is torn, and all others are as they were. Returns the key's step.
    fn tear(&self, key: usize, at: usize) -> u64 {
        let (count, stamps) = self.row(key);
        let step = count.load(Relaxed) + 1;
        count.store(step, Relaxed);
        fence(Release);
        stamps[at].store(0, Relaxed);
        self.place(key, at)[0].store(Head::torn(step).0, Relaxed);
        // Whoever sees a word that is stored after this sees that the place is torn.
        fence(Release);
        step
    }

    /// The value of a torn place is there.
    fn mend(&self, key: usize, at: usize, step: u64, stamp: Time, len: usize) {
        let (count, stamps) = self.row(key);
        self.place(key, at)[0].store(Head::whole(step + 1, len).0, Release);
        stamps[at].store(stamp.0, Release);
        count.store(step + 1, Release);
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
            (field::HISTORY, self.shape.places as u64 - 1),
            (field::VALUE_BYTES_MAX, self.shape.value_bytes_max as u64),
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
        let (_, stamps) = self.row(key);
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
        let step = self.tear(key, at);
        for (word, bytes) in self.place(key, at)[1..].iter().zip(value.chunks(WORD)) {
            word.store(pack(bytes), Relaxed);
        }
        self.mend(key, at, step, stamp, value.len());
    }

    fn agreed(&mut self, key: KeyId, stamp: Time, proposals: Proposals<'_>) {
        if let Some(Vectors { store, room }) = &mut self.vectors {
            let len = vector::write(proposals, room);
            store.publish(key, stamp, &room[..len]);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadError;
    use contract::Span;
    use kv::{Config, Key, Mode};

    const A: KeyId = KeyId(0);

    fn store(history: usize) -> (StoreWriter, Store) {
        let (nodes, keys) = (vec!["only".into()], vec![Key::named("a")]);
        let config = Config { nodes, keys, history, faults: 0, mode: Mode::Crash, ..Config::default() };
        let writer = StoreWriter::create(&Setup::new(config).unwrap(), Node(0)).unwrap();
        let store = writer.reader().unwrap();
        (writer, store)
    }

    fn read(store: &Store, now: u64) -> Result<(u64, Vec<u8>), ReadError> {
        let mut value = [0; 16];
        let found = store.read(A, Time::ZERO, Time(now), &mut value)?;
        Ok((found.stamp.0, value[..found.len].to_vec()))
    }

    #[test]
    fn readers_do_not_wait_for_a_writer_that_stands_still() {
        let (mut writer, store) = store(2);
        for stamp in 1..=3 {
            writer.publish(A, Time(stamp), b"whole");
        }
        // The oldest is being replaced: half of the new value is there.
        let step = writer.tear(0, 0);
        writer.place(0, 0)[1].store(u64::MAX, Relaxed);
        assert_eq!(read(&store, 9), Ok((3, b"whole".to_vec())));
        assert_eq!(read(&store, 2), Ok((2, b"whole".to_vec())), "the newest of the history are there");
        assert_eq!(read(&store, 1), Err(kv::ReadError::Nothing.into()));
        let stale = store.read(A, Time(4), Time(9), &mut [0; 16]);
        assert_eq!(stale, Err(kv::ReadError::Stale(Span(1)).into()));
        writer.mend(0, 0, step, Time(4), 8);
        assert_eq!(read(&store, 9), Ok((4, vec![0xFF; 8])));
    }

    #[test]
    fn a_place_without_its_stamp_or_its_head_is_not_read() {
        let (mut writer, store) = store(1);
        writer.publish(A, Time(1), b"one");
        writer.tear(0, 0);
        assert_eq!(read(&store, 9), Err(kv::ReadError::Nothing.into()));
        // As if the stamp were seen before the head.
        writer.row(0).1[0].store(1, Relaxed);
        assert_eq!(read(&store, 9), Err(ReadError::Restless));
    }

    #[test]
    fn vectors_are_kept_where_that_is_wanted() {
        let config = Config {
            nodes: vec!["only".into()],
            faults: 0,
            mode: Mode::Crash,
            keys: vec![Key::named("a")],
            value_bytes_max: Config::VALUE_BYTES_MAX,
            ..Config::default()
        };
        let setup = Setup::new(config).unwrap();
        let without = StoreWriter::create_with_vectors(&setup, Node(0), 0).unwrap();
        assert!(without.vectors().unwrap().is_none());
        let with = StoreWriter::create_with_vectors(&setup, Node(0), 3).unwrap();
        let vectors = with.vectors().unwrap().unwrap();
        assert_eq!(
            (vectors.facts().history, vectors.facts().value_bytes_max),
            (3, 3 + Config::VALUE_BYTES_MAX)
        );
    }

    #[test]
    fn what_is_older_than_all_that_is_there_replaces_nothing() {
        let (mut writer, store) = store(2);
        for stamp in [5, 6, 7, 4, 6] {
            writer.publish(A, Time(stamp), &[stamp as u8]);
        }
        assert_eq!(read(&store, 5), Ok((5, vec![5])));
        writer.publish(A, Time(8), &[8]);
        assert_eq!(read(&store, 5), Err(kv::ReadError::Nothing.into()));
        assert_eq!(read(&store, 6), Ok((6, vec![6])));
    }
}
