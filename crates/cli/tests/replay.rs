//! Recordings as a person has them: replayed without options, at any speed, and shown before.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::Signal;
use std::path::{Path, PathBuf};
use support::{Folder, Pair, Process, Receiver, program, wait_until};

const TROUBLE: i32 = 2;

/// The one that is shipped.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/recordings/turbine.csv")
}

/// Those beside the repository, where there are some.
fn real_ones() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let files_in = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let files = files_in(&data).iter().flat_map(|folder| files_in(folder)).collect::<Vec<_>>();
    let is_recording = |path: &PathBuf| path.to_string_lossy().contains(".csv");
    let found: Vec<PathBuf> = files.into_iter().filter(is_recording).collect();
    if found.is_empty() {
        println!("SKIPPED: there is no {}", data.display());
    }
    found
}

#[test]
fn a_recording_is_replayed_without_options_at_any_speed() {
    let pair = Pair::start("");
    let receiver = Receiver::start(&pair.site, "replay/#");
    let file = shipped();
    let topics = ["kw", "wind_speed", "nacelle_position"].map(|column| format!("replay/turbine/{column}"));
    // The second asks for another contract at once.
    for speed in ["600000", "1e9"] {
        let ran = pair.site.run(&["replay", file.to_str().unwrap(), "--speed", speed]);
        ran.must(0, &["990 rows, 2970 messages on 3 topics"]);
        assert!(ran.err.contains("contract   --period"), "{}", ran.err);
        wait_until("the rows", || receiver.least(&topics) >= 990);
    }
}

#[test]
fn what_is_recorded_is_replayed_on_the_same_topics() {
    let pair = Pair::start("");
    let config = pair.site.config.to_str().unwrap();
    let publishers = ["1.5", "on"].map(|message| {
        let topic = format!("rec/{}", message.len());
        let words = [
            "--config",
            config,
            "pub",
            "-t",
            &topic,
            "-m",
            message,
            "--repeat",
            "2000",
            "--repeat-delay",
            "20ms",
        ];
        Process::start(&mut program(words), pair.site.folder.path("pub.log"))
    });
    let ran = pair.site.run(&["record", "recorded.csv", "-t", "rec/#", "-C", "40", "-W", "30"]);
    ran.must(0, &["40 rows"]);
    drop(publishers);
    let file = std::fs::read_to_string(pair.site.folder.path("recorded.csv")).unwrap();
    assert!(file.contains(",1.5,\n") || file.contains(",,1.5\n"), "{file}");
    pair.site
        .run(&["record", "recorded.csv", "-t", "rec/#"])
        .must(TROUBLE, &["recorded.csv is there already"]);
    let receiver = Receiver::start(&pair.site, "again/#");
    // The contracts of those who published first have ended with them, but for a moment.
    let ran = pair.site.run(&["replay", "recorded.csv", "-t", "again/{topic}"]);
    ran.must(0, &["40 rows, 40 messages on 2 topics"]);
    let topics = ["again/rec/3", "again/rec/2"].map(str::to_owned);
    wait_until("the rows", || receiver.least(&topics) >= 5);
}

/// Whoever stops a group of processes often sends two signals.
#[test]
fn a_replay_that_is_stopped_leaves_its_topics_free() {
    let pair = Pair::start("");
    let (config, file) = (pair.site.config.to_str().unwrap(), shipped());
    let receiver = Receiver::start(&pair.site, "replay/#");
    let words = ["--config", config, "replay", file.to_str().unwrap()];
    let mut replay = Process::start(&mut program(words), pair.site.folder.path("replay.log"));
    wait_until("the first row", || receiver.least(&["replay/turbine/kw".to_owned()]) >= 1);
    replay.signal(Signal::INT);
    replay.signal(Signal::INT);
    assert_eq!(replay.wait_for_end(), Some(0), "{}", replay.log());
    pair.site
        .run(&["replay", file.to_str().unwrap(), "--speed", "1e9"])
        .must(0, &["990 rows, 2970 messages"]);
}

/// A topic with a contract in the configuration has that, and the others have the derived one.
#[test]
fn columns_may_have_contracts_of_the_configuration_or_none() {
    let pair =
        Pair::start("[[topic]]\nfilter = \"p/#\"\nperiod = \"50ms\"\nloss = \"unbounded\"\nretain = 0\n");
    pair.site.folder.write("mixed.csv", "time,p/a,q/a,p/b\n1,1,1,1\n2,2,2,2\n3,3,3,3\n");
    pair.site
        .run(&["replay", "mixed.csv", "-t", "{topic}", "--speed", "10"])
        .must(0, &["3 rows, 9 messages on 3 topics"]);
}

#[test]
fn every_real_recording_is_understood() {
    let folder = Folder::new();
    for file in real_ones().iter().chain([&shipped()]) {
        let ran = folder.run(["replay", file.to_str().unwrap(), "--plan", "--format", "json"]);
        ran.must(0, &["\"contract\": \"--period ", "\"kind\": \"number\""]);
        assert!(ran.err.is_empty(), "{}", ran.err);
    }
}

#[test]
fn a_plan_needs_no_broker_and_says_what_was_understood() {
    let folder = Folder::new();
    let rows = "11/02/2025 23:59:58;410,5\n11/02/2025 23:59:59;Bad Input\n12/02/2025 00:00:00;412,5\n";
    let more: String = (1..20).map(|second| format!("12/02/2025 00:00:{second:02};413,5\n")).collect();
    folder.write("logger.csv", format!("Logger X7\nDate;kW\ns;kW\n{rows}{more}"));
    let ran = folder.run(["replay", "logger.csv", "--plan"]);
    ran.must(
        0,
        &[
            "recording  logger.csv, 22 rows",
            "left out   line 1: Logger X7",
            "names      line 2",
            "units      s kW",
            "time       `Date`, the day first, 2025-02-11T23:59:58Z to 2025-02-12T00:00:19Z, usually 1s apart",
            "line 5, column \"kW\": \"Bad Input\"",
            "contract   --period 980ms --deadline 980ms --loss 0 --retain 3",
        ],
    );
    folder.write("either.csv", "Date,kW\n01/02/2025 00:00:00,1\n02/03/2025 00:00:00,2\n");
    folder
        .run(["replay", "either.csv", "--plan"])
        .must(TROUBLE, &["either.csv, line 2", "--dates day-first"]);
    folder.run(["replay", "either.csv", "--plan", "--dates", "day-first"]).must(0, &["the day first"]);
}
