//! A configuration's own deployment: its contracts, its delays, its costs, and what happens to it.

use crate::beyond;
use crate::deployment::Deployment;
use crate::faults::Faults;
use crate::length::{RUN_MAX, RUN_MAX_WORDS};
use crate::picture::{self, Scene};
use crate::runs::{self, Flaw, guarded};
use crate::tally::Tally;
use config::Config;
use contract::Span;
use node::Trouble;
use sim::{Scenario, World};
use std::path::Path;

/// A deployment and what happens to it, for any seed.
pub struct Trial {
    /// The deployment.
    pub deployment: Deployment,
    /// What happens.
    pub faults: Faults,
    /// How long a run lasts, where that is said.
    pub length: Option<Span>,
}

impl Trial {
    /// The run of a seed.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = self.faults.of_run(seed, self.length, &self.deployment.scenario);
        scenario.assumed = beyond::beyond(&scenario).is_empty();
        scenario
    }

    /// Why loss bounds and deadlines are not demanded of it, if so.
    pub fn beyond(&self, seed: u64) -> Vec<String> {
        beyond::beyond(&self.scenario(seed))
    }

    /// Why no guarantee covers what happens in it.
    pub fn excuses(&self, seed: u64, confirmed: bool) -> Vec<String> {
        beyond::excuses(&self.scenario(seed), confirmed)
    }

    /// Lets it happen: what came of it, and what went wrong.
    pub fn play(&self, seed: u64) -> (Tally, Option<Flaw>) {
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
    pub fn name_brokers(&self) {
        let [first, second] = &self.deployment.brokers;
        if (first.as_str(), second.as_str()) != ("a", "b") {
            eprintln!("note: in the story, the broker `{first}` is called a, and `{second}` b");
        }
    }

    /// Draws the run of one seed.
    pub fn draw(&self, path: &Path, seed: u64, config: &Config) -> Result<(), Trouble> {
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

/// In the end, every topic must be seen to flow: a rare one makes a run long.
pub fn check_periods(config: &Config) -> Result<(), Trouble> {
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
