//! Parquet files as the text of a table, so that they are read like any other recording.
//!
//! Times are written as dates in UTC and numbers with a point, whatever the file's types; what has parts of its own (lists, groups) is
//! written as the library shows it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::{Date, Time};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a Parquet file begins with.
pub const MAGIC: &[u8] = b"PAR1";

/// The text, row by row.
pub struct ParquetText {
    rows: RowIter<'static>,
    /// Which integers are times of which kind, by column.
    nanos: Vec<Option<Nanos>>,
    ready: Vec<u8>,
    given: usize,
    /// How much of the file has been used, for a progress bar: as many of its bytes as rows have been read of all rows.
    consumed: Arc<AtomicU64>,
    size: u64,
    read: u64,
    all: u64,
}

impl ParquetText {
    pub fn new(file: File, consumed: Arc<AtomicU64>) -> io::Result<ParquetText> {
        let size = file.metadata()?.len();
        let reader = SerializedFileReader::new(file).map_err(|error| damaged(&error))?;
        let all = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0).max(1);
        let schema = reader.metadata().file_metadata().schema_descr().root_schema_ptr();
        let fields: Vec<Arc<Type>> = schema.get_fields().to_vec();
        let names = fields.iter().map(|field| field.name().to_owned());
        let mut ready = Vec::new();
        write_row(&mut ready, names)?;
        let nanos = fields.iter().map(|field| Nanos::of(field)).collect();
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(ParquetText { rows, nanos, ready, given: 0, consumed, size, read: 0, all })
    }

    /// Whether there was another row.
    fn write_next(&mut self) -> io::Result<bool> {
        let Some(row) = self.rows.next() else { return Ok(false) };
        let row = row.map_err(|error| damaged(&error))?;
        self.read += 1;
        let used = u128::from(self.size) * u128::from(self.read) / u128::from(self.all);
        self.consumed.store(used.min(self.size.into()) as u64, Ordering::Relaxed);
        self.ready.clear();
        self.given = 0;
        let nanos = &self.nanos;
        let cells = row.get_column_iter().enumerate();
        let cells = cells.map(|(place, (_, field))| cell(field, nanos.get(place).copied().flatten()));
        write_row(&mut self.ready, cells)?;
        Ok(true)
    }
}

fn damaged(error: &parquet::errors::ParquetError) -> Error {
    Error::new(ErrorKind::InvalidData, error.to_string())
}

/// Times in nanoseconds, which are plain integers to who does not look at the schema.
#[derive(Clone, Copy)]
enum Nanos {
    Moment,
    OfDay,
}

impl Nanos {
    fn of(field: &Type) -> Option<Nanos> {
        match field.get_basic_info().logical_type_ref() {
            Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS => Some(Nanos::Moment),
            Some(LogicalType::Time(time)) if time.unit == TimeUnit::NANOS => Some(Nanos::OfDay),
            _ => None,
        }
    }
}

fn write_row(into: &mut Vec<u8>, cells: impl Iterator<Item = String>) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().from_writer(into);
    writer.write_record(cells.map(String::into_bytes))?;
    writer.flush()
}

fn cell(field: &Field, nanos: Option<Nanos>) -> String {
    match (field, nanos) {
        (Field::Null, _) => String::new(),
        (Field::Long(time), Some(Nanos::Moment)) => date(i128::from(*time)),
        (Field::Long(time), Some(Nanos::OfDay)) => clock(*time),
        (Field::TimestampMillis(time), _) => date(i128::from(*time) * 1_000_000),
        (Field::TimestampMicros(time), _) => date(i128::from(*time) * 1_000),
        (Field::Date(days), _) => {
            let epoch = Date::constant(1970, 1, 1);
            let day = epoch.checked_add(jiff::Span::new().try_days(*days).unwrap_or_default());
            day.map_or_else(|_| days.to_string(), |day| day.to_string())
        }
        (Field::Bool(is_so), _) => is_so.to_string(),
        (Field::Byte(number), _) => number.to_string(),
        (Field::Short(number), _) => number.to_string(),
        (Field::Int(number), _) => number.to_string(),
        (Field::Long(number), _) => number.to_string(),
        (Field::UByte(number), _) => number.to_string(),
        (Field::UShort(number), _) => number.to_string(),
        (Field::UInt(number), _) => number.to_string(),
        (Field::ULong(number), _) => number.to_string(),
        (Field::Float16(number), _) => plain(number.to_string()),
        (Field::Float(number), _) => plain(number.to_string()),
        (Field::Double(number), _) => plain(number.to_string()),
        (decimal @ Field::Decimal(_), _) => plain(decimal.to_string()),
        (Field::Str(text), _) => text.clone(),
        (Field::Bytes(bytes), _) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.to_owned(),
            Err(_) => STANDARD.encode(bytes.data()),
        },
        (other, _) => other.to_string(),
    }
}

/// A number as nobody can misread it: three digits behind a point may also be thousands, four may not.
fn plain(mut text: String) -> String {
    if text.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 3) {
        text.push('0');
    }
    text
}

/// A time of day that is counted in nanoseconds.
fn clock(nanos: i64) -> String {
    let time = Time::midnight().checked_add(jiff::SignedDuration::from_nanos(nanos));
    time.map_or_else(|_| nanos.to_string(), |time| time.to_string())
}

fn date(nanos: i128) -> String {
    Timestamp::from_nanosecond(nanos).map_or_else(|_| nanos.to_string(), |time| time.to_string())
}

impl Read for ParquetText {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() && !self.write_next()? {
            return Ok(0);
        }
        let length = into.len().min(self.ready.len() - self.given);
        into[..length].copy_from_slice(&self.ready[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}
