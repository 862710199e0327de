//! From what several nodes propose for one key and instant to one value (A3).
//!
//! A vote is a pure function of the proposals and the configuration: all correct nodes have the same vector, so they come to the
//! same value, or all to none. With `2f + 1` proposals at least `f + 1` come from correct nodes, and the median and the trimmed
//! mean lie between two correct ones. Weighted means, minima and maxima are the same everywhere, but a node that lies can
//! pull them anywhere.

use crate::fuse::Entry;
use crate::number::{Format, Numeral, parse_decimal, parse_f64, parse_i64, write_decimal};
use crate::{NODES_MAX, Node};
use contract::Mutant;
use std::fmt;
use std::sync::Arc;

/// How one value is made of several.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Vote {
    /// The value that more than half of the writers propose, byte by byte. For replicas that compute the same.
    Majority,
    /// The one in the middle; of an even number, the mean of the two.
    Median(Format),
    /// The mean without the `f` lowest and the `f` highest.
    TrimmedMean(Format),
    /// The mean with a weight for each node, in the order of `nodes`.
    WeightedMean(Format, Arc<[f64]>),
    /// The lowest.
    Min(Format),
    /// The highest.
    Max(Format),
    /// A function of the program that runs the store.
    Custom(Arc<dyn VoteFunction>),
}

/// A vote of your own. It must give the same for the same proposals on every node: no clock, no memory, no other input. It
/// should not allocate, and its time counts to that of the job.
pub trait VoteFunction: Send + Sync + fmt::Debug {
    /// Its name and version. Nodes with different ones do not talk to each other.
    fn name(&self) -> &str;

    /// Whether this node may write this value. By default any.
    fn accepts(&self, _value: &[u8]) -> bool {
        true
    }

    /// How often it has come to nothing by a fault of its own since it was made. It must be the same on every node for the same votes.
    fn failed(&self) -> u64 {
        0
    }

    /// Why the last time, for people.
    fn last_failure(&self) -> String {
        String::new()
    }

    /// Writes the result to the beginning of `out`, which has `value_bytes_max` bytes, and says how long it is; `None` if there is
    /// none.
    fn vote(&self, ballots: &Ballots<'_>, out: &mut [u8]) -> Option<usize>;
}

/// What the nodes propose for one key and instant; at most one value for each node.
#[derive(Clone, Copy, Debug)]
pub struct Ballots<'a> {
    pub(crate) entries: &'a [Entry],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Ballots<'a> {
    /// How many nodes propose something.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The values, in ascending order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = (Node, &'a [u8])> + Clone {
        self.entries.iter().map(|entry| (entry.node, entry.value(self.bytes)))
    }
}

/// How many proposals are enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quorum {
    /// Fewer are no vote.
    pub(crate) proposals: usize,
    /// A majority is more than half of these; `None` for those that propose something.
    pub(crate) electorate: Option<usize>,
    /// `f`: how many a trimmed mean leaves out at each end.
    pub(crate) trim: usize,
}

impl Vote {
    /// Its name in facts and messages.
    pub fn name(&self) -> String {
        match self {
            Vote::Majority => "majority".to_owned(),
            Vote::Median(format) => format!("median {}", format.name()),
            Vote::TrimmedMean(format) => format!("trimmed mean {}", format.name()),
            Vote::WeightedMean(format, weights) => format!("weighted mean {} {weights:?}", format.name()),
            Vote::Min(format) => format!("min {}", format.name()),
            Vote::Max(format) => format!("max {}", format.name()),
            Vote::Custom(function) => format!("custom {}", function.name()),
        }
    }

    /// What its values must be, if they must be numbers.
    pub fn format(&self) -> Option<Format> {
        match self {
            Vote::Majority | Vote::Custom(_) => None,
            Vote::Median(format)
            | Vote::TrimmedMean(format)
            | Vote::WeightedMean(format, _)
            | Vote::Min(format)
            | Vote::Max(format) => Some(*format),
        }
    }

    /// Whether a value can take part.
    pub fn accepts(&self, value: &[u8]) -> bool {
        match self {
            Vote::Custom(function) => function.accepts(value),
            vote => vote.format().is_none_or(|format| format.accepts(value)),
        }
    }

    /// Writes the result to the beginning of `out` and says how long it is.
    pub(crate) fn decide(&self, ballots: &Ballots<'_>, quorum: Quorum, out: &mut [u8]) -> Option<usize> {
        match self {
            Vote::Majority => majority(ballots, quorum, out),
            Vote::Custom(function) => {
                let len = (ballots.len() >= quorum.proposals).then(|| function.vote(ballots, out))??;
                (len <= out.len()).then_some(len)
            }
            vote => match vote.format()? {
                Format::F64 => {
                    let result = vote.number(ballots, quorum, parse_f64)?;
                    result.is_finite().then(|| put(out, &result.to_le_bytes()))?
                }
                Format::I64 => put(out, &vote.number(ballots, quorum, parse_i64)?.to_le_bytes()),
                Format::Decimal => {
                    let result = vote.number(ballots, quorum, parse_decimal)?;
                    result.is_finite().then(|| write_decimal(result, out))?
                }
            },
        }
    }

    fn number<N: Numeral>(
        &self,
        ballots: &Ballots<'_>,
        quorum: Quorum,
        parse: impl Fn(&[u8]) -> Option<N>,
    ) -> Option<N> {
        let mut room = [N::ZERO; NODES_MAX];
        let mut count = 0;
        for number in ballots.iter().filter_map(|(_, value)| parse(value)) {
            room[count] = number;
            count += 1;
        }
        if count == 0 || count < quorum.proposals {
            return None;
        }
        let numbers = &mut room[..count];
        numbers.sort_unstable_by(N::order);
        let half = count / 2;
        Some(match self {
            Vote::Min(_) => numbers[0],
            Vote::Max(_) => numbers[count - 1],
            Vote::TrimmedMean(_) => {
                let trim = quorum.trim.min((count - 1) / 2);
                N::mean(&numbers[trim..count - trim])
            }
            Vote::WeightedMean(_, weights) => {
                let weighed = ballots
                    .iter()
                    .filter_map(|(node, value)| Some((parse(value)?.to_f64(), *weights.get(node.index())?)));
                N::from_f64(weighted(weighed, numbers[0].to_f64(), numbers[count - 1].to_f64())?)
            }
            _ if count % 2 == 1 => numbers[half],
            _ => numbers[half - 1].midpoint(numbers[half]),
        })
    }
}

/// The weighted mean, kept between the extremes; `None` if nothing of it has weight.
fn weighted(numbers: impl Iterator<Item = (f64, f64)> + Clone, lowest: f64, highest: f64) -> Option<f64> {
    let total: f64 = numbers.clone().map(|(_, weight)| weight).sum();
    let mean: f64 = numbers.map(|(number, weight)| number * (weight / total)).sum();
    (total > 0.0).then(|| mean.clamp(lowest, highest))
}

/// One pass finds the only candidate, another counts it.
fn majority(ballots: &Ballots<'_>, quorum: Quorum, out: &mut [u8]) -> Option<usize> {
    let (mut candidate, mut lead) = (None, 0_usize);
    for (_, value) in ballots.iter() {
        if lead == 0 {
            candidate = Some(value);
        }
        if candidate == Some(value) {
            lead += 1;
        } else {
            lead -= 1;
        }
    }
    let candidate = candidate?;
    let count = ballots.iter().filter(|(_, value)| *value == candidate).count();
    let electorate = quorum.electorate.unwrap_or(ballots.len());
    let electorate = if Mutant::TakeFirst.is_on() { 0 } else { electorate };
    (2 * count > electorate).then(|| put(out, candidate))?
}

fn put(out: &mut [u8], value: &[u8]) -> Option<usize> {
    out.get_mut(..value.len())?.copy_from_slice(value);
    Some(value.len())
}

#[cfg(test)]
mod tests;
