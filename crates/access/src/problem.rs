//! What is wrong with a user file.

use std::fmt;
use std::ops::Range;

/// A place in a file, counted from one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// The bytes of the file that are meant.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.message, self.remedy)
    }
}

/// Finds lines and columns in a text.
pub(crate) struct Lines {
    /// Where each line begins.
    starts: Vec<usize>,
}

impl Lines {
    pub fn new(text: &str) -> Lines {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines { starts: std::iter::once(0).chain(after).collect() }
    }

    pub fn place(&self, text: &str, at: usize) -> Place {
        let at = at.min(text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        let column = text.get(start..at).map_or(0, |before| before.chars().count()) + 1;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Place { line: count(line), column: count(column) }
    }
}
