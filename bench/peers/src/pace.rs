//! Time: waiting for it, keeping processors awake, and going first.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use verge_bench_mqtt::poller::now_ns;

/// Sleeps; returns at once if the time has passed.
pub fn sleep_until(until_ns: u64) {
    let left = until_ns.saturating_sub(now_ns());
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// Threads that run when nothing else does, one on each processor, until this is dropped. A processor that sleeps takes tens of
/// microseconds to wake, on a virtual machine more.
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// None if it is not wanted.
    pub fn start(wanted: bool) -> Awake {
        let over = Arc::new(AtomicBool::new(false));
        let all = if wanted { sched_getaffinity(None).unwrap_or_default() } else { CpuSet::new() };
        let mine = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
        let spin = |cpu: usize| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu);
                let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
                let lowest = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
                if let (Err(error), _) | (_, Err(error)) = (
                    sched_setaffinity(None, &only).map_err(|error| error.to_string()),
                    lowest.map_err(|error| error.to_string()),
                ) {
                    return crate::observe::trouble(format!("a processor is not kept awake: {error}"));
                }
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = mine.map(spin).collect();
        Awake { over, threads }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It only ends.
            let _ = thread.join();
        }
    }
}

/// Gives this thread and those that it starts a priority under SCHED_FIFO; 0 changes nothing.
pub fn go_first(priority: u8) {
    if priority == 0 {
        return;
    }
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let done = ThreadPriorityValue::try_from(priority).and_then(|value| {
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(value), policy)
            .map_err(|error| error.to_string())
    });
    if let Err(error) = done {
        crate::observe::trouble(format!("no priority for urgent messages: {error}"));
    }
}
