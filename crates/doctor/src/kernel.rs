//! How the kernel schedules: whether it can be preempted while it works, and
//! how much of a CPU it leaves to real-time threads.

use super::{Finding, Host, Unknown, chosen, number, settle};
use host::FairServer;

const VERSION: &str = "/proc/version";
const COMMAND_LINE: &str = "/proc/cmdline";
const REALTIME: &str = "/sys/kernel/realtime";
const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";
const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

/// Examines how the kernel schedules.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    vec![
        settle("kernel preemption", preemption(host)),
        settle("real-time throttling", throttling(host)),
        judge_fair_server(FairServer::of(host.root)),
    ]
}

/// When the kernel lets a woken thread interrupt its own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preemption {
    Realtime,
    Full,
    Lazy,
    Voluntary,
    Never,
    /// The mode is chosen at boot or run time, and this user may not see which.
    Dynamic,
    /// The version names no model, as that of voluntary and of server kernels.
    Unnamed,
}

fn preemption(host: &Host) -> Result<Finding, Unknown> {
    // Each of these may be missing or forbidden; the version then decides alone.
    let realtime = host.read(REALTIME).ok();
    let debug = host.read(PREEMPT).ok();
    let command_line = host.read(COMMAND_LINE).ok();
    if realtime.as_deref().and_then(number::<u8>) == Some(1) {
        return Ok(judge_preemption(Preemption::Realtime));
    }
    let built = host.parse(VERSION, parse_version)?;
    if built != Preemption::Dynamic {
        return Ok(judge_preemption(built));
    }
    let current = debug.as_deref().and_then(parse_debug);
    let at_boot = command_line.as_deref().and_then(parse_command_line);
    Ok(judge_preemption(current.or(at_boot).unwrap_or(built)))
}

fn throttling(host: &Host) -> Result<Finding, Unknown> {
    let runtime = host.parse(RUNTIME, number::<i64>)?;
    let period = host.parse(PERIOD, number::<i64>)?;
    Ok(judge_throttling(runtime, period))
}

fn judge_preemption(preemption: Preemption) -> Finding {
    const NAME: &str = "kernel preemption";
    const INSTALL: &str = "install a PREEMPT_RT kernel (Debian: sudo apt install linux-image-rt-amd64; \
                           Ubuntu: sudo pro enable realtime-kernel)";
    const SWITCH: &str = "add preempt=full to GRUB_CMDLINE_LINUX in /etc/default/grub, then \
                          sudo update-grub && sudo reboot";
    let bounded = "kernel work under a spinlock or in an interrupt can delay the data thread, \
                   seldom by more than 1 ms but without a bound";
    let unbounded = "a long system call of any process can delay the data thread by several milliseconds";
    match preemption {
        Preemption::Realtime => Finding::good(NAME, "the kernel is fully preemptible (PREEMPT_RT)"),
        Preemption::Full => Finding::fair(NAME, "the kernel preempts fully, without RT", bounded, INSTALL),
        Preemption::Lazy => Finding::fair(NAME, "the kernel preempts lazily, without RT", bounded, INSTALL),
        Preemption::Voluntary => {
            Finding::fair(NAME, "the kernel yields only voluntarily (preempt=voluntary)", unbounded, SWITCH)
        }
        Preemption::Never => {
            Finding::poor(NAME, "the kernel is not preemptible (preempt=none)", unbounded, SWITCH)
        }
        Preemption::Dynamic => Finding::fair(
            NAME,
            "the kernel is PREEMPT_DYNAMIC, in a mode that is not to be seen here",
            "unless the mode is full or lazy, a long system call can delay the data thread by milliseconds",
            format!("see the mode with sudo cat {PREEMPT}; to set it, {SWITCH}"),
        ),
        Preemption::Unnamed => Finding::fair(
            NAME,
            "the kernel was built without full preemption (/proc/version names none)",
            unbounded,
            INSTALL,
        ),
    }
}

fn judge_throttling(runtime_us: i64, period_us: i64) -> Finding {
    const NAME: &str = "real-time throttling";
    const REMEDY: &str = "put `kernel.sched_rt_runtime_us = -1` into /etc/sysctl.d/90-verge.conf, then \
                          sudo sysctl --system";
    if runtime_us < 0 || (runtime_us >= period_us && period_us > 0) {
        return Finding::good(NAME, "real-time threads may use all of a CPU");
    }
    let (runtime, period) = (milliseconds(runtime_us), milliseconds(period_us));
    let state = format!("real-time threads may use {runtime} ms of every {period} ms");
    if runtime_us == 0 {
        return Finding::poor(NAME, state, "the data thread gets no real-time share at all", REMEDY);
    }
    let pause = milliseconds(period_us.saturating_sub(runtime_us));
    let cost = format!("a data thread busy without pause loses up to {pause} ms of every {period} ms");
    // The kernel's own default is 95 %; a tenth lost is well beyond it.
    if runtime_us >= period_us / 10 * 9 {
        Finding::fair(NAME, state, cost, REMEDY)
    } else {
        Finding::poor(NAME, state, cost, REMEDY)
    }
}

fn judge_fair_server(server: FairServer) -> Finding {
    const NAME: &str = "fair server";
    const COST: &str = "where operators, or other real-time threads, want more than the CPUs give, the data thread stands still for \
                        up to 50 ms of each second";
    const REMEDY: &str = "at every boot: echo 0 | sudo tee /sys/kernel/debug/sched/fair_server/cpu*/runtime";
    match server {
        FairServer::Absent => Finding::good(NAME, "Linux has none before 6.12"),
        FairServer::Off => Finding::good(NAME, "it is turned off on all CPUs"),
        FairServer::On(nanos) => {
            let most = milliseconds(i64::try_from(nanos / 1_000).unwrap_or(i64::MAX));
            let state = format!(
                "other threads get {most} ms of each second of a CPU that real-time threads keep busy"
            );
            Finding::fair(NAME, state, COST, REMEDY)
        }
        FairServer::Hidden => Finding::fair(
            NAME,
            "unknown: /sys/kernel/debug/sched/fair_server could not be read; Linux has one since 6.12",
            COST,
            REMEDY,
        ),
    }
}

fn milliseconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1000.0
}

/// Takes the preemption model from the text of `/proc/version`, where it stands
/// among the words after the build number.
fn parse_version(text: &str) -> Option<Preemption> {
    let (_, build) = text.rsplit_once('#')?;
    let has = |word: &str| build.split_whitespace().any(|candidate| candidate == word);
    Some(if has("PREEMPT_RT") || (has("PREEMPT") && has("RT")) {
        Preemption::Realtime
    } else if has("PREEMPT_DYNAMIC") {
        Preemption::Dynamic
    } else if has("PREEMPT_LAZY") {
        Preemption::Lazy
    } else if has("PREEMPT") {
        Preemption::Full
    } else {
        Preemption::Unnamed
    })
}

/// Takes the current mode from the scheduler's debug file, where it stands in brackets.
fn parse_debug(text: &str) -> Option<Preemption> {
    parse_mode(chosen(text, '(', ')')?)
}

/// Takes the mode from the kernel's command line, where the last mention counts.
fn parse_command_line(text: &str) -> Option<Preemption> {
    text.split_whitespace().filter_map(|word| parse_mode(word.strip_prefix("preempt=")?)).next_back()
}

fn parse_mode(word: &str) -> Option<Preemption> {
    match word {
        "none" => Some(Preemption::Never),
        "voluntary" => Some(Preemption::Voluntary),
        "full" => Some(Preemption::Full),
        "lazy" => Some(Preemption::Lazy),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::super::tests::Fixture;
    use super::*;

    const DYNAMIC: &str = "Linux version 6.8.0 (me@host) (gcc 13) #40-Ubuntu SMP PREEMPT_DYNAMIC Fri Jul 5\n";

    #[test]
    fn the_version_names_the_preemption_model() {
        let model = |words: &str| parse_version(&format!("Linux version 6.1.0 (a@PREEMPT) #1 {words} Fri"));
        assert_eq!(model("SMP PREEMPT_RT"), Some(Preemption::Realtime));
        assert_eq!(model("SMP PREEMPT RT"), Some(Preemption::Realtime));
        assert_eq!(model("SMP PREEMPT_DYNAMIC"), Some(Preemption::Dynamic));
        assert_eq!(model("SMP PREEMPT"), Some(Preemption::Full));
        assert_eq!(model("SMP"), Some(Preemption::Unnamed));
        assert_eq!(parse_version("nonsense"), None);
    }

    #[test]
    fn the_debug_file_marks_the_current_mode() {
        assert_eq!(parse_debug("none voluntary (full)\n"), Some(Preemption::Full));
        assert_eq!(parse_debug("none voluntary full (lazy)\n"), Some(Preemption::Lazy));
        assert_eq!(parse_debug("none voluntary full\n"), None);
    }

    #[test]
    fn the_last_mode_on_the_command_line_counts() {
        assert_eq!(parse_command_line("quiet preempt=none preempt=full"), Some(Preemption::Full));
        assert_eq!(parse_command_line("quiet preempt=sideways"), None);
        assert_eq!(parse_command_line(""), None);
    }

    #[test]
    fn a_dynamic_kernel_is_judged_by_the_mode_it_runs_in() {
        let fixture = Fixture::new("preempt");
        fixture.write(VERSION, DYNAMIC);
        let state = || settle("kernel preemption", preemption(&fixture.host())).state;
        assert!(state().contains("PREEMPT_DYNAMIC"));
        fixture.write(COMMAND_LINE, "quiet preempt=voluntary\n");
        assert!(state().contains("voluntarily"));
        fixture.write(PREEMPT, "(none) voluntary full\n");
        assert!(state().contains("not preemptible"));
        fixture.write(REALTIME, "1\n");
        assert!(state().contains("PREEMPT_RT"));
    }

    #[test]
    fn only_a_real_time_kernel_is_good_and_only_an_unpreemptible_one_poor() {
        assert_eq!(judge_preemption(Preemption::Realtime).health, Health::Good);
        assert_eq!(judge_preemption(Preemption::Full).health, Health::Fair);
        assert_eq!(judge_preemption(Preemption::Lazy).health, Health::Fair);
        assert_eq!(judge_preemption(Preemption::Voluntary).health, Health::Fair);
        assert_eq!(judge_preemption(Preemption::Dynamic).health, Health::Fair);
        assert_eq!(judge_preemption(Preemption::Unnamed).health, Health::Fair);
        assert_eq!(judge_preemption(Preemption::Never).health, Health::Poor);
    }

    #[test]
    fn throttling_costs_the_part_of_the_period_that_is_withheld() {
        let finding = judge_throttling(950_000, 1_000_000);
        assert_eq!(finding.health, Health::Fair);
        assert!(finding.cost.contains("loses up to 50 ms of every 1000 ms"));
        assert_eq!(judge_throttling(500_000, 1_000_000).health, Health::Poor);
        assert_eq!(judge_throttling(0, 1_000_000).health, Health::Poor);
    }

    #[test]
    fn throttling_that_withholds_nothing_is_good() {
        assert_eq!(judge_throttling(-1, 1_000_000).health, Health::Good);
        assert_eq!(judge_throttling(1_000_000, 1_000_000).health, Health::Good);
    }

    #[test]
    fn a_fair_server_that_may_act_is_told_of() {
        let on = judge_fair_server(FairServer::On(50_000_000));
        assert_eq!(on.health, Health::Fair);
        assert!(on.state.contains("get 50 ms of each second"), "{on:?}");
        assert_eq!(judge_fair_server(FairServer::Hidden).health, Health::Fair);
        assert_eq!(judge_fair_server(FairServer::On(u64::MAX)).health, Health::Fair);
        assert_eq!(judge_fair_server(FairServer::Off).health, Health::Good);
        assert_eq!(judge_fair_server(FairServer::Absent).health, Health::Good);
    }

    #[test]
    fn absurd_throttling_values_are_judged_without_a_panic() {
        for runtime in [i64::MIN, -1, 0, 1, i64::MAX] {
            for period in [i64::MIN, -1, 0, 1, i64::MAX] {
                judge_throttling(runtime, period);
            }
        }
    }
}
