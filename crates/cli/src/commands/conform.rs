//! `verge conform`: a client of somebody's own against the native protocol.

use crate::arguments::{ConformArguments, Format};
use conform::{BROKEN, Row};
use console::{Outcome, Trouble, json, line, table, yes};

/// Runs the clients that were given.
pub fn run(arguments: &ConformArguments, format: Format) -> Outcome {
    let mut rows = Vec::new();
    if let Some(command) = &arguments.publisher {
        rows.extend(conform::publisher(command)?);
    }
    if let Some(command) = &arguments.subscriber {
        rows.extend(conform::subscriber(command)?);
    }
    let broken = rows.iter().filter(|row| row.result == BROKEN).count();
    match format {
        Format::Json => json(&rows)?,
        Format::Table => show(&rows, broken)?,
    }
    Ok(yes(broken == 0))
}

fn show(rows: &[Row], broken: usize) -> Result<(), Trouble> {
    let mut shown = table(&["role", "§", "rule", "result"], &[]);
    for row in rows {
        shown.add_row([row.role, row.section, row.rule, row.result]);
    }
    line(&shown.to_string())?;
    for row in rows.iter().filter(|row| row.result != "ok") {
        line(&format!("{} (docs/protocol.md, {}): {}: {}", row.result, row.section, row.rule, row.detail))?;
    }
    let rest = if broken > 0 { "; what needs a broken one first was not tried" } else { "" };
    line(&format!("{} rules, {broken} broken{rest}", rows.len()))
}
