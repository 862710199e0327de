//! Processors that are kept from halting, in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test")]

use host::{Awake, Helpers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Held by the test that looks at the threads of this process.
static ALONE: Mutex<()> = Mutex::new(());
const PATIENCE: Duration = Duration::from_secs(60);

/// Of a thread that keeps a processor awake.
#[derive(Debug)]
struct Spinner {
    cpu: usize,
    policy: u32,
    /// Processor time so far, in the kernel's ticks.
    used: u64,
    /// How often it has slept.
    slept: u64,
}

/// `SCHED_IDLE`, as the kernel counts.
const IDLE: u32 = 5;

fn spinners() -> Vec<Spinner> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let read = |path| std::fs::read_to_string(path).ok();
    let texts = tasks.filter_map(|task| read(task.path().join("stat")).zip(read(task.path().join("status"))));
    let mut found: Vec<Spinner> = texts.filter_map(|(stat, status)| spinner(&stat, &status)).collect();
    found.sort_by_key(|spinner| spinner.cpu);
    found
}

/// See proc(5): fields are counted from 1, and the name is the second.
fn spinner(stat: &str, status: &str) -> Option<Spinner> {
    let (head, rest) = stat.split_once(") ")?;
    let cpu = head.split_once("(awake-")?.1.parse().ok()?;
    let fields: Vec<u64> = rest.split(' ').map(|word| word.trim().parse().unwrap_or(0)).collect();
    let field = |number: usize| fields[number - 3];
    let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    let slept = slept.trim().parse().ok()?;
    Some(Spinner { cpu, policy: field(41) as u32, used: field(14) + field(15), slept })
}

fn usable() -> Vec<usize> {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect()
}

/// Waits until this is true of all threads that keep processors awake.
fn wait_until(what: &str, wanted: impl Fn(&Spinner) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !spinners().iter().all(&wanted) {
        assert!(Instant::now() < until, "{what}: {:?}", spinners());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_thread_of_the_lowest_priority_spins_on_each_processor_until_the_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let usable = usable();
    let named = |spinners: &[Spinner]| spinners.iter().map(|spinner| spinner.cpu).collect::<Vec<_>>();

    let awake = Awake::by_threads(&[], &Helpers::new().unwrap()).unwrap();
    let found = spinners();
    assert_eq!(named(&found), usable);
    assert!(found.iter().all(|spinner| spinner.policy == IDLE), "{found:?}");
    wait_until("one never ran", |spinner| spinner.used > 0);
    drop(awake);
    assert!(spinners().is_empty(), "{:?}", spinners());

    let one = usable.last().copied().unwrap();
    let awake = Awake::by_threads(&[one, 100_000], &Helpers::new().unwrap()).unwrap();
    assert_eq!(named(&spinners()), [one]);
    drop(awake);
    let refused = Awake::start(&[100_000]).err();
    assert_eq!(refused.as_deref(), Some("of processors [100000], none may be used"));
}

/// What waking up may take by all requests together, in microseconds; `None` where nobody may know.
fn latency_asked() -> Option<i32> {
    let bytes = std::fs::read("/dev/cpu_dma_latency").ok()?;
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

/// How often an idle processor has looked for work without halting.
fn polled(cpu: usize) -> u64 {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state0/usage");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn the_kernel_looks_for_work_without_halting_where_it_can() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = latency_asked();
    let Some(awake) = Awake::by_kernel(&[]) else {
        println!(
            "SKIPPED: the kernel's idle loop only halts here, or may not be asked for more; threads do it"
        );
        let awake = Awake::start(&[]).unwrap();
        assert_eq!(spinners().len(), usable().len());
        drop(awake);
        return;
    };
    assert_eq!(latency_asked(), Some(0));
    assert!(spinners().is_empty(), "{:?}", spinners());
    let cpus = usable();
    let looked: Vec<u64> = cpus.iter().map(|cpu| polled(*cpu)).collect();
    let until = Instant::now() + PATIENCE;
    while !cpus.iter().zip(&looked).any(|(cpu, looked)| polled(*cpu) > *looked) {
        assert!(Instant::now() < until, "no processor looks for work");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(awake);
    assert_eq!(latency_asked(), before, "nothing is asked any more");
}

/// Otherwise the kernel's fair server would run it before real-time threads, for 50 ms of each second.
#[test]
fn where_others_keep_a_processor_its_thread_stays_away_until_it_idles() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = usable().last().copied().unwrap();
    let awake = Awake::by_threads(&[cpu], &Helpers::new().unwrap()).unwrap();
    wait_until("it never ran", |spinner| spinner.used > 0);
    let slept = spinners()[0].slept;

    let kept = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut only = rustix::thread::CpuSet::new();
            only.set(cpu);
            rustix::thread::sched_setaffinity(None, &only).unwrap();
            // A test that fails ends it as well.
            let until = Instant::now() + 2 * PATIENCE;
            while kept.load(Ordering::Relaxed) && Instant::now() < until {
                std::hint::spin_loop();
            }
        });
        // It looks for idle time again and again.
        wait_until("it waits", |spinner| spinner.slept >= slept + 3);
        kept.store(false, Ordering::Relaxed);
    });
    let used = spinners()[0].used;
    wait_until("it does not come back", |spinner| spinner.used > used + 10);
    drop(awake);
}
