//! `verge operator list`: what comes with the program.

use crate::arguments::Format;
use console::{Outcome, json, line, table, yes};
use processing::kinds::KINDS;
use serde::Serialize;

#[derive(Serialize)]
struct KindRow {
    kind: &'static str,
    doc: &'static str,
    inputs_min: usize,
    /// Nothing if there is no limit.
    inputs_max: Option<usize>,
    parameters: Vec<ParameterRow>,
}

#[derive(Serialize)]
struct ParameterRow {
    name: &'static str,
    values: &'static str,
    doc: &'static str,
}

/// Lists kinds and parameters.
pub fn run(format: Format) -> Outcome {
    let rows: Vec<KindRow> = KINDS.iter().map(row).collect();
    if format == Format::Json {
        json(&rows)?;
        return Ok(yes(true));
    }
    let mut shown = table(&["kind", "inputs", "parameter", "values", "what it means"], &[]);
    for row in &rows {
        shown.add_row([row.kind, &inputs(row), "", "", row.doc]);
        for parameter in &row.parameters {
            shown.add_row(["", "", parameter.name, parameter.values, parameter.doc]);
        }
    }
    line(&shown.to_string())?;
    line("operators of your own are WebAssembly modules: docs/webassembly.md, and `verge operator test`")?;
    Ok(yes(true))
}

fn row(kind: &processing::Kind) -> KindRow {
    let (inputs_min, inputs_max) = kind.inputs;
    let parameters = kind.parameters.iter().map(|parameter| ParameterRow {
        name: parameter.name,
        values: parameter.values,
        doc: parameter.doc,
    });
    KindRow {
        kind: kind.name,
        doc: kind.doc,
        inputs_min,
        inputs_max: (inputs_max < usize::MAX).then_some(inputs_max),
        parameters: parameters.collect(),
    }
}

fn inputs(row: &KindRow) -> String {
    match row.inputs_max {
        Some(max) if max == row.inputs_min => max.to_string(),
        Some(max) => format!("{} to {max}", row.inputs_min),
        None => format!("{} or more", row.inputs_min),
    }
}
