//! The kernel's own way of keeping processors awake: its idle loop looks for work without halting for as long as somebody asks that
//! nobody wait for a processor to wake up.
//!
//! Who looks for work needs no interrupt to be told of it, which makes waking a thread cheaper than if it had to interrupt another:
//! round trips of 16 bytes took 40 instead of 60 us on a guest. Nothing runs, so nothing starves where others keep a processor.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Who writes a number of microseconds asks that waking up take no longer, until it closes the file. See the kernel's documentation,
/// "PM Quality Of Service Interface".
const REQUEST: &str = "/dev/cpu_dma_latency";
/// What the kernel says of processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";
/// The name of an idle state in which a processor does not halt.
const POLLS: &str = "POLL";

/// The request. It ends with this, or with the process.
pub(super) struct Polling {
    _request: File,
}

impl Polling {
    /// Asks that these processors do not halt. `None` where the kernel would ask it of others as well, where its idle loop does
    /// nothing but halt, and where we may not ask.
    pub(super) fn ask(cpus: &[usize]) -> Option<Polling> {
        let online = fs::read_to_string(format!("{PROCESSORS}/online")).ok()?;
        if numbers(&online)? != cpus || !cpus.iter().all(|cpu| can_poll(*cpu)) {
            return None;
        }
        let mut request = File::options().write(true).open(REQUEST).ok()?;
        request.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Polling { _request: request })
    }
}

/// Whether the idle loop of a processor can do without halting: then that is the first of its states.
fn can_poll(cpu: usize) -> bool {
    let state = format!("{PROCESSORS}/cpu{cpu}/cpuidle/state0");
    let says = |what: &str, wanted: &str| {
        fs::read_to_string(Path::new(&state).join(what)).is_ok_and(|text| text.trim() == wanted)
    };
    says("name", POLLS) && says("disable", "0")
}

/// The numbers of a list as the kernel writes it: `0-3,8`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(numbers("0"), Some(vec![0]));
        assert_eq!(numbers(""), None);
        assert_eq!(numbers("0-x"), None);
    }

    #[test]
    fn nothing_is_asked_of_processors_that_were_not_named() {
        assert!(Polling::ask(&[]).is_none());
        assert!(Polling::ask(&[100_000]).is_none());
    }
}
