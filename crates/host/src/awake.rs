//! Keeping processors from halting.

mod polling;
mod starvation;

use self::polling::Polling;
use self::starvation::Starvation;
use crate::helpers::Helpers;
use crate::realtime::reason;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Keeps processors from halting until this is dropped.
///
/// A processor that has nothing to do halts. On a virtual machine the hypervisor then gives it to another guest, and whoever is to
/// run there next waits until it is given back: 18 ms at the 99th percentile where it is 0.4 ms with processors awake. What this takes
/// is power, and time from other guests.
///
/// The kernel's idle loop does it where it can and we may ask it to (`awake/polling.rs`). Else it is done by threads of `SCHED_IDLE`, one
/// on each processor, which spin whenever nobody else wants to run there; others of this machine hardly notice them. Where others
/// keep a processor, its thread stays away until there is idle time again.
pub struct Awake {
    _polling: Option<Polling>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps these processors awake; all that this process may use if none are named. An error says why one is not.
    pub fn start(processors: &[usize]) -> Result<Awake, String> {
        let by_threads = || {
            let helpers = Helpers::new().map_err(|error| error.to_string())?;
            Awake::by_threads(processors, &helpers)
        };
        Awake::by_kernel(processors).map_or_else(by_threads, Ok)
    }

    /// The kernel keeps them awake, which takes no processor time of ours. `None` where it cannot, where it would do the same to
    /// processors that are not meant, and where it may not be asked.
    pub fn by_kernel(processors: &[usize]) -> Option<Awake> {
        let polling = Polling::ask(&usable(processors).ok()?)?;
        Some(Awake { _polling: Some(polling), over: Arc::default(), threads: Vec::new() })
    }

    /// Threads keep them awake.
    pub fn by_threads(processors: &[usize], helpers: &Helpers) -> Result<Awake, String> {
        let (told, heard) = channel();
        let mut awake = Awake { _polling: None, over: Arc::default(), threads: Vec::new() };
        for cpu in usable(processors)? {
            let (over, told) = (Arc::clone(&awake.over), told.clone());
            let thread = helpers.hire(&format!("awake-{cpu}"), move || {
                keep(cpu, told, &over);
                Ok(())
            });
            awake.threads.push(thread.map_err(|error| error.to_string())?);
        }
        drop(told);
        heard.iter().collect::<Result<(), String>>()?;
        Ok(awake)
    }
}

/// Of the processors that this process may use, those that are named; all if none are.
fn usable(named: &[usize]) -> Result<Vec<usize>, String> {
    let all = sched_getaffinity(None).map_err(|error| error.to_string())?;
    let wanted = |cpu: &usize| all.is_set(*cpu) && (named.is_empty() || named.contains(cpu));
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(wanted).collect();
    if cpus.is_empty() { Err(format!("of processors {named:?}, none may be used")) } else { Ok(cpus) }
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

/// Spins on this processor, once it is where it does no harm.
fn keep(cpu: usize, told: Sender<Result<(), String>>, over: &AtomicBool) {
    let placed = withdraw_to(cpu).map_err(|error| format!("processor {cpu}: {error}"));
    let spins = placed.is_ok();
    let _ = told.send(placed);
    // Who started us waits until nobody can tell anything any more.
    drop(told);
    let mut starvation = Starvation::of_this_thread();
    while spins && !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
        if let Some(starvation) = &mut starvation
            && starvation.is_seen()
        {
            starvation.wait_for_idle_time(cpu, over);
        }
    }
}

/// The calling thread stays on this processor, and runs there when nobody else wants to.
fn withdraw_to(cpu: usize) -> Result<(), String> {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).map_err(|e| reason(&e))?;
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).map_err(|error| error.to_string())
}
