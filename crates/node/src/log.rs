//! What a broker or a node of the store says, as lines for people or as JSON objects for programs. Lines are written by another
//! thread, since a terminal that is stopped must not stop the data, nor the end. The same cause is said at most once per second,
//! what is refused to clients once per minute, with how often it was left out. Lines are in the order of their times: what was held back is said with the time at which it is said, and
//! how long ago it was.

use crate::Trouble;
use broker::{Budget, Event, Fact, JsonObject, Severity, Throttle, Verdict, cause_of, write_json};
use config::LogConfig;
use contract::{Span, Time, shortened};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use host::{Helpers, end_on_purpose, now};
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lines that may wait to be written; above it they are counted and left out.
const LINES_MAX: usize = 4096;
/// The time between two lines of the same cause.
const INTERVAL: Span = Span::secs(1);
/// The same for what is refused to a client, which it may ask for again and again.
const REFUSALS_INTERVAL: Span = Span::secs(60);
/// Lines in a second about what is refused, of causes that were not told lately.
const REFUSALS_MAX: u32 = 50;
/// Causes that are remembered.
const CAUSES_MAX: usize = 256;
/// How soon it is looked for what was left out.
const LOOK: Duration = Duration::from_millis(250);
/// How long whoever ends waits for the last lines to be written. Where nobody reads them, they are not.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Threads may take so long between looking at the clock and having their line in the queue. What is further back is a clock that was
/// set, whose time is shown as it is.
const DISORDER_MAX: Span = Span::secs(1);

/// Where a broker's threads say something.
#[derive(Clone)]
pub struct Lines {
    records: Sender<Option<Record>>,
    /// Nothing ever comes; it is closed when the last line has been written.
    written: Receiver<()>,
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
    /// What it is about, and how often that is written; nothing if it is always written.
    cause: Option<(u64, Span)>,
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

    /// Says something that somebody should look at, once per second for each cause.
    pub fn note_about(&self, cause: &str, line: &str) {
        self.note_with(Severity::Warning, Some((cause_of(NOTE, cause), INTERVAL)), line);
    }

    fn note(&self, severity: Severity, line: &str) {
        self.note_with(severity, None, line);
    }

    fn note_with(&self, severity: Severity, cause: Option<(u64, Span)>, line: &str) {
        if !self.shared.wants(severity) {
            return;
        }
        let (at, is_json) = (now(), self.shared.json.load(Ordering::Relaxed));
        let line = if is_json { note_json(at, &self.name, severity, line) } else { line.to_owned() };
        self.send(Record { at, cause, line, is_json });
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

    /// Nothing more will be said. Returns when all has been written, or when nobody seems to read it.
    pub fn end(&self) {
        let until = Instant::now() + LAST_LINES;
        if self.records.send_deadline(None, until).is_ok() {
            let _ = self.written.recv_deadline(until);
        }
    }
}

impl Shared {
    fn wants(&self, severity: Severity) -> bool {
        severity as u8 <= self.level.load(Ordering::Relaxed)
    }
}

impl Lines {
    /// An event, if it is grave enough.
    pub(crate) fn report(&mut self, event: &Event<'_>) {
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
        let interval = if event.is_refusal() { REFUSALS_INTERVAL } else { INTERVAL };
        let of = match event {
            // Each client is named.
            Event::Refused { client, topic, .. } => cause_of(client, topic),
            Event::SubscriptionRefused { client, filter, .. } => cause_of(client, filter),
            _ => cause_of("", event.subject()),
        };
        let cause = Some((cause_of(event.kind(), &of.to_string()), interval));
        self.send(Record { at, cause, line, is_json });
    }
}

/// The longest line.
const LINE_BYTES_MAX: usize = 4_096;

/// Peers choose their names; they must not end a line or turn the terminal.
fn printable(text: &str) -> String {
    let text = shortened(text, LINE_BYTES_MAX);
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    out
}

fn note_json(at: Time, name: &str, severity: Severity, text: &str) -> String {
    let mut line = String::new();
    let mut object = JsonObject::begin_record(&mut line, at, name, (NOTE, severity));
    object.field("text", Fact::Text(text));
    object.end();
    line
}

/// Starts the thread that writes.
pub fn write_in_background(name: &str, config: LogConfig, helpers: &Helpers) -> Result<Lines, Trouble> {
    let (records, receiver) = bounded(LINES_MAX);
    let (end, written) = bounded(1);
    let shared = Arc::new(Shared {
        json: AtomicBool::new(config.json),
        level: AtomicU8::new(config.level as u8),
        crowded_out: AtomicU64::new(0),
    });
    let lines = Lines { records, written, shared: Arc::clone(&shared), name: Arc::from(name) };
    let mut writer = Writer::new(name, shared);
    helpers.hire("log", move || {
        let last_word = writer.run(&receiver, &mut StandardError);
        drop::<Sender<()>>(end);
        last_word
    })?;
    Ok(lines)
}

/// Without the lock of [`std::io::stderr`]: whoever has last words to say must not wait for a line that nobody reads.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stderr(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Writer {
    name: String,
    throttle: Throttle<Record>,
    /// The same for what is refused to clients.
    refusals: Throttle<Record>,
    /// Of those, what was not told lately.
    budget: Budget,
    shared: Arc<Shared>,
    /// The time of the last line.
    last: Time,
    /// Lines that could not be written, and why the last one could not.
    failed: u64,
    reason: String,
    /// A part of a line was written, without its end.
    torn: bool,
}

impl Writer {
    fn new(name: &str, shared: Arc<Shared>) -> Writer {
        let throttle = Throttle::new(INTERVAL, CAUSES_MAX);
        let (refusals, budget) = (Throttle::new(REFUSALS_INTERVAL, CAUSES_MAX), Budget::new(REFUSALS_MAX));
        let (last, reason) = (Time::ZERO, String::new());
        Writer {
            name: name.to_owned(),
            throttle,
            refusals,
            budget,
            shared,
            last,
            failed: 0,
            reason,
            torn: false,
        }
    }

    fn run(&mut self, records: &Receiver<Option<Record>>, out: &mut impl Write) -> Result<(), String> {
        loop {
            end_on_purpose("log")?;
            // Where lines had to wait for whoever reads them, their time is what counts, and not that of the clock.
            let time = match records.recv_timeout(LOOK) {
                Ok(Some(record)) => {
                    self.take(&record, out);
                    record.at
                }
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => now(),
            };
            self.write_overdue(time, time, out);
            self.write_missing(time, out);
        }
        // What was left out last is said all the same.
        self.write_overdue(Time::NEVER, now(), out);
        self.write_missing(Time::NEVER, out);
        Ok(())
    }

    fn take(&mut self, record: &Record, out: &mut impl Write) {
        let Some((cause, interval)) = record.cause else { return self.write(record, record.at, 0, out) };
        let (throttle, is_refusal) = match interval {
            REFUSALS_INTERVAL => (&mut self.refusals, true),
            _ => (&mut self.throttle, false),
        };
        if is_refusal && !throttle.knows(cause) && !self.budget.take(record.at) {
            return;
        }
        match throttle.ask_every(record.at, interval, cause, || record.clone()) {
            Verdict::Tell { left_out } => self.write(record, record.at, left_out, out),
            Verdict::LeaveOut => {}
        }
    }

    fn write_overdue(&mut self, due: Time, said_at: Time, out: &mut impl Write) {
        while let Some((record, count)) =
            self.throttle.take_overdue(due).or_else(|| self.refusals.take_overdue(due))
        {
            // This one is said, the others of its cause were left out.
            self.write(&record, said_at, count.saturating_sub(1), out);
        }
    }

    /// Says how many lines are missing.
    fn write_missing(&mut self, time: Time, out: &mut impl Write) {
        let crowded_out = self.shared.crowded_out.swap(0, Ordering::Relaxed);
        if crowded_out > 0 {
            let text =
                format!("{crowded_out} lines were left out: they came faster than they could be written");
            if !self.write_note(&text, out) {
                self.failed += crowded_out;
            }
        }
        let refused = self.budget.take_beyond(time);
        if refused > 0 {
            let text = format!(
                "{refused} more refusals were left out, of other clients and topics than those that were told"
            );
            if !self.write_note(&text, out) {
                self.failed += 1;
            }
        }
        let failed = std::mem::take(&mut self.failed);
        if failed > 0 {
            let text = format!("{failed} lines could not be written: {}", self.reason);
            if !self.write_note(&text, out) {
                // It is tried again with the next line.
                self.failed = failed;
            }
        }
    }

    /// A line that nobody misses who does not get it. Whether it was written.
    fn write_note(&mut self, text: &str, out: &mut impl Write) -> bool {
        let (at, is_json) = (now(), self.shared.json.load(Ordering::Relaxed));
        let line = if is_json { note_json(at, &self.name, Severity::Warning, text) } else { text.to_owned() };
        let failed = self.failed;
        self.write(&Record { at, cause: None, line, is_json }, at, 0, out);
        let written = self.failed == failed;
        self.failed = failed;
        written
    }

    fn write(&mut self, record: &Record, said_at: Time, left_out: u64, out: &mut impl Write) {
        let behind = said_at < self.last && self.last.since(said_at) <= DISORDER_MAX;
        let said_at = if behind { self.last } else { said_at };
        self.last = said_at;
        let line = match record.is_json {
            true => record.as_json(said_at, left_out),
            false => record.as_text(&self.name, said_at, left_out),
        };
        let end = if self.torn { "\n" } else { "" };
        // In one piece, so that it is one line whoever else writes.
        match write_whole(format!("{end}{line}\n").as_bytes(), out) {
            Ok(()) => self.torn = false,
            Err((written, error)) => {
                self.torn |= written > 0;
                self.failed += 1;
                self.reason = error.to_string();
            }
        }
    }
}

impl Record {
    fn as_text(&self, name: &str, said_at: Time, left_out: u64) -> String {
        let time = jiff::Timestamp::from_nanosecond(i128::from(said_at.0)).unwrap_or_default();
        let ago = said_at.since(self.at).max(Span::ZERO);
        let mut more = Vec::new();
        if ago >= MENTIONED {
            more.push(format!("{:.1} s ago", ago.as_millis_f64() / 1e3));
        }
        if left_out > 0 {
            let and = if more.is_empty() { "and " } else { "" };
            more.push(format!("{and}{left_out} alike left out"));
        }
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
        format!("{time:.3} {name}: {}{more}", self.line)
    }

    /// The object with the time at which it is said first, and that at which it happened, where that is another.
    fn as_json(&self, said_at: Time, left_out: u64) -> String {
        let Record { at, line, .. } = self;
        let time = format!("{{\"time_ns\":{}", at.0);
        let mut line = match line.strip_prefix(&time) {
            Some(rest) => format!("{{\"time_ns\":{}{rest}", said_at.0),
            None => line.clone(),
        };
        let happened = (said_at != *at).then_some(("happened_ns", at.0));
        let counted = (left_out > 0).then_some(("left_out", left_out));
        for (key, number) in happened.into_iter().chain(counted) {
            let open = line.strip_suffix('}').map(str::to_owned);
            line = format!("{},\"{key}\":{number}}}", open.unwrap_or(line));
        }
        line
    }
}

/// What is said at least so much later than it happened says so.
const MENTIONED: Span = Span::millis(100);

/// Writes all of it, or says how much was written, and why not more.
fn write_whole(bytes: &[u8], out: &mut impl Write) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
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
        let written = crossbeam_channel::never();
        let mut lines = Lines { records, written, shared: Arc::clone(&shared), name: Arc::from("a") };
        say(&mut lines);
        drop(lines);
        let mut out = Vec::new();
        Writer::new("a", shared).run(&receiver, &mut out).unwrap();
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

    /// Lines of one cause and of others, so many milliseconds after a whole second, as they are written.
    fn written_at(config: LogConfig, lines: &[(i64, &str)]) -> String {
        let (records, receiver) = bounded(LINES_MAX);
        let json = AtomicBool::new(config.json);
        let level = AtomicU8::new(config.level as u8);
        let shared = Arc::new(Shared { json, level, crowded_out: AtomicU64::new(0) });
        let begin = Time(1_700_000_000_000_000_000);
        for (millis, line) in lines {
            let at = begin + Span::millis(*millis);
            let cause = line.strip_prefix("cause").map(|rest| (cause_of(NOTE, &rest[..1]), INTERVAL));
            let text = match config.json {
                true => note_json(at, "a", Severity::Info, line),
                false => (*line).to_owned(),
            };
            records.try_send(Some(Record { at, cause, line: text, is_json: config.json })).unwrap();
        }
        drop(records);
        let mut out = Vec::new();
        Writer::new("a", shared).run(&receiver, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const HELD_BACK: [(i64, &str); 6] =
        [(0, "cause1 x"), (400, "cause1 y"), (500, "cause1 z"), (900, "b"), (1_100, "c"), (1_099, "d")];

    #[test]
    fn what_was_held_back_is_said_in_order_and_with_how_long_ago_it_was() {
        let text = written_at(TEXT, &HELD_BACK);
        let times: Vec<&str> = text.lines().map(|line| &line[..24]).collect();
        assert!(times.is_sorted(), "{text}");
        assert!(text.contains("21.100Z a: cause1 z (0.6 s ago, 1 alike left out)\n"), "{text}");
    }

    #[test]
    fn programs_get_both_times_of_what_was_held_back() {
        let text = written_at(JSON, &HELD_BACK);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let times: Vec<u64> = lines.iter().map(|line| line["time_ns"].as_u64().unwrap()).collect();
        assert!(times.is_sorted(), "{text}");
        let held_back = lines.iter().find(|line| line["text"] == "cause1 z").unwrap();
        assert_eq!(held_back["happened_ns"], 1_700_000_000_500_000_000_u64);
        assert_eq!(
            (&held_back["time_ns"], &held_back["left_out"]),
            (&1_700_000_001_100_000_000_u64.into(), &1.into())
        );
    }

    #[test]
    fn a_clock_that_was_set_back_is_shown_as_it_is() {
        let text = written_at(TEXT, &[(5_000, "before"), (0, "after"), (100, "later")]);
        let [_, after, later] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(after.contains("20.000Z a: after") && later.contains("20.100Z a: later"), "{text}");
    }

    /// Has room for so many bytes, then for none, and then for all.
    struct Disk {
        room: usize,
        refusals: u32,
        content: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 && self.refusals > 0 {
                self.refusals -= 1;
                return Err(ErrorKind::StorageFull.into());
            }
            let fits = if self.refusals > 0 { bytes.len().min(self.room) } else { bytes.len() };
            self.room = self.room.saturating_sub(fits);
            self.content.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted_and_said_when_it_does() {
        let (records, receiver) = bounded(LINES_MAX);
        let (json, level) = (AtomicBool::new(false), AtomicU8::new(Severity::Info as u8));
        let shared = Arc::new(Shared { json, level, crowded_out: AtomicU64::new(0) });
        for line in ["one", "two", "three", "four"] {
            let record = Record { at: now(), cause: None, line: line.to_owned(), is_json: false };
            records.try_send(Some(record)).unwrap();
        }
        drop(records);
        let mut disk = Disk { room: 40, refusals: 3, content: Vec::new() };
        Writer::new("a", shared).run(&receiver, &mut disk).unwrap();
        let text = String::from_utf8(disk.content).unwrap();
        assert!(text.contains("one\n") && text.contains("four\n"), "{text}");
        let said = text.lines().filter(|line| line.contains("lines could not be written: "));
        let counted: Vec<u64> =
            said.filter_map(|line| line.split(" a: ").nth(1)?.split(' ').next()?.parse().ok()).collect();
        assert_eq!(
            counted.iter().sum::<u64>() as usize + text.matches(" a: ").count() - counted.len(),
            4,
            "{text}"
        );
        assert!(text.lines().filter(|line| !line.is_empty()).all(|line| line.starts_with("20")), "{text}");
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
