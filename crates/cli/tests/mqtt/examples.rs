//! The examples in `examples/mqtt`, each with a first address where nobody listens and a second one where the broker is.

use crate::broker::{Broker, Kind, Listener, can, kind};
use crate::support::{Folder, Process, free_ports, program};
use crate::tools::{self, Tool, skipped};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mqtt").join(name)
}

/// Runs it to its end; it must end well and print all of this.
fn must_run(test: &str, command: Tool<Command>, prints: &[&str]) {
    let (mut command, broker) = match command.and_then(|command| Ok((command, Broker::start()?))) {
        Err(reason) => return skipped(test, &reason),
        Ok(both) => both,
    };
    let [nobody] = free_ports::<1>();
    let out = broker.folder.path("out");
    command
        .env("BROKERS", format!("127.0.0.1:{nobody},127.0.0.1:{}", broker.port))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap());
    let code = Process::start(&mut command, broker.folder.path("example.log")).wait_for_end();
    let text = std::fs::read_to_string(out).unwrap();
    assert_eq!(code, Some(0), "{text}");
    for line in prints {
        assert!(text.contains(line), "lacks {line:?}: {text}");
    }
}

fn python(name: &str) -> Tool<Command> {
    let mut command = Command::new(tools::paho(2)?);
    command.arg("-B").arg(example(name));
    Ok(command)
}

#[test]
fn the_example_of_mosquitto_clients_runs() {
    let command = tools::mosquitto_clients().map(|()| Command::new(example("pubsub.sh")));
    must_run(
        "pubsub.sh",
        command,
        &["plant/line1/temperature 21.1 (QoS 1)", "plant/line3/temperature 21.3 (QoS 1)"],
    );
}

#[test]
fn the_example_of_paho_runs() {
    must_run(
        "paho_client.py",
        python("paho_client.py"),
        &["connected, a new session", "plant/line1/temperature 21.4"],
    );
}

#[test]
fn the_example_of_sparkplug_runs() {
    let prints = ["NBIRTH/line1 parts 7", "NDATA/line1 temperature 21.75", "NDEATH/line1 bdSeq 0"];
    must_run("sparkplug.py", python("sparkplug.py"), &prints);
}

#[test]
fn the_example_of_mqtt_js_runs() {
    let command = tools::mqtt_js().map(|modules| {
        let mut command = Command::new("node");
        command.env("NODE_PATH", modules).arg(example("mqttjs_client.js"));
        command
    });
    must_run("mqttjs_client.js", command, &["plant/line2/temperature 21.4 celsius"]);
}

/// Node-RED imports a list of nodes: each with an id of its own and a type, wires to nodes of the same tab, and MQTT nodes that
/// name a node with the broker's address.
#[test]
fn the_flow_for_node_red_can_be_imported() {
    let flow: Value = serde_json::from_slice(&std::fs::read(example("nodered_flow.json")).unwrap()).unwrap();
    let nodes = flow.as_array().unwrap();
    let text = |node: &Value, key: &str| node[key].as_str().map(str::to_owned);
    let ids: BTreeSet<String> = nodes.iter().map(|node| text(node, "id").unwrap()).collect();
    assert_eq!(ids.len(), nodes.len(), "two nodes with one id");
    let kind_of =
        |id: &str| nodes.iter().find(|node| node["id"] == id).and_then(|node| text(node, "type")).unwrap();
    let mut kinds = BTreeSet::new();
    for node in nodes {
        let kind = text(node, "type").unwrap();
        if kind != "tab" && kind != "mqtt-broker" {
            assert_eq!(kind_of(node["z"].as_str().unwrap()), "tab", "{node}");
            let wires = node["wires"].as_array().unwrap();
            for target in wires.iter().flat_map(|output| output.as_array().unwrap()) {
                let target = kind_of(target.as_str().unwrap());
                assert!(
                    !["tab", "mqtt-broker", "mqtt in", "inject", "status"].contains(&target.as_str()),
                    "{node}"
                );
            }
        }
        if kind.starts_with("mqtt ") {
            assert_eq!(kind_of(node["broker"].as_str().unwrap()), "mqtt-broker", "{node}");
        }
        kinds.insert(kind);
    }
    let wanted = ["mqtt in", "mqtt out", "mqtt-broker", "tab"];
    assert!(wanted.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
}

#[test]
fn the_configuration_of_the_examples_is_right() {
    match can(Listener::Plain) {
        Ok(()) if kind() == Kind::Mosquitto => {
            return skipped("examples/mqtt/verge.toml", "it is not mosquitto's");
        }
        Ok(()) => {}
        Err(reason) => return skipped("examples/mqtt/verge.toml", &reason),
    }
    let folder = Folder::new();
    let config = example("verge.toml");
    let mut command = program(["check", "--config"]);
    command.arg(&config).stdout(Stdio::null());
    let mut check = Process::start(&mut command, folder.path("check.log"));
    let code = check.wait_for_end();
    // 1 where a contract is not admitted, which would be refused to every client.
    assert_eq!(code, Some(0), "{}", check.log());
}
