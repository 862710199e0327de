use contract::{TOPIC_BYTES_MAX, TopicError, TopicFilter};
use proptest::prelude::*;

use super::*;
use crate::packet::Qos;

fn tree() -> Subscriptions {
    Subscriptions::new(1_000_000)
}

fn entry(qos: Qos, subscription: Option<u32>) -> Entry {
    Entry { options: Options { qos, ..Options::default() }, subscription }
}

fn plain() -> Entry {
    Entry::default()
}

/// The sessions that want a topic, by filter `1`, `2`, ...: subscription number `n` of `filters` is session `n`.
fn sessions(filters: &[&str], topic: &str) -> Vec<u32> {
    let mut tree = tree();
    for (session, filter) in (1..).map(SessionId).zip(filters) {
        assert_eq!(tree.insert(filter, session, plain()), Ok(false));
    }
    let mut found = Matches::default();
    tree.matches(topic, &mut found);
    found.rows().iter().map(|row| row.session.0).collect()
}

fn found(tree: &Subscriptions, topic: &str) -> Matches {
    let mut found = Matches::default();
    tree.matches(topic, &mut found);
    found
}

#[test]
fn one_level_and_many_levels_are_matched() {
    let filters = ["hall/oven/heat", "hall/+/heat", "hall/#", "hall/+", "+/+/+", "#", "hall/oven", "other/#"];
    assert_eq!(sessions(&filters, "hall/oven/heat"), [1, 2, 3, 5, 6]);
    assert_eq!(sessions(&filters, "hall/oven"), [3, 4, 6, 7]);
    assert_eq!(sessions(&filters, "hall/oven/heat/now"), [3, 6]);
}

#[test]
fn a_hash_means_the_level_above_it_too_and_a_plus_does_not() {
    assert_eq!(sessions(&["hall/#", "hall/+", "hall"], "hall"), [1, 3]);
    assert_eq!(sessions(&["hall/+/#"], "hall/oven"), [1]);
    assert_eq!(sessions(&["hall/+/#"], "hall"), [0_u32; 0]);
}

#[test]
fn empty_levels_count() {
    assert_eq!(sessions(&["+/+", "/+", "+", "/", "#"], "/hall"), [1, 2, 5]);
    assert_eq!(sessions(&["+/+", "/+", "+", "/", "#"], "/"), [1, 2, 4, 5]);
    assert_eq!(sessions(&["hall//heat", "hall/+/heat", "hall/heat"], "hall//heat"), [1, 2]);
    assert_eq!(sessions(&["hall", "hall/", "hall/+"], "hall/"), [2, 3]);
}

#[test]
fn letters_and_spaces_are_as_they_are() {
    assert_eq!(sessions(&["Hall", "hall", "hall "], "hall"), [2]);
    assert_eq!(sessions(&["höhe/ö", "hohe/o"], "höhe/ö"), [1]);
}

#[test]
fn topics_of_the_broker_are_not_meant_by_a_wildcard_at_the_beginning() {
    let filters = ["#", "+/load", "$SYS/#", "$SYS/+", "$SYS/load", "+/#"];
    assert_eq!(sessions(&filters, "$SYS/load"), [3, 4, 5]);
    assert_eq!(sessions(&filters, "SYS/load"), [1, 2, 6]);
    assert_eq!(sessions(&["hall/+", "hall/#"], "hall/$SYS"), [1, 2], "only at the beginning");
    let mut tree = tree();
    tree.insert("$share/g/#", SessionId(1), plain()).unwrap();
    assert!(found(&tree, "$SYS/load").is_empty(), "nor when shared");
}

#[test]
fn topics_deeper_than_filters_can_be_are_matched_by_a_hash() {
    let deep = vec!["a"; TOPIC_LEVELS_MAX + 9].join("/");
    let deepest = vec!["a"; TOPIC_LEVELS_MAX].join("/");
    let above = format!("{}/#", vec!["+"; TOPIC_LEVELS_MAX - 1].join("/"));
    assert_eq!(sessions(&["a/#", &deepest, &above], &deep), [1, 3]);
    assert_eq!(sessions(&["a/#", &deepest, &above], &deepest), [1, 2, 3]);
}

#[test]
fn overlapping_subscriptions_are_one_row_with_the_highest_qos_and_all_numbers() {
    let mut tree = tree();
    tree.insert("hall/#", SessionId(7), entry(Qos::ExactlyOnce, Some(30))).unwrap();
    tree.insert("hall/+", SessionId(7), entry(Qos::AtMostOnce, Some(10))).unwrap();
    tree.insert("hall/oven", SessionId(7), entry(Qos::AtLeastOnce, None)).unwrap();
    tree.insert("hall/oven", SessionId(3), entry(Qos::AtLeastOnce, Some(10))).unwrap();
    let found = found(&tree, "hall/oven");
    let rows = found.rows();
    assert_eq!(
        rows.iter().map(|row| (row.session.0, row.others.qos)).collect::<Vec<_>>(),
        [(3, Qos::AtLeastOnce), (7, Qos::ExactlyOnce)]
    );
    assert_eq!(found.subscriptions(&rows[0].others), [10]);
    assert_eq!(found.subscriptions(&rows[1].others), [10, 30]);
    assert_eq!(rows[1].own, Some(rows[1].others));
}

#[test]
fn two_subscriptions_with_one_number_make_it_come_twice() {
    let mut tree = tree();
    tree.insert("hall/#", SessionId(1), entry(Qos::AtMostOnce, Some(5))).unwrap();
    tree.insert("hall/+", SessionId(1), entry(Qos::AtMostOnce, Some(5))).unwrap();
    let found = found(&tree, "hall/oven");
    assert_eq!(found.subscriptions(&found.rows()[0].others), [5, 5]);
}

#[test]
fn own_messages_come_by_the_subscriptions_that_want_them() {
    let no_local = |qos, number| {
        let options = Options { qos, no_local: true, ..Options::default() };
        Entry { options, subscription: Some(number) }
    };
    let mut tree = tree();
    tree.insert("hall/+", SessionId(1), no_local(Qos::ExactlyOnce, 1)).unwrap();
    assert_eq!(found(&tree, "hall/oven").rows()[0].own, None);
    tree.insert("hall/#", SessionId(1), entry(Qos::AtLeastOnce, Some(9))).unwrap();
    let found = found(&tree, "hall/oven");
    let row = found.rows()[0];
    let own = row.own.unwrap();
    assert_eq!((row.others.qos, own.qos), (Qos::ExactlyOnce, Qos::AtLeastOnce));
    assert_eq!(found.subscriptions(&own), [9]);
    assert_eq!(found.subscriptions(&row.others), [9, 1]);
}

#[test]
fn the_retain_flag_stays_if_one_subscription_asks_for_it() {
    let mut tree = tree();
    let keeps = Options { retain_as_published: true, ..Options::default() };
    tree.insert("hall/+", SessionId(1), plain()).unwrap();
    assert!(!found(&tree, "hall/oven").rows()[0].others.retain_as_published);
    tree.insert("hall/#", SessionId(1), Entry { options: keeps, subscription: None }).unwrap();
    assert!(found(&tree, "hall/oven").rows()[0].others.retain_as_published);
}

#[test]
fn the_same_filter_again_replaces_the_subscription() {
    let mut tree = tree();
    assert_eq!(tree.insert("hall/#", SessionId(1), plain()), Ok(false));
    assert_eq!(tree.insert("hall/#", SessionId(1), entry(Qos::AtLeastOnce, Some(4))), Ok(true));
    assert_eq!((tree.len(), tree.get("hall/#", SessionId(1))), (1, Some(entry(Qos::AtLeastOnce, Some(4)))));
    assert_eq!(tree.get("hall/#", SessionId(2)), None);
    assert_eq!(tree.get("hall/+", SessionId(1)), None);
}

#[test]
fn the_generation_grows_with_changes_and_only_with_them() {
    let mut tree = tree();
    let mut last = tree.generation();
    let mut grew = |tree: &Subscriptions| std::mem::replace(&mut last, tree.generation()) < tree.generation();
    tree.insert("$share/g/+", SessionId(1), plain()).unwrap();
    assert!(grew(&tree));
    tree.insert("$share/g/+", SessionId(1), plain()).unwrap();
    assert!(!grew(&tree), "nothing is different");
    tree.insert("$share/g/+", SessionId(1), entry(Qos::AtLeastOnce, None)).unwrap();
    assert!(grew(&tree));
    tree.next_member(GroupId(0), |_| true);
    assert!(tree.insert("a/#/b", SessionId(1), plain()).is_err() && !tree.remove("a", SessionId(1)));
    assert!(!grew(&tree));
    assert!(tree.remove("$share/g/+", SessionId(1)) && grew(&tree));
}

/// A thousand filters of one topic each do not make a message look for its subscribers again a thousand times.
#[test]
fn a_filter_that_means_one_topic_changes_what_is_found_for_that_one_only() {
    let mut tree = tree();
    let before = tree.generation();
    tree.insert("a/b", SessionId(1), plain()).unwrap();
    tree.insert("$share/g/a/c", SessionId(1), plain()).unwrap();
    assert!(tree.remove("a/b", SessionId(1)));
    let changed: Vec<Box<str>> = std::iter::from_fn(|| tree.take_changed()).collect();
    assert_eq!((tree.generation(), changed), (before, vec!["a/b".into(), "a/c".into(), "a/b".into()]));
    for number in 0..=CHANGED_MAX {
        tree.insert(&format!("a/{number}"), SessionId(1), plain()).unwrap();
    }
    assert!(tree.generation() > before, "nobody has asked for so many");
    assert!(tree.take_changed().is_none());
}

#[test]
fn members_of_a_group_take_turns_and_the_dead_are_left_out() {
    let mut tree = tree();
    for session in [5, 1, 9] {
        tree.insert("$share/line/hall/+", SessionId(session), entry(Qos::AtLeastOnce, Some(session)))
            .unwrap();
    }
    let groups = found(&tree, "hall/oven").groups().to_vec();
    assert_eq!(groups.len(), 1);
    let turns = |tree: &mut Subscriptions, dead: u32| -> Vec<u32> {
        (0..4).map(|_| tree.next_member(groups[0], |session| session.0 != dead).unwrap().0.0).collect()
    };
    assert_eq!(turns(&mut tree, 0), [1, 5, 9, 1]);
    assert_eq!(turns(&mut tree, 5), [9, 1, 9, 1]);
    tree.insert("$share/line/hall/+", SessionId(3), plain()).unwrap();
    assert_eq!(turns(&mut tree, 0), [3, 5, 9, 1], "a newcomer costs nobody a turn");
    assert!(tree.remove("$share/line/hall/+", SessionId(1)));
    assert_eq!(turns(&mut tree, 0), [3, 5, 9, 3], "nor does who leaves");
    assert_eq!(tree.next_member(groups[0], |_| false), None);
    assert_eq!(tree.next_member(GroupId(77), |_| true), None);
}

#[test]
fn groups_are_apart_by_name_and_by_filter_and_from_plain_subscriptions() {
    let mut tree = tree();
    for (session, filter) in
        (1..).map(SessionId).zip(["$share/a/hall", "$share/b/hall", "$share/a/hall/#", "$share/a/+", "hall"])
    {
        tree.insert(filter, session, plain()).unwrap();
    }
    tree.insert("$share/a/hall", SessionId(5), plain()).unwrap();
    let found = found(&tree, "hall");
    let mut members: Vec<Vec<u32>> = found
        .groups()
        .iter()
        .map(|group| tree.members(*group).iter().map(|member| member.session.0).collect())
        .collect();
    members.sort();
    assert_eq!(members, [vec![1, 5], vec![2], vec![3], vec![4]]);
    assert_eq!(found.rows().len(), 1, "a session in a group may have a subscription of its own");
    assert_eq!(found.rows()[0].session, SessionId(5));
}

#[test]
fn a_session_goes_with_all_that_is_its_own() {
    let mut tree = tree();
    for filter in ["hall/#", "$share/g/hall/#", "hall/+/heat", "x"] {
        tree.insert(filter, SessionId(1), plain()).unwrap();
        tree.insert(filter, SessionId(2), plain()).unwrap();
    }
    let texts: Vec<&str> = tree.of_session(SessionId(1)).map(|(text, _)| text).collect();
    assert_eq!(texts, ["$share/g/hall/#", "hall/#", "hall/+/heat", "x"]);
    tree.remove_session(SessionId(1));
    assert_eq!(
        (tree.of_session(SessionId(1)).count(), tree.of_session(SessionId(2)).count(), tree.len()),
        (0, 4, 4)
    );
    tree.remove_session(SessionId(2));
    assert_eq!((tree.len(), tree.nodes(), tree.groups.len()), (0, 1, 0));
}

#[test]
fn nodes_are_used_again() {
    let mut tree = tree();
    for round in 0..100 {
        let filter = format!("a/{round}/b/+/c");
        tree.insert(&filter, SessionId(1), plain()).unwrap();
        assert!(tree.remove(&filter, SessionId(1)));
    }
    assert_eq!(tree.nodes(), 1);
    tree.insert("a/b/c", SessionId(1), plain()).unwrap();
    assert_eq!(tree.nodes(), 4);
}

#[test]
fn there_is_a_limit_and_replacing_is_not_stopped_by_it() {
    let mut tree = Subscriptions::new(2);
    tree.insert("a", SessionId(1), plain()).unwrap();
    tree.insert("b", SessionId(1), plain()).unwrap();
    assert_eq!(tree.insert("c", SessionId(1), plain()), Err(FilterError::Full(2)));
    assert_eq!(tree.insert("b", SessionId(1), entry(Qos::AtLeastOnce, None)), Ok(true));
    assert_eq!((tree.len(), tree.nodes()), (2, 3), "what was refused has left nothing behind");
}

#[test]
fn shared_subscriptions_are_taken_apart() {
    assert_eq!(parse_filter("$share/g/a/+/#"), Ok(Filter { group: Some("g"), filter: "a/+/#" }));
    assert_eq!(parse_filter("$share/g//"), Ok(Filter { group: Some("g"), filter: "/" }));
    assert_eq!(parse_filter("$share/g/$share/h/a"), Ok(Filter { group: Some("g"), filter: "$share/h/a" }));
    assert_eq!(parse_filter("$shared/g/a"), Ok(Filter { group: None, filter: "$shared/g/a" }));
    assert_eq!(parse_filter("a/+"), Ok(Filter { group: None, filter: "a/+" }));
}

#[test]
fn malformed_filters_are_refused_with_the_reason() {
    use FilterError as E;
    assert!(matches!(parse_filter("$share//a"), Err(E::GroupEmpty(_))));
    assert!(matches!(parse_filter("$share/"), Err(E::GroupEmpty(_))));
    assert!(matches!(parse_filter("$share/g"), Err(E::FilterMissing(_))));
    assert!(matches!(parse_filter("$share/g/"), Err(E::FilterMissing(_))));
    assert!(matches!(parse_filter("$share/g+/a"), Err(E::GroupCharacter(_))));
    assert!(matches!(parse_filter("$share/#/a"), Err(E::GroupCharacter(_))));
    assert!(matches!(parse_filter("$share/\u{7}/a"), Err(E::GroupCharacter(_))));
    let long = "x".repeat(TOPIC_BYTES_MAX + 1);
    assert_eq!(parse_filter(&format!("$share/{long}/a")), Err(E::GroupTooLong(TOPIC_BYTES_MAX + 1)));
    assert_eq!(
        parse_filter(&format!("$share/g/{long}")),
        Err(E::Topic(TopicError::TooLong(TOPIC_BYTES_MAX + 1)))
    );
    assert_eq!(parse_filter(""), Err(E::Topic(TopicError::Empty)));
    assert!(matches!(parse_filter("$share/g/a/#/b"), Err(E::Topic(TopicError::HashNotLast(_)))));
    assert!(matches!(parse_filter("a+"), Err(E::Topic(TopicError::WildcardInLevel(_)))));
    assert!(matches!(parse_filter("a\0"), Err(E::Topic(TopicError::ControlCharacter(_)))));
    let options = Options { no_local: true, ..Options::default() };
    assert_eq!(
        tree().insert("$share/g/a", SessionId(1), Entry { options, subscription: None }),
        Err(E::SharedNoLocal)
    );
    assert!(!E::SharedNoLocal.is_of_text() && E::Topic(TopicError::Empty).is_of_text());
}

mod model;
