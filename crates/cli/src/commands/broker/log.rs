//! What a broker says, as lines for people or as JSON objects for programs. Lines are written by another thread, since a terminal
//! that is stopped must not stop the data. The same cause is said at most once per second, with how often it was left out.

use crate::config::LogConfig;
use crate::output::Trouble;
use broker::{Event, Fact, JsonObject, Severity, Throttle, Verdict, cause_of, write_json};
use contract::{Span, Time};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use engine::Reporter;
use host::now;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines that may wait to be written; above it they are counted and left out.
const LINES_MAX: usize = 4096;
/// The time between two lines of the same cause.
const INTERVAL: Span = Span::secs(1);
/// Causes that are remembered.
const CAUSES_MAX: usize = 256;
/// How soon it is looked for what was left out.
const LOOK: Duration = Duration::from_millis(250);

/// Where a broker's threads say something.
#[derive(Clone)]
pub struct Lines {
    records: Sender<Option<Record>>,
    shared: Arc<Shared>,
    name: Arc<str>,
}

/// How lines are made, which may change while the broker runs.
struct Shared {
    json: AtomicBool,
    level: AtomicU8,
    /// Lines for which there was no room.
    crowded_out: AtomicU64,
}

/// A line that waits.
#[derive(Clone)]
struct Record {
    at: Time,
    /// What it is about; nothing if it is always written.
    cause: Option<u64>,
    /// A sentence, or a JSON object.
    line: String,
    is_json: bool,
}

/// The kind of lines that are no events.
const NOTE: &str = "note";

impl Lines {
    /// Says something that is no event.
    pub fn say(&self, line: &str) {
        self.note(Severity::Info, line);
    }

    /// Says something that somebody should look at.
    pub fn warn(&self, line: &str) {
        self.note(Severity::Warning, line);
    }

    fn note(&self, severity: Severity, line: &str) {
        if !self.shared.wants(severity) {
            return;
        }
        let (at, is_json) = (now(), self.shared.json.load(Ordering::Relaxed));
        let line = if is_json { note_json(at, &self.name, severity, line) } else { line.to_owned() };
        self.send(Record { at, cause: None, line, is_json });
    }

    fn send(&self, record: Record) {
        // When the queue is full, nobody is reading anyway.
        if self.records.try_send(Some(record)).is_err() {
            self.shared.crowded_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes over how lines are made.
    pub fn adjust(&self, config: LogConfig) {
        self.shared.json.store(config.json, Ordering::Relaxed);
        self.shared.level.store(config.level as u8, Ordering::Relaxed);
    }

    /// Nothing more will be said.
    pub fn end(&self) {
        let _ = self.records.send(None);
    }
}

impl Shared {
    fn wants(&self, severity: Severity) -> bool {
        severity as u8 <= self.level.load(Ordering::Relaxed)
    }
}

impl Reporter for Lines {
    fn report(&mut self, event: &Event<'_>) {
        if !self.shared.wants(event.severity()) {
            return;
        }
        let (at, is_json) = (now(), self.shared.json.load(Ordering::Relaxed));
        let mut line = String::new();
        if is_json {
            write_json(&mut line, at, &self.name, event, &[]);
        } else {
            line = printable(&event.to_string());
        }
        self.send(Record { at, cause: Some(cause_of(event.kind(), event.subject())), line, is_json });
    }
}

/// Peers choose their names; they must not end a line or turn the terminal.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    out
}

fn note_json(at: Time, name: &str, severity: Severity, text: &str) -> String {
    let mut line = String::new();
    let mut object = JsonObject::begin(&mut line);
    object.field("time_ns", Fact::Number(at.0));
    object.field("broker", Fact::Text(name));
    object.field("kind", Fact::Text(NOTE));
    object.field("severity", Fact::Text(severity.as_str()));
    object.field("text", Fact::Text(text));
    object.end();
    line
}

/// Starts the thread that writes.
pub fn write_in_background(name: &str, config: LogConfig) -> Result<(Lines, JoinHandle<()>), Trouble> {
    let (records, receiver) = bounded(LINES_MAX);
    let shared = Arc::new(Shared {
        json: AtomicBool::new(config.json),
        level: AtomicU8::new(config.level as u8),
        crowded_out: AtomicU64::new(0),
    });
    let lines = Lines { records, shared: Arc::clone(&shared), name: Arc::from(name) };
    let mut writer = Writer { name: name.to_owned(), throttle: Throttle::new(INTERVAL, CAUSES_MAX), shared };
    let thread = std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || writer.run(&receiver, &mut std::io::stderr()))?;
    Ok((lines, thread))
}

struct Writer {
    name: String,
    throttle: Throttle<Record>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self, records: &Receiver<Option<Record>>, out: &mut impl Write) {
        loop {
            match records.recv_timeout(LOOK) {
                Ok(Some(record)) => self.take(&record, out),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.write_overdue(now(), out);
        }
        // What was left out last is said all the same.
        self.write_overdue(Time::NEVER, out);
    }

    fn take(&mut self, record: &Record, out: &mut impl Write) {
        let Some(cause) = record.cause else { return self.write(record, 0, out) };
        match self.throttle.ask(record.at, cause, || record.clone()) {
            Verdict::Tell { left_out } => self.write(record, left_out, out),
            Verdict::LeaveOut => {}
        }
    }

    fn write_overdue(&mut self, now: Time, out: &mut impl Write) {
        while let Some((record, count)) = self.throttle.take_overdue(now) {
            // This one is said, the others of its cause were left out.
            self.write(&record, count.saturating_sub(1), out);
        }
        let crowded_out = self.shared.crowded_out.swap(0, Ordering::Relaxed);
        if crowded_out > 0 {
            let text =
                format!("{crowded_out} lines were left out: they came faster than they could be written");
            let (at, is_json) = (host::now(), self.shared.json.load(Ordering::Relaxed));
            let line = if is_json { note_json(at, &self.name, Severity::Warning, &text) } else { text };
            self.write(&Record { at, cause: None, line, is_json }, 0, out);
        }
    }

    fn write(&self, record: &Record, left_out: u64, out: &mut impl Write) {
        let line = match (record.is_json, left_out) {
            (true, 0) => format!("{}\n", record.line),
            (true, _) => {
                let open = record.line.strip_suffix('}').unwrap_or(&record.line);
                format!("{open},\"left_out\":{left_out}}}\n")
            }
            (false, _) => {
                let time = jiff::Timestamp::from_nanosecond(i128::from(record.at.0)).unwrap_or_default();
                let more =
                    if left_out > 0 { format!(" (and {left_out} alike left out)") } else { String::new() };
                format!("{time:.3} {}: {}{more}\n", self.name, record.line)
            }
        };
        // In one piece, so that it is one line whoever else writes. Nobody can be told of an error on the way to whoever would
        // be told.
        let _ = out.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says things, and returns what was written.
    fn written(config: LogConfig, say: impl FnOnce(&mut Lines)) -> String {
        let (records, receiver) = bounded(LINES_MAX);
        let shared = Arc::new(Shared {
            json: AtomicBool::new(config.json),
            level: AtomicU8::new(config.level as u8),
            crowded_out: AtomicU64::new(0),
        });
        let mut lines = Lines { records, shared: Arc::clone(&shared), name: Arc::from("a") };
        say(&mut lines);
        drop(lines);
        let mut out = Vec::new();
        Writer { name: "a".to_owned(), throttle: Throttle::new(INTERVAL, CAUSES_MAX), shared }
            .run(&receiver, &mut out);
        String::from_utf8(out).unwrap()
    }

    const TEXT: LogConfig = LogConfig { json: false, level: Severity::Info };
    const JSON: LogConfig = LogConfig { json: true, level: Severity::Info };

    fn flood(lines: &mut Lines) {
        for client in ["x", "y", "z"] {
            lines.report(&Event::Expelled { client, reason: "no greeting came" });
        }
        lines.report(&Event::Expelled { client: "w", reason: "another" });
    }

    #[test]
    fn the_same_cause_is_written_once_and_then_the_last_with_what_was_left_out() {
        let text = written(TEXT, flood);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].ends_with(" a: closed the connection of x: no greeting came"), "{text}");
        assert!(lines[1].ends_with(" a: closed the connection of w: another"), "{text}");
        assert!(
            lines[2].ends_with(" a: closed the connection of z: no greeting came (and 1 alike left out)"),
            "{text}"
        );
    }

    #[test]
    fn every_line_of_json_is_an_object_with_the_common_fields() {
        let text = written(JSON, |lines| {
            flood(lines);
            lines.say("a \"note\"\nof two lines");
        });
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for object in &objects {
            assert_eq!(object["broker"], "a");
            assert!(object["time_ns"].is_u64() && object["text"].is_string(), "{object}");
        }
        let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["expelled", "expelled", "note", "expelled"]);
        assert_eq!(objects[0]["reason"], "no greeting came");
        assert_eq!(objects[3]["left_out"], 1);
    }

    #[test]
    fn what_is_below_the_level_is_not_written() {
        let config = LogConfig { json: false, level: Severity::Warning };
        let text = written(config, |lines| {
            lines.say("a note");
            lines.report(&Event::Protected { streams: 3 });
            lines.warn("trouble");
            let shortfall = wire::Shortfall { span: Span::secs(1), dropped: 1, waited: 2, rate: 3 };
            lines.report(&Event::SlowSubscriber { client: "x", shortfall });
        });
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("trouble") && text.contains("does not read fast enough"), "{text}");
    }

    #[test]
    fn a_peers_name_cannot_end_a_line() {
        let text = written(TEXT, |lines| {
            lines.report(&Event::Reincarnated { client: "x\n2026 a: all is well\u{1b}[2J" });
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn lines_without_room_are_counted_and_said() {
        let text = written(TEXT, |lines| (0..LINES_MAX + 7).for_each(|_| lines.say("x")));
        assert!(
            text.contains("7 lines were left out: they came faster than they could be written\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), LINES_MAX + 1);
    }
}
