//! Clients on a host from which the backup is in reach and the primary is not, while both brokers reach each other: real processes
//! in network namespaces of their own, where what passes between two of them can be cut.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use support::{Folder, ORDINARY, Process, wait_for, wait_until};

/// The hosts of the brokers, of the clients that are cut off, and the wires between them.
const HOSTS: [&str; 4] = ["a", "b", "c", "wires"];
/// Between two hosts, their places among [`HOSTS`], and the network there. Host number `n` has the address `n + 1` in each of its own.
const WIRES: [(usize, usize, &str); 3] = [(0, 1, "ab"), (0, 2, "ac"), (1, 2, "bc")];
/// A message every 50 ms, for 20 s.
const MESSAGES: usize = 400;

/// Namespaces, gone when this is.
struct Hosts;

impl Hosts {
    /// `None`: they cannot be made here.
    fn new() -> Option<Hosts> {
        if !rustix::process::getuid().is_root() || Command::new("ip").arg("netns").output().is_err() {
            eprintln!("SKIPPED: network namespaces need root, and the program `ip`");
            return None;
        }
        let hosts = Hosts;
        for host in HOSTS {
            if !ip(&["netns", "add", &name(host)]) {
                eprintln!("SKIPPED: no network namespace can be made here");
                return None;
            }
            assert!(ip(&["-n", &name(host), "link", "set", "lo", "up"]));
        }
        for (number, (one, other, wire)) in WIRES.iter().enumerate() {
            let wires = name("wires");
            assert!(ip(&["-n", &wires, "link", "add", wire, "type", "bridge"]));
            assert!(ip(&["-n", &wires, "link", "set", wire, "up"]));
            for host in [*one, *other] {
                let (there, end) = (name(HOSTS[host]), format!("{wire}-{}", HOSTS[host]));
                assert!(ip(&["-n", &there, "link", "add", wire, "type", "veth", "peer", "name", &end]));
                assert!(ip(&["-n", &there, "link", "set", &end, "netns", &wires]));
                assert!(ip(&["-n", &wires, "link", "set", &end, "master", wire, "up"]));
                let address = format!("10.77.{}.{}/24", number + 1, host + 1);
                assert!(ip(&["-n", &there, "addr", "add", &address, "dev", wire]));
                assert!(ip(&["-n", &there, "link", "set", wire, "up"]));
            }
        }
        // The clients on the backup's host reach the primary over the wire between the brokers.
        assert!(ip(&["-n", &name("b"), "route", "add", "10.77.2.0/24", "via", "10.77.1.1"]));
        Some(hosts)
    }

    /// Nothing passes on a wire any more, and nobody is told; or it passes again.
    fn cut(&self, wire: &str, cut: bool) {
        assert!(ip(&["-n", &name("wires"), "link", "set", wire, if cut { "down" } else { "up" }]));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        HOSTS.iter().for_each(|host| _ = ip(&["netns", "del", &name(host)]));
    }
}

fn name(host: &str) -> String {
    format!("verge-cut-{}-{host}", std::process::id())
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The program on a host; what it prints and says goes into files of this name.
fn start(folder: &Folder, host: &str, called: &str, arguments: &[&str]) -> Process {
    let out = std::fs::File::create(folder.path(&format!("{called}.out"))).unwrap();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name(host), env!("CARGO_BIN_EXE_verge")]).args(arguments);
    command.arg("--config").arg(folder.path("verge.toml")).stdin(Stdio::null()).stdout(out);
    Process::start(&mut command, folder.path(&format!("{called}.err")))
}

/// What `verge status` says on the backup's host.
fn status(folder: &Folder, format: &str) -> String {
    let mut ran = start(folder, "b", "status", &["status", "--format", format]);
    ran.wait_for_end();
    std::fs::read_to_string(folder.path("status.out")).unwrap()
}

/// The messages that came: their numbers, and when they were created.
fn received(path: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(path).unwrap();
    let field = |line: &serde_json::Value, name: &str| line[name].as_u64().unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.map(|line: serde_json::Value| (field(&line, "seq"), field(&line, "created_ns"))).collect()
}

#[test]
fn clients_that_reach_only_the_backups_host_keep_every_message_behind_the_switch() {
    let Some(hosts) = Hosts::new() else { return };
    let folder = Folder::new();
    let mut text = String::from(ORDINARY);
    for (broker, clients, pair) in [("a", "10.77.2.1", "10.77.1.1"), ("b", "10.77.3.2", "10.77.1.2")] {
        let role = if broker == "a" { "primary" } else { "backup" };
        text += &format!(
            "[brokers.{broker}]\nclients = \"{clients}:7571\"\npair = \"{pair}:7572\"\nstart_as = \"{role}\"\n"
        );
    }
    folder.write("verge.toml", text);
    let brokers = ["a", "b"].map(|broker| start(&folder, broker, broker, &["broker", broker, "--insecure"]));
    wait_until("the pair is protected", || status(&folder, "table").contains("protected: a crash"));
    let receive = ["sub", "-t", "belt", "--format", "json"];
    let near = start(&folder, "b", "near", &receive);
    let far = start(&folder, "c", "far", &receive);
    wait_until("both have subscribed", || status(&folder, "json").contains("\"clients\": 3"));
    let repeat = MESSAGES.to_string();
    let contract = ["--period", "50ms", "--retain", "2", "-i", "belt"];
    let publish = ["pub", "-t", "belt", "-m", "x", "--repeat", &repeat];
    let mut publisher = start(&folder, "c", "pub", &[&publish[..], &contract[..]].concat());
    wait_until("messages flow", || received(&folder.path("far.out")).len() > 20);

    hosts.cut("ac", true);
    for process in [&publisher, &far] {
        let words = "is out of reach from here, and messages pass through 10.77.3.2:7571, which stands by";
        wait_until("it is told", || process.log().contains(words));
    }
    let switched = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    wait_until("status says so", || {
        let told = status(&folder, "json");
        told.contains("\"relayed\": 2") && told.contains("\"silent\": 0")
    });
    let told = status(&folder, "table");
    assert!(told.contains("2 clients cannot reach a at 10.77.2.1:7571 and pass through b: "), "{told}");
    assert!(brokers[1].log().contains("belt cannot reach the primary, and passes through this broker"));
    assert!(brokers[0].log().contains("belt cannot reach this broker, and passes through the backup"));
    std::thread::sleep(Duration::from_secs(3));

    hosts.cut("ac", false);
    for process in [&publisher, &far] {
        wait_until("it is told", || {
            process.log().contains("the primary at 10.77.2.1:7571 is reached directly again")
        });
    }
    wait_until("nobody is relayed", || !status(&folder, "table").contains("cannot reach"));
    assert_eq!(publisher.wait_for_end(), Some(0));
    let last = MESSAGES as u64 - 1;
    for receiver in ["near", "far"] {
        let path = folder.path(&format!("{receiver}.out"));
        wait_for("the last message", || received(&path).iter().any(|(seq, _)| *seq == last).then_some(()));
        let came = received(&path);
        let seqs: BTreeSet<u64> = came.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs.len(), came.len(), "{receiver}: nothing comes twice");
        let first =
            came.iter().filter(|(_, created)| *created >= switched).map(|(seq, _)| *seq).min().unwrap();
        let missing: Vec<u64> = (first..=last).filter(|seq| !seqs.contains(seq)).collect();
        assert!(missing.is_empty() && last - first > 60, "{receiver}: {missing:?} since {first}");
    }
    drop((near, far, brokers));
}
