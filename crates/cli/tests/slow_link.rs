//! A subscriber behind a real link of 256 kbit/s: a network namespace, and a token bucket on the way to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::link::Link;
use support::sentences::{said, says};
use support::{Folder, ORDINARY, Process, UNHURRIED, free_ports, program, wait_until};
use verge::{Client, Contract, Span};

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

const TOPICS: usize = 20;
const PAYLOAD: usize = 2_048;

#[test]
fn a_subscriber_on_a_slow_link_gets_the_newest_at_the_links_rate() {
    let Some(link) = Link::new("256kbit", "400ms") else { return };
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
    let mut command = link.command(env!("CARGO_BIN_EXE_verge"));
    command.args(["sub", "-t", "#"]);
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
