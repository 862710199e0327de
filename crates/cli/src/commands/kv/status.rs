//! `verge kv status`: whether nodes agree, who is silent, and who lies.

use crate::arguments::Format;
use console::{Outcome, Trouble, json, line, table, yes};
use node::talk::Reached;
use serde_json::Value;
use std::time::Duration;
use web::node_reasons;

/// Shows all nodes that answer, once or again and again.
pub fn run(reached: &Reached, watch: bool, format: Format) -> Outcome {
    loop {
        let reports = reached.nodes.iter().map(|node| node.status()).collect::<Result<Vec<_>, _>>()?;
        match format {
            Format::Json => json(&reports)?,
            Format::Table => {
                if watch {
                    // Clears the screen and begins at its top.
                    line("\x1b[2J\x1b[H")?;
                }
                show(&reports)?;
            }
        }
        if !watch {
            return Ok(yes(reports.iter().all(is_well)));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Whether a node sees all others, agrees with them, keeps its time, knows what the others do, and has for a while.
fn is_well(report: &Value) -> bool {
    node_reasons(report).is_empty() && lanes(report).all(|lane| lane["jobs"]["alarms"] == 0)
}

fn lanes(report: &Value) -> impl Iterator<Item = &Value> {
    report["lanes"].as_array().into_iter().flatten()
}

#[expect(clippy::too_many_lines, reason = "two tables")]
fn show(reports: &[Value]) -> Result<(), Trouble> {
    let headings = [
        "node",
        "lane",
        "state",
        "jobs",
        "complete",
        "skipped",
        "fenced",
        "knows all",
        "mean ms",
        "worst ms",
        "margin ms",
        "late",
        "silent",
        "lying",
        "differ",
    ];
    let mut nodes = table(&headings, &[1, 3, 4, 5, 6, 8, 9, 10, 11]);
    for report in reports {
        for lane in lanes(report) {
            let coordination = &lane["coordination_seconds"];
            nodes.add_row([
                text(&report["node"]),
                text(&lane["lane"]),
                text(&lane["state"]),
                text(&lane["jobs"]["counted"]),
                text(&lane["jobs"]["complete"]),
                text(&lane["jobs"]["skipped"]),
                text(&lane["jobs"]["fenced"]),
                knows(lane),
                millis(&coordination["mean"]),
                millis(&coordination["worst"]),
                millis(&lane["margin_min_seconds"]),
                text(&lane["late_publish"]),
                names(&lane["last"]["silent"]),
                names(&lane["last"]["liars"]),
                names(&lane["last"]["differ"]),
            ]);
        }
    }
    line(&nodes.to_string())?;
    for report in reports {
        for lane in
            lanes(report).filter(|lane| lane["votes_failed"].as_u64().is_some_and(|failed| failed > 0))
        {
            let (node, number) = (text(&report["node"]), text(&lane["lane"]));
            for vote in lane["votes"].as_array().into_iter().flatten() {
                let (name, failed) = (text(&vote["name"]), text(&vote["failed"]));
                line(&format!(
                    "{node}, lane {number}: {failed} votes of {name} failed: {}",
                    text(&vote["last_failure"])
                ))?;
            }
        }
    }
    let headings = [
        "node",
        "lane",
        "peer",
        "sends",
        "hears",
        "silent",
        "late",
        "forged",
        "wrong",
        "lied",
        "differed",
        "clock ahead us",
    ];
    let mut peers = table(&headings, &[1, 5, 6, 7, 8, 9, 10, 11]);
    for report in reports {
        for lane in lanes(report) {
            for peer in lane["peers"].as_array().into_iter().flatten() {
                let counters =
                    ["silent", "late", "forged", "wrong", "lied", "differed"].map(|name| text(&peer[name]));
                let yes_no = |name: &str| if peer[name] == true { "yes" } else { "no" }.to_owned();
                let mut row = vec![text(&report["node"]), text(&lane["lane"]), text(&peer["name"])];
                row.extend([yes_no("sends"), yes_no("hears")]);
                row.extend(counters);
                row.push(ahead(&peer["clock_ahead_seconds"]));
                peers.add_row(row);
            }
        }
    }
    line(&peers.to_string())
}

/// Whether a node lacks nothing that others have agreed on.
fn knows(lane: &Value) -> String {
    // One that has not ended a job yet knows nothing.
    match (&lane["knows_all"], &lane["alarm"]) {
        (_, Value::Bool(true)) => "ALARM",
        (Value::Bool(true), _) => "yes",
        _ => "no",
    }
    .to_owned()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn millis(value: &Value) -> String {
    value.as_f64().map_or("-".to_owned(), |seconds| format!("{:.3}", seconds * 1e3))
}

fn names(value: &Value) -> String {
    let names: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

/// The bounds of how far a clock is ahead.
fn ahead(bounds: &Value) -> String {
    match (bounds[0].as_f64(), bounds[1].as_f64()) {
        (Some(low), Some(high)) => format!("{:.0} … {:.0}", low * 1e6, high * 1e6),
        _ => "-".to_owned(),
    }
}
