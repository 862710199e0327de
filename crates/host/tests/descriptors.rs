//! The kernel's table of descriptors, in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test")]

use host::prepare_descriptors;

/// How many descriptors the table of this process has room for.
fn room() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    size.unwrap().trim().parse().unwrap()
}

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn there_is_room_for_as_many_as_are_wanted_or_allowed() {
    const WANTED: u64 = 3_000;
    let (room_before, open_before) = (room(), open());
    assert!(room_before < WANTED, "{room_before}");
    let wanted = WANTED.min(prepare_descriptors(1).unwrap_or(WANTED));
    assert_eq!(room(), room_before);
    let allowed = prepare_descriptors(wanted);
    assert!(allowed.is_none_or(|allowed| allowed >= wanted));
    assert!(room() >= wanted, "{} of {wanted}", room());
    assert_eq!(open(), open_before);
    // More than any host allows is as much as this one allows, which may be more than a test should take.
    if let Some(allowed) = allowed.filter(|allowed| *allowed <= 1 << 20) {
        assert_eq!(prepare_descriptors(u64::MAX), Some(allowed));
        assert!(room() >= allowed, "{} of {allowed}", room());
    }
}
