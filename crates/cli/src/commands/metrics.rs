//! `verge metrics`: what a broker shows at `/metrics`.

use crate::arguments::Format;
use console::{Outcome, json, line, yes};
use serde::Serialize;
use web::METRICS;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
}

/// Lists them.
pub fn run(format: Format) -> Outcome {
    match format {
        Format::Table => line(web::page().trim_end())?,
        Format::Json => {
            let rows = METRICS.iter().map(|metric| Row {
                name: metric.name,
                kind: metric.kind.as_str(),
                labels: metric.labels,
                help: metric.help,
            });
            json(&rows.collect::<Vec<_>>())?;
        }
    }
    Ok(yes(true))
}
