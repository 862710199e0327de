//! What can be wrong with a configuration, each with the key and what to do.

use crate::{Config, NODES_MAX};
use contract::{Span, TopicError};

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// None, or more than a set holds.
    #[error("`nodes` has {0} names: there are 1 to {NODES_MAX} nodes")]
    NodeCount(usize),
    /// A node without a name, or with that of another.
    #[error("`nodes` has the name `{0}` twice or empty: every node needs a name of its own")]
    NodeName(String),
    /// Too few to outvote those that lie.
    #[error(
        "`kv.faults = {f}` with {n} nodes: {f} that lie and {f} that cannot be reached look the same to the others, so the correct \
         ones agree only if there are at least {needed} (3f + 1); add nodes, lower `kv.faults`, or set `kv.mode = \"crash\"` if \
         faulty nodes only ever stop"
    )]
    TooFewForLiars {
        /// How many there are.
        n: usize,
        /// How many may lie.
        f: usize,
        /// How many there must be.
        needed: usize,
    },
    /// Nobody would be left.
    #[error(
        "`kv.faults = {f}` with {n} nodes: nobody is left when {f} have stopped; there must be at least {needed} (f + 1)"
    )]
    TooFewForCrashes {
        /// How many there are.
        n: usize,
        /// How many may stop.
        f: usize,
        /// How many there must be.
        needed: usize,
    },
    /// No time in which a job fits.
    #[error(
        "`period = {period}` and `offset = {offset}`: the offset must not be negative, and leave something of the period"
    )]
    Offset {
        /// `T`.
        period: Span,
        /// `O`.
        offset: Span,
    },
    /// `τ` is longer than I9 allows.
    #[error(
        "`round = {round}`: the {rounds} rounds would take more than half of what the offset leaves of the period; at most {most}"
    )]
    RoundTooLong {
        /// As configured.
        round: Span,
        /// `R`.
        rounds: usize,
        /// The longest possible.
        most: Span,
    },
    /// `τ` is too short for frames to come in.
    #[error(
        "a round of {round} is too short: frames need up to {needed} (`kv.delay_max` + `kv.clock_error` + `kv.send` + \
         `kv.receive`); take a longer `period`, a smaller `offset`, fewer keys, or state shorter times if they are"
    )]
    RoundTooShort {
        /// `τ`.
        round: Span,
        /// The shortest possible.
        needed: Span,
    },
    /// The slowest period is below the fastest.
    #[error(
        "`period_max = {slowest}` is below `period = {period}`: it is the period of the slowest task that writes"
    )]
    PeriodMax {
        /// As configured.
        slowest: Span,
        /// `T`.
        period: Span,
    },
    /// What tasks write for their next release would be refused.
    #[error(
        "`horizon = {horizon}` is below the slowest period, {period}: what its task writes would be refused"
    )]
    Horizon {
        /// `H`.
        horizon: Span,
        /// `T_max`.
        period: Span,
    },
    /// A number that must be in a range.
    #[error("`{key} = {value}` must be {least} to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: usize,
        /// The lowest.
        least: usize,
        /// The highest.
        most: usize,
    },
    /// A key without a proper name.
    #[error("`keys`: {0}")]
    KeyName(TopicError),
    /// A name that is too long.
    #[error("key `{name}` has {} bytes: `key_bytes_max` allows {max}", .name.len())]
    KeyTooLong {
        /// The name.
        name: String,
        /// `KS`.
        max: usize,
    },
    /// Two keys of one name.
    #[error("key `{0}` is there twice in `keys`: every key needs a name of its own")]
    KeyTwice(String),
    /// Nobody writes it, or somebody who is not there.
    #[error("key `{0}`: its `writers` must be one or more of `nodes`")]
    Writers(String),
    /// So few writers that a fault decides.
    #[error(
        "key `{name}` has {writers} writers: {needed} are needed so that {f} faulty ones do not decide its value; name more, or set \
         `single_source = true`, and whoever reads it trusts them"
    )]
    TooFewWriters {
        /// The key.
        name: String,
        /// How many it has.
        writers: usize,
        /// How many it needs.
        needed: usize,
        /// How many may be faulty.
        f: usize,
    },
    /// Values in which no number fits.
    #[error(
        "key `{name}` votes on `{format}` numbers of up to {needed} bytes: `value_bytes_max = {max}` is too small"
    )]
    NumberTooLong {
        /// The key.
        name: String,
        /// The format.
        format: &'static str,
        /// What it needs.
        needed: usize,
        /// `VS`.
        max: usize,
    },
    /// Weights that give no mean.
    #[error(
        "key `{name}`: a weighted mean needs {n} weights, one for each node, none below zero and not all zero"
    )]
    Weights {
        /// The key.
        name: String,
        /// `n`.
        n: usize,
    },
    /// Published values that take too much memory.
    #[error(
        "{keys} keys with a history of {history} would take {bytes} bytes, more than `kv.store_memory = {max}`: lower `history` or \
         `value_bytes_max`, or raise the limit"
    )]
    StoreBytes {
        /// How many keys.
        keys: usize,
        /// How many stamps of each.
        history: usize,
        /// What they would take.
        bytes: usize,
        /// What they may take.
        max: usize,
    },
    /// A tree of too many slots.
    #[error(
        "{n} nodes and `kv.faults = {f}` make a tree of {} slots, more than {}: lower `kv.faults`, or split the nodes into groups",
        .slots.map_or("countless".to_owned(), |slots| slots.to_string()), crate::Layout::SLOTS_MAX
    )]
    TreeSlots {
        /// `n`.
        n: usize,
        /// `f`.
        f: usize,
        /// How many, if a number can say it.
        slots: Option<u128>,
    },
    /// A tree that takes too much memory.
    #[error(
        "the tree would take {bytes} bytes, more than `kv.tree_memory = {max}`: lower `batch_tuples_max`, `value_bytes_max` or \
         `kv.faults`, or raise the limit (frames would have up to {frame} bytes, of at most {})",
        Config::FRAME_BYTES_MAX
    )]
    TreeBytes {
        /// What it would take.
        bytes: u128,
        /// What it may take.
        max: usize,
        /// The longest body of a frame.
        frame: u128,
    },
}

impl Config {
    /// The longest body of a frame that may be configured.
    pub const FRAME_BYTES_MAX: usize = 64 << 20;
}
