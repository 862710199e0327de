//! Accounts by class of contract. A class is a rule of the configuration, so that there are few, whatever topics there are.

use crate::settings::TopicRule;
use contract::{Span, invariant};
use wire::{LATENCY_COUNTS, Received, bucket_of};

/// The class of topics that no rule governs, or a rule that has no class of its own.
pub const OTHER_CLASS: &str = "other";

/// What happened to the messages of a class since the process started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Messages by the time from creation to dispatch, see [`LATENCY_BUCKETS`](crate::LATENCY_BUCKETS). Not cumulative.
    pub latency: [u64; LATENCY_COUNTS],
    /// The sum of those times.
    pub latency_nanos: u64,
    /// Messages dispatched after their deadline.
    pub missed: u64,
    /// Messages that were missing when a later one came, or were overwritten.
    pub lost: u64,
    /// The longest run of those.
    pub longest_run: u32,
    /// Messages by the time from creation to arrival, as subscribers say, once for each of them.
    pub arrivals: [u64; LATENCY_COUNTS],
    /// The sum of those times.
    pub arrivals_nanos: u64,
    /// What subscribers say that came after its deadline.
    pub subscribers_late: u64,
    /// What subscribers say that they missed.
    pub subscribers_lost: u64,
}

impl ClassCounts {
    /// So many messages took about so long, and all together exactly so long.
    pub(crate) fn record(&mut self, latency: Span, messages: u32, nanos: u64) {
        match self.latency.get_mut(bucket_of(latency)) {
            Some(count) => *count += u64::from(messages),
            None => invariant!("there is a bucket for each latency"),
        }
        self.latency_nanos = self.latency_nanos.saturating_add(nanos);
    }

    /// A subscriber says that this has come.
    pub(crate) fn hear(&mut self, received: &Received) {
        let pairs = self.arrivals.iter_mut().zip(received.latency);
        pairs.for_each(|(count, more)| *count = count.saturating_add(more.into()));
        self.arrivals_nanos = self.arrivals_nanos.saturating_add(received.latency_nanos);
    }

    pub(crate) fn lose(&mut self, run: u64) {
        self.lost = self.lost.saturating_add(run);
        self.longest_run = self.longest_run.max(u32::try_from(run).unwrap_or(u32::MAX));
    }
}

/// More have no number.
const CLASSES_MAX: usize = u16::MAX as usize;

/// All classes of a broker.
#[derive(Clone)]
pub(crate) struct Classes {
    names: Vec<String>,
    counts: Vec<ClassCounts>,
    /// The class of each rule.
    of_rules: Vec<u16>,
    /// Where [`OTHER_CLASS`] is.
    other: u16,
    /// How many there may be besides that one.
    limit: usize,
}

impl Classes {
    /// A class for each of the rules, up to so many.
    pub(crate) fn new(rules: &[TopicRule], limit: usize) -> Classes {
        let (names, counts, of_rules) = (Vec::new(), Vec::new(), Vec::new());
        let mut classes = Classes { names, counts, of_rules, other: 0, limit: limit.min(CLASSES_MAX) };
        // The first rules have the first numbers.
        classes.name(rules);
        classes.other = classes.add(OTHER_CLASS.to_owned());
        classes.assign(rules);
        classes
    }

    /// Other rules govern. Classes that there were keep their numbers and what was counted, and those of new rules come behind them.
    pub(crate) fn change(&mut self, rules: &[TopicRule]) {
        self.name(rules);
        self.assign(rules);
    }

    /// Makes a class for each rule that has none, as far as there may be more.
    fn name(&mut self, rules: &[TopicRule]) {
        for name in rules.iter().map(|rule| rule.filter.to_string()) {
            let others = self.names.iter().filter(|known| *known != OTHER_CLASS).count();
            if others < self.limit && name != OTHER_CLASS && !self.names.contains(&name) {
                self.add(name);
            }
        }
    }

    fn add(&mut self, name: String) -> u16 {
        self.names.push(name);
        self.counts.push(ClassCounts::default());
        (self.names.len() - 1) as u16
    }

    /// The class of each rule is that of its name.
    fn assign(&mut self, rules: &[TopicRule]) {
        let class = |rule: &TopicRule| {
            let place = self.names.iter().position(|known| *known == rule.filter.as_str());
            place.map_or(self.other, |place| place as u16)
        };
        self.of_rules = rules.iter().map(class).collect();
    }

    /// The class of a topic that this rule governs.
    pub(crate) fn class_of(&self, rule: Option<usize>) -> u16 {
        rule.and_then(|rule| self.of_rules.get(rule)).copied().unwrap_or(self.other)
    }

    pub(crate) fn count(&mut self, class: u16, act: impl FnOnce(&mut ClassCounts)) {
        // Subscribers name classes too, and may name any.
        if let Some(counts) = self.counts.get_mut(class as usize) {
            act(counts);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ClassCounts)> {
        self.names.iter().map(String::as_str).zip(&self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Contract;

    fn rules(filters: &[&str]) -> Vec<TopicRule> {
        let rule = |filter: &&str| TopicRule::new(filter.parse().unwrap(), Contract::every(Span::millis(10)));
        filters.iter().map(rule).collect()
    }

    #[test]
    fn rules_above_the_limit_share_the_last_class_and_equal_filters_one() {
        let classes = Classes::new(&rules(&["a/#", "b", "a/#", "c"]), 2);
        let names: Vec<&str> = classes.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a/#", "b", "other"]);
        assert_eq!([0, 1, 2, 3].map(|rule| classes.class_of(Some(rule))), [0, 1, 0, 2]);
        assert_eq!(classes.class_of(None), 2);
    }

    #[test]
    fn classes_of_other_rules_come_behind_those_that_there_were() {
        let mut classes = Classes::new(&rules(&["a", "b"]), 3);
        classes.count(1, |class| class.lose(5));
        classes.change(&rules(&["c", "b", "d"]));
        let names: Vec<&str> = classes.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "other", "c"]);
        assert_eq!([0, 1, 2].map(|rule| classes.class_of(Some(rule))), [3, 1, 2], "there may be three");
        assert_eq!(classes.iter().map(|(_, counts)| counts.lost).collect::<Vec<_>>(), [0, 5, 0, 0]);
    }

    #[test]
    fn a_filter_called_other_is_no_second_class_of_that_name() {
        let classes = Classes::new(&rules(&["other", "b"]), 8);
        assert_eq!(classes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "other"]);
        assert_eq!(classes.class_of(Some(0)), 1);
    }

    #[test]
    fn a_latency_is_counted_in_the_first_bucket_that_does_not_end_before_it() {
        let mut counts = ClassCounts::default();
        let at = |span: Span| {
            let mut counts = ClassCounts::default();
            counts.record(span, 1, 0);
            counts.latency.iter().position(|count| *count == 1).unwrap()
        };
        assert_eq!([at(Span::ZERO), at(Span::micros(50)), at(Span(50_001))], [0, 0, 1]);
        assert_eq!([at(Span::secs(1)), at(Span(1_000_000_001)), at(Span::secs(90))], [13, 14, 14]);
        counts.record(Span::millis(3), 2, 5_999_999);
        counts.record(Span::millis(4), 1, 4_000_000);
        assert_eq!((counts.latency[6], counts.latency_nanos), (3, 9_999_999));
    }
}
