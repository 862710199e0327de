//! `verge graph`: what the configured operators become, what they cost, and when their results are there.

use config::Config;
use console::{Outcome, Trouble, complain, json, line, millis, table, yes};
use contract::Span;
use planner::{GraphRow, LevelRow, OutputRow, Study, UnderWay, picture};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Report {
    processors: f64,
    preemptive: bool,
    levels: Vec<LevelRow>,
    graphs: Vec<GraphRow>,
    under_way: UnderWay,
    sheds_first: Option<String>,
}

/// Prints the graphs, and draws them where that is asked for.
pub fn run(config: &Config, svg: Option<&Path>, as_json: bool) -> Outcome {
    let study = Study::of(config, &node::facts(config, complain))?;
    let report = Report {
        processors: study.capacity(),
        preemptive: study.processors.preemptive,
        levels: study.levels(),
        graphs: study.rows(),
        under_way: study.under_way(),
        sheds_first: study.shedding(),
    };
    if let Some(path) = svg {
        let text = picture::draw(&study, &report.graphs);
        std::fs::write(path, text)
            .map_err(|error| Trouble(format!("cannot write {}: {error}", path.display())))?;
    }
    if as_json {
        json(&report)?;
    } else {
        show(&report)?;
    }
    let kept = report.graphs.iter().flat_map(|graph| &graph.outputs).all(|output| output.kept);
    Ok(yes(kept))
}

fn show(report: &Report) -> Result<(), Trouble> {
    if report.graphs.is_empty() {
        return line("no [[operator]] is configured: messages go as they come");
    }
    for graph in &report.graphs {
        show_sources(graph)?;
        show_operators(graph)?;
    }
    show_outputs(report.graphs.iter().flat_map(|graph| &graph.outputs))?;
    show_levels(&report.levels, report.processors, report.preemptive)?;
    let UnderWay { needed, permitted, events } = report.under_way;
    line(&format!(
        "{needed} messages are under way at once; {permitted} may be (processing.events = {events})"
    ))?;
    let measured = report.graphs.iter().flat_map(|graph| &graph.operators).any(|row| row.cost_measured);
    if measured {
        line(
            "costs are the longest of 100 runs on made-up inputs (the middle one of three such), except those with = in front, which are configured",
        )?;
    }
    line(&match &report.sheds_first {
        Some(sentence) => format!("shedding will start at {sentence}"),
        None => "nothing will be shed as long as suppliers keep their periods".to_owned(),
    })
}

fn show_sources(graph: &GraphRow) -> Result<(), Trouble> {
    let mut shown = table(&["sources", "level", "type", "T ms", "valid ms", "ring"], &[1, 3, 4, 5]);
    for row in &graph.sources {
        shown.add_row([
            row.topic.clone(),
            level(row.level),
            row.payload.clone(),
            number(row.period_ms),
            number(row.validity_ms),
            row.ring.to_string(),
        ]);
    }
    line(&shown.to_string())
}

fn show_operators(graph: &GraphRow) -> Result<(), Trouble> {
    let headings = [
        "operators",
        "level",
        "kind",
        "inputs",
        "type",
        "T ms",
        "valid ms",
        "ring",
        "cost us",
        "median us",
        "bound ms",
    ];
    let mut shown = table(&headings, &[1, 5, 6, 7, 8, 9, 10]);
    for row in &graph.operators {
        let configured = if row.cost_measured { "" } else { "=" };
        shown.add_row([
            row.name.clone(),
            level(row.level),
            row.kind.clone(),
            row.inputs.join(", "),
            row.payload.clone(),
            number(row.period_ms),
            number(row.validity_ms),
            row.ring.to_string(),
            format!("{configured}{:.1}", row.cost_us),
            row.cost_median_us.map_or("-".to_owned(), |median| format!("{median:.1}")),
            row.bound_ms.map_or("-".to_owned(), |bound| number(Some(bound))),
        ]);
    }
    line(&shown.to_string())?;
    for row in graph.operators.iter().filter(|row| !row.note.is_empty()) {
        line(&format!("{}: {}", row.name, row.note))?;
    }
    match graph.instances {
        1 => Ok(()),
        several => line(&format!("{several} instances of these are counted")),
    }
}

/// The outputs with their bounds, and why those that are not kept are not.
pub(super) fn show_outputs<'a>(outputs: impl Iterator<Item = &'a OutputRow> + Clone) -> Result<(), Trouble> {
    let mut shown = table(&["outputs", "of", "level", "D ms", "bound ms", "kept"], &[2, 3, 4]);
    for row in outputs.clone() {
        shown.add_row([
            row.topic.clone(),
            row.operator.clone(),
            row.level.to_string(),
            number(row.deadline_ms),
            row.bound_ms.map_or("-".to_owned(), |bound| number(Some(bound))),
            if row.kept { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    line(&shown.to_string())?;
    let mut refused = outputs.filter(|row| !row.kept);
    refused.try_for_each(|row| line(&format!("{}: {}", row.topic, row.reason)))
}

/// What each level needs.
pub(super) fn show_levels(levels: &[LevelRow], processors: f64, preemptive: bool) -> Result<(), Trouble> {
    let mut shown = table(&["level", "operators", "CPU %", "with those above %"], &[0, 1, 2, 3]);
    for row in levels {
        shown.add_row([
            row.level.to_string(),
            row.operators.to_string(),
            format!("{:.3}", row.utilisation * 100.0),
            format!("{:.3}", row.cumulated * 100.0),
        ]);
    }
    line(&shown.to_string())?;
    let order = if preemptive {
        "urgent operators interrupt others"
    } else {
        "urgent operators wait for the end of a run: without real-time rights, or with realtime.priority = 0"
    };
    line(&format!("operators have {processors:.2} processors; {order}"))
}

fn level(level: Option<u8>) -> String {
    level.map_or("-".to_owned(), |level| level.to_string())
}

fn number(value: Option<f64>) -> String {
    value.map_or("∞".to_owned(), |ms| millis(Span((ms * 1e6).round() as i64)))
}
