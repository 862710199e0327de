//! Deployments and faults made up from seeds, in search of a violated invariant.

use super::report::{Violation, number_of};
use super::retyped;
use super::runs::{self, Checker, DIFFERS, Flaw, Runs, guarded};
use crate::arguments::Format;
use crate::arguments::sim::SimArguments;
use crate::output::{Outcome, Trouble, json, line, table, yes};
use contract::Span;
use serde::Serialize;
use sim::{CHECKERS, Scenario, Weather, World, scenario_of};
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

/// What this program was built from, so that a seed means the same to whoever is told of it.
const BUILT_FROM: &str = match option_env!("VERGE_COMMIT") {
    Some(commit) => commit,
    None => env!("CARGO_PKG_VERSION"),
};
/// So many violating runs are described.
const VIOLATIONS_SHOWN: usize = 5;

/// What one run came to.
struct Played {
    flaw: Option<Flaw>,
    lasted: Span,
    steps: u64,
    deaths: u64,
}

#[derive(Serialize)]
struct Report {
    holds: bool,
    version: &'static str,
    weather: &'static str,
    first_seed: u64,
    runs: u64,
    simulated_s: f64,
    real_s: f64,
    times_real_time: f64,
    steps: u64,
    deaths: u64,
    #[serde(skip)]
    lasted: Span,
    checkers: Vec<Checker>,
    violations: Vec<Violation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    story: Vec<String>,
}

/// Runs so many made-up deployments.
pub fn run(arguments: &SimArguments, count: u64, format: Format) -> Outcome {
    let weather = if arguments.beyond { Weather::Beyond } else { Weather::Assumed };
    let runs = Runs::new(arguments.seed, count, arguments.jobs);
    let began = Instant::now();
    let mut report = Report::new(arguments, &runs);
    let play = |seed| play(&scenario_of(seed, weather), seed, arguments.twice);
    runs.each(play, |seed, played| report.take(seed, &played, arguments))?;
    report.conclude(began.elapsed());
    if arguments.trace {
        report.story = story(&scenario_of(arguments.seed, weather), arguments.seed);
    }
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(yes(report.holds))
}

fn play(scenario: &Scenario, seed: u64, twice: bool) -> Played {
    let outcome = match guarded(|| World::play(scenario, seed)) {
        Ok(outcome) => outcome,
        Err(flaw) => return Played { flaw: Some(flaw), lasted: Span::ZERO, steps: 0, deaths: 0 },
    };
    let mut flaw = runs::flaw_of(&outcome);
    if twice && flaw.is_none() {
        let same = guarded(|| World::play(scenario, seed)).is_ok_and(|again| again.hash == outcome.hash);
        flaw = (!same).then(|| Flaw {
            checker: DIFFERS,
            what: "not deterministic: the same seed went differently the second time".to_owned(),
            cut_short: false,
        });
    }
    let (lasted, steps) = (outcome.lasted, outcome.steps);
    Played { flaw, lasted, steps, deaths: outcome.findings.deaths.len() as u64 }
}

/// The scenario and what happened in it, line by line. One that violates something is made as small as it gets first, and
/// told around what is violated.
fn story(scenario: &Scenario, seed: u64) -> Vec<String> {
    let shrunk = catch_unwind(|| sim::shrink(scenario, seed)).ok();
    let smaller = shrunk.map_or_else(|| scenario.clone(), |(smaller, _)| smaller);
    let mut lines: Vec<String> = smaller.to_string().lines().map(str::to_owned).collect();
    lines.extend(runs::story(&smaller, seed));
    lines
}

impl Report {
    fn new(arguments: &SimArguments, runs: &Runs) -> Report {
        Report {
            holds: true,
            version: BUILT_FROM,
            weather: if arguments.beyond { "beyond" } else { "assumed" },
            first_seed: runs.seeds.start,
            runs: runs.seeds.end - runs.seeds.start,
            simulated_s: 0.0,
            real_s: 0.0,
            times_real_time: 0.0,
            steps: 0,
            deaths: 0,
            lasted: Span::ZERO,
            checkers: Checker::all(CHECKERS, arguments.twice),
            violations: Vec::new(),
            story: Vec::new(),
        }
    }

    /// Adds a run. Returns whether it was flawed.
    fn take(&mut self, seed: u64, played: &Played, arguments: &SimArguments) -> bool {
        self.lasted += played.lasted;
        self.steps += played.steps;
        self.deaths += played.deaths;
        let Some(flaw) = &played.flaw else { return false };
        Checker::count(&mut self.checkers, flaw);
        let replay = retyped::of_random(arguments.beyond, flaw.checker == DIFFERS, seed);
        self.violations.push(Violation::new(seed, flaw, replay));
        true
    }

    fn conclude(&mut self, took: Duration) {
        self.violations.sort_by_key(|violation| violation.seed);
        self.holds = self.violations.is_empty();
        self.simulated_s = self.lasted.0 as f64 / 1e9;
        self.real_s = took.as_secs_f64();
        self.times_real_time = self.simulated_s / self.real_s.max(1e-9);
    }
}

fn show(report: &Report) -> Result<(), Trouble> {
    report.story.iter().try_for_each(|told| line(told))?;
    let mut shown = table(&["checker", "what must hold", "violations"], &[2]);
    for checker in &report.checkers {
        shown.add_row([checker.name, checker.statement, &checker.violations.to_string()]);
    }
    line(&shown.to_string())?;
    for violation in report.violations.iter().take(VIOLATIONS_SHOWN) {
        line(&format!("seed {}: {}\n  again: {}", violation.seed, violation.what, violation.replay))?;
    }
    line(&format!(
        "verge {}: {} with seeds from {} ({} weather), {} of a broker, {} steps; {:.1} s simulated in {:.1} s, \
         {:.0} times real time",
        report.version,
        number_of(report.runs, "run", "runs"),
        report.first_seed,
        report.weather,
        number_of(report.deaths, "death", "deaths"),
        report.steps,
        report.simulated_s,
        report.real_s,
        report.times_real_time
    ))?;
    let violations = report.violations.len() as u64;
    line(&match violations {
        0 => "every invariant held".to_owned(),
        some => format!("{} violated an invariant", number_of(some, "run", "runs")),
    })
}
