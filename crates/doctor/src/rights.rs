//! What the kernel lets this process do: real-time scheduling, locked memory and
//! open files. All three are read from `/proc/self`, which a started broker
//! shares with the shell or service manager that also starts the doctor.

use super::{Finding, Host, Unknown, settle, size};

const LIMITS: &str = "/proc/self/limits";
const STATUS: &str = "/proc/self/status";
const USER_MAP: &str = "/proc/self/uid_map";

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

/// How the limits file's word "unlimited" is represented.
const UNLIMITED: u64 = u64::MAX;

/// The highest SCHED_FIFO priority that the data thread is expected to ask for.
const WANTED_PRIORITY: u64 = 50;

/// The connections that a broker is built to hold at once.
const WANTED_CONNECTIONS: u64 = 10_000;

/// Descriptors that a broker needs besides its connections: logs, timers, epoll.
const OWN_DESCRIPTORS: u64 = 64;

/// The limit to ask for, with room above the wanted connections.
const ADVISED_FILES: u64 = 65_536;

/// Examines the rights of this process.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    vec![
        settle("real-time rights", real_time(host)),
        settle("locked memory", locked_memory(host)),
        settle("open files", open_files(host)),
    ]
}

/// A resource limit as the kernel enforces it (soft) and lets it be raised (hard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// The part of a process's identity by which the kernel grants privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    user: u32,
    capabilities: u64,
    /// Scheduling and locking heed only capabilities of the initial user
    /// namespace; those of a rootless container do not count.
    initial_namespace: bool,
}

impl Identity {
    fn holds(self, capability: u32) -> bool {
        self.initial_namespace && self.capabilities & (1 << capability) != 0
    }

    /// Says who is running, and why that is not enough where it looks as if it were.
    fn describe(self, capability: u32, title: &str) -> String {
        let shown = self.capabilities & (1 << capability) != 0;
        match (shown, self.initial_namespace) {
            (true, true) => format!("uid {} with {title}", self.user),
            (true, false) => format!("uid {} with {title} only inside a user namespace", self.user),
            (false, _) => format!("uid {} without {title}", self.user),
        }
    }
}

fn real_time(host: &Host) -> Result<Finding, Unknown> {
    let limit = host.parse(LIMITS, |text| parse_limit(text, "Max realtime priority"))?;
    Ok(judge_real_time(limit, identity(host)?))
}

fn locked_memory(host: &Host) -> Result<Finding, Unknown> {
    let limit = host.parse(LIMITS, |text| parse_limit(text, "Max locked memory"))?;
    Ok(judge_locked_memory(limit, identity(host)?))
}

fn open_files(host: &Host) -> Result<Finding, Unknown> {
    host.parse(LIMITS, |text| parse_limit(text, "Max open files")).map(judge_open_files)
}

fn identity(host: &Host) -> Result<Identity, Unknown> {
    let (user, capabilities) = host.parse(STATUS, parse_status)?;
    let map = host.read_if_present(USER_MAP)?;
    let initial_namespace = map.is_none_or(|text| maps_every_user(&text));
    Ok(Identity { user, capabilities, initial_namespace })
}

fn judge_real_time(limit: Limit, identity: Identity) -> Finding {
    const NAME: &str = "real-time rights";
    let who = identity.describe(CAP_SYS_NICE, "CAP_SYS_NICE");
    let remedy = format!(
        "put `* - rtprio {WANTED_PRIORITY}` into /etc/security/limits.d/verge.conf and log in again \
         (systemd unit: LimitRTPRIO={WANTED_PRIORITY}; container: --cap-add=SYS_NICE)"
    );
    if identity.holds(CAP_SYS_NICE) {
        return Finding::good(NAME, format!("{who} may use SCHED_FIFO at any priority"));
    }
    match limit.soft {
        0 => Finding::poor(
            NAME,
            format!("{who} may not use SCHED_FIFO (RLIMIT_RTPRIO is 0)"),
            "the data thread waits behind every ordinary task, so deadlines hold only on an idle host",
            remedy,
        ),
        1..WANTED_PRIORITY => Finding::fair(
            NAME,
            format!("{who} may use SCHED_FIFO up to priority {}", limit.soft),
            format!("a data thread that asks for a priority up to {WANTED_PRIORITY} may be refused"),
            remedy,
        ),
        UNLIMITED => Finding::good(NAME, format!("{who} may use SCHED_FIFO at any priority (RLIMIT_RTPRIO)")),
        priority => Finding::good(NAME, format!("{who} may use SCHED_FIFO up to priority {priority}")),
    }
}

fn judge_locked_memory(limit: Limit, identity: Identity) -> Finding {
    const NAME: &str = "locked memory";
    const REMEDY: &str = "put `* - memlock unlimited` into /etc/security/limits.d/verge.conf and log in again \
                          (systemd unit: LimitMEMLOCK=infinity; container: --ulimit memlock=-1)";
    let who = identity.describe(CAP_IPC_LOCK, "CAP_IPC_LOCK");
    if identity.holds(CAP_IPC_LOCK) || limit.soft == UNLIMITED {
        return Finding::good(NAME, format!("{who} may lock all memory"));
    }
    let state = format!("{who} may lock {} (RLIMIT_MEMLOCK)", size(limit.soft));
    let cost =
        "a broker locks nothing under a limit, and a page fault in its data thread may wait for a disk";
    Finding::poor(NAME, state, cost, REMEDY)
}

fn judge_open_files(limit: Limit) -> Finding {
    const NAME: &str = "open files";
    if limit.soft >= WANTED_CONNECTIONS + OWN_DESCRIPTORS {
        let state = match limit.soft {
            UNLIMITED => "any number of open files is allowed".to_owned(),
            files => format!("{files} open files are allowed, enough for {WANTED_CONNECTIONS} connections"),
        };
        return Finding::good(NAME, state);
    }
    let connections = limit.soft.saturating_sub(OWN_DESCRIPTORS);
    let state = format!("{} open files are allowed (RLIMIT_NOFILE)", limit.soft);
    let cost = format!("clients beyond about {connections} of {WANTED_CONNECTIONS} connections are refused");
    let remedy = if limit.hard >= ADVISED_FILES {
        format!(
            "run `ulimit -Sn {ADVISED_FILES}` before starting verge (systemd unit: LimitNOFILE={ADVISED_FILES})"
        )
    } else {
        format!(
            "put `* - nofile {ADVISED_FILES}` into /etc/security/limits.d/verge.conf and log in again \
             (systemd unit: LimitNOFILE={ADVISED_FILES}; container: --ulimit nofile={ADVISED_FILES})"
        )
    };
    if limit.soft < 1024 {
        Finding::poor(NAME, state, cost, remedy)
    } else {
        Finding::fair(NAME, state, cost, remedy)
    }
}

/// Finds the limit called `title` in the text of `/proc/self/limits`.
fn parse_limit(text: &str, title: &str) -> Option<Limit> {
    let values = text.lines().find_map(|line| line.strip_prefix(title))?;
    let mut words = values.split_whitespace();
    Some(Limit { soft: parse_bound(words.next()?)?, hard: parse_bound(words.next()?)? })
}

fn parse_bound(word: &str) -> Option<u64> {
    if word == "unlimited" { Some(UNLIMITED) } else { word.parse().ok() }
}

/// Takes the effective user and capabilities from the text of `/proc/self/status`.
fn parse_status(text: &str) -> Option<(u32, u64)> {
    let field = |title: &str| text.lines().find_map(|line| line.strip_prefix(title));
    let user = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
    Some((user, capabilities))
}

/// Says whether a user map is that of the initial user namespace, which alone
/// maps every user to itself.
fn maps_every_user(text: &str) -> bool {
    text.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max open files            1024                 524288               files     \n\
                          Max locked memory         8388608              unlimited            bytes     \n\
                          Max realtime priority     0                    0                    \n";
    const NOBODY: Identity = Identity { user: 1000, capabilities: 0, initial_namespace: true };
    const ROOT: Identity = Identity { user: 0, capabilities: u64::MAX, initial_namespace: true };

    fn limit(soft: u64) -> Limit {
        Limit { soft, hard: soft }
    }

    #[test]
    fn limits_are_found_by_their_title() {
        assert_eq!(parse_limit(LIMITS, "Max open files"), Some(Limit { soft: 1024, hard: 524_288 }));
        assert_eq!(parse_limit(LIMITS, "Max locked memory"), Some(Limit { soft: 8 << 20, hard: UNLIMITED }));
        assert_eq!(parse_limit(LIMITS, "Max realtime priority"), Some(limit(0)));
    }

    #[test]
    fn a_missing_or_broken_limit_is_not_a_limit() {
        assert_eq!(parse_limit("", "Max open files"), None);
        assert_eq!(parse_limit("Max open files", "Max open files"), None);
        assert_eq!(parse_limit("Max open files 12 -1 files", "Max open files"), None);
        assert_eq!(parse_limit("Max open files 99999999999999999999 1", "Max open files"), None);
    }

    #[test]
    fn the_effective_user_and_capabilities_are_taken_from_the_status() {
        let text = "Name:\tverge\nUid:\t1000\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
        assert_eq!(parse_status(text), Some((0, 0x1ff_ffff_ffff)));
        assert_eq!(parse_status("Uid:\t1000\nCapEff:\tzz\n"), None);
        assert_eq!(parse_status(""), None);
    }

    #[test]
    fn only_the_initial_namespace_maps_every_user() {
        assert!(maps_every_user("         0          0 4294967295\n"));
        assert!(!maps_every_user("         0       1000          1\n"));
        assert!(!maps_every_user(""));
    }

    #[test]
    fn a_priority_limit_of_zero_forbids_real_time_scheduling() {
        let finding = judge_real_time(limit(0), NOBODY);
        assert_eq!(finding.health, Health::Poor);
        assert!(finding.state.contains("uid 1000 without CAP_SYS_NICE"));
        assert!(finding.remedy.contains("rtprio 50"));
    }

    #[test]
    fn a_low_priority_limit_is_fair_and_a_sufficient_one_is_good() {
        assert_eq!(judge_real_time(limit(10), NOBODY).health, Health::Fair);
        assert_eq!(judge_real_time(limit(50), NOBODY).health, Health::Good);
        assert_eq!(judge_real_time(limit(UNLIMITED), NOBODY).health, Health::Good);
    }

    #[test]
    fn a_capability_counts_only_in_the_initial_user_namespace() {
        assert_eq!(judge_real_time(limit(0), ROOT).health, Health::Good);
        assert_eq!(judge_locked_memory(limit(0), ROOT).health, Health::Good);
        let inside = Identity { initial_namespace: false, ..ROOT };
        let finding = judge_real_time(limit(0), inside);
        assert_eq!(finding.health, Health::Poor);
        assert!(finding.state.contains("only inside a user namespace"));
    }

    #[test]
    fn the_root_user_of_a_container_without_the_capability_is_refused() {
        let stripped = Identity { capabilities: 0, ..ROOT };
        assert_eq!(judge_real_time(limit(0), stripped).health, Health::Poor);
    }

    #[test]
    fn locked_memory_is_judged_by_its_limit() {
        let finding = judge_locked_memory(limit(8 << 20), NOBODY);
        assert_eq!(finding.health, Health::Poor);
        assert!(finding.state.contains("8 MiB"));
        assert_eq!(judge_locked_memory(limit(1 << 40), NOBODY).health, Health::Poor);
        assert_eq!(judge_locked_memory(limit(UNLIMITED), NOBODY).health, Health::Good);
    }

    #[test]
    fn open_files_are_judged_by_the_connections_they_leave_room_for() {
        assert_eq!(judge_open_files(limit(512)).health, Health::Poor);
        assert_eq!(judge_open_files(limit(10_000)).health, Health::Fair);
        assert_eq!(judge_open_files(limit(10_064)).health, Health::Good);
        assert_eq!(judge_open_files(limit(UNLIMITED)).health, Health::Good);
        let finding = judge_open_files(Limit { soft: 1024, hard: 524_288 });
        assert!(finding.cost.contains("beyond about 960"));
        assert!(finding.remedy.starts_with("run `ulimit -Sn 65536`"));
    }
}
