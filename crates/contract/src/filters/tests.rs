use super::*;
use crate::TopicFilter;
#[cfg(debug_assertions)]
use crate::looks;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn found(tree: &Filters<Vec<u32>>, topic: &str) -> Vec<u32> {
    let mut found = Vec::new();
    tree.each(topic, |kept| found.extend(kept));
    found.sort_unstable();
    found
}

#[test]
fn what_is_not_kept_any_more_leaves_nothing_behind() {
    let mut tree: Filters<Vec<u32>> = Filters::default();
    for filter in ["a/+/#", "a/b", "a/+", "#", "+/b/c"] {
        tree.change(filter, |kept| kept.push(1));
    }
    assert_eq!(found(&tree, "a/b"), [1, 1, 1, 1]);
    for filter in ["a/+/#", "a/b", "a/+", "#", "+/b/c"] {
        assert_eq!(tree.get(filter).map(Vec::len), Some(1));
        tree.change(filter, Vec::clear);
        assert!(tree.get(filter).is_none_or(Vec::is_empty));
    }
    assert_eq!((tree.nodes(), found(&tree, "a/b")), (1, vec![]));
    tree.change("never/was/there", Vec::clear);
    assert_eq!(tree.nodes(), 1);
}

#[test]
fn a_search_ends_when_somebody_has_seen_enough() {
    let mut tree: Filters<Vec<u32>> = Filters::default();
    tree.change("#", |kept| kept.push(1));
    tree.change("a", |kept| kept.push(2));
    let mut seen = 0;
    assert!(tree.find("a", &mut |_, below| {
        seen += 1;
        below
    }));
    assert_eq!(seen, 1);
}

/// Doubling the filters does not make a topic look at more of them.
#[cfg(debug_assertions)]
#[test]
fn a_topic_looks_at_as_few_of_many_filters_as_of_few() {
    let look = |filters: u32| {
        let mut tree: Filters<Vec<u32>> = Filters::default();
        (0..filters)
            .for_each(|number| tree.change(&format!("plant/{number}/speed"), |kept| kept.push(number)));
        let before = looks();
        assert_eq!(found(&tree, "plant/77/speed"), [77]);
        looks() - before
    };
    assert_eq!(look(100), look(10_000));
}

proptest! {
    /// The tree finds what comparing each filter finds, and so does the walk the other way round.
    #[test]
    fn the_tree_and_the_walk_find_what_comparing_finds(
        filters in prop::collection::vec(prop::collection::vec(prop::sample::select(vec!["a", "b", "+", "$s", ""]), 1..4), 0..12),
        tails in prop::collection::vec(any::<bool>(), 12),
        topics in prop::collection::vec(prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "$s", "", "b-"]), 1..5), 0..12),
        looks_max in 1_usize..4,
    ) {
        let mut tree: Filters<Vec<u32>> = Filters::default();
        let mut plain: Vec<TopicFilter> = Vec::new();
        for (levels, tail) in filters.iter().zip(tails) {
            let text = levels.join("/") + if tail { "/#" } else { "" };
            let Ok(filter) = text.parse::<TopicFilter>() else { continue };
            tree.change(filter.as_str(), |kept| kept.push(plain.len() as u32));
            plain.push(filter);
        }
        let names: BTreeMap<Box<str>, ()> =
            topics.iter().map(|levels| levels.join("/")).filter(|name| !name.is_empty()).map(|name| (name.into(), ())).collect();
        for name in names.keys() {
            let compared: Vec<u32> =
                (0..).zip(&plain).filter(|(_, filter)| filter.matches(name)).map(|(number, _)| number).collect();
            prop_assert_eq!(found(&tree, name), compared, "{}", name);
        }
        for filter in &plain {
            let mut walked: Vec<String> = Vec::new();
            let mut place = String::new();
            while crate::names::walk(&names, filter.as_str(), &mut place, looks_max, &mut |name, ()| walked.push(name.to_owned())) {}
            let compared: Vec<&str> = names.keys().map(|name| &**name).filter(|name| filter.matches(name)).collect();
            prop_assert_eq!(walked, compared, "{}", filter);
        }
    }
}
