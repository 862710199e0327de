//! What whoever runs a pair sees of its MQTT clients: who they are, how one is dropped, and that the broker which stands by refuses
//! connections until it reigns.

use crate::support::{Folder, PATIENT, Pair, Process, Site, WATCHDOG, free_ports, wait_until};
use crate::tools::{self, skipped};
use mqtt::packet::Version;
use mqtt::testing::{FromBroker, QoS, connect, publish, subscribe};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU16;
use std::process::{Command, Stdio};

/// A pair that serves MQTT on these ports.
fn serving(more: &str) -> (Pair, [u16; 2]) {
    let site = Site::new(PATIENT);
    let ports = free_ports::<2>();
    let [a, b] = ports.map(|port| format!("mqtt = \"127.0.0.1:{port}\"\n"));
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    site.folder.write("conf.d/mqtt.toml", format!("{more}[brokers.a]\n{a}[brokers.b]\n{b}"));
    (Pair::start_on(site), ports)
}

/// Connects, subscribes to `t` and waits for the answer.
fn client(port: u16, version: Version, name: &str, clean: bool) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.write_all(&connect(version, name, clean).unwrap()).unwrap();
    stream.write_all(&subscribe(version, NonZeroU16::MIN, "t", QoS::AtLeastOnce).unwrap()).unwrap();
    let mut packets = FromBroker::new(version);
    let mut heard = 0;
    while heard < 2 {
        let mut bytes = [0; 1_024];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{name} is not let in");
        packets.feed(&bytes[..read]);
        while packets.next_heard().unwrap().is_some() {
            heard += 1;
        }
    }
    stream
}

fn rows(pair: &Pair) -> Vec<Value> {
    let ran = pair.site.run(&["-o", "json", "clients"]);
    ran.must(0, &[]);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn clients_are_listed_counted_and_dropped() {
    let (mut pair, ports) = serving("[log]\nlevel = \"debug\"\n");
    let primary = pair.wait_for_protection();
    let mut one = client(ports[primary], Version::V5, "one", true);
    let _two = client(ports[primary], Version::V311, "two", true);
    drop(client(ports[primary], Version::V311, "away\u{301}", false));
    let is_away = || rows(&pair).iter().any(|row| row["connected"] == false);
    wait_until("the third has gone", is_away);
    one.write_all(&publish(Version::V5, "t", QoS::AtLeastOnce, 7, b"x").unwrap()).unwrap();
    wait_until("a message waits", || rows(&pair).iter().any(|row| row["queued"] == 1));
    let listed = rows(&pair);
    let mqtt: Vec<&Value> = listed.iter().filter(|row| row["protocol"] != "native").collect();
    let names: Vec<&str> = mqtt.iter().map(|row| row["client"].as_str().unwrap()).collect();
    assert_eq!(names, ["away\u{301}", "one", "two"]);
    let of = |at: usize, what: &str| mqtt[at][what].clone();
    assert_eq!(
        (of(0, "queued"), of(0, "subscriptions"), of(0, "protocol")),
        (1.into(), 1.into(), "MQTT 3.1.1".into())
    );
    assert_eq!(
        (of(1, "protocol"), of(1, "address"), of(1, "connected")),
        ("MQTT 5".into(), "127.0.0.1".into(), true.into())
    );
    let ran = pair.site.run(&["clients", "--sort", "queued"]);
    ran.must(0, &["away", "3.1.1", "connected", "1 away"]);
    let first = ran.out.lines().find(|line| line.contains("MQTT")).unwrap();
    assert!(first.trim_start().starts_with("away"), "{}", ran.out);

    let status: Value = serde_json::from_str(&pair.site.run(&["-o", "json", "status"]).out).unwrap();
    let clients = |at: usize| status["brokers"][at]["clients"].as_u64().unwrap();
    assert!(clients(primary) >= 2 && clients(primary) == clients(1 - primary) + 2, "{status}");

    pair.site.run(&["clients", "drop", "nobody"]).must(1, &["no client `nobody`"]);
    pair.site.run(&["clients", "drop", "one"]).must(0, &["dropped one"]);
    let mut rest = Vec::new();
    one.read_to_end(&mut rest).unwrap();
    pair.site.run(&["clients", "drop", "away\u{301}", "--end-session"]).must(0, &["its session has ended"]);
    let left = |row: &Value| row["protocol"] != "native";
    wait_until("one is left", || rows(&pair).iter().filter(|row| left(row)).count() == 1);
    let mut said = |text: &str| pair.broker(primary).log().contains(text);
    for text in [
        "one has connected with MQTT 5 from 127.0.0.1, and begins anew",
        "has gone: its connection has ended",
        "closed the connection of one from 127.0.0.1: an admin has dropped it",
    ] {
        wait_until(text, || said(text));
    }
}

#[test]
fn who_stands_by_refuses_connections_until_it_reigns() {
    let (mut pair, ports) = serving("");
    for _ in 0..2 {
        let primary = pair.wait_for_protection();
        let refused = TcpStream::connect(("127.0.0.1", ports[1 - primary])).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let mut there = client(ports[primary], Version::V5, "one", true);
        pair.site.run(&["handover"]).must(0, &["handed over"]);
        let mut rest = Vec::new();
        there.read_to_end(&mut rest).unwrap();
        assert_eq!(
            rest,
            [0xE0, rest.len() as u8 - 2, 0x8B]
                .into_iter()
                .chain(rest[3..].iter().copied())
                .collect::<Vec<u8>>()
        );
        let _there = client(ports[1 - primary], Version::V5, "one", true);
        wait_until("the other refuses", || TcpStream::connect(("127.0.0.1", ports[primary])).is_err());
    }
    let primary = pair.wait_for_protection();
    pair.kill(primary);
    wait_until("the other serves", || TcpStream::connect(("127.0.0.1", ports[1 - primary])).is_ok());
    let _there = client(ports[1 - primary], Version::V311, "one", true);
}

/// A bridge of mosquitto with its defaults, and both addresses: it carries in and out, and stays where it is.
#[test]
fn a_bridge_of_mosquitto_carries_in_and_out_and_finds_who_reigns() {
    const TEST: &str = "mosquitto's bridge";
    let mosquitto = match tools::mosquitto_clients().and_then(|()| tools::mosquitto()) {
        Ok(mosquitto) => mosquitto,
        Err(reason) => return skipped(TEST, &reason),
    };
    let (mut pair, ports) = serving("");
    let folder = Folder::new();
    let [own] = free_ports::<1>();
    let config = folder.write(
        "mosquitto.conf",
        format!(
            "listener {own} 127.0.0.1\nallow_anonymous true\nconnection cell\naddresses 127.0.0.1:{} 127.0.0.1:{}\n\
             topic out/# out 1\ntopic in/# in 1\n",
            ports[0], ports[1]
        ),
    );
    let mut command = Command::new(mosquitto);
    command.arg("-c").arg(config).stdout(Stdio::null());
    let bridge = Process::start(&mut command, folder.path("bridge.log"));
    let ask = |program: &str, port: u16, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(["-p", &port.to_string()]).args(arguments);
        command
    };
    let carries = |from: u16, to: u16, topic: &str| {
        let mut listening = ask("mosquitto_sub", to, &["-t", topic, "-q", "1", "-C", "1", "-W", "60"]);
        let mut listening = Process::start(listening.stdout(Stdio::null()), folder.path("sub.log"));
        // What is said before the bridge is there is lost; it is said again.
        wait_until("a message across the bridge", || {
            let said = ask("mosquitto_pub", from, &["-t", topic, "-q", "1", "-m", "x"]).status();
            said.is_ok_and(|status| status.success()) && listening.child().try_wait().unwrap().is_some()
        });
    };
    let primary = pair.wait_for_protection();
    carries(own, ports[primary], "out/a");
    carries(ports[primary], own, "in/a");
    let listed = rows(&pair);
    assert!(
        listed.iter().any(|row| row["protocol"] == "MQTT 3.1.1" && row["subscriptions"] == 1),
        "{listed:?}"
    );
    pair.kill(primary);
    carries(own, ports[1 - primary], "out/b");
    carries(ports[1 - primary], own, "in/b");
    bridge.signal(Signal::TERM);
}
