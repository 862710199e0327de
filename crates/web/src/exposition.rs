//! The text format in which Prometheus reads metrics.

use contract::Span;
use std::fmt::Write;

/// The samples of one metric, as they are written.
pub struct Samples<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl<'a> Samples<'a> {
    pub(crate) fn new(out: &'a mut String, name: &'static str) -> Samples<'a> {
        Samples { out, name }
    }

    /// A whole number without labels.
    pub fn count(&mut self, value: u64) {
        self.put("", &[], value);
    }

    /// A number without labels.
    pub fn value(&mut self, value: f64) {
        self.put("", &[], value);
    }

    /// A whole number under these labels.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: u64) {
        self.put("", labels, value);
    }

    /// A number under these labels.
    pub fn labelled_value(&mut self, labels: &[(&str, &str)], value: f64) {
        self.put("", labels, value);
    }

    /// A histogram: counts by bucket, of which the last has no end, and the sum of all values in nanoseconds.
    pub fn histogram(&mut self, class: &str, ends: &[Span], counts: &[u64], sum_nanos: u64) {
        let mut total = 0_u64;
        for (index, count) in counts.iter().enumerate() {
            total = total.saturating_add(*count);
            let end = ends.get(index).map_or_else(|| "+Inf".to_owned(), |end| seconds(*end).to_string());
            self.put("_bucket", &[("class", class), ("le", &end)], total);
        }
        self.put("_sum", &[("class", class)], sum_nanos as f64 / 1e9);
        self.put("_count", &[("class", class)], total);
    }

    fn put(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        for (index, (name, text)) in labels.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(self.out, text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        // Writing to a string does not fail.
        let _ = writeln!(self.out, " {value}");
    }
}

/// A span as a number of seconds.
pub(crate) fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

fn escape(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}
