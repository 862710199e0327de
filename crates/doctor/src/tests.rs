//! Tests of whole examinations, and the fixture folders that all tests share.

use super::*;

/// A folder that stands in for the root of a host and is removed with its test.
pub(super) struct Fixture {
    root: PathBuf,
}

impl Fixture {
    /// Makes an empty root; `name` keeps the tests of one process apart.
    pub(super) fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("verge-doctor-{}-{name}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self { root }
    }

    pub(super) fn host(&self) -> Host<'_> {
        Host { root: &self.root }
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.host().locate(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const LIMITS: &str = "Max open files            65536      65536      files\n\
                      Max locked memory         unlimited  unlimited  bytes\n\
                      Max realtime priority     80         80\n";
const STATUS: &str = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0\nCpus_allowed_list:\t0-3\n";

/// Every file that an examination reads, as on a host that is well set up.
const WELL: &[(&str, &str)] = &[
    ("/proc/self/limits", LIMITS),
    ("/proc/self/status", STATUS),
    ("/proc/self/uid_map", "0 0 4294967295\n"),
    ("/proc/self/cgroup", "0::/verge\n"),
    ("/proc/2/comm", "kthreadd\n"),
    ("/proc/version", "Linux version 6.12.0 (a@b) (gcc) #1 SMP PREEMPT_RT Fri\n"),
    ("/proc/cmdline", "quiet\n"),
    ("/proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
    ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
    ("/proc/cpuinfo", "flags\t: fpu tsc\n"),
    ("/proc/stat", "cpu  1 1 1 1 1 1 1 0 0 0\n"),
    ("/proc/swaps", "Filename Type Size Used Priority\n"),
    ("/proc/meminfo", "MemAvailable: 8000000 kB\n"),
    ("/proc/sys/net/core/rmem_max", "4194304\n"),
    ("/proc/sys/net/core/wmem_max", "4194304\n"),
    ("/proc/sys/net/core/somaxconn", "4096\n"),
    ("/sys/kernel/realtime", "1\n"),
    ("/sys/kernel/debug/sched/preempt", "none voluntary (full)\n"),
    ("/sys/kernel/debug/sched/fair_server/cpu0/runtime", "0\n"),
    ("/sys/fs/cgroup/verge/cpu.max", "max 100000\n"),
    ("/sys/devices/system/cpu/online", "0-3\n"),
    ("/sys/devices/system/cpu/isolated", "3\n"),
    ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
];

/// The findings that come from the running host rather than from files.
const LIVE: &[&str] = &["clock synchronisation", "wake-up jitter"];

fn examine_files(fixture: &Fixture) -> Vec<Finding> {
    let mut findings = examine(&fixture.root);
    findings.retain(|finding| !LIVE.contains(&finding.name));
    findings
}

#[test]
fn a_host_that_is_well_set_up_is_good_throughout() {
    let fixture = Fixture::new("well");
    for (path, content) in WELL {
        fixture.write(path, content);
    }
    let findings = examine_files(&fixture);
    assert_eq!(findings.len(), 17);
    for finding in findings {
        assert_eq!(finding.health, Health::Good, "{finding:?}");
        assert!(finding.cost.is_empty() && finding.remedy.is_empty(), "{finding:?}");
    }
}

#[test]
fn an_empty_host_is_unknown_and_never_poor() {
    let fixture = Fixture::new("empty");
    for finding in examine_files(&fixture) {
        if finding.health == Health::Good {
            assert_eq!(finding.name, "huge pages");
        } else {
            assert_eq!(finding.health, Health::Fair, "{finding:?}");
            assert!(finding.state.starts_with("unknown: /"), "{finding:?}");
        }
    }
}

#[test]
fn no_file_content_makes_an_examination_panic() {
    let contents: [&[u8]; 9] = [
        b"",
        b"\n\n",
        b"-1",
        b"0",
        b"99999999999999999999999",
        b"9223372036854775807 9223372036854775807",
        b"\xff\xfe\x00()[]:::,,--",
        b"0::/../..\n1:cpu:/a\n",
        b"Filename\nflags\ncpu  \nUid:\nCapEff:\nMemAvailable:\nMax open files\n#",
    ];
    let fixture = Fixture::new("broken");
    for content in contents {
        for (path, _) in WELL {
            fixture.write(path, content);
        }
        rights::examine(&fixture.host());
        kernel::examine(&fixture.host());
        cgroup::examine(&fixture.host());
        cpu::examine(&fixture.host());
        clock::examine(&fixture.host());
        memory::examine(&fixture.host());
        network::examine(&fixture.host());
    }
}

#[test]
fn the_running_host_gets_a_finding_for_every_live_check() {
    let findings = examine(Path::new("/"));
    for name in LIVE {
        assert!(findings.iter().any(|finding| finding.name == *name), "{name}");
    }
    for finding in findings {
        let good = finding.health == Health::Good;
        assert_eq!(good, finding.cost.is_empty(), "{finding:?}");
        assert_eq!(good, finding.remedy.is_empty(), "{finding:?}");
    }
}

#[test]
fn the_worst_health_is_the_greatest() {
    assert!(Health::Good < Health::Fair && Health::Fair < Health::Poor);
}

#[test]
fn the_chosen_word_is_the_one_in_brackets() {
    assert_eq!(chosen("always [madvise] never", '[', ']'), Some("madvise"));
    assert_eq!(chosen("always madvise", '[', ']'), None);
    assert_eq!(chosen("[", '[', ']'), None);
}

#[test]
fn sizes_are_written_in_the_largest_fitting_unit() {
    assert_eq!(size(12), "12 bytes");
    assert_eq!(size(212_992), "208 KiB");
    assert_eq!(size(8 << 20), "8 MiB");
    assert_eq!(size(3 << 29), "1.5 GiB");
    assert_eq!(size(u64::MAX), "17179869183.9 GiB");
}
