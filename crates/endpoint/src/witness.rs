//! What a subscriber tells the primary of what came to it.
//!
//! The problem: a broker sees what leaves it, and not whether and when that arrives. The idea: with its polls a client says what has come
//! since it last said so: times by class of contract, once in [`POLLS`] polls, and every stream with something missing or late, at most
//! [`TROUBLES_MAX`] with each poll. What is said is forgotten; should the primary die before it reads it, nobody counts it.

use crate::subscription::Inbound;
use contract::{Span, Time};
use std::collections::VecDeque;
use wire::{ClockDifference, Received, Trouble, bucket_of};

/// Streams with troubles that are told of with one poll. Others wait for the next.
pub(crate) const TROUBLES_MAX: usize = 32;
/// Polls from one account of the times to the next.
const POLLS: u64 = 10;
/// Classes that are told apart. What is of others is not told.
const CLASSES_MAX: usize = 1024;

/// What has not been told yet.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    classes: Vec<Received>,
    /// Streams with troubles, each once.
    pub(crate) troubled: VecDeque<u32>,
}

/// What was wrong with a stream and has not been told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Untold {
    late: u32,
    by: Span,
    /// Since when it is in [`Witness::troubled`], if it is.
    pub(crate) listed: Option<Time>,
}

/// What is certain of a difference between the clocks: by so much a latency looks too long.
pub(crate) fn certain(difference: Option<ClockDifference>) -> Span {
    let Some(difference) = difference else { return Span::ZERO };
    let least = difference.least();
    if difference.ahead < Span::ZERO { -least } else { least }
}

impl Witness {
    /// There are messages of this class from now on.
    pub(crate) fn expect(&mut self, class: u16) {
        let index = usize::from(class);
        if index < CLASSES_MAX && index >= self.classes.len() {
            self.classes.resize(index + 1, Received::default());
        }
    }

    /// A message has come for the first time, and was not sent again after a failover.
    #[inline]
    pub(crate) fn sees(&mut self, now: Time, index: u32, inbound: &mut Inbound, latency: Span) {
        if let Some(class) = self.classes.get_mut(usize::from(inbound.class)) {
            if let Some(count) = class.latency.get_mut(bucket_of(latency)) {
                *count = count.saturating_add(1);
            }
            class.latency_nanos = class.latency_nanos.saturating_add(latency.as_nanos_u64());
        }
        if latency > inbound.due {
            let untold = &mut inbound.untold;
            untold.late = untold.late.saturating_add(1);
            untold.by = untold.by.max(latency - inbound.due);
            self.list(now, index, inbound);
        }
    }

    /// Something is wrong with a stream.
    #[cold]
    pub(crate) fn list(&mut self, now: Time, index: u32, inbound: &mut Inbound) {
        if inbound.untold.listed.is_none() {
            inbound.untold.listed = Some(now);
            self.troubled.push_back(index);
        }
    }

    /// The times of all classes of which something has come, where they are to be told with the poll of this number.
    pub(crate) fn take_received(&mut self, poll: u64) -> impl Iterator<Item = Received> {
        let due = poll.is_multiple_of(POLLS);
        let classes = self.classes.iter_mut().zip(0..).filter(move |_| due);
        classes.filter_map(|(class, number)| {
            let taken = std::mem::take(class);
            taken.latency.iter().any(|count| *count > 0).then_some(Received { class: number, ..taken })
        })
    }
}

impl Inbound {
    /// What was wrong with it and has not been told, under the broker's number.
    pub(crate) fn take_trouble(&mut self, stream: u32) -> Trouble {
        let Untold { late, by, .. } = std::mem::take(&mut self.untold);
        let [lost, run] = self.tally.take_untold().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Trouble { stream, lost, run, late, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_of_a_difference_counts() {
        let of = |ahead, within| certain(Some(ClockDifference { ahead, within }));
        assert_eq!(of(Span::millis(2), Span::millis(3)), Span::ZERO);
        assert_eq!(of(Span::millis(5), Span::millis(3)), Span::millis(2));
        assert_eq!(of(-Span::millis(5), Span::millis(3)), -Span::millis(2));
        assert_eq!(certain(None), Span::ZERO);
    }

    #[test]
    fn times_are_told_once_and_only_where_something_came() {
        let mut witness = Witness::default();
        witness.expect(2);
        witness.classes[2].latency[3] = 7;
        assert_eq!(witness.take_received(POLLS + 1).count(), 0, "not due");
        let told: Vec<Received> = witness.take_received(POLLS).collect();
        assert_eq!(told.iter().map(|told| (told.class, told.latency[3])).collect::<Vec<_>>(), [(2, 7)]);
        assert_eq!(witness.take_received(2 * POLLS).count(), 0);
        witness.expect(u16::MAX);
        assert_eq!(witness.classes.len(), 3, "a broker that names many classes reserves nothing here");
    }
}
