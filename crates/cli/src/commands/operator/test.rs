//! `verge operator test`: runs a module over a table, and says what came of every line and what it cost.

use super::table::{self, Row, Table};
use crate::arguments::Format;
use crate::arguments::operator::TestArguments;
use config::working_time;
use console::{Outcome, Trouble, line, yes};
use contract::{Span, Time};
use processing::{Answer, Input, Operator, Parameters, PayloadType, Setup, Value};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;
use wasm::{DefaultEngine, Limits, Sandbox};

/// How much of a result the table shows.
const SHOWN_MAX: usize = 60;

#[derive(Serialize)]
struct Report {
    module: String,
    output: String,
    runs: Vec<Ran>,
    results: usize,
    nothing: usize,
    faults: usize,
    budget_us: f64,
    fuel_worst: u64,
    median_us: f64,
    worst_us: f64,
    fuel_per_us: f64,
}

#[derive(Serialize)]
struct Ran {
    line: u64,
    result: Option<String>,
    fault: Option<String>,
    fuel: u64,
    us: f64,
}

/// Runs it.
pub fn run(arguments: &TestArguments, format: Format) -> Outcome {
    let Table { types, rows } = table::read(&arguments.input, &arguments.types)?;
    let limits = Limits {
        budget: arguments.budget,
        fuel_per_micro: arguments.fuel,
        memory_bytes_max: (arguments.memory as usize) << 20,
        ..Limits::default()
    };
    let module = arguments.module.display().to_string();
    let bytes = read_module(&arguments.module, limits.module_bytes_max)?;
    let output = arguments.output.clone().or_else(|| types.first().cloned()).unwrap_or_default();
    let mut parameters: Parameters = arguments.parameter.iter().cloned().collect();
    parameters.insert("output".to_owned(), Value::Text(output.to_string()));
    let setup = Setup { inputs: &types, parameters: &parameters };
    let mut sandbox: Sandbox<DefaultEngine> =
        Sandbox::new(&bytes, &module, &setup, &limits, &working_time())?;
    let mut payload = Vec::new();
    let runs = (1..).zip(&rows).map(|(number, row)| {
        let created = Time::ZERO + Span(arguments.every.0.saturating_mul(number));
        run_once(&mut sandbox, row, created, &output, &mut payload)
    });
    let runs = runs.collect();
    let report = report(module, &output, runs, arguments.budget);
    match format {
        Format::Json => console::json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(yes(report.faults == 0))
}

/// Reads one byte more than is allowed at most, so that the refusal can say so.
fn read_module(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        Trouble(format!("cannot read the module {}: {error}; check the path", path.display()))
    })?;
    Ok(bytes)
}

fn run_once(
    sandbox: &mut Sandbox<DefaultEngine>,
    row: &Row,
    created: Time,
    output: &PayloadType,
    payload: &mut Vec<u8>,
) -> Ran {
    let given = row.payloads.iter().enumerate().filter_map(|(slot, cell)| Some((slot, cell.as_deref()?)));
    let inputs: Vec<Input<'_>> = given.map(|(slot, payload)| Input { slot, payload, created }).collect();
    payload.clear();
    let began = Instant::now();
    let answer = sandbox.run(&inputs, payload);
    let us = began.elapsed().as_nanos() as f64 / 1e3;
    let has_result = answer == Ok(Answer::Result);
    Ran {
        line: row.line,
        result: has_result.then(|| table::decode(payload, output)),
        fault: answer.err().map(|fault| fault.to_string()),
        fuel: sandbox.fuel_used(),
        us,
    }
}

fn report(module: String, output: &PayloadType, runs: Vec<Ran>, budget: Span) -> Report {
    let mut times: Vec<f64> = runs.iter().map(|ran| ran.us).collect();
    times.sort_by(f64::total_cmp);
    let results = runs.iter().filter(|ran| ran.result.is_some()).count();
    let faults = runs.iter().filter(|ran| ran.fault.is_some()).count();
    let fuel: u64 = runs.iter().map(|ran| ran.fuel).sum();
    Report {
        module,
        output: output.to_string(),
        results,
        nothing: runs.len() - results - faults,
        faults,
        budget_us: budget.as_millis_f64() * 1e3,
        fuel_worst: runs.iter().map(|ran| ran.fuel).max().unwrap_or(0),
        median_us: times.get(times.len() / 2).copied().unwrap_or(0.0),
        worst_us: times.last().copied().unwrap_or(0.0),
        fuel_per_us: fuel as f64 / times.iter().sum::<f64>().max(1e-3),
        runs,
    }
}

fn show(report: &Report) -> Result<(), Trouble> {
    let mut shown = console::table(&["line", "fuel", "us", "result"], &[0, 1, 2]);
    for ran in &report.runs {
        let came = match (&ran.fault, &ran.result) {
            (Some(fault), _) => format!("FAULT: {fault}"),
            (None, Some(result)) => cut(result),
            (None, None) => "-".to_owned(),
        };
        shown.add_row([ran.line.to_string(), ran.fuel.to_string(), format!("{:.1}", ran.us), came]);
    }
    line(&shown.to_string())?;
    line(&format!(
        "{} runs: {} results ({}), {} times nothing, {} faults",
        report.runs.len(),
        report.results,
        report.output,
        report.nothing,
        report.faults
    ))?;
    line(&format!(
        "time: median {:.1} us, worst {:.1} us, budget {:.1} us; fuel: worst {}; {:.0} fuel in a microsecond",
        report.median_us, report.worst_us, report.budget_us, report.fuel_worst, report.fuel_per_us
    ))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}
