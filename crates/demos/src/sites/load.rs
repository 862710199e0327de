//! What is published at the northern site: a recording, and what nobody elsewhere wants.

use super::ledger::Ledger;
use console::Trouble;
use contract::{Contract, Span};
use recording::{Options, Recording};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Publisher};

/// Between two messages of a topic that crosses.
pub const PERIOD: Span = Span::millis(100);
/// What crosses is late after that.
pub const DEADLINE: Span = Span::secs(2);
/// What publishers retain of each topic.
pub const RETAIN: u32 = 5;
/// Between two messages of a topic that stays.
const LOCAL_PERIOD: Span = Span::millis(20);
const LOCAL_BYTES: usize = 256;
/// Letters of a column's name that are those of its topic.
const NAME_MAX: usize = 100;
/// Rows of a recording that are played, again and again.
const ROWS_MAX: usize = 10_000;

/// A column of a recording.
pub struct Column {
    name: String,
    values: Vec<String>,
}

/// Reads a recording: a topic of each column, as many as are wanted.
pub fn columns(path: &Path) -> Result<Vec<Column>, Trouble> {
    let mut recording = Recording::open(path, &Options::default())?;
    let mut columns: Vec<Column> = Vec::new();
    for column in recording.columns() {
        let plain: String = column.name.replace(['/', '+', '#', '$'], "_").chars().take(NAME_MAX).collect();
        let is_taken = |name: &String| columns.iter().any(|known| known.name == *name);
        let others = (2..).map(|number: u32| format!("{plain}_{number}"));
        let name = [plain.clone()].into_iter().chain(others).find(|name| !is_taken(name));
        columns.push(Column { name: name.unwrap_or_default(), values: Vec::new() });
    }
    for _ in 0..ROWS_MAX {
        let Some(row) = recording.next_row()? else { break };
        for (column, cell) in columns.iter_mut().zip(row.cells()) {
            column.values.extend(cell.map(str::to_owned));
        }
    }
    columns.retain(|column| !column.values.is_empty());
    if columns.is_empty() {
        return Err(Trouble(format!("{} has no values", path.display())));
    }
    Ok(columns)
}

/// Topics that are published by threads of their own.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), Trouble>>>,
    pub local: Arc<Local>,
    client: Client,
}

/// What was published and stayed.
#[derive(Default)]
pub struct Local {
    pub messages: AtomicU64,
    pub bytes: AtomicU64,
}

impl Load {
    /// Publishes as many topics of the recording, and as many that stay.
    pub fn start(client: Client, topics: u32, columns: Vec<Column>, ledger: Ledger) -> Result<Load, Trouble> {
        let stop = Arc::new(AtomicBool::new(false));
        let local = Arc::new(Local::default());
        let columns = Arc::new(columns);
        let names: Vec<String> = (0..topics as usize)
            .map(|topic| {
                let (round, column) = (topic / columns.len(), &columns[topic % columns.len()].name);
                if round == 0 { format!("plant/{column}") } else { format!("plant/{column}/{round}") }
            })
            .collect();
        let contract = Contract::every(PERIOD).deadline(DEADLINE).retain(RETAIN);
        let wide = client.publishers(names.iter().map(|name| (name.as_str(), Some(contract))))?;
        let names: Vec<String> = (0..topics).map(|topic| format!("local/{topic}")).collect();
        let contract = Contract::every(LOCAL_PERIOD).deadline(PERIOD).retain(RETAIN);
        let near = client.publishers(names.iter().map(|name| (name.as_str(), Some(contract))))?;
        let threads = vec![
            begin(wide, PERIOD, Recorded { columns, ledger }, &stop),
            begin(near, LOCAL_PERIOD, Counted(Arc::clone(&local)), &stop),
        ];
        Ok(Load { stop, threads, local, client })
    }

    /// Stops, and waits for both. The client is returned so that it lives until all that it sent has come.
    pub fn stop(self) -> Result<Client, Trouble> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap_or_else(|_| Err(Trouble("a publisher has ended".to_owned())))?;
        }
        Ok(self.client)
    }
}

fn begin(
    publishers: Vec<Publisher>,
    period: Span,
    what: impl Publish + Send + 'static,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Result<(), Trouble>> {
    let stopped = Arc::clone(stop);
    std::thread::spawn(move || publish(&publishers, period, &what, &stopped))
}

/// One message.
trait Publish {
    fn publish(&self, index: usize, publisher: &Publisher) -> Result<(), Trouble>;
}

struct Recorded {
    columns: Arc<Vec<Column>>,
    ledger: Ledger,
}

impl Publish for Recorded {
    fn publish(&self, index: usize, publisher: &Publisher) -> Result<(), Trouble> {
        let number = publisher.published();
        let values = &self.columns[index % self.columns.len()].values;
        let value = &values[number as usize % values.len()];
        self.ledger.published(publisher.topic(), number);
        publisher.publish(format!("{number} {value}").as_bytes())?;
        Ok(())
    }
}

struct Counted(Arc<Local>);

impl Publish for Counted {
    fn publish(&self, _: usize, publisher: &Publisher) -> Result<(), Trouble> {
        publisher.publish(&[0; LOCAL_BYTES])?;
        self.0.messages.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(LOCAL_BYTES as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Publishes all topics at their period, until stopped.
fn publish(
    publishers: &[Publisher],
    period: Span,
    what: &impl Publish,
    stopped: &AtomicBool,
) -> Result<(), Trouble> {
    // A little more than the period, which is the shortest time.
    let round = Duration::from_nanos(period.as_nanos_u64() * 102 / 100);
    let mut due = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        for (index, publisher) in publishers.iter().enumerate() {
            what.publish(index, publisher)?;
        }
        due = (due + round).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()).max(round / 2));
    }
    Ok(())
}
