//! What somebody configured: suppliers, operators and consumers by name. Nothing is checked here; [`crate::Graph`] does.

use contract::Span;

/// How urgent something is: 0 is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Level(pub u8);

/// A graph as configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    /// Its name, unique among suppliers and operators.
    pub name: String,
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

/// One step of processing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorSpec {
    /// Its name, unique among suppliers and operators.
    pub name: String,
    /// Suppliers and operators that feed it, each once.
    pub inputs: Vec<String>,
    /// When it runs.
    pub join: Join,
    /// What it does with events that are out of date or too far apart.
    pub violation: Violation,
    /// Which inputs must belong together.
    pub sets: Vec<RelativeSet>,
}

/// Somebody who gets the results of a supplier or an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerSpec {
    /// Its name: the topic on which results are published.
    pub name: String,
    /// The operator whose results it gets.
    pub from: String,
    /// How urgent that is.
    pub level: Level,
}
