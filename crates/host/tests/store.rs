//! The store against a map, through reopening and SIGKILL, on full and damaged disks.
#![allow(clippy::unwrap_used, reason = "a test")]

mod disks;

use disks::{Scratch, SmallDisk, child, folder_of_child, killed};
use host::{
    Before, CHANGE_BYTES, Found, Record, State, Store, StoreDoes, StoreError, StoreSettings, StoreWatch,
};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

type Model = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Nothing here takes so long.
const WATCHDOG: Duration = Duration::from_secs(60);

fn file_of(scratch: &Scratch) -> PathBuf {
    scratch.deep().join("records.redb")
}

fn open(folder: &Path) -> (Store, Vec<Record>, Receiver<String>) {
    let (tell, told) = channel();
    let tell = move |reason: &str| tell.send(reason.to_owned()).unwrap();
    let (store, records) =
        Store::open(folder, &StoreSettings::default(), tell).unwrap_or_else(|error| panic!("{error}"));
    (store, records, told)
}

fn refused(folder: &Path) -> StoreError {
    match Store::open(folder, &StoreSettings::default(), |_| {}) {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + WATCHDOG;
    while !holds() {
        assert!(Instant::now() < until, "{what} never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_until_written(store: &Store, watch: &StoreWatch) {
    wait_for("the last commit", || watch.written() == store.given());
}

fn text(text: &str) -> Box<[u8]> {
    text.as_bytes().into()
}

/// The change of a number, always the same: mostly new values, of all lengths, some removals.
fn change(number: u64) -> (Box<[u8]>, Option<Box<[u8]>>) {
    let mixed =
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_mul(0xD134_2543_DE82_EF95);
    let key = text(&format!("session/{:04}", mixed % 1_500));
    let length = (mixed >> 32) as usize % if number.is_multiple_of(512) { 100_000 } else { 300 };
    let value = || number.to_le_bytes().into_iter().cycle().take(8 + length).collect();
    (key, (mixed >> 20 & 3 != 0).then(value))
}

/// Every change is announced by the one before it, so that what is there says how far it came.
const PROGRESS: &str = "progress";

fn apply(store: &mut Store, number: u64) {
    store.put(text(PROGRESS), number.to_le_bytes().into());
    match change(number) {
        (key, Some(value)) => store.put(key, value),
        (key, None) => store.remove(key),
    }
}

fn apply_to_model(model: &mut Model, number: u64) {
    match change(number) {
        (key, Some(value)) => model.insert(key, value),
        (key, None) => model.remove(&key),
    };
}

/// Whether the records are those after some change, and after which.
fn came_to(records: Vec<Record>) -> u64 {
    let mut found: Model = records.into_iter().collect();
    let Some(progress) = found.remove(PROGRESS.as_bytes()) else {
        assert!(found.is_empty(), "records without progress");
        return 0;
    };
    let last = u64::from_le_bytes(progress[..].try_into().unwrap());
    let mut model = Model::new();
    (1..last).for_each(|number| apply_to_model(&mut model, number));
    let without = found == model;
    apply_to_model(&mut model, last);
    if found == model {
        return last;
    }
    // It was announced, and has not come itself: whoever goes on has to make it again.
    assert!(without, "the records are not those of any moment near change {last}");
    last - 1
}

#[test]
fn what_was_stored_is_there_when_it_is_opened_again() {
    let scratch = Scratch::new("churn");
    let mut last = 0;
    for round in 0..4 {
        let (mut store, records, _told) = open(&scratch.deep());
        assert_eq!(came_to(records), last);
        assert_eq!(*store.before(), if round == 0 { Before::New } else { Before::Clean });
        for number in last + 1..=last + 5_000 {
            apply(&mut store, number);
        }
        last += 5_000;
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
    let (store, records, _told) = open(&scratch.deep());
    let (count, size) = (records.len() as u64, records.iter().map(|(key, value)| key.len() + value.len()));
    let State::Healthy { records: known, bytes, waiting_bytes, .. } = store.state() else { panic!() };
    assert_eq!((known, bytes, waiting_bytes), (count, size.sum::<usize>() as u64, 0));
    drop(store);
    assert_eq!(came_to(records), last);
    assert_eq!(std::fs::metadata(scratch.deep()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(file_of(&scratch)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn counts_are_those_of_the_records_while_it_runs() {
    let scratch = Scratch::new("counts");
    let (mut store, _, _told) = open(&scratch.deep());
    let watch = store.watch();
    let mut model = Model::new();
    for number in 1..3_000 {
        apply(&mut store, number);
        apply_to_model(&mut model, number);
        if number.is_multiple_of(500) {
            wait_until_written(&store, &watch);
            let expected = model.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
            let State::Healthy { records, bytes, behind, waiting_bytes } = watch.state() else { panic!() };
            assert_eq!(records, model.len() as u64 + 1);
            assert_eq!(bytes, (expected + PROGRESS.len() + 8) as u64);
            wait_for("rest", || watch.state() == State::Healthy { records, bytes, behind, waiting_bytes: 0 });
            assert_eq!((behind.0, waiting_bytes), (0, 0), "everything is written");
        }
    }
}

#[test]
fn many_changes_of_few_records_take_no_room() {
    let scratch = Scratch::new("merge");
    // Without merging, 100 000 changes would not fit.
    let settings = StoreSettings { queue_bytes_max: 1 << 20, ..StoreSettings::default() };
    let (mut store, _) = Store::open(&scratch.deep(), &settings, |reason| panic!("{reason}")).unwrap();
    let watch = store.watch();
    for number in 0..100_000_u64 {
        store.put(text(&format!("retained/{}", number % 10)), number.to_le_bytes().into());
        if number.is_multiple_of(2_000) {
            wait_for("merging", || match watch.state() {
                State::Healthy { waiting_bytes, .. } => waiting_bytes < 500_000,
                State::Poisoned { reason } | State::Refilling { reason } => panic!("{reason}"),
            });
        }
    }
    store.close().unwrap();
    let (_store, records, _told) = open(&scratch.deep());
    let newest: Vec<u64> =
        records.iter().map(|(_, value)| u64::from_le_bytes(value[..].try_into().unwrap())).collect();
    assert_eq!(newest, (99_990..100_000).collect::<Vec<u64>>());
}

#[test]
fn the_file_does_not_grow_with_the_number_of_changes() {
    let scratch = Scratch::new("growth");
    let (mut store, _, _told) = open(&scratch.deep());
    let watch = store.watch();
    let mut most = 0;
    // A queue: what is put is removed a little later, under a key that never comes again.
    for number in 0..60_000_u64 {
        store.put(text(&format!("queue/{number:08}")), vec![7; 200].into());
        if let Some(old) = number.checked_sub(1_000) {
            store.remove(text(&format!("queue/{old:08}")));
        }
        if number.is_multiple_of(250) {
            wait_until_written(&store, &watch);
        }
        if number == 10_000 {
            most = std::fs::metadata(file_of(&scratch)).unwrap().len();
        }
    }
    let State::Healthy { records, .. } = watch.state() else { panic!() };
    let size = std::fs::metadata(file_of(&scratch)).unwrap().len();
    assert!(size <= 2 * most, "{size} bytes after {most} for about {records} records");
}

#[test]
fn a_file_that_is_mostly_empty_is_made_smaller() {
    let scratch = Scratch::new("compact");
    let (mut store, _, _told) = open(&scratch.deep());
    for number in 0..40_000 {
        store.put(text(&format!("{number}")), vec![7; 1_000].into());
    }
    store.close().unwrap();
    let before = std::fs::metadata(file_of(&scratch)).unwrap().len();
    let (mut store, records, _told) = open(&scratch.deep());
    assert_eq!(records.len(), 40_000);
    for (key, _) in records.into_iter().skip(10) {
        store.remove(key);
    }
    // Some of it may be given back here already, at the latest all is at the next start.
    store.close().unwrap();
    let (store, records, _told) = open(&scratch.deep());
    assert_eq!(records.len(), 10);
    drop(store);
    let after = std::fs::metadata(file_of(&scratch)).unwrap().len();
    assert!(after * 4 < before, "{after} bytes after {before}");
    assert_eq!(open(&scratch.deep()).1.len(), 10);
}

#[test]
#[ignore = "runs as a process of another test"]
fn child_that_churns() {
    let (mut store, records, _told) = open(&folder_of_child());
    let (watch, first) = (store.watch(), came_to(records) + 1);
    let mut said = 0;
    println!();
    for number in first.. {
        apply(&mut store, number);
        let written = watch.written() / 2;
        if written > said {
            // Two changes each.
            println!("written {}", first - 1 + written);
            said = written;
        }
        if number.is_multiple_of(64) {
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(number < first + 2_000_000, "nobody kills it");
    }
}

#[test]
fn sigkill_at_any_moment_loses_nothing_that_was_written_and_leaves_nothing_half() {
    let scratch = Scratch::new("kill");
    let mut before = 0;
    for round in 0..20 {
        // Somewhere in the next commit.
        let moment = Duration::from_micros(round * 397);
        let written = killed("child_that_churns", &scratch.deep(), "written ", 5 + round * 3, moment);
        let (store, records, _told) = open(&scratch.deep());
        assert_eq!(*store.before(), Before::Killed);
        drop(store);
        let found = came_to(records);
        assert!(found >= written, "{written} was written, and {found} is there");
        assert!(found > before, "it went on");
        before = found;
    }
}

#[test]
fn a_second_process_is_refused_and_told_who_has_it() {
    let scratch = Scratch::new("lock");
    let (mut child, mut lines) = child("child_that_churns", &scratch.deep());
    let mut line = String::new();
    while !line.starts_with("written") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0);
    }
    let error = refused(&scratch.deep());
    child.kill().unwrap();
    child.wait().unwrap();
    let StoreError::InUse { path, holder } = error else { panic!("{error}") };
    assert_eq!((path, holder), (scratch.deep(), format!("process {}", child.id())));
    let (_store, ..) = open(&scratch.deep());
    assert!(matches!(refused(&scratch.deep()), StoreError::InUse { .. }), "in one process as well");
}

#[test]
#[ignore = "runs as a process of another test"]
fn child_without_space() {
    let (mut store, _, told) = open(&folder_of_child());
    let watch = store.watch();
    let mut number = 50;
    (1..=number).for_each(|number| apply(&mut store, number));
    wait_until_written(&store, &watch);
    let most = Some(std::fs::metadata(folder_of_child().join("records.redb")).unwrap().len());
    let limit = rustix::process::Rlimit { current: most, maximum: most };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    while matches!(watch.state(), State::Healthy { .. }) {
        number += 1;
        apply(&mut store, number);
        if number.is_multiple_of(100) {
            wait_for("a commit", || {
                watch.written() == store.given() || matches!(watch.state(), State::Poisoned { .. })
            });
        }
        assert!(number < 1_000_000, "everything fits");
    }
    let reason = told.recv_timeout(WATCHDOG).unwrap();
    let written = watch.written() / 2;
    println!("\nwritten {written}\nreason {reason}");
    // It stays as it is, even if there were space now.
    let size = || std::fs::read(folder_of_child().join("records.redb")).unwrap();
    let then = size();
    (0..1_000).for_each(|_| apply(&mut store, 1));
    assert!(matches!(refused(&folder_of_child()), StoreError::InUse { .. }));
    assert_eq!(store.close().unwrap_err(), reason.clone().into());
    assert!(then == size(), "something was written after the failure");
    assert!(told.try_recv().is_err(), "it is told once");
}

/// What a child said under a word.
fn said(lines: &[String], word: &str) -> String {
    let line = lines.iter().find_map(|line| line.strip_prefix(word));
    line.unwrap_or_else(|| panic!("no {word} in {lines:?}")).trim().to_owned()
}

#[test]
fn a_full_disk_poisons_and_the_next_process_knows() {
    let scratch = Scratch::new("full");
    let (mut child, lines) = child("child_without_space", &scratch.deep());
    let lines: Vec<String> = lines.lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    let (reason, written) = (said(&lines, "reason "), said(&lines, "written ").parse::<u64>().unwrap());
    assert!(reason.contains("records.redb") && reason.contains("File too large"), "{reason}");
    let (store, records, _told) = open(&scratch.deep());
    assert_eq!(*store.before(), Before::Poisoned { reason });
    assert!(came_to(records) >= written, "what was written before is there");
    store.close().unwrap();
    assert_eq!(*open(&scratch.deep()).0.before(), Before::Clean);
}

#[test]
fn a_disk_that_is_full_already_is_named() {
    let scratch = Scratch::new("mount");
    let Some(disk) = SmallDisk::mount(scratch.0.join("disk"), "3m") else {
        eprintln!("SKIPPED: may not mount");
        return;
    };
    let folder = disk.0.join("store");
    let (mut store, _, told) = open(&folder);
    store.put(text("first"), text("value"));
    let watch = store.watch();
    wait_until_written(&store, &watch);
    (0..200_u64).for_each(|number| store.put(text(&format!("{number}")), vec![1; 100_000].into()));
    let reason = told.recv_timeout(WATCHDOG).unwrap();
    assert!(reason.contains("No space left"), "{reason}");
    assert_eq!(watch.state(), State::Poisoned { reason: reason.clone().into() });
    assert_eq!(store.close().unwrap_err(), reason.clone().into());
    assert!(std::fs::read_to_string(folder.join("state")).unwrap().contains(&reason));
    let error = refused(&disk.0.join("other"));
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error:?}");
    assert!(error.to_string().contains("store.folder"), "{error}");
}

#[test]
fn a_disk_that_is_too_slow_poisons() {
    let scratch = Scratch::new("slow");
    let (tell, told) = channel();
    let settings = StoreSettings { queue_bytes_max: 10_000, ..StoreSettings::default() };
    let (mut store, _) =
        Store::open(&scratch.deep(), &settings, move |reason| tell.send(reason.to_owned()).unwrap()).unwrap();
    store.put(text("fits"), vec![0; 10_000 - CHANGE_BYTES - 4].into());
    let watch = store.watch();
    wait_until_written(&store, &watch);
    store.put(text("does not"), vec![0; 10_000 - CHANGE_BYTES - 4].into());
    let reason = told.recv_timeout(WATCHDOG).unwrap();
    assert!(reason.contains("too slow") && reason.contains("store.queue"), "{reason}");
    assert!(store.close().is_err());
    assert!(told.try_recv().is_err());
}

#[test]
fn damage_is_named_or_harmless_and_never_a_panic() {
    let scratch = Scratch::new("damage");
    let (mut store, _, _told) = open(&scratch.deep());
    (1..=2_000).for_each(|number| apply(&mut store, number));
    store.reach(2_000);
    store.close().unwrap();
    let (whole, note) = (std::fs::read(file_of(&scratch)).unwrap(), scratch.deep().join("state"));
    let note_whole = std::fs::read(&note).unwrap();
    let mut named = 0;
    let damages: Vec<usize> = (0..400).chain((400..whole.len()).step_by(whole.len() / 120)).collect();
    for at in damages {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let (come_to, found) = open_damaged(&scratch, &damaged, &note_whole);
        match found {
            Found::Whole => assert_eq!(come_to, 2_000, "byte {at}"),
            Found::Old { stored, expected, .. } => {
                assert_eq!((stored.min(come_to), expected), (come_to, 2_000), "byte {at}");
                named += 1;
            }
        }
    }
    assert!(named > 50, "only {named} were found");
    for length in [1, 100, 4_096, whole.len() / 2, whole.len() - 1] {
        let (come_to, found) = open_damaged(&scratch, &whole[..length], &note_whole);
        let Found::Old { reason, stored: 0, expected: 2_000, aside: Some(aside) } = found else {
            panic!("{length} bytes: {found:?}")
        };
        assert!(come_to == 0 && reason.contains("records.redb is damaged"), "{length} bytes: {reason}");
        assert_eq!(std::fs::read(aside).unwrap(), &whole[..length], "what cannot be used is kept");
    }
    let asides = std::fs::read_dir(scratch.deep()).unwrap().count();
    assert!(asides <= 8 + 2, "{asides} files");
    let (come_to, found) = open_damaged(&scratch, b"my shopping list", &note_whole);
    assert!(come_to == 0 && found != Found::Whole);
    for rubbish in [&b"my shopping list"[..], &[0; 1_024]] {
        let (come_to, found) = open_damaged(&scratch, &whole, rubbish);
        let Found::Old { reason, stored: 2_000, .. } = found else { panic!("{found:?}") };
        assert!(come_to == 2_000 && reason.contains("state"), "{reason}");
    }
    std::fs::write(&note, "verge-store 2\n").unwrap();
    assert!(matches!(refused(&scratch.deep()), StoreError::Newer { found: 2, known: 1, .. }));
}

/// Opens what somebody has done to the files. Returns to which change it came, and what was found.
fn open_damaged(scratch: &Scratch, records: &[u8], note: &[u8]) -> (u64, Found) {
    std::fs::write(file_of(scratch), records).unwrap();
    std::fs::write(scratch.deep().join("state"), note).unwrap();
    let (store, records, _told) = open(&scratch.deep());
    let found = store.found().clone();
    drop(store);
    (came_to(records), found)
}

/// The files of a store whose process was killed, as they are while it runs.
fn files_of_one_that_was_killed(scratch: &Scratch) -> (Vec<u8>, Vec<u8>) {
    let (mut store, _, _told) = open(&scratch.deep());
    let watch = store.watch();
    for number in 1..=300 {
        apply(&mut store, number);
        store.reach(number);
        if number.is_multiple_of(10) {
            wait_until_written(&store, &watch);
        }
    }
    wait_for("the last number", || store.stored() == 300);
    // The note is written after that.
    let note = || std::fs::read(scratch.deep().join("state")).unwrap();
    wait_for("the note", || String::from_utf8_lossy(&note()).contains("stored 00000000000000000300"));
    (std::fs::read(file_of(scratch)).unwrap(), note())
}

#[test]
fn a_flipped_bit_never_brings_back_an_older_state_in_silence() {
    let scratch = Scratch::new("flip");
    let (whole, note) = files_of_one_that_was_killed(&scratch);
    let (come_to, found) = open_damaged(&scratch, &whole, &note);
    assert_eq!((come_to, found), (300, Found::Whole));
    let mut fell_back = 0;
    for at in 0..400 {
        for bit in [0, 1, 2, 7] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let (come_to, found) = open_damaged(&scratch, &damaged, &note);
            match found {
                Found::Whole => assert_eq!(come_to, 300, "byte {at}, bit {bit}"),
                Found::Old { reason, stored, expected, aside } => {
                    assert_eq!((stored, expected), (come_to, 300), "byte {at}, bit {bit}: {reason}");
                    assert!(come_to > 0 || aside.is_some(), "{reason}");
                    fell_back += u32::from(come_to > 0);
                }
            }
        }
    }
    assert!(fell_back > 0, "the header has a place where a bit means an older state");
}

#[test]
fn an_old_copy_and_records_that_are_gone_or_empty_are_named() {
    let scratch = Scratch::new("gone");
    let (whole, note) = files_of_one_that_was_killed(&scratch);
    let (mut store, ..) = open(&scratch.deep());
    store.put(text("later"), text("value"));
    store.reach(301);
    store.close().unwrap();
    let later = std::fs::read(scratch.deep().join("state")).unwrap();
    let (come_to, found) = open_damaged(&scratch, &whole, &later);
    let Found::Old { stored: 300, expected: 301, reason, .. } = found else { panic!("{found:?}") };
    assert!(come_to == 300 && reason.contains("has fallen back"), "{reason}");
    for state in [&note, &later] {
        let (come_to, found) = open_damaged(&scratch, b"", state);
        let Found::Old { stored: 0, reason, .. } = found else { panic!("{found:?}") };
        assert!(come_to == 0 && reason.contains("is empty"), "{reason}");
        std::fs::remove_file(file_of(&scratch)).unwrap();
        std::fs::write(scratch.deep().join("state"), state).unwrap();
        let (store, records, _told) = open(&scratch.deep());
        let Found::Old { stored: 0, reason, .. } = store.found() else { panic!("{:?}", store.found()) };
        assert!(records.is_empty() && reason.contains("is gone"), "{reason}");
    }
    let (_, found) = open_damaged(&scratch, b"", b"");
    assert!(found != Found::Whole, "both emptied");
}

#[test]
fn what_is_put_aside_is_kept_and_what_comes_goes_into_a_new_file() {
    let scratch = Scratch::new("aside");
    let (mut store, _, _told) = open(&scratch.deep());
    (1..=500).for_each(|number| apply(&mut store, number));
    store.reach(500);
    let aside = store.set_aside().unwrap();
    assert_eq!(store.set_aside(), None, "one at a time");
    store.put(text("new"), text("value"));
    store.reach(7);
    store.close().unwrap();
    let (store, records, _told) = open(&scratch.deep());
    assert_eq!((records.len(), store.stored(), store.found()), (1, 7, &Found::Whole));
    drop(store);
    // As the manual says.
    std::fs::rename(aside, file_of(&scratch)).unwrap();
    let (store, records, _told) = open(&scratch.deep());
    assert_eq!((came_to(records), store.stored()), (500, 500));
    assert!(matches!(store.found(), Found::Old { .. }), "an old copy is no secret");
}

#[test]
fn a_store_that_was_given_up_comes_back_when_there_is_room() {
    let scratch = Scratch::new("room");
    let Some(disk) = SmallDisk::mount(scratch.0.join("disk"), "12m") else {
        eprintln!("SKIPPED: may not mount");
        return;
    };
    let (folder, ballast) = (disk.0.join("store"), disk.0.join("ballast"));
    let (mut store, _, told) = open(&folder);
    let watch = store.watch();
    let mut model = Model::new();
    let mut give = |store: &mut Store, number: u64| {
        let (key, value) =
            (text(&format!("{:03}", number % 400)), vec![number as u8; 1_000].into_boxed_slice());
        model.insert(key.clone(), value.clone());
        store.put(key, value);
        store.reach(number);
        model.clone()
    };
    (1..=100).for_each(|number| _ = give(&mut store, number));
    wait_until_written(&store, &watch);
    // Somebody else fills the disk.
    let mut filled = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut filled, &[1; 4_096]).is_ok() {}
    let mut number = 100;
    while store.does() == StoreDoes::Write {
        number += 1;
        give(&mut store, number);
        std::thread::sleep(Duration::from_millis(1));
    }
    let reason = told.recv_timeout(WATCHDOG).unwrap();
    assert!(reason.contains("No space left"), "{reason}");
    let stored = store.stored();
    assert!((100..number).contains(&stored), "{stored} of {number}");
    number += 1;
    let all = give(&mut store, number);
    // There is room again.
    std::fs::remove_file(&ballast).unwrap();
    drop(filled);
    wait_for("a store that asks", || store.wants_everything());
    assert!(!store.wants_everything(), "once");
    for (key, value) in all {
        wait_for("room", || store.takes_more() == Some(true));
        store.put(key, value);
    }
    store.reach(number);
    store.given_all();
    assert_eq!(store.takes_more(), None);
    assert!(!store.wants_everything(), "it is being written");
    number += 1;
    let all = give(&mut store, number);
    wait_for("a store that writes", || store.does() == StoreDoes::Write);
    wait_for("the last change", || store.stored() == number);
    store.close().unwrap();
    let (store, records, _told) = open(&folder);
    assert_eq!((store.before(), store.found(), store.stored()), (&Before::Clean, &Found::Whole, number));
    assert!(records.into_iter().collect::<Model>() == all);
}

#[test]
fn a_folder_that_cannot_be_one_is_named() {
    let scratch = Scratch::new("file");
    std::fs::write(scratch.0.join("deep"), "a file").unwrap();
    let error = refused(&scratch.deep());
    assert!(matches!(error, StoreError::NotWritable { .. }), "{error:?}");
    assert!(
        error.to_string().contains("deep/folder") && error.to_string().contains("store.folder"),
        "{error}"
    );
    // Not even root may write here.
    let error = refused(Path::new("/proc/verge"));
    assert!(error.to_string().contains("/proc/verge"), "{error}");
}
