//! Modules that do not end: what fuel they burn in a microsecond, and when they are stopped. And what asking the clock costs
//! those that do. Prints JSON; `bench/modules/measure.py` makes a page of it.
//!
//! Usage: `verge-bench-modules RUNS`.

mod kinds;

use contract::Time;
use kinds::{Kind, honest, module};
use mimalloc::MiMalloc;
use processing::{Element, Fault, Input, Operator, Parameters, PayloadType, Setup};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use wasm::{Clock, Limits, MEMORY_BYTES_MAX, Sandbox};

/// As the program has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Serialize)]
struct Report {
    runs: usize,
    pace: u64,
    budget_us: f64,
    stopped: Vec<Stopped>,
    asking: Vec<Asking>,
    /// What the wall's clock takes, and the processor's.
    clock_ns: [f64; 2],
}

/// A kind of module that does not end.
#[derive(Serialize)]
struct Stopped {
    kind: &'static str,
    /// Fuel in a microsecond of the processor, in the median and in the slowest run.
    fuel_per_us: f64,
    fuel_per_us_least: f64,
    /// The processor's time until a run with a budget of 1 ms was stopped.
    stopped_us: Spread,
    /// And what beginning anew took then.
    anew_us: Spread,
    /// Both by the wall's clock.
    took_us: Spread,
}

#[derive(Serialize)]
struct Spread {
    median: f64,
    p99: f64,
    max: f64,
}

/// What runs that end take, with the clock and without.
#[derive(Serialize)]
struct Asking {
    rounds: u32,
    fuel: u64,
    without_us: f64,
    with_us: f64,
}

fn main() {
    let runs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_usize).max(2);
    let limits = Limits { memory_bytes_max: MEMORY_BYTES_MAX, ..Limits::default() };
    let report = Report {
        runs,
        pace: limits.fuel_per_micro,
        budget_us: limits.budget.as_millis_f64() * 1e3,
        stopped: kinds::ALL.iter().map(|kind| stopped(kind, runs, &limits)).collect(),
        asking: [1, 10, 100, 300, 1_000, 3_000, 10_000].map(|rounds| asking(rounds, &limits)).into(),
        clock_ns: [clock_ns(wall), clock_ns(worked)],
    };
    println!("{}", serde_json::to_string(&report).unwrap_or_default());
}

fn worked() -> Time {
    time_of(ClockId::ThreadCPUTime)
}

fn wall() -> Time {
    time_of(ClockId::Monotonic)
}

fn time_of(clock: ClockId) -> Time {
    let time = clock_gettime(clock);
    Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

thread_local! {
    /// What this thread had worked when a run last asked.
    static ASKED: Cell<Time> = const { Cell::new(Time::ZERO) };
}

/// Clocks that note when they are asked. Whatever is stopped is stopped when it asks.
fn noting() -> Clock {
    let wall = || {
        ASKED.set(worked());
        wall()
    };
    let worked = || {
        ASKED.set(worked());
        ASKED.get()
    };
    Clock { wall: Arc::new(wall), worked: Arc::new(worked) }
}

fn bare() -> Clock {
    Clock { wall: Arc::new(wall), worked: Arc::new(worked) }
}

fn sandbox(bytes: &[u8], limits: &Limits, clock: &Clock) -> Sandbox {
    let inputs = [PayloadType::Array(Element::F64)];
    let setup = Setup { inputs: &inputs, parameters: &Parameters::new() };
    match Sandbox::new(bytes, "bench", &setup, limits, clock) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}

/// One run. Returns when it last asked, what it worked, and what it took.
fn run(sandbox: &mut Sandbox, input: f64, output: &mut Vec<u8>) -> ([f64; 3], Option<Fault>) {
    let payload = input.to_le_bytes();
    let inputs = [Input { slot: 0, payload: &payload, created: Time::ZERO }];
    output.clear();
    let (began, at) = (Instant::now(), worked());
    let answer = sandbox.run(&inputs, output);
    let used = worked();
    let micros = |until: Time| until.since(at).as_millis_f64() * 1e3;
    ([micros(ASKED.get()), micros(used), began.elapsed().as_secs_f64() * 1e6], answer.err())
}

fn stopped(kind: &Kind, runs: usize, limits: &Limits) -> Stopped {
    let mut endless = sandbox(&module(kind), limits, &noting());
    let mut output = Vec::new();
    let (mut rates, mut stopped_us, mut anew_us, mut took_us) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let ([asked, worked, took], fault) = run(&mut endless, 1.0, &mut output);
        if !matches!(fault, Some(Fault::Runaway { .. })) {
            eprintln!("{}: {fault:?} instead of being stopped", kind.name);
            std::process::exit(1);
        }
        // What may not grow is stopped without a question.
        let asked = asked.max(0.0);
        rates.push(if asked > 0.0 { endless.fuel_used() as f64 / asked } else { 0.0 });
        stopped_us.push(asked);
        anew_us.push(worked - asked);
        took_us.push(took);
    }
    let rates = sorted(rates);
    Stopped {
        kind: kind.name,
        fuel_per_us: rates[runs / 2],
        fuel_per_us_least: rates[0],
        stopped_us: spread(stopped_us),
        anew_us: spread(anew_us),
        took_us: spread(took_us),
    }
}

/// An honest module of so many rounds, with the clock and as if a single slice were enough for all, in turns.
fn asking(rounds: u32, limits: &Limits) -> Asking {
    const TURNS: usize = 2_000;
    let bytes = honest(rounds);
    let mut with = sandbox(&bytes, limits, &bare());
    let mut without =
        sandbox(&bytes, &Limits { fuel_per_micro: u64::MAX / 1_000_000, ..limits.clone() }, &bare());
    let mut output = Vec::with_capacity(64);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (sandbox, times) in [&mut without, &mut with].into_iter().zip(&mut times) {
            times.push(run(sandbox, 1.0, &mut output).0[2]);
        }
    }
    let [without_us, with_us] = times.map(|times| sorted(times)[TURNS / 2]);
    Asking { rounds, fuel: with.fuel_used(), without_us, with_us }
}

/// What asking a clock takes where nothing comes between.
fn clock_ns(clock: fn() -> Time) -> f64 {
    const TIMES: u32 = 100;
    let batch = |_| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| {
            std::hint::black_box(clock());
        });
        began.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
    };
    (0..1_000).map(batch).fold(f64::INFINITY, f64::min)
}

fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn spread(numbers: Vec<f64>) -> Spread {
    let numbers = sorted(numbers);
    let at = |share: f64| numbers[((numbers.len() - 1) as f64 * share) as usize];
    Spread { median: at(0.5), p99: at(0.99), max: at(1.0) }
}
