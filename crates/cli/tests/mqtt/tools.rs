//! Programs of others that the tests need, and where `make tools` puts them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `install.sh` puts what it fetches.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("mqtt-clients")
}

/// A tool, or why it cannot be used.
pub type Tool<T> = Result<T, String>;

/// A Python that has paho in this major version.
pub fn paho(major: u32) -> Tool<PathBuf> {
    let python = folder().join(format!("paho{major}/bin/python"));
    let done = folder().join(format!("paho{major}.ready"));
    if done.exists() { Ok(python) } else { Err(lacks(&format!("paho-mqtt {major} for Python"))) }
}

/// Node.js with MQTT.js; programs must be run with this as `NODE_PATH`.
pub fn mqtt_js() -> Tool<PathBuf> {
    let modules = folder().join("node/node_modules");
    let done = folder().join("node.ready").exists() && runs("node");
    if done { Ok(modules) } else { Err(lacks("MQTT.js with Node.js")) }
}

/// `mosquitto_pub` and `mosquitto_sub`.
pub fn mosquitto_clients() -> Tool<()> {
    let both = runs("mosquitto_pub") && runs("mosquitto_sub");
    if both { Ok(()) } else { Err(lacks("mosquitto_pub and mosquitto_sub")) }
}

/// The broker mosquitto, which Debian puts where only administrators look.
pub fn mosquitto() -> Tool<PathBuf> {
    ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/usr/bin/mosquitto"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
        .ok_or_else(|| lacks("mosquitto"))
}

/// Programs in other languages, beside these tests.
pub fn client_program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mqtt/clients").join(name)
}

/// Says that a test was left out.
pub fn skipped(test: &str, reason: &str) {
    println!("SKIPPED: {test}: {reason}");
}

fn lacks(what: &str) -> String {
    format!("there is no {what}; `make tools` installs it")
}

fn runs(program: &str) -> bool {
    let quiet = Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok()
}
