//! The configuration's own deployment: its contracts, its delays, its costs, and a crash.

use super::{report, retyped};
use crate::arguments::Format;
use crate::arguments::sim::SimArguments;
use config::Config;
use console::{Outcome, json, line, yes};
use std::path::Path;
use std::time::Instant;
use trials::faults::Faults;
use trials::report::Violation;
use trials::runs::{self, Flaw, Runs};
use trials::tally::Tally;
use trials::{Costing, Report, Trial, check_periods, deployment, script};

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
