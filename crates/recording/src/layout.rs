//! How the rows of a recording are to be read: where its table is, which column is the time, and what the others are.

use std::collections::HashSet;
use std::path::Path;

use csv::StringRecord;

use super::columns::{self, Seen};
use super::flaws::quoted;
use super::head::Head;
use super::number::{Decimal, Shown};
use super::time_format::Form;
use super::{Column, Kind, Options, RecordingError};

/// The most columns a recording may have. Each one becomes a topic, and a header beyond this is a file with
/// rows and columns the wrong way round.
pub const MAX_COLUMNS: usize = 4096;

/// Notes on columns; a file of texts that look like numbers would have one for each.
const NOTES_MAX: usize = 5;
/// How many columns an error names before it only counts the rest.
const NAMED_IN_ERRORS: usize = 40;

/// How the rows of one file are to be read.
pub(super) struct Layout {
    pub(super) head: Head,
    pub(super) time: Option<TimeColumn>,
    /// How it is written.
    pub(super) form: Form,
    /// The place in a row of each selected column, and what begins decimals there.
    pub(super) places: Vec<(usize, Decimal)>,
    pub(super) columns: Vec<Column>,
    /// What a person may want to know of what was guessed.
    pub(super) notes: Vec<String>,
}

/// Where in a row the time is.
pub(super) struct TimeColumn {
    /// The place of the time, or of its date.
    pub(super) date: usize,
    /// The place of the time of day, if that has a column of its own.
    pub(super) clock: Option<usize>,
    /// The name of the first.
    pub(super) name: String,
}

impl Layout {
    /// Reads the whole file once.
    pub(super) fn find(path: &Path, options: &Options) -> Result<Layout, RecordingError> {
        let is_bad = |delimiter: &u8| !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\n' | b'\r');
        if let Some(delimiter) = options.delimiter.filter(is_bad) {
            return Err(RecordingError::BadDelimiter { delimiter: char::from(delimiter) });
        }
        let head = Head::find(path, options.delimiter)?;
        if head.header.len() > MAX_COLUMNS {
            let (line, count) = (head.header_line.unwrap_or(head.above + 1), head.header.len());
            return Err(RecordingError::TooManyColumns { path: path.to_owned(), line, count });
        }
        let mut seen = columns::look(path, &head, None)?;
        let names = names(&head.header);
        let wanted = options.time_column.as_deref().map(|name| place_of(path, &names, name)).transpose()?;
        let time = columns::choose_time(path, &names, &seen, wanted)?;
        if let Some(time) = time.as_ref().filter(|time| time.clock.is_none() && seen[time.date].is_mixed()) {
            // Rows without a time are left out, so they tell nothing of what columns are.
            seen = columns::look(path, &head, Some(time.date))?;
        }
        if time.is_none() && !seen.iter().any(Seen::has_numbers) {
            return Err(RecordingError::NoData { path: path.to_owned() });
        }
        let (form, told) = match &time {
            Some(TimeColumn { date, name, .. }) => columns::time_form(path, name, &seen[*date], options)?,
            None => (Form::default(), None),
        };
        let mut notes: Vec<String> = told.map(str::to_owned).into_iter().collect();
        let selected = select(path, &head.header, &names, &seen, time.as_ref(), &options.columns)?;
        let comma_parts_cells = head.delimiter == b',';
        let numbers = selected.iter().map(|place| &seen[*place]).filter(|seen| seen.kind() == Kind::Number);
        let others = Shown::of_all(numbers.map(|seen| &seen.shown));
        let decimal = |place: usize| seen[place].shown.decimal(others, comma_parts_cells);
        let commas = selected.iter().filter(|place| seen[**place].shown.has_commas(decimal(**place)));
        if let Some(place) = commas.clone().next() {
            let more = match commas.count() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            notes.push(format!("a comma begins decimals in `{}`{more}", names[*place]));
        }
        notes.extend(
            selected.iter().filter_map(|place| seen[*place].note(&names[*place], others)).take(NOTES_MAX),
        );
        let column = |place: &usize| Column { name: names[*place].clone(), kind: seen[*place].kind() };
        let columns = selected.iter().map(column).collect();
        let places = selected.into_iter().map(|place| (place, decimal(place))).collect();
        Ok(Layout { head, time, form, places, columns, notes })
    }
}

/// What spreadsheets write where there is no value.
const SPREADSHEET_ERRORS: [&str; 7] = ["#N/A", "#VALUE!", "#REF!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!"];

/// Whether a cell stands for no value.
pub(super) fn is_missing(cell: &str) -> bool {
    let markers = ["na", "n/a", "nan", "null"];
    matches!(cell, "" | "-" | "?")
        || SPREADSHEET_ERRORS.contains(&cell)
        || cell.len() <= 4 && markers.iter().any(|marker| cell.eq_ignore_ascii_case(marker))
}

/// The names of all columns, made distinct, because each becomes a topic of its own: unnamed columns are
/// numbered by their place, and repeated names by their occurrence.
fn names(header: &StringRecord) -> Vec<String> {
    let mut taken: HashSet<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    let mut given = HashSet::new();
    let name = |(place, name): (usize, &str)| {
        let name = name.trim();
        if !name.is_empty() && given.insert(name.to_owned()) {
            return name.to_owned();
        }
        let (base, mut number) = if name.is_empty() { ("column", place + 1) } else { (name, 2) };
        while !taken.insert(format!("{base}_{number}")) {
            number += 1;
        }
        format!("{base}_{number}")
    };
    header.iter().enumerate().map(name).collect()
}

/// The places of the selected columns. An unnamed column without values is what a delimiter at the end of
/// every line leaves behind, and not selected unless asked for.
fn select(
    path: &Path,
    header: &StringRecord,
    names: &[String],
    seen: &[Seen],
    time: Option<&TimeColumn>,
    wanted: &[String],
) -> Result<Vec<usize>, RecordingError> {
    let mut places = Vec::new();
    for name in wanted {
        let place = place_of(path, names, name)?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if wanted.is_empty() {
        let filled = |place: usize| !header[place].trim().is_empty() || seen[place].first.is_some();
        let is_time = |place| time.is_some_and(|time| time.date == place || time.clock == Some(place));
        places.extend((0..names.len()).filter(|&place| !is_time(place) && filled(place)));
    }
    if places.is_empty() {
        return Err(RecordingError::NoColumns { path: path.to_owned() });
    }
    Ok(places)
}

fn place_of(path: &Path, names: &[String], wanted: &str) -> Result<usize, RecordingError> {
    names.iter().position(|name| name == wanted).ok_or_else(|| {
        let mut known =
            names.iter().take(NAMED_IN_ERRORS).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        if names.len() > NAMED_IN_ERRORS {
            known.push_str(&format!(" and {} more", names.len() - NAMED_IN_ERRORS));
        }
        RecordingError::UnknownColumn { path: path.to_owned(), column: wanted.to_owned(), known }
    })
}
