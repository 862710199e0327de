//! Whether the tasks of a lane and its store fit into their periods: I10 and I11, with measured costs.
//!
//! All tasks of a lane run on one processor, the most frequent first; the store's job runs last and waits for frames in between.
//! Waiting is counted as if it were work (`C_kvs = C_cpu + R·τ`), which is more than it costs and never less. The analysis that
//! In-ConcReTeS made was not available; these tests are stand-ins that err on the safe side.
//!
//! Further reading: Joseph, Pandya, *Finding response times in a real-time system* (1986); Audsley et al., *Applying new scheduling
//! theory to static priority pre-emptive scheduling* (1993).

use crate::setup::{batch_tuples_max, round};
use crate::{Config, HEAD_BYTES, Layout, TUPLE_HEAD_BYTES, frame};
use contract::Span;

/// A periodic task of the lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its name, for reports.
    pub name: String,
    /// `T_i`: its period, and its deadline.
    pub period: Span,
    /// `C_i`: the longest that it runs.
    pub cost: Span,
}

/// What was measured on the machines and links that the lane is to run on. All are upper bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The processor time of a job without tuples.
    pub job: Span,
    /// What each tuple of the longest batch adds to it.
    pub tuple: Span,
    /// From a node to another for a short frame.
    pub latency: Span,
    /// What a node's link carries.
    pub bytes_per_second: u64,
    /// `ε`: how far the clocks of two correct nodes may be apart.
    pub clock_error: Span,
}

impl Measured {
    /// `C_cpu` for batches of so many tuples.
    pub fn cpu(&self, tuples: usize) -> Span {
        self.job + self.tuple * tuples as u64
    }
}

/// The longest time from a release to its end, and how long it may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// Of what.
    pub name: String,
    /// `R_i`; `None` if it is beyond the limit.
    pub worst: Option<Span>,
    /// How long it may be.
    pub limit: Span,
}

impl Response {
    /// Whether it is within its limit.
    pub fn holds(&self) -> bool {
        self.worst.is_some()
    }
}

/// What a study says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The batch that it is about, in tuples.
    pub tuples: usize,
    /// `Σ C_task`: the least offset, for tasks that run before the store's job.
    pub offset_min: Span,
    /// `O`, as configured.
    pub offset: Span,
    /// I10, what is used: `Σ C_task + C_kvs`.
    pub demand: Span,
    /// I10, what there is: `T`.
    pub period: Span,
    /// `τ`.
    pub round: Span,
    /// The shortest round in which the frames of all correct nodes come in.
    pub round_min: Span,
    /// I11 for each task, the most frequent first.
    pub tasks: Vec<Response>,
    /// I11 for the store's job: it must end before the next period begins on any clock.
    pub store: Response,
}

impl Report {
    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        self.offset_min <= self.offset
            && self.demand <= self.period
            && self.round_min <= self.round
            && self.tasks.iter().all(Response::holds)
            && self.store.holds()
    }
}

/// `O`, as In-ConcReTeS sets it: the tasks' costs, and for several lanes a share of the period each.
pub fn offset(tasks: &[Task], period: Span, lane: u32, lanes: u32) -> Span {
    tasks_cost(tasks) + Span(period.0 / i64::from(lanes.max(1))) * u64::from(lane)
}

/// **I10**: what `Σ C_task + C_kvs ≤ T_min` leaves for the store.
pub fn store_budget(tasks: &[Task], period: Span) -> Span {
    period - tasks_cost(tasks)
}

/// **I11**: `R = C + Σ ⌈R/T_j⌉·C_j` over the tasks that are more urgent; `None` if that is above the limit.
pub fn response_time(cost: Span, urgent: &[Task], limit: Span) -> Option<Span> {
    let mut response = cost;
    loop {
        let releases = |task: &Task| response.as_nanos_u64().div_ceil(task.period.as_nanos_u64().max(1));
        let next = urgent.iter().map(|task| task.cost * releases(task)).fold(cost, |sum, cost| sum + cost);
        if next > limit {
            return None;
        }
        if next == response {
            return Some(response);
        }
        response = next;
    }
}

/// Studies a lane with batches as long as it is configured for.
pub fn study(config: &Config, tasks: &[Task], measured: &Measured) -> Report {
    study_batch(config, tasks, measured, batch_tuples_max(config))
}

/// The longest batch with which everything holds; `None` if nothing does.
pub fn longest_batch(config: &Config, tasks: &[Task], measured: &Measured) -> Option<usize> {
    let holds = |tuples| study_batch(config, tasks, measured, tuples).holds();
    if !holds(0) {
        return None;
    }
    // Every cost grows with the batch, so halving finds the last one that fits.
    let (mut fits, mut beyond) = (0, Config::BATCH_TUPLES_MAX + 1);
    while beyond - fits > 1 {
        let middle = fits.midpoint(beyond);
        if holds(middle) {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    Some(fits)
}

fn study_batch(config: &Config, tasks: &[Task], measured: &Measured, tuples: usize) -> Report {
    let mut by_urgency = tasks.to_vec();
    by_urgency.sort_by_key(|task| task.period);
    let (cpu, round) = (measured.cpu(tuples), round(config));
    let rounds = config.faults as u64 + 1;
    let store_cost = cpu + round * rounds;
    let responses = by_urgency.iter().enumerate().map(|(at, task)| {
        let worst = response_time(task.cost, &by_urgency[..at], task.period);
        Response { name: task.name.clone(), worst, limit: task.period }
    });
    let limit = config.period - measured.clock_error;
    Report {
        tuples,
        offset_min: tasks_cost(tasks),
        offset: config.offset,
        demand: tasks_cost(tasks) + store_cost,
        period: config.period,
        round,
        round_min: measured.latency + sending(config, measured, tuples) + measured.clock_error + cpu,
        tasks: responses.collect(),
        store: Response {
            name: "store".to_owned(),
            worst: response_time(store_cost, &by_urgency, limit),
            limit,
        },
    }
}

/// How long the frames of the last round, the longest, are on the link of a node that sends them to all others.
fn sending(config: &Config, measured: &Measured, tuples: usize) -> Span {
    let n = config.nodes.len();
    let batch = frame::BATCH_HEAD_BYTES + tuples * (TUPLE_HEAD_BYTES + config.value_bytes_max);
    let batches = u128::from(Layout::batches_per_message(n, (config.faults + 1).min(n)));
    let bytes = n.saturating_sub(1) as u128 * (HEAD_BYTES as u128 + batches.saturating_mul(batch as u128));
    let nanos = bytes.saturating_mul(1_000_000_000) / u128::from(measured.bytes_per_second.max(1));
    Span(i64::try_from(nanos).unwrap_or(i64::MAX))
}

fn tasks_cost(tasks: &[Task]) -> Span {
    tasks.iter().fold(Span::ZERO, |sum, task| sum + task.cost)
}

#[cfg(test)]
mod tests;
