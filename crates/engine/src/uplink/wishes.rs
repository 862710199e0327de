//! Filters that others want, as a broker tells them.

use contract::{Filters, Span, TopicFilter};
use std::collections::BTreeSet;

/// Filters that may be wanted at one end; what is above is not heard of.
const WISHES_MAX: usize = 65_536;

/// Filters that are wanted. Where a broker is asked anew, those that it does not tell again are forgotten when it has told everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    filters: BTreeSet<Box<str>>,
    /// How long the way to the last who wants each takes: the longest that was told.
    ways: Filters<Vec<Span>>,
    /// Those that have been told since it was last asked.
    told: Filters<Vec<()>>,
    /// Those of which somebody who wants it is not there at the moment.
    absent: Filters<Vec<()>>,
    /// Whether everything has been told since then.
    complete: bool,
}

impl Wishes {
    pub(super) fn len(&self) -> usize {
        self.filters.len()
    }

    /// Whether all has been told that is wanted.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// A broker is asked anew.
    pub(crate) fn ask(&mut self) {
        self.complete = false;
        self.told = Filters::default();
    }

    fn is_absent_filter(&self, filter: &str) -> bool {
        self.absent.get(filter).is_some_and(|absent| !absent.is_empty())
    }

    /// Whether somebody who wants a topic is not there at the moment.
    pub(super) fn is_absent(&self, topic: &str) -> bool {
        self.absent.find(topic, &mut |_, _| true)
    }

    fn is_told(&self, filter: &str) -> bool {
        self.told.get(filter).is_some_and(|told| !told.is_empty())
    }

    /// Forgets what has not been told since it was last asked. Returns whether that is anything.
    pub(super) fn forget_untold(&mut self) -> bool {
        let untold: Vec<Box<str>> =
            self.filters.iter().filter(|filter| !self.is_told(filter)).cloned().collect();
        untold.iter().for_each(|filter| self.forget(filter));
        !untold.is_empty()
    }

    fn forget(&mut self, filter: &str) {
        self.filters.remove(filter);
        self.ways.change(filter, Vec::clear);
        self.told.change(filter, Vec::clear);
        self.absent.change(filter, Vec::clear);
    }

    /// Whether one that has been told since it was last asked means a topic.
    pub(super) fn mean_surely(&self, topic: &str) -> bool {
        self.told.find(topic, &mut |_, _| true)
    }

    /// It has told something: a filter and the way to whoever wants it, or by an empty one that this was all. What has not been told again by then is
    /// forgotten, unless it `lingers`: whoever wants it may be on the way back. Returns whether anything else is wanted now, or by somebody
    /// further away.
    pub(crate) fn hear(&mut self, filter: &str, way: Option<Span>, lingers: bool) -> bool {
        if filter.is_empty() {
            self.complete = true;
            return !lingers && self.forget_untold();
        }
        let known = self.ways.get(filter).and_then(|ways| ways.first().copied());
        let Some(way) = way else {
            self.forget(filter);
            return known.is_some();
        };
        let is_full = self.filters.len() >= WISHES_MAX && known.is_none();
        if filter.parse::<TopicFilter>().is_err() || is_full {
            return false;
        }
        let was_absent = self.is_absent_filter(filter);
        let is_absent = way.is_forever();
        if is_absent != was_absent {
            self.absent.change(filter, |absent| *absent = vec![(); usize::from(is_absent)]);
        }
        // How long the way is, is not said of who is not there.
        let way = if is_absent { known.unwrap_or(Span::ZERO) } else { way };
        // What was told before it was asked again does not count.
        let longest = known.filter(|_| self.is_told(filter)).map_or(way, |before| way.max(before));
        self.filters.insert(filter.into());
        self.ways.change(filter, |ways| *ways = vec![longest]);
        self.told.change(filter, |told| *told = vec![()]);
        known != Some(longest) || is_absent != was_absent
    }

    /// All of them, and the way to the last who wants each.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TopicFilter, Span)> + '_ {
        let way = |filter: &str| self.ways.get(filter).and_then(|ways| ways.first().copied());
        self.filters.iter().filter_map(move |filter| Some((filter.parse().ok()?, way(filter)?)))
    }

    /// What is meant by one of them and by one of `allowed` both.
    pub(crate) fn within<'a>(
        &'a self,
        allowed: &'a [TopicFilter],
    ) -> impl Iterator<Item = (TopicFilter, Span)> + 'a {
        self.all().flat_map(|(filter, way): (TopicFilter, Span)| {
            allowed.iter().filter_map(move |allowed| Some((filter.common(allowed)?, way)))
        })
    }

    /// The way to the last who wants a topic: from when a message is at the broker until it is there.
    pub(super) fn way_of(&self, topic: &str) -> Span {
        let mut longest = Span::ZERO;
        self.ways.each(topic, |ways| longest = ways.iter().copied().fold(longest, Span::max));
        longest
    }

    /// Whether one of them means a topic.
    pub(super) fn mean(&self, topic: &str) -> bool {
        self.ways.find(topic, &mut |_, _| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_again_is_forgotten_when_all_has_been_told() {
        let mut wishes = Wishes::default();
        assert!(wishes.hear("a/#", Some(Span(1)), false));
        assert!(wishes.hear("b", Some(Span(1)), false));
        assert!(!wishes.hear("b", Some(Span(1)), false));
        wishes.ask();
        assert!(!wishes.hear("b", Some(Span(1)), false));
        assert!(wishes.mean("a/1"), "it may still be told");
        assert!(wishes.hear("", Some(Span(1)), false));
        assert!(!wishes.mean("a/1") && wishes.mean("b"));
        assert!(wishes.hear("b", None, false));
        assert_eq!(wishes.len(), 0);
    }

    #[test]
    fn what_lingers_is_wanted_and_not_surely_until_it_is_told_again_or_given_up() {
        let mut wishes = Wishes::default();
        wishes.hear("a/#", Some(Span(7)), false);
        wishes.hear("b", Some(Span(1)), false);
        wishes.ask();
        assert!(!wishes.hear("", None, true));
        assert!(wishes.mean("a/1") && !wishes.mean_surely("a/1"));
        assert!(!wishes.hear("a/#", Some(Span(7)), true), "it is no other thing than before");
        assert!(wishes.mean_surely("a/1") && !wishes.mean_surely("b"));
        assert!(wishes.forget_untold() && !wishes.mean("b"));
        // The longest way that has been told since it was asked.
        assert!(!wishes.hear("a/#", Some(Span(3)), true));
        assert_eq!(wishes.way_of("a/1"), Span(7));
        wishes.ask();
        assert!(wishes.hear("a/#", Some(Span(3)), true));
        assert_eq!(wishes.way_of("a/1"), Span(3));
    }

    #[test]
    fn who_is_not_there_is_told_by_a_way_without_end() {
        let mut wishes = Wishes::default();
        wishes.hear("a/#", Some(Span(7)), false);
        assert!(wishes.hear("a/#", Some(Span::FOREVER), false));
        assert!(wishes.mean("a/1") && wishes.is_absent("a/1") && wishes.way_of("a/1") == Span(7));
        assert!(!wishes.hear("a/#", Some(Span::FOREVER), false));
        assert!(wishes.hear("a/#", Some(Span(7)), false) && !wishes.is_absent("a/1"));
        wishes.hear("b", Some(Span::FOREVER), false);
        assert!(wishes.mean("b") && wishes.is_absent("b") && wishes.way_of("b") == Span::ZERO);
        assert!(wishes.hear("b", None, false) && !wishes.is_absent("b"));
    }
}
