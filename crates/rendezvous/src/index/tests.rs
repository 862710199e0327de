use super::*;
use crate::space::Kind;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn space() -> Space {
    let battery = Kind::Numbers { least: 0.0, most: 100.0 };
    Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words), ("battery", battery)], false).unwrap()
}

/// Interests and profiles of few words, so that they meet.
fn interest() -> impl Strategy<Value = String> {
    let word = "(a|ab|abc|abd|b|lidar|é|ée|[a-c]{1,3})";
    let ask = format!("({word}|{word}\\*|\\*|{word}\\.\\.|\\.\\.{word})");
    let number = "(-5|0|-0|[0-9]{1,2}|[0-9]\\*|[0-4]\\.\\.[5-9]|[0-9]{1,2}\\.\\.|150\\.\\.|\\.\\.[0-9]{1,2})";
    let degrees = "([0-4]\\*|-[0-4]\\*|-9\\.\\.9|[0-4]|-3\\.\\.)";
    let part = |name: &str, ask: &str| {
        proptest::option::of(proptest::string::string_regex(&format!("{name}={ask}")).unwrap())
    };
    let parts = (
        part("kind", &ask),
        part("sensor", &ask),
        part("battery", number),
        part("lat", degrees),
        part("long", degrees),
        part("colour", &ask),
    );
    parts.prop_map(|(a, b, c, d, e, f)| {
        let parts: Vec<String> = [a, b, c, d, e, f].into_iter().flatten().collect();
        if parts.is_empty() { "kind=*".to_owned() } else { parts.join(", ") }
    })
}

fn profile() -> impl Strategy<Value = String> {
    let word = "(a|ab|abc|abd|b|lidar|é|ée|[a-c]{1,4})";
    let part = |name: &str, value: &str| {
        proptest::option::of(proptest::string::string_regex(&format!("{name}={value}")).unwrap())
    };
    let degrees = proptest::string::string_regex("lat=-?[0-4](\\.[05])?, long=-?[0-4](\\.[05])?").unwrap();
    let parts = (
        part("kind", word),
        part("sensor", word),
        part("battery", "(-9|-0|0|0\\.0|[0-9]{1,2}|[0-9]\\.5|170)"),
        proptest::option::of(degrees),
        part("colour", word),
    );
    parts.prop_map(|(a, b, c, d, e)| {
        let parts: Vec<String> = [a, b, c, d, e].into_iter().flatten().collect();
        if parts.is_empty() { "kind=a".to_owned() } else { parts.join(", ") }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// As if each interest were looked at: after any insertions and removals, also where there are more forms than are kept apart.
    #[test]
    fn what_is_found_is_what_matches(
        wanted in proptest::collection::vec((interest(), any::<bool>()), 1..60),
        profiles in proptest::collection::vec(profile(), 1..20),
    ) {
        let space = space();
        let mut known = Interests::new(&space);
        let mut all = Vec::new();
        for (text, goes) in &wanted {
            // A range may end before it begins.
            let Ok(interest) = Interest::read(&space, text) else { continue };
            let key = known.insert(interest.clone(), text.clone());
            if *goes {
                prop_assert_eq!(known.remove(key).map(|(_, with)| with), Some(text.clone()));
                prop_assert!(known.remove(key).is_none());
            } else {
                all.push((key, interest));
            }
        }
        prop_assert_eq!(known.len(), all.len());
        for text in &profiles {
            let profile = Profile::read(&space, text).unwrap();
            let found: Vec<Key> = known.matching(&profile).map(|(key, ..)| key).collect();
            let once: BTreeSet<Key> = found.iter().copied().collect();
            prop_assert_eq!(found.len(), once.len(), "each once");
            let expected: BTreeSet<Key> =
                all.iter().filter(|(_, interest)| interest.matches(&profile)).map(|(key, _)| *key).collect();
            prop_assert_eq!(once, expected, "{}", text);
        }
        for (key, _) in all {
            prop_assert!(known.remove(key).is_some());
        }
        prop_assert!(known.is_empty() && known.forms.is_empty() && known.stand.is_empty());
    }
}

#[test]
fn there_are_no_more_forms_than_may_be() {
    let space = Space::new(&["a", "b", "c", "d", "e", "f"].map(|name| (name, Kind::Words)), true).unwrap();
    let mut known = Interests::new(&space);
    for number in 0..20_000_usize {
        let lengths = [number % 12, number / 12 % 12, number / 144 % 12, number / 1_728 % 12];
        let word = |place: usize| format!("{}*", "x".repeat(LETTERS[lengths[place]]));
        let text = format!("a={}, b={}, c={}, d={}", word(0), word(1), word(2), word(3));
        known.insert(Interest::read(&space, &text).unwrap(), number);
    }
    assert!(known.forms.len() <= FORMS_MAX + 64, "{}", known.forms.len());
    let long = "x".repeat(40);
    let profile = Profile::read(&space, &format!("{long}, {long}, {long}, {long}")).unwrap();
    assert_eq!(known.matching(&profile).count(), 20_000);
}

/// What there is to compare stays little where interests ask for much (the space of the page, and a tenth without the first word).
#[test]
fn few_of_many_are_looked_at() {
    let space = Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], true).unwrap();
    let mut known = Interests::new(&space);
    for number in 0..100_000 {
        let (kind, sensor) = (number % 1_000, number / 1_000);
        let text = match number % 10 {
            0 => format!("*, s{kind}-{sensor}"),
            1..=4 => format!("k{kind}, s{sensor}*"),
            _ => format!("k{kind}, s{sensor}"),
        };
        known.insert(Interest::read(&space, &text).unwrap(), ());
    }
    let profile = Profile::read(&space, "k7, s42").unwrap();
    let looked: usize = known
        .forms
        .iter()
        .filter_map(|(form, (number, _))| known.stand.get(&(*number, known.key_of(form, &profile)?)))
        .map(Vec::len)
        .sum();
    assert!(known.matching(&profile).count() >= 1);
    assert!(looked < 20 && known.forms.len() < 10, "{looked} of {} forms", known.forms.len());
}
