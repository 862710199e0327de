//! What operators do: `[processing]`, `[[source]]` and `[[operator]]`, made into graphs.
//!
//! Whatever an operator names that is no operator is a topic. Its period must be known, from a `[[source]]` or a `[[topic]]`:
//! the analysis and the room for events need it, and a mistyped name has none.

use super::Row;
use super::keys::{self, operator, source};
use super::layers::Table;
use super::schema;
use super::value::{KEEP_ALL, understand_parameter};
use super::{Source, TopicFamily, Understanding};
use contract::Span;
use processing::kinds::KINDS;
use processing::{
    ConsumerSpec, Factory, Graph, GraphError, GraphSpec, Join, Keep, Level, OperatorSpec, Parameters,
    PayloadType, SharedFactory, SupplierSpec,
};
use std::collections::{BTreeMap, BTreeSet};

/// Event processing.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcessingConfig {
    /// How many levels there are.
    pub levels: u8,
    /// Threads of each level; `None` for as many as the data thread leaves processors.
    pub workers: Option<usize>,
    /// Messages under way at once.
    pub events: usize,
    /// Events that may wait for one level.
    pub inbox: usize,
    /// From one copy of what an operator remembers to the next.
    pub snapshots: Span,
    /// Whether graphs share operators that are the same.
    pub sharing: bool,
    /// Whether operators have levels at all.
    pub prioritization: bool,
    /// What is processed, each graph by itself; `sharing` and `prioritization` have been seen to.
    pub graphs: Vec<GraphSpec>,
}

/// What was given, while it is made into graphs.
struct Draft {
    levels: u8,
    spec: GraphSpec,
    /// Operators by name, and sources by topic.
    tables: BTreeMap<String, Table>,
    /// Names of operators with problems of their own.
    broken: BTreeSet<String>,
}

/// Stands in for a period that is not known, so that other problems are found as well.
const ANY_PERIOD: Span = Span::secs(1);

impl Understanding {
    pub(super) fn processing(&mut self, topics: &[TopicFamily], factory: &SharedFactory) -> ProcessingConfig {
        let levels = self.get(&keys::PROCESSING_LEVELS);
        let mut draft =
            Draft { levels, spec: GraphSpec::default(), tables: BTreeMap::new(), broken: BTreeSet::new() };
        for table in self.tables(&schema::OPERATOR) {
            self.operator(&table, &mut draft);
        }
        for table in self.tables(&schema::SOURCE) {
            self.given_source(&table, topics, &mut draft);
        }
        self.implied_sources(topics, &mut draft);
        self.check_outputs(&draft);
        let sharing = self.get(&keys::PROCESSING_SHARING);
        let prioritization = self.get(&keys::PROCESSING_PRIORITIZATION);
        let graphs = self.graphs(&draft, factory);
        let compared = |mut graph: GraphSpec| {
            if !prioritization {
                graph.consumers.iter_mut().for_each(|consumer| consumer.level = Level(0));
            }
            if sharing { graph } else { graph.unshared() }
        };
        ProcessingConfig {
            levels,
            workers: self.get(&keys::PROCESSING_WORKERS),
            events: self.get(&keys::PROCESSING_EVENTS),
            inbox: self.get(&keys::PROCESSING_INBOX),
            snapshots: self.get(&keys::PROCESSING_SNAPSHOTS),
            sharing,
            prioritization,
            graphs: graphs.into_iter().map(compared).flat_map(GraphSpec::components).collect(),
        }
    }

    fn operator(&mut self, table: &Table, draft: &mut Draft) {
        let before = self.layers.problems.len();
        let row = self.row(table, &schema::OPERATOR);
        let parameters = self.parameters(table);
        let name = table
            .keys
            .get(operator::NAME.path())
            .map(|given| given.raw.to_string().trim_matches('"').to_owned());
        let Some(name) = name else { return };
        if let Some(other) = draft.tables.insert(name.clone(), table.clone()) {
            let message = format!("two operators are called `{name}`");
            self.problem(
                &table.place_of(operator::NAME.path()),
                message,
                "give each a name of its own".to_owned(),
            );
            draft.tables.insert(name, other);
            return;
        }
        let Some(row) = row.filter(|_| self.layers.problems.len() == before) else {
            draft.broken.insert(name);
            return;
        };
        let levels = draft.levels;
        let output = row.given(&operator::OUTPUT).flatten().map(|filter| filter.to_string());
        if output.is_none() {
            self.without_output(table);
        }
        let consumer = output.map(|output| consumer(&name, output, &row, levels));
        draft.spec.consumers.extend(consumer);
        self.effective.push((
            format!("operator {name}"),
            format!("{}", table.keys[operator::KIND.path()].raw),
            self.origin(&table.place),
        ));
        draft.spec.operators.push(operator_of(name, &row, parameters));
    }

    fn parameters(&mut self, table: &Table) -> Parameters {
        let mut parameters = Parameters::new();
        for (name, given) in &table.keys {
            if operator::KEYS.iter().any(|key| key.path == name) {
                continue;
            }
            match understand_parameter(&given.raw) {
                Ok(value) => {
                    parameters.insert(name.clone(), value);
                }
                Err(message) => {
                    let remedy = "what each kind takes is in docs/operators.md".to_owned();
                    self.problem(&given.source, format!("{name}: {message}"), remedy);
                }
            }
        }
        parameters
    }

    /// Keys of an output, where there is none.
    fn without_output(&mut self, table: &Table) {
        for key in [operator::LEVEL.path(), operator::DEADLINE.path()] {
            if table.keys.contains_key(key) {
                let message = format!("`{key}` belongs to an output, and this operator has none");
                self.problem(&table.place_of(key), message, "add `output`, or leave this key out".to_owned());
            }
        }
    }

    fn given_source(&mut self, table: &Table, topics: &[TopicFamily], draft: &mut Draft) {
        let Some(row) = self.row(table, &schema::SOURCE) else { return };
        let Some(filter) = row.get(&source::TOPIC) else { return };
        let topic = filter.to_string();
        if let Some(other) = draft.tables.insert(topic.clone(), table.clone()) {
            let message = format!("`{topic}` is described twice");
            self.problem(&table.place_of(source::TOPIC.path()), message, "leave one of them out".to_owned());
            draft.tables.insert(topic, other);
            return;
        }
        let feeds = draft.inputs().any(|(_, input)| input == topic);
        if !feeds {
            let remedy = match schema::nearest(&topic, draft.inputs().map(|(_, input)| input)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name it among the inputs of an operator, or leave it out".to_owned(),
            };
            self.problem(
                &table.place_of(source::TOPIC.path()),
                format!("`{topic}` feeds no operator"),
                remedy,
            );
            return;
        }
        let period = row.given(&source::PERIOD).or_else(|| period_of(topics, &topic)).unwrap_or_else(|| {
            let message = format!("nobody says what the period of `{topic}` is");
            self.problem(&table.place, message, "add `period` here, or a [[topic]] for it".to_owned());
            ANY_PERIOD
        });
        let validity = row.get(&source::VALIDITY);
        let payload = row.get(&source::TYPE);
        draft.spec.suppliers.push(SupplierSpec { name: topic, payload, validity, period });
    }

    /// Topics among inputs that no `[[source]]` describes.
    fn implied_sources(&mut self, topics: &[TopicFamily], draft: &mut Draft) {
        let unknown: Vec<(String, String)> = draft
            .inputs()
            .filter(|(_, input)| !draft.tables.contains_key(*input))
            .map(|(operator, input)| (operator.to_owned(), input.to_owned()))
            .collect();
        let mut added = BTreeSet::new();
        for (operator, topic) in unknown {
            let period = period_of(topics, &topic).unwrap_or_else(|| {
                let known = draft.tables.keys().map(String::as_str).filter(|name| **name != operator);
                let remedy = match schema::nearest(&topic, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "add a [[topic]] for it, or a [[source]] with its `period`".to_owned(),
                };
                let message = format!("`{topic}` is neither an operator nor a topic whose period is known");
                self.problem(&draft.place(&operator, operator::INPUTS.path()), message, remedy);
                ANY_PERIOD
            });
            if added.insert(topic.clone()) {
                let (payload, validity) = (PayloadType::Bytes, Span::FOREVER);
                draft.spec.suppliers.push(SupplierSpec { name: topic, payload, validity, period });
            }
        }
    }

    /// What graphs do to each other through the topics of their results.
    fn check_outputs(&mut self, draft: &Draft) {
        let mut seen = BTreeMap::new();
        for consumer in &draft.spec.consumers {
            if let Some(other) = seen.insert(&consumer.name, &consumer.from) {
                let message =
                    format!("`{other}` and `{}` both publish on `{}`", consumer.from, consumer.name);
                let place = draft.place(&consumer.from, operator::OUTPUT.path());
                self.problem(&place, message, "give each output a topic of its own".to_owned());
            }
        }
        for (operator, input) in draft.inputs() {
            if let Some(from) = seen.get(&input.to_owned()) {
                let message = format!("`{input}` is the output of the operator `{from}`");
                self.problem(
                    &draft.place(operator, operator::INPUTS.path()),
                    message,
                    format!("take `{from}` itself as input"),
                );
            }
        }
    }

    /// The graphs that can be built; what is wrong with the others becomes problems.
    fn graphs(&mut self, draft: &Draft, factory: &SharedFactory) -> Vec<GraphSpec> {
        let graphs = draft.spec.clone().components();
        for spec in &graphs {
            let mut inputs = spec.operators.iter().flat_map(|operator| &operator.inputs);
            // Its own problems are shown already, and what follows from them says nothing.
            if inputs.any(|input| draft.broken.contains(input)) {
                continue;
            }
            let factory: &dyn Factory = &**factory;
            let errors = Graph::build(spec, draft.levels, factory).err().unwrap_or_default();
            for error in errors {
                // Found over all graphs before.
                if matches!(error, GraphError::OwnResult { .. } | GraphError::Twice(_)) {
                    continue;
                }
                let (place, remedy) = draft.explain(&error);
                let mut message = error.to_string();
                if let GraphError::Setup { operator, reason } = &error {
                    message = format!("operator `{operator}`: {reason}");
                }
                self.problem(&place, message, remedy);
            }
        }
        graphs
    }
}

impl Draft {
    /// All that operators take, with the operator.
    fn inputs(&self) -> impl Iterator<Item = (&str, &str)> {
        let operators = self.spec.operators.iter();
        operators
            .flat_map(|operator| operator.inputs.iter().map(|input| (operator.name.as_str(), input.as_str())))
    }

    /// Where a key of an operator or a source is.
    fn place(&self, name: &str, key: &str) -> Source {
        self.tables.get(name).map_or(Source::Default, |table| table.place_of(key))
    }

    /// The operator that publishes on a topic.
    fn publisher(&self, topic: &str) -> &str {
        let consumers = self.spec.consumers.iter();
        consumers
            .filter(|consumer| consumer.name == topic)
            .map(|consumer| consumer.from.as_str())
            .next()
            .unwrap_or("")
    }

    /// Where the cause of an error is, and what to do about it.
    fn explain(&self, error: &GraphError) -> (Source, String) {
        let (place, remedy) = match error {
            GraphError::Period(name, _) => (self.place(name, source::PERIOD.path()), "lengthen it"),
            GraphError::Validity(name, _) => {
                (self.place(name, source::VALIDITY.path()), "lengthen it, or leave it out")
            }
            GraphError::Inputs(name, _) => {
                (self.place(name, operator::INPUTS.path()), "change the number of inputs")
            }
            GraphError::Setup { operator, reason } => return self.explain_setup(operator, reason),
            GraphError::Keep { operator, .. } => {
                (self.place(operator, operator::KEEP.path()), "change the number")
            }
            GraphError::Deadline(topic, _) => {
                (self.place(self.publisher(topic), operator::DEADLINE.path()), "lengthen it")
            }
            GraphError::UnknownInput { operator, .. } => {
                (self.place(operator, operator::INPUTS.path()), "mend this name")
            }
            GraphError::RepeatedInput { operator, .. } => {
                (self.place(operator, operator::INPUTS.path()), "name it once")
            }
            GraphError::Circle(names) => {
                let first = names.first().map_or("", String::as_str);
                (self.place(first, operator::INPUTS.path()), "break the circle")
            }
            GraphError::Level { consumer, levels, .. } => {
                let remedy = format!("choose 0 to {}, or raise processing.levels", levels - 1);
                return (self.place(self.publisher(consumer), operator::LEVEL.path()), remedy);
            }
            GraphError::UnknownMember { operator, .. } => {
                (self.place(operator, operator::TOGETHER.path()), "name inputs of this operator only")
            }
            GraphError::Set(operator) => (self.place(operator, operator::TOGETHER.path()), "mend this set"),
            GraphError::SetOfAny(operator) => {
                (self.place(operator, operator::TOGETHER.path()), "leave it out, or choose join = \"all\"")
            }
            GraphError::Pattern(error) => (self.pattern_place(&error.to_string()), "mend this topic"),
            _ => (Source::Default, "mend this graph"),
        };
        (place, remedy.to_owned())
    }

    /// A kind refused its inputs or parameters: the parameter that it names first, if that was given.
    fn explain_setup(&self, operator: &str, reason: &str) -> (Source, String) {
        let Some(table) = self.tables.get(operator) else { return (Source::Default, String::new()) };
        let named = reason.split('`').nth(1).unwrap_or("");
        let kind =
            table.keys.get(operator::KIND.path()).map(|given| given.raw.to_string()).unwrap_or_default();
        let kind = kind.trim_matches('"');
        let own = KINDS.iter().filter(|known| known.name == kind).flat_map(|known| known.parameters);
        let own: Vec<&str> = own.map(|parameter| parameter.name).collect();
        let place = if reason.contains("as input") { operator::INPUTS.path() } else { operator::KIND.path() };
        if table.keys.contains_key(named) && !operator::KEYS.iter().any(|key| key.path == named) {
            let keys = operator::KEYS.iter().map(|key| key.path).chain(own.iter().copied());
            let remedy = match schema::nearest(named, keys.filter(|key| *key != named)) {
                Some(near) if !own.contains(&named) => format!("did you mean `{near}`?"),
                _ => "change this value, or leave it out".to_owned(),
            };
            return (table.place_of(named), remedy);
        }
        let kinds = KINDS.iter().map(|known| known.name);
        let remedy = match schema::nearest(kind, kinds) {
            Some(near) if near != kind => format!("did you mean `{near}`?"),
            _ => "mend this operator".to_owned(),
        };
        (table.place_of(place), remedy)
    }

    /// The topic that a message is about: a source, an output, or an input.
    fn pattern_place(&self, message: &str) -> Source {
        let topic = message.split('`').nth(1).unwrap_or("");
        if self.tables.contains_key(topic) {
            return self.place(topic, source::TOPIC.path());
        }
        match self.publisher(topic) {
            "" => {
                let taker = self.inputs().find(|(_, input)| *input == topic);
                taker.map_or(Source::Default, |(operator, _)| self.place(operator, operator::INPUTS.path()))
            }
            operator => self.place(operator, operator::OUTPUT.path()),
        }
    }
}

/// The period of the first family whose filter covers a topic, which may hold `+`.
fn period_of(topics: &[TopicFamily], topic: &str) -> Option<Span> {
    let family = topics.iter().find(|family| family.rule.filter.matches(topic))?;
    Some(family.rule.contract.period)
}

fn operator_of(name: String, row: &Row, parameters: Parameters) -> OperatorSpec {
    let (join, inputs) = (row.get(&operator::JOIN), row.get(&operator::INPUTS));
    let usual = if inputs.len() > 1 && join == Join::All { Keep::Latest } else { KEEP_ALL };
    OperatorSpec {
        name,
        kind: row.get(&operator::KIND),
        parameters,
        inputs,
        join,
        violation: row.get(&operator::VIOLATION),
        sets: row.given(&operator::TOGETHER).unwrap_or_default(),
        keep: row.given(&operator::KEEP).flatten().unwrap_or(usual),
        cost: row.given(&operator::COST),
    }
}

fn consumer(from: &str, name: String, row: &Row, levels: u8) -> ConsumerSpec {
    ConsumerSpec {
        name,
        from: from.to_owned(),
        level: Level(row.given(&operator::LEVEL).unwrap_or(levels.saturating_sub(1))),
        deadline: row.given(&operator::DEADLINE).unwrap_or(Span::FOREVER),
    }
}

#[cfg(test)]
pub(super) mod tests;
