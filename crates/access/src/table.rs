//! Tables of a TOML file, taken apart with every mistake noted at its place.

use crate::problem::{Lines, Place, Problem};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub text: String,
    pub span: Range<usize>,
}

/// What has been found wrong so far.
pub(crate) struct Notes<'t> {
    text: &'t str,
    lines: Lines,
    max: usize,
    problems: Vec<Problem>,
}

impl<'t> Notes<'t> {
    pub fn new(text: &'t str, max: usize) -> Notes<'t> {
        Notes { text, lines: Lines::new(text), max, problems: Vec::new() }
    }

    pub fn place(&self, span: &Range<usize>) -> Place {
        self.lines.place(self.text, span.start)
    }

    pub fn add(&mut self, span: Range<usize>, message: impl Into<String>, remedy: impl Into<String>) {
        if self.problems.len() < self.max {
            let place = self.place(&span);
            self.problems.push(Problem { place, span, message: message.into(), remedy: remedy.into() });
        }
    }

    /// What was found, in the order of the file.
    pub fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| problem.span.start);
        self.problems
    }

    /// The tables of a list such as `[[user]]`.
    pub fn tables<'v, 'i>(
        &mut self,
        section: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Vec<(Range<usize>, &'v DeTable<'i>)> {
        let items = value.get_ref().as_array().map(|items| items.iter().collect::<Vec<_>>());
        let tables = items.and_then(|items| {
            items.into_iter().map(|item| Some((item.span(), item.get_ref().as_table()?))).collect()
        });
        tables.unwrap_or_else(|| {
            let remedy = format!("write [[{section}]] on a line of its own, and its keys below");
            self.add(value.span(), format!("`{section}` must be a list of tables"), remedy);
            Vec::new()
        })
    }

    pub fn text(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Text> {
        match value.get_ref() {
            DeValue::String(text) => Some(Text { text: text.to_string(), span: value.span() }),
            other => {
                let message = format!("`{key}` must be a text, not {}", article(other.type_str()));
                self.add(value.span(), message, "put it into quotes");
                None
            }
        }
    }

    /// One text, or a list of them.
    pub fn texts(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Vec<Text> {
        match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(|item| self.text(key, item)).collect(),
            _ => self.text(key, value).into_iter().collect(),
        }
    }

    pub fn number(&mut self, key: &str, value: &Spanned<DeValue<'_>>, max: u64) -> Option<u64> {
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => {
                number.as_str().replace('_', "").parse::<u64>().ok()
            }
            _ => None,
        };
        let number = number.filter(|number| (1..=max).contains(number));
        if number.is_none() {
            let message = format!("`{key}` takes a whole number from 1 to {max}");
            self.add(value.span(), message, "write the number, or leave the key out for no limit");
        }
        number
    }

    pub fn unknown(&mut self, key: &str, span: Range<usize>, known: &[&str]) {
        self.add(span, format!("unknown key `{key}`"), format!("known here: {}", known.join(", ")));
    }
}

fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
