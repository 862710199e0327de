//! The load of levels and operators, as tables.

use super::ms;
use comfy_table::Table;
use console::table;
use report::{LevelRow, OperatorRow};

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
