use super::*;
use serde_json::json;
use std::collections::BTreeSet;

/// What a node says of itself, with everything that it can say.
fn report() -> Value {
    let peer = json!({
        "name": "b", "address": "127.0.0.1:7602", "sends": true, "hears": false, "silent": 3, "late": 4, "forged": 5, "wrong": 6,
        "repeated": 7, "lied": 8, "differed": 9, "clock_ahead_seconds": [-0.001, 0.002],
    });
    json!({ "node": "a", "lanes": [{
        "lane": 0, "state": "running", "period_seconds": 0.05, "offset_seconds": 0.005, "round_seconds": 0.01, "keys": 2,
        "jobs": { "counted": 10, "complete": 9, "skipped": 1, "fenced": 2, "recovered": 1, "disagreed": 0, "alarms": 0 },
        "troubled_seconds_ago": null, "knows_all": true, "alarm": false,
        "last": { "job": 77, "silent": [], "liars": [], "differ": [], "agree": ["b"], "alarm": false, "fenced": false, "sure": true },
        "coordination_seconds": { "mean": 0.01, "p50": 0.01, "p99": 0.02, "p999": 0.02, "worst": 0.03 },
        "margin_min_seconds": 0.02, "late_publish": 0, "votes_failed": 0, "clock_back_seconds": 0.0,
        "writes": { "taken": 5, "too_late": 1, "refused": 2, "broken_clients": 0 },
        "peers": [peer], "clients": [{ "slot": 0, "name": "t", "tuples": 4 }],
    }] })
}

/// The report with something else at this place.
fn with(path: &str, value: Value) -> Value {
    let mut report = report();
    *report.pointer_mut(&format!("/lanes/0{path}")).unwrap() = value;
    report
}

fn codes(report: &Value) -> Vec<(&'static str, bool)> {
    node_reasons(report).iter().map(|reason| (reason.code, reason.blocking)).collect()
}

#[test]
fn every_metric_of_the_table_is_found_in_what_a_node_says() {
    let text = render_node(&report());
    for metric in NODE_METRICS {
        let labelled = format!("\n{}{{lane=\"0\"", metric.name);
        assert!(text.contains(&labelled), "{} is not in\n{text}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
    }
    let names: BTreeSet<&str> = NODE_METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), NODE_METRICS.len());
    for line in [
        "verge_kv_running{lane=\"0\"} 1",
        "verge_kv_peer_hears{lane=\"0\",peer=\"b\"} 0",
        "verge_kv_peer_lied_total{lane=\"0\",peer=\"b\"} 8",
        "verge_kv_peer_clock_ahead_seconds{lane=\"0\",peer=\"b\",bound=\"least\"} -0.001",
        "verge_kv_writes_total{lane=\"0\",fate=\"too_late\"} 1",
        "verge_kv_clients{lane=\"0\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    // What there is nothing to say of is left out.
    let text = render_node(&with("/coordination_seconds", Value::Null));
    assert!(!text.contains("verge_kv_coordination"), "{text}");
}

#[test]
fn a_node_is_ready_that_may_be_believed_and_says_what_is_wrong_otherwise() {
    assert_eq!(codes(&report()), []);
    assert_eq!(codes(&with("/state", json!("starting"))), [("starting", true)]);
    assert_eq!(codes(&with("/knows_all", json!(false))), [("unknown", true)]);
    assert_eq!(codes(&with("/alarm", json!(true))), [("alarm", true)]);
    assert_eq!(codes(&with("/last/silent", json!(["b", "c"]))), [("silent", false)]);
    assert_eq!(node_reasons(&with("/last/silent", json!(["b", "c"])))[0].text, "lane 0: not heard: b, c");
    assert_eq!(codes(&with("/last/liars", json!(["b"]))), [("lying", false)]);
    assert_eq!(codes(&with("/last/differ", json!(["b"]))), [("differs", false)]);
    assert_eq!(codes(&with("/troubled_seconds_ago", json!(59.0))), [("troubled", false)]);
    assert_eq!(codes(&with("/troubled_seconds_ago", json!(61.0))), []);
}

#[test]
fn a_lane_that_ends_no_job_stands_still() {
    let (mut turning, begin) = (Turning::default(), Instant::now());
    let at = |millis| begin + Duration::from_millis(millis);
    assert!(turning.look(&report(), at(0)));
    assert!(turning.look(&report(), at(2_000)));
    assert!(!turning.look(&report(), at(2_001)), "two seconds are more than five periods");
    assert!(turning.look(&with("/last/job", json!(78)), at(2_002)));
    // A slow lane has longer.
    let mut turning = Turning::default();
    let slow = with("/period_seconds", json!(1.0));
    assert!(turning.look(&slow, at(0)) && turning.look(&slow, at(5_000)) && !turning.look(&slow, at(5_001)));
    // One that waits for its clock, or has not begun, is not dead.
    for waits in [with("/clock_back_seconds", json!(3.0)), with("/state", json!("starting"))] {
        let mut turning = Turning::default();
        assert!(turning.look(&waits, at(0)) && turning.look(&waits, at(60_000)));
    }
}
