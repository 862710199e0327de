//! Concrete topics for a family that the configuration names by a filter.

use crate::PlanError;
use config::TopicFamily;
use contract::check_name;

/// Numbers that are tried beyond those needed, for names that another family governs.
const SPARE: u64 = 4096;
/// A trailing `#` stands for as many levels at most; more may be needed to keep clear of an earlier filter.
const TAIL_LEVELS_MAX: usize = 4;

/// As many different topics as the family has streams, or the only one there is if its filter has no wildcard.
///
/// The first filter that matches a topic governs it, so a name that an earlier family claims is none of this one's.
pub fn of_family(index: usize, families: &[TopicFamily]) -> Result<Vec<String>, PlanError> {
    let Some(family) = families.get(index) else { return Ok(Vec::new()) };
    let filter = family.rule.filter.as_str();
    let is_own = |name: &String| check_name(name).is_ok() && governing(name, families) == Some(index);
    let wanted = if is_plain(filter) { 1 } else { family.streams as usize };
    let names: Vec<String> = candidates(filter, wanted as u64).filter(is_own).take(wanted).collect();
    if names.len() == wanted {
        return Ok(names);
    }
    let earlier = candidates(filter, 1).find_map(|name| governing(&name, families)).unwrap_or(0);
    let earlier = families.get(earlier).map_or("", |family| family.rule.filter.as_str());
    Err(PlanError(format!(
        "no topic is left for the filter `{filter}`: the first filter that matches governs, and an earlier one \
         (`{earlier}`) matches first; put [[topic]] {filter} before it"
    )))
}

/// Whether a filter means one topic only.
pub fn is_plain(filter: &str) -> bool {
    !filter.split('/').any(|level| matches!(level, "+" | "#"))
}

/// The family whose contract holds for a topic.
pub fn governing(name: &str, families: &[TopicFamily]) -> Option<usize> {
    families.iter().position(|family| family.rule.filter.matches(name))
}

/// Names that a filter matches, the shallow ones first.
fn candidates(filter: &str, wanted: u64) -> impl Iterator<Item = String> {
    let slots = filter.split('/').filter(|level| matches!(*level, "+" | "#")).count() as u32;
    let tails = if filter.ends_with('#') { TAIL_LEVELS_MAX } else { 1 };
    let side = (1..=wanted).find(|side| side.saturating_pow(slots) >= wanted).unwrap_or(1);
    let numbers = if slots == 0 { 1 } else { wanted + SPARE };
    (0..tails).flat_map(move |tail| (0..numbers).map(move |number| fill(filter, number, side, slots, tail)))
}

/// Replaces wildcards by the digits of a number, so that 12 streams of `+/+` are spread over four by four names.
fn fill(filter: &str, number: u64, side: u64, slots: u32, tail: usize) -> String {
    let mut place = slots;
    let level = |level: &str| {
        if !matches!(level, "+" | "#") {
            return level.to_owned();
        }
        place -= 1;
        let digit = number / side.saturating_pow(place);
        // The first one is unlimited, so that every number has its own name.
        let digit = if place + 1 == slots { digit } else { digit % side };
        if level == "#" { format!("{digit}{}", "/0".repeat(tail)) } else { digit.to_string() }
    };
    filter.split('/').map(level).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::TopicRule;
    use contract::{Contract, Span};
    use std::collections::BTreeSet;

    fn families(given: &[(&str, u32)]) -> Vec<TopicFamily> {
        let family = |(filter, streams): &(&str, u32)| TopicFamily {
            subscribers: 1,
            keep: Span::ZERO,
            keep_bytes: None,
            keep_rank: 0,
            paths: 1,
            rule: TopicRule::new(filter.parse().unwrap(), Contract::every(Span::millis(50))),
            streams: *streams,
        };
        given.iter().map(family).collect()
    }

    fn names(given: &[(&str, u32)], index: usize) -> Vec<String> {
        of_family(index, &families(given)).unwrap()
    }

    #[test]
    fn wildcards_become_numbers() {
        assert_eq!(
            names(&[("turbine/+/speed", 3)], 0),
            ["turbine/0/speed", "turbine/1/speed", "turbine/2/speed"]
        );
        assert_eq!(names(&[("plant/#", 2)], 0), ["plant/0", "plant/1"]);
        assert_eq!(names(&[("+/+", 4)], 0), ["0/0", "0/1", "1/0", "1/1"]);
        assert_eq!(names(&[("#", 1)], 0), ["0"]);
    }

    #[test]
    fn a_filter_without_wildcard_is_its_only_topic() {
        assert_eq!(names(&[("plant/state", 5)], 0), ["plant/state"]);
    }

    #[test]
    fn every_name_is_different_and_matches() {
        for filter in ["+", "a/+/b", "+/+/+", "a/+/#", "#"] {
            let names = names(&[(filter, 100)], 0);
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 100, "{filter}");
            assert!(names.iter().all(|name| filter.parse::<contract::TopicFilter>().unwrap().matches(name)));
        }
    }

    #[test]
    fn a_name_that_an_earlier_filter_governs_is_left_to_it() {
        assert_eq!(names(&[("a/0", 1), ("a/+", 2)], 1), ["a/1", "a/2"]);
        assert_eq!(names(&[("a/+", 2), ("a/#", 2)], 1), ["a/0/0", "a/1/0"]);
    }

    #[test]
    fn a_filter_that_never_governs_is_named_with_the_remedy() {
        let trouble = of_family(1, &families(&[("a/#", 1), ("a/b", 1)])).unwrap_err().to_string();
        assert!(
            trouble.contains("`a/b`") && trouble.contains("`a/#`") && trouble.contains("before it"),
            "{trouble}"
        );
    }
}
