//! Any changes of MQTT subscriptions and retained messages, and any questions: both say what a list says that is gone
//! through. In the end nothing is left of either.
#![no_main]

use std::collections::BTreeMap;

use contract::{Time, TopicFilter, check_name};
use libfuzzer_sys::fuzz_target;
use mqtt::SessionId;
use mqtt::packet::{Options, Qos, RetainHandling};
use mqtt::retained::{Limits, New, Retained};
use mqtt::tree::{Entry, Matches, Subscriptions, parse_filter};

const SESSIONS: u32 = 4;

/// Few signs, so that filters and topics often have to do with each other.
fn text(bytes: &[u8]) -> String {
    const SIGNS: [&str; 13] = ["/", "/", "/", "+", "#", "a", "b", "-", "0", "$", "$share/g/", "é", "\0"];
    bytes.iter().map(|byte| SIGNS[usize::from(*byte) % SIGNS.len()]).collect()
}

fn entry(bits: u8) -> Entry {
    let qos = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce][usize::from(bits) % 3];
    let (no_local, retain_as_published) = (bits & 4 != 0, bits & 8 != 0);
    let options = Options { qos, no_local, retain_as_published, retain_handling: RetainHandling::Send };
    Entry { options, subscription: (bits & 16 != 0).then_some(u32::from(bits >> 5)) }
}

/// QoS, whether the retain flag stays, and sorted numbers.
type Wanted = (Qos, bool, Vec<u32>);

fn wanted<'a>(entries: impl Iterator<Item = &'a Entry> + Clone) -> Option<Wanted> {
    let qos = entries.clone().map(|entry| entry.options.qos).max()?;
    let mut numbers: Vec<u32> = entries.clone().filter_map(|entry| entry.subscription).collect();
    numbers.sort_unstable();
    Some((qos, entries.clone().any(|entry| entry.options.retain_as_published), numbers))
}

#[derive(Default)]
struct Model {
    subscriptions: BTreeMap<(SessionId, String), Entry>,
    retained: BTreeMap<String, (Vec<u8>, Option<u64>)>,
}

impl Model {
    fn check(&self, tree: &Subscriptions, topic: &str, found: &mut Matches) {
        let (mut sessions, mut groups) =
            (BTreeMap::<SessionId, Vec<Entry>>::new(), BTreeMap::<&str, Vec<SessionId>>::new());
        for ((session, text), entry) in &self.subscriptions {
            let parsed = parse_filter(text).unwrap();
            if parsed.filter.parse::<TopicFilter>().unwrap().matches(topic) {
                match parsed.group {
                    Some(_) => groups.entry(text).or_default().push(*session),
                    None => sessions.entry(*session).or_default().push(*entry),
                }
            }
        }
        tree.matches(topic, found);
        assert_eq!(found.rows().len(), sessions.len(), "{topic}");
        for (row, (session, entries)) in found.rows().iter().zip(&sessions) {
            let sorted = |want: &mqtt::tree::Want| {
                let mut numbers = found.subscriptions(want).to_vec();
                numbers.sort_unstable();
                (want.qos, want.retain_as_published, numbers)
            };
            assert_eq!(row.session, *session);
            assert_eq!(Some(sorted(&row.others)), wanted(entries.iter()));
            let own = entries.iter().filter(|entry| !entry.options.no_local);
            assert_eq!(row.own.as_ref().map(sorted), wanted(own));
        }
        let mut members: Vec<Vec<SessionId>> = found
            .groups()
            .iter()
            .map(|group| tree.members(*group).iter().map(|member| member.session).collect())
            .collect();
        let mut expected: Vec<Vec<SessionId>> = groups.into_values().collect();
        (members.sort(), expected.sort());
        assert_eq!(members, expected, "{topic}");
    }

    fn check_retained(&self, retained: &Retained<()>, filter: &str, now: u64) {
        let Ok(parsed) = filter.parse::<TopicFilter>() else { return };
        let lives = |expires: &Option<u64>| expires.is_none_or(|at| at > now);
        let meant = self.retained.iter().filter(|(topic, (_, at))| parsed.matches(topic) && lives(at));
        let meant: Vec<_> = meant.map(|(topic, (payload, _))| (topic.clone(), payload.clone())).collect();
        let mut found = Vec::new();
        retained.matching(filter, Time(now), &mut |topic, message| {
            found.push((topic.to_owned(), message.payload().to_vec()));
        });
        assert_eq!(found, meant, "{filter}");
        let (mut place, mut pieces) = (String::new(), Vec::new());
        while retained.matching_portion(filter, Time(now), &mut place, 1, &mut |topic, message| {
            pieces.push((topic.to_owned(), message.payload().to_vec()));
        }) {}
        assert_eq!(pieces, meant, "{filter}, in pieces");
    }
}

fuzz_target!(|acts: Vec<(u8, u8, Vec<u8>)>| {
    let (mut model, mut found, mut now) = (Model::default(), Matches::default(), 0);
    let mut tree = Subscriptions::new(1_000_000);
    let mut retained = Retained::new(Limits { topics_max: 1_000_000, bytes_max: 1 << 30 });
    for (act, bits, bytes) in acts {
        let (text, session) = (text(&bytes), SessionId(u32::from(act >> 3) % SESSIONS));
        while tree.take_changed().is_some() {}
        let generation = tree.generation();
        match act % 8 {
            0 | 1 => match tree.insert(&text, session, entry(bits)) {
                Ok(replaced) => {
                    let old = model.subscriptions.insert((session, text), entry(bits));
                    assert_eq!(replaced, old.is_some());
                    let told = tree.take_changed().is_some() || tree.generation() > generation;
                    assert_eq!(told, old != Some(entry(bits)));
                }
                Err(_) => assert_eq!(tree.generation(), generation),
            },
            2 => assert_eq!(
                tree.remove(&text, session),
                model.subscriptions.remove(&(session, text)).is_some()
            ),
            3 if bits < 32 => {
                tree.remove_session(session);
                model.subscriptions.retain(|(of, _), _| *of != session);
            }
            3 | 4 if check_name(&text).is_ok() => {
                let expires = (bits & 1 == 0).then_some(now + u64::from(bits));
                let message = New {
                    payload: &bytes,
                    properties: &[],
                    qos: Qos::AtMostOnce,
                    expires: expires.map(Time),
                    origin: (),
                };
                retained.set(&text, message).unwrap();
                model.retained.insert(text, (bytes, expires));
            }
            5 => assert_eq!(retained.clear(&text), model.retained.remove(&text).is_some()),
            6 => {
                now += u64::from(bits);
                retained.expire(Time(now), usize::from(act >> 3), &mut |topic| {
                    assert!(model.retained.remove(topic).unwrap().1.unwrap() <= now);
                });
            }
            _ if check_name(&text).is_ok() => model.check(&tree, &text, &mut found),
            _ => {}
        }
        assert_eq!((tree.len(), retained.len()), (model.subscriptions.len(), model.retained.len()));
        if bits % 4 == 0 {
            model.check_retained(&retained, &self::text(&[act, bits, act ^ bits, act >> 4]), now);
        }
    }
    for (session, filter) in model.subscriptions.keys() {
        assert!(tree.remove(filter, *session));
    }
    assert_eq!((tree.len(), tree.nodes()), (0, 1));
    for topic in model.retained.keys() {
        assert!(retained.clear(topic));
    }
    assert_eq!((retained.bytes(), retained.next_expiry()), (0, None));
});
