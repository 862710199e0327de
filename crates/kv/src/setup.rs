//! A configuration that has been checked, with all that follows from it.

use crate::checks::{problems, store_bytes, tree_bytes, vote_of};
use crate::facts::fingerprint;
use crate::vote::{Quorum, Vote, VoteFunction};
use crate::{
    Config, ConfigError, Format, HEAD_BYTES, Layout, Mode, Node, NodeSet, ResolveRule, TUPLE_HEAD_BYTES,
    frame,
};
use contract::{Span, Time};
use std::sync::Arc;

/// The number of a key: its place in `keys` of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyId(pub u16);

/// What a lane runs by. It does not change; another configuration is another lane.
#[derive(Debug)]
pub struct Setup {
    config: Config,
    layout: Layout,
    keys: Vec<KeyTerms>,
    /// Numbers of keys in the order of their names.
    by_name: Vec<KeyId>,
    fingerprint: u64,
}

#[derive(Debug)]
pub(crate) struct KeyTerms {
    pub(crate) vote: Vote,
    pub(crate) writers: NodeSet,
    pub(crate) quorum: Quorum,
}

impl Setup {
    /// Checks a configuration; all that is wrong with it, if anything is.
    pub fn new(config: Config) -> Result<Arc<Setup>, Vec<ConfigError>> {
        let problems = problems(&config);
        if problems.is_empty() { Ok(Arc::new(Setup::derive(config))) } else { Err(problems) }
    }

    /// What follows from a configuration that has been checked.
    pub(crate) fn derive(config: Config) -> Setup {
        let layout = Layout::new(config.nodes.len(), config.faults + 1);
        let keys: Vec<KeyTerms> = config.keys.iter().map(|key| terms(&config, key)).collect();
        let mut by_name: Vec<KeyId> = (0..=u16::MAX).take(keys.len()).map(KeyId).collect();
        by_name.sort_by_key(|key| &config.keys[usize::from(key.0)].name);
        let fingerprint = fingerprint(&config.facts());
        Setup { config, layout, keys, by_name, fingerprint }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The tree.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// `n`.
    pub fn nodes(&self) -> usize {
        self.config.nodes.len()
    }

    /// `f`.
    pub fn faults(&self) -> usize {
        self.config.faults
    }

    /// `R = f + 1`.
    pub fn rounds(&self) -> usize {
        self.layout.rounds()
    }

    /// The name of a node; empty if there is none of this number.
    pub fn name(&self, node: Node) -> &str {
        self.config.nodes.get(node.index()).map_or("", String::as_str)
    }

    /// The number of a key, by its name.
    pub fn key(&self, name: &str) -> Option<KeyId> {
        let named = |key: &KeyId| self.key_name(*key).cmp(name);
        self.by_name.binary_search_by(named).ok().map(|at| self.by_name[at])
    }

    /// The name of a key; empty if there is none of this number.
    pub fn key_name(&self, key: KeyId) -> &str {
        self.config.keys.get(usize::from(key.0)).map_or("", |key| key.name.as_str())
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Who may write a key; nobody if there is none of this number.
    pub fn writers(&self, key: KeyId) -> NodeSet {
        self.terms(key).map_or(NodeSet::EMPTY, |terms| terms.writers)
    }

    /// Votes of users' own, each once.
    pub fn vote_functions(&self) -> Vec<Arc<dyn VoteFunction>> {
        let mut all: Vec<Arc<dyn VoteFunction>> = Vec::new();
        for key in &self.keys {
            if let Vote::Custom(function) = &key.vote
                && !all.iter().any(|other| Arc::ptr_eq(other, function))
            {
                all.push(Arc::clone(function));
            }
        }
        all
    }

    /// What the values of a key must be, if it votes on numbers.
    pub fn format(&self, key: KeyId) -> Option<Format> {
        self.terms(key)?.vote.format()
    }

    pub(crate) fn terms(&self, key: KeyId) -> Option<&KeyTerms> {
        self.keys.get(usize::from(key.0))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.config.mode
    }

    pub(crate) fn resolve_rule(&self) -> ResolveRule {
        self.config.resolve
    }

    /// `T`.
    pub fn period(&self) -> Span {
        self.config.period
    }

    /// `τ`: how long a round lasts at most (I9).
    pub fn round(&self) -> Span {
        round(&self.config)
    }

    /// How far the clock may be off for the lane to start: `τ/10`. Beyond it, too much of a round is lost.
    pub fn clock_error_max(&self) -> Span {
        Span(self.round().0 / 10)
    }

    /// `H`: how far ahead of its job a publishing time may be (A3).
    pub fn horizon(&self) -> Span {
        horizon(&self.config)
    }

    /// `NT`.
    pub fn batch_tuples_max(&self) -> usize {
        batch_tuples_max(&self.config)
    }

    /// The longest batch.
    pub fn batch_bytes_max(&self) -> usize {
        batch_bytes_max(&self.config)
    }

    /// `VS`.
    pub fn value_bytes_max(&self) -> usize {
        self.config.value_bytes_max
    }

    /// How many stamps of each key are kept.
    pub fn history(&self) -> usize {
        self.config.history
    }

    /// The longest body of a frame of this round (from 1).
    pub fn body_bytes_max(&self, round: usize) -> usize {
        self.body_bytes(round, self.batch_bytes_max())
    }

    /// The longest frame.
    pub fn frame_bytes_max(&self) -> usize {
        // Messages never become shorter from one round to the next.
        HEAD_BYTES + self.body_bytes_max(self.rounds()).max(self.state_bytes_max())
    }

    /// The longest answer about state.
    pub fn state_bytes_max(&self) -> usize {
        state_bytes_max(&self.config)
    }

    fn body_bytes(&self, round: usize, batch: usize) -> usize {
        self.layout.said(round, Node(0)).len() * (frame::BATCH_HEAD_BYTES + batch)
    }

    /// What one node sends to the others in one job where each node writes so many tuples with values of so many bytes.
    pub fn job_bytes(&self, tuples: usize, value_bytes: usize) -> usize {
        let batch = tuples * (TUPLE_HEAD_BYTES + value_bytes);
        let rounds = 1..=self.rounds();
        (self.nodes() - 1) * rounds.map(|round| HEAD_BYTES + self.body_bytes(round, batch)).sum::<usize>()
    }

    /// The memory that the tree takes.
    pub fn tree_bytes(&self) -> usize {
        usize::try_from(tree_bytes(&self.config)).unwrap_or(usize::MAX)
    }

    /// The memory that published values take.
    pub fn store_bytes(&self) -> usize {
        store_bytes(&self.config)
    }

    /// The configuration as one number; see [`Config::facts`].
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The first release after `now`: `k·T + O`.
    pub fn release_after(&self, now: Time) -> Time {
        let (period, offset) = (self.period().as_nanos_u64(), self.config.offset.as_nanos_u64());
        let job = now.0.checked_sub(offset).map_or(0, |since| since / period + 1);
        Time(job.saturating_mul(period).saturating_add(offset))
    }

    /// The number of the job that is released at this time, if one is. It counts periods since the Unix epoch, so all nodes
    /// have the same without a word, and no job of an earlier life of a node has it.
    pub fn job_at(&self, release: Time) -> Option<u64> {
        let since = release.0.checked_sub(self.config.offset.as_nanos_u64())?;
        let period = self.period().as_nanos_u64();
        (since % period == 0).then_some(since / period)
    }

    /// When a job is released.
    pub fn release_of(&self, job: u64) -> Time {
        let since = job.saturating_mul(self.period().as_nanos_u64());
        Time(since.saturating_add(self.config.offset.as_nanos_u64()))
    }

    /// A5: what a node proposes as the first release, at least two seconds ahead. All take the latest of what is proposed.
    pub fn first_release(&self, now: Time) -> Time {
        self.release_after(now + Span::secs(2))
    }
}

fn terms(config: &Config, key: &crate::Key) -> KeyTerms {
    let writers = key.writers.unwrap_or(NodeSet::all(config.nodes.len()));
    let masks = config.mode == Mode::Byzantine && writers.len() >= writers_needed(config);
    let quorum = Quorum {
        proposals: if masks { writers_needed(config) } else { 1 },
        // Who has stopped has no say where nobody lies.
        electorate: (config.mode == Mode::Byzantine).then_some(writers.len()),
        trim: config.faults,
    };
    KeyTerms { vote: vote_of(config, key), writers, quorum }
}

/// How many writers a key needs so that `f` faulty ones do not decide.
pub(crate) fn writers_needed(config: &Config) -> usize {
    match config.mode {
        Mode::Byzantine => config.faults.saturating_mul(2).saturating_add(1),
        Mode::Crash => config.faults.saturating_add(1),
    }
}

/// `τ`, as configured or `(T − O)/2R` (I9).
pub(crate) fn round(config: &Config) -> Span {
    let rounds = i64::try_from(config.faults.saturating_add(1)).unwrap_or(i64::MAX);
    config.round.unwrap_or(Span((config.period - config.offset).0 / rounds.saturating_mul(2)))
}

/// `H`, as configured or ten times the slowest period.
pub(crate) fn horizon(config: &Config) -> Span {
    config.horizon.unwrap_or(config.period_max.unwrap_or(config.period) * 10)
}

/// `NT`, as configured or the next multiple of 100 above the number of keys.
pub(crate) fn batch_tuples_max(config: &Config) -> usize {
    let by_keys = (config.keys.len() / 100 + 1).saturating_mul(100).min(Config::BATCH_TUPLES_MAX);
    config.batch_tuples_max.unwrap_or(by_keys)
}

/// `NT` tuples with the longest values.
pub(crate) fn batch_bytes_max(config: &Config) -> usize {
    batch_tuples_max(config).saturating_mul(TUPLE_HEAD_BYTES.saturating_add(config.value_bytes_max))
}

/// An answer about state has so much at most, unless a single key needs more.
const STATE_BYTES_TARGET: usize = 64 << 10;

/// The longest answer about state: one key with all its stamps at least.
pub(crate) fn state_bytes_max(config: &Config) -> usize {
    let key = config.history.saturating_mul(TUPLE_HEAD_BYTES.saturating_add(config.value_bytes_max));
    key.max(STATE_BYTES_TARGET.min(key.saturating_mul(config.keys.len())))
}

#[cfg(test)]
mod tests;
