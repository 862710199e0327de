//! Tables for people, JSON for programs, and the exit codes.

use crate::arguments::Format;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;
use std::fmt;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// No: not admitted, broken, unprotected.
pub const NO: u8 = 1;
/// Trouble: bad input, or nobody there.
pub const TROUBLE: u8 = 2;

/// Something that ends a command, for the operator: what is wrong and what to do.
#[derive(Debug)]
pub struct Trouble(pub String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verge: {}", self.0)
    }
}

macro_rules! trouble_from {
    ($($type:ty),*) => {$(
        impl From<$type> for Trouble {
            fn from(error: $type) -> Trouble {
                Trouble(error.to_string())
            }
        }
    )*};
}
trouble_from!(
    verge::Error,
    crate::config::Problems,
    host::HostError,
    crate::recording::RecordingError,
    wasm::WasmError,
    kv_host::NodeError,
    std::io::Error
);

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
