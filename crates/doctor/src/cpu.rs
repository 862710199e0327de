//! The processors: how many there are, whether one is kept for the data thread,
//! whether they slow down when idle, and whether a hypervisor owns them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;

use super::{Finding, Host, Unknown, settle};

const CPUS: &str = "/sys/devices/system/cpu";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const STATUS: &str = "/proc/self/status";
const CPU_INFO: &str = "/proc/cpuinfo";
const STAT: &str = "/proc/stat";

/// Examines the processors. Architectures whose processors have no flag for a
/// hypervisor yield no finding about one.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    let mut findings = vec![settle("CPUs", cpus(host)), settle("frequency governor", governor(host))];
    match hypervisor(host) {
        Ok(finding) => findings.extend(finding),
        Err(unknown) => findings.push(Finding::unknown("hypervisor", &unknown)),
    }
    findings
}

/// CPU numbers as the kernel lists them. Ranges stay ranges, so that no file
/// content can make the list large.
type CpuList = Vec<RangeInclusive<u32>>;

fn cpus(host: &Host) -> Result<Finding, Unknown> {
    let online = host.parse(ONLINE, parse_cpu_list)?;
    let isolated = host.parse_if_present(ISOLATED, parse_cpu_list)?.unwrap_or_default();
    let allowed = host.parse(STATUS, parse_allowed)?;
    Ok(judge_cpus(&online, &allowed, &isolated))
}

fn governor(host: &Host) -> Result<Finding, Unknown> {
    let entries = fs::read_dir(host.locate(CPUS)).map_err(|error| Unknown::unreadable(CPUS, &error))?;
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_cpu_folder(name)) else {
            continue;
        };
        let path = format!("{CPUS}/{name}/cpufreq/scaling_governor");
        if let Some(text) = host.read_if_present(&path)? {
            *governors.entry(text.trim().to_owned()).or_default() += 1;
        }
    }
    Ok(judge_governors(&governors))
}

fn hypervisor(host: &Host) -> Result<Option<Finding>, Unknown> {
    let Some(present) = parse_hypervisor(&host.read(CPU_INFO)?) else {
        return Ok(None);
    };
    let stolen = host.parse(STAT, parse_stolen).ok();
    Ok(Some(judge_hypervisor(present, stolen)))
}

fn judge_cpus(online: &CpuList, allowed: &CpuList, isolated: &CpuList) -> Finding {
    const NAME: &str = "CPUs";
    let usable = overlap(online, allowed);
    let present = count(online);
    if count(isolated) > 0 {
        let kept = write_cpu_list(isolated);
        return Finding::good(NAME, format!("{present} CPUs online, isolated: {kept}"));
    }
    let state = format!("{present} CPUs online, {usable} usable by this process, none isolated");
    if usable < 2 {
        let remedy = if present < 2 {
            "give the machine at least 2 CPUs"
        } else {
            "allow at least 2 CPUs (systemd unit: AllowedCPUs=0-1; container: --cpuset-cpus=0-1)"
        };
        let cost = "the data thread and all other work take turns on one CPU";
        return Finding::poor(NAME, state, cost, remedy);
    }
    let last = online.iter().map(|range| *range.end()).max().unwrap_or_default();
    Finding::fair(
        NAME,
        state,
        "interrupts and other tasks share the data thread's CPU and its caches",
        format!(
            "add isolcpus={last} nohz_full={last} rcu_nocbs={last} to GRUB_CMDLINE_LINUX in /etc/default/grub, \
             sudo update-grub && sudo reboot, then keep the data thread there: realtime.processors = [{last}]"
        ),
    )
}

fn judge_governors(governors: &BTreeMap<String, usize>) -> Finding {
    const NAME: &str = "frequency governor";
    let total: usize = governors.values().sum();
    if total == 0 {
        return Finding::good(
            NAME,
            "the host exposes no frequency governor, as is usual in a virtual machine",
        );
    }
    let slow: Vec<String> = governors
        .iter()
        .filter(|(name, _)| *name != "performance")
        .map(|(name, cpus)| format!("{name} on {cpus} of {total} CPUs"))
        .collect();
    if slow.is_empty() {
        return Finding::good(NAME, format!("performance on all {total} CPUs"));
    }
    Finding::fair(
        NAME,
        slow.join(", "),
        "a CPU that was idle runs the first message after a pause at a low frequency",
        "sudo cpupower frequency-set -g performance",
    )
}

fn judge_hypervisor(present: bool, stolen: Option<f64>) -> Finding {
    const NAME: &str = "hypervisor";
    if !present {
        return Finding::good(NAME, "no hypervisor is announced by the processor");
    }
    let state = match stolen {
        Some(share) => {
            format!("a virtual machine, from which {:.2} % of CPU time were taken since boot", share * 100.0)
        }
        None => "a virtual machine".to_owned(),
    };
    let cost = "the hypervisor may take the CPU away at any moment, for longer than a deadline, above all when it halts \
                because it has nothing to do";
    let remedy = "give the virtual CPUs physical ones of their own (on the hypervisor: \
                  virsh vcpupin DOMAIN VCPU CPU), or run the broker on bare metal; where neither can be, keep them from \
                  halting (realtime.awake = true)";
    if stolen.is_some_and(|share| share > 0.01) {
        Finding::poor(NAME, state, cost, remedy)
    } else {
        Finding::fair(NAME, state, cost, remedy)
    }
}

/// Parses a CPU list such as `0-3,8`; an empty text is an empty list.
fn parse_cpu_list(text: &str) -> Option<CpuList> {
    let text = text.trim();
    if text.is_empty() {
        return Some(CpuList::new());
    }
    text.split(',').map(parse_cpu_range).collect()
}

fn parse_cpu_range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// Takes the CPUs on which this process may run from the text of `/proc/self/status`.
fn parse_allowed(text: &str) -> Option<CpuList> {
    parse_cpu_list(text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// Says whether the processor announces a hypervisor, if it has flags at all.
fn parse_hypervisor(text: &str) -> Option<bool> {
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Takes the share of CPU time that went to other guests from the text of
/// `/proc/stat`. Guest time is left out, as it is part of user time already.
fn parse_stolen(text: &str) -> Option<f64> {
    let values = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = values
        .split_whitespace()
        .take(8)
        .map(|word| word.parse::<u64>().ok().map(|tick| tick as f64))
        .collect::<Option<_>>()?;
    let total: f64 = ticks.iter().sum();
    let stolen = ticks.get(7)?;
    (total > 0.0).then(|| stolen / total)
}

fn is_cpu_folder(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok())
}

fn count(list: &CpuList) -> u64 {
    list.iter().map(length).fold(0, u64::saturating_add)
}

fn length(range: &RangeInclusive<u32>) -> u64 {
    if range.is_empty() { 0 } else { u64::from(range.end() - range.start()) + 1 }
}

/// Counts the CPUs that are in both lists.
fn overlap(left: &CpuList, right: &CpuList) -> u64 {
    let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
    pairs
        .map(|(a, b)| length(&(*a.start().max(b.start())..=*a.end().min(b.end()))))
        .fold(0, u64::saturating_add)
}

fn write_cpu_list(list: &CpuList) -> String {
    let write = |range: &RangeInclusive<u32>| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    list.iter().map(write).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::super::tests::Fixture;
    use super::*;

    fn list(text: &str) -> CpuList {
        parse_cpu_list(text).unwrap()
    }

    #[test]
    fn a_cpu_list_holds_numbers_and_ranges() {
        assert_eq!(list("0-3,8\n"), [0..=3, 8..=8]);
        assert_eq!(list("\n"), []);
        assert_eq!(write_cpu_list(&list("0-3,8")), "0-3,8");
        for broken in ["a", "3-1", "1,,2", "-1", "0-99999999999"] {
            assert_eq!(parse_cpu_list(broken), None, "{broken}");
        }
    }

    #[test]
    fn cpus_are_counted_without_being_listed() {
        assert_eq!(count(&list("0-4294967295,7")), 4_294_967_297);
        assert_eq!(overlap(&list("0-3"), &list("2-127")), 2);
        assert_eq!(overlap(&list("0-1"), &list("2-3")), 0);
    }

    #[test]
    fn cpus_are_judged_by_number_and_isolation() {
        let all = list("0-127");
        assert_eq!(judge_cpus(&list("0"), &all, &list("")).health, Health::Poor);
        assert_eq!(judge_cpus(&list("0-3"), &list("2"), &list("")).health, Health::Poor);
        assert_eq!(judge_cpus(&list("0-3"), &all, &list("3")).health, Health::Good);
        let shared = judge_cpus(&list("0-3"), &all, &list(""));
        assert_eq!(shared.health, Health::Fair);
        assert!(shared.remedy.contains("isolcpus=3 nohz_full=3"));
    }

    #[test]
    fn the_allowed_cpus_stand_in_the_status() {
        assert_eq!(parse_allowed("Name:\tx\nCpus_allowed_list:\t0-1\n"), Some(list("0-1")));
        assert_eq!(parse_allowed("Name:\tx\n"), None);
    }

    #[test]
    fn one_slow_governor_among_several_is_reported() {
        let fixture = Fixture::new("governor");
        fixture.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        fixture.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n");
        fixture.write("/sys/devices/system/cpu/cpuidle/cpufreq/scaling_governor", "ignored\n");
        let finding = settle("frequency governor", governor(&fixture.host()));
        assert_eq!(finding.health, Health::Fair);
        assert_eq!(finding.state, "schedutil on 1 of 2 CPUs");
    }

    #[test]
    fn a_missing_or_fast_governor_is_good() {
        assert_eq!(judge_governors(&BTreeMap::new()).health, Health::Good);
        assert_eq!(judge_governors(&BTreeMap::from([("performance".to_owned(), 4)])).health, Health::Good);
    }

    #[test]
    fn the_hypervisor_flag_must_be_a_whole_word() {
        assert_eq!(parse_hypervisor("model: x\nflags\t\t: fpu hypervisor lahf_lm\n"), Some(true));
        assert_eq!(parse_hypervisor("flags\t\t: fpu nohypervisor\n"), Some(false));
        assert_eq!(parse_hypervisor("Features\t: fp asimd\n"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        assert_eq!(parse_stolen("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1\n"), Some(0.1));
        for broken in ["", "cpu  1 2 3\n", "cpu  a b c d e f g h\n", "cpu  0 0 0 0 0 0 0 0\n"] {
            assert_eq!(parse_stolen(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_hypervisor_is_fair_until_it_takes_time_away() {
        assert_eq!(judge_hypervisor(false, None).health, Health::Good);
        assert_eq!(judge_hypervisor(true, None).health, Health::Fair);
        assert_eq!(judge_hypervisor(true, Some(0.001)).health, Health::Fair);
        let poor = judge_hypervisor(true, Some(0.05));
        assert_eq!(poor.health, Health::Poor);
        assert!(poor.remedy.contains("realtime.awake = true"));
    }
}
