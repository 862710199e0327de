//! `verge rule`: what peers do when a message says so.

use super::Trouble;
use super::functions::{Row, add, read, remove, rows, tell_troubles, trace};
use crate::arguments::Format;
use crate::arguments::rule::{RuleArguments, RuleCommand};
use config::Config;
use console::{Outcome, RED, coloured, json, line, table, yes};
use functions::{Written, WrittenRule, check_payload};
use processing::PayloadType;
use processing::rules::{RuleSet, RuleSpec, Tuple, Verdict};
use serde::Serialize;
use std::io::BufRead;

pub fn rule(config: &Config, command: &RuleCommand, format: Format) -> Outcome {
    match command {
        RuleCommand::Add { name, rules, at } => {
            let text = written(rules, true)?;
            add(config, (name, &text), &place(rules), (at.peer.as_deref(), format))
        }
        RuleCommand::Test { rules, message } => test(rules, message.as_deref(), format),
        RuleCommand::List { at } => list(config, at.peer.as_deref(), format),
        RuleCommand::Remove { name, at } => remove(config, name, at.peer.as_deref()),
        RuleCommand::Trace { name, last, at } => trace(config, name, *last, (at.peer.as_deref(), format)),
    }
}

/// Where rules were read.
fn place(rules: &RuleArguments) -> String {
    rules.file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default()
}

/// The text of the rules that were given.
fn written(rules: &RuleArguments, runs: bool) -> Result<String, Trouble> {
    if let Some(file) = &rules.file {
        return read(file);
    }
    let Some(on) = rules.on.clone().or_else(|| (!runs).then(String::new)) else {
        return Err(Trouble("say which messages the rule looks at: --on 'motor, temp*'".to_owned()));
    };
    let rule = WrittenRule {
        name: None,
        condition: rules.condition.clone().unwrap_or_default(),
        priority: 0,
        every: rules.every.clone(),
        say: rules.say.clone(),
        give: rules.give.clone(),
        topic: rules.topic.clone(),
        alarm: rules.alarm,
        start: rules.start.clone(),
        lasts: None,
    };
    let (payload, rules) = (rules.payload.clone(), vec![rule]);
    let written = Written { on, payload, rules, ..Written::default() };
    written.to_text().map_err(|error| Trouble(error.to_string()))
}

/// A message, and what would become of it.
#[derive(Serialize)]
struct Tested<'a> {
    message: &'a str,
    /// The rule that would fire.
    fires: Option<&'a str>,
    /// Why it cannot be read, if it cannot.
    unread: Option<String>,
    rules: Vec<TestedRule<'a>>,
}

#[derive(Serialize)]
struct TestedRule<'a> {
    name: &'a str,
    holds: Option<bool>,
    parts: Vec<String>,
}

struct Testing {
    names: Vec<String>,
    payload: PayloadType,
    rules: RuleSet,
    tuple: Tuple,
    format: Format,
}

fn test(arguments: &RuleArguments, message: Option<&str>, format: Format) -> Outcome {
    let wrong = |why: String| Trouble(place(arguments) + &why);
    let written = Written::read(&written(arguments, false)?).map_err(|error| wrong(error.to_string()))?;
    let payload: PayloadType = written.payload.parse().map_err(|error| wrong(format!("`type`: {error}")))?;
    let name =
        |(index, rule): (usize, &WrittenRule)| rule.name.clone().unwrap_or_else(|| (index + 1).to_string());
    let names: Vec<String> = written.rules.iter().enumerate().map(name).collect();
    let spec = |rule: &WrittenRule| RuleSpec {
        name: String::new(),
        condition: rule.condition.clone(),
        priority: rule.priority,
        every: contract::Span::ZERO,
    };
    let specs: Vec<RuleSpec> = written.rules.iter().map(spec).collect();
    let rules = RuleSet::read(&specs).map_err(|error| wrong(error.to_string()))?;
    check_payload(&payload, &rules).map_err(|error| wrong(error.to_string()))?;
    let tuple = rules.tuple();
    let mut testing = Testing { names, payload, rules, tuple, format };
    if let Some(message) = message {
        return Ok(yes(testing.tell(message.as_bytes())?));
    }
    let mut fires = false;
    for text in std::io::stdin().lock().split(b'\n') {
        fires |= testing.tell(&text?)?;
    }
    Ok(yes(fires))
}

impl Testing {
    /// Says what becomes of a message. Returns whether a rule would fire.
    fn tell(&mut self, message: &[u8]) -> Result<bool, Trouble> {
        let unread = self.tuple.read(&self.payload, message).err().map(|fault| fault.to_string());
        let verdict = match unread {
            None => self.rules.judge(contract::Time(0), &self.tuple),
            Some(_) => Verdict::None,
        };
        let name = |index: usize| self.names.get(index).map_or("", String::as_str);
        let fires = match verdict {
            Verdict::Fires(index) => Some(name(index)),
            _ => None,
        };
        let explained = if unread.is_none() { self.rules.explain(&self.tuple) } else { Vec::new() };
        let rules = { explained.into_iter() }
            .map(|(index, explanation)| TestedRule {
                name: name(index),
                holds: explanation.holds.ok(),
                parts: explanation.findings.iter().map(ToString::to_string).collect(),
            })
            .collect();
        let tested = Tested { message: &String::from_utf8_lossy(message), fires, unread, rules };
        if self.format == Format::Json {
            line(&serde_json::to_string(&tested).map_err(|error| Trouble(error.to_string()))?)?;
            return Ok(tested.fires.is_some());
        }
        match (&tested.unread, tested.fires) {
            (Some(why), _) => line(&format!("not read: {why}"))?,
            (None, Some(rule)) => line(&format!("rule {rule} fires"))?,
            (None, None) => line("no rule fires")?,
        }
        for rule in &tested.rules {
            tell_rule(rule.name, rule.holds, &rule.parts)?;
        }
        Ok(tested.fires.is_some())
    }
}

/// What a rule makes of a message, for people.
pub(super) fn tell_rule(name: &str, holds: Option<bool>, parts: &[String]) -> Result<(), Trouble> {
    let verdict = match holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "is neither true nor false",
    };
    if name.is_empty() {
        return line(&format!("  {}", parts.join("; ")));
    }
    line(&format!("  rule {name} {verdict}"))?;
    parts.iter().try_for_each(|part| line(&format!("    {part}")))
}

fn list(config: &Config, peer: Option<&str>, format: Format) -> Outcome {
    let mut rows = rows(config, peer)?;
    rows.retain(|row| row.written().is_none_or(|written| written.operator.is_none()));
    if format == Format::Json {
        json(&rows)?;
    } else if rows.is_empty() {
        line("There are no rules here.")?;
    } else {
        show(&rows)?;
    }
    Ok(yes(rows.iter().all(Row::is_well)))
}

fn show(rows: &[Row]) -> Result<(), Trouble> {
    let columns =
        ["rules", "runs at", "messages", "unread", "rule", "fired", "held back", "unclear", "failed", "if"];
    let mut shown = table(&columns, &[2, 3, 5, 6, 7, 8]);
    for row in rows {
        let Some(running) = &row.running else {
            shown.add_row([row.name.clone(), coloured("nowhere", RED)]);
            continue;
        };
        let counts = [running.messages, running.unread].map(|count| count.to_string());
        let peer = row.peer.clone().unwrap_or_default();
        let mut head = [row.name.clone(), peer].into_iter().chain(counts).collect::<Vec<_>>();
        if running.rules.is_empty() {
            shown.add_row(&head);
        }
        for rule in &running.rules {
            let counts =
                [rule.fired, rule.held_back, rule.unclear, rule.failed].map(|count| count.to_string());
            let rest = [rule.name.clone()].into_iter().chain(counts).chain([rule.condition.clone()]);
            shown.add_row(head.iter().cloned().chain(rest));
            head = vec![String::new(); 4];
        }
    }
    line(&shown.to_string())?;
    tell_troubles(rows)
}
