use super::*;
use crate::timing::{self, replication_deadline};
use crate::{Delays, LinkClass, LinkDelay, Links, Needs, Time};
use proptest::prelude::*;

fn hop(link: [i64; 2], response: i64, guard: Guard, retain: u32) -> Hop {
    let [link_least, link] = link.map(Span::micros);
    Hop { link, link_least, response: Span::micros(response), guard, retain }
}

const PAIR: Guard = Guard::Pair { failover: Span::millis(50), broker_to_broker: Span::micros(50) };
const ALONE: Guard = Guard::Alone { reassigned: Span::millis(6_000) };

/// A site's pair, a router and another site's pair, across 40 ms each way.
fn plant() -> Path {
    Path {
        hops: vec![
            hop([0, 1_000], 2_000, PAIR, 2),
            hop([38_000, 42_000], 1_000, ALONE, 200),
            hop([38_000, 42_000], 2_000, PAIR, 8),
        ],
        to_subscriber: Span::millis(1),
    }
}

fn contract() -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::millis(200)).tolerate(0).retain(2)
}

#[test]
fn a_plan_says_what_each_hop_has_to_keep() {
    let plans = plant().plan(&contract()).unwrap();
    let ages = plans.iter().map(|plan| plan.age_at_dispatch);
    // 200 ms less what is behind: 42 + 1 + 42 + 2 + 1, then 42 + 2 + 1, then 1.
    assert!(ages.eq([112, 155, 199].map(Span::millis)));
    // The first hop is FRAME's: (2 + 0)·50 - 1 - 0.05 - 50.
    assert_eq!(plans[0].cover, Span::micros(48_950));
    // The router: 200·50 less the jitter 3, the silence 6000, the link 42 and the way on 42.
    assert_eq!(plans[1].cover, Span::millis(10_000 - 3 - 6_000 - 84));
    // 8·50 less the jitter 3 + 4 + 1, the failover 50, the link 42 and the way to the backup.
    assert_eq!(plans[2].cover, Span::micros(400_000 - 8_000 - 50_000 - 42_000 - 50));
    // The router has what leaves the first site after 1 + 2 + 42 ms, and publishers cover 50: no copies. 48 ms are too many.
    assert_eq!(plans.iter().map(|plan| plan.copies).collect::<Vec<_>>(), [false, false, false]);
    let mut far = plant();
    far.hops[1].link = Span::millis(48);
    assert!(far.plan(&contract()).unwrap()[0].copies);
}

#[test]
fn the_first_hop_is_that_of_one_broker_pair() {
    let path = Path { hops: vec![plant().hops[0]], to_subscriber: Span::millis(1) };
    let delays = Delays { publisher_to_broker: Span::millis(1), ..Delays::default() };
    let plan = path.plan(&contract()).unwrap()[0];
    assert_eq!(plan.cover, replication_deadline(&contract(), Span::millis(1), &delays));
    let dispatch = timing::dispatch_deadline(&contract(), Span::ZERO, Span::millis(1));
    assert_eq!(plan.age_at_dispatch, dispatch);
}

#[test]
fn a_refusal_names_the_hop_and_what_would_do() {
    let short = Contract { deadline: Span::millis(90), ..contract() };
    let refusal = plant().plan(&short).unwrap_err();
    assert_eq!(refusal, PathRefusal::TooLong { takes: Span::millis(91), slowest: 2 });
    assert_eq!(refusal.to_string(), "the way takes up to 91ms, most of it at hop 3");

    let mut path = plant();
    path.hops[1].retain = 100;
    let refusal = path.plan(&contract()).unwrap_err();
    let PathRefusal::TooThin { hop: 1, retain, .. } = refusal else { panic!("{refusal}") };
    path.hops[1].retain = u32::try_from(retain).unwrap();
    assert!(path.plan(&contract()).is_ok());
    path.hops[1].retain -= 1;
    assert!(path.plan(&contract()).is_err());
}

#[test]
fn where_any_number_may_be_lost_only_time_counts() {
    let mut path = plant();
    path.hops.iter_mut().for_each(|hop| hop.retain = 0);
    let plans = path.plan(&contract().best_effort()).unwrap();
    assert!(plans.iter().all(|plan| !plan.copies && plan.cover.is_forever()));
}

/// What of a stream is lost at a hop that dies: the longest run. Passings are in order; safe is what passed so long before the crash.
fn longest_run(passings: &[i64], crash: i64, again: i64, safe: i64, retain: usize) -> u64 {
    let passed = passings.iter().filter(|passing| **passing <= again).count();
    let retained = passed.saturating_sub(retain);
    let lost = |place: usize| place < retained && passings[place] + safe > crash;
    let mut longest = [0, 0];
    for place in 0..passed {
        longest[0] = if lost(place) { longest[0] + 1 } else { 0 };
        longest[1] = longest[1].max(longest[0]);
    }
    longest[1]
}

/// Passings of messages that are created so far apart, each delayed as is given, in order.
fn passings(gaps: &[i64], delays: &[i64]) -> Vec<i64> {
    let (mut created, mut last) = (0, i64::MIN);
    let each = gaps.iter().zip(delays).map(|(gap, delay)| {
        created += gap;
        last = last.max(created + delay);
        last
    });
    each.collect()
}

/// A site's pair, so many routers, and another site's pair.
fn any_path() -> impl Strategy<Value = Path> {
    let pair = (1_i64..80, 0_i64..5_000).prop_map(|(failover, between)| Guard::Pair {
        failover: Span::millis(failover),
        broker_to_broker: Span::micros(between),
    });
    let hop = (0_i64..60_000, 0_i64..20_000, pair, 0_u32..60)
        .prop_map(|(link, response, guard, retain)| hop([0, link], response, guard, retain));
    (prop::collection::vec(hop, 1..5), 0_i64..20_000)
        .prop_map(|(hops, last)| Path { hops, to_subscriber: Span::micros(last) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// What brokers plan that each know their own part of the way is what the lemma says of the whole.
    #[test]
    fn what_each_broker_plans_by_itself_is_the_plan_of_the_whole_way(
        path in any_path(), period in 1_i64..400, deadline in 1_i64..400, losses in prop::option::of(0_u32..4),
    ) {
        let contract = Contract::every(Span::millis(period)).deadline(Span::millis(deadline));
        let contract = losses.map_or(contract.best_effort(), |losses| contract.tolerate(losses));
        let Ok(plans) = path.plan(&contract) else { return Ok(()) };
        let mut age = Span::ZERO;
        for (number, (at, plan)) in path.hops.iter().zip(plans).enumerate() {
            age += at.link;
            let Guard::Pair { failover, broker_to_broker } = at.guard else { panic!("only pairs") };
            let delays = Delays { failover, broker_to_broker, publisher_to_broker: Span::ZERO, response: at.response };
            let contract = Contract { retain: at.retain, ..contract };
            let planned = Planned { contract, hop: AtHop { age, ..AtHop::default() } };
            // Who hands on is as far away as the next hop, and behind it is what is left of the way.
            let way = path.hops.get(number + 1).map_or(path.to_subscriber, |next| next.link);
            let links = Links::new([(LinkClass::EDGE, LinkDelay { to_subscriber: way, confirmation: Span::ZERO })]);
            let onward = path.behind(number) - way;
            let needs = Needs { onward, ..Needs::NONE };
            let strict = links.strictest(planned, [needs], &delays).unwrap();
            let dispatch = timing::dispatch_deadline(&strict.contract, Span::ZERO, way);
            prop_assert_eq!(replication_deadline(&contract, age, &delays), plan.cover);
            prop_assert!(dispatch <= plan.age_at_dispatch, "{} {}", dispatch, plan.age_at_dispatch);
            if onward > Span::ZERO {
                let by_response = if losses.is_some() { age + at.response } else { Span::FOREVER };
                prop_assert_eq!(dispatch, by_response.min(plan.age_at_dispatch));
            }
            age += at.response;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// The path lemma is enough: whatever passes when, and whenever the hop dies, no more than `L` in a row are lost.
    #[test]
    fn what_is_safe_in_time_loses_no_more_than_is_tolerated(
        period in 1_i64..20,
        jitter in 0_i64..60,
        silence in 0_i64..50,
        (retain, loss) in (0_u32..6, 0_u32..4),
        more in proptest::collection::vec(prop_oneof![3 => Just(0_i64), 1 => 0_i64..30], 60),
        delays in proptest::collection::vec(0_i64..=60, 60),
        crash in 0_i64..900,
        again in 0_i64..50,
    ) {
        let gaps: Vec<i64> = more.iter().map(|more| period + more).collect();
        let span = i64::from(retain + loss) * period;
        let (jitter, silence) = (jitter % (span + 1), silence % (span - jitter % (span + 1) + 1));
        let delays: Vec<i64> = delays.iter().map(|delay| (*delay).clamp(5, jitter + 5)).collect();
        let safe = span - jitter - silence;
        let passings = passings(&gaps, &delays);
        let run = longest_run(&passings, crash, crash + again.min(silence), safe, retain as usize);
        prop_assert!(run <= u64::from(loss), "{run} in a row");
    }

    /// And tight: one nanosecond longer, and there is a moment at which one more is lost.
    #[test]
    fn a_nanosecond_later_there_is_a_crash_that_costs_too_many(
        period in 1_i64..20,
        jitter in 0_i64..60,
        silence in 0_i64..50,
        (retain, loss) in (0_u32..6, 0_u32..4),
    ) {
        let span = i64::from(retain + loss) * period;
        // What comes later cannot pass what comes first.
        let (jitter, silence) = (jitter % (span + 1), silence % (span - jitter % (span + 1) + 1));
        let safe = span - jitter - silence + 1;
        // The first after a safe one is as slow as can be, all others as fast.
        let first = 10;
        let delays: Vec<i64> = (0..60).map(|place| if place == first { jitter } else { 0 }).collect();
        let passings = passings(&[period; 60], &delays);
        let newest = first + (retain + loss) as usize;
        let again = passings[newest];
        let crash = again - silence;
        let run = longest_run(&passings, crash, again, safe, retain as usize);
        prop_assert!(run > u64::from(loss), "{run} in a row");
    }

    /// Whatever a plan says, messages that take no longer than each hop may take come in time; and each bound is tight.
    #[test]
    fn deadlines_by_age_add_up(
        links in proptest::collection::vec((0_i64..50_000, 0_i64..50_000, 0_i64..5_000), 1..5),
        deadline in 1_000_i64..400_000,
    ) {
        let hops: Vec<Hop> =
            links.iter().map(|(least, more, response)| hop([*least, least + more], *response, PAIR, 100)).collect();
        let path = Path { hops: hops.clone(), to_subscriber: Span::micros(700) };
        let contract = Contract::every(Span::secs(1)).deadline(Span::micros(deadline)).best_effort();
        match path.plan(&contract) {
            Ok(plans) => {
                for (place, plan) in plans.iter().enumerate() {
                    // Handed on at the last moment, and then as slow as can be.
                    let rest: i64 = hops[place + 1..].iter().map(|hop| (hop.link + hop.response).0).sum();
                    prop_assert_eq!(plan.age_at_dispatch.0 + rest + 700_000, contract.deadline.0);
                }
            }
            Err(PathRefusal::TooLong { takes, .. }) => prop_assert!(takes > contract.deadline),
            Err(refusal) => prop_assert!(false, "{}", refusal),
        }
    }

    /// An age is never told more exactly than it is known: the truth lies within, for any clocks and any share of a round trip.
    #[test]
    fn the_truth_lies_within_the_error(
        hops in proptest::collection::vec((0_i64..1_000_000_000, -190_i64..190, 0_i64..100_000_000, 0_i64..100_000_000), 1..6),
    ) {
        let (mut age, mut truth) = (Age::default(), 0.0);
        for (residence, drift, there, back) in hops {
            let measured = residence as f64 * (1.0 + drift as f64 / 1e6);
            age = age.after_residence(Span(measured as i64)).after_link(Span(there + back), Span(there.min(back)));
            truth += residence as f64 + there as f64;
        }
        let error = (truth - age.measured.0 as f64).abs();
        prop_assert!(error <= age.within.0 as f64 + 1.0, "{} off, told {}", error, age.within);
    }
}

#[test]
fn what_cannot_be_judged_is_not() {
    let age = Age { measured: Span::millis(100), within: Span::millis(10) };
    assert_eq!(age.judge(Span::millis(110)), Timeliness::InTime);
    assert_eq!(age.judge(Span::micros(109_999)), Timeliness::CannotBeJudged);
    assert_eq!(age.judge(Span::millis(90)), Timeliness::CannotBeJudged);
    assert_eq!(age.judge(Span::micros(89_999)), Timeliness::Late);
}

/// Crashes of two hops so far apart cost different messages, and one created between them is lost at neither.
#[test]
fn crashes_that_are_apart_are_charged_apart() {
    let (path, contract) = (plant(), contract());
    let apart = path.apart(&contract);
    for (one, two) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
        let first = Time(1_000_000_000_000);
        let second = first + apart;
        let last_lost = first + path.hops[one].guard.silence();
        let earliest_lost = second + -(path.age_at_passing(two) + path.safe_within(&contract, two));
        assert!(last_lost <= earliest_lost, "hops {one} and {two}");
    }
}
