//! `verge function`: what peers run, rules among them.

use super::posts::peers;
use super::rules::tell_rule;
use super::{Trouble, places};
use crate::arguments::Format;
use crate::arguments::function::FunctionCommand;
use config::Config;
use console::{Outcome, RED, coloured, complain, json, line, table, yes};
use contract::Span;
use functions::{FunctionSpec, Written};
use report::{FunctionReport, QualityReport, RunningReport, TracedReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use verge::Error;

pub fn function(config: &Config, command: &FunctionCommand, format: Format) -> Outcome {
    match command {
        FunctionCommand::Add { name, file, at } => {
            let text = read(file)?;
            add(config, (name, &text), &format!("{}: ", file.display()), (at.peer.as_deref(), format))
        }
        FunctionCommand::List { at } => list(config, at.peer.as_deref(), format),
        FunctionCommand::Start { name, lasts, at } => {
            let rows = rows(config, at.peer.as_deref())?;
            match rows.iter().find(|row| row.name == *name).map(Row::written) {
                Some(Some(written)) if written.runs.as_deref() == Some("asked") => {}
                Some(_) => complain(&format!("verge: `{name}` runs always (it has no `runs = \"asked\"`)")),
                None => return Err(Trouble(format!("there is no function `{name}` in this region"))),
            }
            peers(config, at.peer.as_deref())?.start_function(name, *lasts)?;
            Ok(yes(true))
        }
        FunctionCommand::Stop { name, at } => {
            peers(config, at.peer.as_deref())?.stop_function(name)?;
            Ok(yes(true))
        }
        FunctionCommand::Trace { name, last, at } => trace(config, name, *last, (at.peer.as_deref(), format)),
        FunctionCommand::Remove { name, at } => remove(config, name, at.peer.as_deref()),
    }
}

/// The text of a file, with the module that it names in it.
pub(super) fn read(file: &Path) -> Result<String, Trouble> {
    let trouble = |path: &Path, error: &std::io::Error| format!("cannot read {}: {error}", path.display());
    let text = std::fs::read_to_string(file).map_err(|error| Trouble(trouble(file, &error)))?;
    let wrong = |error: functions::SpecError| Trouble(format!("{}: {error}", file.display()));
    let mut written = Written::read(&text).map_err(wrong)?;
    let module = |name: &str| {
        let path = file.parent().unwrap_or(Path::new("")).join(name);
        std::fs::read(&path).map_err(|error| trouble(&path, &error))
    };
    // As it was written, where nothing has to be put into it.
    if written.embed(module).map_err(wrong)? { written.to_text().map_err(wrong) } else { Ok(text) }
}

#[derive(Serialize)]
struct Added<'a> {
    name: &'a str,
    version: u64,
    copies: u64,
}

/// Removes a function. No: there is none.
pub(super) fn remove(config: &Config, name: &str, peer: Option<&str>) -> Outcome {
    let is_there = rows(config, peer)?.iter().any(|row| row.name == name);
    if !is_there {
        complain(&format!("verge: nothing is called `{}` in this region", name.escape_debug()));
    }
    peers(config, peer)?.remove_function(name)?;
    Ok(yes(is_there))
}

/// Adds a function; what is wrong with its text is said with where it was read.
pub(super) fn add(
    config: &Config,
    (name, text): (&str, &str),
    place: &str,
    (peer, format): (Option<&str>, Format),
) -> Outcome {
    if !engine::is_function_name(name) {
        return Err(Trouble(engine::PutError::Name.to_string()));
    }
    if let Some(known) = &config.peers {
        // Before anybody is asked.
        FunctionSpec::read(text, &known.space).map_err(|error| Trouble(format!("{place}{error}")))?;
    }
    let done = peers(config, peer)?.add_function(name, text)?;
    if format == Format::Json {
        json(&Added { name, version: done.version, copies: done.copies })?;
    }
    Ok(yes(true))
}

/// A function, and where it runs.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    version: u64,
    text: String,
    /// The peer that runs it; `null`: none of those that were asked, and `running` may say why.
    pub(super) peer: Option<String>,
    pub(super) running: Option<RunningReport>,
}

impl Row {
    pub(super) fn written(&self) -> Option<Written> {
        Written::read(&self.text).ok()
    }

    /// Whether it runs, or waits as it should.
    pub(super) fn is_well(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.trouble.is_none())
    }

    /// What is to be said of it besides.
    pub(super) fn troubles(&self) -> Vec<String> {
        let Some(running) = &self.running else { return Vec::new() };
        let trouble = running.trouble.as_ref().map(|why| format!("does not run: {why}"));
        let dropped = (running.dropped > 0)
            .then(|| format!("{} messages came too fast, and are lost to it", running.dropped));
        let quality = running.quality.as_ref().filter(|quality| quality.cheaper > 0 || quality.late > 0);
        let quality = quality.map(told);
        let rules = running.rules.iter();
        let rules = rules.filter_map(|rule| Some(format!("rule {}: {}", rule.name, rule.why.as_ref()?)));
        let why = running.why.clone().filter(|_| running.rules.is_empty());
        trouble.into_iter().chain(dropped).chain(quality).chain(rules).chain(why).collect()
    }
}

/// What has become of a budget.
fn told(quality: &QualityReport) -> String {
    let span = |nanos: u64| Span(i64::try_from(nanos / 1_000 * 1_000).unwrap_or(i64::MAX));
    let QualityReport { budget_ns, cheaper, late, dearer_p99_ns, cheaper_p99_ns } = *quality;
    format!(
        "the cheaper operator has served {cheaper} messages, and {late} results came after {}; p99 of a run {}, of the cheaper one {}",
        span(budget_ns),
        span(dearer_p99_ns),
        span(cheaper_p99_ns)
    )
}

#[derive(Deserialize)]
struct Listed {
    functions: Vec<FunctionReport>,
    silent: usize,
}

/// What peers say of functions.
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
            // Where nobody runs it, one of them may say why.
            let why = || self.running.remove(&(name.clone(), 0)).map(|(_, why)| why);
            let running = running.or_else(why);
            Row { name, version, text, peer, running }
        });
        rows.collect()
    }
}

/// The functions of the region of a peer, or of all that are configured.
pub(super) fn rows(config: &Config, peer: Option<&str>) -> Result<Vec<Row>, Trouble> {
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
    Ok(heard.rows())
}

fn list(config: &Config, peer: Option<&str>, format: Format) -> Outcome {
    let rows = rows(config, peer)?;
    if format == Format::Json {
        json(&rows)?;
    } else if rows.is_empty() {
        line("There are no functions here.")?;
    } else {
        let columns = ["function", "kind", "runs at", "is", "messages", "unread", "results", "failed"];
        let mut shown = table(&columns, &[4, 5, 6, 7]);
        for row in &rows {
            let (Some(running), Some(peer)) = (&row.running, &row.peer) else {
                shown.add_row([row.name.clone(), String::new(), coloured("nowhere", RED)]);
                continue;
            };
            let is = match (running.waits, &running.trouble) {
                (_, Some(_)) => coloured("in trouble", RED),
                (true, None) => "waits".to_owned(),
                (false, None) => "runs".to_owned(),
            };
            let counts = [running.messages, running.unread, running.results, running.failed];
            let head = [row.name.clone(), running.kind.clone(), peer.clone(), is];
            shown.add_row(head.into_iter().chain(counts.map(|count| count.to_string())));
        }
        line(&shown.to_string())?;
        tell_troubles(&rows)?;
    }
    Ok(yes(rows.iter().all(Row::is_well)))
}

/// What is to be said of functions, below their table.
pub(super) fn tell_troubles(rows: &[Row]) -> Result<(), Trouble> {
    for row in rows {
        let name = coloured(&format!("{}:", row.name), RED);
        row.troubles().iter().try_for_each(|text| line(&format!("{name} {text}")))?;
    }
    Ok(())
}

/// What a peer answers.
fn ask<T: serde::de::DeserializeOwned>(place: &str, path: &str) -> Result<T, String> {
    let body = verge::ask_peer(place, path).map_err(|error| error.to_string())?;
    serde_json::from_str(&body).map_err(|error| format!("it says what cannot be read: {error}"))
}

pub(super) fn trace(
    config: &Config,
    name: &str,
    last: usize,
    (peer, format): (Option<&str>, Format),
) -> Outcome {
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
        "no peer that was asked runs `{name}`{beside}: `verge function list` shows what there is"
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
