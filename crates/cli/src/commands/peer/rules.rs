//! `verge rule`: what peers do when a message says so.

use super::posts::peers;
use super::{Trouble, places};
use crate::arguments::Format;
use crate::arguments::rule::{RuleArguments, RuleCommand};
use config::Config;
use console::{Outcome, RED, coloured, complain, json, line, table, yes};
use functions::{FunctionSpec, Written, WrittenRule};
use processing::PayloadType;
use processing::rules::{RuleSet, RuleSpec, Tuple, Verdict};
use report::{FunctionReport, RunningReport, TracedReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::BufRead;
use verge::Error;

pub fn rule(config: &Config, command: &RuleCommand, format: Format) -> Outcome {
    match command {
        RuleCommand::Add { name, rules, at } => {
            let text = written(rules, true)?;
            if let Some(known) = &config.peers {
                // With the lines of the file, and before anybody is asked.
                FunctionSpec::read(&text, &known.space)
                    .map_err(|error| Trouble(place(rules) + &error.to_string()))?;
            }
            let done = peers(config, at.peer.as_deref())?.add_function(name, &text)?;
            if format == Format::Json {
                json(&Added { name, version: done.version, copies: done.copies })?;
            }
            Ok(yes(true))
        }
        RuleCommand::Test { rules, message } => test(rules, message.as_deref(), format),
        RuleCommand::List { at } => list(config, at.peer.as_deref(), format),
        RuleCommand::Remove { name, at } => {
            peers(config, at.peer.as_deref())?.remove_function(name)?;
            Ok(yes(true))
        }
        RuleCommand::Trace { name, last, at } => trace(config, name, *last, (at.peer.as_deref(), format)),
    }
}

#[derive(Serialize)]
struct Added<'a> {
    name: &'a str,
    version: u64,
    copies: u64,
}

/// Where rules were read.
fn place(rules: &RuleArguments) -> String {
    rules.file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default()
}

/// The text of the rules that were given.
fn written(rules: &RuleArguments, runs: bool) -> Result<String, Trouble> {
    if let Some(file) = &rules.file {
        let read = std::fs::read_to_string(file);
        return read.map_err(|error| Trouble(format!("cannot read {}: {error}", file.display())));
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
    };
    let written = Written { on, payload: rules.payload.clone(), rules: vec![rule] };
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
    let tuple = rules.tuple();
    let mut testing = Testing { names, payload, rules, tuple, format };
    if let Some(message) = message {
        return Ok(yes(testing.tell(message)?));
    }
    let mut fires = false;
    for text in std::io::stdin().lock().lines() {
        fires |= testing.tell(&text?)?;
    }
    Ok(yes(fires))
}

impl Testing {
    /// Says what becomes of a message. Returns whether a rule would fire.
    fn tell(&mut self, message: &str) -> Result<bool, Trouble> {
        let unread = self.tuple.read(&self.payload, message.as_bytes()).err().map(|fault| fault.to_string());
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
        let tested = Tested { message, fires, unread, rules };
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
fn tell_rule(name: &str, holds: Option<bool>, parts: &[String]) -> Result<(), Trouble> {
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

/// Rules of one name, and where they run.
#[derive(Serialize)]
struct Row {
    name: String,
    version: u64,
    text: String,
    /// The peer that runs them; `null`: none of those that were asked.
    peer: Option<String>,
    running: Option<RunningReport>,
}

#[derive(Deserialize)]
struct Listed {
    functions: Vec<FunctionReport>,
    silent: usize,
}

/// What peers say of rules.
#[derive(Default)]
struct Heard {
    kept: BTreeMap<String, FunctionReport>,
    /// By name and version, and where.
    running: BTreeMap<(String, u64), (String, RunningReport)>,
    silent: usize,
    answered: bool,
}

impl Heard {
    fn hear(&mut self, peer: &str, place: &str) -> Result<(), String> {
        let listed: Listed = ask(place, "/api/v1/functions")?;
        let running: Vec<RunningReport> = ask(place, "/api/v1/running")?;
        self.answered = true;
        self.silent = self.silent.max(listed.silent);
        for function in listed.functions {
            let known = self.kept.get(&function.name);
            if known.is_none_or(|known| known.version < function.version) {
                self.kept.insert(function.name.clone(), function);
            }
        }
        let running =
            running.into_iter().map(|one| ((one.name.clone(), one.version), (peer.to_owned(), one)));
        self.running.extend(running);
        Ok(())
    }

    fn rows(mut self) -> Vec<Row> {
        let rows = self.kept.into_values().map(|FunctionReport { name, version, text }| {
            let (peer, running) = self.running.remove(&(name.clone(), version)).unzip();
            Row { name, version, text, peer, running }
        });
        rows.collect()
    }
}

fn list(config: &Config, peer: Option<&str>, format: Format) -> Outcome {
    let mut heard = Heard::default();
    for (peer, place) in places(config, peer)? {
        if let Err(why) = heard.hear(&peer, &place) {
            complain(&format!("verge: {peer}: {why}"));
        }
    }
    if !heard.answered {
        return Err(Trouble("no peer answers".to_owned()));
    }
    if heard.silent > 0 {
        complain(&format!("verge: {} peers have not answered, and something may lack", heard.silent));
    }
    let rows = heard.rows();
    let runs = |row: &Row| row.running.as_ref().is_some_and(|running| running.trouble.is_none());
    let well = rows.iter().all(runs);
    if format == Format::Json {
        json(&rows)?;
    } else if rows.is_empty() {
        line("There are no rules here.")?;
    } else {
        show(&rows)?;
    }
    Ok(yes(well))
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
    for row in rows {
        let Some(running) = &row.running else { continue };
        let trouble = running.trouble.as_ref().map(|why| format!("does not run: {why}"));
        let dropped = (running.dropped > 0)
            .then(|| format!("{} messages came too fast, and are lost to it", running.dropped));
        let failed = running
            .rules
            .iter()
            .filter_map(|rule| Some(format!("rule {}: {}", rule.name, rule.why.as_ref()?)));
        for text in trouble.into_iter().chain(dropped).chain(failed) {
            line(&format!("{} {text}", coloured(&format!("{}:", row.name), RED)))?;
        }
    }
    Ok(())
}

/// What a peer answers.
fn ask<T: serde::de::DeserializeOwned>(place: &str, path: &str) -> Result<T, String> {
    let body = verge::ask_peer(place, path).map_err(|error| error.to_string())?;
    serde_json::from_str(&body).map_err(|error| format!("it says what cannot be read: {error}"))
}

fn trace(config: &Config, name: &str, last: usize, (peer, format): (Option<&str>, Format)) -> Outcome {
    let mut troubles = Vec::new();
    for (peer, place) in places(config, peer)? {
        let path = format!("/api/v1/functions/{name}/trace");
        match verge::ask_peer(&place, &path) {
            Ok(body) => {
                let traced: Vec<TracedReport> = serde_json::from_str(&body)
                    .map_err(|error| Trouble(format!("{peer} says what cannot be read: {error}")))?;
                let traced = traced.get(traced.len().saturating_sub(last)..).unwrap_or_default();
                return tell_trace(traced, format);
            }
            Err(Error::Nothing) => {}
            Err(error) => troubles.push(format!("{peer}: {error}")),
        }
    }
    let beside = if troubles.is_empty() { String::new() } else { format!(" ({})", troubles.join("; ")) };
    Err(Trouble(format!(
        "no peer that was asked runs `{name}`{beside}: `verge rule list` shows what there is"
    )))
}

fn tell_trace(traced: &[TracedReport], format: Format) -> Outcome {
    if format == Format::Json {
        json(&traced)?;
        return Ok(yes(!traced.is_empty()));
    }
    for one in traced {
        let at = jiff::Timestamp::from_nanosecond(i128::from(one.at))
            .map(|at| format!("{at:.3}"))
            .unwrap_or_default();
        let rule = one.rule.as_ref().map(|rule| format!(": rule {rule}")).unwrap_or_default();
        line(&format!("{at}  {}  {}{rule}  {}", one.topic, one.verdict, one.message))?;
        one.rules.iter().try_for_each(|rule| tell_rule(&rule.name, rule.holds, &rule.parts))?;
    }
    if traced.is_empty() {
        line("No message has come yet.")?;
    }
    Ok(yes(!traced.is_empty()))
}
