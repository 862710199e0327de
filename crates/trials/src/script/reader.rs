//! Takes values out of a scenario's tables, and remembers what is wrong with them.

use crate::hosts::Hosts;
use crate::length::{RUN_MAX, RUN_MAX_WORDS};
use config::schema::Kind;
use config::value::{Raw, Value, understand};
use config::{Problem, Source, unknown_problem};
use contract::Span;
use sim::Target;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A place in the file.
pub type At = Range<usize>;

/// The problems so far.
pub struct Reader<'a> {
    pub hosts: &'a Hosts,
    pub problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub fn new(hosts: &'a Hosts) -> Reader<'a> {
        Reader { hosts, problems: Vec::new() }
    }

    pub fn problem(&mut self, at: At, message: String, remedy: String) {
        self.problems.push(Problem { source: Source::File(0, at), message, remedy });
    }

    /// Complains of keys that nobody knows.
    pub fn check_keys(&mut self, table: &DeTable<'_>, prefix: &str, known: &[&str]) {
        for (name, _) in table {
            let key: &str = name.get_ref();
            if !known.contains(&key) {
                let source = Source::File(0, name.span());
                self.problems.push(unknown_problem(&format!("{prefix}{key}"), source, known.iter().copied()));
            }
        }
    }

    /// Where a key's value is.
    pub fn place(&self, table: &DeTable<'_>, key: &str) -> Option<At> {
        table.get(key).map(toml::Spanned::span)
    }

    /// A table within a table.
    pub fn section<'t, 'i>(&mut self, table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
        let value = table.get(key)?;
        let section = value.get_ref().as_table();
        if section.is_none() {
            let remedy = format!("write [{key}] on a line of its own, or {key} = {{ ... }}");
            self.problem(value.span(), format!("`{key}` is a table"), remedy);
        }
        section
    }

    /// A value of the kind that the key takes.
    pub fn value(&mut self, table: &DeTable<'_>, key: &str, kind: Kind) -> Option<Value> {
        let value = table.get(key)?;
        match understand(kind, &Raw::new(value.get_ref())) {
            Ok(understood) => Some(understood),
            Err(message) => {
                self.problem(
                    value.span(),
                    format!("{key}: {message}"),
                    format!("write a {}", kind.describe()),
                );
                None
            }
        }
    }

    /// A finite span that is not negative.
    pub fn span(&mut self, table: &DeTable<'_>, key: &str) -> Option<Span> {
        let Some(Value::Span(span)) = self.value(table, key, Kind::Duration) else { return None };
        if span.is_forever() {
            let at = self.place(table, key)?;
            self.problem(
                at,
                format!("{key}: nothing here lasts forever"),
                "write for example \"10s\"".to_owned(),
            );
            return None;
        }
        if span > RUN_MAX {
            let at = self.place(table, key)?;
            let remedy = "write less, for example \"10s\"".to_owned();
            self.problem(
                at,
                format!("{key}: {span} is longer than any run, which lasts {RUN_MAX_WORDS} at most"),
                remedy,
            );
            return None;
        }
        Some(span)
    }

    /// `true` or `false`, and `false` where nothing is said.
    pub fn switch(&mut self, table: &DeTable<'_>, key: &str) -> bool {
        self.value(table, key, Kind::Switch) == Some(Value::Switch(true))
    }

    /// A whole number in a range.
    pub fn number(&mut self, table: &DeTable<'_>, key: &str, least: i64, most: i64) -> Option<u32> {
        match self.value(table, key, Kind::Integer(least, most))? {
            Value::Integer(number) => u32::try_from(number).ok(),
            _ => None,
        }
    }

    /// The host that a key names.
    pub fn host(&mut self, table: &DeTable<'_>, key: &str) -> Option<Target> {
        let value = table.get(key)?;
        self.host_in(key, value)
    }

    /// The hosts that a list names.
    pub fn host_in(&mut self, key: &str, value: &toml::Spanned<DeValue<'_>>) -> Option<Target> {
        if let Some(name) = value.get_ref().as_str() {
            return self.host_called(name, value.span());
        }
        let message = format!("{key}: {} is no host", Raw::new(value.get_ref()));
        self.problem(value.span(), message, format!("write a name: {}", self.hosts.list()));
        None
    }

    /// The host of this name.
    pub fn host_called(&mut self, name: &str, at: At) -> Option<Target> {
        match self.hosts.find(name) {
            Ok(target) => Some(target),
            Err(remedy) => {
                self.problem(at, format!("no host is called `{name}`"), remedy);
                None
            }
        }
    }
}
