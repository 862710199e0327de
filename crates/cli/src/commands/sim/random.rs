//! Deployments and faults made up from seeds, in search of a violated invariant.

use super::made_up::{Played, Survey};
use super::report::number_of;
use super::retyped;
use crate::arguments::Format;
use crate::arguments::sim::SimArguments;
use console::{Outcome, Trouble, json, line, table, yes};
use serde::Serialize;
use sim::{CHECKERS, Counts, Scenario, Weather, World, scenario_of};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use trials::runs::{self, Checker, DIFFERS, Runs};

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    survey: Survey,
    deaths: u64,
    found: BTreeMap<&'static str, u64>,
}

/// Runs so many made-up deployments.
pub fn run(arguments: &SimArguments, count: u64, format: Format) -> Outcome {
    let weather = if arguments.beyond { Weather::Beyond } else { Weather::Assumed };
    let runs = Runs::new(arguments.seed, count, arguments.jobs);
    let checkers = Checker::all(CHECKERS, arguments.twice);
    let play = |seed| {
        let scenario = scenario_of(seed, weather);
        Played::of(|| play(&scenario, seed), arguments.twice)
    };
    let mut counts = Counts::default();
    let take = |found: Counts| counts.add(&found);
    let survey = Survey::make(&runs, arguments.beyond, checkers, play, take, |seed, flaw| {
        retyped::of_random(arguments.beyond, flaw.checker == DIFFERS, seed)
    })?;
    let found = counts.rows().into_iter().collect();
    let mut report = Report { survey, deaths: counts.deaths, found };
    for (checker, checks) in report.survey.checkers.iter_mut().zip(counts.checks) {
        checker.checks = Some(checks);
    }
    if arguments.trace {
        report.survey.story = story(&scenario_of(arguments.seed, weather), arguments.seed);
    }
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report, &counts)?,
    }
    let holds = report.survey.holds;
    if holds && counts.delivered == 0 {
        return Err(Trouble("no message came in any of the runs: nothing was looked at".to_owned()));
    }
    let unseen = report.survey.unseen(|checker| sim::is_demanded(checker, !arguments.beyond));
    if holds && !unseen.is_empty() {
        return Err(Trouble(format!(
            "in {count} runs nothing was looked at of: {}. These properties are as good as switched off; please report this",
            unseen.join(", ")
        )));
    }
    Ok(yes(holds))
}

fn play(scenario: &Scenario, seed: u64) -> Played<Counts> {
    let outcome = World::play(scenario, seed);
    Played {
        flaw: runs::flaw_of(&outcome),
        lasted: outcome.lasted,
        steps: outcome.steps,
        hash: outcome.hash,
        findings: outcome.findings.counts,
    }
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

fn show(report: &Report, counts: &Counts) -> Result<(), Trouble> {
    report.survey.story.iter().try_for_each(|told| line(told))?;
    let mut found = table(&["what happened", "count"], &[1]);
    for (name, count) in counts.rows() {
        found.add_row([name, &count.to_string()]);
    }
    line(&found.to_string())?;
    report.survey.show(&format!("{} of a broker, ", number_of(report.deaths, "death", "deaths")))
}
