//! What the control group of this process takes away: CPU time by quota and,
//! under version 1, the right to real-time scheduling by an empty budget.

use super::{Finding, Host, Unknown, number, settle};

const MEMBERSHIP: &str = "/proc/self/cgroup";
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Examines the control group of this process. The real-time budget exists only
/// under version 1 with group scheduling, so elsewhere it yields no finding.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    let group = match find_group(host) {
        Ok(group) => group,
        Err(unknown) => return vec![Finding::unknown("CPU quota", &unknown)],
    };
    let mut findings = vec![settle("CPU quota", quota(host, &group))];
    match budget(host, &group) {
        Ok(finding) => findings.extend(finding),
        Err(unknown) => findings.push(Finding::unknown("real-time budget", &unknown)),
    }
    findings
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The line of `/proc/self/cgroup` that governs the CPU.
#[derive(Debug, PartialEq, Eq)]
struct Membership {
    version: Version,
    controllers: String,
    path: String,
}

/// The folders of this process's group, innermost first, up to the mount point.
#[derive(Debug)]
struct Group {
    version: Version,
    folders: Vec<String>,
}

/// The CPU time granted in every period; no runtime means no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quota {
    runtime_us: Option<u64>,
    period_us: u64,
}

impl Quota {
    fn cpus(self) -> f64 {
        self.runtime_us.map_or(f64::INFINITY, |runtime| runtime as f64 / self.period_us as f64)
    }
}

fn find_group(host: &Host) -> Result<Group, Unknown> {
    let membership = host.parse(MEMBERSHIP, parse_membership)?;
    let mounts = match membership.version {
        Version::One => {
            vec![format!("/sys/fs/cgroup/{}", membership.controllers), "/sys/fs/cgroup/cpu".to_owned()]
        }
        Version::Two => vec!["/sys/fs/cgroup/unified".to_owned(), "/sys/fs/cgroup".to_owned()],
    };
    let mount = mounts.iter().find(|mount| host.has_folder(mount)).ok_or_else(|| Unknown {
        source: "/sys/fs/cgroup".to_owned(),
        reason: "has no CPU controller mounted".to_owned(),
        remedy: "see where it is mounted with findmnt -t cgroup,cgroup2".to_owned(),
    })?;
    let mut folders = folders_below(mount, &membership.path);
    // A container may see only its own part of the tree, mounted as if it were all.
    folders.retain(|folder| host.has_folder(folder));
    Ok(Group { version: membership.version, folders })
}

/// How many processors the groups of this process grant, if they grant a part only and that can be found out.
pub(super) fn granted(host: &Host) -> Option<f64> {
    let tightest = tightest(host, &find_group(host).ok()?).ok()??;
    Some(tightest.cpus()).filter(|cpus| cpus.is_finite())
}

fn quota(host: &Host, group: &Group) -> Result<Finding, Unknown> {
    Ok(judge_quota(group.version, tightest(host, group)?))
}

fn tightest(host: &Host, group: &Group) -> Result<Option<Quota>, Unknown> {
    let mut tightest: Option<Quota> = None;
    for folder in &group.folders {
        let Some(quota) = read_quota(host, group.version, folder)? else {
            continue;
        };
        if tightest.is_none_or(|known| quota.cpus() < known.cpus()) {
            tightest = Some(quota);
        }
    }
    Ok(tightest)
}

fn read_quota(host: &Host, version: Version, folder: &str) -> Result<Option<Quota>, Unknown> {
    if version == Version::Two {
        return host.parse_if_present(&format!("{folder}/cpu.max"), parse_cpu_max);
    }
    let runtime = host.parse_if_present(&format!("{folder}/cpu.cfs_quota_us"), number::<i64>)?;
    let path = format!("{folder}/cpu.cfs_period_us");
    let period = host.parse_if_present(&path, |text| number::<u64>(text).filter(|period| *period > 0))?;
    Ok(runtime
        .zip(period)
        .map(|(runtime, period_us)| Quota { runtime_us: runtime.try_into().ok(), period_us }))
}

fn budget(host: &Host, group: &Group) -> Result<Option<Finding>, Unknown> {
    let Some(folder) = group.folders.first().filter(|_| group.version == Version::One) else {
        return Ok(None);
    };
    let path = format!("{folder}/cpu.rt_runtime_us");
    let Some(runtime) = host.parse_if_present(&path, number::<i64>)? else {
        return Ok(None);
    };
    let throttled = host.parse(THROTTLE, number::<i64>).map_or(true, |system| system >= 0);
    Ok(Some(judge_budget(&path, runtime, throttled)))
}

fn judge_quota(version: Version, tightest: Option<Quota>) -> Finding {
    const NAME: &str = "CPU quota";
    const REMEDY: &str = "lift the quota: sudo systemctl set-property --runtime UNIT CPUQuota= \
                          (container: start it without --cpus)";
    let version = match version {
        Version::One => "cgroup v1",
        Version::Two => "cgroup v2",
    };
    let limited = tightest.and_then(|quota| quota.runtime_us.map(|runtime| (quota, runtime)));
    let Some((quota, runtime_us)) = limited else {
        return Finding::good(NAME, format!("{version} sets no CPU quota"));
    };
    let (runtime, period) = (runtime_us as f64 / 1000.0, quota.period_us as f64 / 1000.0);
    let cpus = quota.cpus();
    let state = format!("{version} grants {cpus:.2} CPUs ({runtime} ms in every {period} ms)");
    let cost = format!(
        "once it is used up, every thread without real-time scheduling stops until the {period} ms end"
    );
    if cpus < 1.0 {
        Finding::poor(NAME, state, cost, REMEDY)
    } else {
        Finding::fair(NAME, state, cost, REMEDY)
    }
}

/// Judges the real-time budget of a version 1 group. The kernel heeds budgets
/// only while real-time throttling is on at all.
fn judge_budget(path: &str, runtime_us: i64, throttled: bool) -> Finding {
    const NAME: &str = "real-time budget";
    if !throttled {
        return Finding::good(NAME, "the group's budget is not enforced, as real-time throttling is off");
    }
    match runtime_us {
        0 => Finding::poor(
            NAME,
            "the cgroup v1 group has a real-time budget of 0 µs",
            "the kernel refuses SCHED_FIFO to the data thread, whatever its rights",
            format!("echo 400000 | sudo tee {path} (each parent group first)"),
        ),
        ..0 => Finding::good(NAME, "the cgroup v1 group has an unlimited real-time budget"),
        _ => Finding::good(NAME, format!("the cgroup v1 group has a real-time budget of {runtime_us} µs")),
    }
}

/// Finds the group that governs the CPU in the text of `/proc/self/cgroup`. On a
/// host that mounts both versions, the CPU controller belongs to only one.
fn parse_membership(text: &str) -> Option<Membership> {
    let mut unified = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let membership =
            |version| Membership { version, controllers: controllers.to_owned(), path: path.to_owned() };
        if controllers.split(',').any(|controller| controller == "cpu") {
            return Some(membership(Version::One));
        }
        if number == "0" && controllers.is_empty() {
            unified = Some(membership(Version::Two));
        }
    }
    unified
}

/// Lists the folders from `path` below `mount` up to `mount` itself. A path that
/// climbs out of the visible tree leaves only the mount.
fn folders_below(mount: &str, path: &str) -> Vec<String> {
    let mut folders = vec![mount.to_owned()];
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.contains(&"..") {
        return folders;
    }
    let mut folder = mount.to_owned();
    for name in names {
        folder = format!("{folder}/{name}");
        folders.push(folder.clone());
    }
    folders.reverse();
    folders
}

/// Parses `cpu.max`, which holds a runtime or the word "max", then a period.
fn parse_cpu_max(text: &str) -> Option<Quota> {
    let mut words = text.split_whitespace();
    let runtime_us = match words.next()? {
        "max" => None,
        runtime => Some(runtime.parse().ok()?),
    };
    let period_us = words.next()?.parse().ok().filter(|period| *period > 0)?;
    Some(Quota { runtime_us, period_us })
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::super::tests::Fixture;
    use super::*;

    #[test]
    fn the_cpu_controller_decides_which_version_governs() {
        let hybrid = "4:memory:/m\n1:cpu,cpuacct:/slice\n0::/unified\n";
        let one = parse_membership(hybrid).unwrap();
        assert_eq!((one.version, one.controllers.as_str()), (Version::One, "cpu,cpuacct"));
        assert_eq!(one.path, "/slice");
        let two = parse_membership("3:cpuset:/\n0::/user.slice/a:b\n").unwrap();
        assert_eq!((two.version, two.path.as_str()), (Version::Two, "/user.slice/a:b"));
        assert_eq!(parse_membership("3:cpuset:/\nnonsense\n"), None);
    }

    #[test]
    fn cpu_max_holds_a_runtime_and_a_period() {
        assert_eq!(
            parse_cpu_max("50000 100000\n"),
            Some(Quota { runtime_us: Some(50_000), period_us: 100_000 })
        );
        assert_eq!(parse_cpu_max("max 100000\n"), Some(Quota { runtime_us: None, period_us: 100_000 }));
        for broken in ["", "max", "50000 0", "-1 100000", "a b"] {
            assert_eq!(parse_cpu_max(broken), None, "{broken}");
        }
    }

    #[test]
    fn folders_run_from_the_group_to_the_mount_and_never_outside() {
        assert_eq!(folders_below("/m", "/a/b"), ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(folders_below("/m", "/"), ["/m"]);
        assert_eq!(folders_below("/m", "/../other"), ["/m"]);
    }

    #[test]
    fn the_tightest_quota_of_all_parent_groups_counts() {
        let fixture = Fixture::new("quota-two");
        fixture.write(MEMBERSHIP, "0::/verge.slice/broker\n");
        fixture.write("/sys/fs/cgroup/verge.slice/cpu.max", "50000 100000\n");
        fixture.write("/sys/fs/cgroup/verge.slice/broker/cpu.max", "200000 100000\n");
        let findings = examine(&fixture.host());
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].health, Health::Poor);
        assert_eq!(findings[0].state, "cgroup v2 grants 0.50 CPUs (50 ms in every 100 ms)");
        assert_eq!(granted(&fixture.host()), Some(0.5));
    }

    #[test]
    fn a_group_without_a_quota_is_good() {
        let fixture = Fixture::new("quota-none");
        fixture.write(MEMBERSHIP, "0::/\n");
        fixture.write("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
        let findings = examine(&fixture.host());
        assert_eq!(findings[0], Finding::good("CPU quota", "cgroup v2 sets no CPU quota"));
        assert_eq!(granted(&fixture.host()), None);
        fixture.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
        assert_eq!(granted(&fixture.host()), None);
    }

    #[test]
    fn an_empty_real_time_budget_of_version_one_is_poor() {
        let fixture = Fixture::new("quota-one");
        fixture.write(MEMBERSHIP, "1:cpu,cpuacct:/docker/abc\n");
        fixture.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
        fixture.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        fixture.write("/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us", "0\n");
        let findings = examine(&fixture.host());
        assert_eq!(findings[0].health, Health::Fair);
        assert_eq!(findings[1].health, Health::Poor);
        assert!(findings[1].remedy.contains("/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us"));
        fixture.write(THROTTLE, "-1\n");
        assert_eq!(examine(&fixture.host())[1].health, Health::Good);
    }

    #[test]
    fn a_missing_mount_or_a_broken_file_is_unknown() {
        let fixture = Fixture::new("quota-unknown");
        assert!(examine(&fixture.host())[0].state.starts_with("unknown"));
        fixture.write(MEMBERSHIP, "0::/\n");
        assert!(examine(&fixture.host())[0].state.contains("no CPU controller"));
        fixture.write("/sys/fs/cgroup/cpu.max", "nonsense");
        assert!(examine(&fixture.host())[0].state.contains("not in the expected form"));
    }

    #[test]
    fn a_negative_version_one_quota_is_no_quota() {
        let quota = Quota { runtime_us: (-1_i64).try_into().ok(), period_us: 100_000 };
        assert_eq!(judge_quota(Version::One, Some(quota)).health, Health::Good);
        assert_eq!(judge_budget("/x", -1, true).health, Health::Good);
        assert_eq!(judge_budget("/x", 950_000, true).health, Health::Good);
    }
}
