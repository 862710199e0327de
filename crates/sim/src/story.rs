//! The story of a run, in lines for people: the last of them, since the end is what matters.

use contract::Span;
use std::collections::VecDeque;
use std::fmt;

/// One line of a story.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoryLine {
    /// When, since the beginning.
    pub at: Span,
    /// Which host.
    pub who: String,
    /// What it did.
    pub what: String,
    /// Whether it is more than a message on its way.
    pub matters: bool,
}

impl fmt::Display for StoryLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6} s  {:<14} {}", self.at.0 as f64 / 1e9, self.who, self.what)
    }
}

/// Lines that are kept.
#[derive(Clone)]
pub(crate) struct Story {
    lines: VecDeque<StoryLine>,
    limit: usize,
}

impl Story {
    pub(crate) fn new(limit: usize) -> Story {
        Story { lines: VecDeque::new(), limit }
    }

    pub(crate) fn add(&mut self, line: StoryLine) {
        if self.lines.len() == self.limit {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn into_lines(self) -> Vec<StoryLine> {
        self.lines.into()
    }
}
