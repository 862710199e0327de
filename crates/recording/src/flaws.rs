//! What is wrong with a recording without making it unusable.

use std::fmt;

/// How many flaws of each kind are kept word for word: enough to find the place, and bounded for any file.
pub const DESCRIBED_FLAWS: usize = 5;

/// How much of a cell is quoted in messages, so that one endless cell cannot flood a terminal.
const MAX_QUOTED_CHARS: usize = 60;

/// One way in which a row or a cell can fall short. Each is counted, and the replay goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlawKind {
    /// A selected cell is empty or holds a marker such as `NA`. It is handed out as `None`.
    MissingCell,
    /// A cell of a number column is no finite number. It is handed out as `None`.
    NotANumber,
    /// A row is earlier than one before it. It is handed out with the latest time so far, because a replay
    /// cannot wait backwards.
    OutOfOrder,
    /// A row has fewer cells than the header. The absent cells are `None` and not counted as missing again.
    ShortRow,
    /// A row has more cells than the header. The surplus is ignored.
    LongRow,
    /// The time of a row cannot be read. The row is skipped, because there is no moment to publish it at.
    UnreadableTime,
}

impl FlawKind {
    /// Every kind, in the order a report should list them.
    pub const ALL: [FlawKind; 6] = [
        FlawKind::UnreadableTime,
        FlawKind::OutOfOrder,
        FlawKind::ShortRow,
        FlawKind::LongRow,
        FlawKind::NotANumber,
        FlawKind::MissingCell,
    ];

    /// What a person can do about flaws of this kind.
    pub fn remedy(self) -> &'static str {
        match self {
            FlawKind::MissingCell => "nothing is published for them; fill them in, or leave the column out",
            FlawKind::NotANumber => "nothing is published for them; correct them, or leave the column out",
            FlawKind::OutOfOrder => "sort the file by time, or name another time column",
            FlawKind::ShortRow => "complete the rows, or check the delimiter and the quotes",
            FlawKind::LongRow => "name every column in the header, or check the delimiter and the quotes",
            FlawKind::UnreadableTime => "correct the times, or name another time column",
        }
    }
}

impl fmt::Display for FlawKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlawKind::MissingCell => "missing cells",
            FlawKind::NotANumber => "cells that are no number in a number column",
            FlawKind::OutOfOrder => "rows earlier than one before them",
            FlawKind::ShortRow => "rows with too few cells",
            FlawKind::LongRow => "rows with too many cells",
            FlawKind::UnreadableTime => "rows skipped for an unreadable time",
        })
    }
}

/// One flaw with its place, so that a person can find it in an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The line of the file, counted from one; for a row over several lines the first of them.
    pub line: u64,
    /// The column, or `None` where the row as a whole is meant.
    pub column: Option<String>,
    /// The offending cell, or a description of the row; shortened where it is long.
    pub text: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(column) => write!(f, "line {}, column {column:?}: {:?}", self.line, self.text),
            None => write!(f, "line {}: {}", self.line, self.text),
        }
    }
}

/// The flaws met so far: how many of each kind, and the first few of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flaws {
    tallies: [Tally; FlawKind::ALL.len()],
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tally {
    count: u64,
    first: Vec<Flaw>,
}

impl Flaws {
    /// How many flaws of this kind there were.
    pub fn count(&self, kind: FlawKind) -> u64 {
        self.tallies[kind as usize].count
    }

    /// The first flaws of this kind, at most `DESCRIBED_FLAWS`.
    pub fn first(&self, kind: FlawKind) -> &[Flaw] {
        &self.tallies[kind as usize].first
    }

    /// Whether nothing at all was wrong.
    pub fn is_empty(&self) -> bool {
        self.tallies.iter().all(|tally| tally.count == 0)
    }

    /// Counts a flaw. `text` is only written out for the first ones, so that a column full of flaws costs no
    /// allocation.
    pub(super) fn note(&mut self, kind: FlawKind, line: u64, column: Option<&str>, text: impl fmt::Display) {
        let tally = &mut self.tallies[kind as usize];
        tally.count += 1;
        if tally.first.len() < DESCRIBED_FLAWS {
            let column = column.map(str::to_owned);
            tally.first.push(Flaw { line, column, text: quoted(&text.to_string()) });
        }
    }
}

/// Shortens a text to what a message can bear.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
