//! What the process uses of its host.

use std::fs;

/// Processor time, memory and descriptors of this process.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ProcessUse {
    /// Processor time in seconds, of all threads since the start.
    pub cpu_seconds: f64,
    /// Bytes that are resident.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub open_fds: u64,
    /// How many it may open.
    pub max_fds: u64,
    /// Threads.
    pub threads: u64,
}

impl ProcessUse {
    /// Asks the kernel. `None` where it does not say.
    pub fn now() -> Option<ProcessUse> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let resident: u64 =
            fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()?;
        let (ticks, threads) = read_stat(&stat)?;
        let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Some(ProcessUse {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            resident_bytes: resident * rustix::param::page_size() as u64,
            open_fds: fs::read_dir("/proc/self/fd").ok()?.count() as u64,
            max_fds: limits.current.unwrap_or(u64::MAX),
            threads,
        })
    }
}

/// Ticks of processor time, and threads. The name of the process, in parentheses, may hold anything.
fn read_stat(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // By proc(5), counted from the third field: 14 and 15 are times, 20 threads.
    Some((number(11)? + number(12)?, number(17)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_confuse() {
        let stat = "77 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 12 0 99 1 2";
        assert_eq!(read_stat(stat), Some((300, 12)));
        assert_eq!(read_stat("77 (short) R 1"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let used = ProcessUse::now().unwrap();
        assert!(used.resident_bytes > 100_000 && used.open_fds >= 3 && used.threads >= 1, "{used:?}");
        assert!(used.max_fds >= used.open_fds, "{used:?}");
    }
}
