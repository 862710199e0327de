use super::*;
use contract::Span;
use sim::{Act, LastWrites};

fn hosts() -> Hosts {
    Hosts::new(["a", "b"], &["publisher-1", "publisher-2"], &["subscriber-cloud", "subscriber-edge"])
}

/// What a text means, or what is said about it.
fn reading(text: &str, asked: Option<Span>) -> Result<Script, String> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("verge-scenario-{}-{number}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let script = read(&path, &hosts(), asked);
    std::fs::remove_file(&path).unwrap();
    script.map_err(|problems| problems.to_string())
}

/// The only fault of a scenario with these lines.
fn fault(lines: &str) -> Act {
    let script = reading(&format!("[[fault]]\nat = \"1s\"\n{lines}"), None)
        .unwrap_or_else(|report| panic!("{report}"));
    script.faults[0].act.clone()
}

/// A scenario with these lines is refused, and the report says all of this.
fn refused(text: &str, says: &[&str]) {
    let report = reading(text, None).unwrap_err();
    for expected in says {
        assert!(report.contains(expected), "lacks {expected:?}:\n{report}");
    }
    assert!(report.ends_with("in the scenario"), "{report}");
}

#[test]
fn every_kind_of_fault_is_understood() {
    let (target, span) = (Target::Primary, Span::millis(200));
    assert_eq!(
        fault(
            "kind = \"crash\"\nhost = \"primary\"\nrestart = \"2s\"\nlast_writes = { connections = 1, percent = 50 }"
        ),
        Act::Crash { target, writes: LastWrites::Some(1, 50), restart: Some(Span::secs(2)) }
    );
    assert_eq!(
        fault("kind = \"host-crash\"\nhost = \"b\""),
        Act::HostCrash { target: Target::Broker(1), restart: None }
    );
    assert_eq!(fault("kind = \"pause\"\nhost = \"primary\"\nfor = \"200ms\""), Act::Pause { target, span });
    assert_eq!(
        fault(
            "kind = \"partition\"\nbetween = [[\"a\"], [\"b\", \"publisher-2\"]]\nfor = \"200ms\"\none_way = true"
        ),
        Act::Partition {
            from: vec![Target::Broker(0)],
            to: vec![Target::Broker(1), Target::Publisher(1)],
            one_way: true,
            span
        }
    );
    assert_eq!(
        fault("kind = \"break\"\nfrom = \"subscriber-edge\"\nto = \"primary\"\ndelivers = true"),
        Act::Break { from: Target::Subscriber(1), to: target, delivers: true, half_open: false }
    );
    assert_eq!(fault("kind = \"handover\""), Act::Handover);
    assert_eq!(
        fault("kind = \"clock-step\"\nhost = \"a\"\nby = \"-2s\""),
        Act::ClockStep { target: Target::Broker(0), by: Span::secs(-2) }
    );
    assert_eq!(
        fault("kind = \"slow\"\nhost = \"backup\"\ntimes = 10\nfor = \"200ms\""),
        Act::Slow { target: Target::Backup, times: 10, span }
    );
}

#[test]
fn workload_network_and_clocks_are_understood() {
    let text = "\
duration = \"40s\"
[workload]
payload = 100
pace = \"sporadic\"
jitter = 30
[network]
pair = { least = \"10us\", typical = \"20us\", most = \"50us\" }
[clock]
b = { offset = \"-1ms\", drift_ppm = 0.5 }
[[fault]]
kind = \"handover\"
after = \"500ms\"
";
    let script = reading(text, None).unwrap();
    let [least, typical, most] = [10, 20, 50].map(Span::micros);
    assert_eq!((script.length, script.payload), (Some(Span::secs(40)), Some(100)));
    assert_eq!(script.pace, Some(Pace::Sporadic(30)));
    assert_eq!(script.pair, Some(Latency { least, typical, most }));
    let clock = ClockError { offset: Span::millis(-1), drift_ppb: 500 };
    assert_eq!(script.clocks, [(Target::Broker(1), clock)]);
    assert_eq!(script.faults[0].when, When::Settled(Span::millis(500)));
}

#[test]
fn an_unknown_host_is_shown_with_those_that_there_are() {
    let text = "[[fault]]\nkind = \"crash\"\nat = \"1s\"\nhost = \"primay\"\n";
    refused(
        text,
        &[":4:8", "no host is called `primay`", "did you mean `primary`?", "publisher-2, subscriber-cloud"],
    );
    refused(
        "[clock]\nc = { offset = \"1ms\" }\n",
        &[":2:1", "no host is called `c`", "there are primary, backup, a, b"],
    );
    refused("[clock]\nprimary = {}\n", &[":2:1", "a clock belongs to a host", "name the host"]);
    refused(
        "[[fault]]\nkind = \"pause\"\nat = \"1s\"\nfor = \"1s\"\nhost = 3\n",
        &[":5:8", "3 is no host", "write a name"],
    );
}

#[test]
fn a_fault_outside_of_the_run_is_shown() {
    let text = "duration = \"20s\"\n[[fault]]\nkind = \"handover\"\nat = \"30s\"\n";
    refused(text, &[":4:6", "after the end of the run: duration is 20s", "lengthen duration"]);
    let report = reading(text, Some(Span::secs(25))).unwrap_err();
    assert!(report.contains("--for is 25s"), "{report}");
    assert!(reading(text, Some(Span::secs(40))).is_ok());
    let text = "[[fault]]\nkind = \"handover\"\nat = \"3s\"\n[[fault]]\nkind = \"handover\"\nat = \"2s\"\n";
    refused(text, &[":6:6", "comes after one at 3s", "move it up"]);
}

#[test]
fn a_time_that_is_none_is_shown_with_what_to_write() {
    let crash = |time: &str| format!("[[fault]]\nkind = \"crash\"\nhost = \"a\"\nat = {time}\n");
    refused(&crash("30"), &[":4:6", "`30` has no unit", "\"30ms\""]);
    refused(&crash("\"-3s\""), &[":4:6", "-3s is negative"]);
    refused(&crash("\"inf\""), &[":4:6", "nothing here lasts forever"]);
    refused(&crash("\"5 minutes\""), &[":4:6", "the units are ns, us, ms, s, min, h"]);
    refused("duration = \"0s\"\n", &[":1:12", "a run of no length", "\"10s\""]);
    refused("[[fault]]\nkind = \"handover\"\n", &[":1:1", "lacks `at`", "say when"]);
    refused(
        "[[fault]]\nkind = \"handover\"\nat = \"1s\"\nafter = \"1s\"\n",
        &[":4:9", "both `at` and `after`", "leave one"],
    );
    let step = "[[fault]]\nkind = \"clock-step\"\nat = \"1s\"\nhost = \"a\"\nby = 2\n";
    refused(step, &[":5:6", "`2` has no unit", "\"-2s\""]);
}

#[test]
fn a_key_that_is_missing_is_shown_for_every_kind() {
    for (kind, key, remedy) in [
        ("crash", "host", "host = \"primary\""),
        ("host-crash", "host", "host = \"primary\""),
        ("pause", "for", "for = \"200ms\""),
        ("partition", "between", "between = [[\"a\"]"),
        ("break", "from", "from = \"publisher-1\""),
        ("break", "to", "to = \"primary\""),
        ("clock-step", "by", "by = \"-2s\""),
        ("slow", "times", "times = 10"),
    ] {
        let text = format!("[[fault]]\nat = \"1s\"\nkind = \"{kind}\"\n");
        refused(&text, &[":1:1", &format!("a {kind} lacks `{key}`"), remedy]);
    }
    refused("[[fault]]\nat = \"1s\"\n", &[":1:1", "lacks `kind`", "crash, host-crash, pause"]);
    let pair = "[network]\npair = { least = \"1us\", most = \"2us\" }\n";
    refused(pair, &[":2:8", "network.pair lacks `typical`", "typical = \"20us\""]);
}

#[test]
fn what_nobody_knows_is_shown_with_what_was_meant() {
    refused(
        "[[fault]]\nat = \"1s\"\nkind = \"crsh\"\n",
        &[":3:8", "no fault is called `crsh`", "did you mean `crash`?"],
    );
    let text = "[[fault]]\nat = \"1s\"\nkind = \"crash\"\nhost = \"a\"\nrestrat = \"1s\"\n";
    refused(text, &[":5:1", "unknown key `restrat`", "did you mean `restart`?"]);
    refused("duratoin = \"1s\"\n", &[":1:1", "did you mean `duration`?"]);
    refused(
        "[workload]\npaylod = 1\n",
        &[":2:1", "unknown key `workload.paylod`", "did you mean `payload`?"],
    );
    refused("[network]\npear = 1\n", &[":2:1", "did you mean `pair`?"]);
    refused("[clock]\na = { ofset = \"1s\" }\n", &[":2:7", "did you mean `offset`?"]);
}

#[test]
fn values_that_make_no_sense_are_shown() {
    refused("[workload]\npayload = 3\n", &[":2:11", "a payload of 3 bytes", "from 12"]);
    refused("[workload]\npace = \"fast\"\n", &[":2:8", "\"periodic\" or \"sporadic\""]);
    refused("[workload]\njitter = 30\n", &[":2:10", "only a sporadic pace has jitter", "add pace"]);
    refused("workload = 3\n", &[":1:12", "`workload` is a table", "write [workload]"]);
    refused("fault = 3\n", &[":1:9", "faults are a list", "write [[fault]]"]);
    refused("fault = [3]\n", &[":1:10", "a fault must be a table"]);
    refused("[clock]\na = { drift_ppm = \"fast\" }\n", &[":2:19", "this is no drift", "drift_ppm = 20"]);
    let pair = "[network]\npair = { least = \"3us\", typical = \"2us\", most = \"4us\" }\n";
    refused(pair, &[":2:8", "least 3us, typical 2us", "order them"]);
    let part = |between: &str| {
        format!("[[fault]]\nat = \"1s\"\nkind = \"partition\"\nfor = \"1s\"\nbetween = {between}\n")
    };
    refused(&part("[\"a\", \"b\"]"), &[":5:11", "not two groups", "between = [[\"a\"]"]);
    refused(&part("[[\"a\"], [\"b\"], []]"), &[":5:11", "not two groups"]);
    refused(&part("[[\"a\"], [\"a\", \"b\"]]"), &[":5:11", "none may be in both"]);
    let cut = "[[fault]]\nat = \"1s\"\nkind = \"break\"\nfrom = \"publisher-1\"\nto = \"subscriber-edge\"\n";
    refused(cut, &[":5:6", "there is no connection", "connected to brokers"]);
    let slow = "[[fault]]\nat = \"1s\"\nkind = \"slow\"\nhost = \"a\"\nfor = \"1s\"\ntimes = 1\n";
    refused(slow, &[":6:9", "whole number from 2"]);
    let crash = "[[fault]]\nat = \"1s\"\nkind = \"crash\"\nhost = \"a\"\nlast_writes = { percent = 101 }\n";
    refused(crash, &[":5:27", "from 0 to 100"]);
}

#[test]
fn broken_syntax_is_shown_where_it_is_with_everything_else() {
    let text = "duration = = 3\n[[fault]]\nkind = \"crash\"\nat = 3\nhost = \"c\"\n";
    refused(text, &[":1:12", "this is not TOML", "mend the syntax here", ":4:6", ":5:8"]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let report = read(Path::new("/nowhere/scenario.toml"), &hosts(), None).unwrap_err().to_string();
    assert!(
        report.contains("cannot read /nowhere/scenario.toml") && report.contains("--scenario"),
        "{report}"
    );
    assert!(report.ends_with("1 problem in the scenario"), "{report}");
}
