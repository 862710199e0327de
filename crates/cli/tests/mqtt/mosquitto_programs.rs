//! `mosquitto_pub` and `mosquitto_sub`, as people use them in shells.

use crate::broker::Broker;
use crate::support::{Process, wait_until};
use crate::tools::{self, skipped};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A broker and a place for what the programs print.
struct Shell {
    broker: Broker,
    files: Cell<u32>,
}

/// A subscriber that runs.
struct Subscriber {
    process: Process,
    out: PathBuf,
}

impl Shell {
    fn open(test: &str) -> Option<Shell> {
        match tools::mosquitto_clients().and_then(|()| Broker::start()) {
            Ok(broker) => Some(Shell { broker, files: Cell::new(0) }),
            Err(reason) => {
                skipped(test, &reason);
                None
            }
        }
    }

    fn start(&self, program: &str, arguments: &[&str]) -> Subscriber {
        self.files.set(self.files.get() + 1);
        let [out, log] =
            ["out", "log"].map(|kind| self.broker.folder.path(&format!("{}.{kind}", self.files.get())));
        // It says at once what it has; by itself it collects what goes into a file.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", program, "-h", "127.0.0.1"]);
        command.args(["-p", &self.broker.port.to_string()]).args(arguments);
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&out).unwrap());
        Subscriber { process: Process::start(&mut command, log), out }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut ran = self.start(program, arguments);
        let code = ran.process.wait_for_end();
        let text = std::fs::read_to_string(&ran.out).unwrap();
        assert_eq!(code, Some(0), "{program} {arguments:?}: {text}{}", ran.process.log());
        text
    }

    fn publish(&self, arguments: &[&str]) {
        self.run("mosquitto_pub", arguments);
    }

    /// Starts a subscriber; returns when the broker has agreed. It ends after so many messages.
    fn subscribe(&self, count: u32, arguments: &[&str]) -> Subscriber {
        let count = count.to_string();
        // Debug messages go to standard output, where the answer to SUBSCRIBE is waited for.
        let all = [&["-d", "-C", &count, "-F", "=%t|%q|%r|%p"], arguments].concat();
        let subscriber = self.start("mosquitto_sub", &all);
        wait_until("an answer to SUBSCRIBE", || {
            std::fs::read_to_string(&subscriber.out).unwrap().contains("Subscribed (mid")
        });
        subscriber
    }

    /// Whoever subscribes now.
    fn retained(&self, count: u32, arguments: &[&str]) -> Vec<String> {
        self.subscribe(count, arguments).messages()
    }
}

impl Subscriber {
    /// Topic, QoS, whether retained, payload.
    fn messages(mut self) -> Vec<String> {
        assert_eq!(self.process.wait_for_end(), Some(0), "{}", self.process.log());
        let text = std::fs::read_to_string(&self.out).unwrap();
        text.lines().filter_map(|line| line.strip_prefix('=')).map(str::to_owned).collect()
    }
}

#[test]
fn mosquitto_pub_and_sub_exchange_messages_of_every_qos_in_both_versions() {
    let Some(shell) = Shell::open("mosquitto_pub and mosquitto_sub") else { return };
    for version in ["mqttv311", "mqttv5"] {
        for subscribed in ["0", "1", "2"] {
            let subscriber = shell.subscribe(3, &["-V", version, "-t", "a/+", "-q", subscribed]);
            for published in ["0", "1", "2"] {
                shell.publish(&["-V", version, "-t", "a/b", "-q", published, "-m", published]);
            }
            let wanted =
                ["0", "1", "2"].map(|published| format!("a/b|{}|0|{published}", published.min(subscribed)));
            assert_eq!(subscriber.messages(), wanted, "{version}");
        }
    }
}

#[test]
fn mosquitto_sub_gets_retained_messages_until_they_are_cleared() {
    let Some(shell) = Shell::open("mosquitto_sub and retained messages") else { return };
    shell.publish(&["-t", "kept/1", "-q", "1", "-r", "-m", "one"]);
    shell.publish(&["-t", "kept/2", "-q", "1", "-r", "-m", "two"]);
    let mut both = shell.retained(2, &["-t", "kept/#", "-q", "1"]);
    both.sort();
    assert_eq!(both, ["kept/1|1|1|one", "kept/2|1|1|two"]);
    shell.publish(&["-t", "kept/1", "-q", "1", "-r", "-n"]);
    assert_eq!(shell.retained(1, &["-t", "kept/#", "-q", "1"]), ["kept/2|1|1|two"]);
    // -R leaves out what was kept.
    let live = shell.subscribe(1, &["-V", "mqttv5", "-t", "kept/#", "-R", "-q", "1"]);
    shell.publish(&["-t", "kept/3", "-q", "1", "-m", "three"]);
    assert_eq!(live.messages(), ["kept/3|1|0|three"]);
}

#[test]
fn the_will_of_a_killed_mosquitto_sub_is_published_and_that_of_one_that_leaves_is_not() {
    let Some(shell) = Shell::open("wills of mosquitto_sub") else { return };
    let watcher = shell.subscribe(2, &["-t", "wills/#", "-q", "1"]);
    let will = |name: &'static str| {
        ["-t", "none", "--will-topic", name, "--will-payload", "dead", "--will-qos", "1"]
    };
    let leaving = shell.start("mosquitto_sub", &[&will("wills/leaving")[..], &["-E"]].concat());
    let mut leaving = leaving.process;
    assert_eq!(leaving.wait_for_end(), Some(0));
    shell.subscribe(1, &will("wills/killed")).process.kill();
    wait_until("the will", || std::fs::read_to_string(&watcher.out).unwrap().contains("=wills/killed"));
    shell.publish(&["-t", "wills/marker", "-q", "1", "-m", "marker"]);
    assert_eq!(watcher.messages(), ["wills/killed|1|0|dead", "wills/marker|1|0|marker"]);
}

#[test]
fn a_session_of_mosquitto_sub_gets_what_was_published_meanwhile() {
    let Some(shell) = Shell::open("sessions of mosquitto_sub") else { return };
    for version in [&["-V", "mqttv311"][..], &["-V", "mqttv5", "-x", "60"]] {
        let who = [version, &["-i", version[1], "-c", "-t", "queue", "-q", "2"]].concat();
        shell.run("mosquitto_sub", &[&who[..], &["-E"]].concat());
        for number in ["1", "2"] {
            shell.publish(&["-t", "queue", "-q", number, "-m", number]);
        }
        assert_eq!(shell.subscribe(2, &who).messages(), ["queue|1|0|1", "queue|2|0|2"]);
    }
}

#[test]
fn shared_subscriptions_of_mosquitto_sub_divide_the_messages() {
    let Some(shell) = Shell::open("shared subscriptions of mosquitto_sub") else { return };
    let members = [(); 2].map(|()| shell.subscribe(2, &["-t", "$share/group/work", "-q", "1"]));
    for number in ["1", "2", "3", "4"] {
        shell.publish(&["-t", "work", "-q", "1", "-m", number]);
    }
    let mut all: Vec<String> = members.into_iter().flat_map(Subscriber::messages).collect();
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4"].map(|number| format!("work|1|0|{number}")));
}

#[test]
fn properties_of_mosquitto_pub_are_passed_on() {
    let Some(shell) = Shell::open("properties of mosquitto_pub") else { return };
    let format = ["-F", "=%P|%R|%D|%C|%p"];
    let subscriber =
        shell.subscribe(1, &[&["-V", "mqttv5", "-t", "with/properties", "-q", "1"][..], &format].concat());
    let mut words = vec!["-V", "mqttv5", "-t", "with/properties", "-q", "1", "-m", "21.5"];
    let properties = [
        &["user-property", "unit", "celsius"][..],
        &["response-topic", "answers/1"],
        &["correlation-data", "abc"],
        &["content-type", "text/plain"],
    ];
    for property in properties {
        words.extend_from_slice(&["-D", "publish"]);
        words.extend_from_slice(property);
    }
    shell.publish(&words);
    assert_eq!(subscriber.messages(), ["unit:celsius|answers/1|abc|text/plain|21.5"]);
}
