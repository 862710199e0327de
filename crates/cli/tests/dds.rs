//! Programs of DDS that know nothing of Verge, in domains that know nothing of each other, bridged by real processes.
//! `cargo test -p verge-cli --features dds --test dds`: needs Cyclone DDS 0.10 with its headers and `idlc`.

#![cfg(feature = "dds")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Folder, PATIENT, Pair, Process, Site, program, wait_for, wait_until};

/// One network interface, no multicast, and programs that are killed are missed soon.
const NETWORK: &str = "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name=\"lo\"/></Interfaces>\
    <AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>\
    <MaxAutoParticipantIndex>30</MaxAutoParticipantIndex><LeaseDuration>2s</LeaseDuration>\
    <Peers><Peer address=\"127.0.0.1\"/></Peers></Discovery></Domain></CycloneDDS>";

/// Compiles the program of DDS. `None`, and said: there is nothing to compile it with.
fn shapes(folder: &Folder) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dds");
    let at = folder.path("");
    let idl = Command::new("idlc").current_dir(&at).arg(source.join("shapes.idl")).output();
    if !idl.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no idlc of Cyclone DDS (apt-get install cyclonedds-tools)");
        return None;
    }
    let program = folder.path("program");
    let mut compile = Command::new("cc");
    compile.current_dir(&at).args(["-I.", "-O1", "-o"]).arg(&program);
    compile.arg(source.join("shapes.c")).args(["shapes.c", "-lddsc"]);
    assert!(compile.status().unwrap().success());
    Some(program)
}

/// A program of DDS, and what it has printed.
struct Shapes {
    child: Child,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Shapes {
    fn start(program: &Path, role: &str, domain: u32, topic: &str, options: &[&str]) -> Shapes {
        let mut command = Command::new(program);
        command.args([role, &domain.to_string(), topic]).args(options).env("CYCLONEDDS_URI", NETWORK);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (output, kept) = (child.stdout.take().unwrap(), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Shapes { input: child.stdin.take(), child, lines }
    }

    fn say(&mut self, words: &str) {
        writeln!(self.input.as_mut().unwrap(), "{words}").unwrap();
    }

    fn has(&self, line: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|printed| printed == line)
    }

    /// What came as data: color and number.
    fn data(&self) -> Vec<(String, u32)> {
        let lines = self.lines.lock().unwrap();
        let data = lines.iter().filter_map(|line| line.strip_prefix("data "));
        data.map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap())
        })
        .collect()
    }

    fn numbers(&self) -> Vec<u32> {
        self.data().into_iter().map(|(_, number)| number).collect()
    }

    /// Waits until all of so many numbers have come. Says which have not.
    fn must_have_all(&self, written: u32) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.numbers().len() < written as usize {
            let come = self.numbers();
            let missing: Vec<u32> = (0..written).filter(|number| !come.contains(number)).collect();
            assert!(Instant::now() < until, "{} of {written}, without {missing:?}", come.len());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The newest of each instance that is alive.
    fn alive(&self) -> BTreeMap<String, u32> {
        let mut alive = BTreeMap::new();
        for line in self.lines.lock().unwrap().iter() {
            match line.split(' ').collect::<Vec<&str>>()[..] {
                ["data", color, number, _] => drop(alive.insert(color.to_owned(), number.parse().unwrap())),
                ["disposed" | "unwritten", color] => drop(alive.remove(color)),
                _ => {}
            }
        }
        alive
    }

    /// The last sign of whether writers are found.
    fn writers(&self) -> Option<String> {
        let lines = self.lines.lock().unwrap();
        lines.iter().rev().find_map(|line| line.strip_prefix("matched ").map(str::to_owned))
    }

    fn wait_for_writers(&self, writers: &str) {
        wait_until("writers to be found", || self.writers().as_deref() == Some(writers));
    }
}

impl Drop for Shapes {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bridge(site: &Site, name: &str, domain: u32, more: &[&str]) -> Process {
    let domain = domain.to_string();
    let mut arguments = vec!["--config", site.config.to_str().unwrap(), "dds", "bridge"];
    arguments.extend(["--domain", &domain, "--as", "0", "--id", name]);
    arguments.extend(more);
    let mut command = program(arguments);
    command.env("CYCLONEDDS_URI", NETWORK);
    Process::start(&mut command, site.folder.path(&format!("{name}.log")))
}

fn wait_for_service(bridges: &[&Process]) {
    bridges.iter().for_each(|bridge| {
        wait_until("a bridge to serve", || bridge.log().contains("serves its domain"));
    });
}

fn status(site: &Site, code: i32) -> serde_json::Value {
    let shown = site.run(&["dds", "status", "-o", "json"]);
    shown.must(code, &[]);
    serde_json::from_str(&shown.out).unwrap()
}

#[test]
fn programs_that_never_heard_of_each_other_hear_each_other_across_sites_whichever_primary_dies() {
    let folder = Folder::new();
    let Some(shapes) = shapes(&folder) else { return };
    let mut router = Pair::start(PATIENT);
    let joined = |name: &str| {
        let [first, _, second, _] = router.site.ports;
        format!(
            "{PATIENT}[site]\nname = \"{name}\"\n[routers.r1]\naddress = \"127.0.0.1:{first}\"\npartner = \"127.0.0.1:{second}\"\n"
        )
    };
    let (mut north, mut south) = (Pair::start(&joined("north")), Pair::start(&joined("south")));
    [&router, &north, &south].iter().for_each(|pair| _ = pair.wait_for_protection());
    let (at_north, at_south) =
        (bridge(&north.site, "plant", 60, &["--period", "4ms"]), bridge(&south.site, "office", 61, &[]));
    wait_for_service(&[&at_north, &at_south]);
    let reliable = ["-r", "-d", "-k", "0"];
    let reader = Shapes::start(&shapes, "read", 61, "Square", &["-r", "-d", "-k", "0"]);
    let mut writer = Shapes::start(&shapes, "write", 60, "Square", &reliable);
    reader.wait_for_writers("1");
    writer.say("wait");
    let mut written = 0;
    let mut write = |count: u32, reader: &Shapes| {
        writer.say(&format!("write red {count} 4000 10"));
        written += count;
        reader.must_have_all(written);
    };
    write(20, &reader);
    for victim in [&mut north, &mut south, &mut router] {
        let primary = victim.wait_for_protection();
        let before = reader.numbers().len();
        let dies = std::thread::scope(|scope| {
            let dies = scope.spawn(|| {
                wait_until("the load to flow", || reader.numbers().len() > before + 75);
                victim.kill(primary);
            });
            write(400, &reader);
            dies.join()
        });
        dies.unwrap();
        victim.wait_for_reign(1 - primary);
        victim.restart(primary);
        victim.wait_for_protection();
    }
    assert_eq!(reader.numbers(), (0..1220).collect::<Vec<u32>>(), "each once, and in order");
    // Who comes late has the newest of each instance, and disposals pass.
    for color in ["green", "blue", "black"] {
        writer.say(&format!("write {color} 3 1000 5000"));
    }
    writer.say("dispose black");
    writer.say("unregister blue");
    wait_until("the disposal", || reader.has("disposed black") && reader.has("disposed blue"));
    let late = Shapes::start(&shapes, "read", 61, "Square", &["-r", "-d", "-k", "0"]);
    let newest = BTreeMap::from([("red".to_owned(), 1219), ("green".to_owned(), 1222)]);
    wait_until("what was written before", || late.alive() == newest);
    assert_eq!(reader.alive(), newest);
    let shown = status(&south.site, 0);
    let link = &shown["links"][0];
    assert_eq!(
        (&link["topic"], &link["from"], &link["to"], &link["mismatch"], &link["readers"]),
        (&"Square".into(), &"plant".into(), &"office".into(), &serde_json::Value::Null, &2.into()),
        "{shown}"
    );
    drop(writer);
    reader.wait_for_writers("0");
    assert!(!at_north.log().contains("refused"), "{}", at_north.log());
}

#[test]
fn quality_of_service_is_that_of_dds_from_end_to_end() {
    let folder = Folder::new();
    let Some(shapes) = shapes(&folder) else { return };
    let site = Site::new(PATIENT);
    let _broker = site.start(0);
    let (left, right) =
        (bridge(&site, "left", 62, &[]), bridge(&site, "right", 63, &["--except", "-/Secret"]));
    wait_for_service(&[&left, &right]);
    // The strongest is heard, and the next one when it has died.
    let reader = Shapes::start(&shapes, "read", 63, "Valve", &["-r", "-k", "0", "-e", "0"]);
    let mut strong = Shapes::start(&shapes, "write", 62, "Valve", &["-r", "-e", "9"]);
    let mut weak = Shapes::start(&shapes, "write", 62, "Valve", &["-r", "-e", "1"]);
    for writer in [&mut strong, &mut weak] {
        writer.say("wait");
    }
    reader.wait_for_writers("2");
    strong.say("write red 5 1000 0");
    wait_until("the strongest", || reader.numbers() == [0, 1, 2, 3, 4]);
    weak.say("write red 3 1000 0");
    strong.say("write red 1 1000 0");
    wait_until("the strongest", || reader.numbers() == [0, 1, 2, 3, 4, 5]);
    strong.child.kill().unwrap();
    reader.wait_for_writers("1");
    weak.say("write red 2 1000 0");
    wait_until("the next one", || reader.numbers() == [0, 1, 2, 3, 4, 5, 3, 4]);
    // Partitions are apart, a type without keys is carried, and what is excepted is not.
    let plain = Shapes::start(&shapes, "read", 63, "Speed", &["-r", "-k", "0", "-p", "line?", "-P"]);
    let secret = Shapes::start(&shapes, "read", 63, "Secret", &["-r"]);
    let mut hidden = Shapes::start(&shapes, "write", 62, "Secret", &["-r"]);
    let mut other = Shapes::start(&shapes, "write", 62, "Speed", &["-r", "-p", "hall", "-P"]);
    let mut speed = Shapes::start(&shapes, "write", 62, "Speed", &["-r", "-p", "line7", "-P"]);
    speed.say("wait");
    for writer in [&mut hidden, &mut other] {
        writer.say("write x 5 1000 0");
    }
    speed.say("write x 40 1000 0");
    wait_until("what has no key", || plain.numbers() == (0..40).collect::<Vec<u32>>());
    assert!(secret.numbers().is_empty());
    // Less is offered than asked: told at both ends, and shown.
    let asks = Shapes::start(&shapes, "read", 63, "Alarm", &["-r", "-D", "100"]);
    let mut offers = Shapes::start(&shapes, "write", 62, "Alarm", &["-D", "500"]);
    let words = "less is offered than asked: DEADLINE";
    wait_until("the mismatch", || left.log().contains(words) && right.log().contains(words));
    offers.say("write red 3 1000 0");
    let shown = status(&site, 1);
    let link = shown["links"].as_array().unwrap().iter().find(|link| link["topic"] == "Alarm").unwrap();
    assert!(link["mismatch"].as_str().unwrap().contains("DEADLINE"), "{shown}");
    site.run(&["dds", "status"]).must(1, &["left", "right", "serves", words]);
    assert!(asks.numbers().is_empty());
}

#[test]
fn a_bridge_that_dies_leaves_no_writers_behind_and_another_takes_its_place() {
    let folder = Folder::new();
    let Some(shapes) = shapes(&folder) else { return };
    let site = Site::new(PATIENT);
    let _broker = site.start(0);
    let (mut left, right) =
        (bridge(&site, "left", 64, &["--lease", "2s"]), bridge(&site, "right", 65, &["--lease", "2s"]));
    wait_for_service(&[&left, &right]);
    let reader = Shapes::start(&shapes, "read", 65, "Square", &["-r", "-d", "-k", "0"]);
    let mut writer = Shapes::start(&shapes, "write", 64, "Square", &["-r", "-d", "-k", "0"]);
    reader.wait_for_writers("1");
    writer.say("wait");
    writer.say("write red 10 1000 0");
    wait_until("the first ten", || reader.numbers().len() == 10);
    // One that stands by serves when the other one has died.
    let second = bridge(&site, "left-too", 64, &["--lease", "2s"]);
    wait_for("the second bridge to be seen", || {
        let shown = status(&site, 0);
        shown["bridges"].as_array()?.iter().any(|bridge| bridge["state"] == "stands by").then_some(())
    });
    left.kill();
    reader.wait_for_writers("0");
    wait_until("the second bridge to serve", || second.log().contains("serves its domain"));
    reader.wait_for_writers("1");
    writer.say("wait");
    wait_until("what the writer keeps", || reader.numbers().len() == 11);
    writer.say("write red 10 1000 0");
    wait_until("the next ten", || reader.numbers().ends_with(&(10..20).collect::<Vec<u32>>()));
    // Once more what the writer keeps, since for the reader it is another writer: and nothing else.
    let numbers = reader.numbers();
    assert_eq!(numbers[..10], (0..10).collect::<Vec<u32>>());
    assert_eq!(numbers[10..], (9..20).collect::<Vec<u32>>());
}

#[test]
fn bad_input_is_told_with_a_remedy() {
    let folder = Folder::new();
    let site = Site::new("");
    let config = site.config.to_str().unwrap();
    for (arguments, says) in [
        (&["--id", "a/b"][..], "it must be without `/`"),
        (&["--id", "bridges"], "bridges speak below that name"),
        (&["--lease", "100ms"], "--lease is 100ms"),
        (&["--period", "1us"], "--period is 1us"),
        (&["--domain", "231"], "231 is not in 0..=230"),
        (&["--only", "a/#/b"], "--only"),
    ] {
        let before = ["--config", config, "dds", "bridge"];
        folder.run(before.iter().chain(arguments)).must(2, &[says]);
    }
    let broker = site.start(0);
    wait_until("the broker", || broker.log().contains("this broker is primary"));
    let network = [(
        "CYCLONEDDS_URI",
        "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name=\"nothere\"/>\
        </Interfaces></General></Domain></CycloneDDS>",
    )];
    let bridged = folder.run_with(["--config", config, "dds", "bridge"], &network);
    bridged.must(2, &["cannot enter domain 0 of DDS", "CYCLONEDDS_URI"]);
    site.run(&["dds", "status"]).must(1, &["no bridge answers for domain 0"]);
}
