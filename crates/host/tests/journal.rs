//! The journal on real files: reopened, killed, without room, in use.
#![allow(clippy::unwrap_used, reason = "a test")]

mod disks;

use contract::{Span, Time};
use disks::{Scratch, SmallDisk, child, folder_of_child, killed};
use host::{JournalFiles, JournalFilesError};
use journal::{
    Budget, Cursor, Durability, FileName, Files, Journal, NewItem, NotKept, Position, Settings, State,
    TopicId, TopicSettings,
};
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const NOW: Time = Time(1_000_000_000_000);
const ALL: Budget = Budget { items: usize::MAX, bytes: usize::MAX };

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
        let mut journal = open(&scratch.deep());
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
    let folder = std::fs::metadata(scratch.deep()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(scratch.deep()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn files_have_their_blocks_before_they_are_written_to() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("blocks");
    let mut files = JournalFiles::open(&scratch.deep()).unwrap();
    let name = FileName::Segment { id: 7, generation: 0 };
    files.create(name, 1 << 20).unwrap();
    assert!(files.create(name, 1 << 20).is_err(), "it is there");
    let found = std::fs::metadata(scratch.deep().join(name.to_string())).unwrap();
    assert_eq!(found.len(), 1 << 20);
    assert!(!files.is_mapped() || found.blocks() * 512 >= 1 << 20, "{} blocks", found.blocks());
    assert!(files.write(name, (1 << 20) - 3, b"four").is_err(), "it is behind its end");
    std::fs::write(scratch.deep().join("something-else"), b"").unwrap();
    assert_eq!(files.list().unwrap(), [(name, 1 << 20)]);
}

#[test]
fn two_processes_do_not_have_one_journal() {
    let scratch = Scratch::new("lock");
    let (mut child, mut lines) = child("child_that_appends", &scratch.deep());
    let mut line = String::new();
    while !line.starts_with("appended") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0);
    }
    let refused = JournalFiles::open(&scratch.deep()).err().unwrap();
    assert!(matches!(&refused, JournalFilesError::InUse(folder) if *folder == scratch.deep()), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    // In one process as well.
    let _journal = open(&scratch.deep());
    let refused = JournalFiles::open(&scratch.deep()).err().unwrap();
    assert!(matches!(&refused, JournalFilesError::InUse(folder) if *folder == scratch.deep()), "{refused}");
}

#[test]
#[ignore = "runs as a process of another test"]
fn child_that_appends() {
    let mut journal = open(&folder_of_child());
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
        // Somewhere in the next items.
        let moment = Duration::from_micros(round * 397);
        let appended = killed("child_that_appends", &scratch.deep(), "appended ", 5 + round * 3, moment);
        let mut journal = open(&scratch.deep());
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
    disk.resize("6m");
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
