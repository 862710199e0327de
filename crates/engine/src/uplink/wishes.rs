//! Filters that others want, as a broker tells them.

use contract::{Filters, TopicFilter};
use std::collections::BTreeMap;

/// Filters that may be wanted at one end; what is above is not heard of.
const WISHES_MAX: usize = 65_536;

/// Filters that are wanted. Where a broker is asked anew, those that it does not tell again are forgotten when it has told everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    /// Whether each has been told since it was last asked.
    filters: BTreeMap<Box<str>, bool>,
    /// The same, to find those that mean a topic.
    index: Filters<Vec<()>>,
    /// Whether everything has been told since it was last asked.
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
        self.filters.values_mut().for_each(|told| *told = false);
    }

    /// It has told something: a filter, or by an empty one that this was all. Returns whether anything else is wanted now.
    pub(super) fn hear(&mut self, filter: &str, wanted: bool) -> bool {
        let before = self.filters.len();
        if filter.is_empty() {
            self.complete = true;
            let index = &mut self.index;
            self.filters.retain(|filter, told| {
                if !*told {
                    index.change(filter, Vec::clear);
                }
                *told
            });
        } else if !wanted {
            self.filters.remove(filter);
            self.index.change(filter, Vec::clear);
        } else if filter.parse::<TopicFilter>().is_ok()
            && (before < WISHES_MAX || self.filters.contains_key(filter))
        {
            self.filters.insert(filter.into(), true);
            self.index.change(filter, |known| *known = vec![()]);
        }
        self.filters.len() != before
    }

    /// What is meant by one of them and by one of `allowed` both.
    pub(super) fn within<'a>(&'a self, allowed: &'a [TopicFilter]) -> impl Iterator<Item = TopicFilter> + 'a {
        let parsed = self.filters.keys().filter_map(|filter| filter.parse::<TopicFilter>().ok());
        parsed.flat_map(|filter| allowed.iter().filter_map(move |allowed| filter.common(allowed)))
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
        assert!(wishes.hear("a/#", true));
        assert!(wishes.hear("b", true));
        assert!(!wishes.hear("b", true));
        wishes.ask();
        assert!(!wishes.hear("b", true));
        assert!(wishes.mean("a/1"), "it may still be told");
        assert!(wishes.hear("", true));
        assert!(!wishes.mean("a/1") && wishes.mean("b"));
        assert!(wishes.hear("b", false));
        assert_eq!(wishes.len(), 0);
    }
}
