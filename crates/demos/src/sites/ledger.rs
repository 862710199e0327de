//! What was published at one site, and what came of it to the others.

use super::load::DEADLINE;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a message came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// On its own topic.
    Live,
    /// Below `$backlog/`.
    Backlog,
}

/// Sites to which messages come.
pub const RECEIVERS: [&str; 2] = ["south", "east"];
/// How finely the timeline is kept.
pub const TICK: Duration = Duration::from_millis(250);

/// A part of the demo.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Row {
    /// What happened at its beginning.
    pub what: String,
    /// When that was, in seconds from the first part.
    pub at_seconds: f64,
    /// Messages that were published in it.
    pub published: u64,
    /// What came to each site.
    pub sites: Vec<Seen>,
}

/// What came to a site of what was published in a part.
#[derive(Serialize, Clone, Default, PartialEq, Debug)]
pub struct Seen {
    pub site: String,
    /// Those that came live.
    pub live: u64,
    /// Of these, those that took longer than the deadline.
    pub late: u64,
    /// Those that came as backlog alone.
    pub backlog: u64,
    /// Those that did not come.
    pub missing: u64,
    /// Those that came more than once.
    pub twice: u64,
    /// The longest time in which no live message of a topic came, in milliseconds; nothing where the site was cut off.
    pub silence_ms: Option<f64>,
}

/// What was published in a moment, and what came.
#[derive(Serialize, Clone, Copy, Default, PartialEq, Debug)]
pub struct Tick {
    pub published: u32,
    pub live: [u32; RECEIVERS.len()],
    pub backlog: [u32; RECEIVERS.len()],
}

/// What was published and what came. It is shared by all who write in it.
#[derive(Clone)]
pub struct Ledger(Arc<Mutex<Book>>);

struct Book {
    begun: Instant,
    /// When publishing ended.
    over: Option<Instant>,
    parts: Vec<Part>,
    /// Those of each topic, by number.
    messages: BTreeMap<String, Vec<Entry>>,
    /// When live messages of each topic came, by receiver.
    arrivals: [BTreeMap<String, Vec<Instant>>; RECEIVERS.len()],
    ticks: Vec<Tick>,
}

struct Part {
    what: String,
    /// Sites to which nothing can come, by number.
    cut: Vec<usize>,
    begin: Instant,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    published: Option<Instant>,
    /// In which part it was published; nothing: before the first.
    part: Option<usize>,
    live: [u32; RECEIVERS.len()],
    late: [u32; RECEIVERS.len()],
    backlog: [u32; RECEIVERS.len()],
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger(Arc::new(Mutex::new(Book {
            begun: Instant::now(),
            over: None,
            parts: Vec::new(),
            messages: BTreeMap::new(),
            arrivals: Default::default(),
            ticks: Vec::new(),
        })))
    }
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happens. The timeline begins with the first.
    pub fn begin(&self, what: &str, cut: &[&str]) {
        let cut = (0..RECEIVERS.len()).filter(|site| cut.contains(&RECEIVERS[*site])).collect();
        let mut book = self.book();
        let begin = Instant::now();
        if book.parts.is_empty() {
            book.begun = begin;
            book.ticks.clear();
        }
        book.parts.push(Part { what: what.to_owned(), cut, begin });
    }

    /// Nothing is published any more.
    pub fn end(&self) {
        self.book().over = Some(Instant::now());
    }

    /// A message is published.
    pub fn published(&self, topic: &str, number: u64) {
        let mut book = self.book();
        let part = book.parts.len().checked_sub(1);
        let entry = book.entry(topic, number);
        (entry.published, entry.part) = (Some(Instant::now()), part);
        book.tick().published += 1;
    }

    /// A message has come to a site.
    pub fn came(&self, site: usize, way: Way, topic: &str, payload: &[u8]) {
        let text = String::from_utf8_lossy(payload);
        let Some(number) = text.split(' ').next().and_then(|number| number.parse().ok()) else { return };
        let topic = topic.trim_start_matches("$backlog/");
        let mut book = self.book();
        let entry = book.entry(topic, number);
        match way {
            Way::Live => {
                entry.live[site] += 1;
                let is_late = entry
                    .published
                    .is_some_and(|at| at.elapsed().as_nanos() > DEADLINE.as_nanos_u64().into());
                entry.late[site] += u32::from(is_late);
                book.tick().live[site] += 1;
                book.arrivals[site].entry(topic.to_owned()).or_default().push(Instant::now());
            }
            Way::Backlog => {
                entry.backlog[site] += 1;
                book.tick().backlog[site] += 1;
            }
        }
    }

    /// Topics of which something has come to every site.
    pub fn topics_that_came(&self) -> usize {
        self.book().arrivals.iter().map(BTreeMap::len).min().unwrap_or(0)
    }

    /// Messages that were published, came live, and came as backlog.
    pub fn counts(&self) -> (u64, u64, u64) {
        let book = self.book();
        let sum = |of: fn(&Tick) -> u32| book.ticks.iter().map(|tick| u64::from(of(tick))).sum();
        (
            sum(|tick| tick.published),
            sum(|tick| tick.live.iter().sum()),
            sum(|tick| tick.backlog.iter().sum()),
        )
    }

    /// Whether everything has come.
    pub fn is_complete(&self) -> bool {
        self.rows().iter().flat_map(|row| &row.sites).all(|seen| seen.missing == 0)
    }

    /// What was published and came, moment by moment.
    pub fn ticks(&self) -> Vec<Tick> {
        self.book().ticks.clone()
    }

    /// Each part, and what came of it.
    pub fn rows(&self) -> Vec<Row> {
        let book = self.book();
        let mut rows: Vec<Row> = (0..book.parts.len()).map(|part| book.row(part)).collect();
        for entry in book.messages.values().flatten().filter(|entry| entry.published.is_some()) {
            let Some(row) = entry.part.and_then(|part| rows.get_mut(part)) else { continue };
            row.published += 1;
            for (site, seen) in row.sites.iter_mut().enumerate() {
                let (live, backlog) = (entry.live[site], entry.backlog[site]);
                seen.late += u64::from(entry.late[site] > 0);
                seen.live += u64::from(live > 0);
                seen.backlog += u64::from(live == 0 && backlog > 0);
                seen.missing += u64::from(live + backlog == 0);
                seen.twice += u64::from(live + backlog > 1);
            }
        }
        rows
    }
}

impl Book {
    fn entry(&mut self, topic: &str, number: u64) -> &mut Entry {
        if !self.messages.contains_key(topic) {
            self.messages.insert(topic.to_owned(), Vec::new());
        }
        let entries = self.messages.entry(topic.to_owned()).or_default();
        let index = number as usize;
        if entries.len() <= index {
            entries.resize(index + 1, Entry::default());
        }
        &mut entries[index]
    }

    fn tick(&mut self) -> &mut Tick {
        let index = (self.begun.elapsed().as_nanos() / TICK.as_nanos()) as usize;
        if self.ticks.len() <= index {
            self.ticks.resize(index + 1, Tick::default());
        }
        &mut self.ticks[index]
    }

    /// A part in which nothing has been counted yet.
    fn row(&self, number: usize) -> Row {
        let part = &self.parts[number];
        let end = self.parts.get(number + 1).map(|next| next.begin).or(self.over);
        let sites = RECEIVERS.iter().enumerate().map(|(site, name)| Seen {
            site: (*name).to_owned(),
            silence_ms: (!part.cut.contains(&site)).then(|| self.silence(site, part.begin, end)),
            ..Seen::default()
        });
        let at_seconds = (part.begin - self.begun).as_secs_f64();
        Row { what: part.what.clone(), at_seconds, published: 0, sites: sites.collect() }
    }

    /// The longest time in which nothing came live of a topic, as far as it was over in this part, or went on at its end.
    fn silence(&self, site: usize, begin: Instant, end: Option<Instant>) -> f64 {
        let end = end.unwrap_or_else(Instant::now);
        let longest = |arrivals: &Vec<Instant>| {
            let before = arrivals.iter().filter(|at| **at < begin).max();
            let within = arrivals.iter().filter(|at| **at >= begin && **at < end);
            let moments: Vec<&Instant> = before.into_iter().chain(within).chain([&end]).collect();
            moments.windows(2).map(|pair| *pair[1] - *pair[0]).max().unwrap_or_default()
        };
        let longest = self.arrivals[site].values().map(longest).max();
        longest.map_or(0.0, |longest| longest.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_came_twice_is_counted_where_it_was_published() {
        let ledger = Ledger::default();
        ledger.published("plant/1", 0);
        ledger.begin("nothing", &[]);
        (1..5).for_each(|number| ledger.published("plant/1", number));
        ledger.begin("a cut", &["east"]);
        ledger.published("plant/1", 5);
        let came =
            |site, way, topic, number: u64| ledger.came(site, way, topic, format!("{number} 7.5").as_bytes());
        came(0, Way::Live, "plant/1", 1);
        came(0, Way::Live, "plant/1", 2);
        came(0, Way::Backlog, "$backlog/plant/1", 2);
        came(0, Way::Backlog, "$backlog/plant/1", 3);
        (1..6).for_each(|number| came(1, Way::Live, "plant/1", number));
        let rows = ledger.rows();
        let counts = |row: &Row, site: usize| {
            let Seen { live, backlog, missing, twice, .. } = row.sites[site];
            [row.published, live, backlog, missing, twice]
        };
        assert_eq!((counts(&rows[0], 0), counts(&rows[1], 0)), ([4, 2, 1, 1, 1], [1, 0, 0, 1, 0]));
        assert_eq!((counts(&rows[0], 1), counts(&rows[1], 1)), ([4, 4, 0, 0, 0], [1, 1, 0, 0, 0]));
        assert!(rows[1].sites[0].silence_ms.is_some() && rows[1].sites[1].silence_ms.is_none());
        assert!(!ledger.is_complete());
        assert_eq!(ledger.counts(), (5, 7, 2), "from the first part on");
    }
}
