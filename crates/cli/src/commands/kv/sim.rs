//! `verge kv sim`: clusters of the key-value store made up from seeds, in search of a broken promise.

use super::super::sim::count_of;
use super::super::sim::report::{Violation, number_of};
use super::super::sim::runs::{Checker, DIFFERS, Flaw, Runs, guarded};
use crate::arguments::Format;
use crate::arguments::kv::SimArguments;
use crate::output::{Outcome, Trouble, json, line, table, yes};
use contract::Span;
use kv_sim::{CHECKERS, Findings, Weather, play_aloud, scenario_of, shrink};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// So many violating runs are described.
const VIOLATIONS_SHOWN: usize = 5;

/// What one run came to.
struct Played {
    flaw: Option<Flaw>,
    findings: Findings,
    lasted: Span,
    steps: u64,
}

#[derive(Serialize)]
struct Report {
    holds: bool,
    weather: &'static str,
    first_seed: u64,
    runs: u64,
    steps: u64,
    simulated_s: f64,
    real_s: f64,
    found: BTreeMap<&'static str, u64>,
    checkers: Vec<Checker>,
    violations: Vec<Violation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    story: Vec<String>,
}

/// Runs so many made-up clusters.
pub fn run(arguments: &SimArguments, format: Format) -> Outcome {
    let count = count_of(arguments.seeds, arguments.trace)?;
    let weather = if arguments.beyond { Weather::Beyond } else { Weather::Assumed };
    let runs = Runs::new(arguments.seed, count, arguments.jobs);
    let began = Instant::now();
    let mut report = Report::new(arguments, &runs);
    let (mut findings, mut lasted) = (Findings::default(), Span::ZERO);
    runs.each(
        |seed| play(seed, weather, arguments.twice),
        |seed, played: Played| {
            findings.add(&played.findings);
            lasted += played.lasted;
            report.take(seed, &played, arguments)
        },
    )?;
    report.violations.sort_by_key(|violation| violation.seed);
    report.holds = report.violations.is_empty();
    report.found = findings.rows().into_iter().collect();
    (report.simulated_s, report.real_s) = (lasted.0 as f64 / 1e9, began.elapsed().as_secs_f64());
    if arguments.trace {
        report.story = story(arguments.seed, weather);
    }
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report, &findings)?,
    }
    Ok(yes(report.holds))
}

fn play(seed: u64, weather: Weather, twice: bool) -> Played {
    let outcome = match guarded(|| kv_sim::run(seed, weather)) {
        Ok(outcome) => outcome,
        Err(flaw) => {
            return Played { flaw: Some(flaw), findings: Findings::default(), lasted: Span::ZERO, steps: 0 };
        }
    };
    let flaw_of = |checker, what| Flaw { checker, what, cut_short: true };
    let mut flaw = outcome.violation.as_ref().map(|broken| flaw_of(broken.checker, broken.to_string()));
    if twice && flaw.is_none() {
        let same = guarded(|| kv_sim::run(seed, weather)).is_ok_and(|again| again.hash == outcome.hash);
        let what = "not deterministic: the same seed went differently the second time".to_owned();
        flaw = (!same).then(|| flaw_of(DIFFERS, what));
    }
    Played { flaw, findings: outcome.findings, lasted: outcome.lasted, steps: outcome.steps }
}

/// The scenario and what happened in it, line by line. One that breaks something is made as small as it gets first.
fn story(seed: u64, weather: Weather) -> Vec<String> {
    let scenario = scenario_of(seed, weather);
    let smaller = guarded(|| shrink(&scenario, seed).0).unwrap_or(scenario);
    let mut lines: Vec<String> = smaller.to_string().lines().map(str::to_owned).collect();
    match guarded(|| play_aloud(&smaller, seed)) {
        Ok(outcome) => lines.extend(outcome.story),
        Err(flaw) => lines.push(flaw.what),
    }
    lines
}

impl Report {
    fn new(arguments: &SimArguments, runs: &Runs) -> Report {
        Report {
            holds: true,
            weather: if arguments.beyond { "beyond" } else { "assumed" },
            first_seed: runs.seeds.start,
            runs: runs.seeds.end - runs.seeds.start,
            steps: 0,
            simulated_s: 0.0,
            real_s: 0.0,
            found: BTreeMap::new(),
            checkers: Checker::all(CHECKERS, arguments.twice),
            violations: Vec::new(),
            story: Vec::new(),
        }
    }

    /// Adds a run. Returns whether it was flawed.
    fn take(&mut self, seed: u64, played: &Played, arguments: &SimArguments) -> bool {
        self.steps += played.steps;
        let Some(flaw) = &played.flaw else { return false };
        Checker::count(&mut self.checkers, flaw);
        let beyond = if arguments.beyond { " --beyond" } else { "" };
        let twice = if flaw.checker == DIFFERS { " --twice" } else { "" };
        let replay = format!("verge kv sim{beyond} --seed {seed}{twice} --trace");
        self.violations.push(Violation::new(seed, flaw, replay));
        true
    }
}

fn show(report: &Report, findings: &Findings) -> Result<(), Trouble> {
    report.story.iter().try_for_each(|told| line(told))?;
    let mut found = table(&["what happened", "count"], &[1]);
    for (name, count) in findings.rows() {
        found.add_row([name, &count.to_string()]);
    }
    line(&found.to_string())?;
    let mut shown = table(&["checker", "what must hold", "violations"], &[2]);
    for checker in &report.checkers {
        shown.add_row([checker.name, checker.statement, &checker.violations.to_string()]);
    }
    line(&shown.to_string())?;
    for violation in report.violations.iter().take(VIOLATIONS_SHOWN) {
        line(&format!("seed {}: {}\n  again: {}", violation.seed, violation.what, violation.replay))?;
    }
    line(&format!(
        "{} with seeds from {} ({} weather), {} steps; {:.1} s simulated in {:.1} s",
        number_of(report.runs, "run", "runs"),
        report.first_seed,
        report.weather,
        report.steps,
        report.simulated_s,
        report.real_s,
    ))?;
    line(&match report.violations.len() as u64 {
        0 => "every promise held".to_owned(),
        some => format!("{} broke a promise", number_of(some, "run", "runs")),
    })
}
