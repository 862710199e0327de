//! Time: whether the clock agrees with that of other hosts, how dearly it is
//! read, and how late the host wakes a sleeping thread.

use std::io;
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use super::{Finding, Host, Unknown, settle};

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// An error bound that leaves most of a deadline of 100 ms to the network.
const CLOSE_MS: f64 = 10.0;

/// An error bound that is itself as long as a common deadline.
const LOOSE_MS: f64 = 100.0;

const SLEEP: Duration = Duration::from_millis(1);
const SLEEPS: usize = 50;

/// Examines the clock and measures wake-ups on the running host.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    let reading = read_clock().map_err(|error| Unknown {
        source: "adjtimex".to_owned(),
        reason: format!("was refused ({error})"),
        remedy: "run verge doctor outside any container, or timedatectl timesync-status".to_owned(),
    });
    vec![
        settle("clock synchronisation", reading.map(|reading| judge_clock(&reading))),
        settle("clock source", source(host)),
        judge_wakeups(&measure_wakeups()),
    ]
}

/// What the kernel believes about its own clock.
struct ClockReading {
    synchronised: bool,
    bound_ms: f64,
    estimate_ms: f64,
}

#[expect(unsafe_code, reason = "no library offers adjtimex")]
fn read_clock() -> io::Result<ClockReading> {
    let mut timex = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: timex is a plain C struct for which all zeroes are valid, and zero
    // modes ask the kernel to fill it in without changing the clock.
    let (code, timex) = unsafe { (libc::adjtimex(timex.as_mut_ptr()), timex.assume_init()) };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ClockReading {
        synchronised: timex.status & libc::STA_UNSYNC == 0,
        bound_ms: timex.maxerror as f64 / 1000.0,
        estimate_ms: timex.esterror as f64 / 1000.0,
    })
}

/// Measures by how much each of several short sleeps lasts too long.
fn measure_wakeups() -> Vec<Duration> {
    let overshoot = |_| {
        let start = Instant::now();
        thread::sleep(SLEEP);
        start.elapsed().saturating_sub(SLEEP)
    };
    (0..SLEEPS).map(overshoot).collect()
}

fn source(host: &Host) -> Result<Finding, Unknown> {
    let current = host.read(SOURCE)?;
    let available = host.read(AVAILABLE).unwrap_or_default();
    Ok(judge_source(current.trim(), &available))
}

fn judge_clock(reading: &ClockReading) -> Finding {
    const NAME: &str = "clock synchronisation";
    const START: &str = "sudo timedatectl set-ntp true, or sudo apt install chrony";
    const REFINE: &str = "use a nearer time server (`server HOST iburst` in /etc/chrony/chrony.conf) or PTP; \
                          watch it with chronyc tracking";
    if !reading.synchronised {
        return Finding::poor(
            NAME,
            "the clock is not synchronised, so its error has no bound in ms",
            "deadlines across hosts are measured with it and mean nothing",
            START,
        );
    }
    let ClockReading { bound_ms, estimate_ms, .. } = reading;
    let state = format!(
        "synchronised within {bound_ms:.1} ms (estimated error {estimate_ms:.1} ms); \
         deadlines across hosts are measured with this clock"
    );
    let cost = format!("deadlines across hosts are uncertain by up to {bound_ms:.1} ms on this side");
    match *bound_ms {
        ..=CLOSE_MS => Finding::good(NAME, state),
        ..=LOOSE_MS => Finding::fair(NAME, state, cost, REFINE),
        _ => Finding::poor(NAME, state, cost, REFINE),
    }
}

fn judge_source(current: &str, available: &str) -> Finding {
    const NAME: &str = "clock source";
    let fast = |name: &&str| {
        matches!(*name, "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter")
            || matches!(*name, "riscv_clocksource" | "timebase" | "tod")
    };
    let state = format!("the kernel reads time from {current}");
    if fast(&current) {
        return Finding::good(NAME, state);
    }
    let remedy = match available.split_whitespace().find(fast) {
        Some(better) => format!("echo {better} | sudo tee {SOURCE}"),
        None => "if the processor's TSC is invariant (nonstop_tsc in /proc/cpuinfo), add tsc=reliable to \
                 GRUB_CMDLINE_LINUX in /etc/default/grub, then sudo update-grub && sudo reboot"
            .to_owned(),
    };
    match current {
        "hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies" | "hyperv_clocksource_msr" => {
            Finding::poor(NAME, state, "each look at the clock takes microseconds or is too coarse", remedy)
        }
        _ => Finding::fair(NAME, state, "each look at the clock may need a slow system call", remedy),
    }
}

fn judge_wakeups(overshoots: &[Duration]) -> Finding {
    const NAME: &str = "wake-up jitter";
    let worst = overshoots.iter().max().copied().unwrap_or_default();
    let state = format!(
        "worst wake-up {} µs late (measured: {} sleeps of {} ms in the doctor's own thread)",
        worst.as_micros(),
        overshoots.len(),
        SLEEP.as_millis()
    );
    let cost = format!("a message that finds the data thread asleep may wait {} µs", worst.as_micros());
    let remedy = "mend the findings above, then measure with real-time rights: sudo chrt -f 50 verge doctor";
    if worst < Duration::from_micros(200) {
        Finding::good(NAME, state)
    } else if worst < Duration::from_millis(2) {
        Finding::fair(NAME, state, cost, remedy)
    } else {
        Finding::poor(NAME, state, cost, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::super::tests::Fixture;
    use super::*;

    fn clock(synchronised: bool, bound_ms: f64) -> Finding {
        judge_clock(&ClockReading { synchronised, bound_ms, estimate_ms: 0.5 })
    }

    #[test]
    fn the_kernel_says_what_it_believes_about_its_clock() {
        if let Ok(reading) = read_clock() {
            assert!(reading.bound_ms >= 0.0);
        }
    }

    #[test]
    fn a_synchronised_clock_is_judged_by_its_error_bound() {
        assert_eq!(clock(true, 3.2).health, Health::Good);
        assert!(clock(true, 3.2).state.contains("within 3.2 ms (estimated error 0.5 ms)"));
        assert_eq!(clock(true, 40.0).health, Health::Fair);
        assert_eq!(clock(true, 400.0).health, Health::Poor);
        assert_eq!(clock(true, f64::NAN).health, Health::Poor);
    }

    #[test]
    fn an_unsynchronised_clock_is_poor_whatever_its_bound() {
        assert_eq!(clock(false, 0.0).health, Health::Poor);
    }

    #[test]
    fn fast_clock_sources_are_good_and_slow_ones_poor() {
        for fast in ["tsc", "kvm-clock", "arch_sys_counter"] {
            assert_eq!(judge_source(fast, "").health, Health::Good, "{fast}");
        }
        for slow in ["hpet", "acpi_pm", "jiffies"] {
            assert_eq!(judge_source(slow, "").health, Health::Poor, "{slow}");
        }
        assert_eq!(judge_source("sundial", "").health, Health::Fair);
    }

    #[test]
    fn a_better_source_is_advised_where_the_host_has_one() {
        let fixture = Fixture::new("clock-source");
        fixture.write(SOURCE, "hpet\n");
        let remedy = || settle("clock source", source(&fixture.host())).remedy;
        assert!(remedy().contains("tsc=reliable"));
        fixture.write(AVAILABLE, "hpet acpi_pm tsc \n");
        assert!(remedy().starts_with("echo tsc | sudo tee"));
    }

    #[test]
    fn wake_ups_are_judged_by_the_worst() {
        let judge = |worst| judge_wakeups(&[Duration::from_micros(60), Duration::from_micros(worst)]);
        assert_eq!(judge(199).health, Health::Good);
        assert_eq!(judge(200).health, Health::Fair);
        assert_eq!(judge(2000).health, Health::Poor);
        assert!(judge(350).state.contains("350 µs late (measured: 2 sleeps of 1 ms"));
        assert_eq!(judge_wakeups(&[]).health, Health::Good);
    }

    #[test]
    fn every_sleep_is_measured() {
        assert_eq!(measure_wakeups().len(), SLEEPS);
    }
}
