use super::*;
use proptest::prelude::*;

fn ms(value: f64) -> Span {
    Span((value * 1e6).round() as i64)
}

/// FRAME, table 3.2: `(T, D, L, N, ΔBS)` in milliseconds.
fn table(category: usize) -> (Contract, Span) {
    let c = |t, d, n, bs: i64| {
        (Contract::every(Span::millis(t)).deadline(Span::millis(d)).retain(n), Span::millis(bs))
    };
    let (contract, bs) = [
        c(50, 50, 2, 1),
        c(50, 50, 0, 1),
        c(100, 100, 1, 1),
        c(100, 100, 0, 1),
        c(100, 100, 0, 1),
        c(500, 500, 1, 20),
    ][category];
    match category {
        1 | 3 => (contract.tolerate(3), bs),
        4 => (contract.best_effort(), bs),
        _ => (contract, bs),
    }
}

fn delays() -> Delays {
    Delays { publisher_to_broker: Span::ZERO, ..Delays::default() }
}

#[test]
fn table_3_2_is_reproduced() {
    let expected = [
        (49.0, Some(49.95), false, 2),
        (49.0, Some(99.95), false, 0),
        (99.0, Some(49.95), true, 1),
        (99.0, Some(249.95), false, 0),
        (99.0, None, false, 0),
        (480.0, Some(449.95), true, 1),
    ];
    for (category, (dispatch, replication, replicate, retention)) in expected.into_iter().enumerate() {
        let (contract, bs) = table(category);
        let pseudo = pseudo_deadlines(&contract, bs, &delays());
        assert_eq!(pseudo.dispatch, ms(dispatch), "category {category}");
        assert_eq!(pseudo.replication, replication.map_or(Span::FOREVER, ms), "category {category}");
        let needless = replication_is_needless(pseudo.dispatch, pseudo.replication, Span::ZERO);
        assert_eq!(!needless, replicate, "category {category}");
        assert_eq!(smallest_retention(&contract, Span::ZERO, &delays()), retention, "category {category}");
    }
}

#[test]
fn frame_plus_needs_no_replication() {
    for category in [2, 5] {
        let (contract, bs) = table(category);
        let pseudo = pseudo_deadlines(&contract.retain(2), bs, &delays());
        assert!(replication_is_needless(pseudo.dispatch, pseudo.replication, Span::ZERO));
    }
}

#[test]
fn category_0_with_one_retained_message_falls_short_by_the_hop_between_brokers() {
    let contract = table(0).0.retain(1);
    let replication = replication_deadline(&contract, Span::ZERO, &delays());
    assert_eq!(replication, ms(-0.05));
    assert_eq!(shortfall(replication), Some(ms(0.05)));
    assert_eq!(smallest_retention(&contract, Span::ZERO, &delays()), 2);
    let no_hop = Delays { broker_to_broker: Span::ZERO, ..delays() };
    assert_eq!(replication_deadline(&contract, Span::ZERO, &no_hop), Span::ZERO);
    assert_eq!(shortfall(Span::ZERO), None);
}

#[test]
fn the_delay_from_the_publisher_shifts_both_deadlines_and_changes_no_decision() {
    for category in 0..6 {
        let (contract, bs) = table(category);
        let half = ms(0.5);
        let pseudo = pseudo_deadlines(&contract, bs, &delays());
        let (r, d) =
            (replication_deadline(&contract, half, &delays()), dispatch_deadline(&contract, half, bs));
        assert_eq!(d, pseudo.dispatch - half);
        assert_eq!(r, pseudo.replication - half);
        assert_eq!(
            replication_is_needless(d, r, Span::ZERO),
            replication_is_needless(pseudo.dispatch, pseudo.replication, Span::ZERO)
        );
    }
}

#[test]
fn equality_suppresses_and_one_step_less_replicates() {
    let (contract, _) = table(5);
    for (bs, needless) in [(50.05, true), (50.04, false)] {
        let pseudo = pseudo_deadlines(&contract, ms(bs), &delays());
        assert_eq!(replication_is_needless(pseudo.dispatch, pseudo.replication, Span::ZERO), needless);
        assert_eq!(!replication_is_needed(&contract, ms(bs), &delays()), needless);
    }
}

#[test]
fn a_rare_message_is_never_replicated() {
    let rare = Contract::every(Span::FOREVER).deadline(Span::millis(10)).retain(1);
    let pseudo = pseudo_deadlines(&rare, Span::millis(1), &delays());
    assert_eq!(pseudo.replication, Span::FOREVER);
    assert!(replication_is_needless(pseudo.dispatch, pseudo.replication, Span::ZERO));
    let unretained = replication_deadline(&rare.retain(0), Span::ZERO, &delays());
    assert!(
        shortfall(unretained).is_some(),
        "with nothing retained and nothing tolerated no copy is early enough"
    );
}

/// The categories of ARREC, table 4.1, worked out by hand: `x` 30, `ΔPB` 0.25, `ΔBB` 0.05 ms.
#[test]
fn r4_reproduces_the_worked_vectors() {
    let delays = |failover| Delays {
        failover: Span::millis(failover),
        broker_to_broker: ms(0.05),
        publisher_to_broker: ms(0.25),
        ..Delays::default()
    };
    let deadline = |losses, retain, period, every, failover| {
        let contract = Contract::every(Span::millis(period)).tolerate(losses).retain(retain);
        replication_deadline_of_every(&contract, every, ms(0.25), &delays(failover))
    };
    for (losses, retain, period, expected) in [
        (0, 1, 50, &[19.7][..]),
        (0, 1, 100, &[69.7]),
        (0, 1, 500, &[469.7]),
        (3, 0, 50, &[119.7, 69.7, 19.7, -30.3]),
        (3, 0, 100, &[269.7, 169.7, 69.7, -30.3]),
        (1, 1, 50, &[69.7, 19.7]),
        (0, 2, 50, &[69.7]),
    ] {
        for (every, expected) in (1..).zip(expected) {
            let deadline = deadline(losses, retain, period, every, 30);
            assert_eq!(deadline, ms(*expected), "L {losses}, N {retain}, T {period}, M {every}");
        }
    }
    assert_eq!(deadline(3, 1, 50, 4, 30), ms(19.7));
    assert_eq!(deadline(0, 1, 50, 1, 50), ms(-0.3));
    assert_eq!(deadline(3, 0, 50, 3, 50), ms(-0.3));
    assert_eq!(deadline(3, 0, 50, 2, 50), ms(49.7));
}

/// ARREC, lemma 5, as printed gives `L = 0`, `N = 2`, `M = 2` the deadline `N·T - …`. The message between two copies leaves
/// retention without ever being copied.
#[test]
fn lemma_5_would_lose_a_message_where_none_is_tolerated() {
    let contract = Contract::every(Span(100)).retain(2);
    let delays = Delays {
        failover: Span(60),
        broker_to_broker: Span(1),
        publisher_to_broker: Span(2),
        ..Delays::default()
    };
    let printed = Span(2 * 100 - 60 - 1 - 2);
    let lost = |every, response| {
        let crashes = crash_instants(&contract, &delays, response, 40);
        crashes
            .into_iter()
            .map(|crash| longest_run_of_every(&contract, &delays, every, response, crash, 40))
            .max()
    };
    assert_eq!(lost(2, printed), Some(1));
    assert_eq!(lost(2, Span::ZERO), Some(1), "at once would be too late as well");
    assert_eq!(lost(1, printed), Some(0));
    assert_eq!(crate::Every::Max.wanted(&contract), 1);
}

/// The longest run of losses when the primary dies at `crash`, every copy leaves `response` after arrival, and no
/// message is dispatched in time. Message `k` is created at `k·T`.
fn longest_run(contract: &Contract, delays: &Delays, response: Span, crash: i64, messages: i64) -> u64 {
    longest_run_of_every(contract, delays, 1, response, crash, messages)
}

/// The same where one in `every` messages is copied.
fn longest_run_of_every(
    contract: &Contract,
    delays: &Delays,
    every: i64,
    response: Span,
    crash: i64,
    messages: i64,
) -> u64 {
    let period = contract.period.0;
    let redirected = crash + delays.failover.0;
    let last = redirected.div_euclid(period);
    let (mut run, mut longest) = (0, 0);
    for k in 0..messages {
        let marked = k % every == every - 1;
        let copied = marked
            && k * period + delays.publisher_to_broker.0 + response.0 + delays.broker_to_broker.0 <= crash;
        let retained = k > last - i64::from(contract.retain) && k <= last;
        let sent_to_the_backup = k > last;
        run = if copied || retained || sent_to_the_backup { 0 } else { run + 1 };
        longest = longest.max(run);
    }
    longest
}

/// Every instant at which the outcome can change, and its neighbours.
fn crash_instants(contract: &Contract, delays: &Delays, response: Span, messages: i64) -> Vec<i64> {
    let arrivals = delays.publisher_to_broker + response + delays.broker_to_broker;
    (0..messages)
        .flat_map(|k| {
            [
                k * contract.period.0,
                k * contract.period.0 + arrivals.0,
                k * contract.period.0 - delays.failover.0,
            ]
        })
        .flat_map(|instant| [instant - 1, instant, instant + 1])
        .filter(|instant| *instant >= 0 && *instant < (messages / 2) * contract.period.0)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// F1 is enough and tight: at `D^r` no crash instant breaks the contract, one nanosecond later one does.
    #[test]
    fn f1_is_sufficient_and_tight(
        period in 1_i64..2_000, losses in 0_u32..5, retain in 0_u32..5,
        failover in 0_i64..3_000, hop in 0_i64..50, upstream in 0_i64..50,
    ) {
        let contract = Contract::every(Span(period)).tolerate(losses).retain(retain);
        let delays = Delays { failover: Span(failover), broker_to_broker: Span(hop), publisher_to_broker: Span(upstream), ..Delays::default() };
        let bound = replication_deadline(&contract, delays.publisher_to_broker, &delays);
        prop_assume!(bound >= Span::ZERO);
        let messages = 2 * (10 + (failover + bound.0) / period + i64::from(losses + retain));
        for crash in crash_instants(&contract, &delays, bound, messages) {
            let run = longest_run(&contract, &delays, bound, crash, messages);
            prop_assert!(contract.loss.tolerates(run), "{run} lost when the crash is at {crash}");
        }
        let late = bound + Span(1);
        let broken = crash_instants(&contract, &delays, late, messages)
            .into_iter()
            .any(|crash| !contract.loss.tolerates(longest_run(&contract, &delays, late, crash, messages)));
        prop_assert!(broken, "one nanosecond later must break the contract at some instant");
    }

    /// R4 is enough and tight, for every crash instant and with that every phase of the marks.
    #[test]
    fn r4_is_sufficient_and_tight(
        period in 1_i64..2_000, losses in 0_u32..5, retain in 0_u32..5, step in 0_u32..5,
        failover in 0_i64..3_000, hop in 0_i64..50, upstream in 0_i64..50,
    ) {
        let every = 1 + step % (losses + 1);
        let contract = Contract::every(Span(period)).tolerate(losses).retain(retain);
        let delays = Delays { failover: Span(failover), broker_to_broker: Span(hop), publisher_to_broker: Span(upstream), ..Delays::default() };
        let bound = replication_deadline_of_every(&contract, every, delays.publisher_to_broker, &delays);
        prop_assume!(bound >= Span::ZERO);
        let messages = 2 * (15 + (failover + bound.0) / period + i64::from(losses + retain));
        let run_at = |response, crash| longest_run_of_every(&contract, &delays, i64::from(every), response, crash, messages);
        for crash in crash_instants(&contract, &delays, bound, messages) {
            let run = run_at(bound, crash);
            prop_assert!(contract.loss.tolerates(run), "{run} lost when the crash is at {crash}");
        }
        let late = bound + Span(1);
        let instants = crash_instants(&contract, &delays, late, messages);
        let broken = instants.into_iter().any(|crash| !contract.loss.tolerates(run_at(late, crash)));
        prop_assert!(broken, "one nanosecond later must break the contract at some instant");
    }

    /// F5 is the smallest retention for which F4 holds.
    #[test]
    fn f5_is_the_smallest_retention(period in 1_i64..2_000, losses in 0_u32..5, failover in 0_i64..9_000, hop in 0_i64..50) {
        let delays = Delays { failover: Span(failover), broker_to_broker: Span(hop), publisher_to_broker: Span(3), ..Delays::default() };
        let contract = Contract::every(Span(period)).tolerate(losses);
        let least = smallest_retention(&contract, Span(3), &delays) as u32;
        let bound = |retain| replication_deadline(&contract.retain(retain), Span(3), &delays);
        prop_assert!(bound(least) >= Span::ZERO);
        prop_assert!(least == 0 || bound(least - 1) < Span::ZERO);
    }

    /// F3 and F3' are the same decision, whatever the delay from the publisher.
    #[test]
    fn f3_and_its_short_form_agree(
        period in 1_i64..2_000, deadline in 1_i64..4_000, losses in 0_u32..4, retain in 0_u32..4,
        failover in 0_i64..3_000, bs in 0_i64..500, upstream in 0_i64..500,
    ) {
        let delays = Delays { failover: Span(failover), broker_to_broker: Span(7), publisher_to_broker: Span(upstream), ..Delays::default() };
        let contract = Contract::every(Span(period)).deadline(Span(deadline)).tolerate(losses).retain(retain);
        let d = dispatch_deadline(&contract, Span(upstream), Span(bs));
        let r = replication_deadline(&contract, Span(upstream), &delays);
        prop_assert_eq!(!replication_is_needless(d, r, Span::ZERO), replication_is_needed(&contract, Span(bs), &delays));
    }
}
