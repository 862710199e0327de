//! Processor time: of the demo's processes, and of this host.

use super::processes::Process;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Processors in use for a while; 1 is one processor all of the time.
#[derive(Serialize, Clone, Copy, Default, Debug, PartialEq)]
pub struct Used {
    /// The broker that starts as primary, and the other one.
    pub primary: f64,
    pub backup: f64,
    pub publisher: f64,
    pub edge_subscriber: f64,
    pub cloud_subscriber: f64,
    /// Everything that runs on this host.
    pub host: f64,
}

/// Ticks of all processors of this host.
#[derive(Clone, Copy)]
pub struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
}

/// What has been used until an instant.
pub struct Reading {
    at: Instant,
    processes: [Duration; 5],
    host: Option<Ticks>,
}

impl Reading {
    /// The two brokers, the publisher and the two subscribers, as [`Used`] has them.
    pub fn of(processes: [Option<&Process>; 5]) -> Reading {
        let used = |process: Option<&Process>| process.and_then(Process::processor_time).unwrap_or_default();
        Reading { at: Instant::now(), processes: processes.map(used), host: Ticks::now() }
    }

    /// What was used from then until now.
    pub fn since(&self, before: &Reading) -> Used {
        let passed = self.at.duration_since(before.at).as_secs_f64();
        let share = |index: usize| {
            let used = self.processes[index].saturating_sub(before.processes[index]);
            used.as_secs_f64() / passed
        };
        let host = match (before.host, self.host) {
            (Some(before), Some(now)) => {
                now.busy.saturating_sub(before.busy) as f64
                    / rustix::param::clock_ticks_per_second() as f64
                    / passed
            }
            _ => 0.0,
        };
        Used {
            primary: share(0),
            backup: share(1),
            publisher: share(2),
            edge_subscriber: share(3),
            cloud_subscriber: share(4),
            host,
        }
    }
}

impl Ticks {
    /// Until now, if this host says so.
    pub fn now() -> Option<Ticks> {
        Ticks::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Of the first line: user, nice, system, idle, waiting, two kinds of interrupts, stolen.
    fn parse(stat: &str) -> Option<Ticks> {
        const FIELDS: usize = 8;
        let fields = stat.lines().next()?.split_whitespace().skip(1).take(FIELDS);
        let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, waiting, interrupts, soft, stolen] = ticks[..] else { return None };
        let busy = user + nice + system + interrupts + soft;
        Some(Ticks { all: busy + idle + waiting + stolen, busy, stolen })
    }
}

/// The share of this host's processor time that a hypervisor gave to somebody else.
pub fn stolen_share(before: Option<Ticks>, after: Option<Ticks>) -> f64 {
    match (before, after) {
        (Some(before), Some(after)) if after.all > before.all => {
            after.stolen.saturating_sub(before.stolen) as f64 / (after.all - before.all) as f64
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_busy_idle_or_stolen() {
        let before = Ticks::parse("cpu  10 1 5 100 4 2 3 7 0 0\ncpu0 1 1").unwrap();
        let after = Ticks::parse("cpu  20 1 15 130 4 2 3 17 9 9\ncpu0 1 1").unwrap();
        assert_eq!((after.busy - before.busy, after.all - before.all), (20, 60));
        assert!((stolen_share(Some(before), Some(after)) - 1.0 / 6.0).abs() < 1e-9);
        assert!(Ticks::parse("cpu 1 2 3").is_none());
    }
}
