//! A store as applications see it: what it is of, how the node does, and the keys. `read.rs` reads values, `proposal.rs` says
//! whether a value could be written.

use crate::memory::{MemoryError, ReadOnly, WORD, Word};
use crate::shape::{HEADER_WORDS, KeyTerms, MAGIC, NameEntry, Shape, VERSION, field};
use contract::{Span, Time};
use kv::{KeyId, Node};
use std::cmp::Ordering;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What a lane is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It connects to the others, or waits for the first release.
    Starting = 0,
    /// It does its jobs.
    Running = 1,
    /// It does nothing any more. Attach again to the node's next life.
    Ended = 2,
}

impl State {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Ended => "ended",
        }
    }
}

/// What a lane runs by, as the node has written it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneFacts {
    /// The number of the lane.
    pub lane: u16,
    /// The number of this node.
    pub node: Node,
    /// The configuration as one number; the same on all nodes.
    pub fingerprint: u64,
    /// `T`.
    pub period: Span,
    /// `O`.
    pub offset: Span,
    /// `τ`.
    pub round: Span,
    /// `H`.
    pub horizon: Span,
    /// How many stamps of each key are kept.
    pub history: usize,
    /// `VS`.
    pub value_bytes_max: usize,
    /// `NT`.
    pub batch_tuples_max: usize,
    /// The period of the slowest task that writes.
    pub period_max: Span,
    /// How many keys there are.
    pub keys: usize,
}

/// Why the node is taken to have gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Gone {
    /// It has said so.
    #[error("the node has ended this lane: attach again when it is back")]
    Ended,
    /// It has not been heard of for more than two periods.
    #[error(
        "the node was last heard of {0} ago, more than two periods: see whether it runs and has the processor; attach again if it \
         was started anew"
    )]
    Silent(Span),
}

/// A store to read from. Any number of threads may do so at once; none of them waits for anything, nor enters the kernel.
#[derive(Debug)]
pub struct Store {
    file: OwnedFd,
    pub(crate) memory: ReadOnly,
    pub(crate) shape: Shape,
    facts: LaneFacts,
    node_name: String,
}

impl Store {
    /// The store behind a descriptor that a node has given.
    pub fn map(file: OwnedFd) -> Result<Store, MemoryError> {
        let memory = ReadOnly::map(&file)?;
        let words = memory.words();
        if words.len() < HEADER_WORDS || words[field::MAGIC].load(Acquire) != MAGIC {
            return Err(MemoryError::Foreign("it is no store"));
        }
        if words[field::VERSION].load(Relaxed) != VERSION {
            return Err(MemoryError::Foreign("its layout has another version"));
        }
        let shape = shape(words).filter(|shape| shape.words() == words.len());
        let shape = shape.ok_or(MemoryError::Foreign("its header does not fit its size"))?;
        let facts = facts(words).ok_or(MemoryError::Foreign("its header makes no sense"))?;
        let mut store = Store { file, memory, shape, facts, node_name: String::new() };
        let len = store.count(field::NODE_NAME_BYTES);
        store.node_name = store.text(0, len).ok_or(MemoryError::Foreign("its node has no proper name"))?;
        Ok(store)
    }

    /// The descriptor, to give to others.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// What the lane runs by.
    pub fn facts(&self) -> &LaneFacts {
        &self.facts
    }

    /// The name of this node.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// What the lane is doing.
    pub fn state(&self) -> State {
        match self.word(field::STATE) {
            0 => State::Starting,
            1 => State::Running,
            _ => State::Ended,
        }
    }

    /// From which release on jobs count (A5).
    pub fn counts_from(&self) -> Time {
        Time(self.word(field::COUNTS_FROM))
    }

    /// Until when this node writes only keys that can be read (A6).
    pub fn cautious_until(&self) -> Time {
        Time(self.word(field::CAUTIOUS_UNTIL))
    }

    /// Whether this node may lack what others have agreed on: then a read that finds nothing says so.
    pub fn lacks(&self) -> bool {
        self.word(field::LACKS) != 0
    }

    /// Whether more nodes than may be faulty have another store: what was read here and there may differ.
    pub fn is_alone(&self) -> bool {
        self.word(field::ALONE) != 0
    }

    /// The number of the last job that has begun; 0 if none has.
    pub fn begun(&self) -> u64 {
        self.word(field::BEGUN)
    }

    /// The number of the last job that is over; 0 if none is.
    pub fn finished(&self) -> u64 {
        self.word(field::FINISHED)
    }

    /// When the node was last heard of.
    pub fn heartbeat(&self) -> Time {
        Time(self.word(field::HEARTBEAT))
    }

    /// Whether the node lives: it has not ended, and has been heard of within two periods.
    pub fn node_alive(&self, now: Time) -> Result<(), Gone> {
        let silent = now.since(self.heartbeat());
        if self.state() == State::Ended {
            Err(Gone::Ended)
        } else if silent > self.facts.period * 2 {
            Err(Gone::Silent(silent))
        } else {
            Ok(())
        }
    }

    /// The number of a key, by its name.
    pub fn key(&self, name: &str) -> Option<KeyId> {
        let (mut low, mut high) = (0, self.shape.keys);
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(middle);
            match self.compare(entry, name.as_bytes()) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    return (usize::from(entry.key) < self.shape.keys).then_some(KeyId(entry.key));
                }
            }
        }
        None
    }

    /// All keys in the order of their names.
    pub fn keys(&self) -> impl Iterator<Item = (KeyId, String)> {
        (0..self.shape.keys).map(|place| {
            let entry = self.entry(place);
            (KeyId(entry.key), self.text(entry.at, entry.len).unwrap_or_default())
        })
    }

    /// What writing a key takes; `None` if there is none of this number.
    #[inline]
    pub fn terms(&self, key: KeyId) -> Option<KeyTerms> {
        let key = usize::from(key.0);
        (key < self.shape.keys).then(|| KeyTerms::of_word(self.word(self.shape.terms() + key)))
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.memory.words()[at].load(Acquire)
    }

    fn count(&self, field: usize) -> usize {
        usize::try_from(self.word(field)).unwrap_or(usize::MAX)
    }

    fn entry(&self, place: usize) -> NameEntry {
        NameEntry::of_word(self.word(self.shape.by_name() + place))
    }

    /// Compares a key's name with another one.
    fn compare(&self, entry: NameEntry, name: &[u8]) -> Ordering {
        let own = (entry.at..entry.at + entry.len).map(|at| self.name_byte(at).unwrap_or(0));
        own.cmp(name.iter().copied())
    }

    fn text(&self, at: usize, len: usize) -> Option<String> {
        let end = at
            .checked_add(len)
            .filter(|end| end.div_ceil(WORD) <= self.shape.words() - self.shape.names())?;
        String::from_utf8((at..end).map_while(|at| self.name_byte(at)).collect()).ok()
    }

    fn name_byte(&self, at: usize) -> Option<u8> {
        let word = self.memory.words().get(self.shape.names() + at / WORD)?.load(Relaxed);
        Some(word.to_le_bytes()[at % WORD])
    }
}

fn shape(words: &[Word]) -> Option<Shape> {
    let count = |field: usize| usize::try_from(words[field].load(Relaxed)).ok();
    Shape::new(
        count(field::KEYS)?,
        count(field::HISTORY)?,
        count(field::VALUE_BYTES_MAX)?,
        count(field::NAMES_BYTES)?,
    )
}

fn facts(words: &[Word]) -> Option<LaneFacts> {
    let count = |field: usize| usize::try_from(words[field].load(Relaxed)).ok();
    let span = |field: usize| i64::try_from(words[field].load(Relaxed)).ok().map(Span);
    Some(LaneFacts {
        lane: u16::try_from(words[field::LANE].load(Relaxed)).ok()?,
        node: Node(u8::try_from(words[field::NODE].load(Relaxed)).ok()?),
        fingerprint: words[field::FINGERPRINT].load(Relaxed),
        period: span(field::PERIOD).filter(|period| *period > Span::ZERO)?,
        offset: span(field::OFFSET)?,
        round: span(field::ROUND)?,
        horizon: span(field::HORIZON)?,
        history: count(field::HISTORY)?,
        value_bytes_max: count(field::VALUE_BYTES_MAX)?,
        batch_tuples_max: count(field::BATCH_TUPLES_MAX)?,
        period_max: span(field::PERIOD_MAX)?,
        keys: count(field::KEYS)?,
    })
}
