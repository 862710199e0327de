//! What was published at one site, and what came of it to the other.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How a message came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// On its own topic.
    Live,
    /// Below `$backlog/`.
    Backlog,
}

/// A part of the demo.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Row {
    /// What happened at its beginning.
    pub what: String,
    /// Messages that were published in it.
    pub published: u64,
    /// Of these, those that came live.
    pub live: u64,
    /// Those that came as backlog.
    pub backlog: u64,
    /// Those that did not come.
    pub missing: u64,
    /// Those that came more than once.
    pub twice: u64,
    /// The longest time between two live messages of a topic, in milliseconds; nothing where the sites were cut off.
    pub silence_ms: Option<f64>,
}

/// What was published and what came. It is shared by all who write in it.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    /// What happened, whether sites were cut off, and since when.
    parts: Vec<(String, bool, Instant)>,
    messages: BTreeMap<(String, u64), Entry>,
    /// When live messages of each topic came.
    arrivals: BTreeMap<String, Vec<Instant>>,
}

#[derive(Default)]
struct Entry {
    /// In which part it was published; nothing: before the first.
    part: Option<usize>,
    live: u64,
    backlog: u64,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happens.
    pub fn begin(&self, what: &str) {
        self.book().parts.push((what.to_owned(), false, Instant::now()));
    }

    /// The sites are cut off from each other.
    pub fn begin_cut(&self, what: &str) {
        self.book().parts.push((what.to_owned(), true, Instant::now()));
    }

    /// A message is published.
    pub fn published(&self, topic: &str, number: u64) {
        let mut book = self.book();
        let part = book.parts.len().checked_sub(1);
        book.messages.entry((topic.to_owned(), number)).or_default().part = part;
    }

    /// A message has come.
    pub fn came(&self, way: Way, topic: &str, payload: &[u8]) {
        let Some(number) = payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else { return };
        let topic = topic.trim_start_matches("$backlog/").to_owned();
        let mut book = self.book();
        let entry = book.messages.entry((topic.clone(), number)).or_default();
        match way {
            Way::Live => {
                entry.live += 1;
                book.arrivals.entry(topic).or_default().push(Instant::now());
            }
            Way::Backlog => entry.backlog += 1,
        }
    }

    /// Topics of which something has come.
    pub fn topics_that_came(&self) -> usize {
        self.book().arrivals.len()
    }

    /// Messages that were published, came live, and came as backlog.
    pub fn counts(&self) -> (usize, u64, u64) {
        let book = self.book();
        let sum = |of: fn(&Entry) -> u64| book.messages.values().map(of).sum();
        (book.messages.len(), sum(|entry| entry.live), sum(|entry| entry.backlog))
    }

    /// Whether everything has come.
    pub fn is_complete(&self) -> bool {
        self.rows().iter().all(|row| row.missing == 0)
    }

    /// Each part, and what came of it.
    pub fn rows(&self) -> Vec<Row> {
        let book = self.book();
        let mut rows: Vec<Row> = (0..book.parts.len()).map(|part| book.row(part)).collect();
        for entry in book.messages.values() {
            let Some(row) = entry.part.and_then(|part| rows.get_mut(part)) else { continue };
            row.published += 1;
            row.live += u64::from(entry.live > 0);
            row.backlog += u64::from(entry.live == 0 && entry.backlog > 0);
            row.missing += u64::from(entry.live + entry.backlog == 0);
            row.twice += u64::from(entry.live + entry.backlog > 1);
        }
        rows
    }
}

impl Book {
    /// A part in which nothing has been counted yet.
    fn row(&self, part: usize) -> Row {
        let (what, is_cut, begin) = &self.parts[part];
        let end = self.parts.get(part + 1).map(|(.., end)| *end);
        let within = |at: &Instant| *at >= *begin && end.is_none_or(|end| *at < end);
        let gaps =
            self.arrivals.values().flat_map(|arrivals| arrivals.windows(2)).filter_map(|pair| match pair {
                [from, to] if within(to) => Some((*to - *from).as_secs_f64() * 1e3),
                _ => None,
            });
        let silence = gaps.fold(0.0, f64::max);
        Row {
            what: what.clone(),
            published: 0,
            live: 0,
            backlog: 0,
            missing: 0,
            twice: 0,
            silence_ms: (!is_cut).then_some(silence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_came_twice_is_counted_where_it_was_published() {
        let ledger = Ledger::default();
        ledger.published("plant/1", 0);
        ledger.begin("nothing");
        (1..5).for_each(|number| ledger.published("plant/1", number));
        ledger.begin_cut("a cut");
        ledger.published("plant/1", 5);
        let came = |way, topic, number: u64| ledger.came(way, topic, &number.to_le_bytes());
        came(Way::Live, "plant/1", 1);
        came(Way::Live, "plant/1", 2);
        came(Way::Backlog, "$backlog/plant/1", 2);
        came(Way::Backlog, "$backlog/plant/1", 3);
        let rows = ledger.rows();
        let counts = |row: &Row| [row.published, row.live, row.backlog, row.missing, row.twice];
        assert_eq!(counts(&rows[0]), [4, 2, 1, 1, 1]);
        assert_eq!(counts(&rows[1]), [1, 0, 0, 1, 0]);
        assert!(rows[0].silence_ms.is_some() && rows[1].silence_ms.is_none());
        assert!(!ledger.is_complete() && ledger.counts() == (6, 2, 2));
    }
}
