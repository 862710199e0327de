//! The journal on real files: reopened, killed, without room, in use.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use host::{JournalFiles, JournalFilesError};
use journal::{
    Budget, Cursor, Durability, FileName, Files, Journal, NewItem, NotKept, Position, Settings, State,
    TopicId, TopicSettings,
};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const NOW: Time = Time(1_000_000_000_000);
const ALL: Budget = Budget { items: usize::MAX, bytes: usize::MAX };

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, SeqCst);
        let folder =
            std::env::temp_dir().join(format!("verge-journal-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    fn journal(&self) -> PathBuf {
        self.0.join("deep/journal")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings() -> Settings {
    Settings {
        segment_bytes: 256 << 10,
        bytes_max: 64 << 20,
        payload_bytes_max: 64 << 10,
        durability: Durability::Each,
        ..Settings::default()
    }
}

fn open(folder: &Path) -> Journal<JournalFiles> {
    Journal::open(JournalFiles::open(folder).unwrap(), settings()).unwrap()
}

/// The payload of an item, always the same: of all lengths.
fn payload(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    let length = if number.is_multiple_of(500) { 30_000 } else { (mixed >> 32) as usize % 200 };
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

fn put(journal: &mut Journal<JournalFiles>, topic: TopicId, number: u64) -> Result<Position, NotKept> {
    let (payload, expires) = (payload(number), Time::NEVER);
    journal.append(
        NOW,
        &NewItem {
            topic,
            identity: b"me",
            sequence: number,
            created: NOW,
            expires,
            flags: 0,
            payload: &payload,
        },
    )
}

/// All numbers of a topic, in order; each item is as it was.
fn numbers(journal: &mut Journal<JournalFiles>, topic: TopicId) -> Vec<u64> {
    let (mut cursor, mut found) = (Cursor::after(topic, Position::BEGIN), Vec::new());
    let mut batch = journal.read(&mut cursor, NOW, ALL);
    while let Some(item) = batch.next_item() {
        assert_eq!(item.payload, payload(item.sequence));
        found.push(item.sequence);
    }
    found
}

/// Carries out what is to be synced, on a thread of its own as a host would.
fn sync(journal: &mut Journal<JournalFiles>) {
    while let Some(order) = journal.poll_sync(NOW) {
        let prepared = journal.files().prepare(&order).unwrap();
        let (ticket, done) = std::thread::spawn(move || prepared.run()).join().unwrap();
        journal.handle_synced(ticket, done);
    }
}

#[test]
fn what_was_appended_is_there_when_it_is_opened_again() {
    let scratch = Scratch::new("again");
    let mut last = 0;
    for round in 0..4 {
        let mut journal = open(&scratch.journal());
        let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
        assert_eq!(numbers(&mut journal, topic), (0..last).collect::<Vec<u64>>());
        for number in last..last + 5_000 {
            put(&mut journal, topic, number).unwrap();
        }
        last += 5_000;
        if round % 2 == 0 {
            sync(&mut journal);
            assert_eq!(journal.durable(), journal.last());
        }
        assert_eq!(journal.poll_event(), None);
    }
    let folder = std::fs::metadata(scratch.journal()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(scratch.journal()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn files_have_their_blocks_before_they_are_written_to() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("blocks");
    let mut files = JournalFiles::open(&scratch.journal()).unwrap();
    let name = FileName::Segment { id: 7, generation: 0 };
    files.create(name, 1 << 20).unwrap();
    assert!(files.create(name, 1 << 20).is_err(), "it is there");
    let found = std::fs::metadata(scratch.journal().join(name.to_string())).unwrap();
    assert_eq!(found.len(), 1 << 20);
    assert!(!files.is_mapped() || found.blocks() * 512 >= 1 << 20, "{} blocks", found.blocks());
    assert!(files.write(name, (1 << 20) - 3, b"four").is_err(), "it is behind its end");
    std::fs::write(scratch.journal().join("something-else"), b"").unwrap();
    assert_eq!(files.list().unwrap(), [(name, 1 << 20)]);
}

#[test]
fn two_processes_do_not_have_one_journal() {
    let scratch = Scratch::new("lock");
    let _journal = open(&scratch.journal());
    let refused = JournalFiles::open(&scratch.journal()).err().unwrap();
    assert!(
        matches!(&refused, JournalFilesError::InUse(folder) if *folder == scratch.journal()),
        "{refused}"
    );
}

/// A process of its own that runs one of the ignored tests below.
fn child(folder: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_that_appends", "--nocapture", "--test-threads=1"])
        .env("VERGE_JOURNAL_FOLDER", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

#[test]
#[ignore = "runs as a process of another test"]
fn child_that_appends() {
    let folder = std::env::var_os("VERGE_JOURNAL_FOLDER").expect("only as a process of another test");
    let mut journal = open(Path::new(&folder));
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    let receiver = journal.receiver(b"north").unwrap();
    let first = numbers(&mut journal, topic).last().map_or(0, |last| last + 1);
    println!();
    for number in first.. {
        let position = put(&mut journal, topic, number).unwrap();
        journal.hand_on(receiver, topic, position).unwrap();
        if number.is_multiple_of(64) {
            println!("appended {number}");
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(number < first + 2_000_000, "nobody kills it");
    }
}

#[test]
fn sigkill_at_any_moment_loses_nothing_that_was_appended() {
    let scratch = Scratch::new("kill");
    for round in 0..12 {
        let (mut child, lines) = child(&scratch.journal());
        let (mut appended, mut seen) = (0, 0);
        for line in lines.lines() {
            let line = line.unwrap();
            if let Some(number) = line.strip_prefix("appended ") {
                (appended, seen) = (number.parse::<u64>().unwrap(), seen + 1);
            }
            if seen == 5 + round * 3 {
                // Somewhere in the next items.
                std::thread::sleep(Duration::from_micros(round * 397));
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let mut journal = open(&scratch.journal());
        let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
        let found = numbers(&mut journal, topic);
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<u64>>());
        assert!(found.len() as u64 > appended, "{} of {appended}", found.len());
        let receiver = journal.receiver(b"north").unwrap();
        let (handed_on, range) = (journal.handed_on(receiver, topic), journal.range(topic).unwrap());
        // The process may have been killed between the two.
        let mut cursor = Cursor::after(topic, handed_on);
        let mut rest = journal.read(&mut cursor, NOW, ALL);
        let count = std::iter::from_fn(|| rest.next_item().map(|item| item.position)).count();
        assert!(count <= 1 && handed_on <= range.1, "{count} items behind {handed_on}");
    }
}

/// A small disk of its own. Nothing where the test may not mount.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(&at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_ends_nothing() {
    let scratch = Scratch::new("full");
    let Some(disk) = SmallDisk::mount(scratch.0.join("disk"), "3m") else {
        eprintln!("SKIPPED: may not mount");
        return;
    };
    let folder = disk.0.join("journal");
    let mut journal = open(&folder);
    assert!(journal.files().is_mapped());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    let kept = (0..).take_while(|number| put(&mut journal, topic, *number).is_ok()).count() as u64;
    assert!(kept > 5_000, "{kept}");
    assert_eq!(*journal.state(), State::Full);
    assert_eq!(journal.counters(topic).unwrap().not_kept.full, 1);
    sync(&mut journal);
    assert_eq!(numbers(&mut journal, topic), (0..kept).collect::<Vec<u64>>());
    let grown = Command::new("mount").args(["-o", "remount,size=6m"]).arg(&disk.0).status();
    assert!(grown.unwrap().success());
    let later = NOW + Span::secs(1);
    let (created, expires) = (NOW, Time::NEVER);
    let item = NewItem {
        topic,
        identity: b"me",
        sequence: kept,
        created,
        expires,
        flags: 0,
        payload: &payload(kept),
    };
    journal.append(later, &item).unwrap();
    assert_eq!(*journal.state(), State::Healthy);
    drop(journal);
    let mut journal = open(&folder);
    assert_eq!(numbers(&mut journal, topic), (0..=kept).collect::<Vec<u64>>());
    drop(journal);
}
