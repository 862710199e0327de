#![doc = include_str!("../README.md")]

mod columns;
mod error;
mod flaws;
mod head;
mod layout;
mod number;
mod parquet_table;
mod parquet_text;
mod source;
mod survey;
#[cfg(test)]
mod tests;
mod time_format;

use std::ops::Range;
use std::path::{Path, PathBuf};

use csv::StringRecord;

pub use error::RecordingError;
pub use flaws::{FlawKind, Flaws};
use layout::{Layout, is_missing};
pub use parquet_table::ParquetTable;
use source::Records;
pub use survey::Survey;
pub use time_format::{DateOrder, TimeUnit};

/// The time between two rows of a file without a time column.
const NS_PER_ROW: i64 = 1_000_000_000;

/// What a person may say about a recording where the file does not speak for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The column that holds the time. By default, the first that is named like one (`time`, `timestamp`,
    /// `datetime`, `date`, `dttm`, `ts`, `date_time`) and holds times, or whose first value is a date with a
    /// time of day.
    pub time_column: Option<String>,
    /// The columns to read, in this order. By default, all but the time column.
    pub columns: Vec<String>,
    /// The character between cells. By default, what a first line `sep=…` says, or the one of `,`, `;`, tab and `|` that fits the first lines.
    pub delimiter: Option<u8>,
    /// Which number is the day where the year comes last. By default the whole column decides.
    pub dates: Option<DateOrder>,
    /// What numbers in the time column count. By default the magnitude of each tells.
    pub time_unit: Option<TimeUnit>,
}

/// What the cells of a column are, and so what their topic carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Finite numbers, but for one cell in ten at most. However they are written, they are handed out with a point before decimals and
    /// nothing between thousands.
    Number,
    /// Anything else. A column without values counts as text.
    Text,
}

/// One selected column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name from the header, without surrounding blanks. It is distinct within the file: an unnamed
    /// column is called `column_3` by its place, and the second `kw` is called `kw_2`.
    pub name: String,
    /// What its cells are.
    pub kind: Kind,
}

/// One row, valid until the next is read.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The time in nanoseconds since the Unix epoch, never earlier than that of the row before. Without a
    /// time column it is the index of the row in seconds; see [`Recording::has_time`].
    pub time_ns: i64,
    /// The line of the file at which the row begins, counted from one.
    pub line: u64,
    text: &'a str,
    cells: &'a [Option<Range<usize>>],
}

impl<'a> Row<'a> {
    /// The cells in the order of [`Recording::columns`], without surrounding blanks. `None` stands for a cell
    /// that is missing or refused. The cells of a number column can be parsed as `f64`.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = Option<&'a str>> + use<'a> {
        let text = self.text;
        self.cells.iter().map(move |cell| cell.clone().map(|range| &text[range]))
    }

    /// One cell by the index of its column; `None` also beyond the last.
    #[cfg(test)]
    pub fn cell(&self, column: usize) -> Option<&'a str> {
        self.cells.get(column)?.clone().map(|range| &self.text[range])
    }
}

/// A recording being read. Its buffers are reused from row to row.
pub struct Recording {
    path: PathBuf,
    layout: Layout,
    columns: Vec<Column>,
    records: Records,
    record: StringRecord,
    /// A date and a time of day from two columns.
    moment: String,
    text: String,
    cells: Vec<Option<Range<usize>>>,
    /// Cells of each column that are not what the column is.
    outliers: Vec<u64>,
    rows: i64,
    last_ns: i64,
    flaws: Flaws,
    ended: bool,
}

impl Recording {
    /// Opens a file, and reads it once to learn where the table is, what its columns are, and how the time is written.
    pub fn open(path: &Path, options: &Options) -> Result<Recording, RecordingError> {
        let mut layout = Layout::find(path, options)?;
        let columns = std::mem::take(&mut layout.columns);
        let records = Records::open(path, layout.head.delimiter, layout.head.above)?;
        let mut recording = Recording {
            outliers: vec![0; columns.len()],
            path: path.to_owned(),
            layout,
            columns,
            records,
            record: StringRecord::new(),
            moment: String::new(),
            text: String::new(),
            cells: Vec::new(),
            rows: 0,
            last_ns: i64::MIN,
            flaws: Flaws::default(),
            ended: false,
        };
        recording.skip_header()?;
        Ok(recording)
    }

    /// The selected columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether the file has a time column. Otherwise each row counts as one second, which is worth telling
    /// the person who waits for the replay.
    pub fn has_time(&self) -> bool {
        self.layout.time.is_some()
    }

    /// The name of the time column, if there is one.
    pub fn time_column(&self) -> Option<&str> {
        self.layout.time.as_ref().map(|time| time.name.as_str())
    }

    /// Reads the next row, or `None` at the end. After an error the recording has ended, too.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, RecordingError> {
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        while let Some(line) = self.records.read(&mut self.record)? {
            if self.take_time(line) {
                self.ended = false;
                self.check_width(line);
                self.take_cells(line);
                let (time_ns, text, cells) = (self.last_ns, &self.text, &self.cells);
                return Ok(Some(Row { time_ns, line, text, cells }));
            }
        }
        Ok(None)
    }

    /// What was wrong since the file was opened or rewound.
    pub fn flaws(&self) -> &Flaws {
        &self.flaws
    }

    /// How many bytes of the file have been used, and how many it has, both as packed: for a progress bar.
    pub fn progress(&self) -> (u64, u64) {
        self.records.progress()
    }

    /// Goes back to the first row. The flaws are counted anew, because every pass meets the same ones.
    pub fn rewind(&mut self) -> Result<(), RecordingError> {
        self.ended = true;
        self.records = Records::open(&self.path, self.layout.head.delimiter, self.layout.head.above)?;
        self.skip_header()?;
        self.flaws = Flaws::default();
        self.outliers.fill(0);
        self.rows = 0;
        self.last_ns = i64::MIN;
        self.ended = false;
        Ok(())
    }

    fn skip_header(&mut self) -> Result<(), RecordingError> {
        self.layout.head.skip(&self.path, &mut self.records, &mut self.record)
    }

    /// What was understood of the file besides its columns, each with a name, for a person to check.
    pub fn understood(&self) -> Vec<(&'static str, String)> {
        let head = &self.layout.head;
        let mut told = Vec::new();
        if !head.told.is_empty() {
            let lines =
                if head.above == 1 { "line 1".to_owned() } else { format!("lines 1 to {}", head.above) };
            told.push(("left out", format!("{lines}: {}", head.told.join(" / "))));
        }
        if head.typed {
            told.push(("names", "of the file, which says itself what its columns are".to_owned()));
            told.extend(self.layout.notes.iter().map(|note| ("note", note.clone())));
            return told;
        }
        told.push((
            "names",
            match head.header_line {
                Some(line) => format!("line {line}"),
                None => "none: columns are called by their places".to_owned(),
            },
        ));
        if let Some(units) = &head.units {
            told.push(("units", units.iter().collect::<Vec<_>>().join(" ")));
        }
        let delimiter = char::from(head.delimiter);
        told.push(("cells", format!("parted by {delimiter:?}")));
        told.extend(self.layout.notes.iter().map(|note| ("note", note.clone())));
        told
    }

    /// How the dates of the time column are read, where their year comes last.
    pub fn date_order(&self) -> DateOrder {
        self.layout.form.order
    }

    /// Advances the time to that of the present row. False if the row has none.
    fn take_time(&mut self, line: u64) -> bool {
        let Some(column) = &self.layout.time else {
            self.last_ns = self.rows.saturating_mul(NS_PER_ROW);
            self.rows += 1;
            return true;
        };
        let cell = |place: usize| self.record.get(place).unwrap_or_default().trim();
        let (name, mut text) = (&column.name, cell(column.date));
        if let Some(clock) = column.clock {
            self.moment.clear();
            self.moment.extend([text, " ", cell(clock)]);
            text = self.moment.trim();
        }
        let Some(time_ns) = time_format::parse(text, self.layout.form) else {
            self.flaws.note(FlawKind::UnreadableTime, line, Some(name), text);
            return false;
        };
        if time_ns < self.last_ns {
            self.flaws.note(FlawKind::OutOfOrder, line, Some(name), text);
        }
        self.last_ns = self.last_ns.max(time_ns);
        true
    }

    /// A delimiter at the end of the line makes an empty cell too many, and no flaw.
    fn check_width(&mut self, line: u64) {
        let (cells, columns) = (self.record.len(), self.layout.head.header.len());
        let surplus = self.record.iter().skip(columns).any(|cell| !cell.trim().is_empty());
        if cells < columns || surplus {
            let kind = if surplus { FlawKind::LongRow } else { FlawKind::ShortRow };
            self.flaws.note(kind, line, None, format_args!("{cells} cells for {columns} columns"));
        }
    }

    /// Copies the selected cells into one text, where a decimal comma can become a point without a `String`
    /// for each cell.
    fn take_cells(&mut self, line: u64) {
        self.text.clear();
        self.cells.clear();
        let columns = self.columns.iter().zip(&self.layout.places).zip(&mut self.outliers);
        for ((column, &(place, decimal)), outliers) in columns {
            let start = self.text.len();
            let flaw = match self.record.get(place).map(str::trim) {
                None => {
                    self.cells.push(None);
                    continue;
                }
                Some(cell) if is_missing(cell) => Some((FlawKind::MissingCell, cell)),
                Some(cell) if column.kind == Kind::Text => {
                    self.text.push_str(cell);
                    None
                }
                Some(cell) if number::push(&mut self.text, cell, decimal).is_some() => None,
                Some(cell) => Some((FlawKind::NotANumber, cell)),
            };
            if let Some((kind, cell)) = flaw {
                *outliers += u64::from(kind == FlawKind::NotANumber);
                self.flaws.note(kind, line, Some(&column.name), cell);
            }
            self.cells.push(flaw.is_none().then_some(start..self.text.len()));
        }
    }
}
