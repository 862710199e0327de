//! What the broker's process uses while it is measured.

use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use verge_bench_mqtt::observed::{processor_ns, resident_bytes};
use verge_bench_mqtt::poller::now_ns;

/// What a run has cost.
#[derive(Serialize, Clone, Default)]
pub struct Usage {
    pub seconds: f64,
    pub published: u64,
    pub delivered: u64,
    pub published_per_s: f64,
    pub delivered_per_s: f64,
    /// Of one processor.
    pub broker_share: f64,
    pub load_share: f64,
    pub broker_us_per_published: f64,
    pub broker_us_per_delivered: f64,
    pub broker_resident_bytes: u64,
}

/// When it begins, and what counts.
#[derive(Clone, Copy)]
pub struct Clock {
    pub begin_ns: u64,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// From setting up to the first message.
const SOON_NS: u64 = 20_000_000;

impl Clock {
    /// Begins soon.
    pub fn start(warm_up: f64, seconds: f64) -> Clock {
        let begin_ns = now_ns() + SOON_NS;
        let from_ns = begin_ns + (warm_up * 1e9) as u64;
        Clock { begin_ns, from_ns, to_ns: from_ns + (seconds * 1e9) as u64 }
    }

    /// What counts.
    pub fn window_ns(&self) -> (u64, u64) {
        (self.from_ns, self.to_ns)
    }
}

/// Looks when it begins to count and when that ends.
pub fn watch<'scope>(
    scope: &'scope Scope<'scope, '_>,
    pid: u32,
    clock: Clock,
    counts: [&'scope AtomicU64; 2],
) -> ScopedJoinHandle<'scope, Usage> {
    scope.spawn(move || {
        let look = || {
            let [published, delivered] = counts.map(|count| count.load(Ordering::Relaxed));
            [now_ns(), published, delivered, processor_ns(pid), processor_ns(std::process::id())]
        };
        crate::pace::sleep_until(clock.from_ns);
        let before = look();
        crate::pace::sleep_until(clock.to_ns);
        let after = look();
        let resident = resident_bytes(pid);
        let [span, published, delivered, broker, load] =
            std::array::from_fn(|index| after[index].saturating_sub(before[index]));
        let per = |count: u64| broker as f64 / 1e3 / count.max(1) as f64;
        let seconds = span as f64 / 1e9;
        Usage {
            seconds,
            published,
            delivered,
            published_per_s: published as f64 / seconds,
            delivered_per_s: delivered as f64 / seconds,
            broker_share: broker as f64 / span as f64,
            load_share: load as f64 / span as f64,
            broker_us_per_published: per(published),
            broker_us_per_delivered: per(delivered),
            broker_resident_bytes: resident,
        }
    })
}

static TROUBLES: Mutex<Vec<String>> = Mutex::new(Vec::new());
const TROUBLES_MAX: usize = 20;

/// Something went wrong on a thread of its own; it is part of the report.
pub fn trouble(text: String) {
    let mut troubles = TROUBLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if troubles.len() < TROUBLES_MAX {
        troubles.push(text);
    }
}

/// All of them.
pub fn troubles() -> Vec<String> {
    TROUBLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}
