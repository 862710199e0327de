//! A primary dies under load, and paho clients that know both addresses lose nothing that was acknowledged: with QoS 1 every
//! such message comes, with QoS 2 once. The same clients and the same account are tried where the outcome is known: two
//! addresses of one mosquitto, and two mosquittos that know nothing of each other.

use crate::broker::{Broker, Kind, Listener, can, kind, mosquitto_alone};
use crate::door::Door;
use crate::support::{Folder, PATIENT, Pair, Process, Site, WATCHDOG, free_ports};
use crate::tools::{self, Tool, client_program, skipped};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// Thousands of messages before the failure, and after it.
const STEPS: u32 = 1;
/// For all that is published while the subscriber is held up.
const ROOM: &str = "[mqtt]\nqueue_messages = 1000000\n";
const TOPIC: &str = "plant/line/1";

/// One of the programs; it says how far it is.
struct Party {
    process: Process,
    lines: Receiver<String>,
}

impl Party {
    fn start(role: &str, ports: [u16; 2], qos: u8, folder: &Folder) -> Tool<Party> {
        let mut command = Command::new(tools::paho(2)?);
        let addresses = format!("{},{}", ports[0], ports[1]);
        command.arg("-B").arg(client_program("failover.py")).args([
            role,
            &addresses,
            TOPIC,
            &qos.to_string(),
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command, folder.path(&format!("{role}.log")));
        let output = BufReader::new(process.child().stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let party = Party { process, lines };
        party.wait_for("ready");
        Ok(party)
    }

    fn next(&self) -> String {
        let line = self.lines.recv_timeout(WATCHDOG);
        line.unwrap_or_else(|error| panic!("{error}: {}", self.process.log()))
    }

    fn wait_for(&self, line: &str) {
        assert_eq!(self.next(), line);
    }

    /// Waits for so many further thousands.
    fn go_on(&self, steps: u32) {
        while self.lines.try_recv().is_ok() {}
        (0..steps).for_each(|_| self.wait_for("more"));
    }

    fn stop(&mut self) {
        self.process.child().stdin.as_mut().unwrap().write_all(b"stop\n").unwrap();
    }

    fn report(&self) -> Value {
        let last = std::iter::repeat_with(|| self.next()).find(|line| line != "more");
        serde_json::from_str(&last.unwrap()).unwrap()
    }
}

/// What became of the messages.
#[derive(Debug)]
struct Account {
    acknowledged: u64,
    /// Acknowledged, and never came.
    missing: Vec<u64>,
    twice: Vec<u64>,
    /// How often each client had to connect.
    connections: [usize; 2],
}

/// Where the subscriber is when the broker dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subscriber {
    Reading,
    /// Stopped since before the last messages; what they are is only in the broker's memory.
    HeldUp,
}

/// Load, a failure in the middle of it, more load, and the account.
fn account(
    ports: [u16; 2],
    qos: u8,
    subscriber: Subscriber,
    folder: &Folder,
    fail: impl FnOnce(),
) -> Tool<Account> {
    let receiving = Party::start("subscribe", ports, qos, folder)?;
    let mut sending = Party::start("publish", ports, qos, folder)?;
    receiving.go_on(STEPS);
    if subscriber == Subscriber::HeldUp {
        receiving.process.signal(Signal::STOP);
    }
    sending.go_on(STEPS);
    fail();
    if subscriber == Subscriber::HeldUp {
        receiving.process.signal(Signal::CONT);
    }
    sending.go_on(STEPS);
    sending.stop();
    let sent = sending.report();
    let began = Instant::now();
    let got = receiving.report();
    println!(
        "{sent}, the rest came within {:?}, {} ms without a broker",
        began.elapsed(),
        got["longest_gap_ms"]
    );
    let numbers = |report: &Value, key: &str| -> BTreeSet<u64> {
        report[key].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    let (refused, came) = (numbers(&sent, "refused"), numbers(&got, "came"));
    let published = sent["published"].as_u64().unwrap();
    Ok(Account {
        acknowledged: published - refused.len() as u64,
        missing: (0..published)
            .filter(|number| !refused.contains(number) && !came.contains(number))
            .collect(),
        twice: numbers(&got, "twice").into_iter().collect(),
        connections: [&sent, &got].map(|report| report["connections"].as_array().unwrap().len()),
    })
}

impl Account {
    fn must_be_whole(&self, qos: u8) {
        assert!(self.acknowledged > 1000 && self.connections.iter().all(|count| *count > 1), "{self:?}");
        assert_eq!(self.missing, Vec::<u64>::new(), "acknowledged, and lost: {self:?}");
        assert!(qos < 2 || self.twice.is_empty(), "QoS 2, and twice: {self:?}");
    }
}

/// SIGKILL for the primary of a pair of `verge broker`.
fn survives_sigkill(test: &str, qos: u8, subscriber: Subscriber) {
    let ready = can(Listener::Plain).and_then(|()| tools::paho(2));
    if let Err(reason) = ready {
        return skipped(test, &reason);
    }
    if kind() == Kind::Mosquitto {
        return skipped(test, "mosquitto has no backup");
    }
    let site = Site::new(PATIENT);
    let ports = free_ports::<2>();
    let [a, b] = ports.map(|port| format!("mqtt = \"127.0.0.1:{port}\"\n"));
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    site.folder.write("conf.d/mqtt.toml", format!("{ROOM}[brokers.a]\n{a}[brokers.b]\n{b}"));
    let mut pair = Pair::start_on(site);
    let folder = Folder::new();
    let kill = || {
        let primary = pair.wait_for_protection();
        pair.kill(primary);
    };
    account(ports, qos, subscriber, &folder, kill).unwrap().must_be_whole(qos);
}

#[test]
fn a_pair_loses_nothing_that_was_acknowledged_with_qos_1() {
    survives_sigkill("SIGKILL with QoS 1", 1, Subscriber::Reading);
}

#[test]
fn a_pair_hands_over_exactly_once_with_qos_2() {
    survives_sigkill("SIGKILL with QoS 2", 2, Subscriber::Reading);
}

#[test]
fn a_pair_keeps_what_waits_for_a_subscriber_that_is_held_up() {
    survives_sigkill("SIGKILL while the subscriber is held up", 1, Subscriber::HeldUp);
}

#[test]
fn the_account_is_whole_where_only_the_address_is_lost() {
    for qos in [1, 2] {
        let Ok(broker) = mosquitto_alone() else { return skipped("one mosquitto", "it is not installed") };
        let door = Door::open(broker.port);
        let ports = [door.port, broker.port];
        match account(ports, qos, Subscriber::Reading, &broker.folder, || door.shut()) {
            Ok(account) => account.must_be_whole(qos),
            Err(reason) => skipped("one mosquitto", &reason),
        }
    }
}

#[test]
fn the_account_shows_what_is_lost_with_a_broker_that_has_no_backup() {
    let two = (|| Ok((mosquitto_alone()?, mosquitto_alone()?)))();
    let two: Tool<(Broker, Broker)> = two;
    let outcome = two.and_then(|(mut first, second)| {
        let ports = [first.port, second.port];
        account(ports, 1, Subscriber::HeldUp, &second.folder, || first.process.kill())
    });
    match outcome {
        Ok(account) => {
            assert!(!account.missing.is_empty(), "the clients or the account hide losses: {account:?}");
        }
        Err(reason) => skipped("two mosquittos", &reason),
    }
}
