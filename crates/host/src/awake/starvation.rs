//! Whether a thread of the lowest priority starves, and when its processor has time again.
//!
//! Where real-time threads keep a processor, a thread that only keeps it from halting is not needed. If it went on waiting there, the
//! fair server of Linux (see `fair_server.rs`) would run it for 50 ms of each second before all of them. Threads that get a
//! twentieth of a processor do not starve; that is what the server would give them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// It looks at itself so often.
const LOOK: Duration = Duration::from_millis(20);
/// It starves when it has got no more than its share for so long: less than the second after which the server acts.
const PATIENCE: Duration = Duration::from_millis(500);
/// The share of a processor below which threads starve is one part of so many.
const PARTS: u32 = 20;
/// How long it stays away before it looks for idle time.
const AWAY: Duration = Duration::from_millis(100);

/// What the kernel says of the calling thread: nanoseconds that it ran, that it waited for a processor, and how often it ran.
const ACCOUNT: &str = "/proc/thread-self/schedstat";
/// What the kernel says of each processor.
const PROCESSORS: &str = "/proc/stat";

/// How long a thread that always wants to run has had to wait for its processor.
pub(super) struct Starvation {
    account: File,
    looked: Instant,
    /// Since when it has got less than its share, and how long it had waited until then.
    since: Instant,
    waited: Duration,
}

impl Starvation {
    /// Of the calling thread; `None` where the kernel keeps no account of it.
    pub(super) fn of_this_thread() -> Option<Starvation> {
        let account = File::open(ACCOUNT).ok()?;
        let (now, waited) = (Instant::now(), waited(&account)?);
        Some(Starvation { account, looked: now, since: now, waited })
    }

    /// Whether the thread starves. To be asked whenever it runs.
    pub(super) fn is_seen(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK {
            return false;
        }
        self.looked = now;
        let Some(waited) = waited(&self.account) else { return false };
        let elapsed = now.duration_since(self.since);
        if waited.saturating_sub(self.waited) < elapsed / PARTS * (PARTS - 1) {
            (self.since, self.waited) = (now, waited);
            return false;
        }
        elapsed >= PATIENCE
    }

    /// Stays away from this processor until it is idle now and then, or `over`.
    pub(super) fn wait_for_idle_time(&mut self, cpu: usize, over: &AtomicBool) {
        let mut before = Usage::of(cpu);
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(AWAY);
            let now = Usage::of(cpu);
            // Where nothing is told of the processor, it is kept awake, as its owner wants.
            if before.zip(now).is_none_or(|(before, now)| now.has_idled_since(before)) {
                break;
            }
            before = now;
        }
        (self.since, self.waited) = (Instant::now(), waited(&self.account).unwrap_or(self.waited));
    }
}

/// How long a thread has waited for a processor since it began.
fn waited(account: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = account.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(text.get(..length)?).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// What a processor has done since the start of the host, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Usage {
    idle: u64,
    all: u64,
}

impl Usage {
    fn of(cpu: usize) -> Option<Usage> {
        Usage::parse(&std::fs::read_to_string(PROCESSORS).ok()?, cpu)
    }

    /// Guests' time is left out, as it is part of the time of users already. See proc_stat(5).
    fn parse(text: &str, cpu: usize) -> Option<Usage> {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some(Usage { idle, all: ticks.iter().sum() })
    }

    fn has_idled_since(self, before: Usage) -> bool {
        let all = self.all.saturating_sub(before.all);
        self.idle.saturating_sub(before.idle) * u64::from(PARTS) >= all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 10 20 30 400 50 6 7 8 9 10\ncpu10 1 1 1 1 1 1 1 1 0 0\nintr 7\n";

    #[test]
    fn the_use_of_a_processor_is_found_by_its_number() {
        assert_eq!(Usage::parse(STAT, 1), Some(Usage { idle: 450, all: 531 }));
        assert_eq!(Usage::parse(STAT, 10), Some(Usage { idle: 2, all: 8 }));
        assert_eq!(Usage::parse(STAT, 0), None);
        assert_eq!(Usage::parse("cpu0 1 2 x 4 5", 0), None);
    }

    #[test]
    fn a_twentieth_of_a_processor_is_idle_time() {
        let usage = |idle, all| Usage { idle, all };
        assert!(usage(105, 1_100).has_idled_since(usage(100, 1_000)));
        assert!(!usage(104, 1_100).has_idled_since(usage(100, 1_000)));
        assert!(!usage(100, 1_000).has_idled_since(usage(100, 1_000)), "it was away for less than a tick");
    }
}
