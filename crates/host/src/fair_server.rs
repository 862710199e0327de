//! The fair server of Linux, from 6.12 on.
//!
//! Where real-time threads keep a processor for so long that all other threads of it starve, the kernel runs those for 50 ms of each
//! second, in one piece, before every real-time thread. `kernel.sched_rt_runtime_us = -1` does not turn that off.

use std::path::Path;

/// The first release that has one.
const SINCE: (u32, u32) = (6, 12);
const VERSION: &str = "proc/version";
/// A folder for each processor, in which `runtime` says how much of a period it may take.
const FOLDER: &str = "sys/kernel/debug/sched/fair_server";

/// What is known of the fair server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairServer {
    /// The kernel is older.
    Absent,
    /// It is turned off on every processor.
    Off,
    /// It may take so many nanoseconds of each period.
    On(u64),
    /// There is one, or may be one, and this user may not see more.
    Hidden,
}

impl FairServer {
    /// Of the host whose files are below this folder: `/`.
    pub fn of(root: &Path) -> FairServer {
        let version = std::fs::read_to_string(root.join(VERSION)).ok();
        if version.as_deref().and_then(release).is_some_and(|release| release < SINCE) {
            return FairServer::Absent;
        }
        let runtime = |folder: std::fs::DirEntry| {
            let text = std::fs::read_to_string(folder.path().join("runtime")).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let folders = std::fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
        let longest = folders.map(runtime).reduce(|one, other| Some(one?.max(other?)));
        match longest.flatten() {
            None => FairServer::Hidden,
            Some(0) => FairServer::Off,
            Some(nanos) => FairServer::On(nanos),
        }
    }

    /// Whether it may hold up real-time threads.
    pub(crate) fn may_act(self) -> bool {
        matches!(self, FairServer::On(_) | FairServer::Hidden)
    }
}

/// The first two numbers in the text of `/proc/version`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("Linux version ")?.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_by_the_release_and_by_what_each_processor_gives_it() {
        let root = std::env::temp_dir().join(format!("verge-fair-server-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(FairServer::of(&root), FairServer::Hidden, "nothing is to be seen");
        write(VERSION, "Linux version 6.8.0-45-generic (a@b) #1\n");
        assert_eq!(FairServer::of(&root), FairServer::Absent);
        write(VERSION, "Linux version 6.12.0+deb (a@b) #1\n");
        assert_eq!(FairServer::of(&root), FairServer::Hidden);
        write(&format!("{FOLDER}/cpu0/runtime"), "0\n");
        assert_eq!(FairServer::of(&root), FairServer::Off);
        write(&format!("{FOLDER}/cpu1/runtime"), "50000000\n");
        assert_eq!(FairServer::of(&root), FairServer::On(50_000_000), "one is enough");
        write(&format!("{FOLDER}/cpu0/runtime"), "?");
        assert_eq!(FairServer::of(&root), FairServer::Hidden);
        assert!(FairServer::Hidden.may_act() && !FairServer::Off.may_act());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
