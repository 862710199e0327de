//! Made-up clusters, each twice: everything that is promised holds, and nothing depends on anything but the seed. `verge kv sim`
//! looks longer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which may use both processors")]

use kv_sim::{Findings, Weather, run};

/// Runs so many seeds on two threads; what happened in them.
fn all_hold(weather: Weather, seeds: u64) -> Findings {
    let half = |first: u64| {
        move || {
            let mut findings = Findings::default();
            for seed in (first..seeds).step_by(2) {
                let (once, again) = (run(seed, weather), run(seed, weather));
                assert!(once.violation.is_none(), "seed {seed} ({weather:?}): {}", once.violation.unwrap());
                assert_eq!(once.hash, again.hash, "seed {seed} ({weather:?}) is not deterministic");
                findings.add(&once.findings);
            }
            findings
        }
    };
    let threads = [0, 1].map(|first| std::thread::spawn(half(first)));
    threads.into_iter().map(|thread| thread.join().unwrap()).fold(Findings::default(), |mut sum, one| {
        sum.add(&one);
        sum
    })
}

/// Properties hold easily where nothing happens.
fn much_happens(found: Findings, seeds: u64) {
    for (name, count) in found.rows() {
        println!("{name}: {count}");
    }
    let least = [
        (found.jobs, 60),
        (found.values, 100),
        (found.reads_answered, 1_000),
        (found.lies, 10),
        (found.writes, 200),
    ];
    for (count, each) in least {
        assert!(count > each * seeds, "{found:?}");
    }
    assert!(found.rejoins > seeds / 10 && found.skipped > 0 && found.accusations > seeds);
}

#[test]
fn every_guarantee_holds_under_what_it_assumes() {
    let found = all_hold(Weather::Assumed, 300);
    much_happens(found, 300);
}

#[test]
fn what_holds_whatever_others_do_holds_under_anything() {
    let found = all_hold(Weather::Beyond, 300);
    much_happens(found, 300);
    assert!(found.late > 0 && found.disagreements > 0 && found.alarms > 0);
}
