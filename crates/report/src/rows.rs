//! The load of levels and operators, as rows.

use crate::broker::{LevelReport, NodeReport, OperatorReport};
use contract::{Span, Time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A level.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LevelRow {
    /// Which; 0 is the most urgent.
    pub level: u8,
    /// Operators at work.
    pub operators: u32,
    /// Of one processor, since the last look or since the start; several workers may add up to more than 100.
    pub busy_percent: f64,
    /// The longest run.
    pub worst_ms: f64,
    /// Events dropped because too many waited for the level.
    pub refused: u64,
    /// Runs that do not return.
    pub overdue: u32,
}

/// An operator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OperatorRow {
    /// Its name, with what stands in the places of `+`.
    pub operator: String,
    /// Which; 0 is the most urgent.
    pub level: u8,
    /// Runs that have ended.
    pub runs: u64,
    /// Those that gave a result.
    pub results: u64,
    /// Events dropped because they were out of date.
    pub shed_absolute: u64,
    /// Events dropped because they were too far from the others.
    pub shed_relative: u64,
    /// Runs on such events, where they are marked.
    pub marked: u64,
    /// Events that gave way to a newer one.
    pub replaced: u64,
    /// Events that gave way because more came than an input keeps.
    pub dropped: u64,
    /// Runs that failed.
    pub faults: u64,
    /// Of the faults: runs that did not end in time.
    pub runaways: u64,
    /// Of the faults: runs whose code broke off.
    pub traps: u64,
    /// The mean run.
    pub mean_us: f64,
    /// The longest.
    pub worst_us: f64,
}

/// What the levels of a broker had done at the last look.
#[derive(Clone, Default, Debug)]
pub struct Before {
    /// Of which life of which broker.
    started: Time,
    taken: Time,
    busy: BTreeMap<u8, Span>,
}

impl Before {
    /// The levels of a broker, with what they have done since the last look.
    pub fn levels(&mut self, report: &NodeReport) -> Vec<LevelRow> {
        if self.started != report.started {
            *self = Before { started: report.started, taken: report.started, busy: BTreeMap::new() };
        }
        let elapsed = report.taken.since(self.taken).as_millis_f64();
        let rows = report.levels.iter().map(|level| {
            let before = self.busy.get(&level.level).copied().unwrap_or(Span::ZERO);
            // Operators that have ended take their time along.
            let busy = (level.busy - before).max(Span::ZERO).as_millis_f64();
            LevelRow::new(level, if elapsed > 0.0 { 100.0 * busy / elapsed } else { 0.0 })
        });
        let rows = rows.collect();
        self.taken = report.taken;
        self.busy = report.levels.iter().map(|level| (level.level, level.busy)).collect();
        rows
    }
}

impl LevelRow {
    fn new(level: &LevelReport, busy_percent: f64) -> LevelRow {
        LevelRow {
            level: level.level,
            operators: level.operators,
            busy_percent,
            worst_ms: level.worst.as_millis_f64(),
            refused: level.refused,
            overdue: level.overdue,
        }
    }
}

impl OperatorRow {
    /// The operators of a broker: the most urgent first, and in each level those that fail most.
    pub fn all(report: &NodeReport) -> Vec<OperatorRow> {
        let mut operators: Vec<&OperatorReport> = report.operators.iter().collect();
        operators.sort_by_key(|operator| (operator.level, Reverse(operator.faults), &operator.name));
        operators.into_iter().map(OperatorRow::new).collect()
    }

    fn new(operator: &OperatorReport) -> OperatorRow {
        let micros = |span: Span| span.as_millis_f64() * 1e3;
        OperatorRow {
            operator: operator.name.clone(),
            level: operator.level,
            runs: operator.runs,
            results: operator.results,
            shed_absolute: operator.shed_absolute,
            shed_relative: operator.shed_relative,
            marked: operator.marked,
            replaced: operator.replaced,
            dropped: operator.dropped,
            faults: operator.faults,
            runaways: operator.runaways,
            traps: operator.traps,
            mean_us: micros(operator.busy) / operator.runs.max(1) as f64,
            worst_us: micros(operator.worst),
        }
    }
}
