//! What a configuration must keep to. All that is wrong is found at once.

use crate::setup::{batch_bytes_max, batch_tuples_max, round, state_bytes_max, writers_needed};
use crate::{Config, ConfigError, Key, Layout, Mode, NODES_MAX, NodeSet, Vote, frame};
use contract::{Span, check_name};
use std::collections::BTreeSet;

/// Everything that is wrong, at most one for each key and relation.
pub(crate) fn problems(config: &Config) -> Vec<ConfigError> {
    let mut found = Vec::new();
    check_nodes(config, &mut found);
    check_ranges(config, &mut found);
    check_times(config, &mut found);
    check_keys(config, &mut found);
    if found.is_empty() {
        // Only now do its numbers make sense.
        check_memory(config, &mut found);
    }
    found
}

fn check_nodes(config: &Config, found: &mut Vec<ConfigError>) {
    let (n, f) = (config.nodes.len(), config.faults);
    if n == 0 || n > NODES_MAX {
        found.push(ConfigError::NodeCount(n));
        return;
    }
    let mut names = BTreeSet::new();
    if let Some(name) = config.nodes.iter().find(|name| name.is_empty() || !names.insert(name.as_str())) {
        found.push(ConfigError::NodeName(name.clone()));
    }
    let (liars, crashes) = (f.saturating_mul(3).saturating_add(1), f.saturating_add(1));
    match config.mode {
        Mode::Byzantine if n < liars => found.push(ConfigError::TooFewForLiars { n, f, needed: liars }),
        Mode::Crash if n < crashes => found.push(ConfigError::TooFewForCrashes { n, f, needed: crashes }),
        _ => {}
    }
}

fn check_ranges(config: &Config, found: &mut Vec<ConfigError>) {
    let ranges = [
        ("batch_tuples_max", batch_tuples_max(config), 1, Config::BATCH_TUPLES_MAX),
        ("key_bytes_max", config.key_bytes_max, 1, Config::KEY_BYTES_MAX),
        ("value_bytes_max", config.value_bytes_max, 1, Config::VALUE_BYTES_MAX),
        ("history", config.history, 1, Config::HISTORY_MAX),
        ("number of keys", config.keys.len(), 1, Config::KEYS_MAX),
    ];
    for (key, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            found.push(ConfigError::Range { key, value, least, most });
        }
    }
}

fn check_times(config: &Config, found: &mut Vec<ConfigError>) {
    let (period, offset) = (config.period, config.offset);
    if period <= Span::ZERO || offset < Span::ZERO || offset >= period || period.is_forever() {
        found.push(ConfigError::Offset { period, offset });
        return;
    }
    let rounds = config.faults.saturating_add(1);
    let most = Span((period - offset).0 / i64::try_from(rounds.saturating_mul(2)).unwrap_or(i64::MAX));
    let round = round(config);
    if round > most {
        found.push(ConfigError::RoundTooLong { round, rounds, most });
    } else if round < config.link.round_min() || round <= Span::ZERO {
        found.push(ConfigError::RoundTooShort { round, needed: config.link.round_min() });
    }
    let slowest = config.period_max.unwrap_or(period);
    if slowest < period {
        found.push(ConfigError::PeriodMax { slowest, period });
    }
    if let Some(horizon) = config.horizon.filter(|horizon| *horizon < slowest) {
        found.push(ConfigError::Horizon { horizon, period: slowest });
    }
}

fn check_keys(config: &Config, found: &mut Vec<ConfigError>) {
    let mut names = BTreeSet::new();
    for key in config.keys.iter().take(Config::KEYS_MAX) {
        let name = || key.name.clone();
        if let Err(error) = check_name(&key.name) {
            found.push(ConfigError::KeyName(error));
        } else if key.name.len() > config.key_bytes_max {
            found.push(ConfigError::KeyTooLong { name: name(), max: config.key_bytes_max });
        } else if !names.insert(key.name.as_str()) {
            found.push(ConfigError::KeyTwice(name()));
        }
        check_writers(config, key, found);
        check_vote(config, key, found);
    }
}

fn check_writers(config: &Config, key: &Key, found: &mut Vec<ConfigError>) {
    let all = NodeSet::all(config.nodes.len());
    let writers = key.writers.unwrap_or(all);
    let needed = writers_needed(config);
    if writers.is_empty() || !writers.without(all).is_empty() {
        found.push(ConfigError::Writers(key.name.clone()));
    } else if writers.len() < needed && !key.single_source && key.writers.is_some() {
        let (name, writers, f) = (key.name.clone(), writers.len(), config.faults);
        found.push(ConfigError::TooFewWriters { name, writers, needed, f });
    }
}

fn check_vote(config: &Config, key: &Key, found: &mut Vec<ConfigError>) {
    let vote = vote_of(config, key);
    if let Some(format) = vote.format()
        && format.bytes_min() > config.value_bytes_max
    {
        let (needed, max) = (format.bytes_min(), config.value_bytes_max);
        found.push(ConfigError::NumberTooLong { name: key.name.clone(), format: format.name(), needed, max });
    }
    if let Vote::WeightedMean(_, weights) = &vote {
        let n = config.nodes.len();
        let total: f64 = weights.iter().sum();
        let proper = weights.iter().all(|weight| *weight >= 0.0) && total > 0.0 && total.is_finite();
        if weights.len() != n || !proper {
            found.push(ConfigError::Weights { name: key.name.clone(), n });
        }
    }
}

/// The vote of a key: its own, or that of the first filter, or majority.
pub(crate) fn vote_of(config: &Config, key: &Key) -> Vote {
    let by_filter = || config.votes.iter().find(|rule| rule.filter.matches(&key.name));
    key.vote.clone().or_else(|| by_filter().map(|rule| rule.vote.clone())).unwrap_or(Vote::Majority)
}

fn check_memory(config: &Config, found: &mut Vec<ConfigError>) {
    let (keys, history) = (config.keys.len(), config.history);
    let (bytes, max) = (store_bytes(config), config.store_bytes_max);
    if bytes > max {
        found.push(ConfigError::StoreBytes { keys, history, bytes, max });
    }
    let (n, f) = (config.nodes.len(), config.faults);
    let slots = Layout::deepest_slots(n, f + 1);
    if slots.is_none_or(|slots| slots > Layout::SLOTS_MAX as u128) {
        found.push(ConfigError::TreeSlots { n, f, slots });
        return;
    }
    let bytes = tree_bytes(config);
    let batch = (frame::BATCH_HEAD_BYTES + batch_bytes_max(config)) as u128;
    let frame = u128::from(Layout::batches_per_message(n, f + 1)).saturating_mul(batch);
    let frame = frame.max(state_bytes_max(config) as u128);
    if bytes > config.tree_bytes_max as u128 || frame > Config::FRAME_BYTES_MAX as u128 {
        found.push(ConfigError::TreeBytes { bytes, max: config.tree_bytes_max, frame });
    }
}

/// What published values take: each with its stamp (8 bytes), its length (2), its place in the order (1) and whether it is held (1).
pub(crate) fn store_bytes(config: &Config) -> usize {
    config.keys.len().saturating_mul(config.history).saturating_mul(config.value_bytes_max + 12)
}

/// What the tree takes: the own batch, the frames of all others in all rounds, one frame to be sent, and the slots.
pub(crate) fn tree_bytes(config: &Config) -> u128 {
    let (n, rounds) = (config.nodes.len(), config.faults + 1);
    let batch = (frame::BATCH_HEAD_BYTES + batch_bytes_max(config)) as u128;
    let in_round = |round| u128::from(Layout::batches_per_message(n, round)).saturating_mul(batch);
    let received = (1..=rounds).map(|round| in_round(round).saturating_mul(n as u128 - 1));
    let slots = (0..=rounds).filter_map(|level| Layout::deepest_slots(n, level)).map(|slots| slots * 8);
    let states = (n as u128).saturating_mul(state_bytes_max(config) as u128);
    let total = received.chain(slots).chain([states]).fold(batch + in_round(rounds), u128::saturating_add);
    // Places in it have 32 bits.
    if total > u128::from(u32::MAX) { u128::MAX } else { total }
}
