//! What follows from a graph's configuration: who feeds whom, how urgent each step is, and how long its results are true.
//!
//! Two scans over the order of the operators do it. From the consumers upstream: a step is as urgent as the most urgent that
//! wants its result (C4). From the suppliers downstream: a result is true for no longer than the shortest-lived of what it
//! is made of, and comes no more often than its most frequent input; both together say how many are alive at once (C6).
//!
//! Source: CPEP §2.3 and §2.4 (A1).

use crate::operator::{Answers, Built, Memory, Parameters, Setup};
use crate::order::order;
use crate::pattern::{self, PatternError};
use crate::payload::PayloadType;
use crate::spec::{GraphSpec, Join, Keep, Level, OperatorSpec, Violation};
use contract::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Why a configuration makes no graph.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Two suppliers, operators or consumers have the same name.
    #[error("`{0}` is there twice: give each supplier, operator and consumer a name of its own")]
    Twice(String),
    /// A supplier's period is zero or negative.
    #[error("the period of `{0}` is {1}: it must be longer than zero")]
    Period(String, Span),
    /// A supplier's events are never true.
    #[error("the validity of `{0}` is {1}: it must be longer than zero")]
    Validity(String, Span),
    /// A topic pattern that does not fit the others of its graph.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// An operator has no inputs, or more than an operator may have.
    #[error("the operator `{0}` has {1} inputs, and may have 1 to {INPUTS_MAX}")]
    Inputs(String, usize),
    /// An operator takes the topic that another one's results are published on.
    #[error("an operator takes `{topic}`, on which `{operator}` publishes: take `{operator}` itself")]
    OwnResult {
        /// The topic.
        topic: String,
        /// Whose results are published there.
        operator: String,
    },
    /// An operator could not be set up.
    #[error("the operator `{operator}`: {reason}")]
    Setup {
        /// The operator.
        operator: String,
        /// Why.
        reason: String,
    },
    /// An input that keeps nothing, or too much.
    #[error("the operator `{operator}` keeps {events} events of an input, and may keep 1 to {}", Keep::MOST)]
    Keep {
        /// The operator.
        operator: String,
        /// How many.
        events: usize,
    },
    /// An operator that runs on each input, two of which come from one supplier.
    #[error(
        "`{operator}` runs on each input by itself, and two of them are made of `{supplier}`: their results would have one \
         number, and one of them would be taken for the other. Give each its own operator and output"
    )]
    SharedNumber {
        /// The operator.
        operator: String,
        /// The supplier.
        supplier: String,
    },
    /// A consumer's deadline is zero or negative.
    #[error("the deadline of `{0}` is {1}: it must be longer than zero")]
    Deadline(String, Span),
    /// An operator names an input that is not there.
    #[error("the operator `{operator}` takes `{input}`, which is neither a supplier nor an operator")]
    UnknownInput {
        /// The operator.
        operator: String,
        /// What it names.
        input: String,
    },
    /// An operator names an input twice.
    #[error("the operator `{operator}` takes `{input}` twice")]
    RepeatedInput {
        /// The operator.
        operator: String,
        /// What it names.
        input: String,
    },
    /// Operators feed each other in a circle.
    #[error("operators feed each other in a circle: {}; leave one of these inputs out", circle(.0))]
    Circle(Vec<String>),
    /// A consumer names an operator that is not there.
    #[error("the consumer `{consumer}` wants the results of `{from}`, which is no operator")]
    UnknownSource {
        /// The consumer.
        consumer: String,
        /// What it names.
        from: String,
    },
    /// A consumer's level is above the number of levels.
    #[error("the consumer `{consumer}` has level {level}, and there are levels 0 to {}", .levels - 1)]
    Level {
        /// The consumer.
        consumer: String,
        /// Its level.
        level: u8,
        /// How many levels there are.
        levels: u8,
    },
    /// A relative set names what is not among its operator's inputs.
    #[error("a relative set of `{operator}` names `{input}`, which is not among its inputs")]
    UnknownMember {
        /// The operator.
        operator: String,
        /// What the set names.
        input: String,
    },
    /// A relative set has fewer than two different members, or a span below zero.
    #[error("a relative set of `{0}` needs at least two different inputs, and a span of zero or more")]
    Set(String),
    /// A relative set of an operator that runs on each input by itself.
    #[error(
        "`{0}` runs on each input by itself, so its inputs cannot belong together: leave out the relative set"
    )]
    SetOfAny(String),
}

fn circle(names: &[String]) -> String {
    let first = names.first().map_or("", String::as_str);
    names.iter().map(String::as_str).chain([first]).collect::<Vec<_>>().join(" -> ")
}

/// Where an input comes from: by its place among the suppliers or the operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A supplier.
    Supplier(usize),
    /// An operator.
    Operator(usize),
}

/// A way along which events go: to an operator, as one of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feed {
    /// The operator.
    pub operator: usize,
    /// Which of its inputs.
    pub slot: usize,
}

/// What suppliers and operators have in common: they make events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// **C4**: as urgent as the most urgent that wants its events; `None` if nobody does.
    pub level: Option<Level>,
    /// The operators that it feeds.
    pub feeds: Vec<Feed>,
    /// How long its events are true at most.
    pub validity: Span,
    /// The shortest time between two of them.
    pub period: Span,
    /// **C6**: how many of its events are true at once at most, which is how many are kept.
    pub ring: usize,
    /// When the first result that its events lead to is due, counted from their creation; forever if nobody said.
    pub deadline: Span,
    /// When the last of them is due; forever if one of them has no deadline.
    pub done: Span,
    /// What its payloads are.
    pub payload: PayloadType,
    /// Why it has no event for some messages of its supplier; `None` if it has one for each, so that a missing number is a loss.
    pub gaps: Option<Gaps>,
}

impl Source {
    /// How many of its events are under way at once at most, from one that has just come to one whose last result is due; one where nobody
    /// said when that is.
    pub fn under_way(&self) -> u64 {
        let bounded = !self.done.is_forever() && !self.period.is_forever() && self.period > Span::ZERO;
        if bounded { self.done.as_nanos_u64().div_ceil(self.period.as_nanos_u64()) + 1 } else { 1 }
    }
}

/// How many messages may be under way for what feeds this level: of `limit` permits, each of `levels` levels leaves a share to those above
/// it.
pub fn permits_for(limit: usize, levels: u8, level: u8) -> usize {
    limit - limit / (2 * usize::from(levels.max(1))) * usize::from(level)
}

/// Why results have gaps of their own, from which lost ones cannot be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gaps {
    /// The first operator on the way that leaves messages without a result.
    pub operator: String,
    /// How.
    pub cause: GapCause,
}

/// How an operator leaves messages without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapCause {
    /// It has several inputs, and its results are numbered by one of them.
    Joins,
    /// `keep = "latest"`: a newer message takes the place of one that waits.
    Replaces,
    /// `violation = "shed"`: what is out of date is dropped.
    Sheds,
    /// It does not answer each message.
    Chooses,
    /// It does not survive a failover with what it remembers, so that its results are others after one.
    Forgets,
}

/// For the middle of a sentence: `` `rms` keeps only the newest of what waits (keep = "latest") ``.
impl std::fmt::Display for Gaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let does = match self.cause {
            GapCause::Joins => "has several inputs",
            GapCause::Replaces => "keeps only the newest of what waits (keep = \"latest\")",
            GapCause::Sheds => "drops what is out of date (violation = \"shed\")",
            GapCause::Chooses => "does not answer each message",
            GapCause::Forgets => "forgets at failover what it has seen",
        };
        write!(f, "`{}` {does}", self.operator)
    }
}

/// A relative set, by the places of the operator's inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Together {
    /// Which inputs.
    pub slots: Vec<usize>,
    /// The longest time between the oldest and the newest.
    pub within: Span,
}

/// A step of processing.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// What it makes.
    pub source: Source,
    /// What it does: the name of a kind.
    pub kind: String,
    /// With which parameters.
    pub parameters: Parameters,
    /// Where its inputs come from.
    pub inputs: Vec<Origin>,
    /// When it runs.
    pub join: Join,
    /// What it does with events that are out of date or too far apart.
    pub violation: Violation,
    /// Which inputs must belong together.
    pub sets: Vec<Together>,
    /// Which events its inputs keep.
    pub keep: Keep,
    /// How long a run takes at most, if somebody said.
    pub cost: Option<Span>,
    /// Whether it has a result for every run.
    pub answers: Answers,
    /// What it remembers.
    pub memory: Memory,
    /// Who gets its results, by their place among the consumers.
    pub consumers: Vec<usize>,
}

/// Somebody who gets results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// The operator.
    pub operator: usize,
    /// How urgent.
    pub level: Level,
    /// When a result is due, counted from the creation of the newest reading that it is made of.
    pub deadline: Span,
}

/// Sets up operators by their kind.
pub trait Factory {
    /// An operator of this kind, or why not, in words.
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String>;
}

/// The kinds that come with the product.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

impl Factory for BuiltIn {
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String> {
        crate::kinds::build(kind, setup).map_err(|error| error.to_string())
    }
}

/// A graph that can be run.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// Where events come from, as configured.
    pub suppliers: Vec<Source>,
    /// The steps, as configured.
    pub operators: Vec<Step>,
    /// Who gets results, as configured.
    pub consumers: Vec<Consumer>,
    /// The operators, each after those that feed it.
    pub order: Vec<usize>,
}

/// Most inputs of an operator.
pub const INPUTS_MAX: usize = 16;

/// Most events of one source that are kept, however long they are true.
pub const RING_MAX: usize = 4_096;

impl Graph {
    /// Works out what follows from a configuration, or all that is wrong with it. `levels`: how many there are.
    pub fn build(spec: &GraphSpec, levels: u8, factory: &dyn Factory) -> Result<Graph, Vec<GraphError>> {
        let names = Names::of(spec);
        let mut errors = names.twice.clone();
        check_suppliers(spec, &mut errors);
        check_operators(spec, &mut errors);
        let inputs: Vec<Vec<Origin>> =
            spec.operators.iter().map(|operator| names.inputs(operator, &mut errors)).collect();
        let sets: Vec<Vec<Together>> =
            spec.operators.iter().map(|operator| together(operator, &mut errors)).collect();
        let consumers = names.consumers(spec, levels, &mut errors);
        let among_operators = |origins: &Vec<Origin>| {
            let operators = origins.iter().filter_map(|origin| match origin {
                Origin::Operator(index) => Some(*index),
                Origin::Supplier(_) => None,
            });
            operators.collect()
        };
        let order = order(&inputs.iter().map(among_operators).collect::<Vec<_>>()).unwrap_or_else(|circle| {
            errors.push(GraphError::Circle(
                circle.iter().map(|index| spec.operators[*index].name.clone()).collect(),
            ));
            Vec::new()
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        let suppliers = spec.suppliers.iter().map(|supplier| Source {
            ring: ring(supplier.validity, supplier.period),
            payload: supplier.payload.clone(),
            gaps: None,
            ..Source::new(&supplier.name, supplier.validity, supplier.period)
        });
        let operators = spec.operators.iter().zip(inputs).zip(sets).map(|((operator, inputs), sets)| Step {
            source: Source::new(&operator.name, Span::FOREVER, Span::FOREVER),
            inputs,
            join: operator.join,
            violation: operator.violation,
            sets,
            kind: operator.kind.clone(),
            parameters: operator.parameters.clone(),
            keep: operator.keep,
            cost: operator.cost,
            answers: Answers::Sometimes,
            memory: Memory::Lost,
            consumers: Vec::new(),
        });
        let mut graph =
            Graph { suppliers: suppliers.collect(), operators: operators.collect(), consumers, order };
        graph.join_up();
        graph.propagate_levels();
        graph.propagate_validity();
        graph.check_numbers()?;
        graph.propagate_types(factory)?;
        Ok(graph)
    }

    /// What the inputs of an operator are.
    pub fn input_types(&self, operator: usize) -> Vec<PayloadType> {
        self.operators[operator].inputs.iter().map(|origin| self.source(*origin).payload.clone()).collect()
    }

    /// Suppliers and operators whose events reach nobody, by name. They are never run.
    pub fn idle(&self) -> impl Iterator<Item = &str> {
        let operators = self.operators.iter().map(|operator| &operator.source);
        let sources = self.suppliers.iter().chain(operators);
        sources.filter(|source| source.level.is_none()).map(|source| source.name.as_str())
    }

    /// The same for graphs that do the same, on any host: what their operators are, and what feeds them.
    pub fn fingerprint(&self) -> u64 {
        let mut text = String::new();
        for step in &self.operators {
            let Step { kind, parameters, inputs, join, violation, keep, sets, .. } = step;
            let _ = write!(
                text,
                "{}|{kind}|{parameters:?}|{inputs:?}|{join:?}|{violation:?}|{keep:?}|{sets:?};",
                step.source.name
            );
        }
        for supplier in &self.suppliers {
            let _ = write!(text, "{}|{:?}|{:?};", supplier.name, supplier.payload, supplier.validity);
        }
        // Keys may be among the parameters, so nothing less than a cryptographic sum is told to others.
        let mut first = [0; 8];
        first.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..8]);
        u64::from_le_bytes(first)
    }

    /// What makes the events of an origin.
    pub fn source(&self, origin: Origin) -> &Source {
        match origin {
            Origin::Supplier(index) => &self.suppliers[index],
            Origin::Operator(index) => &self.operators[index].source,
        }
    }

    fn source_mut(&mut self, origin: Origin) -> &mut Source {
        match origin {
            Origin::Supplier(index) => &mut self.suppliers[index],
            Origin::Operator(index) => &mut self.operators[index].source,
        }
    }

    fn join_up(&mut self) {
        for index in 0..self.consumers.len() {
            let operator = self.consumers[index].operator;
            self.operators[operator].consumers.push(index);
        }
        for operator in 0..self.operators.len() {
            for slot in 0..self.operators[operator].inputs.len() {
                let origin = self.operators[operator].inputs[slot];
                self.source_mut(origin).feeds.push(Feed { operator, slot });
            }
        }
    }

    /// **C4**, from the consumers upstream, and the earliest deadline with it.
    fn propagate_levels(&mut self) {
        for index in self.order.clone().into_iter().rev() {
            let own = || self.operators[index].consumers.iter().map(|consumer| &self.consumers[*consumer]);
            let source = &self.operators[index].source;
            let level = own().map(|consumer| consumer.level).chain(self.wanted(source)).min();
            let due = || own().map(|consumer| (consumer.deadline, consumer.deadline)).chain(self.due(source));
            let (deadline, done) = (due().map(|due| due.0).min(), due().map(|due| due.1).max());
            self.operators[index].source.want(level, deadline, done);
        }
        for index in 0..self.suppliers.len() {
            let source = &self.suppliers[index];
            let (level, due) = (self.wanted(source).min(), || self.due(source));
            let (deadline, done) = (due().map(|due| due.0).min(), due().map(|due| due.1).max());
            self.suppliers[index].want(level, deadline, done);
        }
    }

    /// The first and the last deadline of each operator that a source feeds and whose results anybody wants.
    fn due<'a>(&'a self, source: &'a Source) -> impl Iterator<Item = (Span, Span)> + 'a {
        let fed = source.feeds.iter().map(|feed| &self.operators[feed.operator].source);
        fed.filter(|source| source.level.is_some()).map(|source| (source.deadline, source.done))
    }

    /// The levels of the operators that a source feeds.
    fn wanted<'a>(&'a self, source: &'a Source) -> impl Iterator<Item = Level> + 'a {
        source.feeds.iter().filter_map(|feed| self.operators[feed.operator].source.level)
    }

    /// **C6** and the bound of C2, from the suppliers downstream.
    fn propagate_validity(&mut self) {
        for index in self.order.clone() {
            let inputs = || self.operators[index].inputs.iter().map(|origin| self.source(*origin));
            let validity = inputs().map(|input| input.validity).min().unwrap_or(Span::FOREVER);
            let period = inputs().map(|input| input.period).min().unwrap_or(Span::FOREVER);
            let source = &mut self.operators[index].source;
            (source.validity, source.period, source.ring) = (validity, period, ring(validity, period));
        }
    }
}

impl Graph {
    /// A result has the number of its first input; where an operator runs on each input, those must not meet again.
    fn check_numbers(&self) -> Result<(), Vec<GraphError>> {
        let mut numbers: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.operators.len()];
        let mut errors = Vec::new();
        for index in &self.order {
            let step = &self.operators[*index];
            let of = |origin: &Origin| match origin {
                Origin::Supplier(supplier) => BTreeSet::from([*supplier]),
                Origin::Operator(operator) => numbers[*operator].clone(),
            };
            let used = if step.join == Join::All { 1 } else { step.inputs.len() };
            let mut own = BTreeSet::new();
            for supplier in step.inputs.iter().take(used).flat_map(of) {
                if !own.insert(supplier) {
                    let supplier = self.suppliers[supplier].name.clone();
                    errors.push(GraphError::SharedNumber { operator: step.source.name.clone(), supplier });
                }
            }
            numbers[*index] = own;
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// What results are, and whether they come without gaps, from the suppliers downstream.
    fn propagate_types(&mut self, factory: &dyn Factory) -> Result<(), Vec<GraphError>> {
        let mut errors = Vec::new();
        for index in self.order.clone() {
            let inputs = self.input_types(index);
            let step = &self.operators[index];
            let setup = Setup { inputs: &inputs, parameters: &step.parameters };
            let built = match factory.build(&step.kind, &setup) {
                Ok(built) => built,
                Err(reason) => {
                    errors.push(GraphError::Setup { operator: step.source.name.clone(), reason });
                    continue;
                }
            };
            let own = |cause| Some(Gaps { operator: step.source.name.clone(), cause });
            let gaps = match step.inputs.as_slice() {
                [only] if self.source(*only).gaps.is_some() => self.source(*only).gaps.clone(),
                [_] if step.keep == Keep::Latest => own(GapCause::Replaces),
                [_] if step.violation == Violation::Shed => own(GapCause::Sheds),
                [_] if built.answers != Answers::Always => own(GapCause::Chooses),
                [_] if built.memory == Memory::Lost => own(GapCause::Forgets),
                [_] => None,
                _ => own(GapCause::Joins),
            };
            let step = &mut self.operators[index];
            (step.answers, step.memory) = (built.answers, built.memory);
            (step.source.payload, step.source.gaps) = (built.output, gaps);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

impl Source {
    fn want(&mut self, level: Option<Level>, deadline: Option<Span>, done: Option<Span>) {
        self.level = level;
        (self.deadline, self.done) = (deadline.unwrap_or(Span::FOREVER), done.unwrap_or(Span::FOREVER));
    }

    fn new(name: &str, validity: Span, period: Span) -> Source {
        Source {
            name: name.to_owned(),
            level: None,
            feeds: Vec::new(),
            validity,
            period,
            ring: 1,
            deadline: Span::FOREVER,
            done: Span::FOREVER,
            payload: PayloadType::Bytes,
            gaps: None,
        }
    }
}

/// **C6**: `max(1, ceil(A / T))`, and never above [`RING_MAX`].
fn ring(validity: Span, period: Span) -> usize {
    if period.is_forever() {
        return 1;
    }
    let alive = validity.as_nanos_u64().div_ceil(period.as_nanos_u64().max(1));
    usize::try_from(alive).unwrap_or(RING_MAX).clamp(1, RING_MAX)
}

fn check_suppliers(spec: &GraphSpec, errors: &mut Vec<GraphError>) {
    for supplier in &spec.suppliers {
        if supplier.period <= Span::ZERO {
            errors.push(GraphError::Period(supplier.name.clone(), supplier.period));
        }
        if supplier.validity <= Span::ZERO {
            errors.push(GraphError::Validity(supplier.name.clone(), supplier.validity));
        }
    }
}

fn check_operators(spec: &GraphSpec, errors: &mut Vec<GraphError>) {
    errors.extend(pattern::check(spec).into_iter().map(GraphError::from));
    for operator in &spec.operators {
        let name = operator.name.clone();
        if !(1..=INPUTS_MAX).contains(&operator.inputs.len()) {
            errors.push(GraphError::Inputs(name.clone(), operator.inputs.len()));
        }
        if let Keep::All(events) = operator.keep
            && !(1..=Keep::MOST).contains(&events)
        {
            errors.push(GraphError::Keep { operator: name, events });
        }
    }
    for consumer in &spec.consumers {
        if consumer.deadline <= Span::ZERO {
            errors.push(GraphError::Deadline(consumer.name.clone(), consumer.deadline));
        }
        if spec.suppliers.iter().any(|supplier| supplier.name == consumer.name) {
            let (topic, operator) = (consumer.name.clone(), consumer.from.clone());
            errors.push(GraphError::OwnResult { topic, operator });
        }
    }
}

/// The relative sets of an operator, by the places of its inputs.
fn together(operator: &OperatorSpec, errors: &mut Vec<GraphError>) -> Vec<Together> {
    let mut sets = Vec::new();
    if operator.join == Join::Any && !operator.sets.is_empty() {
        errors.push(GraphError::SetOfAny(operator.name.clone()));
    }
    for set in &operator.sets {
        let (mut slots, known) = (Vec::new(), errors.len());
        for input in &set.inputs {
            match operator.inputs.iter().position(|known| known == input) {
                Some(slot) => slots.push(slot),
                None => {
                    let operator = operator.name.clone();
                    errors.push(GraphError::UnknownMember { operator, input: input.clone() });
                }
            }
        }
        slots.sort_unstable();
        slots.dedup();
        let too_few = slots.len() < 2 && errors.len() == known;
        if too_few || set.within < Span::ZERO {
            errors.push(GraphError::Set(operator.name.clone()));
        }
        sets.push(Together { slots, within: set.within });
    }
    sets
}

/// Who has which name.
struct Names<'a> {
    origins: BTreeMap<&'a str, Origin>,
    twice: Vec<GraphError>,
}

impl<'a> Names<'a> {
    fn of(spec: &'a GraphSpec) -> Names<'a> {
        let mut names = Names { origins: BTreeMap::new(), twice: Vec::new() };
        let suppliers = spec.suppliers.iter().enumerate();
        let suppliers = suppliers.map(|(index, supplier)| (supplier.name.as_str(), Origin::Supplier(index)));
        let operators = spec.operators.iter().enumerate();
        let operators = operators.map(|(index, operator)| (operator.name.as_str(), Origin::Operator(index)));
        for (name, origin) in suppliers.chain(operators) {
            if names.origins.insert(name, origin).is_some() {
                names.twice.push(GraphError::Twice(name.to_owned()));
            }
        }
        names
    }

    fn inputs(&self, operator: &OperatorSpec, errors: &mut Vec<GraphError>) -> Vec<Origin> {
        let mut inputs = Vec::new();
        for (slot, input) in operator.inputs.iter().enumerate() {
            let (name, input) = (operator.name.clone(), input.clone());
            if operator.inputs[..slot].contains(&input) {
                errors.push(GraphError::RepeatedInput { operator: name, input });
                continue;
            }
            match self.origins.get(input.as_str()) {
                Some(origin) => inputs.push(*origin),
                None => errors.push(GraphError::UnknownInput { operator: name, input }),
            }
        }
        inputs
    }

    fn consumers(&self, spec: &GraphSpec, levels: u8, errors: &mut Vec<GraphError>) -> Vec<Consumer> {
        let mut known = BTreeMap::new();
        let mut consumers = Vec::new();
        for consumer in &spec.consumers {
            let name = consumer.name.clone();
            if known.insert(&consumer.name, ()).is_some() {
                errors.push(GraphError::Twice(name.clone()));
            }
            if consumer.level.0 >= levels {
                errors.push(GraphError::Level { consumer: name.clone(), level: consumer.level.0, levels });
            }
            match self.origins.get(consumer.from.as_str()) {
                Some(Origin::Operator(operator)) => {
                    let (operator, level, deadline) = (*operator, consumer.level, consumer.deadline);
                    consumers.push(Consumer { name, operator, level, deadline });
                }
                _ => errors.push(GraphError::UnknownSource { consumer: name, from: consumer.from.clone() }),
            }
        }
        consumers
    }
}

#[cfg(test)]
pub(crate) mod tests;
