use super::*;
use crate::space::Kind;
use contract::Span;
use proptest::prelude::*;

fn space() -> Space {
    Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], false).unwrap()
}

fn offer(text: &str) -> Post {
    Post::Offer(Profile::read(&space(), text).unwrap())
}

fn want(text: &str) -> Post {
    Post::Want(Interest::read(&space(), text).unwrap())
}

/// What each party has been told to have to do with.
#[derive(Default)]
struct Told(BTreeMap<Party, BTreeSet<Topic>>, BTreeMap<(Party, Topic), Other>);

impl Tell for Told {
    fn met(&mut self, party: Party, topic: Topic, other: &Other) {
        self.1.insert((party, topic), other.clone());
        assert!(self.0.entry(party).or_default().insert(topic), "{party:?} is told twice of {topic}");
    }

    fn parted(&mut self, party: Party, topic: Topic) {
        assert!(self.0.entry(party).or_default().remove(&topic), "{party:?} was never told of {topic}");
    }
}

fn party(number: u64) -> Party {
    Party { peer: RingId::beginning_with(u128::from(number), 8), number }
}

const OFFERS: [&str; 4] = ["drone, lidar", "drone, thermal", "car, lidar", "drone, lidar, colour=red"];
const WANTS: [&str; 5] = ["drone, li*", "kind=*", "lidar", "sensor=li*, colour=red", "ship, *"];

#[test]
fn whoever_comes_first_both_are_told() {
    for turned in [false, true] {
        let (mut point, mut told) = (Point::new(&space()), Told::default());
        let posts =
            [(party(1), "drone, lidar", offer("drone, lidar")), (party(2), "drone, li*", want("drone, li*"))];
        let order = if turned { [1, 0] } else { [0, 1] };
        for at in order {
            let (party, text, post) = posts[at].clone();
            point.put(party, text, post, Time(100), &mut told).unwrap();
        }
        let topic = BTreeSet::from([Topic::of("drone, lidar", "drone, li*")]);
        assert_eq!(told.0, BTreeMap::from([(party(1), topic.clone()), (party(2), topic.clone())]));
        assert_eq!(point.known_of(party(1)).collect::<BTreeSet<Topic>>(), topic);
        let topic = *topic.first().unwrap();
        assert!(topic.to_string().starts_with("rv/"));
        assert_eq!(topic.to_string().parse(), Ok(topic));
        for (one, other) in [(party(1), "drone, li*"), (party(2), "drone, lidar")] {
            assert_eq!(&*told.1[&(one, topic)].says, other);
            let says = point.meetings_of(one).map(|(_, other)| other.says.to_string());
            assert_eq!(says.collect::<Vec<_>>(), [other]);
        }
    }
}

#[test]
fn of_what_is_very_long_the_other_end_hears_the_beginning() {
    let text = format!("drone, lidar, colour={}", "ä".repeat(400));
    let (mut point, mut told) = (Point::new(&space()), Told::default());
    point.put(party(1), &text, offer(&text), Time(100), &mut told).unwrap();
    point.put(party(2), "drone, *", want("drone, *"), Time(100), &mut told).unwrap();
    let (_, heard) = point.meetings_of(party(2)).next().unwrap();
    assert!(text.starts_with(&*heard.says));
    assert!((SHOWN_BYTES_MAX - 1..=SHOWN_BYTES_MAX).contains(&heard.says.len()));
}

#[test]
fn each_end_hears_what_the_other_one_says_of_messages_and_both_agree() {
    let (mut point, mut told) = (Point::new(&space()), Told::default());
    let (offers, wants) =
        ("drone, lidar; topic=plant/7, period=50ms, retain=20", "drone, *; deadline=100ms, loss=0");
    point.put(party(1), offers, offer(offers), Time(100), &mut told).unwrap();
    point.put(party(2), wants, want(wants), Time(100), &mut told).unwrap();
    let heard = |of| point.meetings_of(party(of)).next().unwrap().1;
    assert_eq!((&*heard(2).says, &*heard(1).says), ("drone, lidar", "drone, *"));
    let agreed = offer(offers).agree(&heard(1)).unwrap();
    assert_eq!(want(wants).agree(&heard(2)).unwrap(), agreed);
    assert_eq!(agreed.topic.as_deref(), Some("plant/7"));
    let contract = agreed.contract.unwrap().to_string();
    assert_eq!(contract, "period 50ms, deadline 100ms, loss 0, retain 20, link edge");
}

#[test]
fn consumers_that_want_the_same_share_a_topic_until_the_last_goes() {
    let (mut point, mut told) = (Point::new(&space()), Told::default());
    point.put(party(1), "drone, lidar", offer("drone, lidar"), Time(100), &mut told).unwrap();
    for number in [2, 3] {
        point.put(party(number), "lidar*", want("*, lidar*"), Time(100), &mut told).unwrap();
    }
    assert_eq!(told.0[&party(1)].len(), 1);
    point.take(party(2), &mut told);
    assert_eq!(told.0[&party(1)].len(), 1, "one is left");
    point.take(party(3), &mut told);
    assert_eq!(told.0[&party(1)].len(), 0);
}

#[test]
fn what_is_not_put_again_is_over() {
    let (mut point, mut told) = (Point::new(&space()), Told::default());
    point.put(party(1), "drone", offer("drone"), Time(100), &mut told).unwrap();
    point.put(party(2), "drone", want("drone"), Time(100), &mut told).unwrap();
    point.put(party(2), "drone", want("drone"), Time(200), &mut told).unwrap();
    assert_eq!(point.next_deadline(), Time(100));
    point.handle_timeout(Time(100), &mut told);
    assert!(!point.has(party(1)) && point.has(party(2)));
    assert_eq!(told.0[&party(2)].len(), 0);
    assert_eq!(point.next_deadline(), Time(200));
}

#[test]
fn whoever_would_meet_too_many_is_refused_and_nobody_else_notices() {
    let (mut point, mut told) = (Point::new(&space()), Told::default());
    for number in 0..=MEETINGS_MAX as u64 {
        let party = Party { peer: RingId::MIN, number };
        point.put(party, "drone", offer("drone"), Time(100), &mut told).unwrap();
    }
    let refused = point.put(party(1), "*", want("*"), Time(100), &mut told);
    assert_eq!(refused, Err(NoRoom::Meetings));
    assert!(told.0.is_empty() && !point.has(party(1)));
}

#[derive(Clone, Debug)]
enum Act {
    Offer(u64, usize),
    Want(u64, usize),
    Take(u64),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..8u64, 0..OFFERS.len()).prop_map(|(party, text)| Act::Offer(party, text)),
        (0..8u64, 0..WANTS.len()).prop_map(|(party, text)| Act::Want(party, text)),
        (0..8u64).prop_map(Act::Take),
        (0..40u64).prop_map(Act::Wait),
    ]
}

proptest! {
    /// Against a list of all that there is, gone through from end to end.
    #[test]
    fn each_is_told_of_exactly_those_topics_that_its_meetings_have(acts in prop::collection::vec(act(), 1..60)) {
        let (mut point, mut told) = (Point::new(&space()), Told::default());
        let mut there: BTreeMap<Party, (&str, Post, Time)> = BTreeMap::new();
        let mut now = Time(0);
        for act in acts {
            match act {
                Act::Offer(number, at) | Act::Want(number, at) => {
                    let (text, post) = match act {
                        Act::Offer(..) => (OFFERS[at], offer(OFFERS[at])),
                        _ => (WANTS[at], want(WANTS[at])),
                    };
                    let until = now + Span(60);
                    point.put(party(number), text, post.clone(), until, &mut told).unwrap();
                    there.insert(party(number), (text, post, until));
                }
                Act::Take(number) => {
                    point.take(party(number), &mut told);
                    there.remove(&party(number));
                }
                Act::Wait(span) => {
                    now = now + Span(span as i64);
                    point.handle_timeout(now, &mut told);
                    there.retain(|_, (_, _, until)| *until > now);
                }
            }
            // Whoever has gone itself is told nothing, and hears nothing more.
            told.0.retain(|party, _| there.contains_key(party));
            for (one, (text, post, _)) in &there {
                let topics = there.iter().filter(|(other, _)| *other != one);
                let topics = topics.filter_map(|(_, (other_text, other, _))| match (post, other) {
                    (Post::Offer(profile), Post::Want(interest)) => {
                        interest.matches(profile).then(|| Topic::of(text, other_text))
                    }
                    (Post::Want(interest), Post::Offer(profile)) => {
                        interest.matches(profile).then(|| Topic::of(other_text, text))
                    }
                    _ => None,
                });
                let expected: BTreeSet<Topic> = topics.collect();
                prop_assert_eq!(told.0.get(one).cloned().unwrap_or_default(), expected.clone());
                prop_assert_eq!(point.known_of(*one).collect::<BTreeSet<Topic>>(), expected);
            }
            prop_assert_eq!(point.len(), there.len());
            let next = there.values().map(|(_, _, until)| *until).min().unwrap_or(Time::NEVER);
            prop_assert_eq!(point.next_deadline(), next);
        }
    }
}
