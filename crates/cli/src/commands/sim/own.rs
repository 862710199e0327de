//! The configuration's own deployment: its contracts, its delays, its costs, and a crash.

use super::costing::Costing;
use super::deployment::{self, Deployment};
use super::faults::{self, Faults};
use super::picture::Scene;
use super::report::{self, Report, Violation};
use super::runs::{self, Flaw, Runs, guarded};
use super::tally::Tally;
use super::{picture, retyped, script};
use crate::arguments::Format;
use crate::arguments::sim::SimArguments;
use crate::config::Config;
use crate::output::{Outcome, Trouble, json, line, yes};
use contract::Span;
use sim::{Scenario, World};
use std::path::Path;
use std::time::Instant;

/// Simulates the configuration's deployment with so many seeds.
pub fn run(
    arguments: &SimArguments,
    file: Option<&Path>,
    set: &[String],
    count: u64,
    format: Format,
) -> Outcome {
    let config = Config::load(file, set)?;
    let costing = Costing::new(&config.admission, arguments.true_costs);
    let mut deployment = deployment::build(&config, &costing)?;
    let mut length = arguments.length;
    let faults = match &arguments.scenario {
        Some(path) => {
            let script = script::read(path, &deployment.hosts, length)?;
            script.apply(&mut deployment.scenario);
            length = length.or(script.length);
            Faults::Same(script.faults)
        }
        None => Faults::crashes(&arguments.crash, &deployment.hosts)?,
    };
    let trial = Trial { deployment, faults, length };
    let again = |seed| retyped::of_own(arguments, file, set, &costing.flags, seed);
    for reason in trial.beyond(arguments.seed) {
        eprintln!("note: beyond what the guarantees assume: {reason}");
    }
    let began = Instant::now();
    let runs = Runs::new(arguments.seed, count, arguments.jobs);
    let mut report = Report::new(&config, &costing, &runs.seeds);
    let mut tally = Tally::new(config.topics.len());
    let take = |seed, (of_run, flaw): (Tally, Option<Flaw>)| {
        tally.merge(&of_run);
        report.violations.extend(flaw.as_ref().map(|flaw| Violation::new(seed, flaw, again(seed))));
        flaw.is_some()
    };
    runs.each(|seed| trial.play(seed), take)?;
    report.conclude(&tally, &config, began.elapsed());
    report.beyond = trial.beyond(arguments.seed);
    report.repeat = costing.flags.clone();
    if let Some(path) = &arguments.svg {
        trial.draw(path, arguments.seed, &config)?;
    }
    if arguments.trace {
        trial.name_brokers();
        report.story = runs::story(&trial.scenario(arguments.seed), arguments.seed, None);
    }
    match format {
        Format::Json => json(&report)?,
        Format::Table => {
            report.story.iter().try_for_each(|told| line(told))?;
            report::show(&report)?;
        }
    }
    Ok(yes(report.kept))
}

/// A deployment and what happens to it, for any seed.
struct Trial {
    deployment: Deployment,
    faults: Faults,
    length: Option<Span>,
}

impl Trial {
    fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = self.faults.of_run(seed, self.length, &self.deployment.scenario);
        scenario.assumed = faults::beyond(&scenario).is_empty();
        scenario
    }

    fn beyond(&self, seed: u64) -> Vec<String> {
        faults::beyond(&self.scenario(seed))
    }

    fn play(&self, seed: u64) -> (Tally, Option<Flaw>) {
        let scenario = self.scenario(seed);
        match guarded(|| World::play(&scenario, seed)) {
            Ok(outcome) => {
                let flaw = runs::flaw_of(&outcome);
                (
                    Tally::of_run(scenario.topics.len(), &outcome.findings, flaw.as_ref(), &self.deployment),
                    flaw,
                )
            }
            Err(flaw) => (Tally::new(scenario.topics.len()), Some(flaw)),
        }
    }

    /// The simulator calls the brokers a and b, whatever they are called here.
    fn name_brokers(&self) {
        let [first, second] = &self.deployment.brokers;
        if (first.as_str(), second.as_str()) != ("a", "b") {
            eprintln!("note: in the story, the broker `{first}` is called a, and `{second}` b");
        }
    }

    /// Draws the run of one seed.
    fn draw(&self, path: &Path, seed: u64, config: &Config) -> Result<(), Trouble> {
        let outcome = guarded(|| World::play_sampled(&self.scenario(seed), seed));
        let outcome = outcome.map_err(|flaw| Trouble(format!("nothing to draw: {}", flaw.what)))?;
        let families = picture::families(config, &outcome.findings, &self.deployment.family_of);
        let findings = &outcome.findings;
        let failover = config.delays.failover;
        let scene = Scene { deaths: &findings.deaths, lasted: findings.lasted, failover, seed };
        let text = picture::draw(&families, &scene);
        let text = text.map_err(|error| Trouble(format!("cannot draw {}: {error}", path.display())))?;
        std::fs::write(path, text)
            .map_err(|error| Trouble(format!("cannot write {}: {error}; check the path", path.display())))
    }
}
