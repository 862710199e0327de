//! `verge kv check`: whether tasks and store fit into their periods (I10, I11), with costs measured on this host.

use super::costs;
use crate::arguments::Format;
use config::{KvConfig, KvLane};
use console::{Outcome, Trouble, json, line, millis, table, yes};
use contract::Span;
use kv::admission::{Measured, Report, Response, longest_batch, study};
use serde::Serialize;

#[derive(Serialize)]
struct LaneReport {
    lane: usize,
    holds: bool,
    nodes: usize,
    faults: usize,
    keys: usize,
    /// The batch that the figures are for.
    tuples: usize,
    /// The longest with which everything holds, if any.
    longest_batch: Option<usize>,
    period_ms: f64,
    offset_ms: f64,
    offset_min_ms: f64,
    round_ms: f64,
    round_min_ms: f64,
    /// I10: what tasks and store need of a period.
    demand_ms: f64,
    job_cost_ms: f64,
    job_bytes: usize,
    store_bytes: usize,
    tree_bytes: usize,
    responses: Vec<ResponseRow>,
}

#[derive(Serialize)]
struct ResponseRow {
    name: String,
    worst_ms: Option<f64>,
    limit_ms: f64,
}

pub fn run(config: &KvConfig, format: Format) -> Outcome {
    let lanes: Vec<LaneReport> =
        config.lanes.iter().enumerate().map(|(number, lane)| report(config, number, lane)).collect();
    match format {
        Format::Json => json(&lanes)?,
        Format::Table => lanes.iter().try_for_each(show)?,
    }
    Ok(yes(lanes.iter().all(|lane| lane.holds)))
}

fn report(config: &KvConfig, number: usize, lane: &KvLane) -> LaneReport {
    let setup = &lane.setup;
    let tuples = setup.batch_tuples_max();
    let ((empty, _), (full, written)) = (costs::job(setup, 0), costs::job(setup, tuples));
    let link = setup.config().link;
    let measured = Measured {
        job: empty,
        tuple: Span((full - empty).max(Span::ZERO).0 / written.max(1) as i64 + 1),
        latency: link.delay_max,
        bytes_per_second: config.bandwidth,
        clock_error: link.clock_error,
    };
    let Report { offset_min, offset, demand, period, round, round_min, ref tasks, ref store, .. } =
        study(setup.config(), &lane.tasks, &measured);
    let holds = study(setup.config(), &lane.tasks, &measured).holds();
    let row = |response: &Response| ResponseRow {
        name: response.name.clone(),
        worst_ms: response.worst.map(Span::as_millis_f64),
        limit_ms: response.limit.as_millis_f64(),
    };
    LaneReport {
        lane: number,
        holds,
        nodes: setup.nodes(),
        faults: setup.faults(),
        keys: setup.keys(),
        tuples,
        longest_batch: longest_batch(setup.config(), &lane.tasks, &measured),
        period_ms: period.as_millis_f64(),
        offset_ms: offset.as_millis_f64(),
        offset_min_ms: offset_min.as_millis_f64(),
        round_ms: round.as_millis_f64(),
        round_min_ms: round_min.as_millis_f64(),
        demand_ms: demand.as_millis_f64(),
        job_cost_ms: measured.cpu(tuples).as_millis_f64(),
        job_bytes: setup.job_bytes(tuples, setup.value_bytes_max()),
        store_bytes: setup.store_bytes(),
        tree_bytes: setup.tree_bytes(),
        responses: tasks.iter().chain([store]).map(row).collect(),
    }
}

fn show(lane: &LaneReport) -> Result<(), Trouble> {
    line(&format!(
        "lane {}: {} nodes, {} may be faulty; {} keys, {} values for each job and node",
        lane.lane, lane.nodes, lane.faults, lane.keys, lane.tuples
    ))?;
    let mut checks = table(&["what", "needs ms", "has ms", "fits"], &[1, 2]);
    let mut row = |what: &str, needs: Option<f64>, has: f64| {
        let fits = if needs.is_some_and(|needs| needs <= has) { "yes" } else { "NO" };
        let needs = needs.map_or("more".to_owned(), |needs| format!("{needs:.3}"));
        checks.add_row([what, &needs, &format!("{has:.3}"), fits]);
    };
    row("tasks before the store's job (offset)", Some(lane.offset_min_ms), lane.offset_ms);
    row("tasks and store in a period (I10)", Some(lane.demand_ms), lane.period_ms);
    row("a round", Some(lane.round_min_ms), lane.round_ms);
    for response in &lane.responses {
        row(&format!("{} (I11)", response.name), response.worst_ms, response.limit_ms);
    }
    line(&checks.to_string())?;
    let longest = lane.longest_batch.map_or("none fits".to_owned(), |tuples| format!("{tuples} values"));
    line(&format!(
        "longest batch: {longest}. A job costs {} ms of a processor here, and {:.1} kB are sent; a round may last {} ms, and there are {} of them in \
         a job. Memory: {:.1} MB values, {:.1} MB exchange.\n",
        millis(Span((lane.job_cost_ms * 1e6) as i64)),
        lane.job_bytes as f64 / 1e3,
        millis(Span((lane.round_ms * 1e6) as i64)),
        lane.faults + 1,
        lane.store_bytes as f64 / 1e6,
        lane.tree_bytes as f64 / 1e6,
    ))?;
    if !lane.holds {
        line(
            "It does not hold: lengthen the period, write fewer values (`batch_tuples_max`), or move tasks to another lane.\n",
        )?;
    }
    Ok(())
}
