//! `verge check`: what the analysis makes of the configured contracts and operators, on this host.

use super::graph::{show_levels, show_outputs};
use crate::arguments::Format;
use config::Config;
use console::{Outcome, Trouble, complain, json, line, millis, table, yes};
use contract::Span;
use planner::{Check, Operators, Topic};

/// Shows the answer for the whole configuration.
pub fn run(config: &Config, explain: bool, format: Format) -> Outcome {
    let report = planner::check(config, &node::facts(config, complain), explain)?;
    match format {
        Format::Json => json(&report)?,
        Format::Table => {
            show(&report)?;
            if !config.replication.keeps_contracts() {
                line(
                    "replication.policy is a baseline: brokers admit everything, and loss bounds are not kept",
                )?;
            }
        }
    }
    Ok(yes(report.admitted))
}

/// Whether copies are made, in a word.
fn replicated(row: &Topic) -> &'static str {
    match (row.replicate, row.replicate_every) {
        (None, _) => "-",
        (Some(false), _) => "no",
        (Some(true), None) => "yes",
        (Some(true), Some(_)) => "lazily",
    }
}

fn show(report: &Check) -> Result<(), Trouble> {
    if report.topics.is_empty() {
        line("no [[topic]] is configured: publishers state their contracts themselves")?;
    }
    let headings = [
        "topics",
        "streams",
        "T ms",
        "D ms",
        "L",
        "N",
        "link",
        "D_d ms",
        "D_r ms",
        "replicate",
        "M",
        "s ms",
        "CPU %",
        "admitted",
    ];
    let mut shown = table(&headings, &[1, 2, 3, 4, 5, 7, 8, 10, 11, 12]);
    let number = |value: Option<f64>| value.map_or("∞".to_owned(), |ms| millis(Span((ms * 1e6) as i64)));
    for row in &report.topics {
        let unknown = row.replicate.is_none();
        let deadline = |value| if unknown { "-".to_owned() } else { number(value) };
        shown.add_row([
            row.filter.clone(),
            row.streams.to_string(),
            number(Some(row.period_ms)),
            number(Some(row.deadline_ms)),
            row.loss.clone(),
            row.retain.to_string(),
            row.link.clone(),
            deadline(row.dispatch_deadline_ms),
            deadline(row.replication_deadline_ms),
            replicated(row).to_owned(),
            row.replicate_every.map_or("-".to_owned(), |every| every.to_string()),
            row.copy_begins_ms.map_or("-".to_owned(), |begin| number(Some(begin))),
            format!("{:.3}", row.utilisation * 100.0),
            if row.admitted { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    if !report.topics.is_empty() {
        line(&shown.to_string())?;
    }
    for row in report.topics.iter().filter(|row| !row.admitted) {
        line(&format!("{}: {}", row.filter, row.reason))?;
    }
    for (row, words) in report.topics.iter().filter_map(|row| Some((row, row.explanation.as_ref()?))) {
        line(&format!("{}:", row.filter))?;
        words.lines().try_for_each(|words| line(&format!("  {words}")))?;
    }
    let [arrival, dispatch, replication] = report.costs_us;
    line(&format!(
        "together {:.2} % of a processor if each message comes alone, less where many come together, of {:.0} % that may be used; a \
         message costs {arrival:.2} us to take in, \
         {dispatch:.2} us per subscriber, {replication:.2} us to copy",
        report.utilisation * 100.0,
        report.share * 100.0
    ))?;
    report.operators.iter().try_for_each(show_operators)
}

fn show_operators(operators: &Operators) -> Result<(), Trouble> {
    show_outputs(operators.outputs.iter())?;
    show_levels(&operators.levels, operators.processors, operators.preemptive)?;
    operators.sheds_first.iter().try_for_each(|sentence| line(&format!("shedding will start at {sentence}")))
}
