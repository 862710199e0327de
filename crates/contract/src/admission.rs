//! Admission: may this contract be added to those already given?
//!
//! Two steps. First the bounds of the topic by itself (F4: both deadlines at least zero). Then schedulability: the
//! jobs of all admitted topics must fit the processor ([`Load`]), with the costs of a dispatch and a
//! replication as measured on this host. Where copies are made lazily, all that may have to begin at once must fit the
//! budget `C_r`, and take nothing from the other jobs that these need. A refusal says which bound broke, by how much, and the smallest change of one
//! term that would be admitted.

use crate::demand::{Job, Load, Overload, Supply};
use crate::explain::{Explanation, losses_of_a_crash};
use crate::rounds::{BYTES_UNSTATED, Crowd, Io, Pace};
use crate::timing::{self, Delays, Links};
use crate::{Contract, ContractError, Lazy, LazyPlan, LinkClass, Loss, Mutant, Planned, Span};
use std::fmt;

/// What the jobs cost on this host, and the turns in which they are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Reading a message, storing it and planning its jobs.
    pub arrival: Span,
    /// Dispatching it to one subscriber.
    pub dispatch: Span,
    /// Copying it to the backup, and pruning the copy later.
    pub replication: Span,
    /// A turn of the loop, whatever it brings, with a write to the other broker.
    pub turn: Span,
    /// What a connection costs besides, by how its bytes are carried.
    pub io: Carriers<Io>,
}

/// Something for each way in which bytes of clients are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carriers<T> {
    /// TCP.
    pub tcp: T,
    /// TLS.
    pub tls: T,
    /// WebSocket.
    pub websocket: T,
    /// WebSocket over TLS.
    pub secure_websocket: T,
}

impl<T> Carriers<T> {
    /// The same made of each.
    pub fn map<U>(&self, make: impl Fn(&T) -> U) -> Carriers<U> {
        Carriers {
            tcp: make(&self.tcp),
            tls: make(&self.tls),
            websocket: make(&self.websocket),
            secure_websocket: make(&self.secure_websocket),
        }
    }
}

impl Costs {
    /// Where only messages cost something.
    pub const fn of_messages(arrival: Span, dispatch: Span, replication: Span) -> Costs {
        let none = Io { read: Span::ZERO, write: Span::ZERO, kib: Span::ZERO };
        let io = Carriers { tcp: none, tls: none, websocket: none, secure_websocket: none };
        Costs { arrival, dispatch, replication, turn: Span::ZERO, io }
    }
}

/// What operators do with the messages of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Processing {
    /// There are none for it.
    #[default]
    Nothing,
    /// They make results of each message alone.
    Results,
    /// Some of them remember, so that messages must come to them in their order, also after a failover: none is left for publishers to send
    /// again while later ones have been copied.
    Memories,
}

/// What admission concluded for one topic; the broker plans every message by it. What every message needs comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Plan {
    /// Whether the topic's messages need a copy on the backup (F3).
    pub replicate: bool,
    /// What operators do with the messages.
    pub processed: Processing,
    /// The deadlines that a message's creation time is added to (F6, F7).
    pub pseudo: timing::PseudoDeadlines,
    /// `D^d`, with the configured worst `ΔPB`.
    pub dispatch: Span,
    /// `D^r`, with the configured worst `ΔPB`; forever for best effort. Of every `M`-th message where copies are lazy.
    pub replication: Span,
    /// Which of them, and when, if copies are lazy and needed; `None` where each copy is planned on arrival.
    pub lazy: Option<LazyPlan>,
}

impl Plan {
    /// The same with the copies that another plan needs besides: where either needs any, and each as soon as the earlier says. For a
    /// contract that changes while its publishers retain by the old one: until they have heard of it, what they retain is covered by the
    /// old plan, and afterwards by the new one.
    pub fn with_copies_of(self, before: Plan) -> Plan {
        let (one, two) = match (self.replicate, before.replicate) {
            (_, false) => return self,
            (false, true) => (before, before),
            (true, true) => (self, before),
        };
        let lazy = one
            .lazy
            .zip(two.lazy)
            .map(|(one, two)| LazyPlan { every: one.every.min(two.every), start: one.start.min(two.start) });
        Plan {
            replicate: true,
            pseudo: timing::PseudoDeadlines {
                replication: one.pseudo.replication.min(two.pseudo.replication),
                ..self.pseudo
            },
            replication: one.replication.min(two.replication),
            lazy,
            ..self
        }
    }
}

/// The smallest change of one term that would be admitted, for each term where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remedies {
    /// A retention that would do.
    pub retain: Option<u32>,
    /// A period that would do.
    pub period: Option<Span>,
    /// A deadline that would do.
    pub deadline: Option<Span>,
    /// The messages come from another site: what they are sent again from is its uplink.
    pub by_uplink: bool,
}

impl fmt::Display for Remedies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let retain = self.retain.map(|n| match self.by_uplink {
            true => format!("keep {n} to send again (uplink.retain = {n} of the site before)"),
            false => format!("keep {n} to send again (retain = {n}, --retain {n})"),
        });
        let period = self.period.map(|t| format!("lengthen the period to {t}"));
        let deadline = self.deadline.map(|d| format!("relax the deadline to {d}"));
        let all: Vec<String> = [retain, period, deadline].into_iter().flatten().collect();
        match all.as_slice() {
            [] => write!(f, "no change of a single term would do"),
            all => write!(f, "{}", all.join(", or ")),
        }
    }
}

/// Why a contract is not admitted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The terms make no contract at all.
    #[error(transparent)]
    Terms(#[from] ContractError),
    /// The deployment has no such link class.
    #[error("the link class `{0}` is not configured: add `[link.{0}]` or use another class")]
    UnknownLink(LinkClass),
    /// `D^r < 0`: no copy to the backup could be early enough.
    #[error("a crash could lose {could_lose} in a row, and the contract tolerates {tolerated}: {remedies}")]
    ReplicationBound {
        /// The longest run that a crash could cost.
        could_lose: u64,
        /// What the contract allows.
        tolerated: u32,
        /// How far below zero.
        short_by: Span,
        /// What would do.
        remedies: Remedies,
    },
    /// `D^d < 0`: the message is late before the broker has it.
    #[error("the way to a subscriber may take {way}, and the deadline is {deadline}: {remedies}")]
    DispatchBound {
        /// The longest way, from the publisher to the broker and on to the subscriber.
        way: Span,
        /// What the contract demands.
        deadline: Span,
        /// How far below zero.
        short_by: Span,
        /// What would do.
        remedies: Remedies,
    },
    /// The processor could not serve all topics in time.
    #[error("not schedulable: {overload}: {remedies}")]
    Unschedulable {
        /// Where the demand is above the supply.
        overload: Overload,
        /// What would do.
        remedies: Remedies,
    },
    /// The lazy copies that may have to begin at once would not leave in time.
    #[error(
        "everything that may come at once, with a copy of each lazily replicated stream, takes {} of processor time more than the \
         budget of {} has: raise replication.budget to at least {}, further if more topics are to come, or use \
         replication.policy = \"eager\"", .0.overload.excess, .0.budget, .0.needed
    )]
    Budget(BudgetShort),
    /// More different kinds of contracts than the test can look through.
    #[error("there are already {max} different contracts: use fewer different periods and deadlines", max = Load::CLASSES_MAX)]
    TooManyClasses,
}

/// The budget `C_r` is too small for the lazy copies that may have to begin at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BudgetShort {
    /// Where the demand is above the supply.
    pub overload: Overload,
    /// `C_r` as configured.
    pub budget: Span,
    /// What all of them take at once, the longest blocking included.
    pub needed: Span,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.window.is_forever() {
            write!(f, "what is promised takes {} more of each second than the processor has", self.excess)
        } else {
            write!(
                f,
                "what has to be done within {} takes {} more of a processor than there is",
                self.window, self.excess
            )
        }
    }
}

/// Who a message is dispatched to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Receivers {
    /// To whom its contract is promised.
    pub promised: u32,
    /// Who is served when there is time.
    pub best_effort: u32,
    /// Those of them for whom a message is made at once, and leaves later.
    pub made_at_once: u32,
}

impl From<u32> for Receivers {
    fn from(promised: u32) -> Receivers {
        Receivers { promised, ..Receivers::default() }
    }
}

/// The state of admission: what has been promised so far.
#[derive(Clone, Debug)]
pub struct Admission {
    delays: Delays,
    links: Links,
    costs: Costs,
    supply: Supply,
    pace: Pace,
    load: Load,
    lazy: Option<Lazy>,
}

/// To let a message wait for somebody takes no longer than one part in so many of dispatching it.
const WAITING_PER_DISPATCH: i64 = 4;
/// Steps of the search for a remedy; each halves the interval or doubles it.
const SEARCH_STEPS: u32 = 40;

impl Admission {
    /// Admission with nothing promised yet.
    pub fn new(delays: Delays, links: Links, costs: Costs, supply: Supply) -> Admission {
        let pace = Pace {
            turn: costs.turn,
            arrival: costs.arrival,
            jitter: delays.publisher_to_broker,
            last: costs.dispatch,
            ..Pace::default()
        };
        let load = Load::default().paced(pace);
        Admission { delays, links, costs, supply, pace, load, lazy: None }
    }

    /// The same where clients poll so often.
    #[must_use]
    pub fn polled(self, poll: Span) -> Admission {
        let pace = Pace { poll, ..self.pace };
        Admission { load: self.load.paced(pace), pace, ..self }
    }

    /// The same where copies are made lazily.
    #[must_use]
    pub fn with_lazy(self, lazy: Option<Lazy>) -> Admission {
        let load = Load::with_window(lazy.map_or(Span::ZERO, |lazy| lazy.window)).paced(self.pace);
        Admission { lazy, load, ..self }
    }

    /// The same where there is always time to serve somebody last.
    #[must_use]
    pub fn with_best_effort(mut self, always: bool) -> Admission {
        self.load.add_best_effort(always.into());
        self
    }

    /// The deployment's delays.
    pub fn delays(&self) -> &Delays {
        &self.delays
    }

    /// The costs that the test counts with.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The share of one processor that all admitted topics take in the long run.
    pub fn utilisation(&self) -> f64 {
        self.load.utilisation()
    }

    /// Step one: the bounds of the topic by itself.
    pub fn plan(&self, contract: impl Into<Planned>) -> Result<Plan, Refusal> {
        self.plan_processed(contract, Processing::Nothing)
    }

    /// The same where operators may process the messages. A processed message is settled when its last result has been
    /// dispatched, for which no bound is given here; so a copy is never needless, unless nothing is promised.
    pub fn plan_processed(
        &self,
        contract: impl Into<Planned>,
        processed: Processing,
    ) -> Result<Plan, Refusal> {
        let planned = contract.into();
        let Planned { contract, hop } = &planned;
        let plan = self.bounds(planned, processed)?;
        if Mutant::AdmitAnything.is_on() {
            return Ok(plan);
        }
        if let Some(short_by) = timing::shortfall(plan.dispatch) {
            return Err(Refusal::DispatchBound {
                way: contract.deadline + short_by,
                deadline: contract.deadline,
                short_by,
                remedies: self.remedies(planned, 1.into(), processed),
            });
        }
        if let Some(short_by) = timing::shortfall(plan.replication) {
            let could_lose =
                losses_of_a_crash(contract, hop.upstream(&self.delays), &hop.delays(&self.delays));
            let tolerated = if let Loss::AtMost(losses) = contract.loss { losses } else { u32::MAX };
            return Err(Refusal::ReplicationBound {
                could_lose,
                tolerated,
                short_by,
                remedies: self.remedies(planned, 1.into(), processed),
            });
        }
        Ok(plan)
    }

    /// How the numbers of a contract come about; `None` where its link class is not configured.
    pub fn explain(&self, contract: impl Into<Planned>) -> Option<Explanation> {
        let contract = contract.into();
        let link = self.links.delay(contract.contract.link)?;
        Some(Explanation::new(contract, &self.delays, link))
    }

    /// Both steps for one more stream with this contract and so many subscribers. On success its jobs are counted;
    /// give them back with [`Admission::uncount`].
    pub fn admit(&mut self, contract: &Contract, subscribers: u32) -> Result<Plan, Refusal> {
        let plan = self.plan(contract)?;
        self.admit_plan(&plan, contract, subscribers.into())?;
        Ok(plan)
    }

    /// Step two alone, for a plan that step one has made.
    pub fn admit_plan(
        &mut self,
        plan: &Plan,
        contract: &Contract,
        receivers: Receivers,
    ) -> Result<(), Refusal> {
        if self.load.classes() + 2 > Load::CLASSES_MAX || Mutant::RefuseContracts.is_on() {
            return Err(Refusal::TooManyClasses);
        }
        self.count(plan, contract, receivers);
        if contract.period.is_forever() && plan.dispatch.is_forever() && !plan.replicate {
            // What is never due takes nothing from what has been promised, even where too much has been.
            return Ok(());
        }
        let Some(reason) = self.shortfall().filter(|_| !Mutant::AdmitAnything.is_on()) else {
            return Ok(());
        };
        self.uncount(plan, contract, receivers);
        Err(match reason {
            Refusal::Unschedulable { overload, .. } => Refusal::Unschedulable {
                overload,
                remedies: self.remedies(contract.into(), receivers, plan.processed),
            },
            reason => reason,
        })
    }

    /// Why what has been counted does not fit.
    pub fn shortfall(&self) -> Option<Refusal> {
        if let Some(short) = self.budget_short() {
            return Some(Refusal::Budget(short));
        }
        let overload = self.load.overload(&self.supply)?;
        Some(Refusal::Unschedulable { overload, remedies: Remedies::default() })
    }

    /// Counts a stream's jobs without asking whether they fit: for a backup, which copies what the primary admitted,
    /// and for the baseline policies, which have no admission.
    pub fn count(&mut self, plan: &Plan, contract: &Contract, receivers: Receivers) {
        let jobs = self.jobs(plan, contract, receivers);
        count(&mut self.load, &jobs);
    }

    /// Takes a stream's jobs away again.
    pub fn uncount(&mut self, plan: &Plan, contract: &Contract, receivers: Receivers) {
        let jobs = self.jobs(plan, contract, receivers);
        uncount(&mut self.load, &jobs);
    }

    /// The connections of clients; each may have to be read and written in each turn.
    pub fn crowd_mut(&mut self) -> &mut Crowd {
        self.load.crowd_mut()
    }

    /// The time within which whatever comes has left, as [`crate::rounds`] bounds it; `Err` with something longer than `limit` where it
    /// is longer.
    pub fn rounds(&self, limit: Span) -> Result<Span, Span> {
        self.load.rounds(&self.supply, limit)
    }

    /// Whether the lazy copies that may have to begin at once fit the budget.
    pub fn budget_short(&self) -> Option<BudgetShort> {
        let overload = self.load.urgent_overload(&self.supply)?;
        let budget = self.lazy.map_or(Span::ZERO, |lazy| lazy.budget);
        // Where several copies of a stream fall into one budget, what all take once is not enough.
        let needed = self.load.urgent_at_once(&self.supply).max(budget + overload.excess);
        Some(BudgetShort { overload, budget, needed })
    }

    /// Whether everything promised so far fits the processor.
    pub fn overload(&self) -> Option<Overload> {
        self.load.overload(&self.supply)
    }

    fn bounds(&self, planned: Planned, processed: Processing) -> Result<Plan, Refusal> {
        let Planned { contract, hop } = &planned;
        contract.check()?;
        let delays = &hop.delays(&self.delays);
        let link = self.links.delay(contract.link).ok_or(Refusal::UnknownLink(contract.link))?;
        let upstream = hop.upstream(delays);
        let dispatch = timing::dispatch_deadline(contract, upstream, link.to_subscriber);
        let replication = timing::replication_deadline(contract, upstream, delays);
        let settled = if contract.confirm { link.confirmation.max(hop.handing_on) } else { Span::ZERO };
        // Where every message is dispatched before even the first of all copies would be due, none is needed.
        let needless = timing::replication_is_needless(dispatch, replication, settled);
        let processes = processed != Processing::Nothing;
        let replicate = !needless || (processes && !replication.is_forever());
        let pseudo = timing::pseudo_deadlines(contract, link.to_subscriber, delays);
        let mut plan = Plan { dispatch, replication, pseudo, replicate, processed, lazy: None };
        if let Some(lazy) = self.lazy.filter(|_| replicate && processed != Processing::Memories) {
            plan.lazy = lazy.plan(contract, upstream, delays);
        }
        if let Some(LazyPlan { every, .. }) = plan.lazy {
            let deadline =
                |upstream| timing::replication_deadline_of_every(contract, every, upstream, delays);
            (plan.replication, plan.pseudo.replication) = (deadline(upstream), deadline(Span::ZERO));
        }
        Ok(plan)
    }

    /// The recurring jobs of one stream. The cost of the arrival is counted with the dispatch, which follows it.
    /// That a message waits for those who are served last is counted with it; that it is made and written for them, with each turn.
    fn jobs(&self, plan: &Plan, contract: &Contract, receivers: Receivers) -> Jobs {
        let Receivers { promised, best_effort, made_at_once } = receivers;
        let waiting = Span(self.costs.dispatch.0 / WAITING_PER_DISPATCH) * u64::from(best_effort);
        let bytes = if contract.size == 0 { BYTES_UNSTATED } else { contract.size };
        let kib = self.costs.io.tcp.kib.0.saturating_mul(i64::from(bytes)) / 1_024;
        let copying = (Span(kib) + self.costs.dispatch) * u64::from(made_at_once);
        let dispatch = Job {
            deadline: plan.dispatch,
            period: contract.period,
            cost: self.costs.arrival + self.costs.dispatch * u64::from(promised.max(1)) + waiting + copying,
            writes: promised.max(1),
            bytes,
        };
        let cost = self.costs.replication;
        let eager = plan.replicate && plan.lazy.is_none();
        let budget = self.lazy.map_or(Span::ZERO, |lazy| lazy.budget);
        Jobs {
            dispatch,
            replicate: eager.then_some(Job {
                deadline: plan.replication,
                period: contract.period,
                cost,
                writes: 0,
                bytes,
            }),
            best_effort: best_effort.into(),
            lazy: plan.lazy.map(|LazyPlan { every, .. }| Job {
                deadline: budget,
                period: contract.period * u64::from(every),
                cost,
                writes: 0,
                bytes,
            }),
        }
    }

    /// Whether the contract would be admitted now.
    fn would_admit(
        &self,
        load: &mut Load,
        contract: Planned,
        receivers: Receivers,
        processed: Processing,
    ) -> bool {
        let Ok(plan) = self.bounds(contract, processed) else { return false };
        if plan.dispatch < Span::ZERO || plan.replication < Span::ZERO {
            return false;
        }
        let jobs = self.jobs(&plan, &contract.contract, receivers);
        count(load, &jobs);
        let fits = load.urgent_overload(&self.supply).is_none() && load.overload(&self.supply).is_none();
        uncount(load, &jobs);
        fits
    }

    /// For each term, the smallest change that would be admitted with the other terms as they are.
    fn remedies(&self, planned: Planned, receivers: Receivers, processed: Processing) -> Remedies {
        let mut load = self.load.clone();
        let Planned { contract, hop } = &planned;
        let mut admits = |candidate: &Contract| {
            let candidate = Planned { contract: *candidate, hop: *hop };
            self.would_admit(&mut load, candidate, receivers, processed)
        };
        let retain = self.retention_candidates(&planned).into_iter().find(|n| admits(&contract.retain(*n)));
        let delays = &hop.delays(&self.delays);
        let upstream = hop.upstream(delays);
        let at_least = timing::smallest_period(contract, upstream, delays).unwrap_or(contract.period);
        let period =
            smallest(contract.period.max(at_least), |period| admits(&Contract { period, ..*contract }));
        let to_subscriber = self.links.delay(contract.link).map_or(Span::ZERO, |link| link.to_subscriber);
        let reachable = contract.deadline.max(upstream + to_subscriber);
        let deadline = smallest(reachable, |deadline| admits(&contract.deadline(deadline)));
        Remedies {
            by_uplink: hop.age > Span::ZERO,
            retain: retain.filter(|n| *n != contract.retain),
            period: period.filter(|t| *t != contract.period),
            deadline: deadline.filter(|d| *d != contract.deadline),
        }
    }

    /// The smallest retention that satisfies the bound, and the smallest that makes replication needless.
    fn retention_candidates(&self, Planned { contract, hop }: &Planned) -> Vec<u32> {
        let delays = hop.delays(&self.delays);
        let upstream = hop.upstream(&delays);
        let least = timing::smallest_retention(contract, upstream, &delays);
        let late = Delays { failover: delays.failover + contract.deadline, ..delays };
        let needless = timing::smallest_retention(contract, upstream, &late);
        let fits = |n: u64| u32::try_from(n).ok().filter(|n| *n <= Contract::RETAIN_MAX);
        let candidates = [least, needless].into_iter().filter_map(fits);
        match contract.loss {
            Loss::AtMost(_) => candidates.filter(|n| *n > contract.retain).collect(),
            Loss::Unbounded => Vec::new(),
        }
    }
}

/// The recurring jobs of one stream.
struct Jobs {
    dispatch: Job,
    replicate: Option<Job>,
    /// The copy of every `M`-th message, from when it must begin.
    lazy: Option<Job>,
    /// Receivers that are served last.
    best_effort: u64,
}

fn count(load: &mut Load, jobs: &Jobs) {
    load.add(jobs.dispatch, 1);
    load.add_best_effort(jobs.best_effort);
    jobs.replicate.iter().for_each(|job| load.add(*job, 1));
    jobs.lazy.iter().for_each(|job| load.add_urgent(*job, 1));
}

fn uncount(load: &mut Load, jobs: &Jobs) {
    load.remove(jobs.dispatch, 1);
    load.remove_best_effort(jobs.best_effort);
    jobs.replicate.iter().for_each(|job| load.remove(*job, 1));
    jobs.lazy.iter().for_each(|job| load.remove_urgent(*job, 1));
}

/// The smallest span from `start` upwards that is accepted, and a little more in two digits, so that it holds tomorrow as well, where that
/// is accepted too. What it returns has been accepted, whether or not acceptance is monotone.
fn smallest(start: Span, mut accepts: impl FnMut(Span) -> bool) -> Option<Span> {
    if start.is_forever() {
        return None;
    }
    if accepts(start) {
        return Some(start);
    }
    let (mut refused, mut step) = (start, Span((start.0 / 64).max(1_000)));
    let mut accepted = None;
    for _ in 0..SEARCH_STEPS {
        let candidate = refused + step;
        if candidate.is_forever() {
            return None;
        }
        if accepts(candidate) {
            accepted = Some(candidate);
            break;
        }
        (refused, step) = (candidate, step * 2);
    }
    let mut accepted = accepted?;
    while accepted.0 - refused.0 > (accepted.0 / 100_000).max(1) {
        let middle = Span(refused.0 + (accepted.0 - refused.0) / 2);
        if accepts(middle) {
            accepted = middle;
        } else {
            refused = middle;
        }
    }
    let round = Span::micros(accepted.0.div_euclid(1_000) + 1);
    [with_room(accepted), round].into_iter().find(|span| accepts(*span)).or(Some(accepted))
}

/// A sixteenth more, rounded up to two digits.
fn with_room(span: Span) -> Span {
    let more = span.0 + span.0 / 16;
    let mut digit = 1;
    while more / digit >= 100 {
        digit *= 10;
    }
    Span((more + digit - 1) / digit * digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn costing(cost_us: i64) -> Admission {
        let costs = Costs::of_messages(Span::ZERO, Span::micros(cost_us), Span::micros(cost_us));
        let supply = Supply { share_ppm: 1_000_000, blocking: Span::ZERO };
        let delays = Delays { publisher_to_broker: Span::ZERO, ..Delays::default() };
        Admission::new(delays, Links::default(), costs, supply)
    }

    #[test]
    fn a_broken_replication_bound_names_the_remedy() {
        let contract = Contract::every(Span::millis(50)).retain(1);
        let refusal = costing(1).plan(contract).unwrap_err();
        let Refusal::ReplicationBound { short_by, could_lose: 1, tolerated: 0, remedies } = refusal.clone()
        else {
            panic!("{refusal}")
        };
        assert_eq!(short_by, Span::micros(50));
        assert_eq!(remedies.retain, Some(2));
        let period = remedies.period.unwrap();
        assert_eq!(period, Span::millis(54), "50.053 ms would do today");
        assert_eq!(remedies.deadline, None);
        assert!(
            refusal
                .to_string()
                .contains("keep 2 to send again (retain = 2, --retain 2), or lengthen the period to 54ms")
        );
    }

    #[test]
    fn what_is_never_due_is_admitted_where_too_much_has_been_promised() {
        let mut admission = costing(30_000);
        let tight = Contract::every(Span::millis(50)).retain(2);
        let plan = admission.plan(tight).unwrap();
        (0..3).for_each(|_| admission.count(&plan, &tight, 1.into()));
        assert!(admission.overload().is_some());
        let never = Contract {
            loss: Loss::Unbounded,
            retain: 0,
            deadline: Span::FOREVER,
            ..Contract::every(Span::FOREVER)
        };
        admission.admit(&never, 1).unwrap();
        assert!(admission.admit(&tight, 1).is_err());
    }

    #[test]
    fn a_broken_dispatch_bound_names_the_smallest_deadline() {
        let contract = Contract::every(Span::millis(100)).deadline(Span::micros(600)).tolerate(3);
        let Err(Refusal::DispatchBound { short_by, remedies, .. }) = costing(1).plan(contract) else {
            panic!("must be refused")
        };
        assert_eq!(short_by, Span::micros(400));
        let deadline = remedies.deadline.unwrap();
        assert_eq!(deadline, Span::micros(1_100), "1.002 ms would do today");
    }

    #[test]
    fn a_set_that_cannot_be_served_in_time_is_refused_before_it_misbehaves() {
        let mut admission = costing(1_000);
        let contract = Contract::every(Span::millis(100)).deadline(Span::millis(11)).tolerate(3);
        for _ in 0..10 {
            admission.admit(&contract, 1).unwrap();
        }
        let Err(Refusal::Unschedulable { overload, remedies }) = admission.admit(&contract, 1) else {
            panic!("the eleventh must be refused")
        };
        assert_eq!(overload, Overload { window: Span::millis(10), excess: Span::millis(1) });
        assert_eq!(remedies, Remedies::default(), "the others would be late, whatever its own terms");
        let mut crowded = costing(1_000);
        let loose = contract.deadline(Span::millis(50));
        (0..10).for_each(|_| _ = crowded.admit(&loose, 1).unwrap());
        let Err(Refusal::Unschedulable { remedies, .. }) = crowded.admit(&contract, 1) else {
            panic!("it would be late itself")
        };
        let deadline = remedies.deadline.unwrap();
        assert_eq!(deadline, Span::millis(13), "12 ms would do today");
        crowded.admit(&contract.deadline(deadline), 1).unwrap();
    }

    #[test]
    fn more_subscribers_cost_more() {
        let contract = Contract::every(Span::millis(100)).deadline(Span::millis(11)).tolerate(3);
        assert!(costing(1_000).admit(&contract, 10).is_ok());
        assert!(costing(1_000).admit(&contract, 11).is_err());
    }

    #[test]
    fn an_unknown_link_class_is_named() {
        let contract = Contract::every(Span::millis(100)).retain(2).over("radio".parse().unwrap());
        let refusal = costing(1).plan(contract).unwrap_err();
        assert!(refusal.to_string().contains("[link.radio]"));
    }

    #[test]
    fn confirmation_delays_dispatched_and_can_make_replication_necessary() {
        let contract = Contract::every(Span::millis(50)).retain(2);
        assert!(!costing(1).plan(contract).unwrap().replicate);
        assert!(costing(1).plan(contract.confirmed()).unwrap().replicate);
    }

    /// A topic that needs copies: 450 ms to copy, 480 ms to dispatch, as category 5 of FRAME, table 3.2.
    fn slow_topic() -> Contract {
        Contract::every(Span::millis(500)).retain(1).over(LinkClass::CLOUD)
    }

    fn lazily(cost_us: i64, budget: Span) -> Admission {
        let lazy = Lazy { budget, ..Lazy::default() };
        costing(cost_us).with_lazy(Some(lazy))
    }

    #[test]
    fn lazy_copies_begin_the_budget_before_their_deadline() {
        let plan = lazily(1, Span::millis(5)).plan(slow_topic()).unwrap();
        assert!(plan.replicate);
        let lazy = plan.lazy.unwrap();
        assert_eq!((lazy.every, lazy.start), (1, plan.pseudo.replication - Span::millis(5)));
        let eager = lazily(1, Span::millis(450)).plan(slow_topic()).unwrap();
        assert_eq!(eager.lazy, None, "there is no time to wait");
        let needless = slow_topic().retain(2);
        assert_eq!(lazily(1, Span::millis(5)).plan(needless).unwrap().lazy, None);
    }

    #[test]
    fn a_budget_that_is_too_small_is_refused_with_the_one_needed() {
        // Each of them comes, goes, and is copied, and all leave together.
        let mut admission = lazily(1_000, Span::millis(6));
        (0..3).for_each(|_| assert!(admission.admit(&slow_topic(), 1).is_ok()));
        let refusal = admission.admit(&slow_topic(), 1).unwrap_err();
        assert!(matches!(refusal, Refusal::Budget(BudgetShort { needed: Span(8_000_000), .. })), "{refusal}");
        assert!(refusal.to_string().contains("raise replication.budget to at least 8ms"), "{refusal}");
    }

    proptest! {
        /// What all streams take at once fits the budget of an admitted set, and the budget that a refusal names would
        /// have been enough where no stream needs two copies within it.
        #[test]
        fn the_budget_holds_when_all_copies_are_due_at_once(
            streams in 1_usize..60, cost_us in 1_i64..400, budget_us in 0_i64..20_000, blocking_us in 0_i64..3_000,
            share_ppm in 200_000_u32..1_000_000,
        ) {
            let supply = Supply { share_ppm, blocking: Span::micros(blocking_us) };
            let admission = |budget| Admission { supply, ..lazily(cost_us, budget) };
            let takes = |count: usize| {
                // Each comes, goes and is copied, in two rounds.
                let work = 2.0 * count as f64 * cost_us as f64 * 1e9 / f64::from(share_ppm);
                Span((work as i64) + 2 * blocking_us * 1_000)
            };
            let budget = Span::micros(budget_us);
            let mut first = admission(budget);
            for count in 1..=streams {
                match first.admit(&slow_topic(), 1) {
                    Ok(_) => prop_assert!(takes(count) <= budget + Span(1)),
                    Err(Refusal::Budget(BudgetShort { needed, .. })) => {
                        prop_assert!(takes(count) + Span(1) >= budget);
                        let mut second = admission(needed);
                        for _ in 0..count {
                            let again = second.admit(&slow_topic(), 1);
                            prop_assert!(!matches!(again, Err(Refusal::Budget(_))), "{:?}", again);
                        }
                        break;
                    }
                    Err(_) => break,
                }
            }
        }

        /// Whatever copies one of two plans needs, the plan with those of both has, and copies only where one needs any.
        #[test]
        fn a_plan_with_the_copies_of_another_makes_those_of_both(
            periods in (1_i64..200, 1_i64..200), deadlines in (1_i64..200, 1_i64..200), losses in (0_u32..4, 0_u32..4),
            retains in (0_u32..30, 0_u32..30), lazy: bool,
        ) {
            let admission = if lazy { lazily(100, Span::millis(3)) } else { costing(100) };
            let of = |period, deadline, losses, retain| {
                let contract = Contract::every(Span::millis(period)).deadline(Span::millis(deadline));
                admission.plan(contract.tolerate(losses).retain(retain)).ok()
            };
            let new = of(periods.0, deadlines.0, losses.0, retains.0);
            let Some((new, old)) = new.zip(of(periods.1, deadlines.1, losses.1, retains.1)) else { return Ok(()) };
            let both = new.with_copies_of(old);
            prop_assert_eq!(both.replicate, new.replicate || old.replicate);
            prop_assert_eq!((both.dispatch, both.pseudo.dispatch), (new.dispatch, new.pseudo.dispatch));
            for each in [new, old].into_iter().filter(|each| each.replicate) {
                prop_assert!(both.replication <= each.replication && both.pseudo.replication <= each.pseudo.replication);
                // Where copies are lazy, at least as many are marked, and as early; where one is eager, all are.
                let kept = match (both.lazy, each.lazy) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(both), Some(each)) => both.every <= each.every && both.start <= each.start,
                };
                prop_assert!(kept);
            }
            prop_assert_eq!(new.with_copies_of(new), new);
        }

        /// Whatever a refusal proposes is admitted if the contract is changed that way and no other.
        #[test]
        fn every_remedy_is_admitted(
            period in 1_i64..200, deadline in 1_i64..200, losses in 0_u32..4, retain in 0_u32..4, others in 0_u32..30,
            lazy: bool,
        ) {
            let mut admission = if lazy { lazily(2_000, Span::millis(30)) } else { costing(2_000) };
            for _ in 0..others {
                let _ = admission.admit(&Contract::every(Span::millis(80)).tolerate(3), 1);
            }
            let contract = Contract::every(Span::millis(period)).deadline(Span::millis(deadline)).tolerate(losses).retain(retain);
            let Err(refusal) = admission.admit(&contract, 1) else { return Ok(()) };
            let (Refusal::ReplicationBound { remedies, .. } | Refusal::DispatchBound { remedies, .. } | Refusal::Unschedulable { remedies, .. }) = refusal else {
                return Ok(());
            };
            let changed = [
                remedies.retain.map(|n| contract.retain(n)),
                remedies.period.map(|period| Contract { period, ..contract }),
                remedies.deadline.map(|d| contract.deadline(d)),
            ];
            for candidate in changed.into_iter().flatten() {
                prop_assert!(admission.clone().admit(&candidate, 1).is_ok(), "{candidate}");
            }
        }
    }
}
