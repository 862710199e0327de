//! A condition as a tree, and what it says of a tuple.

use super::tuple::{Tuple, Value};
use std::cmp::Ordering;

/// A value that stands in a condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Literal {
    Number(f64),
    Switch(bool),
    Text(Box<str>),
    Null,
}

impl Literal {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Literal::Number(number) => Value::Number(*number),
            Literal::Switch(on) => Value::Switch(*on),
            Literal::Text(text) => Value::Text(text),
            Literal::Null => Value::Null,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Order {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Order::Less => "<",
            Order::AtMost => "<=",
            Order::Greater => ">",
            Order::AtLeast => ">=",
        }
    }

    /// The same with both sides changed over.
    pub(super) fn turned(self) -> Order {
        match self {
            Order::Less => Order::Greater,
            Order::AtMost => Order::AtLeast,
            Order::Greater => Order::Less,
            Order::AtLeast => Order::AtMost,
        }
    }

    fn holds(self, found: Ordering) -> bool {
        match self {
            Order::Less => found.is_lt(),
            Order::AtMost => found.is_le(),
            Order::Greater => found.is_gt(),
            Order::AtLeast => found.is_ge(),
        }
    }

    fn holds_for(self, left: f64, right: f64) -> bool {
        match self {
            Order::Less => left < right,
            Order::AtMost => left <= right,
            Order::Greater => left > right,
            Order::AtLeast => left >= right,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
}

impl Arithmetic {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Arithmetic::Plus => "+",
            Arithmetic::Minus => "-",
            Arithmetic::Times => "*",
            Arithmetic::Over => "/",
        }
    }
}

/// What is asked of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

impl TextTest {
    pub(super) fn name(self) -> &'static str {
        match self {
            TextTest::StartsWith => "startsWith",
            TextTest::EndsWith => "endsWith",
            TextTest::Contains => "contains",
        }
    }
}

/// A part of a condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Literal(Literal),
    /// What the tuple has at this place.
    Slot(usize),
    /// Whether there is something at `slot`, which is within what is at `within`, or else in the message itself.
    Has {
        slot: usize,
        within: Option<usize>,
    },
    /// What most conditions are: a place against a number.
    SlotOrder(Order, usize, f64),
    Order(Order, Box<[Node; 2]>),
    Equal(Box<[Node; 2]>),
    Unequal(Box<[Node; 2]>),
    All(Box<[Node]>),
    Any(Box<[Node]>),
    Not(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Negated(Box<Node>),
    Choice(Box<[Node; 3]>),
    Among(Box<Node>, Box<[Literal]>),
    Text(TextTest, Box<[Node; 2]>),
}

/// Why nothing can be said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unclear {
    /// There is nothing at this place.
    Missing(usize),
    /// Values of these kinds do not go together.
    Kinds,
    /// What is compared is no number: zero over zero.
    NoNumber,
}

impl Node {
    /// Whether it holds.
    #[inline]
    pub(super) fn holds(&self, tuple: &Tuple) -> Result<bool, Unclear> {
        match self {
            // Without a detour over values.
            Node::SlotOrder(order, slot, number) => match tuple.number(*slot) {
                Some(found) => Ok(order.holds_for(found, *number)),
                None => Err(tuple.at(*slot).err().unwrap_or(Unclear::Kinds)),
            },
            Node::All(nodes) => decided(nodes, tuple, false),
            Node::Any(nodes) => decided(nodes, tuple, true),
            Node::Not(node) => Ok(!node.holds(tuple)?),
            _ => match self.value(tuple)? {
                Value::Switch(on) => Ok(on),
                _ => Err(Unclear::Kinds),
            },
        }
    }

    pub(super) fn value<'a>(&'a self, tuple: &'a Tuple) -> Result<Value<'a>, Unclear> {
        match self {
            Node::Literal(literal) => Ok(literal.value()),
            Node::Slot(slot) => tuple.at(*slot),
            Node::Has { slot, within } => match within.map(|within| tuple.at(within)).transpose()? {
                None | Some(Value::Document) => Ok(Value::Switch(tuple.at(*slot).is_ok())),
                Some(_) => Err(Unclear::Kinds),
            },
            Node::SlotOrder(..) | Node::All(_) | Node::Any(_) | Node::Not(_) => {
                self.holds(tuple).map(Value::Switch)
            }
            Node::Order(order, sides) => {
                let found = compare(sides[0].value(tuple)?, sides[1].value(tuple)?)?;
                Ok(Value::Switch(order.holds(found)))
            }
            Node::Equal(sides) => equal(sides, tuple).map(Value::Switch),
            Node::Unequal(sides) => equal(sides, tuple).map(|same| Value::Switch(!same)),
            Node::Arithmetic(arithmetic, sides) => {
                let (Value::Number(left), Value::Number(right)) =
                    (sides[0].value(tuple)?, sides[1].value(tuple)?)
                else {
                    return Err(Unclear::Kinds);
                };
                Ok(Value::Number(match arithmetic {
                    Arithmetic::Plus => left + right,
                    Arithmetic::Minus => left - right,
                    Arithmetic::Times => left * right,
                    Arithmetic::Over => left / right,
                }))
            }
            Node::Negated(node) => match node.value(tuple)? {
                Value::Number(found) => Ok(Value::Number(-found)),
                _ => Err(Unclear::Kinds),
            },
            Node::Choice(parts) => {
                if parts[0].holds(tuple)? {
                    parts[1].value(tuple)
                } else {
                    parts[2].value(tuple)
                }
            }
            Node::Among(node, literals) => {
                let found = node.value(tuple)?;
                if matches!(found, Value::Document | Value::List) {
                    return Err(Unclear::Kinds);
                }
                Ok(Value::Switch(literals.iter().any(|literal| literal.value() == found)))
            }
            Node::Text(test, sides) => {
                let (Value::Text(text), Value::Text(part)) = (sides[0].value(tuple)?, sides[1].value(tuple)?)
                else {
                    return Err(Unclear::Kinds);
                };
                Ok(Value::Switch(match test {
                    TextTest::StartsWith => text.starts_with(part),
                    TextTest::EndsWith => text.ends_with(part),
                    TextTest::Contains => text.contains(part),
                }))
            }
        }
    }
}

/// One of the nodes that is `decides` decides for all, whether or not the others are clear.
fn decided(nodes: &[Node], tuple: &Tuple, decides: bool) -> Result<bool, Unclear> {
    let mut unclear = None;
    for node in nodes {
        match node.holds(tuple) {
            Ok(holds) if holds == decides => return Ok(decides),
            Ok(_) => {}
            Err(why) => unclear = unclear.or(Some(why)),
        }
    }
    unclear.map_or(Ok(!decides), Err)
}

fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Unclear> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(&right).ok_or(Unclear::NoNumber),
        (Value::Text(left), Value::Text(right)) => Ok(left.cmp(right)),
        (Value::Switch(left), Value::Switch(right)) => Ok(left.cmp(&right)),
        _ => Err(Unclear::Kinds),
    }
}

/// Values of different kinds are different. Documents and lists are not compared.
fn equal(sides: &[Node; 2], tuple: &Tuple) -> Result<bool, Unclear> {
    let (left, right) = (sides[0].value(tuple)?, sides[1].value(tuple)?);
    match (left, right) {
        (Value::Document | Value::List, Value::Null) | (Value::Null, Value::Document | Value::List) => {
            Ok(false)
        }
        (Value::Document | Value::List, _) | (_, Value::Document | Value::List) => Err(Unclear::Kinds),
        _ => Ok(left == right),
    }
}
