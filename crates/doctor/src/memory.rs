//! Memory: how much is available, and what can make an access to it slow.

use super::{Finding, Host, Unknown, chosen, settle, size};
use std::fs;

const SWAPS: &str = "/proc/swaps";
const MEMORY: &str = "/proc/meminfo";
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

const PROCESSES: &str = "/proc";
const MONITORS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MONITOR: &str = "kdamond";

/// Room for histories to grow while subscribers lag.
const AMPLE: u64 = 1 << 30;

/// Below this, the kernel is about to reclaim pages or to kill a process.
const SCARCE: u64 = 256 << 20;

/// Examines the memory of the host.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    vec![
        settle("memory", host.parse(MEMORY, parse_available).map(judge_available)),
        settle("swap", host.parse(SWAPS, parse_swap).map(judge_swap)),
        settle("huge pages", huge_pages(host)),
        settle("memory monitor", monitors(host).map(judge_monitors)),
    ]
}

/// The swap areas of the host, all taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Swap {
    areas: usize,
    bytes: u64,
    used: u64,
}

fn huge_pages(host: &Host) -> Result<Finding, Unknown> {
    let mode = host.parse_if_present(HUGE_PAGES, |text| chosen(text, '[', ']').map(str::to_owned))?;
    Ok(judge_huge_pages(mode.as_deref()))
}

/// How many threads of the kernel watch which memory is used. Their own files are root's; their names anybody may read.
fn monitors(host: &Host) -> Result<usize, Unknown> {
    let entries =
        fs::read_dir(host.locate(PROCESSES)).map_err(|error| Unknown::unreadable(PROCESSES, &error))?;
    let is_one = |entry: &fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm"));
        name.is_ok_and(|name| name.starts_with(MONITOR))
    };
    Ok(entries.flatten().filter(is_one).count())
}

fn judge_monitors(running: usize) -> Finding {
    const NAME: &str = "memory monitor";
    if running == 0 {
        return Finding::good(NAME, "the kernel does not watch which memory is used");
    }
    Finding::fair(
        NAME,
        format!("the kernel watches which memory is used (DAMON): threads {MONITOR}, {running} of them"),
        "where the kernel does not preempt its own threads, one may keep a processor for tens of milliseconds",
        format!("if nobody needs it: echo off | sudo tee {MONITORS}/*/state"),
    )
}

fn judge_available(bytes: u64) -> Finding {
    const NAME: &str = "memory";
    let state = format!("{} are available", size(bytes));
    let remedy = "see what uses it with ps aux --sort=-rss | head, then stop that or add memory";
    if bytes >= AMPLE {
        Finding::good(NAME, state)
    } else if bytes >= SCARCE {
        Finding::fair(NAME, state, "long histories and slow subscribers may exhaust it", remedy)
    } else {
        Finding::poor(NAME, state, "the kernel may kill the broker, or fail to lock its memory", remedy)
    }
}

fn judge_swap(swap: Swap) -> Finding {
    const NAME: &str = "swap";
    if swap.areas == 0 {
        return Finding::good(NAME, "no swap is set up");
    }
    if swap.used == 0 {
        return Finding::good(NAME, format!("none of {} of swap is used", size(swap.bytes)));
    }
    Finding::fair(
        NAME,
        format!("{} of {} of swap are used", size(swap.used), size(swap.bytes)),
        "memory that is not locked comes back from disk only after milliseconds",
        "sudo swapoff -a, and take the swap lines out of /etc/fstab",
    )
}

/// Judges the mode of transparent huge pages; a kernel built without them has none.
fn judge_huge_pages(mode: Option<&str>) -> Finding {
    const NAME: &str = "huge pages";
    match mode {
        None => Finding::good(NAME, "the kernel has no transparent huge pages"),
        Some("always") => Finding::fair(
            NAME,
            "transparent huge pages are always used",
            "the kernel may halt a thread for milliseconds while it gathers or moves a huge page",
            format!(
                "echo madvise | sudo tee {HUGE_PAGES} \
                 (to keep it: transparent_hugepage=madvise on the kernel's command line)"
            ),
        ),
        Some(mode) => Finding::good(NAME, format!("transparent huge pages are set to {mode}")),
    }
}

/// Takes the bytes that can be had without swapping from the text of `/proc/meminfo`.
fn parse_available(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kibibytes(value.split_whitespace().next()?)
}

/// Adds up the areas in the text of `/proc/swaps`, which opens with a heading.
fn parse_swap(text: &str) -> Option<Swap> {
    let mut lines = text.lines();
    lines.next().filter(|heading| heading.starts_with("Filename"))?;
    let mut swap = Swap::default();
    for line in lines {
        let mut words = line.split_whitespace().skip(2);
        swap.areas += 1;
        swap.bytes = swap.bytes.saturating_add(kibibytes(words.next()?)?);
        swap.used = swap.used.saturating_add(kibibytes(words.next()?)?);
    }
    Some(swap)
}

fn kibibytes(word: &str) -> Option<u64> {
    word.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::super::tests::Fixture;
    use super::*;

    const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn available_memory_is_taken_from_its_own_line() {
        let text = "MemTotal:       2000 kB\nMemFree:   10 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(parse_available(text), Some(1 << 20));
        for broken in ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 18446744073709551615 kB"] {
            assert_eq!(parse_available(broken), None, "{broken}");
        }
    }

    #[test]
    fn available_memory_is_judged_by_its_amount() {
        assert_eq!(judge_available(4 << 30).health, Health::Good);
        assert_eq!(judge_available(512 << 20).health, Health::Fair);
        let finding = judge_available(100 << 20);
        assert_eq!(finding.health, Health::Poor);
        assert_eq!(finding.state, "100 MiB are available");
    }

    #[test]
    fn swap_areas_are_added_up() {
        let text = format!("{HEADING}/dev/sda2 partition 2048 512 -2\n/swap\\040file file 1024 0 -3\n");
        assert_eq!(parse_swap(&text), Some(Swap { areas: 2, bytes: 3072 << 10, used: 512 << 10 }));
        assert_eq!(parse_swap(HEADING), Some(Swap::default()));
    }

    #[test]
    fn a_broken_list_of_swap_areas_is_not_an_empty_one() {
        assert_eq!(parse_swap(""), None);
        assert_eq!(parse_swap(&format!("{HEADING}/dev/sda2 partition\n")), None);
        assert_eq!(parse_swap(&format!("{HEADING}/dev/sda2 partition 10 ten -2\n")), None);
    }

    #[test]
    fn only_swap_in_use_costs_something() {
        let swap = Swap { areas: 1, bytes: 2 << 30, used: 300 << 20 };
        assert_eq!(judge_swap(swap).health, Health::Fair);
        assert_eq!(judge_swap(swap).state, "300 MiB of 2.0 GiB of swap are used");
        assert_eq!(judge_swap(Swap { used: 0, ..swap }).health, Health::Good);
        assert_eq!(judge_swap(Swap::default()).health, Health::Good);
    }

    #[test]
    fn a_monitor_of_memory_is_named_while_it_runs() {
        let fixture = Fixture::new("monitors");
        let finding = || settle("memory monitor", monitors(&fixture.host()).map(judge_monitors));
        assert!(finding().state.starts_with("unknown: /proc could not be read"), "{:?}", finding());
        fixture.write("/proc/1/comm", "init\n");
        fixture.write("/proc/meminfo", "MemAvailable:    1024 kB\n");
        assert_eq!(finding().health, Health::Good);
        fixture.write("/proc/77/comm", "kdamond.0\n");
        assert_eq!(finding().health, Health::Fair);
        assert!(finding().state.ends_with("1 of them"), "{:?}", finding());
    }

    #[test]
    fn huge_pages_cost_something_only_when_always_used() {
        let fixture = Fixture::new("huge-pages");
        let finding = || settle("huge pages", huge_pages(&fixture.host()));
        assert_eq!(finding().state, "the kernel has no transparent huge pages");
        fixture.write(HUGE_PAGES, "[always] madvise never\n");
        assert_eq!(finding().health, Health::Fair);
        fixture.write(HUGE_PAGES, "always [madvise] never\n");
        assert_eq!(finding().health, Health::Good);
        fixture.write(HUGE_PAGES, "always madvise never\n");
        assert!(finding().state.starts_with("unknown"));
    }
}
