use contract::TopicFilter;
use proptest::prelude::*;

use super::*;

const ROOMY: Limits = Limits { topics_max: 100_000, bytes_max: 1 << 30 };
const NOW: Time = Time(1_000);

fn message(payload: &[u8]) -> New<'_, u64> {
    New { payload, properties: &[], qos: Qos::AtLeastOnce, expires: None, origin: 0 }
}

fn until(at: u64) -> New<'static, u64> {
    New { expires: Some(Time(at)), ..message(b"x") }
}

fn with(topics: &[&str]) -> Retained<u64> {
    let mut retained = Retained::new(ROOMY);
    for topic in topics {
        retained.set(topic, message(b"x")).unwrap();
    }
    retained
}

fn matching(retained: &Retained<u64>, filter: &str, now: Time) -> Vec<String> {
    let mut found = Vec::new();
    retained.matching(filter, now, &mut |topic, _| found.push(topic.to_owned()));
    found
}

fn expire(retained: &mut Retained<u64>, now: u64, looks_max: usize) -> Vec<String> {
    let mut gone = Vec::new();
    retained.expire(Time(now), looks_max, &mut |topic| gone.push(topic.to_owned()));
    gone
}

#[test]
fn the_last_message_of_a_topic_is_kept_whole() {
    let mut retained = Retained::new(ROOMY);
    let second =
        New { payload: b"second", properties: b"pr", qos: Qos::ExactlyOnce, expires: None, origin: 7 };
    retained.set("hall", message(b"a longer first one")).unwrap();
    retained.set("hall", second).unwrap();
    let kept = retained.get("hall", NOW).unwrap();
    assert_eq!(
        (kept.payload(), kept.properties(), kept.qos, kept.origin),
        (&b"second"[..], &b"pr"[..], Qos::ExactlyOnce, 7)
    );
    assert_eq!(retained.len(), 1);
    assert_eq!(retained.bytes(), OVERHEAD_BYTES + 4 + 8);
}

#[test]
fn a_cleared_topic_is_empty_and_leaves_nothing() {
    let mut retained = with(&["hall"]);
    retained.set("oven", until(9_000)).unwrap();
    assert!(retained.clear("hall") && retained.clear("oven"));
    assert!(!retained.clear("hall"));
    assert_eq!((retained.len(), retained.bytes(), retained.next_expiry()), (0, 0, None));
}

#[test]
fn filters_find_what_they_mean_in_order() {
    let retained =
        with(&["a", "a/b", "a-b/c", "a/b/c", "a0", "b/b", "/b", "", "a//c", "$SYS/b", "a/b-c", "a/b-c/c"]);
    assert_eq!(matching(&retained, "a/#", NOW), ["a", "a//c", "a/b", "a/b-c", "a/b-c/c", "a/b/c"]);
    assert_eq!(matching(&retained, "a/+", NOW), ["a/b", "a/b-c"]);
    assert_eq!(matching(&retained, "a/+/c", NOW), ["a//c", "a/b-c/c", "a/b/c"]);
    assert_eq!(matching(&retained, "+/b", NOW), ["/b", "a/b", "b/b"]);
    assert_eq!(matching(&retained, "+/b/#", NOW), ["/b", "a/b", "a/b/c", "b/b"]);
    assert_eq!(matching(&retained, "a/b", NOW), ["a/b"]);
    assert_eq!(matching(&retained, "/+", NOW), ["/b"]);
    assert_eq!(matching(&retained, "$SYS/#", NOW), ["$SYS/b"]);
    assert_eq!(matching(&retained, "#", NOW).len(), 11, "all but the broker's own");
    assert_eq!(matching(&retained, "nothing/#", NOW), [""; 0]);
}

#[test]
fn what_has_expired_is_not_given_even_before_it_is_taken_away() {
    let mut retained = Retained::new(ROOMY);
    retained.set("hall", until(2_000)).unwrap();
    assert!(retained.get("hall", Time(1_999)).is_some());
    assert!(retained.get("hall", Time(2_000)).is_none());
    assert_eq!(matching(&retained, "#", Time(1_999)), ["hall"]);
    assert_eq!(matching(&retained, "#", Time(2_000)), [""; 0]);
    assert_eq!(matching(&retained, "hall", Time(2_000)), [""; 0]);
    assert_eq!(retained.iter().count(), 1);
}

#[test]
fn a_later_message_moves_the_expiry() {
    let mut retained = Retained::new(ROOMY);
    retained.set("later", until(2_000)).unwrap();
    retained.set("later", until(5_000)).unwrap();
    retained.set("never", until(2_000)).unwrap();
    retained.set("never", message(b"x")).unwrap();
    retained.set("sooner", until(9_000)).unwrap();
    retained.set("sooner", until(3_000)).unwrap();
    assert_eq!(expire(&mut retained, 2_000, 99), [""; 0]);
    assert_eq!(retained.next_expiry(), Some(Time(3_000)));
    assert_eq!(expire(&mut retained, 4_999, 99), ["sooner"]);
    assert_eq!(expire(&mut retained, 5_000, 99), ["later"]);
    assert_eq!(expire(&mut retained, u64::MAX, 99), [""; 0]);
    assert_eq!((retained.len(), retained.next_expiry()), (1, None));
}

#[test]
fn expiry_goes_in_portions() {
    let mut retained = Retained::new(ROOMY);
    for n in 0..10 {
        retained.set(&format!("t/{n}"), until(2_000 + n)).unwrap();
    }
    assert_eq!(expire(&mut retained, 9_000, 4).len(), 4);
    assert_eq!(retained.next_expiry(), Some(Time(2_004)));
    assert_eq!(expire(&mut retained, 9_000, 99).len(), 6);
    assert_eq!((retained.len(), retained.bytes()), (0, 0));
}

#[test]
fn limits_refuse_what_is_more_and_leave_what_was_there() {
    let bytes_max = 2 * (OVERHEAD_BYTES + 1 + 10);
    let mut retained = Retained::new(Limits { topics_max: 2, bytes_max });
    retained.set("a", message(&[1; 10])).unwrap();
    retained.set("b", message(&[1; 10])).unwrap();
    assert_eq!(retained.set("c", message(&[1; 1])), Err(Refusal::Topics(2)));
    let refused = Err(Refusal::Bytes { needed: bytes_max + 1, limit: bytes_max });
    assert_eq!(retained.set("b", message(&[2; 11])), refused);
    assert_eq!(retained.get("b", NOW).unwrap().payload(), [1; 10]);
    retained.set("b", message(&[2; 10])).unwrap();
    retained.set_limits(Limits { topics_max: 9, bytes_max });
    let needed = bytes_max + OVERHEAD_BYTES + 2;
    assert_eq!(retained.set("c", message(&[1; 1])), Err(Refusal::Bytes { needed, limit: bytes_max }));
    retained.set_limits(Limits { topics_max: 1, bytes_max: 0 });
    assert_eq!(retained.set("a", message(&[3; 10])), Ok(()), "no worse than before");
    assert!(retained.clear("a") && retained.clear("b"));
    assert_eq!(retained.bytes(), 0);
}

#[test]
fn a_backup_is_brought_up_to_date_in_pieces() {
    let mut retained = with(&["a", "b", "c", "d"]);
    let first: Vec<_> = retained.iter().take(2).map(|(topic, _)| topic.to_owned()).collect();
    assert_eq!(first, ["a", "b"]);
    retained.clear("b");
    let rest: Vec<_> = retained.iter_after("b").map(|(topic, _)| topic).collect();
    assert_eq!(rest, ["c", "d"]);
}

#[test]
fn buffers_are_used_again_and_large_ones_given_back() {
    let mut retained = Retained::new(ROOMY);
    retained.set("hall", message(&[0; 1_000])).unwrap();
    let place = retained.get("hall", NOW).unwrap().payload().as_ptr();
    retained.set("hall", message(&[1; 900])).unwrap();
    assert_eq!(retained.get("hall", NOW).unwrap().payload().as_ptr(), place);
    retained.set("hall", message(&[2; 10])).unwrap();
    assert!(retained.topics["hall"].bytes.capacity() <= SPARE_BYTES_MAX);
}

/// How many topics a filter means, and how many a walk looks at: portions of one topic each.
fn looks(retained: &Retained<u64>, filter: &str) -> (usize, usize) {
    let (mut meant, mut looks, mut place) = (0, 1, String::new());
    while retained.matching_portion(filter, NOW, &mut place, 1, &mut |_, _| meant += 1) {
        looks += 1;
    }
    (meant, looks)
}

#[test]
fn a_walk_jumps_over_what_the_filter_cannot_mean() {
    let mut retained = Retained::new(ROOMY);
    for oven in 0..50 {
        for metric in 0..100 {
            retained.set(&format!("hall/{oven:02}/{metric:02}"), message(b"x")).unwrap();
        }
    }
    let (meant, looked) = looks(&retained, "hall/+/50");
    assert_eq!(meant, 50);
    assert!(looked <= 50 * 3 + 1, "{looked}");
    assert_eq!(looks(&retained, "hall/07/#"), (100, 101));
    assert_eq!(looks(&retained, "hall/+"), (0, 50), "one look at each oven");
    assert_eq!(looks(&retained, "+"), (0, 1));
}

#[test]
fn a_walk_goes_on_where_it_was_though_its_place_is_gone() {
    let mut retained = with(&["a/1", "a/2", "a/3", "a/4"]);
    let (mut place, mut found) = (String::new(), Vec::new());
    let mut portion = |retained: &Retained<u64>, place: &mut String| {
        retained.matching_portion("a/+", NOW, place, 2, &mut |topic, _| found.push(topic.to_owned()))
    };
    assert!(portion(&retained, &mut place));
    assert!(retained.clear("a/3") && retained.clear("a/1"));
    retained.set("a/5", message(b"x")).unwrap();
    assert!(!portion(&retained, &mut place));
    assert_eq!(found, ["a/1", "a/2", "a/4", "a/5"]);
}

type Entry = (Vec<u8>, Option<u64>);

#[derive(Clone, Debug)]
enum Act {
    Set(String, Entry),
    Clear(String),
    Expire(u64, usize),
    Ask(String),
}

/// Levels that begin with one another and have bytes on both sides of `/`, so that order is not that of levels.
fn level() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("a-"), Just("a0"), Just("b"), Just(""), Just("$x"), Just("é")]
}

fn topic() -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..5).prop_map(|levels| levels.join("/"))
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => level(), 2 => Just("+")];
    (prop::collection::vec(level, 1..5), any::<bool>())
        .prop_map(|(mut levels, hash)| {
            if hash {
                levels.pop();
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("valid", |filter| filter.parse::<TopicFilter>().is_ok())
}

fn act() -> impl Strategy<Value = Act> {
    let entry = (prop::collection::vec(any::<u8>(), 0..20), prop::option::of(0_u64..100));
    prop_oneof![
        6 => (topic(), entry).prop_map(|(topic, entry)| Act::Set(topic, entry)),
        2 => topic().prop_map(Act::Clear),
        1 => (0_u64..20, 1_usize..9).prop_map(|(later, looks)| Act::Expire(later, looks)),
        4 => filter().prop_map(Act::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn it_holds_and_finds_what_a_map_and_a_scan_do(acts in prop::collection::vec(act(), 1..300)) {
        let (mut retained, mut model, mut now) = (Retained::new(ROOMY), BTreeMap::<String, Entry>::new(), 0);
        for act in acts {
            match act {
                Act::Set(topic, (payload, lasts)) => {
                    let expires = lasts.map(|lasts| now + lasts);
                    retained.set(&topic, New { expires: expires.map(Time), ..message(&payload) }).unwrap();
                    model.insert(topic, (payload, expires));
                }
                Act::Clear(topic) => prop_assert_eq!(retained.clear(&topic), model.remove(&topic).is_some()),
                Act::Expire(later, looks) => {
                    now += later;
                    for topic in expire(&mut retained, now, looks) {
                        let (_, expires) = model.remove(&topic).unwrap();
                        prop_assert!(expires.unwrap() <= now);
                    }
                }
                Act::Ask(filter) => {
                    let parsed: TopicFilter = filter.parse().unwrap();
                    let lives = |entry: &Entry| entry.1.is_none_or(|at| at > now);
                    let meant = model.iter().filter(|(topic, entry)| parsed.matches(topic) && lives(entry));
                    let meant: Vec<String> = meant.map(|(topic, _)| topic.clone()).collect();
                    prop_assert_eq!(&matching(&retained, &filter, Time(now)), &meant, "{}", filter);
                    let (mut place, mut pieces) = (String::new(), Vec::new());
                    while retained.matching_portion(&filter, Time(now), &mut place, 2, &mut |topic, _| pieces.push(topic.to_owned())) {}
                    prop_assert_eq!(pieces, meant, "{} in pieces", filter);
                }
            }
            let held: Vec<_> = retained.iter().map(|(topic, kept)| (topic.to_owned(), (kept.payload().to_vec(), kept.expires.map(|at| at.0)))).collect();
            prop_assert_eq!(held, model.clone().into_iter().collect::<Vec<_>>());
            let bytes: usize = model.iter().map(|(topic, entry)| size(topic, entry.0.len())).sum();
            prop_assert_eq!(retained.bytes(), bytes);
            let soonest = model.values().filter_map(|entry| entry.1).min().map(Time);
            prop_assert!(soonest.is_none_or(|at| retained.next_expiry().is_some_and(|look| look <= at)));
            prop_assert!(retained.expiring.len() <= retained.len());
        }
        expire(&mut retained, u64::MAX, usize::MAX);
        prop_assert!(retained.iter().all(|(_, kept)| kept.expires.is_none()));
        prop_assert!(retained.expiring.is_empty());
    }
}
