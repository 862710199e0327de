//! What the analysis makes of the configured operators, on a host.

use crate::PlanError;
use crate::host::{Cost, Host, Measure};
use crate::rehearsal::{Refused, Rehearsal};
use config::Config;
use contract::{Span, TopicFilter};
use processing::{
    Analysis, Costed, Factory, Graph, GraphSpec, Memory, NoBound, Origin, Processors, Response, Source,
    Violation, analyse,
};
use serde::Serialize;

/// What is said of an operator that has no means to save what it has seen.
const FORGETS: &str = "forgets at failover what it has seen: let its module export `verge_save` and `verge_restore`, or say remembers = \
    \"nothing\" if its results depend on their inputs alone";

/// The configured graphs with what is known of them.
pub struct Study {
    /// The graphs.
    pub graphs: Vec<Studied>,
    /// What they run on.
    pub processors: Processors,
    analysis: Analysis,
    /// Topics of results that a broker would not carry, and why.
    refused: Refused,
    under_way: UnderWay,
}

/// Messages that are under way in operators at once, of all graphs together.
#[derive(Clone, Copy, Serialize)]
pub struct UnderWay {
    /// How many there are if suppliers and operators keep to what is said of them.
    pub needed: u64,
    /// How many may be, for the least urgent of them.
    pub permitted: u64,
    /// `processing.events`.
    pub events: u64,
}

/// One graph.
pub struct Studied {
    /// It.
    pub graph: Graph,
    /// How many instances of it are expected.
    pub instances: u32,
    /// By operator.
    pub costs: Vec<Cost>,
}

/// A level, for people and programs.
#[derive(Clone, Serialize)]
pub struct LevelRow {
    /// Which; 0 is the most urgent.
    pub level: usize,
    /// Operators of it.
    pub operators: u64,
    /// The processors that they take.
    pub utilisation: f64,
    /// The same with all more urgent levels.
    pub cumulated: f64,
}

/// A topic that feeds operators.
#[derive(Clone, Serialize)]
pub struct SourceRow {
    /// Its name, or its filter.
    pub topic: String,
    /// What its payloads are.
    #[serde(rename = "type")]
    pub payload: String,
    /// The most urgent level that it feeds.
    pub level: Option<u8>,
    /// The shortest time between two messages; nothing where there is none.
    pub period_ms: Option<f64>,
    /// For how long a message is true; nothing where it is for ever.
    pub validity_ms: Option<f64>,
    /// How many messages are kept.
    pub ring: usize,
}

/// An operator.
#[derive(Clone, Serialize)]
pub struct OperatorRow {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: String,
    /// Nothing where it never runs.
    pub level: Option<u8>,
    /// Where its inputs come from.
    pub inputs: Vec<String>,
    /// What its results are.
    #[serde(rename = "type")]
    pub payload: String,
    /// The shortest time between two results; nothing where there is none.
    pub period_ms: Option<f64>,
    /// For how long a result is true; nothing where it is for ever.
    pub validity_ms: Option<f64>,
    /// How many results are kept.
    pub ring: usize,
    /// The longest run.
    pub cost_us: f64,
    /// The median run; nothing where the cost is configured.
    pub cost_median_us: Option<f64>,
    /// Whether the cost was measured.
    pub cost_measured: bool,
    /// From the newest of its inputs to its result, at worst; nothing where there is no bound.
    pub bound_ms: Option<f64>,
    /// Whether it drops inputs before it can use them.
    pub sheds: bool,
    /// What else is to be said.
    pub note: String,
}

/// An output.
#[derive(Clone, Serialize)]
pub struct OutputRow {
    /// Where it is published.
    pub topic: String,
    /// Whose results.
    pub operator: String,
    /// The level of that operator.
    pub level: u8,
    /// Nothing where there is none.
    pub deadline_ms: Option<f64>,
    /// When a result is there at worst; nothing where there is no bound.
    pub bound_ms: Option<f64>,
    /// Whether the deadline is kept.
    pub kept: bool,
    /// Why not.
    pub reason: String,
}

/// One graph.
#[derive(Clone, Serialize)]
pub struct GraphRow {
    /// How many there are expected to be.
    pub instances: u32,
    /// What feeds it.
    pub sources: Vec<SourceRow>,
    /// Its operators.
    pub operators: Vec<OperatorRow>,
    /// Its results.
    pub outputs: Vec<OutputRow>,
}

impl Study {
    /// Builds the graphs, measures what nobody said, analyses them, and asks a broker which results it would not carry.
    pub fn of(config: &Config, host: &Host) -> Result<Study, PlanError> {
        let makes = !config.processing.graphs.is_empty();
        let refused = if makes { Rehearsal::of(config, host)?.results } else { Refused::new() };
        Study::with(config, host, refused)
    }

    /// The same where a broker has been asked already which results it would not carry.
    pub fn with(config: &Config, host: &Host, refused: Refused) -> Result<Study, PlanError> {
        let study = Study::on(config, &*config.kinds, host.for_operators(config), host.measure)?;
        Ok(Study { refused, ..study })
    }

    /// The same on given processors, where no broker refuses anything.
    pub fn on(
        config: &Config,
        factory: &dyn Factory,
        processors: Processors,
        measure: Measure,
    ) -> Result<Study, PlanError> {
        let levels = config.processing.levels;
        let build = |spec: &GraphSpec| {
            let graph = Graph::build(spec, levels, factory)
                .map_err(|errors| PlanError(errors.first().map_or_else(String::new, ToString::to_string)))?;
            let costs = measure(&graph, factory, &sizes(config, &graph));
            Ok(Studied { instances: instances(config, spec), costs, graph })
        };
        let graphs: Vec<Studied> =
            config.processing.graphs.iter().map(build).collect::<Result<_, PlanError>>()?;
        let costed: Vec<Costed<'_>> = graphs
            .iter()
            .map(|studied| Costed {
                graph: &studied.graph,
                instances: studied.instances,
                costs: studied.costs.iter().map(|cost| cost.worst).collect(),
            })
            .collect();
        let analysis = analyse(&costed, levels, &processors);
        let under_way = under_way(&graphs, config.processing.events, levels);
        Ok(Study { graphs, processors, analysis, refused: Refused::new(), under_way })
    }

    /// By level.
    pub fn levels(&self) -> Vec<LevelRow> {
        let row = |(level, load): (usize, &processing::LevelLoad)| LevelRow {
            level,
            operators: load.operators,
            utilisation: load.utilisation,
            cumulated: load.cumulated,
        };
        self.analysis.levels.iter().enumerate().map(row).collect()
    }

    /// The processors that operators can have.
    pub fn capacity(&self) -> f64 {
        self.analysis.capacity
    }

    /// By graph.
    pub fn rows(&self) -> Vec<GraphRow> {
        let row = |(number, studied): (usize, &Studied)| GraphRow {
            instances: studied.instances,
            sources: studied.graph.suppliers.iter().map(source).collect(),
            operators: (0..studied.graph.operators.len()).map(|o| self.operator(number, o)).collect(),
            outputs: (0..studied.graph.consumers.len()).map(|o| self.output(number, o)).collect(),
        };
        self.graphs.iter().enumerate().map(row).collect()
    }

    fn response(&self, graph: usize, operator: usize) -> Option<Response> {
        self.analysis.operators[graph][operator]
    }

    fn operator(&self, number: usize, operator: usize) -> OperatorRow {
        let Studied { graph, costs, .. } = &self.graphs[number];
        let (step, cost) = (&graph.operators[operator], &costs[operator]);
        let response = self.response(number, operator);
        let micros = |span: Span| span.0 as f64 / 1e3;
        let note = match (&response, &cost.fault) {
            (None, _) => "reaches no output: it never runs".to_owned(),
            (_, Some(fault)) => format!("not measured ({fault}): give it a `cost`"),
            _ if step.memory == Memory::Lost => FORGETS.to_owned(),
            _ => String::new(),
        };
        OperatorRow {
            name: step.source.name.clone(),
            kind: step.kind.clone(),
            level: step.source.level.map(|level| level.0),
            inputs: step.inputs.iter().map(|input| graph.source(*input).name.clone()).collect(),
            payload: step.source.payload.to_string(),
            period_ms: finite(step.source.period),
            validity_ms: finite(step.source.validity),
            ring: step.source.ring,
            cost_us: micros(cost.worst),
            cost_median_us: cost.median.map(micros),
            cost_measured: step.cost.is_none(),
            bound_ms: response.and_then(|response| response.bound.ok()).and_then(finite),
            sheds: response.is_some_and(|response| response.sheds),
            note,
        }
    }

    fn output(&self, number: usize, output: usize) -> OutputRow {
        let studied = &self.graphs[number];
        let consumer = &studied.graph.consumers[output];
        let bound = self.response(number, consumer.operator).map(|response| response.bound);
        let reason = self.refusal(studied, consumer, bound);
        let reason = reason.or_else(|| self.refused(&consumer.name)).or_else(|| self.short_of_events());
        OutputRow {
            topic: consumer.name.clone(),
            operator: studied.graph.operators[consumer.operator].source.name.clone(),
            level: consumer.level.0,
            deadline_ms: finite(consumer.deadline),
            bound_ms: bound.and_then(Result::ok).and_then(finite),
            kept: reason.is_none(),
            reason: reason.unwrap_or_default(),
        }
    }

    /// Messages that are under way in operators at once.
    pub fn under_way(&self) -> UnderWay {
        self.under_way
    }

    /// Why messages would be lost on their way to operators.
    fn short_of_events(&self) -> Option<String> {
        let UnderWay { needed, permitted, events } = self.under_way;
        (needed > permitted).then(|| {
            // What is permitted is a fixed share of all.
            let enough = (needed * events).div_ceil(permitted.max(1)) + 1;
            format!(
                "{needed} messages are under way in operators at once, and processing.events = {events} leaves {permitted} for the least \
                 urgent: processing.events = {enough} would do, or shorter deadlines"
            )
        })
    }

    /// Why a broker would not carry an output.
    fn refused(&self, output: &str) -> Option<String> {
        let pattern: TopicFilter = output.parse().ok()?;
        let (topic, reason) = self.refused.iter().find(|(topic, _)| pattern.matches(topic))?;
        Some(format!("brokers refuse the results on `{topic}`: {reason}"))
    }

    /// Why an output cannot be promised, with the numbers and what would do.
    fn refusal(
        &self,
        studied: &Studied,
        consumer: &processing::Consumer,
        bound: Option<Result<Span, NoBound>>,
    ) -> Option<String> {
        let unmeasured = self.path(&studied.graph, consumer.operator);
        let unmeasured = unmeasured.into_iter().find(|operator| studied.costs[*operator].fault.is_some());
        if let Some(operator) = unmeasured {
            let name = &studied.graph.operators[operator].source.name;
            return Some(format!("what `{name}` takes could not be measured: give it a `cost`"));
        }
        match bound? {
            Err(reason @ NoBound::OneOperator(_)) => {
                Some(format!("{reason}: lengthen the periods of its sources, or make it cheaper"))
            }
            Err(reason) => Some(format!(
                "{reason}: lengthen periods, take fewer `streams`, or give operators more processors"
            )),
            Ok(bound) => {
                // Messages are held while what operators remember is copied.
                let saves = studied.costs.iter().fold(Span::ZERO, |all, cost| all + cost.save);
                let (way, deadline) = (self.processors.jitter + saves, consumer.deadline);
                let over = bound + way - deadline;
                (!deadline.is_forever() && over > Span::ZERO).then(|| {
                    format!(
                        "the result takes {bound} at worst, and {way} to and from operators, which is {over} longer than its \
                         deadline of {deadline}: a deadline of {} would do, or a more urgent level, or cheaper operators",
                        bound + way
                    )
                })
            }
        }
    }

    /// What must run for an operator's result, itself included.
    fn path(&self, graph: &Graph, operator: usize) -> Vec<usize> {
        let mut found = vec![operator];
        let mut next = 0;
        while let Some(operator) = found.get(next).copied() {
            next += 1;
            for origin in &graph.operators[operator].inputs {
                if let Origin::Operator(before) = origin
                    && !found.contains(before)
                {
                    found.push(*before);
                }
            }
        }
        found
    }

    /// Where events are shed first, in a sentence; nothing where none are.
    pub fn shedding(&self) -> Option<String> {
        let mut found: Vec<(u8, String)> = Vec::new();
        for (number, studied) in self.graphs.iter().enumerate() {
            for (operator, step) in studied.graph.operators.iter().enumerate() {
                let Some(response) = self.response(number, operator) else { continue };
                let name = &step.source.name;
                if response.sheds {
                    let validity = step.source.validity;
                    let takes = response.bound.map_or("without bound".to_owned(), |bound| bound.to_string());
                    let sentence = format!(
                        "`{name}` (level {}): true for {validity}, and takes {takes}",
                        response.level
                    );
                    found.push((response.level, sentence));
                } else if response.bound.is_err() && step.violation == Violation::Mark {
                    let sentence = format!("`{name}` (level {}): its inputs fill up", response.level);
                    found.push((response.level, sentence));
                }
            }
        }
        found.into_iter().min_by_key(|(level, _)| *level).map(|(_, sentence)| sentence)
    }
}

/// Messages that are under way at once: each topic of each instance of a graph has its own.
fn under_way(graphs: &[Studied], events: usize, levels: u8) -> UnderWay {
    let fed = |studied: &Studied| -> u64 {
        let wanted = studied.graph.suppliers.iter().filter(|supplier| supplier.level.is_some());
        wanted.map(Source::under_way).sum::<u64>() * u64::from(studied.instances)
    };
    let suppliers = graphs.iter().flat_map(|studied| &studied.graph.suppliers);
    let lowest = suppliers.filter_map(|supplier| supplier.level).map(|level| level.0).max().unwrap_or(0);
    let permitted = processing::permits_for(events, levels, lowest) as u64;
    UnderWay { needed: graphs.iter().map(fed).sum(), permitted, events: events as u64 }
}

fn source(source: &Source) -> SourceRow {
    SourceRow {
        topic: source.name.clone(),
        payload: source.payload.to_string(),
        level: source.level.map(|level| level.0),
        period_ms: finite(source.period),
        validity_ms: finite(source.validity),
        ring: source.ring,
    }
}

fn finite(span: Span) -> Option<f64> {
    (!span.is_forever()).then(|| span.as_millis_f64())
}

/// By supplier of a graph: how many bytes its payloads have at most, where its topic says so.
fn sizes(config: &Config, graph: &Graph) -> Vec<usize> {
    let size = |supplier: &Source| {
        let family = config.topics.iter().find(|family| family.rule.filter.matches(&supplier.name));
        family.map_or(0, |family| family.rule.contract.size as usize)
    };
    graph.suppliers.iter().map(size).collect()
}

/// How many topics are expected to match: the most streams of a topic with `+` that feeds the graph.
fn instances(config: &Config, spec: &GraphSpec) -> u32 {
    let patterns =
        spec.suppliers.iter().filter(|supplier| supplier.name.split('/').any(|level| level == "+"));
    let streams = patterns.filter_map(|supplier| {
        let family = config.topics.iter().find(|family| family.rule.filter.matches(&supplier.name))?;
        Some(family.streams)
    });
    streams.max().unwrap_or(1)
}

#[cfg(test)]
mod tests;
