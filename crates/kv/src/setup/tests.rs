use super::*;
use crate::{Format, Key, LinkTimes, VoteRule};

fn config(n: usize, f: usize) -> Config {
    Config {
        nodes: (0..n).map(|n| format!("n{n}")).collect(),
        faults: f,
        keys: vec![Key::named("angle"), Key::named("force")],
        ..Config::default()
    }
}

fn refusal(config: Config) -> String {
    let problems = Setup::new(config).expect_err("is refused");
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn e4_three_nodes_and_one_liar_are_refused_with_the_reason() {
    for (n, f) in [(3, 1), (6, 2), (1, 1)] {
        let problems = Setup::new(config(n, f)).unwrap_err();
        assert_eq!(problems, [ConfigError::TooFewForLiars { n, f, needed: 3 * f + 1 }]);
    }
    let text = refusal(config(3, 1));
    assert!(text.contains("at least 4 (3f + 1)") && text.contains("mode = \"crash\""), "{text}");
    assert!(Setup::new(config(4, 1)).is_ok() && Setup::new(config(7, 2)).is_ok());
    let crash = Config { mode: Mode::Crash, ..config(2, 1) };
    assert!(Setup::new(crash).is_ok());
    let nobody = Config { mode: Mode::Crash, ..config(2, 2) };
    assert_eq!(Setup::new(nobody).unwrap_err(), [ConfigError::TooFewForCrashes { n: 2, f: 2, needed: 3 }]);
}

#[test]
fn e8_rounds_are_half_of_what_the_offset_leaves() {
    let setup = Setup::new(config(4, 1)).unwrap();
    assert_eq!((setup.round(), setup.clock_error_max()), (Span::micros(11_500), Span::micros(1_150)));
    let end = setup.config().offset + setup.round() * setup.rounds() as u64;
    assert_eq!(end, Span::millis(27), "from the beginning of the period to the end of the last round");
    let slow = Config { period: Span::millis(800), offset: Span::millis(1), ..config(4, 1) };
    assert_eq!(Setup::new(slow).unwrap().round(), Span::micros(199_750));
}

#[test]
fn rounds_too_short_for_the_network_or_too_long_for_the_period_are_refused() {
    let link = LinkTimes { delay_max: Span::micros(11_001), ..LinkTimes::default() };
    let short = Config { link, ..config(4, 1) };
    let text = refusal(short);
    assert!(text.contains("11.5ms") && text.contains("kv.delay_max"), "{text}");
    let exact = LinkTimes {
        delay_max: Span::millis(11),
        clock_error: Span::micros(500),
        send: Span::ZERO,
        receive: Span::ZERO,
    };
    assert!(Setup::new(Config { link: exact, ..config(4, 1) }).is_ok(), "exactly enough is enough");
    let long = Config { round: Some(Span::millis(12)), ..config(4, 1) };
    assert!(matches!(Setup::new(long).unwrap_err()[..], [ConfigError::RoundTooLong { .. }]));
    assert!(Setup::new(Config { round: Some(Span::millis(2)), ..config(4, 1) }).is_ok());
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let bad = Config {
        nodes: vec!["a".into(), "b".into(), "a".into(), "d".into()],
        history: 0,
        horizon: Some(Span::millis(1)),
        value_bytes_max: 4,
        keys: vec![
            Key::named("x").vote(Vote::Median(Format::F64)),
            Key::named("x"),
            Key::named("+/y"),
            Key { single_source: false, ..Key::of_one("z", Node(2)) },
            Key { writers: Some(NodeSet::EMPTY), ..Key::named("w") },
            Key::named("v").vote(Vote::WeightedMean(Format::Decimal, Arc::new([1.0]))),
        ],
        ..config(4, 1)
    };
    let text = refusal(bad);
    let expected =
        ["`a` twice", "`history = 0`", "`horizon = 1ms`", "key `x` votes on `f64`", "key `x` is there twice"];
    for part in expected.iter().chain(&["+/y", "key `z` has 1 writers: 3", "key `w`", "needs 4 weights"]) {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn trees_and_stores_that_are_too_large_are_refused_with_the_number() {
    let slots = Config { period: Span::secs(10), ..config(25, 8) };
    assert!(refusal(slots).contains("3814697265625 slots"));
    let memory = Config { period: Span::secs(1), batch_tuples_max: Some(60_000), ..config(10, 3) };
    let text = refusal(memory);
    assert!(text.contains("kv.tree_memory = 268435456"), "{text}");
    let keys = (0..60_000).map(|key| Key::named(&format!("k{key}"))).collect();
    let store = Config { keys, history: 255, batch_tuples_max: Some(100), ..config(4, 1) };
    assert!(refusal(store).contains("would take 428400000 bytes, more than `kv.store_memory = 268435456`"));
    let ten = Config { batch_tuples_max: Some(1_000), period: Span::secs(1), ..config(10, 3) };
    assert!(Setup::new(ten).is_ok());
}

#[test]
fn the_default_batch_is_the_next_multiple_of_100() {
    for (keys, tuples) in [(1, 100), (99, 100), (100, 200), (905, 1_000)] {
        let keys = (0..keys).map(|key| Key::named(&format!("k{key}"))).collect();
        assert_eq!(Setup::new(Config { keys, ..config(4, 1) }).unwrap().batch_tuples_max(), tuples);
    }
}

#[test]
fn keys_are_found_by_name_and_vote_by_the_first_filter() {
    let rule = |filter: &str, vote| VoteRule { filter: filter.parse().unwrap(), vote };
    let setup = Setup::new(Config {
        keys: vec![Key::named("wheel/2/speed"), Key::named("mode"), Key::named("wheel/1/torque")],
        votes: vec![
            rule("wheel/+/speed", Vote::Median(Format::F64)),
            rule("wheel/#", Vote::Max(Format::F64)),
        ],
        ..config(4, 1)
    })
    .unwrap();
    assert_eq!(setup.key("mode"), Some(KeyId(1)));
    assert_eq!(setup.key("wheel/3/speed"), None);
    let votes: Vec<String> = (0..3).map(|key| setup.terms(KeyId(key)).unwrap().vote.name()).collect();
    assert_eq!(votes, ["median f64", "majority", "max f64"]);
}

#[test]
fn releases_lie_on_one_grid_for_all() {
    let setup = Setup::new(config(4, 1)).unwrap();
    let ms = |ms: u64| Time(ms * 1_000_000);
    assert_eq!(setup.release_after(ms(1_003)), ms(1_004));
    assert_eq!(setup.release_after(ms(1_004)), ms(1_054));
    assert_eq!(setup.release_after(Time(0)), ms(4));
    assert_eq!(setup.job_at(ms(1_054)), Some(21));
    assert_eq!(setup.release_of(21), ms(1_054));
    assert_eq!(setup.job_at(ms(1_055)), None);
    assert!(setup.first_release(ms(1_000)) >= ms(3_000));
}

#[test]
fn another_configuration_has_another_fingerprint_and_the_first_difference_is_named() {
    let ours = Setup::new(config(4, 1)).unwrap();
    let theirs = Setup::new(Config { history: 19, offset: Span::millis(5), ..config(4, 1) }).unwrap();
    assert_ne!(ours.fingerprint(), theirs.fingerprint());
    let (ours, theirs) = (ours.config().facts(), theirs.config().facts());
    let (Some(one), Some(other)) = crate::first_difference(&ours, &theirs).unwrap() else { panic!() };
    assert_eq!((&*one.name, &*one.value, &*other.value), ("offset", "4ms", "5ms"));
    assert_eq!(crate::first_difference(&ours, &ours), None);
    let own = Setup::new(Config { tree_bytes_max: 1 << 29, ..config(4, 1) }).unwrap();
    assert_eq!(own.config().facts(), ours, "memory is a node's own matter");
}
