//! `verge record`: topics into a file that `verge replay` reads, as CSV or, where it is called `.parquet`, as Parquet.
//!
//! The problem: a CSV file begins with its columns, and which topics there are is known only at the end. The idea: messages go into a file
//! of their own beside it as they come, and become a table when it was enough, one column for each topic and one row for each message. Where
//! this program is killed, that file has everything but what came in the last second, and `verge record --finish` makes the table of it.

use super::connect;
use super::declared::Declared;
use super::stopping::Stop;
use super::subscribe::{check_filters, next, subscribe};
use super::watch::Watch;
use crate::arguments::{Format, RecordArguments};
use config::Config;
use console::{Outcome, Trouble, complain, json, line, yes};
use csv::{Reader, ReaderBuilder, StringRecord, Writer, WriterBuilder};
use recording::ParquetTable;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use verge::Message;

/// Rows that may come before others that are older: publishers' ways differ.
const REORDERED_MAX: usize = 65_536;
/// The most topics: each becomes a column.
const TOPICS_MAX: usize = 4_095;
/// Ends each row, so that one which was not written to its end is known.
const WHOLE: &str = ".";
/// What has come is on its way to the disk after so long.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// How long to wait for a message before looking whether to end.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Summary {
    file: String,
    rows: u64,
    topics: usize,
    /// What came besides; not known of a recording that was killed.
    #[serde(flatten)]
    heard: Option<Heard>,
}

/// What came.
#[derive(Clone, Copy, Default, Serialize)]
struct Heard {
    #[serde(skip)]
    rows: u64,
    /// Messages that are no text, and of which the configuration does not say what they are.
    left_out: u64,
    lost: u64,
}

/// Records until it was enough.
pub fn run(config: &Config, arguments: &RecordArguments, format: Format) -> Outcome {
    let (file, part) = (arguments.file.display().to_string(), part_of(&arguments.file));
    let mut heard = None;
    if !arguments.finish {
        if arguments.file.exists() {
            return Err(Trouble(format!("{file} is there already: name another file, or move it away")));
        }
        let Some(came) = listen(config, arguments, &part)? else { return Ok(yes(false)) };
        if came.rows == 0 {
            let _ = std::fs::remove_file(&part);
            complain("verge: nothing came, so there is no file");
            return Ok(yes(false));
        }
        heard = Some(came);
    }
    let (rows, topics) = finish(&part, &arguments.file)?;
    let summary = Summary { file, rows, topics, heard };
    match format {
        Format::Json => json(&summary)?,
        Format::Table => tell(&summary)?,
    }
    Ok(yes(true))
}

fn tell(summary: &Summary) -> Result<(), Trouble> {
    let Summary { file, rows, topics, heard } = summary;
    line(&format!(
        "{file}: {rows} rows of {topics} topics. `verge replay {file} -t '{{topic}}'` publishes it on the same topics"
    ))?;
    let Heard { left_out, lost, .. } = heard.unwrap_or_default();
    if left_out > 0 {
        complain(&format!(
            "verge: {left_out} messages are no text and are left out: say what they are in [[source]] (type = \"f64\")"
        ));
    }
    if lost > 0 {
        complain(&format!("verge: {lost} messages did not come"));
    }
    Ok(())
}

/// Where messages go as they come.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Trouble {
    Trouble(format!("cannot write {}: {error}", path.display()))
}

/// Writes what comes. `None`: a subscription was refused, which has been told.
fn listen(config: &Config, arguments: &RecordArguments, part: &Path) -> Result<Option<Heard>, Trouble> {
    check_filters(&arguments.topic)?;
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let Some(subscriptions) = subscribe(&client, &arguments.topic, verge::Needs::NONE)? else {
        return Ok(None);
    };
    let _watch = Watch::start(&client, config)?;
    let declared = Declared::of(config);
    let file = OpenOptions::new().write(true).create_new(true).open(part);
    let file = file.map_err(|error| {
        Trouble(format!(
            "cannot begin {}: {error}. If it is there from a recording that was killed, `verge record --finish {}` makes the table of it",
            part.display(),
            arguments.file.display()
        ))
    })?;
    let mut rows = WriterBuilder::new().flexible(true).from_writer(BufWriter::new(file));
    let stop = Stop::on_signals()?;
    let until = arguments.wait.map(|wait| Instant::now() + Duration::from_nanos(wait.as_nanos_u64()));
    let mut heard = Heard::default();
    let mut flushed = Instant::now();
    while arguments.count.is_none_or(|count| heard.rows < count) && !stop.is_asked() {
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            break;
        }
        if now >= flushed + FLUSH_EVERY {
            rows.flush().map_err(|error| unwritable(part, &error))?;
            flushed = now;
        }
        let look = until.map_or(now + LOOK, |until| until.min(now + LOOK));
        let Some(message) = next(&client, &subscriptions, Some(look))? else { continue };
        heard.lost += message.lost;
        // No CSV file can have a zero in it.
        match declared.text(&message.topic, &message.payload).filter(|text| !text.contains('\0')) {
            Some(text) => {
                write(&mut rows, &message, &text).map_err(|error| unwritable(part, &error))?;
                heard.rows += 1;
            }
            None => heard.left_out += 1,
        }
    }
    rows.flush().map_err(|error| unwritable(part, &error))?;
    Ok(Some(heard))
}

fn write(rows: &mut Writer<BufWriter<File>>, message: &Message, text: &str) -> csv::Result<()> {
    rows.write_record([message.created.0.to_string().as_str(), &message.topic, text, WHOLE])
}

/// Makes the table. Returns how many rows and topics it has.
fn finish(part: &Path, file: &Path) -> Result<(u64, usize), Trouble> {
    let unreadable =
        |error: &dyn std::fmt::Display| Trouble(format!("cannot read {}: {error}", part.display()));
    let open = || -> Result<Reader<BufReader<File>>, Trouble> {
        let opened = File::open(part).map_err(|error| unreadable(&error))?;
        Ok(ReaderBuilder::new().has_headers(false).flexible(true).from_reader(BufReader::new(opened)))
    };
    // Of each column, its place and whether all of its values are numbers.
    let mut columns: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    let mut record = StringRecord::new();
    let mut rows = open()?;
    while rows.read_record(&mut record).map_err(|error| unreadable(&error))? {
        let Some((_, topic, value)) = whole(&record) else { continue };
        let next = columns.len();
        // A number that would be written otherwise is a text: `007` is no 7.
        let is_number =
            value.parse().is_ok_and(|number: f64| number.is_finite() && number.to_string() == value);
        match columns.get_mut(topic) {
            Some((_, numbers)) => *numbers &= is_number,
            None => _ = columns.insert(topic.to_owned(), (next, is_number)),
        }
    }
    if columns.len() > TOPICS_MAX {
        return Err(Trouble(format!(
            "{} has {} topics, and a table at most {TOPICS_MAX}: record fewer",
            part.display(),
            columns.len()
        )));
    }
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .map_err(|error| unwritable(file, &error))?;
    let mut names = vec![("", false); columns.len()];
    for (topic, (place, numbers)) in &columns {
        names[*place] = (topic, *numbers);
    }
    let mut table = Table::begin(file, created, &names).map_err(|error| unwritable(file, &*error))?;
    // The oldest of those that wait comes first.
    let mut waiting: BinaryHeap<Reverse<(i64, u64, usize, String)>> = BinaryHeap::new();
    let (mut rows, mut order) = (open()?, 0);
    while rows.read_record(&mut record).map_err(|error| unreadable(&error))? {
        let Some((time, topic, value)) = whole(&record) else { continue };
        let Some((place, _)) = columns.get(topic) else { continue };
        order += 1;
        waiting.push(Reverse((time, order, *place, value.to_owned())));
        if waiting.len() > REORDERED_MAX {
            table.put(waiting.pop()).map_err(|error| unwritable(file, &*error))?;
        }
    }
    while !waiting.is_empty() {
        table.put(waiting.pop()).map_err(|error| unwritable(file, &*error))?;
    }
    let written = table.end().map_err(|error| unwritable(file, &*error))?;
    let _ = std::fs::remove_file(part);
    Ok((written, columns.len()))
}

/// A row that was written to its end: the time, the topic, and the value.
fn whole(record: &StringRecord) -> Option<(i64, &str, &str)> {
    record.get(3).filter(|end| *end == WHOLE)?;
    Some((record.get(0)?.parse().ok()?, record.get(1)?, record.get(2)?))
}

struct Table {
    out: Out,
    rows: u64,
}

enum Out {
    Csv { out: Writer<BufWriter<File>>, width: usize },
    Parquet(ParquetTable),
}

type Written<T> = Result<T, Box<dyn std::error::Error>>;

impl Table {
    /// One with these columns; of some, all values are numbers. The file's name says how it is written.
    fn begin(name: &Path, file: File, columns: &[(&str, bool)]) -> Written<Table> {
        if name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
            return Ok(Table { out: Out::Parquet(ParquetTable::create(file, columns)?), rows: 0 });
        }
        let mut out = Writer::from_writer(BufWriter::new(file));
        out.write_record(std::iter::once("time").chain(columns.iter().map(|(topic, _)| *topic)))?;
        Ok(Table { out: Out::Csv { out, width: columns.len() }, rows: 0 })
    }

    fn put(&mut self, row: Option<Reverse<(i64, u64, usize, String)>>) -> Written<()> {
        let Some(Reverse((nanos, _, place, value))) = row else { return Ok(()) };
        match &mut self.out {
            Out::Csv { out, width } => {
                let time =
                    jiff::Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or_default().to_string();
                let cells = (0..*width).map(|at| if at == place { value.as_str() } else { "" });
                out.write_record(std::iter::once(time.as_str()).chain(cells))?;
            }
            Out::Parquet(table) => table.put(nanos, place, &value)?,
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the rest. Returns how many rows there are.
    fn end(self) -> Written<u64> {
        match self.out {
            Out::Csv { mut out, .. } => out.flush()?,
            Out::Parquet(table) => table.end()?,
        }
        Ok(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_a_table_by_time_with_a_column_for_each_topic() {
        let folder = std::env::temp_dir().join(format!("verge-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.csv");
        std::fs::write(
            part_of(&file),
            "2000000000,b/x,\"1,5\",.\n1000000000,a,warm,.\n3000000000,b/x,2,.\n4000000000,a,2",
        )
        .unwrap();
        assert_eq!(finish(&part_of(&file), &file).unwrap(), (3, 2), "the last was not written to its end");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            text,
            "time,b/x,a\n1970-01-01T00:00:01Z,,warm\n1970-01-01T00:00:02Z,\"1,5\",\n1970-01-01T00:00:03Z,2,\n"
        );
        assert!(!part_of(&file).exists());
        // The same as Parquet says the same to who replays it.
        let other = folder.join("a.parquet");
        std::fs::write(part_of(&other), "2000000000,b/x,1.5,.\n1000000000,a,warm,.\n3000000001,b/x,2,.\n")
            .unwrap();
        assert_eq!(finish(&part_of(&other), &other).unwrap(), (3, 2));
        let mut recording = recording::Recording::open(&other, &Default::default()).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = recording.next_row().unwrap() {
            let cells: Vec<String> = row.cells().map(|cell| cell.unwrap_or("-").to_owned()).collect();
            rows.push((row.time_ns, cells.join(" ")));
        }
        assert_eq!(
            rows,
            [
                (1_000_000_000, "- warm".to_owned()),
                (2_000_000_000, "1.5 -".to_owned()),
                (3_000_000_001, "2 -".to_owned()),
            ]
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
