//! Processors that are kept from halting, in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test")]

use host::Awake;
use std::time::{Duration, Instant};

/// Of a thread that keeps a processor awake.
#[derive(Debug)]
struct Spinner {
    cpu: usize,
    policy: u32,
    /// Processor time so far, in the kernel's ticks.
    used: u64,
}

/// `SCHED_IDLE`, as the kernel counts.
const IDLE: u32 = 5;

fn spinners() -> Vec<Spinner> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let mut found: Vec<Spinner> = texts.filter_map(|text| spinner(&text)).collect();
    found.sort_by_key(|spinner| spinner.cpu);
    found
}

/// See proc(5): fields are counted from 1, and the name is the second.
fn spinner(stat: &str) -> Option<Spinner> {
    let (head, rest) = stat.split_once(") ")?;
    let cpu = head.split_once("(awake-")?.1.parse().ok()?;
    let fields: Vec<u64> = rest.split(' ').map(|word| word.trim().parse().unwrap_or(0)).collect();
    let field = |number: usize| fields[number - 3];
    Some(Spinner { cpu, policy: field(41) as u32, used: field(14) + field(15) })
}

fn usable() -> Vec<usize> {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect()
}

#[test]
fn a_thread_of_the_lowest_priority_spins_on_each_processor_until_the_end() {
    let usable = usable();
    let named = |spinners: &[Spinner]| spinners.iter().map(|spinner| spinner.cpu).collect::<Vec<_>>();

    let awake = Awake::start(&[]).unwrap();
    let found = spinners();
    assert_eq!(named(&found), usable);
    assert!(found.iter().all(|spinner| spinner.policy == IDLE), "{found:?}");
    let until = Instant::now() + Duration::from_secs(20);
    while !spinners().iter().all(|spinner| spinner.used > 0) {
        assert!(Instant::now() < until, "one never ran: {:?}", spinners());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(awake);
    assert!(spinners().is_empty(), "{:?}", spinners());

    let one = usable.last().copied().unwrap();
    let awake = Awake::start(&[one, 100_000]).unwrap();
    assert_eq!(named(&spinners()), [one]);
    drop(awake);
    let refused = Awake::start(&[100_000]).err();
    assert_eq!(refused.as_deref(), Some("of processors [100000], none may be used"));
}
