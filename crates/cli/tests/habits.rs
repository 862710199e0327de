//! What hands do that know other programs of the field.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::fs::File;
use std::process::Stdio;
use support::{Folder, Pair, Process, free_ports, program, wait_until};
use verge::Standing;

#[test]
fn a_port_alone_means_this_host_and_no_other_pair() {
    let pair = Pair::start("");
    let primary = pair.wait_for_protection();
    let [nobody] = free_ports();
    let ran = pair.site.run(&["handover", "-p", &nobody.to_string()]);
    assert!(ran.code != Some(0), "{ran:?}");
    assert!(pair.stands(primary, Standing::Primary), "the configured pair was not meant");
    let addresses = pair.site.addresses();
    let port = addresses.split(',').nth(primary).and_then(|address| address.rsplit_once(':')).unwrap().1;
    pair.site.run(&["handover", "-p", port]).must(0, &["handed over"]);
    wait_until("the other one reigns", || pair.stands(1 - primary, Standing::Primary));
}

#[test]
fn addresses_of_two_pairs_hand_over_neither() {
    let pairs = [Pair::start(""), Pair::start("")];
    let primaries = pairs.each_ref().map(Pair::wait_for_protection);
    let of = |at: usize| pairs[at].site.addresses().split(',').nth(primaries[at]).unwrap().to_owned();
    let ran = pairs[0].site.run(&["handover", "-h", &of(0), "-h", &of(1)]);
    ran.must(2, &["brokers of different pairs", &of(0), &of(1)]);
    for (pair, primary) in pairs.iter().zip(primaries) {
        assert!(pair.stands(primary, Standing::Primary));
    }
}

/// Publishes with these arguments and this standard input, again and again, and returns what `verge sub` printed of the first with those.
fn heard(pair: &Pair, published: &[&str], input: &[u8], printed: &[&str]) -> Vec<u8> {
    let config = pair.site.config.to_str().unwrap();
    let given = pair.site.folder.write("input", input);
    let mut publisher = program(["--config", config, "pub", "-t", "habit/a"]);
    publisher.args(published).args(["--repeat", "2000", "--repeat-delay", "20ms"]);
    publisher.stdin(File::open(given).unwrap()).stdout(Stdio::null());
    let _publisher = Process::start(&mut publisher, pair.site.folder.path("pub.log"));
    let words = ["sub", "-t", "habit/#", "-C", "1", "-W", "30"];
    let ran = pair.site.run(&[&words[..], printed].concat());
    ran.must(0, &[]);
    ran.out.into_bytes()
}

#[test]
fn pub_and_sub_know_the_flags_of_mosquitto_that_mean_the_same() {
    let pair = Pair::start("");
    assert_eq!(heard(&pair, &["-s"], b"two\nlines\n", &["-F", "%t|%l|%p"]), b"habit/a|10|two\nlines\n\n");
    assert_eq!(heard(&pair, &["-n"], b"", &["-v"]), b"habit/a \n");
    assert_eq!(heard(&pair, &["-m", "on"], b"", &["-F", "%x 100 %%"]), b"6f6e 100 %\n");
    // What is no text comes undamaged, and says how.
    let json = String::from_utf8(heard(&pair, &["-s"], b"\xff\x00", &["--format", "json"])).unwrap();
    assert!(json.contains("\"payload\":\"/wA=\"") && json.contains("\"encoding\":\"base64\""), "{json}");
    let json = String::from_utf8(heard(&pair, &["-m", "12.5"], b"", &["--format", "json"])).unwrap();
    assert!(json.contains("\"payload\":\"12.5\"") && json.contains("\"encoding\":\"utf-8\""), "{json}");
    pair.site.run(&["sub", "-t", "x", "-F", "%k"]).must(2, &["%k is not known"]);
    pair.site.run(&["pub", "-t", "x", "-m", "1", "-n"]).must(2, &["cannot be used with"]);
}

#[test]
fn a_context_stands_for_brokers_that_are_not_named() {
    let pairs = [Pair::start(""), Pair::start("")];
    let primaries = pairs.each_ref().map(Pair::wait_for_protection);
    let epochs = || [0, 1].map(|at| pairs[at].report(primaries[at]).map(|report| report.standing));
    let away = Folder::new();
    let home = [("XDG_CONFIG_HOME", away.path("config"))];
    let home = [(home[0].0, home[0].1.to_str().unwrap())];
    let run = |folder: &Folder, arguments: &[&str]| folder.run_with(arguments, &home);
    let addresses = pairs[0].site.addresses();
    let first = addresses.split(',').next().unwrap();
    run(&away, &["context", "add", "plant", "-h", &addresses])
        .must(0, &["`plant` is kept", "verge context use plant"]);
    run(&away, &["status"]).must(2, &[]);
    run(&away, &["--context", "plant", "status"]).must(0, &[first, "protected"]);
    run(&away, &["context", "use", "plant"]).must(0, &[]);
    run(&away, &["status"]).must(0, &[first, "protected"]);
    run(&away, &["context", "list"]).must(0, &["*", "plant", first]);
    run(&away, &["--context", "yard", "status"]).must(2, &["no context `yard`: there is plant"]);

    // Where another pair is configured, that is said; and whoever names one means that.
    let there = &pairs[1].site.folder;
    run(there, &["status"]).must(0, &[first, "context `plant` is in use, and goes before verge.toml"]);
    let own = pairs[1].site.addresses();
    run(there, &["--context", "", "status"]).must(0, &[own.split(',').next().unwrap()]);
    run(there, &["-c", "verge.toml", "status"]).must(0, &[own.split(',').next().unwrap()]);
    let [nobody] = free_ports();
    run(there, &["handover", "-p", &nobody.to_string()]).must(2, &[]);
    run(there, &["--context", "plant", "handover", "-h", &own]).must(2, &["give one of them"]);
    assert_eq!(epochs(), [Some(Standing::Primary); 2], "nobody was handed over");

    run(&away, &["context", "add", "x", "-h", "a", "-P", "secret"]).must(2, &["keeps no password"]);
    run(&away, &["context", "add", "a b", "-h", "a"]).must(2, &["cannot be a context's name"]);
    run(&away, &["context", "remove", "plant"]).must(0, &[]);
    run(&away, &["context", "use", "plant"]).must(2, &["there is none"]);
    run(there, &["status"]).must(0, &[own.split(',').next().unwrap()]);
}

#[test]
fn a_load_is_measured_and_compared_with_an_earlier_one() {
    let mut pair = Pair::start(support::PATIENT);
    let primary = pair.wait_for_protection();
    let load = [
        "bench",
        "-r",
        "200",
        "-d",
        "1",
        "--warm-up",
        "0.2",
        "--deadline",
        "60s",
        "--loss",
        "0",
        "--retain",
        "50",
    ];
    pair.site
        .run(&[&load[..], &["--save", "before.json"]].concat())
        .must(0, &["published", "p99.9 us", "200 messages/s"]);
    let before = std::fs::read_to_string(pair.site.folder.path("before.json")).unwrap();
    let before: serde_json::Value = serde_json::from_str(&before).unwrap();
    assert_eq!((before["published"].as_u64(), before["lost"].as_u64()), (Some(200), Some(0)), "{before}");
    // The same with a broker that dies.
    let mut command = vec!["--config", pair.site.config.to_str().unwrap()];
    command.extend(load.map(|word| if word == "1" { "3" } else { word }));
    command.extend(["--before", "before.json", "-o", "json"]);
    let mut command = program(command);
    let out = pair.site.folder.path("bench.json");
    command.current_dir(pair.site.folder.path("")).stdout(File::create(&out).unwrap());
    let mut bench = Process::start(&mut command, pair.site.folder.path("bench.log"));
    wait_until("the load", || pair.report(primary).is_some_and(|report| report.counter("arrived") > 300));
    pair.kill(primary);
    assert_eq!(bench.wait_for_end(), Some(0), "{}", bench.log());
    let after: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!((after["lost"].as_u64(), after["failovers"].as_u64()), (Some(0), Some(1)), "{after}");
    pair.site.run(&["bench", "--before", "nothing.json"]).must(2, &["nothing.json"]);
    pair.site.run(&["bench", "-r", "0"]).must(2, &["from 0.001 to 1000000"]);
    pair.site.run(&["top"]).must(2, &["verge top draws on a terminal"]);
}

/// Both brokers are played by the command, and the clients are this program's own.
#[test]
fn clients_of_this_program_do_what_the_protocol_asks_of_clients() {
    let folder = Folder::new();
    let verge = env!("CARGO_BIN_EXE_verge");
    let stated = "--period 50ms --deadline 100ms --retain 3";
    let publisher = |more: &str| {
        format!(
            "{verge} pub -h $VERGE_BROKERS -t $VERGE_TOPIC -m 1 --repeat 100000 --repeat-delay 50ms {more}"
        )
    };
    let subscriber = format!("{verge} sub -h $VERGE_BROKERS -t $VERGE_TOPIC -v");
    folder
        .run(["conform", "--publisher", &publisher(stated), "--subscriber", &subscriber])
        .must(0, &["48 rules, 0 broken"]);
    folder.run(["conform", "--publisher", &publisher("")]).must(0, &["28 rules, 0 broken"]);
    folder
        .run(["conform", "--publisher", "sleep 60"])
        .must(1, &["BROKEN (docs/protocol.md, 3)", "no greeting at the primary"]);
    folder.run(["conform", "--subscriber", "nowhere-to-be-found"]).must(1, &["the command ended"]);
    folder.run(["conform"]).must(2, &["--publisher"]);
}
