//! How long results take at worst, and from which load on events are shed.
//!
//! The problem: an output is due some time after its last input, while operators of the same and of more urgent levels want
//! the same processors. The idea is response-time analysis: in the time `R` that a result takes, no more can be in its way
//! than what arrives in it,
//!
//! ```text
//! R = path + blocking + (1/m) · Σ over operators of its level and above: ⌈(R + J) / T⌉ · C
//! ```
//!
//! whose smallest solution is found by iteration. `path` is all that must run for the result, and is not counted again in the
//! sum.
//!
//! Assumptions: suppliers keep their periods; a run takes no longer than its cost, the way from and to queues included; a
//! level's workers take only what is of their level; nothing else runs above operators but the data thread.
//!
//! On one processor (`m = 1`) a window is looked at that begins when nothing of the level and above is waiting. Then all
//! that runs in it has arrived in it, in whatever order the level serves, and `J` is only what suppliers may be late by. An
//! operator that joins all its inputs lacks one at that moment, so it runs no more often than its most frequent input comes;
//! one that joins any runs as often as all of them together. Without preemption one run of a lower level may be under way.
//!
//! On several processors there is no such moment. What arrived before the result's last input may still be waiting, for as
//! long as it takes itself at worst: `J` is then that bound of each operator, and all of them are found together. An
//! operator runs once at a time, so earlier runs of the path are waited for in full; the others are spread over all
//! processors. Each step of the path may be blocked anew.
//!
//! Sources: Joseph and Pandya 1986 and Audsley et al. 1993 for the window, Tindell and Clark 1994 for `J`, Graham 1969 for
//! `m` processors.

use crate::graph::{Graph, Origin};
use crate::spec::{Join, Violation};
use contract::Span;

/// A graph with what its operators cost.
#[derive(Clone, Debug)]
pub struct Costed<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// How many instances of it there will be.
    pub instances: u32,
    /// The longest run of each operator.
    pub costs: Vec<Span>,
}

/// What operators run on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Processors {
    /// How many, at least one.
    pub count: u32,
    /// The share of one of them that runs above all operators, in millionths.
    pub above_ppm: u32,
    /// How much more of it may come at once.
    pub above_burst: Span,
    /// Whether an urgent operator interrupts others, as with real-time priorities, or waits for the end of a run.
    pub preemptive: bool,
    /// How much later than its period an event may come.
    pub jitter: Span,
}

/// Why there is no bound.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoBound {
    /// The level and those above want all that there is, or more.
    #[error("what is as urgent or more needs {:.1} % of a processor, and there are {:.1} %", .utilisation * 100.0, .capacity * 100.0)]
    Overload {
        /// The processors that are wanted.
        utilisation: f64,
        /// Those that are there for operators.
        capacity: f64,
    },
    /// An operator that must run for it needs a processor for itself, and runs once at a time.
    #[error("an operator that must run for it needs {:.1} % of a processor, and runs once at a time", .0 * 100.0)]
    OneOperator(f64),
    /// Nothing was found within an hour.
    #[error("no bound below an hour was found")]
    TooLong,
}

/// What a level needs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LevelLoad {
    /// The processors that its operators need.
    pub utilisation: f64,
    /// The same with all levels above.
    pub cumulated: f64,
    /// How many operators it has, all instances counted.
    pub operators: u64,
}

/// What can be said about one operator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Response {
    /// Its level.
    pub level: u8,
    /// The processors that it needs, all instances counted.
    pub utilisation: f64,
    /// From the arrival of the last input of its graph until its result, at most.
    pub bound: Result<Span, NoBound>,
    /// Whether it may shed events because they are out of date when it comes to them.
    pub sheds: bool,
}

/// What the analysis found.
#[derive(Clone, PartialEq, Debug)]
pub struct Analysis {
    /// By level.
    pub levels: Vec<LevelLoad>,
    /// By graph, then by operator; `None` where results reach nobody, so that it never runs.
    pub operators: Vec<Vec<Option<Response>>>,
    /// The processors that operators can have.
    pub capacity: f64,
}

/// A window longer than this is not looked at.
const WINDOW_MAX: i128 = 3_600_000_000_000;
/// So many steps of an iteration are enough for any load that is not a hair below all there is.
const STEPS_MAX: usize = 20_000;

/// An operator that runs.
struct Task<'a> {
    graph: usize,
    operator: usize,
    level: u8,
    cost: i128,
    instances: i128,
    /// What each run waits for.
    step: &'a crate::graph::Step,
    /// What must run for its result, itself included: places among the tasks.
    path: Vec<usize>,
    utilisation: f64,
}

/// Bounds what is asked for all graphs together.
pub fn analyse(graphs: &[Costed<'_>], levels: u8, processors: &Processors) -> Analysis {
    let problem = Problem::new(graphs, *processors);
    let capacity = problem.capacity();
    let mut loads = vec![LevelLoad::default(); usize::from(levels)];
    for task in &problem.tasks {
        if let Some(load) = loads.get_mut(usize::from(task.level)) {
            load.utilisation += task.utilisation;
            load.operators += u64::try_from(task.instances).unwrap_or(u64::MAX);
        }
    }
    let mut sum = 0.0;
    for load in &mut loads {
        sum += load.utilisation;
        load.cumulated = sum;
    }
    let bounds = problem.bounds(&loads);
    let mut operators: Vec<Vec<Option<Response>>> =
        graphs.iter().map(|graph| vec![None; graph.graph.operators.len()]).collect();
    for (task, bound) in problem.tasks.iter().zip(bounds) {
        let late =
            bound.is_err() || bound.is_ok_and(|bound| bound + processors.jitter > task.step.source.validity);
        let response = Response {
            level: task.level,
            utilisation: task.utilisation,
            bound,
            sheds: task.step.violation == Violation::Shed && !task.step.source.validity.is_forever() && late,
        };
        operators[task.graph][task.operator] = Some(response);
    }
    Analysis { levels: loads, operators, capacity }
}

struct Problem<'a> {
    graphs: &'a [Costed<'a>],
    processors: Processors,
    tasks: Vec<Task<'a>>,
}

impl<'a> Problem<'a> {
    fn new(graphs: &'a [Costed<'a>], processors: Processors) -> Problem<'a> {
        let mut tasks = Vec::new();
        for (number, costed) in graphs.iter().enumerate() {
            let mut places = vec![None; costed.graph.operators.len()];
            let rates = rates(costed.graph);
            for operator in costed.graph.order.iter().copied() {
                let step = &costed.graph.operators[operator];
                let Some(level) = step.source.level else { continue };
                let mut path: Vec<usize> = vec![tasks.len()];
                for origin in &step.inputs {
                    if let Origin::Operator(before) = origin {
                        let before: Option<&Task<'_>> = places[*before].map(|place: usize| &tasks[place]);
                        path.extend(before.iter().flat_map(|task| &task.path));
                    }
                }
                path.sort_unstable();
                path.dedup();
                places[operator] = Some(tasks.len());
                let cost = i128::from(costed.costs[operator].0.max(1));
                tasks.push(Task {
                    graph: number,
                    operator,
                    level: level.0,
                    cost,
                    instances: i128::from(costed.instances.max(1)),
                    step,
                    path,
                    utilisation: rates[operator] * cost as f64 * f64::from(costed.instances.max(1)),
                });
            }
        }
        Problem { graphs, processors, tasks }
    }

    /// The processors that operators can have.
    fn capacity(&self) -> f64 {
        f64::from(self.processors.count) - f64::from(self.processors.above_ppm) / 1e6
    }

    fn several(&self) -> bool {
        self.processors.count > 1
    }

    /// The bound of each task.
    fn bounds(&self, loads: &[LevelLoad]) -> Vec<Result<Span, NoBound>> {
        let verdict = |task: &Task<'_>| {
            let cumulated = loads.get(usize::from(task.level)).map_or(0.0, |load| load.cumulated);
            if cumulated >= self.capacity() - 1e-9 {
                return Err(NoBound::Overload { utilisation: cumulated, capacity: self.capacity() });
            }
            let alone = |place: &usize| {
                let task = &self.tasks[*place];
                task.utilisation / task.instances as f64
            };
            let most = task.path.iter().map(alone).fold(0.0, f64::max);
            if self.several() && most >= 1.0 - 1e-9 { Err(NoBound::OneOperator(most)) } else { Ok(()) }
        };
        let verdicts: Vec<Result<(), NoBound>> = self.tasks.iter().map(verdict).collect();
        let path = |task: &Task<'_>| task.path.iter().map(|place| self.tasks[*place].cost).sum::<i128>();
        let mut found: Vec<i128> = self.tasks.iter().map(path).collect();
        for _ in 0..STEPS_MAX {
            let next: Vec<i128> = (0..self.tasks.len())
                .map(|place| match verdicts[place] {
                    Ok(()) if found[place] <= WINDOW_MAX => self.window(place, &found).max(found[place]),
                    _ => found[place],
                })
                .collect();
            if next == found {
                break;
            }
            found = next;
        }
        let last = |place: usize| {
            verdicts[place]?;
            let settled = found[place] <= WINDOW_MAX && self.window(place, &found) <= found[place];
            let bound = i64::try_from(found[place]).map(Span).ok();
            bound.filter(|_| settled).ok_or(NoBound::TooLong)
        };
        (0..self.tasks.len()).map(last).collect()
    }

    /// How long a window must be in which all of this is done that comes in a window of the length found so far.
    fn window(&self, place: usize, found: &[i128]) -> i128 {
        let (task, window) = (&self.tasks[place], found[place]);
        let (mut alone, mut spread, mut steps) = (0, 0, 0);
        // On one processor, a window is the same for all operators of a graph.
        let mut known = (usize::MAX, Vec::new());
        for (other_place, other) in self.tasks.iter().enumerate() {
            if other.level > task.level {
                continue;
            }
            let carried = if self.several() { found[other_place] } else { 0 };
            if self.several() || known.0 != other.graph {
                known = (other.graph, self.runs(other.graph, window + carried));
            }
            let runs = known.1[other.operator].max(1);
            if !task.path.contains(&other_place) {
                spread += runs * other.cost * other.instances;
                continue;
            }
            // This instance's own runs, one after the other; later ones of the last step are behind the result.
            let before =
                if self.several() { self.runs(other.graph, carried)[other.operator].max(1) } else { 1 };
            let later = if self.several() && other_place == place { 0 } else { (runs - before).max(0) };
            steps += before;
            alone += before * other.cost;
            spread += later * other.cost + runs * other.cost * (other.instances - 1);
        }
        let above = window * i128::from(self.processors.above_ppm);
        let above = div_ceil(above, 1_000_000) + i128::from(self.processors.above_burst.0.max(0));
        let blocked = if self.several() { steps } else { 1 };
        alone
            + self.blocking(task.level) * blocked
            + div_ceil(spread + above, i128::from(self.processors.count.max(1)))
    }

    /// The longest run of a lower level that may be under way.
    fn blocking(&self, level: u8) -> i128 {
        let lower = self.tasks.iter().filter(|task| task.level > level && !self.processors.preemptive);
        lower.map(|task| task.cost).max().unwrap_or(0)
    }

    /// How often each operator of a graph runs at most, for the events that come in a window.
    fn runs(&self, graph: usize, window: i128) -> Vec<i128> {
        let (graph, window) =
            (self.graphs[graph].graph, window + i128::from(self.processors.jitter.0.max(0)));
        let of_supplier = |supplier: usize| match graph.suppliers[supplier].period {
            Span::FOREVER => 1,
            period => div_ceil(window, i128::from(period.0.max(1))).max(1),
        };
        downstream(graph, of_supplier, i128::max)
    }
}

/// What follows for each operator from its suppliers: the greatest of its inputs where it joins all, their sum where any.
fn downstream<T: Copy + Default + std::iter::Sum>(
    graph: &Graph,
    of_supplier: impl Fn(usize) -> T,
    greater: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut values = vec![T::default(); graph.operators.len()];
    for operator in graph.order.iter().copied() {
        let step = &graph.operators[operator];
        let inputs = step.inputs.iter().map(|origin| match origin {
            Origin::Supplier(supplier) => of_supplier(*supplier),
            Origin::Operator(before) => values[*before],
        });
        values[operator] = match step.join {
            Join::All => inputs.reduce(&greater).unwrap_or_default(),
            Join::Any => inputs.sum(),
        };
    }
    values
}

/// How often each operator runs in the long run, per nanosecond.
fn rates(graph: &Graph) -> Vec<f64> {
    let of_supplier = |supplier: usize| match graph.suppliers[supplier].period {
        Span::FOREVER => 0.0,
        period => 1.0 / period.0.max(1) as f64,
    };
    downstream(graph, of_supplier, f64::max)
}

fn div_ceil(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

#[cfg(test)]
mod tests;
