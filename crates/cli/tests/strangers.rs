//! Strangers at each listener of the product: connections that say a byte now and then, for as long as they like, and come again when they are
//! closed. Those who belong there get in meanwhile, and memory stays where it was.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;
use support::http::get;
use support::strangers::{GROWTH_MAX, Strangers};
use support::{Folder, Pair, Process, Site, WATCHDOG, free_ports, program, wait_until};
use verge::{Contract, Span};

/// What is sent to a port, and whether the answer begins with this.
fn is_answered(port: u16, says: &[u8], with: &[u8]) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let mut answer = vec![0; with.len()];
    stream.write_all(says).is_ok() && stream.read_exact(&mut answer).is_ok() && answer == with
}

const MQTT_CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01x";
const MQTT_ACCEPTED: &[u8] = b"\x20\x02\x00\x00";
const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
const UPGRADED: &[u8] = b"HTTP/1.1 101";

#[test]
fn strangers_at_a_brokers_listeners_keep_nobody_out_and_take_no_memory() {
    let [http, mqtt, mqtt_ws] = free_ports::<3>();
    let site = Site::new("");
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    let shown = format!(
        "[brokers.a]\nhttp = \"127.0.0.1:{http}\"\nmqtt = \"127.0.0.1:{mqtt}\"\nmqtt_ws = \"127.0.0.1:{mqtt_ws}\"\n"
    );
    site.folder.write("conf.d/more.toml", shown);
    let mut pair = Pair::start_on(site);
    let [clients, own_pair, ..] = pair.site.ports;
    let before = pair.broker(0).resident();
    {
        let strangers = Strangers::at(clients, b"\x7f");
        let (client, other) = (pair.site.client(), pair.site.client());
        let heard = other.subscribe("t").unwrap();
        strangers.go_on();
        let contract = Contract::every(Span::millis(100)).deadline(Span::secs(10));
        client.publisher("t", contract).unwrap().publish(b"x").unwrap();
        wait_until("a message", || heard.next_within(Duration::ZERO).is_some());
    }
    {
        let _strangers = Strangers::at(own_pair, b"\x7f");
        pair.restart(1);
        pair.wait_for_protection();
    }
    {
        let strangers = Strangers::at(http, b"GET /metrics HTTP/1.1\r\n");
        assert_eq!(get(http, "/healthz").0, 200);
        strangers.go_on();
        assert_eq!(get(http, "/healthz").0, 200);
    }
    {
        let _strangers = Strangers::at(mqtt, MQTT_CONNECT);
        wait_until("MQTT", || is_answered(mqtt, MQTT_CONNECT, MQTT_ACCEPTED));
    }
    {
        let _strangers = Strangers::at(mqtt_ws, UPGRADE);
        wait_until("a WebSocket", || is_answered(mqtt_ws, UPGRADE, UPGRADED));
    }
    let grown = pair.broker(0).resident().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
}

#[test]
fn strangers_at_a_nodes_listeners_keep_nobody_out_and_take_no_memory() {
    let folder = Folder::new();
    let (ports, [http]) = (free_ports::<4>(), free_ports::<1>());
    let mut text = String::from("[kv]\ndelay_max = \"5ms\"\n");
    for (name, port) in ["a", "b", "c", "d"].iter().zip(ports) {
        let socket = folder.path(&format!("{name}.sock"));
        text += &format!(
            "[kv.nodes.{name}]\naddress = \"127.0.0.1:{port}\"\nsocket = \"{}\"\n",
            socket.display()
        );
    }
    text += &format!(
        "http = \"127.0.0.1:{http}\"\n[[lane]]\nkeys = [\"k\"]\nperiod = \"100ms\"\npriority = \"auto\"\n"
    );
    let config = folder.write("verge.toml", text);
    let node = |name: &str| {
        let mut command = program(["kv", "node", name, "-c"]);
        command.arg(&config);
        Process::start(&mut command, folder.path(&format!("{name}.log")))
    };
    let mut nodes: Vec<Process> = ["a", "b", "c", "d"].map(node).into();
    // Node d knows all, and hears all others.
    let is_whole = || {
        let (_, said) = get(http, "/api/v1/status");
        let status: serde_json::Value = serde_json::from_str(&said).unwrap();
        let last = &status["lanes"][0]["last"];
        last["sure"] == true && last["silent"].as_array().is_some_and(Vec::is_empty)
    };
    wait_until("all run", || TcpStream::connect((Ipv4Addr::LOCALHOST, http)).is_ok() && is_whole());
    let before = nodes[3].resident();
    {
        let _strangers = Strangers::at(ports[3], b"VRGK\x01");
        nodes[0].kill();
        wait_until("it is missed", || !is_whole());
        nodes[0] = node("a");
        wait_until("it is back", is_whole);
    }
    {
        let strangers = Strangers::at(http, b"GET /metrics HTTP/1.1\r\n");
        assert_eq!(get(http, "/healthz").0, 200);
        strangers.go_on();
    }
    let grown = nodes[3].resident().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
}
