//! What somebody configured: suppliers, operators and consumers by name. Nothing is checked here; [`crate::Graph`] does.

use crate::operator::Parameters;
use crate::payload::PayloadType;
use contract::Span;
use std::collections::{BTreeMap, BTreeSet};

/// How urgent something is: 0 is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Level(pub u8);

/// A graph as configured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphSpec {
    /// Where events come from.
    pub suppliers: Vec<SupplierSpec>,
    /// What is done with them.
    pub operators: Vec<OperatorSpec>,
    /// Who gets results.
    pub consumers: Vec<ConsumerSpec>,
}

/// A topic from which events come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupplierSpec {
    /// Its topic, unique among suppliers and operators. It may be a filter, each of whose `+` stands for one level.
    pub name: String,
    /// What its payloads are.
    pub payload: PayloadType,
    /// `A`: how long an event is true after its creation; forever if nothing is said.
    pub validity: Span,
    /// `T`: the shortest time between two events; longer than zero.
    pub period: Span,
}

/// When an operator runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Join {
    /// When all inputs are there; each is used once.
    #[default]
    All,
    /// On each input by itself.
    Any,
}

/// What happens to events that are out of date, or too far apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Violation {
    /// They are processed, and the result says so.
    #[default]
    Mark,
    /// They are dropped, and the step is not taken.
    Shed,
}

/// Inputs whose events must have been created within a span of each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelativeSet {
    /// `Q`: names among the operator's inputs, at least two.
    pub inputs: Vec<String>,
    /// `R`: the longest time between the oldest and the newest.
    pub within: Span,
}

/// Which events an input keeps until they are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// The newest: one that has not been used gives way to it.
    Latest,
    /// So many, in their order; the oldest gives way where more come.
    All(usize),
}

impl Keep {
    /// Most events that an input keeps.
    pub const MOST: usize = 65_536;
}

/// One step of processing.
#[derive(Clone, PartialEq, Debug)]
pub struct OperatorSpec {
    /// Its name, unique among suppliers and operators.
    pub name: String,
    /// What it does: the name of a kind.
    pub kind: String,
    /// With which parameters.
    pub parameters: Parameters,
    /// Suppliers and operators that feed it, each once.
    pub inputs: Vec<String>,
    /// When it runs.
    pub join: Join,
    /// What it does with events that are out of date or too far apart.
    pub violation: Violation,
    /// Which inputs must belong together.
    pub sets: Vec<RelativeSet>,
    /// Which events its inputs keep.
    pub keep: Keep,
    /// How long a run takes at most, for the analysis; measured if nothing is said.
    pub cost: Option<Span>,
}

/// Somebody who gets the results of a supplier or an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerSpec {
    /// Its name: the topic on which results are published. Each `+` stands for what the suppliers' have in its place.
    pub name: String,
    /// The operator whose results it gets.
    pub from: String,
    /// How urgent that is.
    pub level: Level,
    /// When a result is due, counted from the creation of the newest reading that it is made of.
    pub deadline: Span,
}

impl GraphSpec {
    /// The parts that have nothing to do with each other, each a graph of its own. What is named by nobody known stays with
    /// whoever names it, so that the error is found there.
    pub fn components(self) -> Vec<GraphSpec> {
        let mut sets: Vec<BTreeSet<String>> = Vec::new();
        let operators = self.operators.iter().map(|operator| (&operator.name, &operator.inputs));
        let operators = operators.map(|(name, inputs)| inputs.iter().chain([name]).cloned().collect());
        let consumers = self.consumers.iter().map(|consumer| BTreeSet::from([consumer.from.clone()]));
        let suppliers = self.suppliers.iter().map(|supplier| BTreeSet::from([supplier.name.clone()]));
        for mut together in operators.chain(consumers).chain(suppliers) {
            sets.retain(|set: &BTreeSet<String>| {
                let apart = set.is_disjoint(&together);
                if !apart {
                    together.extend(set.iter().cloned());
                }
                apart
            });
            sets.push(together);
        }
        let part = |set: &BTreeSet<String>| GraphSpec {
            suppliers: self
                .suppliers
                .iter()
                .filter(|supplier| set.contains(&supplier.name))
                .cloned()
                .collect(),
            operators: self
                .operators
                .iter()
                .filter(|operator| set.contains(&operator.name))
                .cloned()
                .collect(),
            consumers: self
                .consumers
                .iter()
                .filter(|consumer| set.contains(&consumer.from))
                .cloned()
                .collect(),
        };
        sets.iter()
            .map(part)
            .filter(|graph| !graph.operators.is_empty() || !graph.consumers.is_empty())
            .collect()
    }
    /// The same without sharing, for comparison: each consumer has operators of its own. The first that has one keeps its
    /// name. Operators that reach no consumer are left out.
    #[must_use]
    pub fn unshared(self) -> GraphSpec {
        let known: BTreeMap<&str, &OperatorSpec> =
            self.operators.iter().map(|operator| (operator.name.as_str(), operator)).collect();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        let mut unshared = GraphSpec { suppliers: self.suppliers.clone(), ..GraphSpec::default() };
        for consumer in &self.consumers {
            let mut needed = BTreeSet::new();
            let mut open = vec![consumer.from.as_str()];
            while let Some(name) = open.pop() {
                if let Some(operator) = known.get(name)
                    && needed.insert(operator.name.as_str())
                {
                    open.extend(operator.inputs.iter().map(String::as_str));
                }
            }
            needed.iter().for_each(|name| *uses.entry(name).or_default() += 1);
            let renamed = |name: &String| match uses.get(name.as_str()) {
                Some(times) if *times > 1 && needed.contains(name.as_str()) => format!("{name}~{times}"),
                _ => name.clone(),
            };
            for operator in needed.iter().filter_map(|name| known.get(name)) {
                let mut copy = (*operator).clone();
                copy.name = renamed(&copy.name);
                copy.inputs = copy.inputs.iter().map(renamed).collect();
                let members = copy.sets.iter_mut().flat_map(|set| &mut set.inputs);
                members.for_each(|input| *input = renamed(input));
                unshared.operators.push(copy);
            }
            unshared.consumers.push(ConsumerSpec { from: renamed(&consumer.from), ..consumer.clone() });
        }
        unshared
    }
}
