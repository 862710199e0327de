use super::*;
use contract::TopicFilter;
use proptest::prelude::*;

const NOBODY: Caller<'static> = Caller { user: "u", client: "c" };

/// Every topic of up to four levels over this alphabet. No filter below has more than three, and none names `z`, so that
/// what holds for these topics holds for all: `z` stands for every other level, and the fourth for all deeper ones. The empty text is among them, which no broker takes as a
/// topic: that `/#` means it as the level above makes refusals of odd filters a little wider, never narrower.
fn topics() -> Vec<String> {
    let levels = ["a", "b", "z", "", "$s"];
    let mut all: Vec<String> = levels.iter().map(|level| (*level).to_owned()).collect();
    let mut last = all.clone();
    for _ in 1..4 {
        last = last
            .iter()
            .flat_map(|topic| levels.iter().map(move |level| format!("{topic}/{level}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

fn filter() -> impl Strategy<Value = TopicFilter> {
    let level = prop_oneof![Just("a"), Just("b"), Just(""), Just("$s"), Just("+"), Just("+")];
    (prop::collection::vec(level, 0..=3), any::<bool>()).prop_filter_map("no filter", |(levels, open)| {
        let mut levels = levels;
        if open {
            levels.push("#");
        }
        levels.truncate(3);
        levels.join("/").parse().ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn covering_and_overlapping_agree_with_matching_of_all_topics(pattern in filter(), asked in filter()) {
        let topics = topics();
        let meant: Vec<&String> = topics.iter().filter(|topic| asked.matches(topic)).collect();
        let all = meant.iter().all(|topic| pattern.matches(topic));
        let some = meant.iter().any(|topic| pattern.matches(topic));
        prop_assert!(!meant.is_empty());
        prop_assert_eq!(covers(pattern.as_str(), asked.as_str(), NOBODY), all, "{} covers {}", pattern, asked);
        prop_assert_eq!(overlaps(pattern.as_str(), asked.as_str(), NOBODY), some, "{} overlaps {}", pattern, asked);
        let literal = &pattern.as_str()[..literal_len(pattern.as_str())];
        prop_assert!(!all || asked.as_str().starts_with(literal), "{} covers {}", pattern, asked);
        prop_assert!(topics.iter().all(|topic| !pattern.matches(topic) || topic.starts_with(literal)));
    }

    #[test]
    fn overlapping_is_symmetric_and_covering_is_a_partial_order(a in filter(), b in filter(), c in filter()) {
        let (a, b, c) = (a.as_str(), b.as_str(), c.as_str());
        prop_assert!(covers(a, a, NOBODY));
        prop_assert_eq!(overlaps(a, b, NOBODY), overlaps(b, a, NOBODY));
        if covers(a, b, NOBODY) {
            prop_assert!(overlaps(a, b, NOBODY));
            prop_assert!(!covers(b, c, NOBODY) || covers(a, c, NOBODY));
            prop_assert!(!overlaps(b, c, NOBODY) || overlaps(a, c, NOBODY));
        }
    }

    #[test]
    fn no_client_id_widens_a_rule(client in "[a/+#$z]{0,4}", pattern in filter()) {
        let caller = Caller { user: "u", client: &client };
        let with = pattern.as_str().replace('b', "%c");
        for topic in topics() {
            // Allowed with this id is allowed where any one level may stand in its place.
            let wide: TopicFilter = with.replace("%c", "+").parse().unwrap();
            prop_assert!(!covers(&with, &topic, caller) || wide.matches(&topic));
            // What the text of the rule with the id put in denies, is denied.
            if let Ok(narrow) = with.replace("%c", &client).parse::<TopicFilter>() {
                prop_assert!(!narrow.matches(&topic) || overlaps(&with, &topic, caller));
            }
        }
    }
}

#[test]
fn a_client_id_with_wildcards_matches_no_rule_that_allows_and_all_that_deny() {
    for client in ["#", "+", "a/b", "", "a#"] {
        let caller = Caller { user: "u", client };
        assert!(!covers("plant/%c/#", "plant/a/b", caller), "{client}");
        assert!(!covers("plant/%c", "plant/#", caller), "{client}");
        assert!(overlaps("plant/%c/#", "plant/a/b", caller), "{client}");
        assert!(!overlaps("plant/%c/#", "office/a", caller), "{client}");
    }
    let caller = Caller { user: "u", client: "$SYS" };
    assert!(!covers("%c/#", "$SYS/broker", caller), "the broker's own topics need a rule of their own");
    assert!(overlaps("%c/#", "$SYS/broker", caller));
}

#[test]
fn placeholders_stand_for_user_and_client() {
    let caller = Caller { user: "pump", client: "p1" };
    assert!(covers("plant/%u/%c/#", "plant/pump/p1/speed", caller));
    assert!(covers("plant/%u/%c/#", "plant/pump/p1/#", caller));
    assert!(!covers("plant/%u/%c/#", "plant/pump/p2/speed", caller));
    assert!(!covers("plant/%u/#", "plant/+/speed", caller));
    assert!(!covers("plant/%u", "plant/%u", caller), "what is asked for has no placeholders");
}

#[test]
fn everything_is_not_the_brokers_own() {
    assert!(!covers("#", "$SYS/broker/uptime", NOBODY));
    assert!(covers("$SYS/#", "$SYS/broker/+", NOBODY));
    assert!(!covers("$SYS/#", "#", NOBODY));
    assert!(!overlaps("$SYS/#", "#", NOBODY), "`#` means nothing of $SYS");
    assert!(covers("+/#", "#", NOBODY), "a topic has at least one level");
    assert!(!covers("a/+/#", "a/#", NOBODY), "a/# means a as well");
}

#[test]
fn what_is_asked_for_is_taken_without_its_group() {
    assert_eq!(asked_filter("$share/g/plant/#"), Some("plant/#"));
    assert_eq!(asked_filter("plant/#"), Some("plant/#"));
    for wrong in ["$share", "$share/g", "$share//a", "$share/+/a", "$share/g/", "a/#/b", "a+", "", "a\0"] {
        assert_eq!(asked_filter(wrong), None, "{wrong}");
    }
    assert_eq!(asked_name("a/+"), None);
    assert_eq!(asked_name(""), None);
    assert_eq!(asked_name("a//b"), Some("a//b"));
}

#[test]
fn patterns_begin_with_what_is_no_wildcard() {
    for (pattern, literal) in [
        ("a/b", "a/b"),
        ("a/#", "a"),
        ("#", ""),
        ("/+/a", ""),
        ("/a/%c", "/a"),
        ("%u/a", ""),
        ("a/b/+/c", "a/b"),
    ] {
        assert_eq!(&pattern[..literal_len(pattern)], literal, "{pattern}");
    }
}
