//! Appends items of 64 bytes to a journal on real files, in bursts and as fast as goes, and says what that took: one JSON object.
//!
//! `verge-bench-journal FOLDER ITEMS TOPICS`: the folder is made, and removed at the end. Topics are kept for so short a time that most of
//! the items are deleted while others come.

use contract::{Span, Time};
use host::JournalFiles;
use journal::{
    Budget, Cursor, Durability, Forecast, Journal, NewItem, Position, Settings, TopicId, TopicSettings,
    bytes_for,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 64] = [7; 64];
const IDENTITY: [u8; 24] = [1; 24];
const NAME_BYTES: u16 = 10;
/// A site's items of a few milliseconds, as they come back when an uplink does.
const BURST: u64 = 200_000;
const BURSTS: u64 = 20;
/// Much shorter than the run.
const KEEP: Span = Span::secs(2);
/// How often memory is looked at.
const LOOKS: u64 = 20;

struct Run {
    journal: Journal<JournalFiles>,
    topics: Vec<TopicId>,
    begun: Instant,
    sequence: u64,
}

impl Run {
    fn new(folder: &Path, settings: &Settings, topics: u64) -> Result<Run, Box<dyn Error>> {
        let mut journal = Journal::open(JournalFiles::open(folder)?, settings.clone())?;
        let kept = TopicSettings { keep: KEEP, ..TopicSettings::default() };
        let topic = |number: u64| journal.topic(format!("topic/{number:04}").as_bytes(), kept);
        let topics = (0..topics).map(topic).collect::<Result<_, _>>()?;
        Ok(Run { journal, topics, begun: Instant::now(), sequence: 0 })
    }

    fn now(&self) -> Time {
        Time(1_000_000_000_000) + Span::nanos(self.begun.elapsed().as_nanos() as i64)
    }

    fn append(&mut self, now: Time) -> Result<(), Box<dyn Error>> {
        let topic = self.topics[(self.sequence % self.topics.len() as u64) as usize];
        let (sequence, created, expires) = (self.sequence, now, Time::NEVER);
        let item =
            NewItem { topic, identity: &IDENTITY, sequence, created, expires, flags: 0, payload: &PAYLOAD };
        self.journal.append(now, &item)?;
        self.sequence += 1;
        Ok(())
    }

    /// What a turn does besides.
    fn turn(&mut self) -> Result<(), Box<dyn Error>> {
        let now = self.now();
        self.journal.maintain(now, 64 << 10);
        if let Some(order) = self.journal.poll_sync(now) {
            let (ticket, done) = self.journal.files().prepare(&order)?.run();
            self.journal.handle_synced(ticket, done);
        }
        Ok(())
    }

    /// Items in a second, of each burst.
    fn bursts(&mut self) -> Result<Vec<f64>, Box<dyn Error>> {
        let mut rates = Vec::new();
        for _ in 0..BURSTS {
            let (begun, now) = (Instant::now(), self.now());
            for _ in 0..BURST {
                self.append(now)?;
            }
            rates.push(BURST as f64 / begun.elapsed().as_secs_f64());
            self.turn()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(rates)
    }

    /// Items in a second, memory on the way, and the most bytes that files had.
    fn sustained(&mut self, items: u64) -> Result<(f64, Vec<u64>, u64), Box<dyn Error>> {
        let (begun, mut memory, mut most) = (Instant::now(), Vec::new(), 0);
        for number in 0..items {
            let now = self.now();
            self.append(now)?;
            if number.is_multiple_of(1_024) {
                self.turn()?;
                most = most.max(self.journal.used_bytes());
            }
            if (number + 1).is_multiple_of((items / LOOKS).max(1)) {
                memory.push(memory_kib()?);
            }
        }
        Ok((items as f64 / begun.elapsed().as_secs_f64(), memory, most))
    }

    /// Items in a second, read of one topic.
    fn read(&mut self) -> f64 {
        let (begun, mut cursor, mut count) =
            (Instant::now(), Cursor::after(self.topics[0], Position::BEGIN), 0_u64);
        let budget = Budget { items: usize::MAX, bytes: usize::MAX };
        let mut batch = self.journal.read(&mut cursor, Time::ZERO, budget);
        while batch.next_item().is_some() {
            count += 1;
        }
        count as f64 / begun.elapsed().as_secs_f64()
    }
}

/// Memory that is no file's.
fn memory_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("the system does not say")?;
    Ok(line.split_whitespace().next().ok_or("no number")?.parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, items, topics] = &words[..] else { return Err("FOLDER ITEMS TOPICS".into()) };
    let (folder, items, topics) = (PathBuf::from(folder), items.parse()?, topics.parse()?);
    let settings = Settings { durability: Durability::Os, bytes_max: 8 << 30, ..Settings::default() };
    let mut run = Run::new(&folder, &settings, topics)?;
    let bursts = run.bursts()?;
    let (sustained, memory, most) = run.sustained(items)?;
    let kept: u64 = run.journal.segments().map(|segment| segment.items).sum();
    let taken: u64 = run.journal.segments().map(|segment| segment.bytes).sum();
    let forecast = Forecast {
        items: kept,
        payload_bytes: PAYLOAD.len() as u32,
        identity_bytes: IDENTITY.len() as u16,
        topics,
        name_bytes: NAME_BYTES,
    };
    let expired: u64 =
        run.topics.iter().filter_map(|id| run.journal.counters(*id)).map(|it| it.expired).sum();
    let (index, read) = (run.journal.index_bytes(), run.read());
    drop(run);
    let begun = Instant::now();
    drop(Journal::open(JournalFiles::open(&folder)?, settings.clone())?);
    let opened_ms = begun.elapsed().as_secs_f64() * 1e3;
    std::fs::remove_dir_all(&folder)?;
    println!(
        "{}",
        serde_json::json!({
            "bursts": bursts, "sustained": sustained, "memory_kib": memory, "most_bytes": most, "kept": kept, "expired": expired,
            "taken_bytes": taken, "foretold_bytes": bytes_for(&forecast, &settings), "index_bytes": index, "read": read,
            "opened_ms": opened_ms,
        })
    );
    Ok(())
}
