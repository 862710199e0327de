//! What all nodes of a lane must agree on before it runs.

use crate::{Node, NodeSet, Vote};
use contract::{Span, TopicFilter};

/// What faulty nodes may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Anything: fall silent, corrupt, tell different nodes different things. Needs `3f + 1` nodes.
    #[default]
    Byzantine,
    /// Only stop, at any moment. Needs `f + 1` nodes; a node that lies breaks the agreement.
    Crash,
}

/// When the words of relayers count (I8). Both are correct; all nodes must use the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ResolveRule {
    /// What more than half of them say.
    #[default]
    Majority,
    /// What all but `f` of them say.
    AllButFaulty,
}

/// A key, and how its values come about.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name, by the rules of topics: levels divided by `/`.
    pub name: String,
    /// How several values become one; `None` for what [`Config::votes`] says.
    pub vote: Option<Vote>,
    /// Who may write it; `None` for everybody. What others write is ignored.
    pub writers: Option<NodeSet>,
    /// Whether it may have so few writers that one that lies can make its value up. All nodes still read the same.
    pub single_source: bool,
}

impl Key {
    /// A key that all nodes write.
    pub fn named(name: &str) -> Key {
        Key { name: name.to_owned(), vote: None, writers: None, single_source: false }
    }

    /// A key that only one node writes.
    pub fn of_one(name: &str, writer: Node) -> Key {
        let writers = Some([writer].into_iter().collect());
        Key { name: name.to_owned(), vote: None, writers, single_source: true }
    }

    /// The same key with this vote.
    pub fn vote(self, vote: Vote) -> Key {
        Key { vote: Some(vote), ..self }
    }
}

/// A vote for all keys that a filter matches.
#[derive(Clone, Debug)]
pub struct VoteRule {
    /// Which keys.
    pub filter: TopicFilter,
    /// How they vote.
    pub vote: Vote,
}

/// What a frame may need from the end of its sender's last round until its receiver has looked at it. All are upper bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTimes {
    /// `δ`: on the way, for the longest frame.
    pub delay_max: Span,
    /// `ε`: how far the clocks of two correct nodes may be apart.
    pub clock_error: Span,
    /// Making and sending the frames of one round.
    pub send: Span,
    /// Reading and checking the frames of one round.
    pub receive: Span,
}

impl LinkTimes {
    /// The shortest round in which the frames of all correct nodes come in: `δ + ε + C_send + C_recv`.
    pub fn round_min(&self) -> Span {
        self.delay_max + self.clock_error + self.send + self.receive
    }
}

impl Default for LinkTimes {
    /// A switched local network with clocks synchronised by PTP or chrony.
    fn default() -> LinkTimes {
        LinkTimes {
            delay_max: Span::micros(500),
            clock_error: Span::micros(100),
            send: Span::micros(200),
            receive: Span::micros(200),
        }
    }
}

/// The configuration of one lane, the same on all its nodes. [`Setup::new`](crate::Setup::new) checks it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The names of the nodes; their number `n`, and their places are their numbers.
    pub nodes: Vec<String>,
    /// `f`: how many faulty nodes are tolerated.
    pub faults: usize,
    /// What a faulty node may do.
    pub mode: Mode,
    /// When the words of relayers count; without meaning in [`Mode::Crash`].
    pub resolve: ResolveRule,
    /// The number of the lane.
    pub lane: u16,
    /// `T`: the period of jobs, that of the fastest task.
    pub period: Span,
    /// `O`: from the beginning of a period to the release of its job. Tasks run before it.
    pub offset: Span,
    /// The period of the slowest task that writes; `None` for `T`.
    pub period_max: Option<Span>,
    /// `τ`: how long a round lasts at most; `None` for `(T − O)/2R`, which is also the longest possible (I9). Where a node is
    /// silent but its connection stands, every round lasts so long.
    pub round: Option<Span>,
    /// `H`: how far ahead of its job a publishing time may be; `None` for ten times the slowest period.
    pub horizon: Option<Span>,
    /// `NT`: most tuples that a node writes for one job; `None` for the next multiple of 100 above the number of keys.
    pub batch_tuples_max: Option<usize>,
    /// `KS`: the longest name of a key. Names do not travel, so this costs nothing on the wire.
    pub key_bytes_max: usize,
    /// `VS`: the longest value.
    pub value_bytes_max: usize,
    /// How many stamps of each key are kept.
    pub history: usize,
    /// The keys. Their places are their numbers.
    pub keys: Vec<Key>,
    /// Votes by filter; the first that matches a key counts. A key that none matches votes by majority.
    pub votes: Vec<VoteRule>,
    /// What the network and the clocks are like.
    pub link: LinkTimes,
    /// Most memory that the tree may take; see [`Setup::tree_bytes`](crate::Setup::tree_bytes).
    pub tree_bytes_max: usize,
    /// Most memory that published values may take: keys times history times the longest value.
    pub store_bytes_max: usize,
}

impl Config {
    /// Most keys of a lane: their numbers have 16 bits.
    pub const KEYS_MAX: usize = 1 << 16;
    /// Most tuples of a batch.
    pub const BATCH_TUPLES_MAX: usize = 1 << 16;
    /// The longest key that a batch has room for, in bytes.
    pub const KEY_BYTES_MAX: usize = 512;
    /// The longest value that may be configured.
    pub const VALUE_BYTES_MAX: usize = 4_096;
    /// The deepest history: the places of a key have numbers of 8 bits.
    pub const HISTORY_MAX: usize = 255;
}

impl Default for Config {
    /// One tolerated liar, 50 ms, and neither nodes nor keys.
    fn default() -> Config {
        Config {
            nodes: Vec::new(),
            faults: 1,
            mode: Mode::default(),
            resolve: ResolveRule::default(),
            lane: 0,
            period: Span::millis(50),
            offset: Span::millis(4),
            period_max: None,
            round: None,
            horizon: None,
            batch_tuples_max: None,
            key_bytes_max: 64,
            value_bytes_max: 16,
            history: 20,
            keys: Vec::new(),
            votes: Vec::new(),
            link: LinkTimes::default(),
            tree_bytes_max: 256 << 20,
            store_bytes_max: 256 << 20,
        }
    }
}
