//! What the analysis makes of the configured contracts and operators, on a host.

use crate::PlanError;
use crate::host::Host;
use crate::rehearsal::{Answer, Refused, Rehearsal};
use crate::settings::supply;
use crate::study::{LevelRow, OutputRow, Study};
use config::{Config, TopicFamily};
use contract::{Admission, Contract, Plan, Span};
use serde::Serialize;
use std::fmt::Display;

/// The answer for a whole configuration.
#[derive(Serialize)]
pub struct Check {
    /// Whether everything can be kept.
    pub admitted: bool,
    /// The share of a processor that it takes.
    pub utilisation: f64,
    /// The share that it may take.
    pub share: f64,
    /// To take a message in, to send it to one subscriber, to copy it.
    pub costs_us: [f64; 3],
    /// By family of topics.
    pub topics: Vec<Topic>,
    /// Operators, if any are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators: Option<Operators>,
}

/// The topics of one family.
#[derive(Serialize)]
pub struct Topic {
    /// Its filter.
    pub filter: String,
    /// How many streams are planned for.
    pub streams: u32,
    /// `T`.
    pub period_ms: f64,
    /// `D`.
    pub deadline_ms: f64,
    /// `L`.
    pub loss: String,
    /// `N`.
    pub retain: u32,
    /// The class of the link to its subscribers.
    pub link: String,
    /// `D_d`.
    pub dispatch_deadline_ms: Option<f64>,
    /// `D_r`.
    pub replication_deadline_ms: Option<f64>,
    /// Whether copies are made. Nothing where the contract cannot be planned.
    pub replicate: Option<bool>,
    /// `M`, where copies are lazy and needed.
    pub replicate_every: Option<u32>,
    /// `s`: from arrival until a copy begins, where copies are lazy and needed.
    pub copy_begins_ms: Option<f64>,
    /// The share of a processor that it takes.
    pub utilisation: f64,
    /// Whether all its streams are admitted.
    pub admitted: bool,
    /// Why not.
    pub reason: String,
    /// The formulas with what stands in them, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// All operators.
#[derive(Serialize)]
pub struct Operators {
    /// Processors that they can have.
    pub processors: f64,
    /// Whether urgent ones interrupt others.
    pub preemptive: bool,
    /// What each level needs.
    pub levels: Vec<LevelRow>,
    /// Their results.
    pub outputs: Vec<OutputRow>,
    /// Where events are shed first, in a sentence.
    pub sheds_first: Option<String>,
}

/// Admits family after family, as a broker would, and bounds the results of operators. `explains`: with the formulas.
pub fn check(config: &Config, host: &Host, explains: bool) -> Result<Check, PlanError> {
    let costs = host.costs;
    let supply = supply(&config.admission, host.held_up(config));
    let admission = Admission::new(config.delays, config.links.clone(), costs, supply)
        .with_lazy(config.replication.lazy())
        .with_best_effort(config.admission.best_effort_subscriptions);
    let rehearsal = Rehearsal::of(config, host)?;
    let answered = config.topics.iter().zip(&rehearsal.families);
    let mut topics: Vec<Topic> =
        answered.map(|(family, answer)| answered_topic(&admission, family, answer)).collect();
    for (topic, family) in topics.iter_mut().zip(&config.topics).filter(|_| explains) {
        topic.explanation = admission.explain(family.rule.contract).map(|words| words.to_string());
    }
    let micros = |span: Span| span.0 as f64 / 1e3;
    let operators = Operators::new(config, host, rehearsal.results)?;
    let kept = operators.as_ref().is_none_or(Operators::kept);
    Ok(Check {
        admitted: topics.iter().all(|topic| topic.admitted) && kept,
        utilisation: rehearsal.utilisation,
        share: config.admission.share,
        costs_us: [micros(costs.arrival), micros(costs.dispatch), micros(costs.replication)],
        topics,
        operators,
    })
}

/// Admits the streams of a family by the formulas alone, as many as there is time for.
pub fn admit(admission: &mut Admission, family: &TopicFamily) -> Topic {
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
    Topic::new(family, contract, plan.ok(), upstream, admission.utilisation() - before, reason)
}

impl Operators {
    /// Nothing where no operator is configured.
    fn new(config: &Config, host: &Host, refused: Refused) -> Result<Option<Operators>, PlanError> {
        if config.processing.graphs.is_empty() {
            return Ok(None);
        }
        let study = Study::with(config, host, refused)?;
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
}

/// What a broker says of a family.
fn answered_topic(admission: &Admission, family: &TopicFamily, answer: &Answer) -> Topic {
    let contract = &family.rule.contract;
    let reason = reason(family, answer.admitted, answer.refusal.as_ref());
    let upstream = admission.delays().publisher_to_broker;
    Topic::new(family, contract, admission.plan(contract).ok(), upstream, answer.utilisation, reason)
}

/// Why not all streams of a family are admitted, if so.
fn reason(family: &TopicFamily, admitted: u32, refusal: Option<&impl Display>) -> String {
    match (refusal, admitted) {
        (None, _) => String::new(),
        (Some(refusal), 0) => refusal.to_string(),
        (Some(refusal), some) => format!("only {some} of {} streams fit: {refusal}", family.streams),
    }
}

impl Topic {
    fn new(
        family: &TopicFamily,
        contract: &Contract,
        plan: Option<Plan>,
        upstream: Span,
        utilisation: f64,
        reason: String,
    ) -> Topic {
        let finite = |span: Span| (!span.is_forever()).then(|| span.as_millis_f64());
        let lazy = plan.and_then(|plan| plan.lazy);
        Topic {
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
}
