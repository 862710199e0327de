//! Real-time scheduling for the calling thread.

use rustix::thread::{CpuSet, sched_setaffinity};
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// Gives the calling thread a priority under `SCHED_FIFO` (1 to 99, above that of the node's lane) and keeps it on a processor. A sentence for
/// each that was not granted; the task runs all the same.
pub fn realtime(priority: Option<u8>, processor: Option<usize>) -> Vec<String> {
    let pinned = processor.and_then(|processor| {
        pin(processor).err().map(|reason| {
            format!(
                "not pinned to processor {processor} ({reason}): the task may be moved between processors"
            )
        })
    });
    let raised = priority.and_then(|priority| {
        fifo(priority).err().map(|reason| {
            format!(
                "no real-time priority {priority} ({reason}): other programs may delay the task by milliseconds. Allow it with \
                 LimitRTPRIO={priority}"
            )
        })
    });
    pinned.into_iter().chain(raised).collect()
}

fn pin(processor: usize) -> Result<(), String> {
    if processor >= CpuSet::MAX_CPU {
        return Err(format!("there are at most {} processors", CpuSet::MAX_CPU));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(|error| error.to_string())
}

fn fifo(priority: u8) -> Result<(), String> {
    let value = ThreadPriorityValue::try_from(priority)?;
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let set =
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(value), policy);
    set.map_err(|error| match error {
        thread_priority::Error::OS(code) => std::io::Error::from_raw_os_error(code).to_string(),
        other => format!("{other:?}"),
    })
}
