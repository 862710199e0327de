//! The tree against a list of subscriptions, each asked whether it matches.

use std::collections::BTreeMap;

use super::*;

#[derive(Default)]
struct Model(BTreeMap<(SessionId, String), Entry>);

/// What comes out for a topic, in a form that both can give.
#[derive(PartialEq, Debug, Default)]
struct Answer {
    rows: Vec<AnswerRow>,
    /// Members of groups.
    groups: Vec<Vec<(SessionId, Entry)>>,
}

type Wanted = (Qos, bool, Vec<u32>);

#[derive(PartialEq, Debug)]
struct AnswerRow {
    session: SessionId,
    others: Wanted,
    own: Option<Wanted>,
}

impl Model {
    fn answer(&self, topic: &str) -> Answer {
        let (mut sessions, mut groups) = (BTreeMap::new(), BTreeMap::new());
        for ((session, text), entry) in &self.0 {
            let (group, filter) = match text.strip_prefix("$share/") {
                Some(rest) => rest.split_once('/').map(|(group, filter)| (Some(group), filter)).unwrap(),
                None => (None, text.as_str()),
            };
            if filter.parse::<TopicFilter>().unwrap().matches(topic) {
                match group {
                    Some(_) => groups.entry(text).or_insert_with(Vec::new).push((*session, *entry)),
                    None => sessions.entry(*session).or_insert_with(Vec::new).push(*entry),
                }
            }
        }
        let rows = sessions.into_iter().map(|(session, entries)| {
            let others = wanted(&entries.iter()).unwrap();
            AnswerRow {
                session,
                others,
                own: wanted(&entries.iter().filter(|entry| !entry.options.no_local)),
            }
        });
        let mut answer = Answer { rows: rows.collect(), groups: groups.into_values().collect() };
        answer.groups.sort_by_key(|members| format!("{members:?}"));
        answer
    }
}

/// Anything that looks like chance.
fn hash(text: &str) -> u64 {
    text.bytes().fold(7, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn wanted<'a>(entries: &(impl Iterator<Item = &'a Entry> + Clone)) -> Option<Wanted> {
    let qos = entries.clone().map(|entry| entry.options.qos).max()?;
    let mut numbers: Vec<u32> = entries.clone().filter_map(|entry| entry.subscription).collect();
    numbers.sort_unstable();
    let retain = entries.clone().any(|entry| entry.options.retain_as_published);
    Some((qos, retain, numbers))
}

fn answer(tree: &Subscriptions, topic: &str, found: &mut Matches) -> Answer {
    tree.matches(topic, found);
    let sorted = |want: &Want| {
        let mut numbers = found.subscriptions(want).to_vec();
        numbers.sort_unstable();
        (want.qos, want.retain_as_published, numbers)
    };
    let rows = found.rows().iter().map(|row| AnswerRow {
        session: row.session,
        others: sorted(&row.others),
        own: row.own.as_ref().map(sorted),
    });
    let members =
        |group: &GroupId| tree.members(*group).iter().map(|member| (member.session, member.entry)).collect();
    let mut answer = Answer { rows: rows.collect(), groups: found.groups().iter().map(members).collect() };
    answer.groups.sort_by_key(|members: &Vec<(SessionId, Entry)>| format!("{members:?}"));
    answer
}

#[derive(Clone, Debug)]
enum Act {
    Insert(String, SessionId, Entry),
    Remove(String, SessionId),
    Leave(SessionId),
    Ask(String),
}

/// Few levels, so that filters overlap and nodes are shared.
fn level() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just(""), Just("$x"), Just("long level")]
}

fn topic() -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..5)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("empty", |t| !t.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => level(), 2 => Just("+")];
    let end = prop_oneof![2 => Just(""), 1 => Just("#"), 1 => Just("/#")];
    let group = prop_oneof![3 => Just(""), 1 => Just("$share/g/"), 1 => Just("$share/h/")];
    (group, prop::collection::vec(level, 0..5), end)
        .prop_map(|(group, levels, end)| {
            let levels = levels.join("/");
            let end = if levels.is_empty() { end.trim_start_matches('/') } else { end };
            let end = if end == "#" && !levels.is_empty() { "/#" } else { end };
            format!("{group}{levels}{end}")
        })
        .prop_filter("valid", |filter| parse_filter(filter).is_ok())
}

fn some_entry(shared: bool) -> impl Strategy<Value = Entry> {
    let qos = prop_oneof![Just(Qos::AtMostOnce), Just(Qos::AtLeastOnce), Just(Qos::ExactlyOnce)];
    (qos, any::<bool>(), any::<bool>(), prop::option::of(1_u32..5)).prop_map(
        move |(qos, no_local, retain_as_published, subscription)| {
            let no_local = no_local && !shared;
            Entry {
                options: Options { qos, no_local, retain_as_published, ..Options::default() },
                subscription,
            }
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let session = || (0_u32..6).prop_map(SessionId);
    prop_oneof![
        6 => (filter(), session()).prop_flat_map(|(filter, session)| {
            some_entry(filter.starts_with("$share/")).prop_map(move |entry| Act::Insert(filter.clone(), session, entry))
        }),
        3 => (filter(), session()).prop_map(|(filter, session)| Act::Remove(filter, session)),
        1 => session().prop_map(Act::Leave),
        4 => topic().prop_map(Act::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_tree_says_what_a_list_says(acts in prop::collection::vec(act(), 1..250)) {
        let (mut tree, mut model, mut found) = (tree(), Model::default(), Matches::default());
        for act in acts {
            let before = tree.generation();
            let changed = match act {
                Act::Insert(filter, session, entry) => {
                    let old = model.0.insert((session, filter.clone()), entry);
                    prop_assert_eq!(tree.insert(&filter, session, entry), Ok(old.is_some()));
                    old != Some(entry)
                }
                Act::Remove(filter, session) => {
                    let was_there = model.0.remove(&(session, filter.clone())).is_some();
                    prop_assert_eq!(tree.remove(&filter, session), was_there);
                    was_there
                }
                Act::Leave(session) => {
                    let len = model.0.len();
                    model.0.retain(|(of, _), _| *of != session);
                    tree.remove_session(session);
                    len != model.0.len()
                }
                Act::Ask(topic) => {
                    prop_assert_eq!(answer(&tree, &topic, &mut found), model.answer(&topic), "{}", topic);
                    false
                }
            };
            let told = std::iter::from_fn(|| tree.take_changed()).count() > 0;
            prop_assert_eq!(told || tree.generation() > before, changed);
            prop_assert_eq!(tree.len(), model.0.len());
        }
        let listed: Vec<_> = (0..6)
            .map(SessionId)
            .flat_map(|session| tree.of_session(session).map(move |(text, entry)| ((session, text.to_owned()), entry)))
            .collect();
        prop_assert_eq!(listed, model.0.clone().into_iter().collect::<Vec<_>>());
        for (session, filter) in model.0.keys() {
            prop_assert!(tree.remove(filter, *session));
        }
        prop_assert_eq!((tree.len(), tree.nodes(), tree.groups.len()), (0, 1, 0));
    }

    #[test]
    fn what_is_no_filter_is_refused_as_the_contract_does(text in "[a+#/$\u{0}]{0,8}") {
        prop_assert_eq!(parse_filter(&text).is_ok(), text.parse::<TopicFilter>().is_ok());
    }

    #[test]
    fn order_of_insertion_does_not_show(subscriptions in prop::collection::btree_map((filter(), 0_u32..6), 0_u32..9, 0..40),
                                        topic in topic(), seed in any::<u64>()) {
        let mut shuffled: Vec<_> = subscriptions.iter().collect();
        shuffled.sort_by_key(|((filter, session), _)| hash(filter).wrapping_mul(seed | 1) ^ u64::from(*session));
        let (mut forward, mut other) = (tree(), tree());
        for ((filter, session), number) in &subscriptions {
            forward.insert(filter, SessionId(*session), entry(Qos::AtMostOnce, Some(*number))).unwrap();
        }
        for ((filter, session), number) in shuffled {
            other.insert(filter, SessionId(*session), entry(Qos::AtMostOnce, Some(*number))).unwrap();
        }
        let (one, two) = (found(&forward, &topic), found(&other, &topic));
        prop_assert_eq!(one.rows(), two.rows());
        for (a, b) in one.rows().iter().zip(two.rows()) {
            prop_assert_eq!(one.subscriptions(&a.others), two.subscriptions(&b.others));
        }
        prop_assert_eq!(one.groups().len(), two.groups().len());
        for (a, b) in one.groups().iter().zip(two.groups()) {
            prop_assert_eq!(forward.members(*a), other.members(*b));
        }
    }
}
