//! What the broker's process has used, and what was late.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Processor time of all threads of a process since they began, in nanoseconds.
pub fn processor_ns(pid: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(of).sum()
}

/// Resident memory of a process, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Above it, times are taken for this.
const MOST_NS: u64 = 60_000_000_000;

/// Times in nanoseconds.
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

impl Times {
    /// None yet.
    pub fn new() -> Times {
        Times(Histogram::new_with_bounds(1, MOST_NS, 3).expect("invariant: these bounds are allowed"))
    }

    /// One more.
    pub fn note(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Those of others as well.
    pub fn add(&mut self, others: &Times) {
        self.0.add(&others.0).expect("invariant: both have the same bounds");
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What they come to.
    pub fn quantiles(&self) -> Quantiles {
        let at = |q: f64| self.0.value_at_quantile(q) as f64 / 1e3;
        Quantiles {
            count: self.0.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.0.max() as f64 / 1e3,
        }
    }
}

/// Of many times.
#[derive(Serialize)]
pub struct Quantiles {
    count: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}
