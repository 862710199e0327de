//! `verge sim` from end to end: a small configuration, made-up deployments, and what a person may get wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::{Value, json};
use support::{Folder, Ran};

/// The exit code for trouble.
const TROUBLE: i32 = 2;

/// Costs are given, so that the answer does not depend on how busy the host is.
const PLANT: &str = "\
[admission]
arrival_cost = \"3us\"
dispatch_cost = \"4us\"
replication_cost = \"3us\"
turn_cost = \"8us\"
read_cost = \"2us\"
write_cost = \"5us\"
kib_cost = \"1us\"
blocking = \"1ms\"

[[topic]]
filter = \"pump/+/speed\"
period = \"50ms\"
retain = 2
streams = 3

[[topic]]
filter = \"pump/+/log\"
period = \"100ms\"
loss = \"unbounded\"
streams = 2

[[topic]]
filter = \"report\"
period = \"500ms\"
link = \"cloud\"
";

fn plant() -> Folder {
    let folder = Folder::new();
    folder.write("plant.toml", PLANT);
    folder
}

/// The report without what depends on how fast this host is.
fn timeless(ran: &Ran) -> Value {
    let mut report: Value = serde_json::from_str(&ran.out).unwrap();
    let fields = report.as_object_mut().unwrap();
    assert!(fields.remove("real_s").is_some() && fields.remove("times_real_time").is_some());
    report
}

#[test]
fn a_crash_of_the_primary_keeps_the_contracts_and_is_the_same_every_time() {
    let folder = plant();
    let arguments = ["sim", "plant.toml", "--seeds", "3", "--for", "5s", "--format", "json"];
    let ran = folder.run(arguments);
    ran.must(0, &[]);
    let report = timeless(&ran);
    assert_eq!(
        (&report["kept"], &report["runs"], &report["deaths"]),
        (&json!(true), &json!(3), &json!(3)),
        "{report}"
    );
    assert_eq!(report["violations"], json!([]));
    assert!(
        report["worst_failover_ms"].as_f64().unwrap() <= 50.0
            && report["simulated_s"].as_f64().unwrap() > 15.0
    );
    let topics = report["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 3);
    for topic in topics {
        assert_eq!((&topic["verdict"], &topic["late"]), (&json!("kept"), &json!(0)), "{topic}");
        assert!(
            topic["received"].as_u64().unwrap() > 0 && topic["worst_ms"].as_f64().unwrap() > 0.5,
            "{topic}"
        );
    }
    assert_eq!((&topics[0]["worst_run"], &topics[0]["spare_run"]), (&json!(0), &json!(0)));
    assert_eq!(topics[1]["spare_run"], Value::Null);
    // Neither chance nor the number of threads makes a difference.
    for jobs in ["1", "3"] {
        assert_eq!(timeless(&folder.run([&arguments[..], &["--jobs", jobs]].concat())), report);
    }
}

#[test]
fn the_table_and_the_picture_are_for_people() {
    let folder = plant();
    let run = ["sim", "plant.toml", "--seeds", "2", "--crash", "a@3s", "--for", "1s", "--svg", "crash.svg"];
    let ran = folder.run(run);
    ran.must(
        0,
        &["pump/+/speed", "kept", "worst failover", "of 50 ms (network.failover)", "every contract was kept"],
    );
    let picture = std::fs::read_to_string(folder.path("crash.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("pump/+/speed"), "{picture:.200}");
}

#[test]
fn operators_that_are_not_simulated_are_owned_up_to() {
    let operator = "[[source]]\ntopic = \"pump/+/speed\"\ntype = \"f32\"\n\
                    [[operator]]\nname = \"rms\"\nkind = \"rms\"\nwindow = 2\ninputs = [\"pump/+/speed\"]\noutput = \"pump/+/rms\"\n";
    let folder = Folder::new();
    folder.write("plant.toml", PLANT.to_owned() + operator);
    let ran = folder.run(["sim", "plant.toml", "--seeds", "1", "--for", "1s"]);
    ran.must(0, &["1 configured operator is not simulated", "verge graph"]);
    let ran = folder.run(["sim", "plant.toml", "--seeds", "1", "--for", "1s", "--format", "json"]);
    assert_eq!(timeless(&ran)["operators_left_out"], json!(1));
}

#[test]
fn a_story_tells_the_crash() {
    let ran =
        plant().run(["sim", "plant.toml", "--crash", "primary@3s", "--for", "5s", "--trace", "--seed", "5"]);
    ran.must(0, &["3.000000 s  a", "dies", "publishes pump/0/speed #", "1 run with seeds from 5"]);
    plant().run(["sim", "plant.toml", "--trace", "--seeds", "2"]).must(TROUBLE, &["leave out --seeds"]);
}

#[test]
fn a_scenario_is_played_and_its_mistakes_are_shown_all_at_once() {
    let folder = plant();
    let good = "duration = \"4s\"\n[[fault]]\nkind = \"host-crash\"\nhost = \"primary\"\nafter = \"500ms\"\nrestart = \"1s\"\n";
    folder.write("good.toml", good);
    folder
        .run(["sim", "plant.toml", "--seeds", "1", "--scenario", "good.toml"])
        .must(0, &["1 death of a broker"]);
    folder.write(
        "bad.toml",
        "[[fault]]\nkind = \"crash\"\nhost = \"c\"\nat = 30\n[[fault]]\nkind = \"brake\"\nat = \"1s\"\n",
    );
    folder.run(["sim", "plant.toml", "--scenario", "bad.toml"]).must(
        TROUBLE,
        &[
            "bad.toml:3:8",
            "there are primary, backup, a, b, publisher-1, publisher-2, publisher-3, subscriber-cloud, subscriber-edge",
            "bad.toml:4:6",
            "\"30ms\"",
            "bad.toml:6:8",
            "did you mean `break`?",
            "3 problems in the scenario",
        ],
    );
    folder
        .run(["sim", "plant.toml", "--scenario", "nowhere.toml"])
        .must(TROUBLE, &["cannot read nowhere.toml"]);
}

#[test]
fn a_contract_that_cannot_be_kept_is_refused() {
    let folder = Folder::new();
    folder.write("tight.toml", PLANT.replace("retain = 2\n", ""));
    let ran = folder.run(["sim", "tight.toml", "--seeds", "1", "--for", "5s"]);
    ran.must(
        1,
        &["REFUSED", "keep 2 to send again", "verge check", "1 family of topics has REFUSED streams"],
    );
}

#[test]
fn what_cannot_be_simulated_is_named_with_the_remedy() {
    let folder = Folder::new();
    folder.write("empty.toml", "");
    folder.run(["sim", "empty.toml"]).must(TROUBLE, &["no topic is configured", "add [[topic]]"]);
    let folder = plant();
    folder
        .run(["sim", "plant.toml", "--crash", "c@3s"])
        .must(TROUBLE, &["--crash c", "primary, backup, a, b"]);
    folder.run(["sim", "plant.toml", "--crash", "a@3"]).must(TROUBLE, &["`3ms`"]);
    let arguments = ["sim", "plant.toml", "--seeds", "1", "--svg", "no/such/folder.svg"];
    folder.run(arguments).must(TROUBLE, &["cannot write no/such/folder.svg"]);
}

#[test]
fn made_up_deployments_are_the_same_every_time() {
    let folder = Folder::new();
    let arguments = ["sim", "--random", "--seeds", "4", "--twice", "--format", "json"];
    let report = timeless(&folder.run(arguments));
    assert_eq!((&report["runs"], &report["weather"]), (&json!(4), &json!("assumed")));
    assert!(report["checkers"].as_array().unwrap().iter().any(|checker| checker["name"] == "losses"));
    assert_eq!(timeless(&folder.run(arguments)), report);
}

#[test]
fn what_no_guarantee_covers_is_shown_as_broken_with_the_reason() {
    let folder = plant();
    let both = ["sim", "plant.toml", "--seeds", "2", "--crash", "a@5s", "--crash", "b@5s"];
    folder.run(both).must(
        1,
        &[
            "BROKEN",
            "the fault at 5s came before redundancy was restored after the one at 5s",
            "the story of the worst run: verge sim plant.toml --crash a@5s --crash b@5s --seed 0 --trace",
            "no failover after a death",
            "2 families of topics have a BROKEN contract",
        ],
    );
    let report = timeless(&folder.run([&both[..], &["--format", "json"]].concat()));
    let topics = report["topics"].as_array().unwrap();
    assert!(topics[0]["worst_run"].as_u64().unwrap() > 30 && topics[0]["verdict"] == "broken", "{report}");
    assert_eq!((&topics[1]["verdict"], &report["violations"]), (&json!("kept"), &json!([])), "{report}");
}

#[test]
fn a_long_story_is_told_around_what_goes_wrong() {
    let folder = Folder::new();
    folder.write("plant.toml", PLANT.replace("streams = 3", "streams = 60"));
    let ran = folder.run(["sim", "plant.toml", "--crash", "primary@3s", "--trace"]);
    ran.must(0, &["are left out of the story", "3.000000 s  a", "dies", "publishes pump/0/speed #"]);
    assert!(ran.out.lines().count() < 5_000, "{} lines", ran.out.lines().count());
}

#[test]
fn rubbish_neither_hangs_nor_panics() {
    let folder = plant();
    let with = |file: &str| folder.run(["sim", "plant.toml", "--seeds", "1", "--scenario", file]);
    with("/dev/zero").must(TROUBLE, &["cannot read /dev/zero", "larger than"]);
    std::fs::write(folder.path("bytes.toml"), b"duration = \"5s\"\n# \xff\xfe\n").unwrap();
    with("bytes.toml").must(TROUBLE, &["bytes.toml:2:3", "0xff", "save the file as UTF-8"]);
    folder.write("long.toml", "duration = \"1000000h\"\n");
    with("long.toml").must(TROUBLE, &["long.toml:1:12", "7 days at most"]);
    folder.write("rare.toml", "[[topic]]\nfilter = \"a\"\nperiod = \"2000h\"\n");
    folder.run(["sim", "rare.toml"]).must(TROUBLE, &["`a`", "period = \"inf\""]);
}
