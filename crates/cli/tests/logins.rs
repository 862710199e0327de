//! Users on running brokers: who is let in, what they may do, and what SIGHUP changes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use mqtt::packet::Version;
use mqtt::testing::{FromBroker, MqttPacket, encode_3, encode_5, v3, v5};
use rustix::process::Signal;
use std::fs::{Permissions, set_permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Process, Ran, Site, WATCHDOG, free_ports, program, wait_for, wait_until};
use verge::{Client, Contract, Error, Span};

const YES: i32 = 0;
const NO: i32 = 1;
const TROUBLE: i32 = 2;
/// The password of everybody here.
const RIGHT: &str = "open sesame";

/// A pair that knows its users, with a listener for MQTT on its first broker.
struct Plant {
    brokers: [Process; 2],
    site: Site,
    mqtt: u16,
}

const RULES: &str = r##"
[[role]]
name = "machine"
[[role.rule]]
allow = ["publish", "contract"]
topics = ["plant/%u/#"]
[[role.rule]]
deny = "publish"
topics = ["plant/%u/safety"]

[[role]]
name = "viewer"
[[role.rule]]
allow = "subscribe"
topics = ["plant/#"]

[[role]]
name = "boss"
[[role.rule]]
allow = "admin"
"##;

impl Plant {
    fn new(more: &str) -> Plant {
        let [mqtt] = free_ports::<1>();
        let site = Site::new(&format!(
            "mqtt = \"none\"\n[security]\nusers = \"users.toml\"\npair_secret_file = \"pair.secret\"\n{more}"
        ));
        let text = std::fs::read_to_string(&site.config).unwrap();
        let with_mqtt = text.replacen(
            "start_as = \"primary\"\n",
            &format!("start_as = \"primary\"\nmqtt = \"127.0.0.1:{mqtt}\"\n"),
            1,
        );
        std::fs::write(&site.config, with_mqtt).unwrap();
        let secret = site.folder.write("pair.secret", "0123456789abcdef0123456789abcdef\n");
        set_permissions(secret, Permissions::from_mode(0o600)).unwrap();
        site.folder.write("right", format!("{RIGHT}\n"));
        site.folder.write("users.toml", RULES);
        for (user, role) in [("line", "machine"), ("eye", "viewer"), ("ann", "boss")] {
            add_user(&site, user, role);
        }
        let brokers = [site.start(0), site.start(1)];
        let plant = Plant { brokers, site, mqtt };
        let ann = plant.client("ann");
        wait_until("protection of the pair", || {
            (0..2).any(|broker| matches!(ann.status(broker, false), Ok(Some(report)) if report.protected))
        });
        plant
    }

    fn client(&self, user: &str) -> Client {
        let builder = Client::builder().patience(WATCHDOG).credentials(user, RIGHT);
        builder.connect(&self.site.addresses()).unwrap()
    }

    /// Runs a command as somebody.
    fn run(&self, user: &str, password: &str, arguments: &[&str]) -> Ran {
        let mut all = vec!["--config", self.site.config.to_str().unwrap()];
        all.extend(arguments);
        if !user.is_empty() {
            all.extend(["--user", user]);
        }
        self.site.folder.run_with(all, &[("VERGE_PASSWORD", password)])
    }

    fn log(&self, broker: usize) -> String {
        self.brokers[broker].log()
    }

    /// Writes the user file anew, and has both brokers read it.
    fn reload(&self, text: &str, says: &str) {
        self.site.folder.write("users.toml", text);
        for broker in &self.brokers {
            let before = broker.log().matches(says).count();
            broker.signal(Signal::HUP);
            wait_until("the user file being read", || broker.log().matches(says).count() > before);
        }
    }

    fn users(&self) -> String {
        std::fs::read_to_string(self.site.folder.path("users.toml")).unwrap()
    }
}

fn add_user(site: &Site, user: &str, role: &str) {
    let mut command = program(["user", "add", user, "--password-stdin", "--role", role, "--file"]);
    command.arg(site.folder.path("users.toml")).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{RIGHT}\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn contract() -> Contract {
    Contract::every(Span::millis(50)).retain(2)
}

#[test]
fn who_is_known_may_do_what_rules_allow_on_both_brokers_and_after_a_crash() {
    let mut plant = Plant::new("");
    let (line, eye) = (plant.client("line"), plant.client("eye"));
    let publisher = line.publisher("plant/line/speed", contract()).unwrap();
    let messages = eye.subscribe("plant/#").unwrap();
    publisher.publish(b"1").unwrap();
    assert_eq!(messages.into_iter().next().unwrap().payload, b"1");

    let refused = line.publisher("plant/other/speed", contract()).err().unwrap();
    assert!(matches!(&refused, Error::Refused { reason, .. } if reason.contains("no rule")), "{refused}");
    let refused = line.publisher("plant/line/safety", contract()).err().unwrap();
    assert!(refused.to_string().contains("role `machine`"), "{refused}");
    let refused = eye.subscribe("#").err().unwrap();
    assert!(
        matches!(&refused, Error::SubscriptionRefused { reason, .. } if reason.contains("no rule")),
        "{refused}"
    );
    let denied = eye.status(0, false).unwrap_err();
    assert!(matches!(&denied, Error::Denied(reason) if reason.contains("eye status admin")), "{denied}");
    // Who asked for too much is back at once, and goes on.
    let messages = wait_for("another subscription", || eye.subscribe("plant/line/+").ok());
    publisher.publish(b"2").unwrap();
    assert_eq!(messages.into_iter().next().unwrap().payload, b"2");

    // The backup has let everybody in already, so nobody has to log in again when it takes over.
    plant.brokers[0].kill();
    let messages = wait_for("a subscription after the crash", || eye.subscribe("plant/line/speed").ok());
    wait_until("a message after the crash", || {
        let _ = publisher.publish(b"3");
        messages.next_within(Duration::from_millis(100)).is_some_and(|message| message.payload == b"3")
    });
    assert!(line.publisher("plant/other/speed", contract()).is_err(), "and its rules are the same");
    assert!(!plant.log(1).contains(RIGHT));
}

#[test]
fn commands_log_in_and_say_what_is_wrong() {
    let plant = Plant::new("");
    let publish = ["pub", "-t", "plant/line/speed", "-m", "1", "--period", "1s"];
    plant.run("line", RIGHT, &publish).must(YES, &[]);
    plant.run("line", "wrong", &publish).must(TROUBLE, &["the password is wrong"]);
    plant.run("nobody", RIGHT, &publish).must(TROUBLE, &["there is no such user"]);
    plant.run("", RIGHT, &publish).must(TROUBLE, &["nobody may come in without logging in", "--user"]);
    plant
        .run("eye", RIGHT, &publish)
        .must(NO, &["no rule in the user file allows `publish`", "verge acl test eye"]);
    let subscribe = ["sub", "-t", "#", "-W", "5"];
    plant.run("line", RIGHT, &subscribe).must(NO, &["no rule in the user file allows `subscribe`"]);
    plant.run("line", RIGHT, &["status"]).must(TROUBLE, &["verge acl test line status admin"]);
    plant.run("line", RIGHT, &["handover"]).must(NO, &["verge acl test line handover admin"]);
    plant.run("ann", RIGHT, &["status"]).must(YES, &["protected"]);
    plant.run("ann", RIGHT, &["handover"]).must(YES, &["handed over"]);

    let right = plant.site.folder.path("right");
    let by_file = |file: &Path, user: &str| {
        let file = file.to_str().unwrap();
        plant.site.run(&[
            "pub",
            "-t",
            "plant/line/x",
            "-m",
            "1",
            "--period",
            "1s",
            "-u",
            user,
            "--password-file",
            file,
        ])
    };
    by_file(&right, "line").must(YES, &[]);
    by_file(&plant.site.folder.path("nothing"), "line").must(TROUBLE, &["cannot read the password in"]);
    plant.site.run(&["status", "-u", "ann"]).must(TROUBLE, &["VERGE_PASSWORD", "client.password_file"]);
    let long = "x".repeat(2_000);
    plant.run("ann", &long, &["status"]).must(TROUBLE, &["above the limit of 1024"]);
    let configured = ["--set", "client.user=ann", "--set", "client.password_file=right", "status"];
    plant.site.run(&configured).must(YES, &["protected"]);

    // The admin hears who it was, where from, and never the password. Who is refused for the same cause within a second is counted.
    let log = plant.log(0) + &plant.log(1);
    assert!(log.contains("as `line` from 127.0.0.1: there is no such user"), "{log}");
    assert!(!log.contains("wrong,") && !log.contains(RIGHT), "{log}");
}

#[test]
fn wrong_passwords_at_rate_are_refused_without_being_looked_at() {
    let plant = Plant::new("logins_per_minute = 1\n");
    let attempt =
        |password| plant.run("line", password, &["pub", "-t", "plant/line/x", "-m", "1", "--period", "1s"]);
    // Each attempt goes to both brokers, and each counts its own.
    attempt("guess").must(TROUBLE, &["the password is wrong"]);
    attempt("guess").must(TROUBLE, &["too many logins have failed"]);
    attempt(RIGHT).must(TROUBLE, &["security.logins_per_minute"]);
}

#[test]
fn sighup_takes_a_right_away_and_a_file_with_a_mistake_takes_nothing() {
    let plant = Plant::new("");
    let (line, eye) = (plant.client("line"), plant.client("eye"));
    let publisher = line.publisher("plant/line/a", contract()).unwrap();
    let before = plant.users();

    plant.reload("[[user]]\nname = \"line\"\npasswort = 1\n", "the configuration is not taken over");
    assert!(plant.log(0).contains("unknown key `passwort`"), "{}", plant.log(0));
    drop(line.publisher("plant/line/b", contract()).unwrap());

    plant.reload(&before.replace("plant/%u/#", "plant/%u/a"), "users: 3 in the file");
    let refused = line.publisher("plant/line/c", contract()).err().unwrap();
    assert!(refused.to_string().contains("no rule"), "{refused}");
    publisher.publish(b"what was registered goes on").unwrap();

    // Users that are gone have to go, and cannot come back.
    let rest = before
        .split("[[user]]")
        .filter(|part| !part.contains("\"eye\""))
        .collect::<Vec<_>>()
        .join("[[user]]");
    plant.reload(&rest, "users: 2 in the file");
    wait_until("its end", || matches!(eye.wait_for_primary(), Err(Error::Denied(_))));
    wait_until("the reason in the log", || plant.log(0).contains("the user `eye` has been taken out"));
    plant.run("eye", RIGHT, &["sub", "-t", "plant/#", "-W", "1"]).must(TROUBLE, &["there is no such user"]);

    // A password that was right, and remembered, and has been changed since.
    plant
        .run(
            "line",
            RIGHT,
            &["pub", "-t", "plant/line/a", "-m", "1", "--period", "50ms", "--retain", "2", "-i", "p2"],
        )
        .must(YES, &[]);
    let others: String = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$".to_owned();
    let changed = replace_hash(&before, "line", &(others + &"A".repeat(43)));
    plant.reload(&changed, "users: 3 in the file");
    plant
        .run(
            "line",
            RIGHT,
            &["pub", "-t", "plant/line/a", "-m", "1", "--period", "50ms", "--retain", "2", "-i", "p3"],
        )
        .must(TROUBLE, &["the password is wrong"]);
}

/// A client of MQTT, byte by byte. Its user may do nothing but be connected.
struct MqttClient {
    stream: std::net::TcpStream,
    packets: FromBroker,
}

impl MqttClient {
    /// Connects, and is let in.
    fn new(port: u16, version: Version, user: &str) -> MqttClient {
        let (client_id, password) = (format!("{user} {version:?}").into(), Some(RIGHT.as_bytes().into()));
        let hello = match version {
            Version::V31 | Version::V311 => encode_3(
                v3::Connect { client_id, username: Some(user.into()), password, ..Default::default() }.into(),
            ),
            Version::V5 => encode_5(
                v5::Connect { client_id, username: Some(user.into()), password, ..Default::default() }.into(),
            ),
        };
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(&hello.unwrap()).unwrap();
        let mut client = MqttClient { stream, packets: FromBroker::new(version) };
        match client.next().unwrap() {
            MqttPacket::V5(v5::Packet::ConnectAck(ack)) => assert_eq!(u8::from(ack.reason_code), 0),
            MqttPacket::V3(v3::Packet::ConnectAck(ack)) => assert_eq!(u8::from(ack.return_code), 0),
            other => panic!("{other:?}"),
        }
        client
    }

    /// The next packet; `None` at the end of the connection.
    fn next(&mut self) -> Option<MqttPacket> {
        loop {
            if let Some(packet) = self.packets.packet().unwrap() {
                return Some(packet);
            }
            let mut bytes = [0; 1_024];
            let read = self.stream.read(&mut bytes).unwrap();
            if read == 0 {
                return None;
            }
            self.packets.feed(&bytes[..read]);
        }
    }

    /// Is told to go, if its version has a word for it, and the connection ends. Returns why.
    fn wait_to_be_sent_away(mut self) -> String {
        let why = match self.next() {
            Some(MqttPacket::V5(v5::Packet::Disconnect(word))) => {
                assert_eq!(word.reason_code as u8, 0x98);
                word.reason_string.unwrap().to_string()
            }
            None => return String::new(),
            other => panic!("{other:?}"),
        };
        assert!(self.next().is_none());
        why
    }

    /// Is there still, and answered.
    fn stays(&mut self) {
        self.stream.write_all(&[0xC0, 0]).unwrap();
        assert!(matches!(self.next(), Some(MqttPacket::V5(v5::Packet::PingResponse))));
    }
}

#[test]
fn sighup_ends_connections_of_mqtt_clients_whose_users_are_gone_or_log_in_otherwise() {
    let plant = Plant::new("");
    let before = plant.users();
    let connect = |user, version| MqttClient::new(plant.mqtt, version, user);
    let (eye, eye_3) = (connect("eye", Version::V5), connect("eye", Version::V311));
    let (line, mut ann) = (connect("line", Version::V5), connect("ann", Version::V5));
    let without = |user: &str| {
        let of_user = format!("\"{user}\"");
        let rest = before.split("[[user]]").filter(|part| !part.contains(&of_user));
        rest.collect::<Vec<_>>().join("[[user]]")
    };
    plant.reload(&without("eye"), "users: 2 in the file");
    assert!(eye.wait_to_be_sent_away().contains("`eye` has been taken out"));
    assert_eq!(eye_3.wait_to_be_sent_away(), "", "its version has no word for it");
    ann.stays();

    let other = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$".to_owned() + &"A".repeat(43);
    plant.reload(&replace_hash(&before, "line", &other), "users: 3 in the file");
    assert!(line.wait_to_be_sent_away().contains("password of the user `line` has been changed"));
    ann.stays();
    let log = plant.log(0);
    // The same cause is written once per second.
    assert!(log.contains("closed the connection of eye V"), "{log}");
    assert!(!log.contains("the connection of ann"), "{log}");
}

/// The file with another hash for one user.
fn replace_hash(text: &str, user: &str, hash: &str) -> String {
    let begins = text.find(&format!("name = \"{user}\"")).unwrap();
    let at = begins + text[begins..].find("$argon2id").unwrap();
    let ends = at + text[at..].find('"').unwrap();
    format!("{}{hash}{}", &text[..at], &text[ends..])
}

#[test]
fn brokers_that_do_not_share_a_secret_do_not_pair() {
    let site = Site::new("[security]\nusers = \"users.toml\"\n");
    site.folder.write("users.toml", RULES);
    site.run(&["broker", "a"]).must(TROUBLE, &["security.pair_secret_file"]);
    let with = |name: &str, secret: &str, mode: u32| {
        let path = site.folder.write(name, secret);
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        format!("security.pair_secret_file={}", path.display())
    };
    let short = with("short", "x\n", 0o600);
    site.run(&["--set", &short, "broker", "a"]).must(TROUBLE, &["needs 16"]);
    let open = with("open", "0123456789abcdef\n", 0o644);
    site.run(&["--set", &open, "broker", "a"]).must(TROUBLE, &["chmod 600"]);
    add_user(&site, "ann", "boss");
    let start = |index: usize, secret: &str| {
        let text = with(&format!("secret-{index}"), secret, 0o600);
        site.start_with(
            index,
            &[("VERGE_SECURITY__PAIR_SECRET_FILE", text.split_once('=').unwrap().1.to_owned())],
        )
    };
    let a = start(0, "0123456789abcdef-a\n");
    let b = start(1, "0123456789abcdef-b\n");
    wait_until("a refusal", || {
        a.log().contains("does not know the secret") && b.log().contains("does not know the secret")
    });
    let ann =
        Client::builder().patience(WATCHDOG).credentials("ann", RIGHT).connect(&site.addresses()).unwrap();
    wait_until("an answer of both", || (0..2).all(|broker| matches!(ann.status(broker, false), Ok(Some(_)))));
    assert!((0..2).all(|broker| !ann.status(broker, false).unwrap().unwrap().protected));
    assert!(!a.log().contains("protected: the backup"), "{}", a.log());
}

#[test]
fn clients_of_mqtt_are_the_same_users() {
    let programs = ["mosquitto_pub", "mosquitto_sub"];
    let there = |program: &str| Command::new(program).arg("--help").stdout(Stdio::null()).status().is_ok();
    if !programs.into_iter().all(there) {
        println!(
            "SKIPPED: clients_of_mqtt_are_the_same_users: there is no mosquitto_pub and mosquitto_sub; `make tools` installs it"
        );
        return;
    }
    let plant = Plant::new("");
    let port = plant.mqtt.to_string();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &port, "-V", "5"]).args(arguments);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let publish = |user: &str, password: &str, topic: &str| {
        run("mosquitto_pub", &["-u", user, "-P", password, "-q", "1", "-t", topic, "-m", "hello", "-r"])
    };
    assert_eq!(publish("line", RIGHT, "plant/line/x").0, Some(0));
    let (code, said) = publish("line", "wrong", "plant/line/x");
    assert!(code != Some(0) && said.to_lowercase().contains("bad user"), "{code:?} {said}");
    let (code, said) = publish("nobody", RIGHT, "plant/line/x");
    assert!(code != Some(0) && said.to_lowercase().contains("bad user"), "{code:?} {said}");
    let (code, said) = run("mosquitto_pub", &["-q", "1", "-t", "plant/line/x", "-m", "anonymous"]);
    assert!(code != Some(0) && said.to_lowercase().contains("not authorized"), "{code:?} {said}");
    let (_, said) = publish("line", RIGHT, "plant/other/x");
    assert!(said.to_lowercase().contains("not authorized"), "{said}");

    let subscribe = |user: &str, topic: &str| {
        run("mosquitto_sub", &["-u", user, "-P", RIGHT, "-q", "1", "-t", topic, "-C", "1", "-W", "5", "-v"])
    };
    let (code, said) = subscribe("eye", "plant/#");
    assert_eq!((code, said.trim()), (Some(0), "plant/line/x hello"));
    let (_, said) = subscribe("line", "plant/#");
    assert!(said.contains("denied") && !said.contains("hello"), "{said}");
    wait_until("a word in the log", || {
        plant.log(0).contains("as `line` from 127.0.0.1: there is no such user")
    });
}
