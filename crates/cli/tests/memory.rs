//! Memory, with real processes: contracts have theirs, best effort shares the rest, and whoever loses messages is told.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use contract::{Contract, Span};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use support::{Process, Site, wait_for, wait_until};
use verge::{Client, Error, Publisher};

/// Most tests here are about one broker alone.
fn alone(limits: &str) -> (Site, Process) {
    let site = Site::new(&format!("[limits]\n{limits}\n"));
    let broker = site.start(0);
    (site, broker)
}

fn kept(retain: u32) -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::secs(1)).tolerate(0).retain(retain)
}

/// How many messages of each topic have come.
fn count(client: &Client, filter: &str) -> Arc<Mutex<BTreeMap<String, u64>>> {
    let counts = Arc::new(Mutex::new(BTreeMap::new()));
    let counted = Arc::clone(&counts);
    client
        .subscribe_with(filter, move |delivery| {
            *counted.lock().unwrap().entry(delivery.topic.to_owned()).or_default() += 1;
        })
        .unwrap();
    counts
}

fn publish(publisher: &Publisher, payload: &[u8]) {
    wait_for("room for a message", || match publisher.publish(payload) {
        Err(error) if error.is_retryable() => None,
        result => Some(result.unwrap()),
    });
}

#[test]
fn large_messages_without_a_contract_take_nothing_from_one_that_loses_nothing() {
    let (site, _broker) = alone("store = \"48MiB\"");
    let large = site.folder.write("large", vec![7; 524_000]);
    let large = large.to_str().unwrap();
    for which in 0..6 {
        let topic = format!("large/{which}");
        site.run(&["pub", "-t", &topic, "-f", large, "--repeat", "20", "--repeat-delay", "1ms"]).must(0, &[]);
    }
    let client = site.client();
    let counts = count(&client, "small");
    let publisher = client.publisher("small", kept(50)).unwrap();
    for _ in 0..100 {
        publish(&publisher, &[1; 4_000]);
    }
    wait_until("a hundred messages", || counts.lock().unwrap().get("small") == Some(&100));
    assert!(client.settle().unwrap());
    assert_eq!(publisher.untaken().0, 0);
}

#[test]
fn what_is_admitted_is_delivered_and_the_rest_is_refused_with_numbers() {
    let (site, _broker) = alone("store = \"48MiB\"");
    let client = site.client();
    let counts = count(&client, "t/#");
    let (mut admitted, mut refusals) = (Vec::new(), Vec::new());
    for topic in 0..1_000 {
        match client.publisher(&format!("t/{topic}"), kept(50)) {
            Ok(publisher) => admitted.push(publisher),
            Err(Error::Refused { reason, .. }) => refusals.push(reason),
            Err(other) => panic!("{other}"),
        }
    }
    assert!((100..900).contains(&admitted.len()), "{} of 1000 are admitted", admitted.len());
    for said in ["limits.store = 50331648", "bytes of memory", "too few", "raise limits.store"] {
        assert!(refusals.iter().all(|reason| reason.contains(said)), "{said}: {}", refusals[0]);
    }
    for _ in 0..12 {
        admitted.iter().for_each(|publisher| publish(publisher, &[5; 4_096]));
    }
    wait_until("all messages of all that were admitted", || {
        let counts = counts.lock().unwrap();
        counts.len() == admitted.len() && counts.values().all(|count| *count == 12)
    });
    assert!(client.settle().unwrap());
    assert!(admitted.iter().all(|publisher| publisher.untaken().0 == 0));
}

#[test]
fn a_contract_says_how_long_its_messages_are_and_is_kept_to_that() {
    let (site, _broker) = alone("store = \"8MiB\"");
    let client = site.client();
    let refused = client.publisher("large", kept(50).size(1 << 20));
    assert!(
        matches!(&refused, Err(Error::Refused { reason, .. }) if reason.contains("64 messages of up to 1048576 bytes"))
    );
    let small = client.publisher("small", kept(2).size(100)).unwrap();
    publish(&small, &[0; 100]);
    let longer = small.publish(&[0; 101]).unwrap_err();
    assert!(longer.to_string().contains("longer than the contract's size of 100"), "{longer}");
    // What is not said is assumed, and a longer message is taken while there is memory.
    let unsaid = client.publisher("unsaid", kept(2)).unwrap();
    let counts = count(&client, "unsaid");
    publish(&unsaid, &[0; 100_000]);
    wait_until("a message that is longer than assumed", || counts.lock().unwrap().get("unsaid") == Some(&1));
    publish(&unsaid, &[0; 1 << 20]);
    assert!(client.settle().unwrap());
    let (untaken, reason) = unsaid.untaken();
    assert_eq!(untaken, 1);
    assert!(reason.contains("size = 1048576") && reason.contains("limits.store = 8388608"), "{reason}");
}

#[test]
fn pub_says_what_the_broker_could_not_keep() {
    let (site, broker) = alone("store = \"512KiB\"");
    let large = site.folder.write("large", vec![7; 600_000]);
    let ran = site.run(&["pub", "-t", "large", "-f", large.to_str().unwrap()]);
    ran.must(1, &["could not keep 1 of 1 messages", "600000 bytes", "limits.store = 524288"]);
    // The client hears of it before the line is written.
    wait_until("the cause in the log", || broker.log().contains("for want of memory"));
    let log = broker.log();
    assert!(!log.contains("raise what the publisher retains"), "{log}");
}

#[test]
fn the_largest_message_needs_no_contract() {
    let (site, _broker) = alone("");
    let client = site.client();
    let counts = count(&client, "largest");
    let largest = site.folder.write("largest", vec![7; 1 << 20]);
    site.run(&["pub", "-t", "largest", "-f", largest.to_str().unwrap()]).must(0, &[]);
    wait_until("the largest message", || counts.lock().unwrap().get("largest") == Some(&1));
}

#[test]
fn subscribers_that_do_not_read_share_what_is_for_them() {
    const SUBSCRIBERS: usize = 24;
    let (site, broker) = alone("memory = \"32MiB\"\nsilence = \"1h\"");
    let idle: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let client = site.client();
            let (held, hold) = channel::<()>();
            // The first message keeps the client's thread until the test ends.
            client
                .subscribe_with("flood", move |_| {
                    let _ = hold.recv();
                })
                .unwrap();
            (held, client)
        })
        .collect();
    let reader = site.client();
    let before = broker.resident();
    let counts = count(&reader, "flood");
    let client = site.client();
    let flood = client
        .publisher("flood", Contract::every(Span::millis(1)).deadline(Span::secs(1)).best_effort())
        .unwrap();
    // Kernels take some megabytes for each before anything waits in the broker.
    for number in 1..=300 {
        publish(&flood, &[3; 60_000]);
        wait_until("the subscriber that reads", || counts.lock().unwrap().get("flood") == Some(&number));
    }
    let after = broker.resident();
    // They would take 96 MiB and more by themselves. Messages have 16 MiB, and what was given back is not all with the host yet.
    assert!(after < before + (64 << 20), "{SUBSCRIBERS} subscribers take {} of memory", after - before);
    // Their threads have to end before the clients can.
    for (held, client) in idle {
        drop(held);
        drop(client);
    }
}

#[test]
fn memory_of_those_who_left_is_given_back() {
    let (site, broker) = alone("stream_linger = \"1s\"\nstore = \"256MiB\"\nmemory = \"600MiB\"");
    let client = site.client();
    // By now the program itself is there.
    publish(&client.publisher("first", kept(2)).unwrap(), b"first");
    assert!(client.settle().unwrap());
    let before = broker.resident();
    let publisher =
        client.publisher("large", Contract::every(Span::millis(1)).deadline(Span::secs(1)).best_effort());
    let publisher = publisher.unwrap();
    let kept = client.publisher("kept", kept(50).size(1 << 20)).unwrap();
    for _ in 0..64 {
        publish(&publisher, &[9; 1 << 20]);
        publish(&kept, &[9; 1 << 20]);
    }
    assert!(client.settle().unwrap());
    let most = broker.resident();
    assert!(most > before + (64 << 20), "{most} after {before}");
    drop((publisher, kept, client));
    wait_until("memory to be given back", || broker.resident() < before + (16 << 20));
}

/// A control group for one process, which ends with the test.
struct Group(PathBuf);

impl Group {
    /// `None`: this host lets us have none.
    fn new(name: &str, bytes: usize) -> Option<Group> {
        let name = format!("verge-{name}-{}", std::process::id());
        let kinds = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
        for (root, file) in kinds {
            let group = Group(PathBuf::from(root).join(&name));
            // Elsewhere this is a folder like any other.
            let is_one = PathBuf::from(root).join("cgroup.procs").exists();
            if is_one
                && fs::create_dir(&group.0).is_ok()
                && fs::write(group.0.join(file), bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        println!("SKIPPED: no control group with a bound of memory can be made here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_small_control_group_contracts_are_refused_and_the_broker_lives() {
    let Some(group) = Group::new("small", 96 << 20) else { return };
    let site = Site::new("[replication]\npolicy = \"eager\"\n");
    let program = support::program(["broker", "a"]);
    let mut command = Command::new("/bin/sh");
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    command.args(["-c", &enter]).arg(program.get_program()).args(program.get_args());
    command.arg("--config").arg(&site.config).stdout(Stdio::null());
    let mut broker = Process::start(&mut command, site.folder.path("a.log"));
    let client = site.client();
    let (mut admitted, mut refused) = (Vec::new(), String::new());
    for topic in 0..2_000 {
        match client.publisher(&format!("t/{topic}"), kept(50)) {
            Ok(publisher) => admitted.push(publisher),
            Err(Error::Refused { reason, .. }) => refused = reason,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(!admitted.is_empty());
    assert!(refused.contains("limits.memory"), "{refused}");
    for _ in 0..60 {
        admitted.iter().for_each(|publisher| publish(publisher, &[5; 4_096]));
    }
    assert!(client.settle().unwrap());
    let log = broker.log();
    assert!(log.contains("it takes at most") && log.contains("above its share of limits.memory"), "{log}");
    drop((admitted, client));
    assert_eq!(broker.terminate(), Some(0), "it was not killed");
}
