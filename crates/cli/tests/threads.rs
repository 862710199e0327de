//! No thread ends in silence while its process lives: each is made to end, by a panic and by an error, and what its process then says
//! and does is looked at.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Process, Site, free_ports, program, wait_until};

const TROUBLE: i32 = 2;
const LOSE: &str = "VERGE_TEST_LOSE";

/// A pair with everything that needs a thread.
fn site() -> Site {
    let [http, websocket] = free_ports::<2>();
    let site = Site::new("");
    let secret = site.folder.write("pair.secret", "0123456789abcdef0123456789abcdef\n");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let users = site.folder.write("users.toml", "");
    let text = std::fs::read_to_string(&site.config).unwrap();
    let doors = format!("[brokers.a]\nhttp = \"127.0.0.1:{http}\"\nmqtt_ws = \"127.0.0.1:{websocket}\"\n");
    let text = text.replacen("[brokers.a]\n", &doors, 1).replacen(
        "[brokers.b]\n",
        "[brokers.b]\nhttp = \"none\"\n",
        1,
    ) + &format!(
        "[security]\nusers = {users:?}\npair_secret_file = {secret:?}\n[site]\nname = \"here\"\njournal = {:?}\n\
         [routers.r1]\naddress = \"127.0.0.1:1\"\n[store]\nfolder = {:?}\n",
        site.folder.path("journal"),
        site.folder.path("store")
    );
    std::fs::write(&site.config, text).unwrap();
    site
}

/// Losses that end a broker.
const ENDING: [&str; 16] = [
    "log",
    "log:error:300",
    "control",
    "control:error",
    "reload",
    "signals:error",
    "heart",
    "handshakes:error",
    "verify-0",
    "operators-0",
    "watchdog",
    "watchdog:error",
    "uplink",
    "uplink:error:300",
    "keeper",
    "keeper:error:300",
];

#[test]
fn a_broker_that_loses_a_thread_says_which_and_ends() {
    let site = site();
    for lost in ENDING {
        let nowhere = site.folder.path("notify").display().to_string();
        let _manager = std::os::unix::net::UnixDatagram::bind(&nowhere).unwrap();
        let log = site.folder.path(&format!("{lost}.log"));
        let mut command = program(["broker", "a", "-c"]);
        command.arg(&site.config).env(LOSE, lost).env("NOTIFY_SOCKET", &nowhere).stdout(Stdio::null());
        let mut broker = Process::start(&mut command, log);
        assert_eq!(broker.wait_for_end(), Some(TROUBLE), "{lost}: {}", broker.log());
        let thread = lost.split(':').next().unwrap();
        let said = format!("verge: the thread `{thread}` has ended: it ");
        assert!(broker.log().contains(&said), "{lost}: {}", broker.log());
        std::fs::remove_file(&nowhere).unwrap();
    }
}

#[test]
fn the_partner_of_a_broker_that_loses_a_thread_serves_on() {
    let site = Site::new("");
    let mut first = site.start_with(0, &[(LOSE, "log:error:3000".to_owned())]);
    let second = site.start(1);
    wait_until("that the pair is protected", || {
        second.log().contains("protected: ") || first.log().contains("protected: ")
    });
    assert_eq!(first.wait_for_end(), Some(TROUBLE), "{}", first.log());
    wait_until("that the partner reigns", || {
        second.log().contains("this broker is primary in epoch 2: the primary handed over")
    });
}

#[test]
fn a_store_that_loses_a_thread_is_given_up_and_the_broker_says_so_and_goes_on() {
    for thread in ["store-collect", "store-write"] {
        let site = site();
        let mut broker = site.start_with(0, &[(LOSE, thread.to_owned())]);
        let said = format!("its thread `{thread}` has ended: it panicked");
        wait_until("that the store is given up", || {
            let log = broker.log();
            log.contains("the store is given up") && log.contains(&said)
        });
        assert_eq!(broker.terminate(), Some(0), "{}", broker.log());
    }
}

#[test]
fn a_command_whose_client_ends_says_why_and_ends() {
    let site = Site::with_roles(["primary", "backup"], "");
    let broker = site.start(0);
    wait_until("that a broker reigns", || broker.log().contains("this broker is primary"));
    let run = |words: &[&str], lost: &str| {
        let mut all = words.to_vec();
        let config = site.config.display().to_string();
        all.extend(["--config", &config]);
        site.folder.run_with(all, &[(LOSE, lost), ("RUST_BACKTRACE", "0")])
    };
    for lost in ["verge-client", "verge-client:error", "verge-client:error:1500", "verge-client:panic:1500"] {
        let said = "the client has ended: it ";
        run(&["sub", "-t", "#"], lost).must(TROUBLE, &[said]);
        run(&["sub", "-t", "x", "-t", "y/#"], lost).must(TROUBLE, &[said]);
        run(&["pub", "-t", "x", "-m", "1", "--repeat", "1000000", "--repeat-delay", "20ms"], lost)
            .must(TROUBLE, &[said]);
    }
}

#[test]
fn a_node_of_the_store_that_loses_a_thread_says_which_and_ends() {
    let folder = support::Folder::new();
    let ports = free_ports::<4>();
    let mut text = "[kv]\nstart_wait = \"100ms\"\n".to_owned();
    for (name, port) in ["a", "b", "c", "d"].into_iter().zip(ports) {
        let socket = folder.path(&format!("{name}.sock"));
        text += &format!("[kv.nodes.{name}]\naddress = \"127.0.0.1:{port}\"\nsocket = {socket:?}\n");
    }
    text += "[[lane]]\nkeys = [\"mode\"]\nperiod = \"100ms\"\npriority = \"auto\"\n";
    let config = folder.write("verge.toml", text);
    for lost in ["kv lane", "kv listener", "kv dialer:error"] {
        let mut node = node(&config, &folder.path("a.log"), lost);
        assert_eq!(node.wait_for_end(), Some(TROUBLE), "{lost}: {}", node.log());
        let thread = lost.split(':').next().unwrap();
        assert!(
            node.log().contains(&format!("the thread `{thread}` has ended: it ")),
            "{lost}: {}",
            node.log()
        );
    }
    let mut node = node(&config, &folder.path("b.log"), "nobody");
    wait_until("that it runs", || node.log().contains("runs"));
    node.signal(Signal::TERM);
    assert_eq!(node.wait_for_end(), Some(0), "{}", node.log());
}

fn node(config: &Path, log: &Path, lost: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
    command.args(["kv", "node", "a", "-c"]).arg(config).env(LOSE, lost);
    Process::start(&mut command, log.to_owned())
}

/// Where threads may be started otherwise than as [`host::Helpers`], and how their end is noticed.
const ELSEWHERE: [(&str, &str); 21] = [
    ("host/src/helpers.rs", "here it is done"),
    ("host/src/workers.rs", "a probe that is joined at once"),
    ("host/src/store.rs", "the store is given up with it"),
    ("host/src/calibrate/carriers.rs", "asleep while the host is measured, and joined then"),
    ("client/src/client.rs", "the client ends with it"),
    ("cli/src/main.rs", "it ends the process"),
    ("cli/src/commands/bundle.rs", "it reads what a command says, and is joined"),
    ("conform/src/lib.rs", "it reads what a client prints, and its end is what is waited for"),
    ("conform/src/stage.rs", "its connection breaks with it, and the client is tried without"),
    ("cli/src/commands/status/top.rs", "what it asked gets old, which the screen says"),
    ("cli/src/commands/watch.rs", "it only speaks, and its command goes on without it"),
    ("demos/src/worker.rs", "it ends the process"),
    ("cli/src/commands/replay.rs", "it ends the process"),
    ("demos/src/crash/relay.rs", "connections that it carries break with it, which the demo counts"),
    ("demos/src/sites/load.rs", "it is joined at the end, and what it could not publish is told then"),
    ("demos/src/sites/line.rs", "nothing comes any more without it, which the demo counts"),
    ("node/src/signals.rs", "it ends the process, and without it a service manager does"),
    ("node/src/losses.rs", "it waits for the loss of others, and ends what they are part of"),
    ("demos/src/pendulum/replica.rs", "a part of the demo, whose result it is"),
    ("kv-shared/src/server.rs", "its owner asks whether it serves"),
    ("kv-shared/src/server/guest.rs", "its connection breaks with it"),
];

#[test]
fn threads_are_started_where_their_end_is_noticed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for part in [
        "host",
        "client",
        "web",
        "cli",
        "conform",
        "demos",
        "node",
        "trials",
        "kv-host",
        "kv-shared",
        "kv-client",
        "peer-host",
        "functions",
    ] {
        look_for_threads(&crates.join(part).join("src"), &mut found);
    }
    let name = |path: &PathBuf| path.strip_prefix(crates).unwrap().display().to_string();
    let elsewhere = |path: &String| ELSEWHERE.iter().any(|(known, _)| known == path);
    let unknown: Vec<String> = found.iter().map(name).filter(|path| !elsewhere(path)).collect();
    assert!(unknown.is_empty(), "threads that may end unnoticed: {unknown:?}; start them as host::Helpers");
}

/// Files with threads outside of their tests, which come last.
fn look_for_threads(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            look_for_threads(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let shipped = text.split("#[cfg(test)]").next().unwrap();
            if shipped.contains("thread::Builder::new()") || shipped.contains("thread::spawn(") {
                found.push(path);
            }
        }
    }
}
