//! What the first lines of a recording tell: its delimiter, its columns, and which of them is the time.

use std::collections::HashSet;
use std::path::Path;

use csv::StringRecord;

use super::flaws::quoted;
use super::source::{Lines, Records};
use super::{Column, Kind, Options, RecordingError, time_format};

/// The most columns a recording may have. Each one becomes a topic, and a header beyond this is a file with
/// rows and columns the wrong way round.
pub const MAX_COLUMNS: usize = 4096;

/// How many rows decide the kind of a column and whether a time column is readable.
pub const SAMPLE_ROWS: usize = 100;

const SAMPLE_LINES: usize = 20;

/// How many columns an error names before it only counts the rest.
const NAMED_IN_ERRORS: usize = 40;

/// In the order of preference: a decimal comma makes `,` look like a delimiter in every line, so it comes
/// last.
const DELIMITERS: [u8; 4] = *b"\t;|,";

const TIME_NAMES: [&str; 7] = ["time", "timestamp", "datetime", "date", "dttm", "ts", "date_time"];

/// How the rows of one file are to be read.
pub(super) struct Layout {
    pub(super) delimiter: u8,
    /// The header as it is in the file, to notice when a later pass meets a different one.
    pub(super) header: StringRecord,
    /// The place of the time in a row, and the name of its column.
    pub(super) time: Option<(usize, String)>,
    /// The place in a row of each selected column.
    pub(super) places: Vec<usize>,
    pub(super) columns: Vec<Column>,
}

impl Layout {
    pub(super) fn find(path: &Path, options: &Options) -> Result<Layout, RecordingError> {
        let delimiter = match options.delimiter {
            Some(delimiter) if !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\n' | b'\r') => {
                return Err(RecordingError::BadDelimiter { delimiter: char::from(delimiter) });
            }
            Some(delimiter) => delimiter,
            None => detect_delimiter(path)?,
        };
        let mut records = Records::open(path, delimiter)?;
        let mut header = StringRecord::new();
        let Some(line) = records.read(&mut header)? else {
            return Err(RecordingError::Empty { path: path.to_owned() });
        };
        if header.len() > MAX_COLUMNS {
            return Err(RecordingError::TooManyColumns { path: path.to_owned(), line, count: header.len() });
        }
        let decimal_comma = has_decimal_comma(delimiter);
        if looks_like_data(&header, decimal_comma) {
            let text = quoted(&header.iter().collect::<Vec<_>>().join(&char::from(delimiter).to_string()));
            return Err(RecordingError::NoHeader { path: path.to_owned(), line, text });
        }
        let seen = sample(path, &mut records, header.len(), decimal_comma)?;
        let names = names(&header);
        let time = choose_time(path, &names, &seen, options.time_column.as_deref())?;
        let places = select(path, &header, &names, &seen, time, &options.columns)?;
        let column = |&place: &usize| Column { name: names[place].clone(), kind: seen[place].kind() };
        let columns = places.iter().map(column).collect();
        Ok(Layout {
            delimiter,
            time: time.map(|place| (place, names[place].clone())),
            places,
            columns,
            header,
        })
    }

    pub(super) fn decimal_comma(&self) -> bool {
        has_decimal_comma(self.delimiter)
    }
}

/// Only where `;` parts the cells can a comma belong to a number.
fn has_decimal_comma(delimiter: u8) -> bool {
    delimiter == b';'
}

/// Appends a finite number in the notation with a point. False, and nothing appended, for anything else.
pub(super) fn push_number(text: &mut String, cell: &str, decimal_comma: bool) -> bool {
    let start = text.len();
    match cell.split_once(',') {
        Some((whole, fraction)) if decimal_comma && !whole.contains('.') => {
            text.extend([whole, ".", fraction]);
        }
        _ => text.push_str(cell),
    }
    let finite = text[start..].parse().is_ok_and(f64::is_finite);
    if !finite {
        text.truncate(start);
    }
    finite
}

/// Whether a cell stands for no value.
pub(super) fn is_missing(cell: &str) -> bool {
    let markers = ["na", "n/a", "nan", "null"];
    matches!(cell, "" | "-" | "?")
        || cell.len() <= 4 && markers.iter().any(|marker| cell.eq_ignore_ascii_case(marker))
}

/// Takes the delimiter that parts most of the first lines into as many cells as the header. Without any, the
/// file has a single column.
fn detect_delimiter(path: &Path) -> Result<u8, RecordingError> {
    let mut lines = Lines::open(path)?;
    let mut header = [0; DELIMITERS.len()];
    let mut agreeing = [0; DELIMITERS.len()];
    for index in 0..SAMPLE_LINES {
        lines.begin_record();
        let Some(line) = lines.next()? else { break };
        let counts = DELIMITERS.map(|delimiter| count_unquoted(line, delimiter));
        if index == 0 {
            header = counts;
        }
        for (place, count) in counts.iter().enumerate() {
            agreeing[place] += usize::from(*count > 0 && *count == header[place]);
        }
    }
    let most = agreeing.iter().copied().max().filter(|&most| most > 0);
    let place = most.and_then(|most| agreeing.iter().position(|&count| count == most));
    Ok(place.map_or(b',', |place| DELIMITERS[place]))
}

fn count_unquoted(line: &[u8], delimiter: u8) -> usize {
    let mut quoted = false;
    let mut count = 0;
    for &byte in line {
        quoted ^= byte == b'"';
        count += usize::from(byte == delimiter && !quoted);
    }
    count
}

/// A header has no date and is not all numbers.
fn looks_like_data(header: &StringRecord, decimal_comma: bool) -> bool {
    let mut cells = header.iter().map(str::trim).filter(|cell| !is_missing(cell)).peekable();
    let number = |cell| push_number(&mut String::new(), cell, decimal_comma);
    cells.clone().any(|cell| time_format::civil(cell).is_some())
        || cells.peek().is_some() && cells.all(number)
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

/// What the sample shows of one column.
#[derive(Clone, Default)]
struct Seen {
    /// The first cell that is not missing, with its line.
    first: Option<(u64, String)>,
    first_is_civil_time: bool,
    some_time: bool,
    some_text: bool,
}

impl Seen {
    /// A column without any value in the sample counts as text, which refuses nothing that comes later.
    fn kind(&self) -> Kind {
        if self.first.is_some() && !self.some_text { Kind::Number } else { Kind::Text }
    }
}

fn sample(
    path: &Path,
    records: &mut Records,
    width: usize,
    decimal_comma: bool,
) -> Result<Vec<Seen>, RecordingError> {
    let mut seen = vec![Seen::default(); width];
    let (mut record, mut scratch) = (StringRecord::new(), String::new());
    for index in 0..SAMPLE_ROWS {
        let Some(line) = records.read(&mut record)? else {
            if index == 0 {
                return Err(RecordingError::OnlyHeader { path: path.to_owned() });
            }
            break;
        };
        for (seen, cell) in seen.iter_mut().zip(&record) {
            let cell = cell.trim();
            if is_missing(cell) {
                continue;
            }
            if seen.first.is_none() {
                seen.first = Some((line, quoted(cell)));
                seen.first_is_civil_time = time_format::civil(cell).is_some();
            }
            scratch.clear();
            seen.some_text |= !push_number(&mut scratch, cell, decimal_comma);
            seen.some_time = seen.some_time || time_format::parse(cell).is_some();
        }
    }
    Ok(seen)
}

/// A column that is named as the time and never holds one is an error rather than passed over: replaying such
/// a file at one row a second would look right and be wrong.
fn choose_time(
    path: &Path,
    names: &[String],
    seen: &[Seen],
    wanted: Option<&str>,
) -> Result<Option<usize>, RecordingError> {
    let by_name = |&place: &usize| TIME_NAMES.iter().any(|name| names[place].eq_ignore_ascii_case(name));
    let found = match wanted {
        Some(wanted) => Some(place_of(path, names, wanted)?),
        None => (0..names.len())
            .find(|place| seen[*place].first_is_civil_time || by_name(place) && seen[*place].some_time)
            .or_else(|| (0..names.len()).find(by_name)),
    };
    match found {
        Some(place) if !seen[place].some_time => {
            let (path, column) = (path.to_owned(), names[place].clone());
            Err(match seen[place].first.clone() {
                Some((line, text)) => RecordingError::UnreadableTimeColumn { path, column, line, text },
                None => RecordingError::EmptyTimeColumn { path, column },
            })
        }
        found => Ok(found),
    }
}

/// The places of the selected columns. An unnamed column without values is what a delimiter at the end of
/// every line leaves behind, and not selected unless asked for.
fn select(
    path: &Path,
    header: &StringRecord,
    names: &[String],
    seen: &[Seen],
    time: Option<usize>,
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
        places.extend((0..names.len()).filter(|&place| Some(place) != time && filled(place)));
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
