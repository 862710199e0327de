//! Filters that others want, as a broker tells them.

use contract::{Filters, Span, TopicFilter};
use std::collections::BTreeMap;

/// Filters that may be wanted at one end; what is above is not heard of.
const WISHES_MAX: usize = 65_536;

/// Filters that are wanted. Where a broker is asked anew, those that it does not tell again are forgotten when it has told everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    /// Whether each has been told since it was last asked, and how long the way to the last who wants it takes: the longest that was told.
    filters: BTreeMap<Box<str>, (bool, Span)>,
    /// The ways, to find those of a topic.
    index: Filters<Vec<Span>>,
    /// Those that have been told since it was last asked.
    told: Filters<Vec<()>>,
    /// Whether those that are not told again stay for a while.
    lingers: bool,
    /// Whether everything has been told since then.
    complete: bool,
}

impl Wishes {
    pub(super) fn len(&self) -> usize {
        self.filters.len()
    }

    /// Whether all has been told that is wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// A broker is asked anew.
    pub(super) fn ask(&mut self) {
        self.complete = false;
        self.told = Filters::default();
        self.filters.values_mut().for_each(|(told, _)| *told = false);
    }

    /// What is not told again is forgotten later, when [`Wishes::forget_untold`] is called: whoever wants it may be on the way back.
    pub(super) fn linger(&mut self) {
        self.lingers = true;
    }

    /// Forgets what has not been told since it was last asked. Returns whether that is anything.
    pub(super) fn forget_untold(&mut self) -> bool {
        self.lingers = false;
        let (before, index) = (self.filters.len(), &mut self.index);
        self.filters.retain(|filter, (told, _)| {
            if !*told {
                index.change(filter, Vec::clear);
            }
            *told
        });
        self.filters.len() != before
    }

    /// Whether one that has been told since it was last asked means a topic.
    pub(super) fn mean_surely(&self, topic: &str) -> bool {
        self.told.find(topic, &mut |_, _| true)
    }

    /// It has told something: a filter and the way to whoever wants it, or by an empty one that this was all. Returns whether anything else is
    /// wanted now, or by somebody further away.
    pub(super) fn hear(&mut self, filter: &str, way: Option<Span>) -> bool {
        let before = self.filters.len();
        if filter.is_empty() {
            self.complete = true;
            return !self.lingers && self.forget_untold();
        }
        let known = self.filters.get(filter).copied();
        let Some(way) = way else {
            self.filters.remove(filter);
            self.index.change(filter, Vec::clear);
            self.told.change(filter, Vec::clear);
            return known.is_some();
        };
        if filter.parse::<TopicFilter>().is_err() || (before >= WISHES_MAX && known.is_none()) {
            return false;
        }
        // What was told before it was asked again does not count.
        let longest = known.filter(|(told, _)| *told).map_or(way, |(_, before)| way.max(before));
        self.filters.insert(filter.into(), (true, longest));
        self.index.change(filter, |known| *known = vec![longest]);
        self.told.change(filter, |told| *told = vec![()]);
        known.is_none_or(|(_, before)| before != longest)
    }

    /// What is meant by one of them and by one of `allowed` both.
    pub(super) fn within<'a>(
        &'a self,
        allowed: &'a [TopicFilter],
    ) -> impl Iterator<Item = (TopicFilter, Span)> + 'a {
        let parsed = self.filters.iter().filter_map(|(filter, (_, way))| Some((filter.parse().ok()?, *way)));
        parsed.flat_map(|(filter, way): (TopicFilter, Span)| {
            allowed.iter().filter_map(move |allowed| Some((filter.common(allowed)?, way)))
        })
    }

    /// The way to the last who wants a topic: from when a message is at the broker until it is there.
    pub(super) fn way_of(&self, topic: &str) -> Span {
        let mut longest = Span::ZERO;
        self.index.each(topic, |ways| longest = ways.iter().copied().fold(longest, Span::max));
        longest
    }

    /// Whether one of them means a topic.
    pub(super) fn mean(&self, topic: &str) -> bool {
        self.index.find(topic, &mut |_, _| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_again_is_forgotten_when_all_has_been_told() {
        let mut wishes = Wishes::default();
        assert!(wishes.hear("a/#", Some(Span(1))));
        assert!(wishes.hear("b", Some(Span(1))));
        assert!(!wishes.hear("b", Some(Span(1))));
        wishes.ask();
        assert!(!wishes.hear("b", Some(Span(1))));
        assert!(wishes.mean("a/1"), "it may still be told");
        assert!(wishes.hear("", Some(Span(1))));
        assert!(!wishes.mean("a/1") && wishes.mean("b"));
        assert!(wishes.hear("b", None));
        assert_eq!(wishes.len(), 0);
    }
}
