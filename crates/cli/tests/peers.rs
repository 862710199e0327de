//! Peers as their users see them: real processes, one of them killed, and the commands that ask them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::{Folder, Pair, Process, Ran, free_ports, wait_for, wait_until};
use verge::{Met, Peers};

const NAMES: [&str; 4] = ["p1", "p2", "p3", "p4"];

/// Four peers on this host.
struct Overlay {
    // Before the folder with their logs.
    running: Vec<Process>,
    config: PathBuf,
    folder: Folder,
}

impl Overlay {
    fn start() -> Overlay {
        let (ports, http) = (free_ports::<4>(), free_ports::<4>());
        let mut text =
            "[space]\ndimensions = [\"kind\", \"sensor\"]\n[overlay]\nalive = \"200ms\"\n".to_owned();
        for ((name, port), http) in NAMES.iter().zip(ports).zip(http) {
            text += &format!(
                "[peers.{name}]\naddress = \"127.0.0.1:{port}\"\nhttp = \"127.0.0.1:{http}\"\nlocation = \"40.2, -74.8\"\nstore = \"kept-{name}\"\n"
            );
        }
        let folder = Folder::new();
        let config = folder.write("verge.toml", text);
        let mut peers = Overlay { running: Vec::new(), config, folder };
        peers.running = NAMES.iter().map(|name| peers.spawn(&["peer", "run", name], name)).collect();
        peers.wait_for(4);
        peers
    }

    /// A command that goes on.
    fn spawn(&self, words: &[&str], name: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
        let out = std::fs::File::create(self.folder.path(&format!("{name}.out"))).unwrap();
        command.args(words).arg("-c").arg(&self.config).stdout(out);
        Process::start(&mut command, self.folder.path(&format!("{name}.log")))
    }

    fn run(&self, words: &[&str]) -> Ran {
        let config = self.config.display().to_string();
        self.folder.run(words.iter().copied().chain(["-c", &config]))
    }

    /// What the peers say that answer.
    fn reports(&self) -> Vec<Value> {
        let told: Value = serde_json::from_str(&self.run(&["peer", "status", "-o", "json"]).out).unwrap();
        told.as_array().unwrap().iter().filter(|row| row["trouble"].is_null()).cloned().collect()
    }

    /// Until so many peers are in one region, and one of them masters it.
    fn wait_for(&self, count: usize) {
        wait_until("all are in one region", || {
            let reports = self.reports();
            let masters = reports.iter().filter(|report| report["role"] == "master").count();
            let whole = |report: &Value| report["members"].as_array().is_some_and(|all| all.len() == count);
            masters == 1 && reports.len() == count && reports.iter().all(whole)
        });
    }

    /// What a command has printed.
    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path(&format!("{name}.out"))).unwrap_or_default()
    }
}

#[test]
fn what_is_announced_is_found_whichever_peer_is_asked_and_whichever_dies() {
    let mut peers = Overlay::start();
    let _wants = peers.spawn(&["interest", "drone, li*", "--peer", "p3"], "wants");
    let offers = peers.spawn(&["announce", "drone, lidar", "--peer", "p4"], "offers");
    wait_until("both hear of each other", || {
        peers.said("wants").contains("drone, lidar") && peers.said("offers").contains("start")
    });
    let found = peers.run(&["find", "drone, *", "-o", "json"]);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(found[0]["profile"], "drone, lidar");
    assert!(found[0]["topic"].as_str().unwrap().starts_with("rv/"));
    // Two die that are not asked, the master first where it is one of them.
    for left in [3, 2] {
        let dead = peers.running.remove(0);
        drop(dead);
        peers.wait_for(left);
        wait_until("it is found", || {
            peers.run(&["find", "drone, li*", "--peer", "p3"]).out.contains("drone, lidar")
        });
    }
    assert!(!peers.said("wants").contains("stop"), "{}", peers.said("wants"));
    drop(offers);
    wait_until("its end is heard", || peers.said("wants").contains("stop"));
    let nothing = peers.run(&["find", "drone, li*", "--peer", "p3"]);
    nothing.must(1, &["Nothing is there"]);
    // Who is asked to end says so, and is out at once.
    assert_eq!(peers.running.remove(0).terminate(), Some(0));
    peers.wait_for(1);
}

/// Data behind a match: what is offered comes to who wants it, although the peer dies that both had asked, and so does what a device publishes that
/// knows nothing of peers.
#[test]
fn what_is_wanted_comes_although_the_peer_dies_that_was_asked() {
    let (ports, http) = (free_ports::<2>(), free_ports::<2>());
    let mut text =
        "[[topic]]\nfilter = \"plant/#\"\nperiod = \"10ms\"\ndeadline = \"1s\"\nretain = 100\n".to_owned();
    for (name, (port, http)) in ["p1", "p2"].iter().zip(ports.iter().zip(http)) {
        text += &format!("[peers.{name}]\naddress = \"127.0.0.1:{port}\"\nhttp = \"127.0.0.1:{http}\"\n");
    }
    text += "offers = [\"drone, lightning; topic=plant/7\"]\n[overlay]\nalive = \"200ms\"\n";
    let pair = Pair::start(&text);
    let start = |name: &str| {
        let mut command = support::program(["peer", "run", name]);
        Process::start(command.arg("--config").arg(&pair.site.config), pair.site.folder.path(name))
    };
    let mut running = [start("p1"), start("p2")];
    let peers = Peers::at(&http.map(|port| format!("127.0.0.1:{port}")).join(",")).unwrap();
    let (consumer, producer) = (pair.site.client(), pair.site.client());
    let (wants_told, wants_heard) = channel();
    let wish = || {
        let told = wants_told.clone();
        let hears = move |met: &Met| _ = told.send(met.clone());
        consumer.interest_with(&peers, "drone, li*; deadline=1s, loss=0", hears).ok()
    };
    let found = wait_for("a peer answers", wish);
    let announced = producer.announce(&peers, "drone, lidar; period=5ms, retain=200").unwrap();
    wait_until("it is wanted", || announced.is_wanted());
    // When nobody wants it any more, nothing is sent.
    drop(found);
    wait_until("it is not wanted", || !announced.is_wanted());
    wait_until("nothing goes out any more", || announced.publish(b"x") == Ok(0));
    let found = wish().unwrap();
    wait_until("it is wanted again", || announced.is_wanted());
    let publish = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            assert_eq!(announced.publish(number.to_string().as_bytes()), Ok(1));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // The consumer may begin a moment later than the producer.
    let text = |message: &verge::Message| String::from_utf8(message.payload.clone()).unwrap();
    let first = wait_for("something comes", || {
        publish(0..1);
        found.next_within(Duration::from_millis(50))
    });
    assert_eq!(text(&first), "0");
    while found.next_within(Duration::from_millis(200)).is_some() {}
    publish(1..20);
    running[0].kill();
    publish(20..400);
    let came: Vec<String> = (1..400)
        .map_while(|_| found.next_within(Duration::from_secs(5)))
        .map(|message| text(&message))
        .collect();
    assert_eq!(came, (1..400).map(|number: u32| number.to_string()).collect::<Vec<_>>());
    // The device's topic is known by what it is.
    let device = producer.publisher_by_configuration("plant/7").unwrap();
    let reading = wait_for("the device is heard", || {
        device.publish(b"flash").unwrap();
        found.next_within(Duration::from_millis(100))
    });
    assert_eq!((&*reading.topic, text(&reading)), ("plant/7", "flash".to_owned()));
    // What brokers cannot keep is said.
    let (told, heard) = channel();
    let hears = move |met: &Met| _ = told.send(met.clone());
    let hasty = producer.announce_with(&peers, "drone, lifeline; period=5ms, deadline=1ns", hears).unwrap();
    let refused = heard.iter().find_map(|met| match met {
        Met::Refused { why, .. } => Some(why),
        _ => None,
    });
    assert!(refused.unwrap().contains("was refused"));
    // So it is to who wants it.
    let refused = wants_heard.iter().find_map(|met| match met {
        Met::Refused { why, .. } => Some(why),
        _ => None,
    });
    assert!(refused.unwrap().contains("the other end cannot have it: the contract of"));
    assert!(!hasty.is_wanted());
}

/// A pair of brokers, and peers beside it, of which the last one is at the core.
struct Plant {
    // Before the folder with their logs.
    running: Vec<(&'static str, Process)>,
    pair: Pair,
    peers: Peers,
}

impl Plant {
    fn start<const COUNT: usize>() -> Plant {
        let (ports, http) = (free_ports::<COUNT>(), free_ports::<COUNT>());
        let mut text = "[overlay]\nalive = \"200ms\"\n".to_owned();
        for (name, (port, http)) in NAMES.iter().zip(ports.iter().zip(http)) {
            text += &format!("[peers.{name}]\naddress = \"127.0.0.1:{port}\"\nhttp = \"127.0.0.1:{http}\"\n");
        }
        text += "role = \"core\"\n";
        let pair = Pair::start(&text);
        let start = |name: &&'static str| {
            let mut command = support::program(["peer", "run", name]);
            let command = command.arg("--config").arg(&pair.site.config);
            (*name, Process::start(command, pair.site.folder.path(name)))
        };
        let running = NAMES[..COUNT].iter().map(start).collect();
        let peers = Peers::at(&http.map(|port| format!("127.0.0.1:{port}")).join(",")).unwrap();
        Plant { running, pair, peers }
    }

    fn run(&self, words: &[&str]) -> Ran {
        let config = self.pair.site.config.display().to_string();
        self.pair.site.folder.run(words.iter().copied().chain(["-c", &config]))
    }
}

/// Rules run at one peer, and at another one when that dies; what they say comes to who wants it and to a topic, and why they do not fire is told.
#[test]
fn rules_run_at_one_peer_and_at_another_one_when_that_dies() {
    let mut plant = Plant::start::<3>();
    let mut running = std::mem::take(&mut plant.running);
    let rules = plant.pair.site.folder.write(
        "tanks.toml",
        "on = \"tank, level; deadline=1s\"\n[[rule]]\nname = \"overflow\"\nif = \"level > 90 AND NOT pump.on\"\nsay = \"overflow\"\n\
         give = \"warning, tank\"\nalarm = true\n[[rule]]\nname = \"high\"\nif = \"level > 80\"\npriority = 1\ntopic = \"plant/high\"\n",
    );
    let rules = rules.to_str().unwrap();
    let tested = plant.run(&["rule", "test", rules, "-m", r#"{"level": 95, "pump": {"on": true}}"#]);
    tested.must(0, &["rule high fires", "NOT pump.on: does not hold (pump.on is true)"]);
    plant
        .run(&["rule", "test", rules, "-m", r#"{"height": 95}"#])
        .must(1, &["no rule fires", "level is not there"]);
    plant
        .run(&["rule", "add", "x", "--on", "tank", "--if", "level > 1"])
        .must(2, &["says nothing of what to do"]);
    wait_until("a peer takes them", || plant.run(&["rule", "add", "tanks", rules]).code == Some(0));
    let listed =
        || -> Value { serde_json::from_str(&plant.run(&["rule", "list", "-o", "json"]).out).unwrap() };
    let runs_at = || Some(listed()[0]["peer"].as_str()?.to_owned());
    let first = wait_for("they run", || runs_at().filter(|_| plant.run(&["rule", "list"]).code == Some(0)));
    let (consumer, producer) = (plant.pair.site.client(), plant.pair.site.client());
    let warnings = consumer.interest(&plant.peers, "warning, *").unwrap();
    let high = consumer.subscribe("plant/high").unwrap();
    let tank = producer.announce(&plant.peers, "tank, level; period=5ms, retain=50").unwrap();
    wait_until("it is looked at", || tank.is_wanted());
    let fires = || {
        tank.publish(br#"{"level": 95, "pump": {"on": false}}"#).unwrap();
        warnings.next_within(Duration::from_millis(100))
    };
    assert_eq!(wait_for("a rule fires", fires).payload, b"overflow");
    // Then each message does what it has to.
    while warnings.next_within(Duration::from_millis(200)).is_some() {}
    for (document, warned, said) in [
        (&br#"{"level": 99, "pump": {"on": false}}"#[..], true, false),
        (br#"{"level": 99, "pump": {"on": true}}"#, false, true),
        (br#"{"level": 85}"#, false, true),
        (br#"{"level": 70}"#, false, false),
        (b"nonsense", false, false),
    ] {
        tank.publish(document).unwrap();
        let wait = |expected: bool| Duration::from_millis(if expected { 5_000 } else { 100 });
        assert_eq!(warnings.next_within(wait(warned)).is_some(), warned, "{document:?}");
        assert_eq!(
            high.next_within(wait(said)).map(|message| message.payload == document),
            said.then_some(true)
        );
    }
    plant
        .run(&["rule", "trace", "tanks", "-n", "2"])
        .must(0, &["level > 80: does not hold (level is 70)", "not JSON"]);
    let counts = &listed()[0]["running"];
    assert_eq!((&counts["unread"], &counts["rules"][1]["fired"]), (&1.into(), &2.into()), "{counts}");
    let log = std::fs::read_to_string(plant.pair.site.folder.path(&first)).unwrap();
    assert!(log.contains("function tanks, rule overflow, rv/"), "{log}");
    // Another peer goes on.
    let dead = running.iter().position(|(name, _)| **name == *first).unwrap();
    running.remove(dead).1.kill();
    assert_eq!(wait_for("a rule fires elsewhere", fires).payload, b"overflow");
    assert!(runs_at().is_some_and(|now| now != first));
    plant.run(&["rule", "remove", "tanks"]).must(0, &[]);
    wait_until("nobody looks any more", || !tank.is_wanted());
    assert_eq!(listed(), serde_json::json!([]));
    plant.run(&["rule", "remove", "tanks"]).must(1, &["nothing is called `tanks`"]);
    plant.run(&["rule", "trace", "tanks"]).must(2, &["no peer that was asked runs `tanks`"]);
}

/// A module that gives back what it gets, after so many turns.
fn turning(turns: u32) -> String {
    format!(
        r#"(module (memory (export "memory") 1)
            (global $size (mut i64) (i64.const 0))
            (func (export "verge_abi_version") (result i32) (i32.const 1))
            (func (export "verge_input") (param i32 i32 i64) (result i32)
                (global.set $size (i64.extend_i32_u (local.get 1))) (i32.const 8))
            (func (export "verge_run") (param i64) (result i64) (local i32)
                (loop $again
                    (br_if $again (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (i32.const {turns}))))
                (i64.or (i64.shl (global.get $size) (i64.const 32)) (i64.const 8))))"#
    )
}

/// An operator runs as a function; one that runs only when it is asked to is started by a rule, gets the message that started it, and ends by itself.
#[test]
fn a_rule_starts_a_function_for_the_message_that_says_so() {
    let plant = Plant::start::<2>();
    let run = |words: &[&str]| plant.run(words);
    for (name, turns) in [("slow", 300_000), ("fast", 1)] {
        plant.pair.site.folder.write(&format!("{name}.wasm"), wat::parse_str(turning(turns)).unwrap());
    }
    for (name, text) in [
        (
            "tags",
            "on = \"image, raw\"\ntopic = \"plant/tags\"\nbudget = \"100us\"\n[operator]\nkind = \"wasm\"\nmodule = \"slow.wasm\"\n[cheaper]\nkind = \"wasm\"\nmodule = \"fast.wasm\"\n",
        ),
        (
            "pre",
            "on = \"image, raw; deadline=1s\"\n[[rule]]\nif = \"RESULT >= 10\"\nstart = \"post\"\nfor = \"2s\"\ngive = \"image, bad\"\n",
        ),
        (
            "post",
            "on = \"image, bad\"\nat = \"core\"\ntype = \"json:RESULT\"\nruns = \"asked\"\ntopic = \"plant/post\"\n[operator]\nkind = \"format\"\n",
        ),
    ] {
        let file = plant.pair.site.folder.write(&format!("{name}.toml"), text).display().to_string();
        wait_until("a peer takes it", || run(&["function", "add", name, &file]).code == Some(0));
    }
    let listed = || -> Value { serde_json::from_str(&run(&["function", "list", "-o", "json"]).out).unwrap() };
    // By name: `post` is before `pre`.
    let waits = |of: usize| {
        let running = &listed()[of]["running"];
        running["trouble"].is_null().then(|| running["waits"].as_bool()).flatten()
    };
    wait_until("one runs, and one waits", || waits(0) == Some(true) && waits(1) == Some(false));
    assert_eq!(listed()[0]["peer"], "p2", "{}", listed());
    let client = plant.pair.site.client();
    let post = client.subscribe("plant/post").unwrap();
    let raw = client.announce(&plant.peers, "image, raw; period=5ms, retain=50").unwrap();
    wait_until("it is looked at", || raw.is_wanted());
    // Who looks at it may begin a moment after who publishes it.
    let first = wait_for("it is started", || {
        raw.publish(br#"{"RESULT": 10}"#).unwrap();
        post.next_within(Duration::from_millis(300))
    });
    assert_eq!(first.payload, b"10");
    while post.next_within(Duration::from_millis(300)).is_some() {}
    for number in 1..30 {
        raw.publish(format!("{{\"RESULT\": {number}}}").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let came: Vec<String> = (10..30)
        .map_while(|_| post.next_within(Duration::from_secs(5)))
        .map(|message| String::from_utf8(message.payload).unwrap())
        .collect();
    assert_eq!(came, (10..30).map(|number: u32| number.to_string()).collect::<Vec<_>>());
    wait_until("it ends by itself", || waits(0) == Some(true));
    // The message that starts it comes to it.
    raw.publish(br#"{"RESULT": 77}"#).unwrap();
    assert_eq!(post.next_within(Duration::from_secs(5)).unwrap().payload, b"77");
    wait_until("it ends again", || waits(0) == Some(true));
    run(&["function", "start", "post"]).must(0, &[]);
    wait_until("it runs", || waits(0) == Some(false));
    run(&["function", "stop", "post"]).must(0, &[]);
    wait_until("it waits", || waits(0) == Some(true));
    run(&["function", "start", "nothing"]).must(2, &["no function `nothing`"]);
    // The better one of two operators was tried once.
    let tags = &listed()[2]["running"];
    assert!(tags["quality"]["cheaper"].as_u64() >= Some(20) && tags["results"] == tags["messages"], "{tags}");
    run(&["function", "trace", "tags"]).must(0, &["result, cheaper"]);
    run(&["function", "remove", "post"]).must(0, &[]);
    wait_until("it is gone", || listed()[0]["name"] == "pre");
}

/// What was put is there when two of the three die that have it, and when all have been killed and come back.
#[test]
fn what_is_put_survives_the_death_of_all_but_one_that_have_it_and_of_all() {
    let mut peers = Overlay::start();
    let _hears = peers.spawn(&["interest", "drone, colour=red", "--peer", "p4"], "hears");
    wait_until("it is put", || peers.reports().iter().any(|report| report["posts"].as_u64() == Some(1)));
    let profile = |number: u32| format!("drone, s{number}, colour=red");
    for number in 0..12 {
        let at = NAMES[number as usize % 4];
        let value = number.to_string();
        peers.run(&["store", "put", &profile(number), "-m", &value, "--peer", at]).must(0, &[]);
    }
    wait_until("who wants such things hears of all", || {
        (0..12).all(|number| peers.said("hears").contains(&format!("sensor=s{number}, ")))
    });
    peers.run(&["store", "put", "drone, s0, colour=red", "-m", "anew"]).must(0, &[]);
    peers.run(&["store", "delete", "drone, s1, colour=red", "--peer", "p2"]).must(0, &[]);
    let is_there = |peers: &Overlay| {
        for number in 2..12 {
            assert_eq!(
                peers.run(&["store", "get", &profile(number), "--peer", "p4"]).out,
                number.to_string()
            );
        }
        assert_eq!(peers.run(&["store", "get", &profile(0), "--peer", "p4"]).out, "anew");
        peers.run(&["store", "get", &profile(1), "--peer", "p4"]).must(1, &["nothing is kept"]);
        let found = peers.run(&["store", "query", "colour=red", "--values", "--peer", "p4", "-o", "json"]);
        let found: Value = serde_json::from_str(&found.out).unwrap();
        assert_eq!((found["things"].as_array().unwrap().len(), &found["silent"]), (11, &0.into()));
    };
    is_there(&peers);
    // Two at once.
    peers.running.drain(..2).for_each(|mut peer| peer.kill());
    is_there(&peers);
    // And all.
    peers.running.drain(..).for_each(|mut peer| peer.kill());
    peers.running = NAMES.iter().map(|name| peers.spawn(&["peer", "run", name], name)).collect();
    peers.wait_for(4);
    is_there(&peers);
    // What was said of things in another space has other places.
    peers.running.drain(..).for_each(|mut peer| peer.kill());
    let config = std::fs::read_to_string(&peers.config).unwrap();
    std::fs::write(&peers.config, config.replace("\"sensor\"", "\"sensors\"")).unwrap();
    peers.run(&["peer", "run", "p1"]).must(2, &["has things of another [space]"]);
}

#[test]
fn what_is_wrong_is_said_with_a_remedy() {
    let folder = Folder::new();
    let config =
        folder.write("verge.toml", "[peers.p1]\naddress = \"192.0.2.1:7610\"\nhttp = \"127.0.0.1:9\"\n");
    let config = config.display().to_string();
    for (words, said) in [
        (&["peer", "run", "p2"][..], "peers are p1"),
        (&["peer", "run", "p1"], "--insecure"),
        (&["find", "drone"], "127.0.0.1:9 does not answer"),
        (&["find", "drone", "--peer", "p7"], "peers.p7.http"),
    ] {
        folder.run(words.iter().copied().chain(["-c", &config])).must(2, &[said]);
    }
    let empty = folder.write("empty.toml", "").display().to_string();
    folder.run(["peer", "status", "-c", &empty]).must(2, &["docs/peers.md"]);
}
