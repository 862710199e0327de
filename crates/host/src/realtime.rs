//! Real-time scheduling for the calling thread, where the host allows it, and a plain sentence where it does not.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// What the data thread asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// The priority under `SCHED_FIFO`, 1 to 99; `None` for ordinary scheduling.
    pub priority: Option<u8>,
    /// The processors to stay on; empty for any.
    pub processors: Vec<usize>,
    /// Whether to keep all memory resident.
    pub lock_memory: bool,
}

/// Asks for everything wished for. Returns a sentence for each wish that was not granted; the broker runs all the same.
pub fn ask(wishes: &Wishes) -> Vec<String> {
    let mut refusals = Vec::new();
    if wishes.lock_memory
        && let Err(reason) = lock_memory()
    {
        refusals.push(format!(
            "memory is not locked ({reason}): under memory pressure, page faults may delay messages. Allow it with \
             LimitMEMLOCK=infinity"
        ));
    }
    refusals.extend(schedule(wishes.priority, &wishes.processors, "the data thread"));
    refusals
}

/// A priority and processors for the calling thread, which is called so in the sentences about what was not granted.
pub fn schedule(priority: Option<u8>, processors: &[usize], who: &str) -> Vec<String> {
    let mut refusals = try_processors(processors, who);
    refusals.extend(try_priority(priority, who));
    refusals
}

/// Keeps the calling thread on these processors; on any if there are none.
pub(crate) fn try_processors(processors: &[usize], who: &str) -> Vec<String> {
    if processors.is_empty() {
        return Vec::new();
    }
    let mut set = CpuSet::new();
    processors.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    let refused = sched_setaffinity(None, &set).err();
    let sentence = |error| {
        format!("{who}: not pinned to processors {processors:?} ({error}): check realtime.processors")
    };
    refused.map(sentence).into_iter().collect()
}

/// Gives the calling thread a priority under `SCHED_FIFO`; ordinary scheduling if there is none.
pub(crate) fn try_priority(priority: Option<u8>, who: &str) -> Vec<String> {
    let Some(priority) = priority else { return Vec::new() };
    let sentence = |reason| {
        format!(
            "{who}: no real-time priority ({reason}): other programs may delay messages by milliseconds. Allow it with \
             LimitRTPRIO={priority}, or run `verge doctor`"
        )
    };
    set_fifo(priority).err().map(sentence).into_iter().collect()
}

/// Keeps all memory resident. Not under a limit: once it were reached, the next allocation would fail and end the broker.
fn lock_memory() -> Result<(), String> {
    if let Some(limit) = getrlimit(Resource::Memlock).current.filter(|_| !geteuid().is_root()) {
        return Err(format!("the limit of locked memory is {limit} bytes"));
    }
    // Pages are locked when they are touched; locking all of them at once would make every stack resident.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|error| error.to_string())
}

fn set_fifo(priority: u8) -> Result<(), String> {
    let value = ThreadPriorityValue::try_from(priority).map_err(|error| error.to_string())?;
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let set =
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(value), policy);
    set.map_err(|error| reason(&error))
}

/// Why a policy was not set, in the system's words.
pub(crate) fn reason(error: &thread_priority::Error) -> String {
    match error {
        thread_priority::Error::OS(code) => std::io::Error::from_raw_os_error(*code).to_string(),
        other => format!("{other:?}"),
    }
}
