//! What `verge site demo` promises of itself: three sites and two routers lose nothing, and bring nothing twice, whatever it does to them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::Value;
use std::fs::File;
use std::path::Path;
use support::{Folder, Process, program, wait_until};

#[test]
fn nothing_is_missing_and_nothing_comes_twice_in_the_demo_of_sites() {
    let folder = Folder::new();
    let temporary = folder.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    // Those that other tests have fetched.
    let jars = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("zookeeper/jars");
    let mut words: Vec<String> =
        ["site", "demo", "--topics", "5", "--cut", "12", "-o", "json"].map(str::to_owned).into();
    if jars.join("whole").exists() {
        words.extend(["--zookeeper".to_owned(), jars.display().to_string()]);
    }
    let (out, log) = (folder.path("demo.json"), folder.path("demo.log"));
    let mut command = program(&words);
    command.env("TMPDIR", &temporary).stdout(File::create(&out).unwrap()).stderr(File::create(&log).unwrap());
    let mut demo = Process::adopt(command.spawn().unwrap(), log);
    // It takes more than a minute in all.
    for says in ["publishing", "its topics go by r2", "what was missed comes", "still on its way"] {
        wait_until(says, || demo.log().contains(says));
    }
    let code = demo.wait_for_end();
    let (shown, log) = (std::fs::read_to_string(&out).unwrap(), demo.log());
    let report: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{log}"));
    assert_eq!((code, &report["kept"]), (Some(0), &Value::Bool(true)), "{report:#}");
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["published"].as_u64() > Some(0)), "{rows:#?}");
    // What happens without networks of their own is fewer things.
    assert_eq!(rows.len(), if report["apart"] == true { 9 } else { 8 }, "{rows:#?}");
    if report["apart"] != true {
        println!("SKIPPED: this host gives no networks of their own: {log}");
    }
    let backlog = |row: &Value| row["sites"][0]["backlog"].as_u64().unwrap();
    assert!(
        rows.iter().map(backlog).sum::<u64>() > 50,
        "a cut leaves something to come afterwards: {rows:#?}"
    );
    assert!(report["local"]["messages"].as_u64() > Some(1_000), "{report:#}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "the demo leaves no folder behind");
}

#[test]
fn a_demo_of_sites_that_is_asked_to_end_leaves_nothing_behind() {
    let folder = Folder::new();
    let temporary = folder.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = program(["site", "demo", "--topics", "2"]);
    command.env("TMPDIR", &temporary);
    let mut demo = Process::start(&mut command, folder.path("demo.log"));
    wait_until("it has begun", || demo.log().contains("publishing"));
    assert!(demo.terminate().is_some_and(|code| code == 2), "{}", demo.log());
    assert!(demo.log().contains("asked to end"), "{}", demo.log());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
