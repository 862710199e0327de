//! Schedulability: can one thread that always runs the earliest deadline first serve all admitted jobs in time?
//!
//! The problem: the bounds of [`crate::timing`] say when each job must be *done*; they do not say whether there is
//! enough processor for all of them together. FRAME leaves that open and shows in §3.6 what happens then: everything is
//! late at once. The idea is the processor demand criterion: jobs are served in time if and only if in every window of
//! length `t` the work that must both arrive and be done inside it fits. The windows to look at are found by walking
//! down from a bound (quick processor-demand analysis), so a test costs a few dozen sums.
//!
//! Lazy copies are urgent: they run before everything else when they must begin, and up to the batch window `W` earlier
//! when another one leaves. To themselves they are jobs with the deadline `C_r` from when they must begin: batches are
//! served in that order, so nothing that may wait longer is ahead of one. To the others they are time that is missing. In a
//! window of length `t`, in which all earlier ones have been done at its beginning, run those that must begin
//! in it or up to `W` after it: at most `⌊(t + W) / (M·T)⌋ + 1` for each stream. Ahead of its time or not, a copy is made once,
//! so what rides along in one window is missing in a later one, and the bound holds for each by itself.
//!
//! That a job is done does not mean that it has left: for that, and for what a loop pays besides jobs, `rounds.rs` has a bound of its own,
//! which must hold as well.
//!
//! A class is a set of jobs with equal period, deadline and cost, so the test does not grow with the number of topics,
//! only with the number of different ones.
//!
//! Further reading: Baruah, Mok, Rosier, *Preemptively scheduling hard-real-time sporadic tasks* (1990); Zhang, Burns,
//! *Schedulability analysis for real-time systems with EDF scheduling* (2009); for the blocking term, Jeffay, Stanat,
//! Martel, *On non-preemptive scheduling of periodic and sporadic tasks* (1991).

use crate::rounds::{Crowd, Io, LAST_BYTES, LAST_MESSAGES, LAST_WRITES, Pace, Rounds};
use crate::{Mutant, Span};
use std::collections::BTreeMap;

/// One recurring piece of work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Job {
    /// From its arrival until it must be done. (First, so that classes are ordered by it.)
    pub deadline: Span,
    /// The shortest time between two of its arrivals; [`Span::FOREVER`] if it comes once.
    pub period: Span,
    /// The processor time it takes.
    pub cost: Span,
    /// Connections that something is written to; zero for a copy, which goes to the other broker with whatever else does.
    pub writes: u32,
    /// The largest payload.
    pub bytes: u32,
}

/// What the processor gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supply {
    /// The share of one processor that the jobs may use, in millionths.
    pub share_ppm: u32,
    /// The longest time for which a job that has just arrived must wait because something less urgent has begun.
    pub blocking: Span,
}

/// A window in which the demand is above the supply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overload {
    /// The length of the window; [`Span::FOREVER`] if the long-run utilisation is too high.
    pub window: Span,
    /// How much more processor time is needed in it than there is. For an endless window: per second.
    pub excess: Span,
}

/// A utilisation so near to the supply that the test would have to look at windows of hours.
const UTILISATION_MAX: f64 = 0.999;
const PPM: i128 = 1_000_000;

/// The jobs of all admitted topics.
#[derive(Clone, Default, Debug)]
pub struct Load {
    jobs: Classes,
    /// Those that run before all others, with their deadline from when they must begin.
    urgent: Classes,
    /// How much earlier an urgent job may run than it must.
    ahead: Span,
    pace: Pace,
    crowd: Crowd,
    /// Receivers that are served last, in all streams together.
    best_effort: u64,
}

type Classes = BTreeMap<Job, u64>;

impl Load {
    /// Most classes of different jobs; above it, one test would take too long on the data thread.
    pub const CLASSES_MAX: usize = 512;

    /// No jobs yet; urgent ones may run so much earlier than they must.
    pub fn with_window(ahead: Span) -> Load {
        Load { ahead, ..Load::default() }
    }

    /// The same where turns, reads and writes cost something.
    #[must_use]
    pub fn paced(self, pace: Pace) -> Load {
        Load { pace, ..self }
    }

    /// Connections of clients, each of which may have to be read and written in each turn.
    pub fn crowd_mut(&mut self) -> &mut Crowd {
        &mut self.crowd
    }

    /// Adds `count` jobs.
    pub fn add(&mut self, job: Job, count: u64) {
        add(&mut self.jobs, job, count);
    }

    /// Takes `count` jobs away that have been added before.
    pub fn remove(&mut self, job: Job, count: u64) {
        remove(&mut self.jobs, job, count);
    }

    /// Adds `count` jobs that run before all others.
    pub fn add_urgent(&mut self, job: Job, count: u64) {
        add(&mut self.urgent, job, count);
    }

    /// Takes `count` of those away.
    pub fn remove_urgent(&mut self, job: Job, count: u64) {
        remove(&mut self.urgent, job, count);
    }

    /// Adds receivers that are served last.
    pub fn add_best_effort(&mut self, count: u64) {
        self.best_effort += count;
    }

    /// Takes so many of those away.
    pub fn remove_best_effort(&mut self, count: u64) {
        self.best_effort = self.best_effort.saturating_sub(count);
    }

    /// The number of classes of different jobs.
    pub fn classes(&self) -> usize {
        self.jobs.len() + self.urgent.len()
    }

    /// The long-run share of one processor that the jobs take, and with them the reads and writes if nothing comes together: one for each
    /// message, and for each poll. Where much comes together, it is less.
    pub fn utilisation(&self) -> f64 {
        let dearest = self.crowd.dearest();
        let polls = match self.pace.poll {
            Span::FOREVER => 0.0,
            poll => {
                self.crowd.len() as f64 * (dearest.read + dearest.write + self.pace.turn).0 as f64
                    / poll.0 as f64
            }
        };
        let messages = |job: &Job| self.touches(job, &dearest);
        utilisation(&self.jobs, messages) + utilisation(&self.urgent, |job| job.cost) + polls
    }

    /// What a turn does at most for those who are served last.
    fn served_last(&self) -> Span {
        if self.best_effort == 0 || Mutant::LastForNothing.is_on() {
            return Span::ZERO;
        }
        let dearest = self.crowd.dearest();
        dearest.write * LAST_WRITES
            + dearest.kib * (LAST_BYTES >> 10) as u64
            + self.pace.last * LAST_MESSAGES as u64
    }

    /// What a message costs that comes alone.
    fn touches(&self, job: &Job, dearest: &Io) -> Span {
        let kibibytes = i64::from(job.bytes) * i64::from(job.writes + 1) / 1_024;
        let alone = if job.writes > 0 { dearest.read + self.pace.turn } else { Span::ZERO };
        job.cost
            + alone
            + dearest.write * u64::from(job.writes)
            + Span(dearest.kib.0.saturating_mul(kibibytes))
    }

    /// The processor demand criterion and the bound of two rounds. `None` if every job that is not urgent is served within its deadline.
    pub fn overload(&self, supply: &Supply) -> Option<Overload> {
        let rounds = || self.overlong_rounds(self.jobs.keys().next()?.deadline, supply);
        self.overload_in_order(supply).or_else(rounds)
    }

    /// The processor demand criterion alone: as if each job could leave as soon as it is done.
    fn overload_in_order(&self, supply: &Supply) -> Option<Overload> {
        Test { jobs: &self.jobs, above: Some((&self.urgent, self.ahead)), supply }.overload()
    }

    fn urgent_overload_in_order(&self, supply: &Supply) -> Option<Overload> {
        Test { jobs: &self.urgent, above: None, supply }.overload()
    }

    /// The time within which whatever comes has left, if it is no longer than `limit`; otherwise something longer than that.
    pub fn rounds(&self, supply: &Supply, limit: Span) -> Result<Span, Span> {
        let (jobs, urgent) = (&self.jobs, (&self.urgent, self.ahead));
        let pace = Pace { turn: self.pace.turn + self.served_last(), ..self.pace };
        Rounds { jobs, urgent, crowd: &self.crowd, pace, supply }.settled(limit)
    }

    /// Two rounds must be over before the shortest of all deadlines.
    fn overlong_rounds(&self, shortest: Span, supply: &Supply) -> Option<Overload> {
        if shortest.is_forever() || Mutant::TurnsForNothing.is_on() {
            return None;
        }
        let longer = self.rounds(supply, shortest).err()?;
        let excess = i128::from((longer - shortest).0) * i128::from(supply.share_ppm) / PPM;
        Some(Overload { window: shortest, excess: Span(i64::try_from(excess).unwrap_or(i64::MAX)) })
    }

    /// The same for the urgent jobs, which nothing but blocking holds up in the queue, and which leave with whatever else does.
    pub fn urgent_overload(&self, supply: &Supply) -> Option<Overload> {
        let rounds = || self.overlong_rounds(self.urgent.keys().next()?.deadline, supply);
        self.urgent_overload_in_order(supply).or_else(rounds)
    }

    /// The deadline that urgent jobs must have at least, so that all streams may need one at once.
    pub fn urgent_at_once(&self, supply: &Supply) -> Span {
        let work = self.urgent.iter().map(|(job, &count)| i128::from(count) * i128::from(job.cost.0)).sum();
        let at_once = Span(i64::try_from(supply.time_for(work)).unwrap_or(i64::MAX));
        self.rounds(supply, Span::FOREVER).map_or(at_once, |rounds| rounds.max(at_once))
    }
}

impl Supply {
    /// The time after which so much work is done at the latest, blocking included.
    fn time_for(&self, work: i128) -> i128 {
        let share = i128::from(self.share_ppm.max(1));
        (work * PPM + share - 1) / share + i128::from(self.blocking.0)
    }
}

fn add(classes: &mut Classes, job: Job, count: u64) {
    if count > 0 {
        *classes.entry(job).or_insert(0) += count;
    }
}

fn remove(classes: &mut Classes, job: Job, count: u64) {
    if let Some(present) = classes.get_mut(&job) {
        *present = present.saturating_sub(count);
        if *present == 0 {
            classes.remove(&job);
        }
    }
}

fn utilisation(classes: &Classes, cost: impl Fn(&Job) -> Span) -> f64 {
    let recurring = classes.iter().filter(|(job, _)| !job.period.is_forever());
    recurring.fold(0.0, |sum, (job, count)| sum + *count as f64 * cost(job).0 as f64 / job.period.0 as f64)
}

/// One run of the criterion.
struct Test<'a> {
    /// The jobs that must keep their deadlines.
    jobs: &'a Classes,
    /// Those that go before them, and how much earlier than they must.
    above: Option<(&'a Classes, Span)>,
    supply: &'a Supply,
}

impl Test<'_> {
    fn overload(&self) -> Option<Overload> {
        let share = f64::from(self.supply.share_ppm.max(1)) / PPM as f64;
        let above = self.above.map_or(0.0, |(urgent, _)| utilisation(urgent, |job| job.cost));
        let utilisation = (utilisation(self.jobs, |job| job.cost) + above) / share;
        if utilisation > UTILISATION_MAX {
            let excess = Span(((utilisation - UTILISATION_MAX) * share * 1e9) as i64);
            return Some(Overload { window: Span::FOREVER, excess });
        }
        let shortest = i128::from(self.jobs.keys().next()?.deadline.0);
        let mut window = self.longest_window(share, utilisation);
        loop {
            let demand = self.demand(window);
            if demand > window {
                let window = Span(i64::try_from(window).unwrap_or(i64::MAX));
                let excess = (demand - i128::from(window.0)) * i128::from(self.supply.share_ppm) / PPM;
                return Some(Overload { window, excess: Span(i64::try_from(excess).unwrap_or(i64::MAX)) });
            }
            if demand <= shortest {
                return None;
            }
            // Only windows that end with a deadline matter, whatever goes before.
            window = if demand < window { demand } else { self.deadline_before(window)? };
        }
    }

    /// All classes with the deadlines by which they count; those that go before others count from before the window.
    fn classes(&self) -> impl Iterator<Item = (Job, u64)> {
        let own = self.jobs.iter().map(|(job, &count)| (*job, count));
        let above = self.above.into_iter().flat_map(|(urgent, ahead)| {
            urgent.iter().map(move |(job, &count)| (Job { deadline: -ahead, ..*job }, count))
        });
        own.chain(above)
    }

    /// No window longer than this can be overloaded unless a shorter one is.
    fn longest_window(&self, share: f64, utilisation: f64) -> i128 {
        let longest = self.jobs.keys().map(|job| job.deadline.0).max().unwrap_or(0);
        let mut carried = self.supply.blocking.0 as f64;
        for (job, count) in self.classes() {
            let cost = count as f64 * job.cost.0 as f64 / share;
            carried += if job.period.is_forever() {
                cost
            } else {
                let slack = job.period.0.saturating_sub(job.deadline.0).max(0);
                cost * slack as f64 / job.period.0 as f64
            };
        }
        // Rounded up by more than the error of the sums.
        let bound = (carried / (1.0 - utilisation) * 1.000_001).ceil() + 1.0;
        i128::from(longest).max(bound as i128)
    }

    /// The processor time, in supply time, that must be given within `window`, blocking included.
    fn demand(&self, window: i128) -> i128 {
        let due = self.classes().filter(|(job, _)| i128::from(job.deadline.0) <= window);
        let work: i128 = due
            .map(|(job, count)| {
                let arrivals = match job.period {
                    Span::FOREVER => 1,
                    period => (window - i128::from(job.deadline.0)) / i128::from(period.0.max(1)) + 1,
                };
                arrivals * i128::from(count) * i128::from(job.cost.0)
            })
            .sum();
        self.supply.time_for(work)
    }

    /// The last instant before `window` at which some job is due.
    fn deadline_before(&self, window: i128) -> Option<i128> {
        self.jobs
            .keys()
            .filter(|job| i128::from(job.deadline.0) < window)
            .map(|job| {
                let deadline = i128::from(job.deadline.0);
                match job.period {
                    Span::FOREVER => deadline,
                    period => {
                        let period = i128::from(period.0.max(1));
                        deadline + (window - 1 - deadline) / period * period
                    }
                }
            })
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: Supply = Supply { share_ppm: 1_000_000, blocking: Span::ZERO };

    fn load(jobs: &[(i64, i64, i64)]) -> Load {
        let mut load = Load::default();
        for &(deadline, period, cost) in jobs {
            load.add(
                Job { deadline: Span(deadline), period: Span(period), cost: Span(cost), ..Job::default() },
                1,
            );
        }
        load
    }

    #[test]
    fn jobs_that_fit_exactly_are_admitted_and_one_nanosecond_more_is_not() {
        assert_eq!(load(&[(4, 100, 2), (4, 100, 2)]).overload_in_order(&WHOLE), None);
        let over = load(&[(4, 100, 2), (4, 100, 3)]).overload_in_order(&WHOLE).unwrap();
        assert_eq!(over, Overload { window: Span(4), excess: Span(1) });
    }

    #[test]
    fn too_high_a_utilisation_is_an_endless_overload() {
        assert_eq!(
            load(&[(50, 10, 6), (50, 10, 6)]).overload_in_order(&WHOLE).unwrap().window,
            Span::FOREVER
        );
    }

    #[test]
    fn blocking_and_a_share_below_one_count_against_the_supply() {
        let jobs = load(&[(10, 100, 5)]);
        assert_eq!(jobs.overload_in_order(&Supply { blocking: Span(5), ..WHOLE }), None);
        assert!(jobs.overload_in_order(&Supply { blocking: Span(6), ..WHOLE }).is_some());
        assert_eq!(jobs.overload_in_order(&Supply { share_ppm: 500_000, ..WHOLE }), None);
        assert!(jobs.overload_in_order(&Supply { share_ppm: 499_999, ..WHOLE }).is_some());
    }

    #[test]
    fn a_job_that_comes_once_is_demanded_once() {
        let mut jobs = load(&[(10, 20, 4)]);
        jobs.add(Job { deadline: Span(10), period: Span::FOREVER, cost: Span(6), ..Job::default() }, 1);
        assert_eq!(jobs.overload_in_order(&WHOLE), None);
        jobs.add(Job { deadline: Span(10), period: Span::FOREVER, cost: Span(1), ..Job::default() }, 1);
        assert!(jobs.overload_in_order(&WHOLE).is_some());
    }

    #[test]
    fn what_is_removed_no_longer_counts() {
        let mut jobs = load(&[(4, 100, 2), (4, 100, 3)]);
        jobs.remove(Job { deadline: Span(4), period: Span(100), cost: Span(3), ..Job::default() }, 1);
        assert_eq!(jobs.overload_in_order(&WHOLE), None);
        assert_eq!(jobs.classes(), 1);
    }

    #[test]
    fn urgent_jobs_must_fit_their_budget_when_all_are_due_at_once() {
        let mut jobs = Load::with_window(Span(40));
        jobs.add_urgent(Job { deadline: Span(10), period: Span(100), cost: Span(2), ..Job::default() }, 4);
        let supply = Supply { blocking: Span(2), ..WHOLE };
        assert_eq!(jobs.urgent_overload_in_order(&supply), None);
        assert_eq!(jobs.urgent_at_once(&supply), Span(12), "two rounds, each with its blocking");
        jobs.add_urgent(Job { deadline: Span(10), period: Span(200), cost: Span(1), ..Job::default() }, 1);
        let over = Overload { window: Span(10), excess: Span(1) };
        assert_eq!(jobs.urgent_overload_in_order(&supply), Some(over));
        assert_eq!(jobs.urgent_at_once(&supply), Span(13));
    }

    #[test]
    fn what_runs_ahead_of_its_time_is_missing_to_others() {
        let urgent = Job { deadline: Span(10), period: Span(20), cost: Span(3), ..Job::default() };
        let load = |window| {
            let mut load = Load::with_window(Span(window));
            load.add(Job { deadline: Span(10), period: Span(100), cost: Span(5), ..Job::default() }, 1);
            load.add_urgent(urgent, 1);
            load
        };
        assert_eq!(load(9).overload_in_order(&WHOLE), None, "one copy in a window of 10");
        assert_eq!(
            load(10).overload_in_order(&WHOLE),
            Some(Overload { window: Span(10), excess: Span(1) }),
            "two"
        );
    }

    /// Earliest deadline first, preemptive, one nanosecond at a time, all jobs released together and then as often as
    /// allowed. Returns whether one is late.
    fn edf_misses(jobs: &[(i64, i64, i64)], horizon: i64) -> bool {
        let mut ready: Vec<(i64, i64)> = Vec::new();
        for now in 0..horizon {
            for &(deadline, period, cost) in jobs {
                if now % period == 0 {
                    ready.push((now + deadline, cost));
                }
            }
            ready.retain(|(_, left)| *left > 0);
            if ready.iter().any(|(due, left)| now + left > *due) {
                return true;
            }
            if let Some(next) = ready.iter_mut().min() {
                next.1 -= 1;
            }
        }
        false
    }

    /// The same with urgent jobs `(first, period, cost)` that go before: when one must begin, those that must within
    /// `ahead` go along. Others are released at `(first, deadline, period, cost)`. Returns whether any is late.
    fn batches_miss(
        jobs: &[(i64, (i64, i64, i64))],
        urgent: &[(i64, i64, i64)],
        budget: i64,
        ahead: i64,
        horizon: i64,
    ) -> bool {
        let mut ready: Vec<(i64, i64)> = Vec::new();
        let mut batch: std::collections::VecDeque<(i64, i64)> = Default::default();
        let mut next: Vec<i64> = urgent.iter().map(|job| job.0).collect();
        for now in 0..horizon {
            if next.iter().any(|begin| *begin <= now) {
                let mut along: Vec<(i64, i64)> = Vec::new();
                for (begin, job) in next.iter_mut().zip(urgent) {
                    while *begin <= now + ahead {
                        along.push((*begin, job.2));
                        *begin += job.1;
                    }
                }
                along.sort_unstable();
                batch.extend(along.iter().map(|(begin, cost)| (begin + budget, *cost)));
            }
            for &(first, (deadline, period, cost)) in jobs {
                if now >= first && (now - first) % period == 0 {
                    ready.push((now + deadline, cost));
                }
            }
            ready.retain(|(_, left)| *left > 0);
            if ready.iter().chain(&batch).any(|(due, left)| now + left > *due) {
                return true;
            }
            if let Some((_, left)) = batch.front_mut() {
                *left -= 1;
                if *left == 0 {
                    batch.pop_front();
                }
            } else if let Some(next) = ready.iter_mut().min() {
                next.1 -= 1;
            }
        }
        false
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// With urgent jobs and batches, the test never says yes to a set that misses a deadline, whatever the phases.
        #[test]
        fn the_demand_test_with_batches_is_safe(
            jobs in prop::collection::vec((0_i64..20, (1_i64..30, 5_i64..30, 1_i64..5)), 1..4),
            urgent in prop::collection::vec((0_i64..40, 5_i64..30, 1_i64..4), 1..4),
            budget in 1_i64..12, ahead in 0_i64..20,
        ) {
            let mut load = Load::with_window(Span(ahead));
            for &(_, (deadline, period, cost)) in &jobs {
                load.add(Job { deadline: Span(deadline), period: Span(period), cost: Span(cost), ..Job::default() }, 1);
            }
            for &(_, period, cost) in &urgent {
                load.add_urgent(Job { deadline: Span(budget), period: Span(period), cost: Span(cost), ..Job::default() }, 1);
            }
            prop_assume!(load.overload_in_order(&WHOLE).is_none() && load.urgent_overload_in_order(&WHOLE).is_none());
            prop_assert!(!batches_miss(&jobs, &urgent, budget, ahead, 2_000), "{:?} {:?}", jobs, urgent);
        }

        /// The test says yes exactly when the schedule itself meets every deadline.
        #[test]
        fn the_demand_test_agrees_with_the_schedule(jobs in prop::collection::vec((1_i64..25, 1_i64..20, 1_i64..6), 1..5)) {
            let utilisation: f64 = jobs.iter().map(|j| j.2 as f64 / j.1 as f64).sum();
            prop_assume!(utilisation <= UTILISATION_MAX);
            let admitted = load(&jobs).overload_in_order(&WHOLE).is_none();
            prop_assert_eq!(admitted, !edf_misses(&jobs, 3_000), "jobs {:?}", jobs);
        }
    }
}
