//! Why a recording cannot be read.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::layout::MAX_COLUMNS;
use super::source::MAX_LINE_BYTES;
use super::time_format::READABLE_FORMS;

/// Why a recording cannot be read, and what to do about it. Every message is complete by itself, with the
/// operating system's reason in it where there is one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened.
    #[error("cannot open {}: {cause}; check the path and the permissions", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        cause: io::Error,
    },
    /// The path names a directory, a pipe or a device. A recording is read more than once, so it has to be a
    /// file.
    #[error("{} is not a regular file; write the recording to a file and name that", .path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// The file is of a known format that is no CSV.
    #[error("{} is {format}; export or unpack it as CSV, plain or packed with gzip", .path.display())]
    ForeignFormat {
        /// The file.
        path: PathBuf,
        /// The format, with its article.
        format: &'static str,
    },
    /// The file has no line with anything in it.
    #[error("{} is empty; a recording has a line of column names and at least one row", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has column names and nothing below.
    #[error("{} has only a header; at least one row has to follow the column names", .path.display())]
    OnlyHeader {
        /// The file.
        path: PathBuf,
    },
    /// The file holds bytes that are no text.
    #[error(
        "{}, line {line}: not UTF-8 text; save it again as `CSV UTF-8`, or convert it (iconv -f WINDOWS-1252 -t UTF-8, or -f UTF-16LE)",
        .path.display()
    )]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line of the first such bytes.
        line: u64,
    },
    /// A row is longer than the memory set aside for it.
    #[error(
        "{}, line {line}: the row is longer than {MAX_LINE_BYTES} bytes; look for a quote that is never \
        closed, or a missing line end", .path.display()
    )]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line at which the row begins.
        line: u64,
    },
    /// A quoted cell goes on to the end of the file, and would swallow all rows in it.
    #[error("{}, line {line}: a quote in this row is never closed; close or remove it", .path.display())]
    UnclosedQuote {
        /// The file.
        path: PathBuf,
        /// The line at which the row begins.
        line: u64,
    },
    /// The header has more columns than can become topics.
    #[error(
        "{}, line {line}: {count} columns, but at most {MAX_COLUMNS} can be read; split the file, or swap \
        its rows and columns", .path.display()
    )]
    TooManyColumns {
        /// The file.
        path: PathBuf,
        /// The line of the header.
        line: u64,
        /// How many columns it has.
        count: usize,
    },
    /// A column was asked for that the file does not have.
    #[error(
        "{} has no column {column:?}; it has: {known} (if that looks like one name, set the delimiter)",
        .path.display()
    )]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The name that was asked for.
        column: String,
        /// The names there are.
        known: String,
    },
    /// Nothing in it is measured.
    #[error(
        "{} holds neither times nor numbers, so it is no recording; a CSV file has a line of column names and a row for each moment",
        .path.display()
    )]
    NoData {
        /// The file.
        path: PathBuf,
    },
    /// Nothing is left to publish.
    #[error("{} has no column besides the time; check the delimiter, or select columns", .path.display())]
    NoColumns {
        /// The file.
        path: PathBuf,
    },
    /// None of the first values of the time column is a time.
    #[error(
        "{}, line {line}, column {column:?}: {text:?} is no time; name another time column, or rewrite it: \
        {READABLE_FORMS}", .path.display()
    )]
    UnreadableTimeColumn {
        /// The file.
        path: PathBuf,
        /// The time column.
        column: String,
        /// The line of its first value.
        line: u64,
        /// That value.
        text: String,
    },
    /// The time column has no values where the others have.
    #[error("{}, column {column:?}: no times in the first rows; name another time column", .path.display())]
    EmptyTimeColumn {
        /// The file.
        path: PathBuf,
        /// The time column.
        column: String,
    },
    /// Nothing in the column says whether the day or the month comes first, and a replay would differ.
    #[error(
        "{}, line {line}, column {column:?}: in {text:?} the day, the month or a short year may come first, and nothing in the column decides; say \
        --dates day-first or --dates month-first, or write the year first with four digits", .path.display()
    )]
    AmbiguousDates {
        /// The file.
        path: PathBuf,
        /// The time column.
        column: String,
        /// The line of the first such date.
        line: u64,
        /// That date.
        text: String,
    },
    /// In some dates only the day can come first, and in others only the month.
    #[error(
        "{}, column {column:?}: in line {line} ({text:?}) the day comes first, and in line {other_line} ({other:?}) the month; correct the \
        file, or say --dates, which leaves out the others", .path.display()
    )]
    MixedDates {
        /// The file.
        path: PathBuf,
        /// The time column.
        column: String,
        /// The line of a date whose day comes first.
        line: u64,
        /// That date.
        text: String,
        /// The line of one whose month comes first.
        other_line: u64,
        /// That date.
        other: String,
    },
    /// The times look like a spreadsheet's numbers of days.
    #[error(
        "{}, line {line}, column {column:?}: the time {text:?} looks like a number of days, as spreadsheets count them; say --time-unit days, \
        or which other unit it is", .path.display()
    )]
    DayNumbers {
        /// The file.
        path: PathBuf,
        /// The time column.
        column: String,
        /// The line of the first.
        line: u64,
        /// That number.
        text: String,
    },
    /// Names have fewer cells than the data below them: decimals begin with the comma that parts cells.
    #[error(
        "{}, line {line}: {names} names, but {cells} cells below them: decimals seem to begin with the comma that parts cells; export the file \
        with `;` between cells, with quoted numbers, or with decimal points", .path.display()
    )]
    TornNumbers {
        /// The file.
        path: PathBuf,
        /// The line of the names.
        line: u64,
        /// How many there are.
        names: usize,
        /// How many cells there are below.
        cells: usize,
    },
    /// Most rows are earlier than one before them.
    #[error(
        "{}, line {line}, column {column:?}: {back} of {rows} rows are earlier than one before them; sort the file by time, the oldest row first",
        .path.display()
    )]
    Unsorted {
        /// The file.
        path: PathBuf,
        /// The line of the first that goes back.
        line: u64,
        /// The time column.
        column: String,
        /// How many go back.
        back: u64,
        /// Of how many rows.
        rows: u64,
    },
    /// The delimiter that was asked for cannot part cells.
    #[error("{delimiter:?} cannot be a delimiter; use a single ASCII character such as , ; | or a tab")]
    BadDelimiter {
        /// The character.
        delimiter: char,
    },
    /// A packed file ends before its contents do.
    #[error("{}, line {line}: the {packed} data breaks off; copy or download the file again", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packed: &'static str,
        /// The first line, once unpacked, that is not complete.
        line: u64,
    },
    /// A packed file cannot be unpacked.
    #[error(
        "{}, line {line}: the {packed} data is damaged ({cause}); copy or download the file again",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packed: &'static str,
        /// The first line, once unpacked, that is not complete.
        line: u64,
        /// The decoder's reason.
        cause: io::Error,
    },
    /// The file was replaced between two passes.
    #[error("{} has changed its columns while it was replayed; start again", .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read any further.
    #[error("cannot read {} at line {line}: {cause}; check the disk or the network share", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The first line that is not complete.
        line: u64,
        /// The operating system's reason.
        cause: io::Error,
    },
}
