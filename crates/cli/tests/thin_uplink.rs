//! A site behind a real link of a megabit in a second, which keeps two seconds of what was sent to it faster: what has a deadline does not wait
//! for what has none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::link::Link;
use support::{Folder, ORDINARY, Process, UNHURRIED, free_ports, wait_until};
use verge::{Client, Contract, Span};

/// How long each message of a topic took.
type Took = Arc<Mutex<BTreeMap<String, Vec<Duration>>>>;

/// What both sites publish: a topic with a deadline, and four times what the link carries of one without.
fn publish(client: &Client, site: &str, began: Instant, lasts: Duration) {
    let urgent = Contract::every(Span::millis(50)).deadline(Span::millis(500)).best_effort().size(16);
    let bulk = Contract { deadline: Span::FOREVER, ..Contract::every(Span::millis(2)).best_effort() };
    let urgent = client.publisher(&format!("{site}/urgent"), urgent).unwrap();
    let bulk = client.publisher(&format!("{site}/bulk"), bulk).unwrap();
    let mut payload = vec![0; 1_000];
    let until = Instant::now() + lasts;
    for number in 0.. {
        let now = Instant::now();
        if now >= until {
            return;
        }
        payload[..8].copy_from_slice(&(now.duration_since(began).as_nanos() as u64).to_le_bytes());
        bulk.publish(&payload).unwrap();
        if number % 25 == 0 {
            urgent.publish(&payload[..16]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Hears what another site publishes.
fn hear(client: &Client, site: &str, began: Instant) -> Took {
    let took = Took::default();
    let book = Arc::clone(&took);
    let record = move |delivery: &verge::Delivery<'_>| {
        let sent = u64::from_le_bytes(delivery.payload[..8].try_into().unwrap());
        let took = began.elapsed().saturating_sub(Duration::from_nanos(sent));
        book.lock().unwrap().entry(delivery.topic.to_owned()).or_default().push(took);
    };
    client.subscribe_with(&format!("{site}/#"), record).unwrap();
    took
}

/// What is on both sides of a link: a router and a site here, and a site there.
struct Plant {
    _processes: Vec<Process>,
    _folder: Folder,
    north: String,
    south: String,
}

/// Starts all of it. `uplink`: what the site behind the link says of that.
fn start(link: &Link, uplink: &str) -> Plant {
    let [router, north, south, pairs @ ..] = free_ports::<6>();
    let folder = Folder::new();
    let shared = format!(
        "{ORDINARY}{UNHURRIED}[link.thin]\nbroker_to_subscriber = \"150ms\"\nconfirmation = \"400ms\"\n"
    );
    let broker = |clients: String, pair: u16| {
        format!(
            "[brokers.a]\nclients = \"{clients}\"\npair = \"127.0.0.1:{pair}\"\nhttp = \"none\"\nmqtt = \"none\"\nstart_as = \"primary\"\n"
        )
    };
    let site = |name: &str, [clients, pair]: [u16; 2], uplink: &str| {
        format!(
            "{shared}{}[site]\nname = \"{name}\"\n[routers.r1]\naddress = \"{}:{router}\"\n[uplink]\n{uplink}",
            broker(format!("127.0.0.1:{clients}"), pair),
            link.near
        )
    };
    let there =
        folder.write("north.toml", site("north", [north, pairs[0]], &format!("link = \"thin\"\n{uplink}")));
    let configs = [
        folder
            .write("router.toml", format!("{shared}{}", broker(format!("{}:{router}", link.near), pairs[2]))),
        folder.write("south.toml", site("south", [south, pairs[1]], "")),
    ];
    let program = env!("CARGO_BIN_EXE_verge");
    let run = |mut command: std::process::Command, config: &PathBuf, log: &str| {
        command.args(["broker", "a", "--insecure", "--config", config.to_str().unwrap()]);
        Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()), folder.path(log))
    };
    let mut processes = vec![run(link.command(program), &there, "north.log")];
    for (config, log) in configs.iter().zip(["router.log", "south.log"]) {
        processes.push(run(std::process::Command::new(program), config, log));
    }
    wait_until("both sites to reach the router", || {
        let reached = |process: &Process| process.log().contains("the router r1 is reached");
        reached(&processes[0]) && reached(&processes[2])
    });
    let address = |port: u16| format!("127.0.0.1:{port}");
    Plant { _processes: processes, _folder: folder, north: address(north), south: address(south) }
}

/// The median and the longest of what has come of a topic in the second half of a run.
fn sum_up(took: &Took, topic: &str) -> (Duration, Duration, usize) {
    let took = took.lock().unwrap();
    let mut took = took.get(topic).cloned().unwrap_or_default();
    let mut later = took.split_off(took.len() / 2);
    later.sort_unstable();
    assert!(!later.is_empty(), "nothing of {topic} came");
    (later[later.len() / 2], later[later.len() - 1], 2 * later.len())
}

/// Publishes in both directions, and returns the medians of what has a deadline: outward, and inward.
fn run(link: &Link, uplink: &str) -> [Duration; 2] {
    const LASTS: Duration = Duration::from_secs(12);
    let began = Instant::now();
    let plant = start(link, uplink);
    let connect = |address: &str| Client::builder().patience(support::WATCHDOG).connect(address).unwrap();
    let here = connect(&plant.south);
    let outward = hear(&here, "north", began);
    let address = plant.north.clone();
    let there = link.on_the_far_side(move || {
        let client = Client::builder().patience(support::WATCHDOG).connect(&address).unwrap();
        let inward = hear(&client, "south", began);
        publish(&client, "north", began, LASTS);
        inward
    });
    publish(&here, "south", began, LASTS);
    let inward = there.join().unwrap();
    let mut medians = [Duration::ZERO; 2];
    for ((took, site), median) in [(&outward, "north"), (&inward, "south")].into_iter().zip(&mut medians) {
        for kind in ["urgent", "bulk"] {
            let topic = format!("{site}/{kind}");
            let (middle, longest, count) = sum_up(took, &topic);
            eprintln!("{uplink:?} {topic}: median {middle:.1?}, longest {longest:.1?}, of {count}");
            if kind == "urgent" {
                *median = middle;
            }
        }
    }
    medians
}

#[test]
fn what_has_a_deadline_does_not_wait_for_what_has_none_on_a_thin_link() {
    let Some(link) = Link::new("1mbit", "2s") else { return };
    let said = run(&link, "bandwidth = \"900kbit/s\"\n");
    let unsaid = run(&link, "");
    for (said, unsaid) in said.into_iter().zip(unsaid) {
        assert!(said * 3 < unsaid, "{said:?} where the bandwidth is said, {unsaid:?} where it is not");
    }
}
