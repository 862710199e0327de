//! What is synced survives, what is not may not, and a disk that refuses has changed nothing.

use super::{Disk, DiskError, SECTOR_BYTES, Settings};
use crate::Latency;
use contract::Span;
use std::collections::BTreeSet;

const CRASHES: u64 = 500;

fn disk(bytes_max: u64) -> Disk {
    Disk::new(Settings { bytes_max, sync: Latency::fixed(Span::millis(3)) }, 1)
}

/// A disk with one file, of which everything is synced.
fn with_file(name: &str, content: &[u8]) -> Disk {
    let mut disk = disk(10_000);
    disk.create(name).unwrap();
    disk.append(name, content).unwrap();
    disk.sync(name).unwrap();
    disk.sync_names().unwrap();
    disk
}

fn content(disk: &Disk, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; disk.len(name).unwrap() as usize];
    assert_eq!(disk.read(name, 0, &mut bytes), Ok(bytes.len()));
    bytes
}

/// What the disk may be after a failure of the power.
fn crashed(disk: &Disk) -> impl Iterator<Item = Disk> {
    (0..CRASHES).map(|seed| {
        let mut disk = disk.clone();
        disk.crash(&mut fastrand::Rng::with_seed(seed));
        disk
    })
}

#[test]
fn what_is_synced_survives_every_failure_of_the_power() {
    let mut disk = with_file("a", b"kept");
    disk.append("a", b" and lost").unwrap();
    for disk in crashed(&disk) {
        assert!(content(&disk, "a").starts_with(b"kept"));
    }
    disk.sync("a").unwrap();
    disk.write_at("a", 5, b"AND").unwrap();
    disk.sync("a").unwrap();
    assert!(crashed(&disk).all(|disk| content(&disk, "a") == b"kept AND lost"));
}

#[test]
fn of_what_is_not_synced_any_part_is_left_up_to_any_byte_and_nothing_after_it() {
    let mut disk = with_file("a", b"0");
    for word in [b"12", b"34", b"56"] {
        disk.append("a", word).unwrap();
    }
    let left: BTreeSet<Vec<u8>> = crashed(&disk).map(|disk| content(&disk, "a")).collect();
    let prefixes = (1..=7).map(|len| b"0123456"[..len].to_vec()).collect();
    assert_eq!(left, prefixes);
}

#[test]
fn what_was_overwritten_or_cut_off_may_come_back_until_that_is_synced() {
    let mut disk = with_file("a", b"old");
    disk.truncate("a", 0).unwrap();
    disk.append("a", b"NEW").unwrap();
    let left: BTreeSet<Vec<u8>> = crashed(&disk).map(|disk| content(&disk, "a")).collect();
    assert_eq!(left, [&b""[..], b"N", b"NE", b"NEW", b"old"].map(<[u8]>::to_vec).into());
    disk.sync("a").unwrap();
    assert!(crashed(&disk).all(|disk| content(&disk, "a") == b"NEW"));
}

#[test]
fn files_and_names_do_not_wait_for_each_other() {
    let mut disk = with_file("a", b"");
    disk.create("b").unwrap();
    disk.append("a", b"1").unwrap();
    disk.append("b", b"2").unwrap();
    disk.sync("b").unwrap();
    let state = |disk: Disk| (content(&disk, "a"), disk.contains("b").then(|| content(&disk, "b")));
    let left: BTreeSet<_> = crashed(&disk).map(state).collect();
    let (no, one, two) = (Vec::new(), b"1".to_vec(), Some(b"2".to_vec()));
    assert_eq!(left, [(no.clone(), None), (no, two.clone()), (one.clone(), None), (one, two)].into());
}

#[test]
fn names_change_in_order_and_wholly() {
    let mut disk = with_file("old", b"old");
    disk.create("new").unwrap();
    disk.append("new", b"new").unwrap();
    disk.sync("new").unwrap();
    disk.rename("new", "old").unwrap();
    assert_eq!(content(&disk, "old"), b"new");
    let words = |disk: &Disk| disk.list().map(|name| content(disk, name)).collect::<Vec<_>>();
    let left: BTreeSet<_> = crashed(&disk).map(|disk| words(&disk)).collect();
    let (old, new) = (b"old".to_vec(), b"new".to_vec());
    assert_eq!(left, [vec![old.clone()], vec![new.clone(), old], vec![new.clone()]].into());
    disk.sync_names().unwrap();
    assert!(crashed(&disk).all(|disk| words(&disk) == [new.clone()]));
}

#[test]
fn what_is_removed_may_come_back_until_that_is_synced() {
    let mut disk = with_file("a", b"1");
    disk.remove("a").unwrap();
    assert_eq!((disk.list().count(), disk.free_bytes()), (0, 10_000));
    let back: BTreeSet<bool> = crashed(&disk).map(|disk| disk.contains("a")).collect();
    assert_eq!(back, [false, true].into());
    assert!(crashed(&disk).filter(|disk| disk.contains("a")).all(|disk| content(&disk, "a") == b"1"));
    disk.sync_names().unwrap();
    assert!(crashed(&disk).all(|disk| !disk.contains("a")));
    assert!(disk.files.is_empty());
}

#[test]
fn a_full_disk_refuses_and_changes_nothing() {
    let mut disk = disk(5);
    disk.create("a").unwrap();
    disk.append("a", b"123").unwrap();
    assert_eq!(disk.append("a", b"456"), Err(DiskError::Full { wanted: 3, free: 2 }));
    assert_eq!(disk.write_at("a", 9, b""), Err(DiskError::Full { wanted: 6, free: 2 }));
    assert_eq!(disk.write_at("a", u64::MAX, b"1"), Err(DiskError::Full { wanted: u64::MAX - 3, free: 2 }));
    assert_eq!(disk.truncate("a", 6), Err(DiskError::Full { wanted: 3, free: 2 }));
    assert_eq!((content(&disk, "a"), disk.free_bytes()), (b"123".to_vec(), 2));
    // What is there already needs no room.
    disk.write_at("a", 1, b"x4y5").unwrap();
    assert_eq!((content(&disk, "a"), disk.free_bytes()), (b"1x4y5".to_vec(), 0));
    disk.truncate("a", 1).unwrap();
    assert_eq!(disk.append("a", b"2345"), Ok(1));
}

#[test]
fn names_are_of_one_file_each() {
    let mut disk = with_file("a", b"");
    assert_eq!(disk.create("a"), Err(DiskError::Exists));
    assert_eq!(disk.append("b", b"1"), Err(DiskError::NotFound));
    assert_eq!(disk.rename("b", "a"), Err(DiskError::NotFound));
    assert_eq!(disk.remove("b"), Err(DiskError::NotFound));
    assert_eq!(disk.sync("b"), Err(DiskError::NotFound));
    disk.rename("a", "a").unwrap();
    assert_eq!(disk.list().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_sync_is_of_what_was_written_before_it_began_and_void_if_the_power_fails_meanwhile() {
    let mut disk = with_file("a", b"");
    disk.append("a", b"1").unwrap();
    let syncing = disk.begin_sync("a").unwrap();
    assert_eq!(syncing.takes, Span::millis(3));
    assert!(crashed(&disk).any(|disk| content(&disk, "a").is_empty()));
    disk.append("a", b"2").unwrap();
    for mut disk in crashed(&disk) {
        assert!(!disk.end_sync(syncing));
    }
    assert!(disk.end_sync(syncing));
    let left: BTreeSet<Vec<u8>> = crashed(&disk).map(|disk| content(&disk, "a")).collect();
    assert_eq!(left, [b"1".to_vec(), b"12".to_vec()].into());
}

#[test]
fn a_disk_that_does_not_sync_leaves_everything_as_it_is() {
    let mut disk = with_file("a", b"");
    disk.append("a", b"1").unwrap();
    disk.refuse_syncs(true);
    assert_eq!(
        (disk.sync("a"), disk.sync_names()),
        (Err(DiskError::SyncRefused), Err(DiskError::SyncRefused))
    );
    assert!(crashed(&disk).any(|disk| content(&disk, "a").is_empty()));
    disk.refuse_syncs(false);
    assert_eq!(disk.sync("a"), Ok(Span::millis(3)));
    assert!(crashed(&disk).all(|disk| content(&disk, "a") == b"1"));
}

#[test]
fn damage_is_in_one_sector_and_stays() {
    let original = vec![7; 2 * SECTOR_BYTES + 10];
    let mut disk = with_file("a", &original);
    let mut random = fastrand::Rng::with_seed(1);
    assert_eq!(disk.damage("a", 1, &mut random), Ok(SECTOR_BYTES));
    assert_eq!(disk.damage("a", 3, &mut random), Ok(0));
    for disk in crashed(&disk) {
        let bytes = content(&disk, "a");
        let wrong: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != original[*at]).collect();
        assert_eq!(wrong, (SECTOR_BYTES..2 * SECTOR_BYTES).collect::<Vec<_>>());
    }
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let mut disk = with_file("a", b"");
    (0..20_u8).for_each(|byte| _ = disk.append("a", &[byte; 9]).unwrap());
    let all = |disk: &Disk| crashed(disk).map(|disk| content(&disk, "a")).collect::<Vec<_>>();
    assert_eq!(all(&disk), all(&disk));
}
