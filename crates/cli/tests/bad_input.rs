//! What a person may get wrong: the program says where, says what to do, and ends with the right code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::{Value, json};
use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;
use support::{Folder, Pair, Ran, Receiver, Site, free_ports};

/// The exit code for trouble.
const TROUBLE: i32 = 2;

/// Lets the program look at a configuration.
fn check(text: &str) -> Ran {
    let folder = Folder::new();
    let path = folder.write("bad.toml", text);
    folder.run(["config".as_ref(), "check".as_ref(), path.as_os_str()])
}

#[test]
fn broken_syntax_is_shown_at_its_line_and_column() {
    check("[network]\nfailover = \"50ms\"\n\n[detection\npoll = \"5ms\"\n")
        .must(TROUBLE, &["bad.toml:4:11", "this is not TOML", "mend the syntax here"]);
    check("[network]\nfailover = = 3\n").must(TROUBLE, &["bad.toml:2:12", "this is not TOML"]);
}

#[test]
fn an_unknown_key_is_shown_with_the_one_that_was_meant() {
    let ran = check("[detection]\nmisses = 3\npol = \"5ms\"\n");
    ran.must(TROUBLE, &["unknown key `detection.pol`", "bad.toml:3:1", "did you mean `poll`?"]);
}

#[test]
fn a_bad_unit_is_shown_with_an_example() {
    let ran = check("[detection]\n  poll = \"5 minutes\"\n");
    ran.must(TROUBLE, &["detection.poll", "bad.toml:2:10", "the units are ns, us, ms, s, min, h"]);
    let ran = check("[[topic]]\nfilter = \"a\"\nperiod = 50\n");
    ran.must(TROUBLE, &["period", "bad.toml:3:10", "write for example \"50ms\""]);
}

#[test]
fn all_problems_are_shown_at_once_each_with_place_and_remedy() {
    let text = "\
[network]
failover = \"10ms\"

[detection]
pol = \"5ms\"
misses = 0

[limits]
ring_slots_min = 64
ring_slots_max = 8

[brokers.a]
clients = \"127.0.0.1:7001\"
pair = \"127.0.0.1:7001\"

[[topic]]
filter = \"a/#/b\"
period = \"50ms\"

[[topic]]
filter = \"a\"
period = \"50 parsecs\"
link = \"radio\"
";
    let ran = check(text);
    ran.must(
        TROUBLE,
        &[
            "bad.toml:2:12",
            "network.failover (10ms) is shorter than a failure takes to be detected",
            "lengthen network.failover, or poll more often",
            "bad.toml:5:1",
            "did you mean `poll`?",
            "bad.toml:6:10",
            "whole number from 1 to 100",
            "bad.toml:9:18",
            "limits.ring_slots_min is above limits.ring_slots_max",
            "bad.toml:14:8",
            "brokers.a.pair and brokers.a.clients are both 127.0.0.1:7001",
            "give each its own port",
            "bad.toml:17:10",
            "`#` may only be the last level",
            "bad.toml:22:10",
            "7 problems in the configuration",
        ],
    );
}

#[test]
fn a_missing_configuration_is_named_with_the_remedy() {
    let folder = Folder::new();
    let ran = folder.run(["--config", "nowhere.toml", "config", "show"]);
    ran.must(TROUBLE, &["cannot read nowhere.toml", "--config"]);
}

#[test]
fn a_broker_that_is_not_configured_is_named_with_those_that_are() {
    let site = Site::new("");
    site.run(&["broker", "nosuch"]).must(TROUBLE, &["no broker `nosuch` is configured: there are a, b"]);
    site.run(&["broker"]).must(TROUBLE, &["which broker?", "verge broker NAME", "a, b"]);
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    for which in 0..2 {
        let site = Site::new("");
        let taken = format!("127.0.0.1:{}", site.ports[which]);
        let _other = TcpListener::bind(&taken).unwrap();
        let remedy = "stop it or choose another port";
        site.run(&["broker", "a"]).must(TROUBLE, &[&format!("{taken} is in use"), remedy]);
    }
}

#[test]
fn where_nobody_listens_the_addresses_are_named() {
    let folder = Folder::new();
    let [first, second] = free_ports::<2>().map(|port| format!("127.0.0.1:{port}"));
    let ran = folder.run(["pub", "-h", &first, "-h", &second, "-t", "x", "-m", "y"]);
    let [first, second] = [first, second].map(|address| format!("{address} nobody listens there"));
    ran.must(TROUBLE, &["no primary broker was found", &first, &second, "start one with `verge broker a`"]);
    ran.must(TROUBLE, &["within 5s"]);
}

#[test]
fn an_address_that_is_none_is_named_with_the_form() {
    let folder = Folder::new();
    let ran = folder.run(["pub", "-h", "no host at all:7571", "-t", "x", "-m", "y"]);
    ran.must(TROUBLE, &["`no host at all:7571` is no address", "write host:port"]);
}

#[test]
fn bad_topics_are_refused_with_the_rule_that_they_break() {
    let pair = Pair::start("");
    let run = |arguments: &[&str]| pair.site.run(arguments);
    run(&["sub", "-t", "a/#/b"]).must(TROUBLE, &["a/#/b", "`#` may only be the last level"]);
    run(&["pub", "-t", "a/+", "-m", "x", "--period", "1s"]).must(TROUBLE, &["a/+"]);
    run(&["pub", "-t", "x"]).must(TROUBLE, &["nothing to publish: give -m TEXT, -f FILE, -s, -n or -l"]);
    run(&["pub", "-t", "x", "-f", "nowhere.txt"]).must(TROUBLE, &["cannot read nowhere.txt"]);
}

/// Costs are given, so that the answer does not depend on how busy the host is.
const COSTS: &str = "\
[admission]
arrival_cost = \"5us\"
dispatch_cost = \"5us\"
replication_cost = \"5us\"
turn_cost = \"8us\"
read_cost = \"2us\"
write_cost = \"5us\"
kib_cost = \"1us\"
blocking = \"1ms\"
";

#[test]
fn a_contract_that_cannot_be_kept_is_shown_with_the_retention_that_would_do() {
    let folder = Folder::new();
    let topic = "[[topic]]\nfilter = \"vibration/#\"\nperiod = \"50ms\"\nretain = 1\n";
    folder.write("tight.toml", format!("{COSTS}{topic}"));
    let ran = folder.run(["check", "tight.toml"]);
    ran.must(1, &["vibration/#", "NO", "a crash could lose", "--retain 2"]);
    folder.write("wide.toml", format!("{COSTS}{topic}").replace("retain = 1", "retain = 2"));
    folder.run(["check", "wide.toml"]).must(0, &["vibration/#", "yes"]);
}

/// A category of the worked example of the analysis: its terms, and what they must come to.
struct Category {
    terms: (u32, &'static str, u32, &'static str),
    dispatch: f64,
    replication: Option<f64>,
    replicate: bool,
}

const fn category(
    terms: (u32, &'static str, u32, &'static str),
    dispatch: f64,
    replication: Option<f64>,
    replicate: bool,
) -> Category {
    Category { terms, dispatch, replication, replicate }
}

/// T, L, N and link, then D_d, D_r and whether copies are needed.
const WORKED_EXAMPLE: [Category; 6] = [
    category((50, "0", 2, "edge"), 49.0, Some(49.95), false),
    category((50, "3", 0, "edge"), 49.0, Some(99.95), false),
    category((100, "0", 1, "edge"), 99.0, Some(49.95), true),
    category((100, "3", 0, "edge"), 99.0, Some(249.95), false),
    category((100, "\"unbounded\"", 0, "edge"), 99.0, None, false),
    category((500, "0", 1, "cloud"), 480.0, Some(449.95), true),
];

#[test]
fn the_check_prints_the_deadlines_of_the_worked_example_as_json() {
    let mut text = format!("{COSTS}[network]\npublisher_to_broker = \"0ms\"\n");
    for (number, category) in WORKED_EXAMPLE.iter().enumerate() {
        let (period, loss, retain, link) = category.terms;
        writeln!(text, "[[topic]]\nfilter = \"c{number}/+\"\nperiod = \"{period}ms\"").unwrap();
        writeln!(text, "loss = {loss}\nretain = {retain}\nlink = \"{link}\"").unwrap();
    }
    let folder = Folder::new();
    folder.write("example.toml", text);
    let ran = folder.run(["check", "--format", "json", "example.toml"]);
    ran.must(0, &[]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["admitted"], json!(true), "{report}");
    let rows = report["topics"].as_array().unwrap();
    assert_eq!(rows.len(), WORKED_EXAMPLE.len());
    for (row, category) in rows.iter().zip(WORKED_EXAMPLE) {
        assert_eq!(row["period_ms"], json!(f64::from(category.terms.0)), "{row}");
        assert_eq!(row["dispatch_deadline_ms"], json!(category.dispatch), "{row}");
        assert_eq!(row["replication_deadline_ms"], json!(category.replication), "{row}");
        assert_eq!(row["replicate"], json!(category.replicate), "{row}");
    }
}

#[test]
fn the_configuration_is_shown_with_where_each_value_comes_from() {
    let folder = Folder::new();
    folder.write("verge.toml", "[detection]\npoll = \"9ms\"\nmisses = 3\nconnect = \"1ms\"\n");
    let arguments = ["--set", "detection.poll=7ms", "--format", "json", "config", "show"];
    let ran = folder.run_with(arguments, &[("VERGE_DETECTION__MISSES", "4")]);
    ran.must(0, &[]);
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    let shown = |key: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap();
        [&row["value"], &row["from"]].map(|value| value.as_str().unwrap().to_owned())
    };
    assert_eq!(shown("detection.poll"), ["\"7ms\"", "flag --set"]);
    assert_eq!(shown("detection.misses"), ["4", "environment VERGE_DETECTION__MISSES"]);
    assert_eq!(shown("detection.connect")[1], "verge.toml:4");
    assert_eq!(shown("detection.retry")[1], "default");
    let table = folder.run(["config", "show"]);
    table.must(0, &["detection.poll", "verge.toml:2", "default"]);
}

#[test]
fn the_default_configuration_is_commented_and_valid() {
    let folder = Folder::new();
    let ran = folder.run(["config", "default"]);
    ran.must(0, &["# [detection]", "# poll = \"10ms\"", "# [limits]", "# [[topic]]", "# retain = 1"]);
    assert!(ran.out.lines().all(|line| line.is_empty() || line.starts_with('#')), "{}", ran.out);
    folder.write("default.toml", &ran.out);
    folder.run(["config", "check", "default.toml"]).must(0, &["the configuration is valid"]);
}

#[test]
fn a_valid_configuration_that_this_host_would_not_run_says_so() {
    let exposed = "[brokers.a]\nclients = \"0.0.0.0:7571\"\npair = \"127.0.0.1:7573\"\n";
    let here = "on this host, `verge broker a` would be refused: the broker would listen beyond this host";
    check(exposed).must(0, &["the configuration is valid", here, "--insecure"]);
    let folder = Folder::new();
    folder.write("exposed.toml", exposed);
    let ran = folder.run(["--format", "json", "config", "check", "exposed.toml"]);
    ran.must(0, &[]);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&said["valid"], &said["refused_here"][0]["broker"]), (&json!(true), &json!("a")));
    let secure = "[tls]\ncertificate = \"none.pem\"\nkey = \"none.key\"\n\
        [brokers.a]\nclients = \"127.0.0.1:7571\"\npair = \"127.0.0.1:7573\"\nclients_tls = \"127.0.0.1:7575\"\n";
    check(secure).must(0, &["`verge broker a` would be refused", "none.pem"]);
}

#[test]
fn a_flawed_recording_is_replayed_and_its_flaws_are_named() {
    const ROWS: usize = 130;
    let mut text = String::from("time,speed,power\n");
    for row in 0..ROWS {
        let (time, line) = (1_700_000_000 + row, row + 2);
        match line {
            10 => writeln!(text, "{time},,{row}"),
            20 => writeln!(text, "{},1.5,{row}", time - 5),
            120 => writeln!(text, "{time},broken,{row}"),
            _ => writeln!(text, "{time},1.5,{row}"),
        }
        .unwrap();
    }
    let pair = Pair::start("");
    let file = pair.site.folder.write("flawed.csv", text);
    let receiver = Receiver::start(&pair.site, "replay/#");
    let contract = ["--loss", "unbounded", "--deadline", "1s"];
    let arguments = [&["replay", file.to_str().unwrap(), "--speed", "1000"], &contract[..]].concat();
    let ran = pair.site.run(&arguments);
    ran.must(0, &["130 rows, 258 messages on 2 topics"]);
    for flaw in [
        "1 × rows earlier than one before them: sort the file by time",
        "line 20",
        "1 × cells that are no number in a number column",
        "line 120, column \"speed\": \"broken\"",
        "1 × missing cells",
        "line 10, column \"speed\"",
    ] {
        assert!(ran.err.contains(flaw), "lacks {flaw:?}:\n{}", ran.err);
    }
    let topics = ["speed", "power"].map(|column| format!("replay/flawed/{column}"));
    support::wait_until("the rows", || receiver.least(&topics) >= ROWS - 2);
}

#[test]
fn a_file_that_is_no_recording_is_refused_with_the_remedy() {
    let folder = Folder::new();
    folder.write("empty.csv", "");
    folder.write("header.csv", "time,speed\n");
    folder.write("noise.csv", [0xff, 0xfe, 0x00, 0x9c, b'\n', 0x80, 0x00, 0x81, b'\n']);
    let program = Path::new(env!("CARGO_BIN_EXE_verge"));
    std::os::unix::fs::symlink(program, folder.path("program.csv")).unwrap();
    for (file, says) in [
        ("empty.csv", &["empty.csv is empty", "a line of column names and at least one row"][..]),
        ("header.csv", &["header.csv has only a header", "at least one row has to follow"]),
        ("nowhere.csv", &["cannot open nowhere.csv", "check the path"]),
        (".", &["not a regular file", "write the recording to a file"]),
        ("noise.csv", &["noise.csv, line 1", "UTF-8"]),
        ("program.csv", &["program.csv", "CSV"]),
    ] {
        let ran = folder.run(["replay", file]);
        ran.must(TROUBLE, says);
        assert!(ran.err.starts_with("verge: ") && ran.out.is_empty(), "{ran:?}");
    }
}

#[test]
fn a_speed_that_makes_no_sense_is_refused() {
    let folder = Folder::new();
    folder.write("good.csv", "time,speed\n1,2\n2,3\n");
    for speed in ["0", "-1", "inf"] {
        let ran = folder.run(["replay", "good.csv", &format!("--speed={speed}")]);
        ran.must(TROUBLE, &["makes no sense: give a factor above 0"]);
    }
}
