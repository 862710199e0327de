//! The configuration's own deployment: its contracts, its delays, its costs, and a crash.

use super::beyond;
use super::costing::Costing;
use super::deployment::{self, Deployment};
use super::faults::Faults;
use super::picture::Scene;
use super::report::{self, Report, Violation};
use super::runs::{self, Flaw, Runs, guarded};
use super::tally::Tally;
use super::{picture, retyped, script};
use crate::arguments::Format;
use crate::arguments::sim::{RUN_MAX, RUN_MAX_WORDS, SimArguments};
use crate::output::{Outcome, Trouble, json, line, yes};
use config::Config;
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
    check_periods(&config)?;
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
    report.explain(&tally, &config, |seed, confirmed| trial.excuses(seed, confirmed), again);
    report.beyond = trial.beyond(arguments.seed);
    report.repeat = costing.flags.clone();
    if let Some(path) = &arguments.svg {
        trial.draw(path, arguments.seed, &config)?;
    }
    if arguments.trace {
        trial.name_brokers();
        report.story = runs::story(&trial.scenario(arguments.seed), arguments.seed);
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

/// In the end, every topic must be seen to flow: a rare one makes a run long.
fn check_periods(config: &Config) -> Result<(), Trouble> {
    let families = config.topics.iter().map(|family| (family.rule.contract.period, &family.rule.filter));
    let Some((period, filter)) = families.filter(|(period, _)| !period.is_forever()).max() else {
        return Ok(());
    };
    if period > Span(RUN_MAX.0 / 2) {
        return Err(Trouble(format!(
            "`{filter}` publishes every {period}, so a run would last longer than {RUN_MAX_WORDS}: write period = \"inf\", which \
             is for rare messages"
        )));
    }
    if period > RARE {
        eprintln!(
            "note: `{filter}` publishes every {period}, and every topic is waited for twice, so a run lasts {} and \
             longer; period = \"inf\" is for rare messages, and fewer --seeds take less time",
            period * 2
        );
    }
    Ok(())
}

/// Topics rarer than this make runs that take a while.
const RARE: Span = Span::secs(300);

/// A deployment and what happens to it, for any seed.
struct Trial {
    deployment: Deployment,
    faults: Faults,
    length: Option<Span>,
}

impl Trial {
    fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = self.faults.of_run(seed, self.length, &self.deployment.scenario);
        scenario.assumed = beyond::beyond(&scenario).is_empty();
        scenario
    }

    fn beyond(&self, seed: u64) -> Vec<String> {
        beyond::beyond(&self.scenario(seed))
    }

    fn excuses(&self, seed: u64, confirmed: bool) -> Vec<String> {
        beyond::excuses(&self.scenario(seed), confirmed)
    }

    fn play(&self, seed: u64) -> (Tally, Option<Flaw>) {
        let scenario = self.scenario(seed);
        match guarded(|| World::play(&scenario, seed)) {
            Ok(outcome) => {
                let flaw = runs::flaw_of(&outcome);
                (
                    Tally::of_run(
                        seed,
                        scenario.topics.len(),
                        &outcome.findings,
                        flaw.as_ref(),
                        &self.deployment,
                    ),
                    flaw,
                )
            }
            Err(flaw) => {
                let nothing = Tally { cut_short: 1, ..Tally::new(scenario.topics.len()) };
                (nothing, Some(flaw))
            }
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
        let scenario = self.scenario(seed);
        let outcome = guarded(|| World::play_sampled(&scenario, seed));
        let outcome = outcome.map_err(|flaw| Trouble(format!("nothing to draw: {}", flaw.what)))?;
        let families = picture::families(config, &outcome.findings, &self.deployment.family_of);
        let findings = &outcome.findings;
        let failover = config.delays.failover;
        let marks = picture::marks(&scenario, findings);
        let scene = Scene { marks: &marks, lasted: findings.lasted, failover, seed };
        let text = picture::draw(&families, &scene);
        let text = text.map_err(|error| Trouble(format!("cannot draw {}: {error}", path.display())))?;
        std::fs::write(path, text)
            .map_err(|error| Trouble(format!("cannot write {}: {error}; check the path", path.display())))
    }
}
