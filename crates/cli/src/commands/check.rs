//! `verge check`: what the analysis makes of the configured contracts and operators, on this host.

use super::broker::processing::longest_rest;
use super::broker::supply;
use super::graph::{LevelRow, OutputRow, Study, show_levels, show_outputs};
use super::rehearsal::{Answer, Refused, Rehearsal};
use crate::arguments::Format;
use crate::output::{Outcome, Trouble, complain, json, line, millis, table, yes};
use crate::profile::costs;
use config::{Config, TopicFamily};
use contract::{Admission, Contract, Plan, Span};
use serde::Serialize;
use std::fmt::Display;

#[derive(Serialize)]
pub(super) struct Row {
    filter: String,
    streams: u32,
    period_ms: f64,
    deadline_ms: f64,
    loss: String,
    retain: u32,
    link: String,
    dispatch_deadline_ms: Option<f64>,
    replication_deadline_ms: Option<f64>,
    replicate: Option<bool>,
    /// `M`, where copies are lazy and needed.
    replicate_every: Option<u32>,
    /// `s`: from arrival until a copy begins, where copies are lazy and needed.
    copy_begins_ms: Option<f64>,
    pub(super) utilisation: f64,
    admitted: bool,
    pub(super) reason: String,
    /// The formulas with what stands in them, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
}

#[derive(Serialize)]
struct Report {
    admitted: bool,
    utilisation: f64,
    share: f64,
    costs_us: [f64; 3],
    topics: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operators: Option<Operators>,
}

#[derive(Serialize)]
struct Operators {
    processors: f64,
    preemptive: bool,
    levels: Vec<LevelRow>,
    outputs: Vec<OutputRow>,
    sheds_first: Option<String>,
}

impl Operators {
    /// Nothing where no operator is configured.
    fn new(config: &Config, refused: Refused) -> Result<Option<Operators>, Trouble> {
        if config.processing.graphs.is_empty() {
            return Ok(None);
        }
        let study = Study::with(config, refused)?;
        Ok(Some(Operators {
            processors: study.capacity(),
            preemptive: study.processors.preemptive,
            levels: study.levels(),
            outputs: study.rows().into_iter().flat_map(|graph| graph.outputs).collect(),
            sheds_first: study.shedding(),
        }))
    }

    fn kept(&self) -> bool {
        self.outputs.iter().all(|output| output.kept)
    }

    fn show(&self) -> Result<(), Trouble> {
        show_outputs(self.outputs.iter())?;
        show_levels(&self.levels, self.processors, self.preemptive)?;
        self.sheds_first.iter().try_for_each(|sentence| line(&format!("shedding will start at {sentence}")))
    }
}

/// Admits family after family, as a broker would, and bounds the results of operators.
pub fn run(config: &Config, explain: bool, format: Format) -> Outcome {
    let (costs, blocking) = costs(&config.admission, complain);
    let supply = supply(&config.admission, blocking + longest_rest(config));
    let admission = Admission::new(config.delays, config.links.clone(), costs, supply)
        .with_lazy(config.replication.lazy())
        .with_best_effort(config.admission.best_effort_subscriptions);
    let rehearsal = Rehearsal::of(config, costs, blocking)?;
    let answered = config.topics.iter().zip(&rehearsal.families);
    let mut rows: Vec<Row> =
        answered.map(|(family, answer)| answer_row(&admission, family, answer)).collect();
    for (row, family) in rows.iter_mut().zip(&config.topics).filter(|_| explain) {
        row.explanation = admission.explain(&family.rule.contract).map(|words| words.to_string());
    }
    let micros = |span: Span| span.0 as f64 / 1e3;
    let operators = Operators::new(config, rehearsal.results)?;
    let kept = operators.as_ref().is_none_or(Operators::kept);
    let report = Report {
        admitted: rows.iter().all(|row| row.admitted) && kept,
        utilisation: rehearsal.utilisation,
        share: config.admission.share,
        costs_us: [micros(costs.arrival), micros(costs.dispatch), micros(costs.replication)],
        topics: rows,
        operators,
    };
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

/// What a broker says of a family.
fn answer_row(admission: &Admission, family: &TopicFamily, answer: &Answer) -> Row {
    let contract = &family.rule.contract;
    let reason = reason(family, answer.admitted, answer.refusal.as_ref());
    let upstream = admission.delays().publisher_to_broker;
    row(family, contract, admission.plan(contract).ok(), upstream, answer.utilisation, reason)
}

/// Why not all streams of a family are admitted, if so.
fn reason(family: &TopicFamily, admitted: u32, refusal: Option<&impl Display>) -> String {
    match (refusal, admitted) {
        (None, _) => String::new(),
        (Some(refusal), 0) => refusal.to_string(),
        (Some(refusal), some) => format!("only {some} of {} streams fit: {refusal}", family.streams),
    }
}

pub(super) fn admit(admission: &mut Admission, family: &TopicFamily) -> Row {
    let contract = &family.rule.contract;
    let before = admission.utilisation();
    let plan = admission.plan(contract);
    let mut admitted = 0;
    let refusal = (0..family.streams).find_map(|_| {
        let refusal = admission.admit(contract, 1).err();
        admitted += u32::from(refusal.is_none());
        refusal
    });
    let reason = reason(family, admitted, refusal.as_ref());
    let upstream = admission.delays().publisher_to_broker;
    row(family, contract, plan.ok(), upstream, admission.utilisation() - before, reason)
}

fn row(
    family: &TopicFamily,
    contract: &Contract,
    plan: Option<Plan>,
    upstream: Span,
    utilisation: f64,
    reason: String,
) -> Row {
    let finite = |span: Span| (!span.is_forever()).then(|| span.as_millis_f64());
    let lazy = plan.and_then(|plan| plan.lazy);
    Row {
        filter: family.rule.filter.to_string(),
        streams: family.streams,
        period_ms: contract.period.as_millis_f64(),
        deadline_ms: contract.deadline.as_millis_f64(),
        loss: contract.loss.to_string(),
        retain: contract.retain,
        link: contract.link.to_string(),
        dispatch_deadline_ms: plan.and_then(|plan| finite(plan.dispatch)),
        replication_deadline_ms: plan.and_then(|plan| finite(plan.replication)),
        replicate: plan.map(|plan| plan.replicate),
        replicate_every: lazy.map(|lazy| lazy.every),
        copy_begins_ms: lazy.map(|lazy| (lazy.start - upstream).as_millis_f64()),
        utilisation,
        admitted: reason.is_empty(),
        reason,
        explanation: None,
    }
}

/// Whether copies are made, in a word.
fn replicated(row: &Row) -> &'static str {
    match (row.replicate, row.replicate_every) {
        (None, _) => "-",
        (Some(false), _) => "no",
        (Some(true), None) => "yes",
        (Some(true), Some(_)) => "lazily",
    }
}

fn show(report: &Report) -> Result<(), Trouble> {
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
    report.operators.iter().try_for_each(Operators::show)
}
