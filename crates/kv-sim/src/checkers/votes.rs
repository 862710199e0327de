//! A3: what is published is what a plain count makes of the batches that were agreed on, and of instants within the horizon.

use super::Ended;
use crate::ledger::{Ledger, Terms};
use crate::scenario::KeyKind;
use contract::Time;
use kv::{Mode, Node};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "votes";
pub(super) const STATEMENT: &str = "what is published is what a plain count makes of the agreed batches (A3)";

/// By key and instant, what each node proposes.
type Proposals<'a> = BTreeMap<(u16, Time), BTreeMap<usize, &'a [u8]>>;

pub(super) fn ended(ledger: &Ledger, node: usize, ended: &Ended) -> Result<(), String> {
    let (terms, facts) = (&ledger.terms, &ledger.nodes[node]);
    let Some(release) = facts.running else { return Ok(()) };
    // What it holds back is not given to anybody.
    if !ended.outcome.sure || !facts.sure || facts.blurred {
        return Ok(());
    }
    let mut proposals = Proposals::new();
    for (source, batch) in ended.vector.iter().enumerate() {
        collect(terms, release, source, batch, &mut proposals);
    }
    let mut published = ended.published.iter().peekable();
    let mut stores = facts.store.clone();
    for ((key, stamp), ballots) in proposals {
        let Some(expected) = decide(terms, key, &ballots) else { continue };
        let stamps = stores.entry(key).or_default();
        let is_old = stamps.len() >= terms.history
            && stamps.first_key_value().is_some_and(|(first, _)| stamp < *first);
        if is_old || stamps.contains_key(&stamp) {
            continue;
        }
        let got = published.next_if(|one| (one.key, one.stamp) == (key, stamp));
        let Some(got) = got.filter(|one| expected.is(&one.value)) else {
            let got = got.map(|one| &one.value);
            return Err(format!(
                "key {key} at {}: {expected:?} was voted for, and published is {got:?}",
                stamp.0
            ));
        };
        stamps.insert(stamp, got.value.clone());
        if stamps.len() > terms.history {
            stamps.pop_first();
        }
    }
    match published.next() {
        Some(one) => Err(format!(
            "key {} at {}: nothing was voted for, and a value is published",
            one.key, one.stamp.0
        )),
        None => Ok(()),
    }
}

/// A batch that is not whole tuples, or too many, is none.
fn collect<'a>(terms: &Terms, release: Time, source: usize, batch: &'a [u8], proposals: &mut Proposals<'a>) {
    let (mut rest, mut tuples) = (batch, Vec::new());
    while !rest.is_empty() {
        let Some((head, after)) = rest.split_first_chunk::<12>() else { return };
        let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let Some((value, after)) = after.split_at_checked(length) else { return };
        let stamp = Time(u64::from_le_bytes(std::array::from_fn(|at| head[4 + at])));
        tuples.push((u16::from_le_bytes([head[0], head[1]]), stamp, value));
        rest = after;
    }
    if tuples.len() > terms.tuples_max {
        return;
    }
    for (key, stamp, value) in tuples {
        let may =
            terms.keys.get(usize::from(key)).is_some_and(|(_, writers)| writers.contains(Node::at(source)));
        let is_near = stamp > release && stamp <= release + terms.horizon;
        if may && is_near && value.len() <= crate::Scenario::VALUE_BYTES_MAX {
            proposals.entry((key, stamp)).or_default().insert(source, value);
        }
    }
}

#[derive(Debug)]
enum Expected {
    Bytes(Vec<u8>),
    Number(f64),
}

impl Expected {
    /// Sums of many numbers may be rounded in another order.
    fn is(&self, value: &[u8]) -> bool {
        match self {
            Expected::Bytes(bytes) => bytes == value,
            Expected::Number(number) => <[u8; 8]>::try_from(value).is_ok_and(|value| {
                let got = f64::from_le_bytes(value);
                (got - number).abs() <= 1e-9 * number.abs().max(got.abs())
            }),
        }
    }
}

fn decide(terms: &Terms, key: u16, ballots: &BTreeMap<usize, &[u8]>) -> Option<Expected> {
    let (kind, writers) = terms.keys[usize::from(key)];
    let f = terms.tolerated;
    let needed = if terms.mode == Mode::Byzantine { 2 * f + 1 } else { f + 1 };
    let masks = terms.mode == Mode::Byzantine && writers.len() >= needed;
    if kind == KeyKind::Majority {
        let electorate = if terms.mode == Mode::Byzantine { writers.len() } else { ballots.len() };
        let count = |value: &[u8]| ballots.values().filter(|other| **other == value).count();
        let winner = ballots.values().find(|value| 2 * count(value) > electorate)?;
        return Some(Expected::Bytes(winner.to_vec()));
    }
    let number = |value: &&[u8]| {
        Some(f64::from_le_bytes((*value).try_into().ok()?)).filter(|one: &f64| one.is_finite())
    };
    let mut numbers: Vec<f64> = ballots.values().filter_map(number).collect();
    numbers.sort_by(f64::total_cmp);
    let count = numbers.len();
    if count == 0 || (masks && count < needed) {
        return None;
    }
    // Halves are added, so that two huge numbers have a mean.
    let mean = |of: &[f64]| of.iter().map(|one| one / of.len() as f64).sum::<f64>();
    let result = match kind {
        KeyKind::Min => numbers[0],
        KeyKind::TrimmedMean => {
            let trim = f.min((count - 1) / 2);
            mean(&numbers[trim..count - trim])
        }
        KeyKind::Median | KeyKind::Majority => mean(&numbers[(count - 1) / 2..=count / 2]),
    };
    Some(Expected::Number(result))
}
