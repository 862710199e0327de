//! `verge kv sim`: clusters of the key-value store made up from seeds, in search of a broken promise.

use super::super::sim::count_of;
use super::super::sim::made_up::{Played, Survey};
use crate::arguments::Format;
use crate::arguments::kv::SimArguments;
use console::{Outcome, Trouble, json, line, table, yes};
use kv_sim::{CHECKERS, Findings, Weather, play_aloud, scenario_of, shrink};
use serde::Serialize;
use std::collections::BTreeMap;
use trials::runs::{Checker, DIFFERS, Flaw, Runs, guarded};

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    survey: Survey,
    found: BTreeMap<&'static str, u64>,
}

/// Runs so many made-up clusters.
pub fn run(arguments: &SimArguments, format: Format) -> Outcome {
    let count = count_of(arguments.seeds, arguments.trace)?;
    let weather = if arguments.beyond { Weather::Beyond } else { Weather::Assumed };
    let runs = Runs::new(arguments.seed, count, arguments.jobs);
    let checkers = Checker::all(CHECKERS, arguments.twice);
    let mut findings = Findings::default();
    let play = |seed| Played::of(|| play(seed, weather), arguments.twice);
    let take = |found| findings.add(&found);
    let replay = |seed, flaw: &Flaw| {
        let beyond = if arguments.beyond { " --beyond" } else { "" };
        let twice = if flaw.checker == DIFFERS { " --twice" } else { "" };
        format!("verge kv sim{beyond} --seed {seed}{twice} --trace")
    };
    let survey = Survey::make(&runs, arguments.beyond, checkers, play, take, replay)?;
    let mut report = Report { survey, found: findings.rows().into_iter().collect() };
    if arguments.trace {
        report.survey.story = story(arguments.seed, weather);
    }
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report.survey, &findings)?,
    }
    Ok(yes(report.survey.holds))
}

fn play(seed: u64, weather: Weather) -> Played<Findings> {
    let outcome = kv_sim::run(seed, weather);
    let flaw = |broken: &kv_sim::Violation| Flaw {
        checker: broken.checker,
        what: broken.to_string(),
        cut_short: true,
    };
    Played {
        flaw: outcome.violation.as_ref().map(flaw),
        lasted: outcome.lasted,
        steps: outcome.steps,
        hash: outcome.hash,
        findings: outcome.findings,
    }
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

fn show(survey: &Survey, findings: &Findings) -> Result<(), Trouble> {
    survey.story.iter().try_for_each(|told| line(told))?;
    let mut found = table(&["what happened", "count"], &[1]);
    for (name, count) in findings.rows() {
        found.add_row([name, &count.to_string()]);
    }
    line(&found.to_string())?;
    survey.show("")
}
