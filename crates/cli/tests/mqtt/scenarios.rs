//! The same scenarios in clients of other languages. Each client is one program that goes through all of them.

use crate::broker::{Broker, Kind, Listener, kind};
use crate::support::Process;
use crate::tools::{self, Tool, client_program, skipped};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Stdio};

/// What every client is tried with; the digit is the version of MQTT.
const SCENARIOS: [&str; 18] = [
    "qos-3",
    "qos-5",
    "retained-3",
    "retained-5",
    "will-3",
    "will-5",
    "session-3",
    "session-5",
    "shared-3",
    "shared-5",
    "takeover-3",
    "takeover-5",
    "properties-5",
    "expiry-5",
    "options-5",
    "identifiers-5",
    "aliases-5",
    "will_delay-5",
];

/// The same where only the way to the broker is another.
pub const OVER_ANOTHER_WAY: [&str; 4] = ["qos-3", "qos-5", "will-3", "session-5"];

/// The program for paho in this major version.
pub fn paho(major: u32) -> Tool<Command> {
    let mut command = Command::new(tools::paho(major)?);
    command.arg("-B").arg(client_program("paho_scenarios.py"));
    Ok(command)
}

/// The program for MQTT.js.
pub fn mqtt_js() -> Tool<Command> {
    let mut command = Command::new("node");
    command.env("NODE_PATH", tools::mqtt_js()?).arg(client_program("mqttjs_scenarios.cjs"));
    Ok(command)
}

/// Runs the program with these scenarios; each must end well.
pub fn must_pass(broker: &Broker, mut client: Command, way: &serde_json::Value, names: &[&str]) {
    client.arg(way.to_string()).args(names).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start(&mut client, broker.folder.path("client.log"));
    let mut output = process.child().stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let code = process.wait_for_end();
    let text = reader.join().unwrap().unwrap();
    let passed: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    let wanted: BTreeSet<&str> = names.iter().copied().collect();
    assert!(code == Some(0) && passed == wanted, "{code:?}: {text}");
}

/// All scenarios with one client over TCP.
fn speaks_with(test: &str, client: Tool<Command>) {
    match client.and_then(|client| Ok((client, Broker::start()?))) {
        Err(reason) => skipped(test, &reason),
        Ok((client, broker)) => {
            // Debian's mosquitto closes the connection that is taken over without a reason.
            let way = json!({"port": broker.port, "says_why": kind() == Kind::Verge});
            must_pass(&broker, client, &way, &SCENARIOS);
        }
    }
}

fn speaks_over_websocket(test: &str, client: Tool<Command>) {
    match client.and_then(|client| Ok((client, Broker::start_listening(Listener::WebSocket, None)?))) {
        Err(reason) => skipped(test, &reason),
        Ok((client, broker)) => {
            let way = json!({"port": broker.port, "websocket": true});
            must_pass(&broker, client, &way, &OVER_ANOTHER_WAY);
        }
    }
}

#[test]
fn paho_1_interoperates() {
    speaks_with("paho 1", paho(1));
}

#[test]
fn paho_2_interoperates() {
    speaks_with("paho 2", paho(2));
}

#[test]
fn mqtt_js_interoperates() {
    speaks_with("MQTT.js", mqtt_js());
}

#[test]
fn paho_2_speaks_over_websocket() {
    speaks_over_websocket("paho 2 over WebSocket", paho(2));
}

#[test]
fn mqtt_js_speaks_over_websocket() {
    speaks_over_websocket("MQTT.js over WebSocket", mqtt_js());
}
