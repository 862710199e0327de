//! A subscriber behind a real link of 256 kbit/s: a network namespace, and a token bucket on the way to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::sentences::{said, says};
use support::{Folder, ORDINARY, Process, UNHURRIED, free_ports, program, wait_until};
use verge::{Client, Contract, Span};

/// A namespace with a link to this side, both gone at the end.
struct Link {
    name: String,
    near: String,
    far: String,
}

impl Link {
    /// Nothing if this process may not make one.
    fn new(rate: &str) -> Option<Link> {
        let number = std::process::id() % 16_384;
        let (high, low) = (number / 64, number % 64 * 4);
        let link = Link {
            name: format!("vslow{number}"),
            near: format!("10.231.{high}.{}", low + 1),
            far: format!("10.231.{high}.{}", low + 2),
        };
        let Link { name, near, far } = &link;
        let made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {name} type veth peer name far netns {name}"))
            && ip(&format!("addr add {near}/30 dev {name}"))
            && ip(&format!("link set {name} up"))
            && ip(&format!("-n {name} addr add {far}/30 dev far"))
            && ip(&format!("-n {name} link set far up"))
            && run("tc", &format!("qdisc add dev {name} root tbf rate {rate} burst 4kb latency 400ms"));
        if !made {
            eprintln!("SKIPPED: a link of {rate} needs root, `ip` and `tc`");
        }
        made.then_some(link)
    }

    /// Bytes that have gone to the other side, with what the link itself adds to them.
    fn carried(&self) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/tx_bytes", self.name);
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = ip(&format!("link del {}", self.name));
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(arguments: &str) -> bool {
    run("ip", arguments)
}

fn run(program: &str, arguments: &str) -> bool {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

const TOPICS: usize = 20;
const PAYLOAD: usize = 2_048;

#[test]
fn a_subscriber_on_a_slow_link_gets_the_newest_at_the_links_rate() {
    let Some(link) = Link::new("256kbit") else { return };
    let [clients, pair, other_clients, other_pair] = free_ports::<4>();
    let folder = Folder::new();
    let near = &link.near;
    let config = folder.write(
        "verge.toml",
        format!(
            "{ORDINARY}{UNHURRIED}[brokers.a]\nclients = \"{near}:{clients}\"\npair = \"127.0.0.1:{pair}\"\nstart_as = \"primary\"\n\
             [brokers.b]\nclients = \"{near}:{other_clients}\"\npair = \"127.0.0.1:{other_pair}\"\n"
        ),
    );
    let broker = |name: &str| {
        let mut command = program(["broker", name, "--insecure", "--config", config.to_str().unwrap()]);
        Process::start(command.stdout(Stdio::null()), folder.path(&format!("{name}.log")))
    };
    let brokers = [broker("a"), broker("b")];
    let addresses = format!("{near}:{clients},{near}:{other_clients}");
    let publisher = Client::builder().patience(support::WATCHDOG).connect(&addresses).unwrap();
    let contract = Contract::every(Span::millis(50)).deadline(Span::millis(200)).best_effort();
    let names: Vec<String> = (0..TOPICS).map(|index| format!("t/{index}")).collect();
    let publishers = publisher.publishers(names.iter().map(|name| (name.as_str(), Some(contract)))).unwrap();
    let out = folder.path("sub.out");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &link.name, env!("CARGO_BIN_EXE_verge"), "sub", "-t", "#"]);
    command.args(["-h", &format!("{near}:{clients}"), "-h", &format!("{near}:{other_clients}")]);
    command.stdin(Stdio::null()).stdout(File::create(&out).unwrap());
    let client = Process::start(&mut command, folder.path("sub.log"));
    let publish = || {
        publishers.iter().for_each(|publisher| {
            let _ = publisher.publish(&[b'x'; PAYLOAD]);
        });
        std::thread::sleep(Duration::from_millis(50));
    };
    // At first nobody knows how much the link carries.
    let sentence = "this subscriber reads slower than its topics publish: of … messages that had to wait in the last … s, … were dropped, the oldest first; … kB/s are read.";
    wait_until("a sentence to the subscriber", || {
        publish();
        says(&client.log(), sentence)
    });
    let (from, before) = (link.carried(), length(&out));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        publish();
    }
    let (carried, came) = (link.carried() - from, length(&out) - before);
    eprintln!("the link carried {carried} bytes, {came} of them are payload");
    // Heads of packets are a twentieth of it, and so are polls of both brokers with their answers.
    // Heads of packets and acknowledgements are the rest, and on a busy host a link that stands idle.
    assert!(came * 10 >= carried * 7, "the link carried {carried} bytes, and {came} came");
    said(&client.log(), sentence);
    said(
        &brokers[0].log(),
        "subscriber … does not read fast enough: of … messages that had to wait in the last … s, … were dropped, the oldest first; … kB/s are read",
    );
    assert!(!client.log().contains("no primary") && !client.log().contains("going on"), "{}", client.log());
}
