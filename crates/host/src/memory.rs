//! How much memory this process may have: what the host has, and what its control groups allow, whichever is least.

use std::fs;
use std::path::{Path, PathBuf};

/// What there is, and who says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// Bytes.
    pub bytes: u64,
    /// The file that says so.
    pub from: String,
    /// Bytes that can be had now without taking them from others, if the host says.
    pub available: Option<u64>,
}

/// What this process may have; `None` where the host does not say.
pub fn allowance() -> Option<Allowance> {
    allowance_in(Path::new("/"))
}

impl Allowance {
    /// What a broker takes by itself: half of it, and no more than three quarters of what can be had now. The rest is for the
    /// kernel's buffers and for the program itself.
    pub fn usual(&self) -> u64 {
        let available = self.available.map_or(u64::MAX, |available| available / 4 * 3);
        (self.bytes / 2).min(available)
    }
}

fn allowance_in(root: &Path) -> Option<Allowance> {
    let host = fs::read_to_string(root.join("proc/meminfo")).ok();
    let line = |name: &str| host.as_deref().and_then(|text| kibibytes(text, name));
    let total = line("MemTotal:").map(|bytes| (bytes, "/proc/meminfo".to_owned()));
    let (bytes, from) = groups(root).into_iter().chain(total).min()?;
    Some(Allowance { bytes, from, available: line("MemAvailable:") })
}

/// The limits of the control group of this process, of either version, and of all above it.
fn groups(root: &Path) -> Vec<(u64, String)> {
    let Ok(text) = fs::read_to_string(root.join("proc/self/cgroup")) else { return Vec::new() };
    // Version 2 has one line for everything, which begins with a zero; version 1 has one for memory.
    let versions = [
        ("0::/", "sys/fs/cgroup", "memory.max"),
        (":memory:/", "sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ];
    let own = |mark: &str| text.lines().find_map(|line| line.split_once(mark)).map(|(_, group)| group);
    let versions = versions.into_iter().filter_map(|(mark, root, file)| Some((own(mark)?, root, file)));
    let files = versions.flat_map(|(own, mounted, file)| {
        // A group outside of what this process sees is given as `/..`.
        let groups = Path::new(own).ancestors().filter(|group| !group.starts_with(".."));
        groups.map(move |group| Path::new(mounted).join(group).join(file))
    });
    let limit = |file: PathBuf| {
        // `max` is none.
        let bytes = fs::read_to_string(root.join(&file)).ok()?.trim().parse().ok()?;
        Some((bytes, format!("/{}", file.display())))
    };
    files.filter_map(limit).collect::<Vec<_>>()
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host of files, which ends with the test.
    struct Host(PathBuf);

    impl Host {
        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn host(files: &[(&str, &str)]) -> Host {
        let name = format!("verge-memory-{:016x}", crate::random_number());
        let root = Host(std::env::temp_dir().join(name));
        for (path, text) in files {
            let path = root.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMORY: (&str, &str) =
        ("proc/meminfo", "MemTotal:  100 kB\nMemFree: 9 kB\nMemAvailable:   80 kB\n");

    #[test]
    fn the_least_of_host_and_control_groups_counts() {
        let root = host(&[MEMORY]);
        let found = allowance_in(root.path()).unwrap();
        assert_eq!((found.bytes, found.from.as_str(), found.usual()), (102_400, "/proc/meminfo", 51_200));
        let group = [
            MEMORY,
            ("proc/self/cgroup", "0::/a.slice/b.service\n"),
            ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
            ("sys/fs/cgroup/a.slice/memory.max", "40960\n"),
        ];
        let root = host(&group);
        let found = allowance_in(root.path()).unwrap();
        assert_eq!((found.bytes, found.from.as_str()), (40_960, "/sys/fs/cgroup/a.slice/memory.max"));
        let wide = [MEMORY, group[1], ("sys/fs/cgroup/a.slice/memory.max", "9999999\n")];
        assert_eq!(allowance_in(host(&wide).path()).unwrap().from, "/proc/meminfo");
        let older = [
            MEMORY,
            ("proc/self/cgroup", "4:memory:/a\n1:cpu:/\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "20480\n"),
        ];
        assert_eq!(allowance_in(host(&older).path()).unwrap().bytes, 20_480);
        assert_eq!(allowance_in(host(&[]).path()), None);
    }

    #[test]
    fn what_others_have_already_is_not_taken() {
        let root = host(&[("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 40 kB\n")]);
        assert_eq!(allowance_in(root.path()).unwrap().usual(), 30 << 10);
    }
}
