//! Many runs, on as many threads as there are processors. What comes out depends on the seeds only.

use contract::Span;
use indicatif::{ProgressBar, ProgressStyle};
use node::Trouble;
use serde::Serialize;
use sim::{Fault, Outcome, Scenario, StoryLine, When, World};
use std::any::Any;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Seeds and threads.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The seeds, one run each.
    pub seeds: Range<u64>,
    jobs: usize,
}

/// What a run ended with that should not have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// The checker that noticed.
    pub checker: &'static str,
    /// What happened, in words.
    pub what: String,
    /// Whether the run was broken off there, so that messages were still on their way.
    pub cut_short: bool,
}

/// A property, and how many runs broke it.
#[derive(Serialize)]
pub struct Checker {
    /// Its name.
    pub name: &'static str,
    /// What must hold.
    pub statement: &'static str,
    /// How often it was looked whether it does, in all runs; nothing where that is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<u64>,
    /// Runs in which it did not.
    pub violations: usize,
}

/// The "checker" of a product that ended itself.
pub const PANIC: &str = "panic";
/// The "checker" of two runs of one seed that were not the same.
pub const DIFFERS: &str = "determinism";
/// The checkers that look only when a run is over.
const AT_THE_END: [&str; 2] = ["losses", "handover"];

impl Checker {
    /// Those of a simulator, and those of running it: that nothing panics, and if runs are repeated, that both are the same.
    pub fn all(known: &[(&'static str, &'static str)], twice: bool) -> Vec<Checker> {
        let panics = (PANIC, "no assertion of the product fails");
        let differs = twice.then_some((DIFFERS, "the same seed always gives the same run"));
        let all = known.iter().copied().chain([panics]).chain(differs);
        all.map(|(name, statement)| Checker { name, statement, checks: None, violations: 0 }).collect()
    }

    /// Adds a flawed run to its checker.
    pub fn count(all: &mut [Checker], flaw: &Flaw) {
        let checker = all.iter_mut().find(|checker| checker.name == flaw.checker);
        checker.into_iter().for_each(|checker| checker.violations += 1);
    }
}

impl Runs {
    /// So many runs from this seed on. Without a number of jobs, as many at once as there are processors.
    pub fn new(first: u64, count: u64, jobs: Option<u16>) -> Runs {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Runs { seeds: first..first.saturating_add(count), jobs: jobs.map_or(processors, usize::from) }
    }

    /// Does the work for every seed and hands over what came of it, with the seed and in any order. `take` says whether
    /// the run was flawed.
    pub fn each<T: Send>(
        &self,
        work: impl Fn(u64) -> T + Sync,
        mut take: impl FnMut(u64, T) -> bool,
    ) -> Result<(), Trouble> {
        let bar = bar(self.seeds.end - self.seeds.start)?;
        let next = AtomicU64::new(self.seeds.start);
        let (sender, receiver) = crossbeam_channel::unbounded();
        thread::scope(|scope| {
            for _ in 0..self.jobs {
                let (sender, next, work) = (sender.clone(), &next, &work);
                scope.spawn(move || {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if !self.seeds.contains(&seed) || sender.send((seed, work(seed))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut flawed = 0;
            for (seed, result) in receiver {
                if take(seed, result) {
                    flawed += 1;
                    bar.set_message(format!("{flawed} with violations, the latest with seed {seed}"));
                }
                bar.inc(1);
            }
        });
        bar.finish_and_clear();
        Ok(())
    }
}

fn bar(length: u64) -> Result<ProgressBar, Trouble> {
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} runs {msg}");
    Ok(ProgressBar::new(length).with_style(style.map_err(|error| Trouble(error.to_string()))?))
}

/// Lets a run happen in which the product may end itself by an assertion; that is a flaw like any other.
pub fn guarded<T>(play: impl FnOnce() -> T) -> Result<T, Flaw> {
    catch_unwind(AssertUnwindSafe(play)).map_err(|reason| Flaw {
        checker: PANIC,
        what: format!("{PANIC}: {}", words(&*reason)),
        cut_short: true,
    })
}

fn words(reason: &(dyn Any + Send)) -> String {
    let text = reason.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| reason.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}

/// What a run ended with, if anything.
pub fn flaw_of(outcome: &Outcome) -> Option<Flaw> {
    outcome.violation.as_ref().map(|violation| Flaw {
        checker: violation.checker,
        what: violation.to_string(),
        cut_short: !AT_THE_END.contains(&violation.checker),
    })
}

/// The story of a run, in lines; of one in which the product ends itself, only how. A long one is told around what goes
/// wrong.
pub fn story(scenario: &Scenario, seed: u64) -> Vec<String> {
    let outcome = match guarded(|| World::play_aloud(scenario, seed)) {
        Ok(outcome) => outcome,
        Err(flaw) => return vec![flaw.what],
    };
    let moments = moments(scenario, &outcome);
    let is_short = outcome.story.len() <= WHOLE_LINES_MAX && outcome.violation.is_none();
    let around = |at: Span| moments.iter().any(|moment| at > *moment - BEFORE && at < *moment + AFTER);
    let message = outcome.violation.as_ref().and_then(|violation| message_in(&violation.what));
    let concerns = |line: &StoryLine| message.as_ref().is_some_and(|message| names(&line.what, message));
    let told = |line: &&StoryLine| is_short || line.matters || around(line.at) || concerns(line);
    let lines: Vec<String> = outcome.story.iter().filter(told).map(StoryLine::to_string).collect();
    let left_out = outcome.story.len() - lines.len();
    if left_out > 0 {
        eprintln!("note: {left_out} lines about messages far from any fault are left out of the story");
    }
    if let (Some(first), Some(moment)) = (outcome.story.first(), moments.first())
        && first.at > *moment
    {
        eprintln!(
            "note: the story is too long to be remembered, and begins at {}: a shorter run (--for) or fewer `streams` \
             help",
            first.at
        );
    }
    lines
}

/// The message that a violation is about, if it names one: a topic and a number, `plant/speed #17`.
fn message_in(what: &str) -> Option<String> {
    let words: Vec<&str> = what.split_whitespace().collect();
    let is_number = |word: &str| word.strip_prefix('#').is_some_and(|it| it.parse::<u64>().is_ok());
    words.windows(2).find(|pair| is_number(pair[1])).map(|pair| format!("{} {}", pair[0], pair[1]))
}

/// Whether a line is about this message, and not about one with a longer number.
fn names(line: &str, message: &str) -> bool {
    line.split(message).skip(1).any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// What a long story is told around: the violation, or else all that is known to have gone wrong.
fn moments(scenario: &Scenario, outcome: &Outcome) -> Vec<Span> {
    if let Some(violation) = &outcome.violation {
        return vec![violation.about];
    }
    let of_fault = |fault: &Fault| match fault.when {
        When::At(at) => Some(at),
        When::Settled(_) | When::After(_) => None,
    };
    let faults = scenario.faults.iter().filter_map(of_fault);
    let mut moments: Vec<Span> = outcome.findings.deaths.iter().copied().chain(faults).collect();
    moments.sort();
    moments
}

/// A story of so many lines is told as it is.
const WHOLE_LINES_MAX: usize = 2_000;
/// A longer one is told from this much before what goes wrong, besides what matters at any time.
const BEFORE: Span = Span::millis(60);
/// And until this much after it.
const AFTER: Span = Span::millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_worked_on_once_whatever_the_number_of_jobs() {
        for jobs in [1, 7] {
            let mut results = Vec::new();
            let take = |seed, result| {
                results.push((seed, result));
                false
            };
            Runs::new(5, 40, Some(jobs)).each(|seed| seed * 2, take).unwrap();
            results.sort_unstable();
            assert_eq!(results, (5..45).map(|seed| (seed, seed * 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_run_in_which_the_product_ends_itself_is_a_flaw() {
        let flaw = guarded(|| -> () { panic!("the ring is full") }).unwrap_err();
        assert_eq!((flaw.checker, flaw.what.as_str()), (PANIC, "panic: the ring is full"));
    }
}
