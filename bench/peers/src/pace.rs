//! Time: waiting for it, keeping processors awake, and going first.

use host::Awake;
use std::time::Duration;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
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

/// Keeps processors awake until this is dropped, if that is wanted. Where one cannot be, it says so.
pub fn awake(wanted: bool) -> Option<Awake> {
    if !wanted {
        return None;
    }
    let trouble = |error| crate::observe::trouble(format!("not all processors are kept awake: {error}"));
    Awake::start(&[]).map_err(trouble).ok()
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
