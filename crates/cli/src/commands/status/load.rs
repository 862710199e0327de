//! The load of levels and operators, as rows.

use super::ms;
use crate::output::table;
use comfy_table::Table;
use contract::{Span, Time};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use verge::{LevelReport, NodeReport, OperatorReport};

#[derive(Serialize)]
pub(super) struct LevelRow {
    pub(super) level: u8,
    pub(super) operators: u32,
    /// Of one processor, since the last look or since the start; several workers may add up to more than 100.
    pub(super) busy_percent: f64,
    pub(super) worst_ms: f64,
    pub(super) refused: u64,
    /// Runs that do not return.
    pub(super) overdue: u32,
}

#[derive(Serialize)]
pub(super) struct OperatorRow {
    pub(super) operator: String,
    pub(super) level: u8,
    pub(super) runs: u64,
    pub(super) results: u64,
    pub(super) shed_absolute: u64,
    pub(super) shed_relative: u64,
    pub(super) marked: u64,
    pub(super) replaced: u64,
    pub(super) dropped: u64,
    pub(super) faults: u64,
    /// Of the faults: runs that did not end in time.
    pub(super) runaways: u64,
    /// Of the faults: runs whose code broke off.
    pub(super) traps: u64,
    pub(super) mean_us: f64,
    pub(super) worst_us: f64,
}

/// What the levels of a broker had done at the last look.
#[derive(Default)]
pub(super) struct Before {
    /// Of which life of which broker.
    started: Time,
    taken: Time,
    busy: BTreeMap<u8, Span>,
}

impl Before {
    /// The levels of a broker, with what they have done since the last look.
    pub(super) fn levels(&mut self, report: &NodeReport) -> Vec<LevelRow> {
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
    pub(super) fn all(report: &NodeReport) -> Vec<OperatorRow> {
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

pub(super) fn level_table(rows: &[LevelRow]) -> Table {
    let headings = ["level", "operators", "busy %", "worst ms", "refused", "not returning"];
    let mut levels = table(&headings, &[0, 1, 2, 3, 4, 5]);
    for row in rows {
        levels.add_row([
            row.level.to_string(),
            row.operators.to_string(),
            format!("{:.2}", row.busy_percent),
            ms(row.worst_ms),
            row.refused.to_string(),
            row.overdue.to_string(),
        ]);
    }
    levels
}

pub(super) fn operator_table(rows: &[OperatorRow]) -> Table {
    let headings = [
        "operator", "level", "runs", "results", "shed abs", "shed rel", "replaced", "dropped", "faults",
        "budget", "trap", "mean us", "worst us",
    ];
    let mut operators = table(&headings, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    for row in rows {
        let counts = [
            u64::from(row.level),
            row.runs,
            row.results,
            row.shed_absolute,
            row.shed_relative,
            row.replaced,
            row.dropped,
            row.faults,
            row.runaways,
            row.traps,
        ];
        let mut cells = vec![row.operator.clone()];
        cells.extend(counts.map(|count| count.to_string()));
        cells.extend([row.mean_us, row.worst_us].map(|micros| format!("{micros:.1}")));
        operators.add_row(cells);
    }
    operators
}
