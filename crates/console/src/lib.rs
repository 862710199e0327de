#![doc = include_str!("../README.md")]

use clap::ValueEnum;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

pub use node::{EXIT_TROUBLE as TROUBLE, Trouble, complain};

/// No: not admitted, broken, unprotected.
pub const NO: u8 = 1;
/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// What a command ends with.
pub type Outcome = Result<ExitCode, Trouble>;

/// 0 for yes, 1 for no.
pub fn yes(is_so: bool) -> ExitCode {
    if is_so { ExitCode::SUCCESS } else { ExitCode::from(NO) }
}

/// A table whose columns are as wide as they must be. Columns named here hold numbers.
pub fn table(headings: &[&str], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    let style = presets::NOTHING.header_separator(rule).bottom_border(rule);
    table.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    for column in numbers {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Columns and lines of the terminal that standard output goes to; `None` where it goes elsewhere.
pub fn terminal() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
    (size.ws_col > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Whether colours are wanted: on a terminal, unless NO_COLOR says otherwise.
pub fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A word in red, yellow or green, where colours are wanted.
pub fn coloured(text: &str, colour: u8) -> String {
    if has_colours() { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Colours, as terminals number them.
pub const RED: u8 = 31;
/// The same.
pub const YELLOW: u8 = 33;
/// The same.
pub const GREEN: u8 = 32;

/// Leaves out columns until the table fits, those that are named first before others. Returns the names of those that were left out.
pub fn fit<'a>(
    table: &mut Table,
    columns: usize,
    headings: &[&str],
    less_important: &[&'a str],
) -> Vec<&'a str> {
    let mut left_out = Vec::new();
    for name in less_important {
        let width = table.to_string().lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        if width <= columns {
            break;
        }
        let place = headings.iter().position(|heading| heading == name);
        if let Some(column) = place.and_then(|place| table.column_mut(place)) {
            column.set_constraint(ColumnConstraint::Hidden);
            left_out.push(*name);
        }
    }
    left_out
}

/// Leaves out columns until the table fits the terminal, where there is one; none if it may be `wide`.
pub fn fit_terminal<'a>(
    table: &mut Table,
    wide: bool,
    headings: &[&str],
    less_important: &[&'a str],
) -> Vec<&'a str> {
    let columns = terminal().filter(|_| !wide).map(|(columns, _)| columns);
    columns.map(|columns| fit(table, columns, headings, less_important)).unwrap_or_default()
}

/// Says which columns were left out, if any were.
pub fn say_left_out(left_out: &[&str]) -> Result<(), Trouble> {
    if left_out.is_empty() {
        return Ok(());
    }
    line(&format!("(not shown: {}; --wide shows all)", left_out.join(", ")))
}

/// What is shown again and again begins: a terminal is cleared; a file is given one report after the other.
pub fn begin_screen() -> Result<(), Trouble> {
    line(if terminal().is_some() { "\x1b[2J\x1b[H" } else { "" })
}

/// Prints the table or the data, as asked for.
pub fn print(format: Format, table: &Table, data: &impl Serialize) -> Result<(), Trouble> {
    match format {
        Format::Table => line(&table.to_string()),
        Format::Json => json(data),
    }
}

/// Prints data as one JSON document.
pub fn json(data: &impl Serialize) -> Result<(), Trouble> {
    let text = serde_json::to_string_pretty(data).map_err(|error| Trouble(error.to_string()))?;
    line(&text)
}

/// Prints a line. A reader that has gone away (`verge status | head`) ends the program without complaint.
pub fn line(text: &str) -> Result<(), Trouble> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// A span in milliseconds with three digits, for a column headed `ms`.
pub fn millis(span: contract::Span) -> String {
    if span.is_forever() { "∞".to_owned() } else { format!("{:.3}", span.as_millis_f64()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_left_out_until_a_table_fits() {
        let headings = ["name", "this", "that", "late"];
        let mut wide = table(&headings, &[3]);
        wide.add_row(["turbine/7/speed", "of no interest", "neither", "3"]);
        let whole = wide.to_string();
        assert!(fit(&mut wide, 80, &headings, &["that", "this"]).is_empty());
        assert_eq!(wide.to_string(), whole);
        assert_eq!(fit(&mut wide, 44, &headings, &["that", "this"]), ["that"]);
        assert!(wide.to_string().lines().all(|line| line.trim_end().chars().count() <= 44), "{wide}");
        assert_eq!(fit(&mut wide, 10, &headings, &["that", "this"]), ["that", "this"]);
        assert!(wide.to_string().contains("turbine/7/speed"), "what matters stays: {wide}");
    }
}
