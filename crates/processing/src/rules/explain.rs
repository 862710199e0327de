//! Why a condition holds or does not, in words and values.

use super::condition::{Literal, Node, Unclear};
use super::tokens::with_quotes;
use super::tuple::{Shape, Tuple, Value};
use std::fmt;

/// What a condition comes to for one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Whether it holds; why that cannot be said, else.
    pub holds: Result<bool, String>,
    /// Its parts, between AND and OR.
    pub findings: Vec<Finding>,
}

/// What a part of a condition comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The part, as it is understood.
    pub text: String,
    /// Whether it holds; why that cannot be said, else.
    pub holds: Result<bool, String>,
    /// What it asks for, and what the message has there; `None` is nothing.
    pub values: Vec<(String, Option<String>)>,
}

impl Explanation {
    pub(super) fn of(node: &Node, tuple: &Tuple) -> Explanation {
        let mut findings = Vec::new();
        gather(node, tuple, &mut findings);
        Explanation { holds: node.holds(tuple).map_err(|why| words(why, tuple)), findings }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match &self.holds {
            Ok(true) => "holds",
            Ok(false) => "does not hold",
            Err(why) => why,
        };
        write!(f, "{}: {verdict}", self.text)?;
        let known = self.values.iter().filter_map(|(path, value)| Some((path, value.as_ref()?)));
        for (index, (path, value)) in known.enumerate() {
            f.write_str(if index == 0 { " (" } else { ", " })?;
            write!(f, "{path} is {value}")?;
        }
        if self.values.iter().any(|(_, value)| value.is_some()) { f.write_str(")") } else { Ok(()) }
    }
}

/// Parts of one condition that are told; those behind them are not.
const FINDINGS_MAX: usize = 64;

/// The parts between AND and OR, and what NOT is of.
fn gather(node: &Node, tuple: &Tuple, findings: &mut Vec<Finding>) {
    match node {
        Node::All(nodes) | Node::Any(nodes) => {
            nodes.iter().for_each(|node| gather(node, tuple, findings));
        }
        _ if findings.len() >= FINDINGS_MAX => {}
        _ => {
            let mut values = Vec::new();
            places(node, tuple, &mut values);
            findings.push(Finding {
                text: node.text(&tuple.shape),
                holds: node.holds(tuple).map_err(|why| match (node, why) {
                    (Node::Slot(_), Unclear::Kinds) => {
                        "it is neither true nor false: compare it with something".to_owned()
                    }
                    _ => words(why, tuple),
                }),
                values,
            });
        }
    }
}

fn words(why: Unclear, tuple: &Tuple) -> String {
    match why {
        Unclear::Missing(slot) => format!("{} is not there", tuple.path(slot)),
        Unclear::Kinds => "values of these kinds do not go together".to_owned(),
        Unclear::NoNumber => "what is compared is no number".to_owned(),
    }
}

/// What a part asks for.
fn places(node: &Node, tuple: &Tuple, values: &mut Vec<(String, Option<String>)>) {
    let mut place = |slot: usize| {
        let path = tuple.path(slot);
        if values.iter().all(|(known, _)| *known != path) {
            values.push((path, tuple.at(slot).ok().map(shown)));
        }
    };
    match node {
        Node::Literal(_) => {}
        Node::Slot(slot) | Node::SlotOrder(_, slot, _) => place(*slot),
        Node::Has { slot, within } => within.iter().chain([slot]).for_each(|slot| place(*slot)),
        Node::Order(_, sides) | Node::Arithmetic(_, sides) | Node::Text(_, sides) => {
            sides.iter().for_each(|side| places(side, tuple, values));
        }
        Node::Equal(sides) | Node::Unequal(sides) => {
            sides.iter().for_each(|side| places(side, tuple, values));
        }
        Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| places(node, tuple, values)),
        Node::Choice(parts) => parts.iter().for_each(|part| places(part, tuple, values)),
        Node::Not(node) | Node::Negated(node) | Node::Among(node, _) => places(node, tuple, values),
    }
}

fn shown(value: Value<'_>) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Switch(on) => on.to_string(),
        Value::Text(text) => quoted(text),
        Value::Null => "null".to_owned(),
        Value::Document => "a document".to_owned(),
        Value::List => "a list".to_owned(),
    }
}

/// The most letters of a text that are shown.
const SHOWN_MAX: usize = 80;

fn quoted(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_MAX).collect();
    let shown = with_quotes(&short);
    if short.len() < text.len() { shown + "..." } else { shown }
}

impl Node {
    /// It, as a person would write it. Read again, it is the same.
    pub(super) fn text(&self, shape: &Shape) -> String {
        let of = |node: &Node| node.within(shape);
        match self {
            Node::Literal(literal) => literal_text(literal),
            Node::Slot(slot) => shape.path(*slot),
            Node::Has { slot, .. } => format!("has({})", shape.path(*slot)),
            Node::SlotOrder(order, slot, number) => {
                format!("{} {} {}", shape.path(*slot), order.sign(), number_text(*number))
            }
            Node::Order(order, sides) => format!("{} {} {}", of(&sides[0]), order.sign(), of(&sides[1])),
            Node::Equal(sides) => format!("{} == {}", of(&sides[0]), of(&sides[1])),
            Node::Unequal(sides) => format!("{} != {}", of(&sides[0]), of(&sides[1])),
            Node::All(nodes) => nodes.iter().map(of).collect::<Vec<_>>().join(" AND "),
            Node::Any(nodes) => nodes.iter().map(of).collect::<Vec<_>>().join(" OR "),
            Node::Not(node) => format!("NOT {}", of(node)),
            Node::Arithmetic(arithmetic, sides) => {
                format!("{} {} {}", of(&sides[0]), arithmetic.sign(), of(&sides[1]))
            }
            Node::Negated(node) => format!("-{}", of(node)),
            Node::Choice(parts) => format!("{} ? {} : {}", of(&parts[0]), of(&parts[1]), of(&parts[2])),
            Node::Among(node, literals) => {
                let literals: Vec<String> = literals.iter().map(literal_text).collect();
                format!("{} in [{}]", of(node), literals.join(", "))
            }
            Node::Text(test, sides) => {
                format!("{}.{}({})", of(&sides[0]), test.name(), sides[1].text(shape))
            }
        }
    }

    /// It, as a part of something else.
    fn within(&self, shape: &Shape) -> String {
        match self {
            Node::Literal(Literal::Number(number)) if *number < 0.0 => format!("({})", self.text(shape)),
            Node::Literal(_) | Node::Slot(_) | Node::Has { .. } | Node::Text(..) => self.text(shape),
            _ => format!("({})", self.text(shape)),
        }
    }
}

fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Number(number) => number_text(*number),
        Literal::Switch(on) => on.to_string(),
        Literal::Text(text) => with_quotes(text),
        Literal::Null => "null".to_owned(),
    }
}

fn number_text(number: f64) -> String {
    // As CEL writes it where it is large.
    if number.abs() >= 1e15 { format!("{number:e}") } else { number.to_string() }
}
