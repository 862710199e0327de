//! The story of a run, in lines for people: the last of them, since the end is what matters.

use contract::Span;
use std::collections::VecDeque;

/// Lines that are kept.
#[derive(Clone)]
pub(crate) struct Story {
    lines: VecDeque<String>,
    limit: usize,
}

impl Story {
    pub(crate) fn new(limit: usize) -> Story {
        Story { lines: VecDeque::new(), limit }
    }

    pub(crate) fn add(&mut self, at: Span, who: &str, line: &str) {
        if self.lines.len() == self.limit {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>12.6} s  {who:<14} {line}", at.0 as f64 / 1e9));
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &String> {
        self.lines.iter()
    }
}
