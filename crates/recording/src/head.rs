//! Where in a file the table begins: what parts its cells, what stands above it, its names and its units.
//!
//! The problem: loggers and spreadsheets write lines of their own above the table, some write units below the names, and some no names at
//! all. The idea: the width that most of the first rows share is that of the table; its first row of data is found by what data look like,
//! and the names are looked for right above it.

use super::flaws::quoted;
use super::number;
use super::source::{Lines, Records};
use super::{RecordingError, TimeUnit, is_missing, time_format};
use csv::StringRecord;
use std::cmp::Reverse;
use std::path::Path;

/// Rows that are looked at, and bytes of them.
const HEAD_ROWS: usize = 1_000;
const HEAD_BYTES: usize = 8 << 20;
/// Lines above the table that are told word for word.
const TOLD_LINES: usize = 3;
/// The longest text that passes for a unit.
const UNIT_CHARS_MAX: usize = 12;
/// In the order of preference: a decimal comma makes `,` look like a delimiter in every line, so it comes last.
const DELIMITERS: [u8; 4] = *b"\t;|,";
/// What columns are called that hold the time.
const TIME_NAMES: [&str; 26] = [
    "epoch",
    "unixtime",
    "unix time",
    "unix_time",
    "elapsed",
    "uhrzeit",
    "datum/uhrzeit",
    "datum uhrzeit",
    "date et heure",
    "horodatage",
    "fecha",
    "time",
    "timestamp",
    "datetime",
    "date",
    "dttm",
    "ts",
    "date_time",
    "date/time",
    "date time",
    "utc",
    "localtime",
    "zeit",
    "zeitstempel",
    "datum",
    "datum/zeit",
];

/// Where the table is.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) delimiter: u8,
    /// The last line above the table, and how the first of those begin.
    pub(super) above: u64,
    pub(super) told: Vec<String>,
    /// The line of the names. `None`: there are none, and the table begins with its data.
    pub(super) header_line: Option<u64>,
    /// The names; where there are none, empty cells, as many as the table has columns.
    pub(super) header: StringRecord,
    /// The units that stand below the names.
    pub(super) units: Option<StringRecord>,
    /// The file says itself what its columns are.
    pub(super) typed: bool,
    /// A row of names that has fewer cells than the data below it: its line, and both numbers.
    torn: Option<(u64, usize, usize)>,
}

/// Whether a column is called as one that holds the time, also with a unit or a zone behind that.
pub(super) fn is_time_name(name: &str) -> bool {
    let is = |name: &str| TIME_NAMES.iter().any(|known| name.trim().eq_ignore_ascii_case(known));
    is(name)
        || with_unit(name).is_some_and(|(name, unit)| {
            is(name) && (unit_of(unit).is_some() || unit.eq_ignore_ascii_case("utc"))
        })
}

/// The unit in the name of a column, as in `time_ms` and `Time [s]`.
pub(super) fn unit_in_name(name: &str) -> Option<TimeUnit> {
    with_unit(name).and_then(|(_, unit)| unit_of(unit))
}

fn with_unit(name: &str) -> Option<(&str, &str)> {
    let name = name.trim();
    let bracketed = name.strip_suffix([']', ')']).and_then(|name| name.rsplit_once(['[', '(']));
    bracketed.or_else(|| name.rsplit_once('_')).map(|(name, unit)| (name.trim(), unit.trim()))
}

fn unit_of(text: &str) -> Option<TimeUnit> {
    match text.to_lowercase().as_str() {
        "sec" | "secs" | "seconds" => Some(TimeUnit::Seconds),
        text => text.parse().ok().filter(|unit| *unit != TimeUnit::Days),
    }
}

/// How many rows agree, and how many seem to be torn.
type Score = (usize, Reverse<usize>);

struct Row {
    line: u64,
    cells: StringRecord,
}

impl Head {
    pub(super) fn find(path: &Path, delimiter: Option<u8>) -> Result<Head, RecordingError> {
        if Lines::open(path)?.is_typed() {
            // Its names are known, and stand in the first line of its text.
            let rows = first_rows(path, b',', 0)?;
            let first = rows.get(..1).ok_or_else(|| RecordingError::Empty { path: path.to_owned() })?;
            return Ok(Head { typed: true, ..Head::at(first, 0, b',') });
        }
        let stated = stated_delimiter(path)?;
        let above = stated.map_or(0, |(line, _)| line);
        let given = delimiter.or(stated.map(|(_, delimiter)| delimiter));
        let candidates: &[u8] = given.as_ref().map_or(&DELIMITERS, std::slice::from_ref);
        let mut best: Option<(Score, u8, Vec<Row>, usize)> = None;
        for delimiter in candidates {
            let rows = first_rows(path, *delimiter, above)?;
            let (width, agreeing) = usual_width(&rows[remarks(&rows)..]);
            // Quotes that are left over were those of other cells.
            let torn = rows.iter().filter(|row| row.cells.iter().any(|cell| cell.contains('"'))).count();
            let score = if width > 1 { (agreeing, Reverse(torn)) } else { (0, Reverse(0)) };
            if best.as_ref().is_none_or(|(most, ..)| score > *most) {
                best = Some((score, *delimiter, rows, width));
            }
        }
        let Some((_, delimiter, rows, width)) = best.filter(|(.., rows, _)| !rows.is_empty()) else {
            return Err(RecordingError::Empty { path: path.to_owned() });
        };
        if given.is_none() && delimiter == b',' && is_one_column(&rows) {
            let rows = first_rows(path, b';', above)?;
            return Ok(Head { above, ..Head::of(&rows, 1, b';') });
        }
        let head = Head::of(&rows, width, delimiter);
        if let Some((line, names, cells)) = head.torn {
            return Err(RecordingError::TornNumbers { path: path.to_owned(), line, names, cells });
        }
        Ok(Head { above: head.above.max(above), ..head })
    }

    /// Passes over names and units, which must be as they were.
    pub(super) fn skip(
        &self,
        path: &Path,
        records: &mut Records,
        record: &mut StringRecord,
    ) -> Result<(), RecordingError> {
        let names = self.header_line.map(|_| &self.header);
        for expected in names.into_iter().chain(&self.units) {
            records.read(record)?;
            if record != expected {
                return Err(RecordingError::Changed { path: path.to_owned() });
            }
        }
        Ok(())
    }

    /// The table in these rows.
    fn of(rows: &[Row], width: usize, delimiter: u8) -> Head {
        let trailing = rows.iter().filter(|row| row.cells.len() == width).all(|row| {
            row.cells.len() > 1 && row.cells.iter().next_back().is_some_and(|cell| cell.trim().is_empty())
        });
        let fits = |row: &Row| row.cells.len() == width || (trailing && row.cells.len() + 1 == width);
        let first = rows.iter().position(fits).unwrap_or(0);
        let is_data = |row: &Row| fits(row) && looks_like_data(&row.cells);
        let data = rows.iter().position(is_data);
        // Without numbers or times nothing tells names from data: the first row has the names.
        let Some(data) = data else { return Head::at(rows, first, delimiter) };
        // Rows of this width without a gap in between: a blank line ends what belongs together.
        let mut begin = data;
        while begin > first
            && fits(&rows[begin - 1])
            && (begin == data || rows[begin - 1].line + 1 == rows[begin].line || begin - 1 == first)
            && !is_data(&rows[begin - 1])
        {
            begin -= 1;
        }
        let block = begin..data;
        if block.is_empty() {
            let header = std::iter::repeat_n("", rows[data].cells.len()).collect::<Vec<_>>().into();
            let head = Head { delimiter, header, torn: torn(&rows[..=data], delimiter), ..Head::default() };
            return head.below(&rows[..data]);
        }
        let names_time = |at: &usize| rows[*at].cells.iter().any(is_time_name);
        let are_names = |at: &usize| is_header(&rows[*at].cells);
        let header = block.clone().find(|at| names_time(at) && !has_number(&rows[*at].cells));
        let header = header.or_else(|| block.clone().find(are_names)).unwrap_or(begin);
        let mut head = Head::at(rows, header, delimiter);
        let below = rows.get(header + 1).filter(|_| header + 1 < data);
        head.units = below.filter(|row| are_units(&row.cells)).map(|row| row.cells.clone());
        head
    }

    /// The table whose names are in this row.
    fn at(rows: &[Row], header: usize, delimiter: u8) -> Head {
        let Row { line, cells } = &rows[header];
        let head = Head { delimiter, header_line: Some(*line), header: cells.clone(), ..Head::default() };
        head.below(&rows[..header])
    }

    /// It begins below these rows.
    fn below(self, rows: &[Row]) -> Head {
        let delimiter = char::from(self.delimiter).to_string();
        let told = |row: &Row| quoted(&row.cells.iter().collect::<Vec<_>>().join(&delimiter));
        let above = rows.last().map_or(0, |row| row.line);
        Head { above, told: rows.iter().take(TOLD_LINES).map(told).collect(), ..self }
    }
}

/// Leading rows that begin as remarks do; the last of them may have the names.
fn remarks(rows: &[Row]) -> usize {
    let is_remark = |row: &&Row| row.cells.get(0).is_some_and(|cell| cell.trim_start().starts_with('#'));
    match rows.iter().take_while(is_remark).count() {
        all if all == rows.len() => 0,
        some => some.saturating_sub(1),
    }
}

/// Names right above data with more cells than those: numbers whose decimals begin with the comma that parts cells.
fn torn(rows: &[Row], delimiter: u8) -> Option<(u64, usize, usize)> {
    let [.., names, data] = rows else { return None };
    let count = names.cells.len();
    let are_names = (2..data.cells.len()).contains(&count) && is_header(&names.cells);
    let is_torn = delimiter == b',' && names.line + 1 == data.line && are_names;
    is_torn.then_some((names.line, count, data.cells.len()))
}

/// Spreadsheets say in a line `sep=;` above the table what parts its cells. Returns the line, and that.
fn stated_delimiter(path: &Path) -> Result<Option<(u64, u8)>, RecordingError> {
    let mut lines = Lines::open(path)?;
    lines.begin_record();
    let Some(line) = lines.next()? else { return Ok(None) };
    let stated = match line.strip_suffix(b"\n").unwrap_or(line) {
        [sep @ .., delimiter] if sep.eq_ignore_ascii_case(b"sep=") => Some(*delimiter),
        _ => None,
    };
    Ok(stated.map(|delimiter| (lines.number(), delimiter)))
}

/// What cannot be read is told by the pass over the whole file.
fn first_rows(path: &Path, delimiter: u8, above: u64) -> Result<Vec<Row>, RecordingError> {
    let mut records = Records::open(path, delimiter, above)?;
    let mut rows = Vec::new();
    let mut cells = StringRecord::new();
    let mut bytes = 0;
    while rows.len() < HEAD_ROWS && bytes < HEAD_BYTES {
        match records.read(&mut cells) {
            Ok(Some(line)) => {
                bytes += cells.as_slice().len();
                rows.push(Row { line, cells: cells.clone() });
            }
            Ok(None) => break,
            Err(error) if rows.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(rows)
}

/// The width that most rows have, the earliest of several, and how many have it.
fn usual_width(rows: &[Row]) -> (usize, usize) {
    let count = |width: usize| rows.iter().filter(|row| row.cells.len() == width).count();
    let widths = rows.iter().map(|row| row.cells.len());
    widths
        .map(|width| (width, count(width)))
        .fold((1, 0), |best, one| if one.1 > best.1 { one } else { best })
}

/// A single column of numbers with a decimal comma looks like two, below a name that is one.
fn is_one_column(rows: &[Row]) -> bool {
    let Some((first, rest)) = rows.split_first() else { return false };
    let digits = |cell: &str| !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit());
    let halves = |row: &Row| {
        row.cells.len() == 2
            && row.cells.get(0).is_some_and(|cell| digits(cell.trim().trim_start_matches(['-', '+'])))
            && row.cells.get(1).is_some_and(digits)
    };
    first.cells.len() == 1 && !rest.is_empty() && rest.iter().all(halves)
}

/// Data have a time, or all of their cells are numbers.
fn looks_like_data(cells: &StringRecord) -> bool {
    let mut filled = cells.iter().map(str::trim).filter(|cell| !is_missing(cell)).peekable();
    filled.clone().any(|cell| time_format::shape(cell).is_some())
        || filled.peek().is_some() && filled.all(number::is_one)
}

fn has_number(cells: &StringRecord) -> bool {
    cells.iter().any(|cell| number::is_one(cell.trim()))
}

/// Names are texts, one for each column.
fn is_header(cells: &StringRecord) -> bool {
    let last_may_be_empty = cells.len().saturating_sub(1);
    let named = |(at, cell): (usize, &str)| !cell.trim().is_empty() || at == last_may_be_empty;
    cells.iter().enumerate().all(named) && !has_number(cells)
}

/// Units are short texts, and some columns have none.
fn are_units(cells: &StringRecord) -> bool {
    let short = |cell: &str| cell.trim().chars().count() <= UNIT_CHARS_MAX;
    let some = cells.iter().any(|cell| !cell.trim().is_empty());
    some && cells.iter().all(short) && !has_number(cells)
}
