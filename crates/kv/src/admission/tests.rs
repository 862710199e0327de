use super::*;
use crate::Key;

fn task(period_ms: i64, cost_us: i64) -> Task {
    let name = format!("every {period_ms} ms");
    Task { name, period: Span::millis(period_ms), cost: Span::micros(cost_us) }
}

fn config(period_ms: i64) -> Config {
    Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: vec![Key::named("a")],
        period: Span::millis(period_ms),
        ..Config::default()
    }
}

const LAN: Measured = Measured {
    job: Span::micros(300),
    tuple: Span::micros(1),
    latency: Span::micros(200),
    bytes_per_second: 12_500_000,
    clock_error: Span::micros(100),
};

#[test]
fn e9_four_tasks_of_1_ms_leave_46_of_50_ms() {
    let four = vec![task(50, 1_000); 4];
    assert_eq!(store_budget(&four, Span::millis(50)), Span::millis(46));
    assert_eq!(offset(&four, Span::millis(50), 0, 1), Span::millis(4));
    assert_eq!(offset(&four, Span::millis(48), 1, 3), Span::millis(20), "the second of three lanes");
}

#[test]
fn i11_responses_are_those_of_a_simulated_schedule() {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut fit, mut misfit) = (0, 0);
    for _ in 0..2_000 {
        let mut tasks: Vec<Task> = (0..random.usize(1..5))
            .map(|_| {
                let period = random.i64(3..30);
                Task { name: String::new(), period: Span(period), cost: Span(random.i64(1..=period.min(8))) }
            })
            .collect();
        tasks.sort_by_key(|task| task.period);
        for at in 0..tasks.len() {
            let computed = response_time(tasks[at].cost, &tasks[..at], tasks[at].period);
            let simulated = simulate(&tasks[..=at]).filter(|end| *end <= tasks[at].period.0);
            assert_eq!(computed.map(|span| span.0), simulated, "{tasks:?}");
            *(if computed.is_some() { &mut fit } else { &mut misfit }) += 1;
        }
    }
    assert!(fit > 500 && misfit > 500, "{fit} and {misfit}: both must be tried");
}

/// When the first job of the last task ends, if all are released together and the first in the list runs first.
fn simulate(tasks: &[Task]) -> Option<i64> {
    let mut left = vec![0; tasks.len()];
    for now in 0..200 {
        for (left, task) in left.iter_mut().zip(tasks) {
            if now % task.period.0 == 0 {
                *left += task.cost.0;
            }
        }
        // The work of the first job of the last task; later ones of it cannot be reached before.
        if let Some(running) = left.iter().position(|left| *left > 0) {
            left[running] -= 1;
            if running == tasks.len() - 1 && left[running] % tasks[running].cost.0 == 0 {
                return Some(now + 1);
            }
        }
    }
    None
}

#[test]
fn a_lane_that_fits_is_told_from_one_that_does_not() {
    let tasks = [task(50, 1_000), task(100, 2_000), task(200, 1_000)];
    let report = study(&config(50), &tasks, &LAN);
    assert!(report.holds(), "{report:?}");
    // 4 ms of tasks, 0.4 ms of processor time, two rounds of 11.5 ms.
    assert_eq!(report.demand, Span::micros(4_000 + 400 + 23_000));
    let more = [task(50, 1_000), task(100, 30_000)];
    let report = study(&config(50), &more, &LAN);
    assert!(!report.holds() && report.offset_min > report.offset && !report.store.holds());
}

#[test]
fn the_longest_batch_holds_and_one_more_does_not() {
    let tasks = [task(50, 4_000)];
    for bytes_per_second in [1_250_000, 12_500_000, 125_000_000] {
        let measured = Measured { bytes_per_second, ..LAN };
        let longest = longest_batch(&config(50), &tasks, &measured).unwrap();
        let with = |tuples| {
            let config = Config { batch_tuples_max: Some(tuples), ..config(50) };
            study(&config, &tasks, &measured).holds()
        };
        assert!(longest > 10 && with(longest) && !with(longest + 1), "{longest}");
    }
    let hopeless = Measured { latency: Span::millis(20), ..LAN };
    assert_eq!(longest_batch(&config(50), &tasks, &hopeless), None);
}
