//! What this process has used so far.

/// Processor time and switches of all threads.
#[derive(Clone, Copy, Default)]
pub struct Used {
    pub processor_ns: u64,
    /// Switches because a thread waited, and because it had to give way.
    pub waited: u64,
    pub gave_way: u64,
    /// What a hypervisor took from the whole host, in seconds.
    pub stolen_s: f64,
}

impl Used {
    /// What all threads took since then, as a share of all processors in so many seconds.
    pub fn share_since(&self, before: &Used, seconds: f64) -> f64 {
        (self.processor_ns - before.processor_ns) as f64 / 1e9 / seconds / processors()
    }

    /// What a hypervisor took since then, likewise.
    pub fn stolen_since(&self, before: &Used, seconds: f64) -> f64 {
        (self.stolen_s - before.stolen_s) / seconds / processors()
    }
}

fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

/// Since the process began. All its threads live as long as the measurement.
pub fn used() -> Used {
    let mut used = Used::default();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return used };
    for thread in threads.flatten() {
        let read = |name: &str| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let first = read("schedstat").split_whitespace().next().and_then(|word| word.parse().ok());
        used.processor_ns += first.unwrap_or(0_u64);
        let status = read("status");
        used.waited += value(&status, "voluntary_ctxt_switches:");
        used.gave_way += value(&status, "nonvoluntary_ctxt_switches:");
    }
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = stat.lines().next().and_then(|line| line.split_whitespace().nth(STOLEN)?.parse().ok());
    used.stolen_s = stolen.unwrap_or(0.0) / rustix::param::clock_ticks_per_second() as f64;
    used
}

/// The word of the first line of `/proc/stat` that says so.
const STOLEN: usize = 8;

/// Resident memory, in KiB: now, and at its highest.
pub fn resident_kib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    (value(&status, "VmRSS:"), value(&status, "VmHWM:"))
}

fn value(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
