//! What runs that are made up from seeds came to, whatever is simulated in them.

use super::report::number_of;
use console::{Trouble, line, table};
use contract::Span;
use serde::Serialize;
use std::time::Instant;
use trials::report::Violation;
use trials::runs::{Checker, DIFFERS, Flaw, Runs, guarded};

/// What this program was built from, so that a seed means the same to whoever is told of it.
const BUILT_FROM: &str = match option_env!("VERGE_COMMIT") {
    Some(commit) => commit,
    None => env!("CARGO_PKG_VERSION"),
};
/// In so many runs, each property is looked at.
const ENOUGH_RUNS: u64 = 1_000;
/// So many violating runs are described.
const VIOLATIONS_SHOWN: usize = 5;

/// What one run came to.
pub struct Played<F> {
    pub flaw: Option<Flaw>,
    pub lasted: Span,
    pub steps: u64,
    /// The fingerprint of everything that happened.
    pub hash: u64,
    pub findings: F,
}

impl<F: Default> Played<F> {
    /// Plays a run, or if `twice` and nothing was wrong with it, another time: both must be the same.
    pub fn of(play: impl Fn() -> Played<F>, twice: bool) -> Played<F> {
        let mut played = guarded(&play).unwrap_or_else(|flaw| Played {
            flaw: Some(flaw),
            lasted: Span::ZERO,
            steps: 0,
            hash: 0,
            findings: F::default(),
        });
        if twice && played.flaw.is_none() {
            let same = guarded(&play).is_ok_and(|again| again.hash == played.hash);
            played.flaw = (!same).then(|| Flaw {
                checker: DIFFERS,
                what: "not deterministic: the same seed went differently the second time".to_owned(),
                cut_short: false,
            });
        }
        played
    }
}

/// What all runs together came to.
#[derive(Serialize)]
pub struct Survey {
    pub holds: bool,
    version: &'static str,
    weather: &'static str,
    first_seed: u64,
    runs: u64,
    simulated_s: f64,
    real_s: f64,
    times_real_time: f64,
    steps: u64,
    pub checkers: Vec<Checker>,
    violations: Vec<Violation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub story: Vec<String>,
}

impl Survey {
    /// Plays all runs; `take` gets what was found in each. `replay` gives the command that shows a flawed run again.
    pub fn make<F: Send>(
        runs: &Runs,
        beyond: bool,
        checkers: Vec<Checker>,
        play: impl Fn(u64) -> Played<F> + Sync,
        mut take: impl FnMut(F),
        replay: impl Fn(u64, &Flaw) -> String,
    ) -> Result<Survey, Trouble> {
        let began = Instant::now();
        let mut survey = Survey {
            holds: true,
            version: BUILT_FROM,
            weather: if beyond { "beyond" } else { "assumed" },
            first_seed: runs.seeds.start,
            runs: runs.seeds.end - runs.seeds.start,
            simulated_s: 0.0,
            real_s: 0.0,
            times_real_time: 0.0,
            steps: 0,
            checkers,
            violations: Vec::new(),
            story: Vec::new(),
        };
        let mut lasted = Span::ZERO;
        runs.each(play, |seed, played| {
            lasted += played.lasted;
            survey.steps += played.steps;
            take(played.findings);
            if let Some(flaw) = &played.flaw {
                Checker::count(&mut survey.checkers, flaw);
                survey.violations.push(Violation::new(seed, flaw, replay(seed, flaw)));
            }
            played.flaw.is_some()
        })?;
        survey.violations.sort_by_key(|violation| violation.seed);
        survey.holds = survey.violations.is_empty();
        survey.simulated_s = lasted.0 as f64 / 1e9;
        survey.real_s = began.elapsed().as_secs_f64();
        survey.times_real_time = survey.simulated_s / survey.real_s.max(1e-9);
        Ok(survey)
    }

    /// Properties of which nothing was looked at, where there were so many runs that something should have been.
    pub fn unseen(&self, is_demanded: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let unseen = |checker: &&Checker| checker.checks == Some(0) && is_demanded(checker.name);
        let enough = self.runs >= ENOUGH_RUNS;
        self.checkers.iter().filter(|_| enough).filter(unseen).map(|checker| checker.name).collect()
    }

    /// The checkers' table, the first violations, and one line about everything. `found` is part of that line.
    pub fn show(&self, found: &str) -> Result<(), Trouble> {
        let mut shown = table(&["checker", "what must hold", "checks", "violations"], &[2, 3]);
        for checker in &self.checkers {
            let checks = checker.checks.map_or_else(String::new, |checks| checks.to_string());
            shown.add_row([checker.name, checker.statement, &checks, &checker.violations.to_string()]);
        }
        line(&shown.to_string())?;
        for violation in self.violations.iter().take(VIOLATIONS_SHOWN) {
            line(&format!("seed {}: {}\n  again: {}", violation.seed, violation.what, violation.replay))?;
        }
        if self.violations.len() > VIOLATIONS_SHOWN {
            let seeds: Vec<String> =
                self.violations.iter().map(|violation| violation.seed.to_string()).collect();
            line(&format!("all seeds with violations: {}", seeds.join(" ")))?;
        }
        line(&format!(
            "verge {}: {} with seeds from {} ({} weather), {found}{} steps; {:.1} s simulated in {:.1} s, {:.0} times real time",
            self.version,
            number_of(self.runs, "run", "runs"),
            self.first_seed,
            self.weather,
            self.steps,
            self.simulated_s,
            self.real_s,
            self.times_real_time
        ))?;
        line(&match self.violations.len() as u64 {
            0 => "every invariant held".to_owned(),
            some => format!("{} violated an invariant", number_of(some, "run", "runs")),
        })
    }
}
