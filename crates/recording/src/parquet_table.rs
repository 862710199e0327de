//! A table as a Parquet file: the time of each row, and one column for each name.

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fs::File;
use std::sync::Arc;

/// Cells that are kept before they are written.
const CELLS_MAX: usize = 8 << 20;
/// Rows that are written together at most.
const ROWS_MAX: usize = 65_536;

/// The table being written.
pub struct ParquetTable {
    writer: SerializedFileWriter<File>,
    times: Vec<i64>,
    columns: Vec<Cells>,
}

/// What a column has, and by row whether it has anything.
struct Cells {
    values: Values,
    there: Vec<i16>,
}

enum Values {
    Numbers(Vec<f64>),
    Texts(Vec<ByteArray>),
}

impl ParquetTable {
    /// One with these columns besides the time. `true`: all of its values are numbers.
    pub fn create(file: File, columns: &[(&str, bool)]) -> Result<ParquetTable, ParquetError> {
        let time = Type::primitive_type_builder("time", Physical::INT64)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::timestamp(true, TimeUnit::NANOS)))
            .build()?;
        let mut fields = vec![Arc::new(time)];
        for (name, numbers) in columns {
            let kind = if *numbers { Physical::DOUBLE } else { Physical::BYTE_ARRAY };
            let column = Type::primitive_type_builder(name, kind).with_repetition(Repetition::OPTIONAL);
            let text = Some(LogicalType::String).filter(|_| !numbers);
            let converted = if *numbers { ConvertedType::NONE } else { ConvertedType::UTF8 };
            let column = column.with_logical_type(text).with_converted_type(converted);
            fields.push(Arc::new(column.build()?));
        }
        let schema = Arc::new(Type::group_type_builder("recording").with_fields(fields).build()?);
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default()));
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
        let empty = |(_, numbers): &(&str, bool)| Cells {
            values: if *numbers { Values::Numbers(Vec::new()) } else { Values::Texts(Vec::new()) },
            there: Vec::new(),
        };
        Ok(ParquetTable { writer, times: Vec::new(), columns: columns.iter().map(empty).collect() })
    }

    /// A row of which one column has something.
    pub fn put(&mut self, nanos: i64, place: usize, value: &str) -> Result<(), ParquetError> {
        self.times.push(nanos);
        for (at, cells) in self.columns.iter_mut().enumerate() {
            cells.there.push(i16::from(at == place));
        }
        match self.columns.get_mut(place).map(|cells| &mut cells.values) {
            Some(Values::Numbers(numbers)) => {
                let number = value.trim().parse();
                numbers.push(number.map_err(|_| ParquetError::General(format!("{value:?} is no number")))?);
            }
            Some(Values::Texts(texts)) => texts.push(value.into()),
            None => {}
        }
        let rows = (CELLS_MAX / (self.columns.len() + 1)).min(ROWS_MAX);
        if self.times.len() >= rows { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut columns = self.columns.iter_mut();
        let missing = || ParquetError::General("a column has no writer".to_owned());
        let mut time = group.next_column()?.ok_or_else(missing)?;
        time.typed::<Int64Type>().write_batch(&self.times, None, None)?;
        time.close()?;
        while let Some(mut column) = group.next_column()? {
            let Cells { values, there } = columns.next().ok_or_else(missing)?;
            match values {
                Values::Numbers(numbers) => {
                    column.typed::<DoubleType>().write_batch(numbers, Some(there), None)?;
                    numbers.clear();
                }
                Values::Texts(texts) => {
                    column.typed::<ByteArrayType>().write_batch(texts, Some(there), None)?;
                    texts.clear();
                }
            }
            there.clear();
            column.close()?;
        }
        group.close()?;
        self.times.clear();
        Ok(())
    }

    /// Writes what is left, and the end of the file.
    pub fn end(mut self) -> Result<(), ParquetError> {
        if !self.times.is_empty() {
            self.write()?;
        }
        self.writer.close().map(drop)
    }
}
