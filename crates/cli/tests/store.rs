//! Stores that fail, with real processes: a full disk, SIGKILL for both brokers, and restarts in every order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{PATIENT, Process, Site, WATCHDOG, free_ports, wait_for, wait_until};

const NAMES: [&str; 2] = ["a", "b"];

/// A small disk of its own. Nothing where the test may not mount.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Option<SmallDisk> {
        std::fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=12m", "none"]).arg(&at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }

    /// Somebody else takes all that is left.
    fn fill(&self) {
        let mut ballast = File::create(self.0.join("ballast")).unwrap();
        while ballast.write_all(&[1; 4_096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A pair that stores, the first broker on a small disk.
struct Stores {
    brokers: [Option<Process>; 2],
    disk: SmallDisk,
    site: Site,
    mqtt: [u16; 2],
    http: [u16; 2],
}

impl Stores {
    fn start(test: &str) -> Option<Stores> {
        let site = Site::new(PATIENT);
        let Some(disk) = SmallDisk::mount(site.folder.path("disk")) else {
            eprintln!("{test}: SKIPPED: may not mount");
            return None;
        };
        let [m0, m1, h0, h1] = free_ports::<4>();
        let of = |index: usize, mqtt: u16, http: u16| {
            let name = NAMES[index];
            format!("[brokers.{name}]\nmqtt = \"127.0.0.1:{mqtt}\"\nhttp = \"127.0.0.1:{http}\"\n")
        };
        std::fs::create_dir(site.folder.path("conf.d")).unwrap();
        site.folder.write("conf.d/more.toml", of(0, m0, h0) + &of(1, m1, h1));
        let mut stores = Stores { brokers: [None, None], disk, site, mqtt: [m0, m1], http: [h0, h1] };
        stores.run(0);
        stores.run(1);
        stores.wait_for_protection();
        Some(stores)
    }

    fn folder(&self, index: usize) -> PathBuf {
        if index == 0 { self.disk.0.join("store") } else { self.site.folder.path("store-b") }
    }

    fn run(&mut self, index: usize) {
        let folder = self.folder(index).display().to_string();
        self.brokers[index] = Some(self.site.start_with(index, &[("VERGE_STORE__FOLDER", folder)]));
    }

    fn kill_both(&mut self) {
        self.brokers.iter_mut().for_each(|broker| broker.take().unwrap().kill());
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.site.run(&["status", "--format", "json"]).out).ok()
    }

    fn row(&self, index: usize) -> Option<Value> {
        let status = self.status()?;
        status["brokers"].as_array()?.iter().find(|row| row["name"] == NAMES[index]).cloned()
    }

    fn wait_for_protection(&self) -> Value {
        wait_for("protection", || self.status().filter(|status| status["protected"] == true))
    }

    fn wait_for_store(&self, index: usize, what: &str) {
        wait_until(what, || self.row(index).is_some_and(|row| row["store"] == what));
    }

    fn wait_for_reign(&self, index: usize) {
        wait_until("a reign", || self.row(index).is_some_and(|row| row["role"] == "primary"));
    }

    fn get(&self, index: usize, path: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http[index])).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log(&self, index: usize) -> String {
        std::fs::read_to_string(self.site.folder.path(&format!("{}.log", NAMES[index]))).unwrap()
    }

    fn retain(&self, index: usize, topics: std::ops::Range<u32>) {
        let mut client = Mqtt::connect(self.mqtt[index], "publisher");
        topics.for_each(|topic| client.retain(&format!("t/{topic}"), &[7; 1_000]));
    }

    /// Retained messages that a subscriber gets.
    fn retained(&self, index: usize, wanted: usize) -> usize {
        let mut client = Mqtt::connect(self.mqtt[index], "subscriber");
        client.subscribe("t/#");
        let mut count = 0;
        // One more would be as wrong as one less.
        while let Some((_, body)) = client.next_publish(if count < wanted { WATCHDOG } else { QUIET }) {
            count += usize::from(body.len() > 1_000);
        }
        count
    }
}

/// What has not come after that, once everything has, does not come.
const QUIET: Duration = Duration::from_millis(300);

/// A client of MQTT 3.1.1 made of bytes.
struct Mqtt(TcpStream);

impl Mqtt {
    fn connect(port: u16, name: &str) -> Mqtt {
        let socket = wait_for("an MQTT listener", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        let mut client = Mqtt(socket);
        client.send(0x10, &[&text("MQTT")[..], &[4, 2, 0, 0], &text(name)].concat());
        assert_eq!(client.next().unwrap().1, [0, 0]);
        client
    }

    fn send(&mut self, first: u8, body: &[u8]) {
        let (low, high) = ((body.len() % 128) as u8, (body.len() / 128) as u8);
        let length: &[u8] = if high == 0 { &[low] } else { &[low | 0x80, high] };
        self.0.write_all(&[&[first], length, body].concat()).unwrap();
    }

    fn retain(&mut self, topic: &str, payload: &[u8]) {
        self.send(0x33, &[&text(topic)[..], &[0, 1], payload].concat());
        while self.next().unwrap().0 != 0x40 {}
    }

    fn subscribe(&mut self, filter: &str) {
        self.send(0x82, &[&[0, 1][..], &text(filter), &[0]].concat());
    }

    /// The next packet, if one comes.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut first = [0];
        match self.0.read_exact(&mut first) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
            Err(error) => panic!("{error}"),
        }
        let (mut length, mut shift) = (0, 0);
        loop {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Some((first[0], body))
    }

    fn next_publish(&mut self, within: Duration) -> Option<(u8, Vec<u8>)> {
        self.0.set_read_timeout(Some(within)).unwrap();
        loop {
            let (first, body) = self.next()?;
            if first & 0xf0 == 0x30 {
                return Some((first, body));
            }
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

const KEPT: u32 = 100;
const ALL: u32 = 400;

/// The store of the primary is given up on a full disk, with a part of what is retained. Everybody is told.
fn give_up(test: &str) -> Option<Stores> {
    let stores = Stores::start(test)?;
    let mut watcher = Mqtt::connect(stores.mqtt[0], "watcher");
    watcher.subscribe("$SYS/verge/alarms");
    stores.retain(0, 0..KEPT);
    wait_until("equal numbers", || {
        let known = [0, 1].map(|index| stores.row(index).map(|row| row["known_changes"].as_u64().unwrap()));
        known[0] == known[1] && known[0] >= Some(u64::from(KEPT))
    });
    stores.disk.fill();
    stores.retain(0, KEPT..ALL);
    stores.wait_for_store(0, "given up");
    let row = stores.row(0).unwrap();
    assert!(row["store_reason"].as_str().unwrap().contains("No space left"), "{row}");
    assert_eq!(stores.row(1).unwrap()["store"], "writes");
    let table = stores.site.run(&["status"]).out;
    assert!(table.contains("STORE of a given up") && table.contains("No space left"), "{table}");
    let ready = stores.get(0, "/readyz");
    assert!(
        ready.contains("200 OK") && ready.contains("store_given_up") && ready.contains("No space"),
        "{ready}"
    );
    let metrics = stores.get(0, "/metrics");
    assert!(
        metrics.contains("verge_store_poisoned 1") && metrics.contains("verge_known_changes "),
        "{metrics}"
    );
    let (_, alarm) = watcher.next_publish(WATCHDOG).unwrap();
    let alarm = String::from_utf8_lossy(&alarm).into_owned();
    assert!(alarm.contains("\"kind\":\"store_given_up\"") && alarm.contains("\"stored\":"), "{alarm}");
    assert!(stores.log(0).contains("the store is given up at change"), "{}", stores.log(0));
    assert_eq!(stores.retained(0, ALL as usize), ALL as usize, "it serves all the same");
    Some(stores)
}

/// Everything is there, at whoever reigns, and in both stores.
fn must_be_whole(stores: &Stores) {
    let status = stores.wait_for_protection();
    let reigns = |index: usize| {
        let rows = status["brokers"].as_array().unwrap();
        rows.iter().any(|row| row["name"] == NAMES[index] && row["role"] == "primary")
    };
    let primary = usize::from(!reigns(0));
    assert_eq!(stores.retained(primary, ALL as usize), ALL as usize, "{}\n{}", stores.log(0), stores.log(1));
}

#[test]
fn after_both_were_killed_the_store_that_was_given_up_does_not_replace_the_other() {
    for order in [&[0, 1][..], &[1, 0], &[]] {
        let Some(mut stores) = give_up("a store on a full disk") else { return };
        stores.kill_both();
        stores.disk.free();
        match order {
            &[first, second] => {
                stores.run(first);
                stores.wait_for_reign(first);
                stores.run(second);
            }
            _ => {
                stores.run(0);
                stores.run(1);
            }
        }
        // Whoever began to reign, in the end it is the one that knows more.
        stores.wait_for_reign(1);
        must_be_whole(&stores);
        assert!(stores.log(0).contains("and did up to change"), "{}", stores.log(0));
        // The next time, both know it.
        stores.kill_both();
        stores.run(0);
        stores.wait_for_reign(0);
        assert_eq!(stores.retained(0, ALL as usize), ALL as usize, "{order:?}");
    }
}

#[test]
fn a_store_comes_back_without_a_restart_when_there_is_room() {
    let Some(mut stores) = give_up("a store that comes back") else { return };
    stores.disk.free();
    stores.wait_for_store(0, "writes");
    assert!(!stores.get(0, "/readyz").contains("store_"));
    assert!(stores.log(0).contains("the store is back"), "{}", stores.log(0));
    wait_until("the last change", || {
        let (stored, row) = (has(&stores.folder(0), "stored"), stores.row(0).unwrap());
        let is_so = stored == row["known_changes"];
        if !is_so {
            println!("{stored} are stored: {row}");
        }
        is_so
    });
    stores.kill_both();
    stores.run(0);
    stores.wait_for_reign(0);
    assert_eq!(stores.retained(0, ALL as usize), ALL as usize, "without the other one");
}

/// A number in the note of a store.
fn has(folder: &Path, word: &str) -> u64 {
    let note = std::fs::read_to_string(folder.join("state")).unwrap();
    let mut words = note.split_whitespace().skip_while(|other| *other != word);
    words.nth(1).unwrap().parse().unwrap()
}

#[test]
fn records_that_are_damaged_come_from_the_partner_and_the_log_says_so() {
    let Some(mut stores) = Stores::start("damaged records") else { return };
    stores.retain(0, 0..ALL);
    stores.wait_for_protection();
    wait_until("both notes", || {
        let known = stores.row(0).unwrap()["known_changes"].as_u64().unwrap();
        [0, 1].iter().all(|index| has(&stores.folder(*index), "stored") == known)
    });
    for (damage, says) in
        [("zeros", "is damaged"), ("cut", "is damaged"), ("empty", "is empty"), ("gone", "is gone")]
    {
        stores.kill_both();
        let records = stores.folder(0).join("records.redb");
        let length = std::fs::metadata(&records).unwrap().len();
        match damage {
            "zeros" => std::fs::write(&records, vec![0; length as usize]).unwrap(),
            "cut" => File::options().write(true).open(&records).unwrap().set_len(length / 2).unwrap(),
            "empty" => std::fs::write(&records, "").unwrap(),
            _ => std::fs::remove_file(&records).unwrap(),
        }
        stores.run(0);
        stores.run(1);
        must_be_whole(&stores);
        let log = stores.log(0);
        assert!(
            log.contains(says) && log.contains("holds sessions and retained messages up to change 0"),
            "{log}"
        );
    }
}
