use super::*;
use crate::watch::events::FailureCause;
use contract::{Epoch, NodeId, Reign};

/// One event of each kind.
fn all() -> Vec<Event<'static>> {
    let reign = Reign { epoch: Epoch(3), node: NodeId(7) };
    let second = Span::secs(1);
    vec![
        Event::OperatorFailed {
            operator: "rms",
            cause: FailureCause::Budget,
            reason: "too slow",
            budget: Some(second),
            faults: [2, 1, 0],
        },
        Event::OperatorOverdue { operator: "rms", level: 1, limit: second, replaced: true },
        Event::ResultRefused { topic: "t", reason: "full" },
        Event::Promoted { reign, cause: PromotionCause::TakenBack, recovered: 1 },
        Event::SteppedDown { reign },
        Event::Joined { reign },
        Event::Protected { streams: 4 },
        Event::Unprotected { cause: Loneliness::NotJoined },
        Event::HandedOver { forwarded: 5 },
        Event::DetectionSlow { takes: second, failover: second, loss_ppm: 1, round_trip: second },
        Event::PairLinkLossy { loss_ppm: 2, late_by: second, streams: 3 },
        Event::PairLinkFar { takes: second, planned: second, streams: 6 },
        Event::CopyingSlow { takes: second, budget: second },
        Event::BudgetShort { needed: second, budget: second, streams: 3 },
        Event::PairLinkThin { carries: 4, needed: 5, wait: second, streams: 6 },
        Event::TookOverFalsely { patience: second },
        Event::Crowded { clients: 7, takes: second, streams: 8 },
        Event::Refused { client: "c", topic: "t", reason: "too much" },
        Event::SubscriptionRefused { client: "c", filter: "t/#", reason: "too much" },
        Event::BestEffortInstead { client: "c", filter: "t/#", reason: "served as best effort: too much" },
        Event::Expelled { client: "c", reason: "silent" },
        Event::ClientCame { client: "c", user: "u", address: "10.0.0.1", protocol: "MQTT 5", resumed: true },
        Event::ClientGone { client: "c", reason: "silent" },
        Event::PromiseBroken { place: "a stream is there (run.rs:1)", times: 2 },
        Event::GoesRound { client: "c", other: "d", topic: "t", times: 100, within: second },
        Event::MessageGivenUp { client: "c", topic: "t", reason: "too large", times: 4 },
        Event::SessionFull { client: "c", dropped: 9, refused: true },
        Event::SlowSubscriber {
            client: "c",
            shortfall: wire::Shortfall { span: second, dropped: 6, waited: 9, rate: 32_000 },
        },
        Event::TooFast { client: "c", topic: "t", step: Span::micros(1), period: second },
        Event::ClockApart { client: "c", ahead: Span::millis(-1_500), within: Some(second) },
        Event::Reincarnated { client: "c" },
        Event::DeadlineMissed {
            topic: "t",
            publisher: "c",
            by: Span::micros(250),
            missed: 8,
            cause: LateCause::Clock(wire::ClockDifference { ahead: -second, within: second }),
        },
        Event::LossRun { topic: "t", publisher: "c", run: 9, tolerated: 3 },
        Event::OperatorForgets { operator: "fft", reason: "too large" },
        Event::OperatorSlow { operator: "fft", took: second, cost: second },
        Event::SubscriberFar { subscriber: "s", topic: "t", class: "edge", way: second, planned: second },
        Event::EventsBeyond { events: 5 },
        Event::EventsShort { needed: 9, permitted: 8 },
        Event::SubscriberLate { topic: "t", publisher: "c", subscriber: "s", late: 4, by: second },
        Event::SubscriberMissed {
            topic: "t",
            publisher: "c",
            subscriber: "s",
            lost: 9,
            run: 7,
            tolerated: 3,
        },
    ]
}

#[test]
fn kinds_are_distinct_names_that_programs_can_keep() {
    let mut kinds: Vec<&str> = all().iter().map(Event::kind).collect();
    assert!(kinds.iter().all(|kind| kind.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')));
    let count = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), count);
}

#[test]
fn an_events_subject_is_one_of_its_facts() {
    for event in all().iter().filter(|event| !event.subject().is_empty()) {
        let mut found = false;
        event.facts(&mut |_, fact| found |= fact == Fact::Text(event.subject()));
        assert!(found, "{event:?}");
    }
}

#[test]
fn names_of_facts_do_not_repeat_those_that_all_have() {
    for event in all() {
        let mut names = vec!["time_ns", "broker", "kind", "severity", "left_out", "text"];
        event.facts(&mut |name, _| {
            assert!(!names.contains(&name), "{event:?}: {name}");
            names.push(name);
        });
    }
}

#[test]
fn an_event_is_written_with_all_its_facts() {
    let mut out = String::new();
    let event = Event::ClockApart { client: "plc \"7\"\n\\", ahead: Span::millis(-1_500), within: None };
    write_json(&mut out, Time(12), "a", &event, &[("left_out", Fact::Number(3))]);
    let expected = "{\"time_ns\":12,\"broker\":\"a\",\"kind\":\"clock_apart\",\"severity\":\"warn\",\
                    \"client\":\"plc \\\"7\\\"\\n\\\\\",\"ahead_seconds\":-1.500000000,\"left_out\":3,\"text\":\"";
    assert!(out.starts_with(expected), "{out}");
    assert!(out.ends_with("\"}") && !out.contains('\n'));
}

#[test]
fn what_a_peer_calls_itself_cannot_end_or_turn_a_line() {
    let mut out = String::new();
    let event = Event::Reincarnated { client: "a\r\u{1b}[2J\u{2028}\u{85}\0" };
    write_json(&mut out, Time(12), "a", &event, &[]);
    assert!(out.contains("a\\u000d\\u001b[2J\\u2028\\u0085\\u0000"), "{out}");
    assert!(!out.chars().any(char::is_control));
}

#[test]
fn an_operator_that_fails_is_told_with_its_cause_its_budget_and_what_to_do() {
    let mut out = String::new();
    let event = Event::OperatorFailed {
        operator: "mine",
        cause: FailureCause::Budget,
        reason: "it did not end within its budget of 1ms",
        budget: Some(Span::millis(1)),
        faults: [5, 2, 0],
    };
    write_json(&mut out, Time(12), "a", &event, &[]);
    for part in [
        "\"operator\":\"mine\",\"cause\":\"budget\"",
        "\"budget_seconds\":0.001000000,\"faults\":7",
        "7 of its runs have failed so far (5 budget, 2 trap, 0 refused)",
        "raise the operator's `budget`",
    ] {
        assert!(out.contains(part), "lacks {part}: {out}");
    }
}

#[test]
fn a_time_without_end_is_null() {
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object.field("period_seconds", Fact::Seconds(Span::FOREVER));
    object.field("replaced", Fact::Flag(true));
    object.end();
    assert_eq!(out, "{\"period_seconds\":null,\"replaced\":true}");
}

#[test]
fn a_long_text_is_not_said_whole() {
    let (long, mut out) = (format!("plant/{}/7", "x".repeat(40_000)), String::new());
    write_json(&mut out, Time(12), "a", &Event::Reincarnated { client: &long }, &[]);
    assert!(out.len() < 3 * TEXT_BYTES_MAX && out.contains("/7\""), "{}", out.len());
}
