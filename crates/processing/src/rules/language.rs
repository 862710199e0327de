//! From what a person writes to a [`Node`].
//!
//! It is a part of CEL: its signs, precedences and texts, all numbers as floating-point numbers; with AND, OR, NOT and a single `=` besides. NOT is of
//! the whole comparison behind it, as people mean it, while `!` is of the next thing alone, as in CEL. A library for CEL reads it as well, which
//! tests hold this against; it is not used here, since what a stranger writes can make it overflow its stack. What cannot be meant, since it
//! compares a text with a number, say, is refused.

use super::condition::{Arithmetic, Literal, Node, Order, TextTest};
use super::tokens::{Sign, Token, Tokens, is_reserved};
use super::tuple::{PATHS_MAX, Part, Shape, written};

/// The longest condition.
pub const CONDITION_BYTES_MAX: usize = 4 << 10;
/// How deep it may be nested; a sum counts one for each `+`.
const DEEP_MAX: usize = 48;

/// Why a condition cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// It is empty.
    #[error("it is empty: write for instance `level > 90 AND NOT pump.on`")]
    Empty,
    /// It is too long.
    #[error("it has {0} bytes, and may have {CONDITION_BYTES_MAX}: divide it among several rules")]
    TooLong(usize),
    /// It is nested too deep.
    #[error("it is nested more than {DEEP_MAX} deep: divide it among several rules")]
    TooDeep,
    /// It asks for too many places.
    #[error("the conditions of one set ask for more than {PATHS_MAX} things of a message: make two sets")]
    TooMany,
    /// It is not written as conditions are.
    #[error("{}{why}", place(*.at))]
    Syntax {
        /// The line and the letter, both from one.
        at: (usize, usize),
        /// What is wrong.
        why: String,
    },
    /// It is the same for all messages, and so not what was meant.
    #[error("`{text}` cannot be meant: {why}")]
    Never {
        /// Which part of it.
        text: String,
        /// Why.
        why: &'static str,
    },
}

fn place(at: (usize, usize)) -> String {
    match at {
        (1, letter) => format!("at letter {letter}: "),
        (line, letter) => format!("in line {line}, at letter {letter}: "),
    }
}

/// What a part of a condition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Number,
    Switch,
    Text,
    Null,
    Anything,
}

/// A part of a condition that has been read.
struct Read {
    node: Node,
    sort: Sort,
    /// How deep it is nested.
    deep: usize,
}

type Reading = Result<Read, ConditionError>;

/// Reads a condition. What it asks for is added to the shape.
pub(super) fn read(text: &str, shape: &mut Shape) -> Result<Node, ConditionError> {
    if text.len() > CONDITION_BYTES_MAX {
        return Err(ConditionError::TooLong(text.len()));
    }
    let mut tokens = Tokens::of(text)?;
    tokens.take_word("IF");
    if tokens.next().is_none() {
        return Err(ConditionError::Empty);
    }
    let mut parser = Parser { tokens, shape, open: 0 };
    let read = parser.choice()?;
    if let Some(token) = parser.tokens.next() {
        let hint = match token {
            Token::Number(_) => "; elements of a list stand in brackets: `axes[0].load`",
            _ => "",
        };
        let why = format!("{token} stands where AND, OR or the end is expected{hint}");
        return Err(parser.tokens.error(why));
    }
    parser.switch(read).map(|read| read.node)
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    shape: &'a mut Shape,
    /// What is open now: parentheses, NOT and the like.
    open: usize,
}

impl Parser<'_> {
    fn choice(&mut self) -> Reading {
        self.open()?;
        let when = self.any()?;
        let read = if self.tokens.take_sign(Sign::Question) {
            let when = self.switch(when)?;
            let one = self.any()?;
            self.expect(Sign::Colon, "`:`, as in `a > b ? a : b`")?;
            let other = self.choice()?;
            let sort = if one.sort == other.sort { one.sort } else { Sort::Anything };
            let deep = when.deep.max(one.deep).max(other.deep);
            self.made(Node::Choice(Box::new([when.node, one.node, other.node])), sort, deep)?
        } else {
            when
        };
        self.open -= 1;
        Ok(read)
    }

    fn any(&mut self) -> Reading {
        self.row(Sign::Or, "OR", Parser::all, Node::Any)
    }

    fn all(&mut self) -> Reading {
        self.row(Sign::And, "AND", Parser::negation, Node::All)
    }

    /// Several with one sign between them.
    fn row(
        &mut self,
        sign: Sign,
        word: &str,
        part: fn(&mut Self) -> Reading,
        make: fn(Box<[Node]>) -> Node,
    ) -> Reading {
        let first = part(self)?;
        if !self.tokens.take_sign_or_word(sign, word) {
            return Ok(first);
        }
        let first = self.switch(first)?;
        let (mut deep, mut nodes) = (first.deep, vec![first.node]);
        loop {
            let next = part(self)?;
            let next = self.switch(next)?;
            deep = deep.max(next.deep);
            nodes.push(next.node);
            if !self.tokens.take_sign_or_word(sign, word) {
                return self.made(make(nodes.into()), Sort::Switch, deep);
            }
        }
    }

    fn negation(&mut self) -> Reading {
        if !self.tokens.take_word("NOT") {
            return self.relation();
        }
        self.open()?;
        let read = self.negation()?;
        self.open -= 1;
        self.negated(read)
    }

    fn negated(&self, read: Read) -> Reading {
        let Read { node, deep, .. } = self.switch(read)?;
        self.made(Node::Not(Box::new(node)), Sort::Switch, deep)
    }

    fn relation(&mut self) -> Reading {
        let mut left = self.sum()?;
        loop {
            let order = match self.tokens.next() {
                Some(Token::Sign(Sign::Less)) => Some(Order::Less),
                Some(Token::Sign(Sign::AtMost)) => Some(Order::AtMost),
                Some(Token::Sign(Sign::Greater)) => Some(Order::Greater),
                Some(Token::Sign(Sign::AtLeast)) => Some(Order::AtLeast),
                _ => None,
            };
            left = if let Some(order) = order {
                self.tokens.skip();
                let right = self.sum()?;
                self.order(order, left, right)?
            } else if self.tokens.take_sign(Sign::Equal) {
                let right = self.sum()?;
                self.same(left, right, Node::Equal)?
            } else if self.tokens.take_sign(Sign::Unequal) {
                let right = self.sum()?;
                self.same(left, right, Node::Unequal)?
            } else if self.tokens.take_word("IN") {
                let literals = self.list()?;
                self.made(Node::Among(Box::new(left.node), literals), Sort::Switch, left.deep)?
            } else {
                return Ok(left);
            };
        }
    }

    fn order(&self, order: Order, left: Read, right: Read) -> Reading {
        let deep = left.deep.max(right.deep);
        let node = match (left.node, right.node) {
            (Node::Slot(slot), Node::Literal(Literal::Number(number))) => {
                Node::SlotOrder(order, slot, number)
            }
            (Node::Literal(Literal::Number(number)), Node::Slot(slot)) => {
                Node::SlotOrder(order.turned(), slot, number)
            }
            (left, right) => Node::Order(order, Box::new([left, right])),
        };
        let why = match (left.sort, right.sort) {
            (Sort::Null, _) | (_, Sort::Null) => "null is neither more nor less than anything",
            (Sort::Switch, Sort::Number) | (Sort::Number, Sort::Switch) => {
                "it compares true or false with a number; write NOT (a > 1) for `!`, and 1 < a AND a < 3 for 1 < a < 3"
            }
            (Sort::Anything, _) | (_, Sort::Anything) => return self.made(node, Sort::Switch, deep),
            (left, right) if left == right => return self.made(node, Sort::Switch, deep),
            _ => "its sides are of different kinds",
        };
        Err(self.never(&node, why))
    }

    fn same(&self, left: Read, right: Read, make: fn(Box<[Node; 2]>) -> Node) -> Reading {
        let deep = left.deep.max(right.deep);
        let is_open = |sort| matches!(sort, Sort::Anything | Sort::Null);
        let node = make(Box::new([left.node, right.node]));
        if left.sort != right.sort && !is_open(left.sort) && !is_open(right.sort) {
            return Err(self.never(&node, "its sides are of different kinds, so that it says nothing"));
        }
        self.made(node, Sort::Switch, deep)
    }

    /// The values behind IN.
    fn list(&mut self) -> Result<Box<[Literal]>, ConditionError> {
        self.expect(Sign::Opens, "a list of values, as in `state in [\"open\", \"stuck\"]`")?;
        let mut literals = Vec::new();
        if self.tokens.take_sign(Sign::Closes) {
            return Ok(literals.into());
        }
        loop {
            let minus = self.tokens.take_sign(Sign::Minus);
            match self.literal()? {
                Some((Literal::Number(number), _)) if minus => literals.push(Literal::Number(-number)),
                Some((literal, _)) if !minus => literals.push(literal),
                _ => return Err(self.tokens.expected("a value, since nothing is worked out in a list")),
            }
            if self.tokens.take_sign(Sign::Closes) {
                return Ok(literals.into());
            }
            self.expect(Sign::Comma, "`,` or `]`")?;
        }
    }

    fn sum(&mut self) -> Reading {
        let mut left = self.product()?;
        loop {
            let arithmetic = match self.tokens.next() {
                Some(Token::Sign(Sign::Plus)) => Arithmetic::Plus,
                Some(Token::Sign(Sign::Minus)) => Arithmetic::Minus,
                _ => return Ok(left),
            };
            self.tokens.skip();
            let right = self.product()?;
            left = self.arithmetic(arithmetic, left, right)?;
        }
    }

    fn product(&mut self) -> Reading {
        let mut left = self.unary()?;
        loop {
            let arithmetic = match self.tokens.next() {
                Some(Token::Sign(Sign::Times)) => Arithmetic::Times,
                Some(Token::Sign(Sign::Over)) => Arithmetic::Over,
                _ => return Ok(left),
            };
            self.tokens.skip();
            let right = self.unary()?;
            left = self.arithmetic(arithmetic, left, right)?;
        }
    }

    fn arithmetic(&self, arithmetic: Arithmetic, left: Read, right: Read) -> Reading {
        let why = "`+`, `-`, `*` and `/` are for numbers";
        let (left, right) = (self.is_a(left, Sort::Number, why)?, self.is_a(right, Sort::Number, why)?);
        let deep = left.deep.max(right.deep);
        self.made(Node::Arithmetic(arithmetic, Box::new([left.node, right.node])), Sort::Number, deep)
    }

    fn unary(&mut self) -> Reading {
        if self.tokens.take_sign(Sign::Not) {
            self.open()?;
            let read = self.unary()?;
            self.open -= 1;
            return self.negated(read);
        }
        if self.tokens.take_sign(Sign::Minus) {
            self.open()?;
            let read = self.unary()?;
            self.open -= 1;
            let Read { node, deep, .. } = self.is_a(read, Sort::Number, "`-` stands before a number")?;
            return match node {
                Node::Literal(Literal::Number(number)) => {
                    self.made(Node::Literal(Literal::Number(-number)), Sort::Number, deep)
                }
                node => self.made(Node::Negated(Box::new(node)), Sort::Number, deep),
            };
        }
        self.member()
    }

    /// A value, a place, or a question to one.
    fn member(&mut self) -> Reading {
        if let Some((literal, sort)) = self.literal()? {
            let read = Read { node: Node::Literal(literal), sort, deep: 1 };
            return self.questions(read);
        }
        if self.tokens.take_sign(Sign::OpensRound) {
            let read = self.choice()?;
            self.expect(Sign::ClosesRound, "`)`")?;
            return self.questions(read);
        }
        if let Some(key) = self.tokens.quoted_key() {
            let path = self.path(Part::Key(key.into()))?;
            let read = self.at(&path)?;
            return self.questions(read);
        }
        let Some(Token::Word(word)) = self.tokens.next() else {
            return Err(self.tokens.expected("a value, or a key of the message such as `motor.rpm`"));
        };
        if is_reserved(word) {
            return Err(self.tokens.expected("a value, or a key of the message such as `motor.rpm`"));
        }
        let word = *word;
        self.tokens.skip();
        if self.tokens.take_sign(Sign::OpensRound) {
            if word != "has" {
                let why = format!(
                    "`{word}` is no function: there are has(a.b), and startsWith, endsWith and contains of a text"
                );
                return Err(self.tokens.error(why));
            }
            let read = self.has()?;
            self.expect(Sign::ClosesRound, "`)`")?;
            return self.questions(read);
        }
        let path = self.path(Part::Key(word.into()))?;
        let read = self.at(&path)?;
        self.questions(read)
    }

    /// The rest of a path, up to a question.
    fn path(&mut self, first: Part) -> Result<Vec<Part>, ConditionError> {
        let mut path = vec![first];
        loop {
            if self.tokens.take_sign(Sign::Opens) {
                path.push(self.element()?);
                self.expect(Sign::Closes, "`]`")?;
            } else if let Some(key) = self.tokens.key() {
                path.push(Part::Key(key.into()));
            } else {
                return Ok(path);
            }
            if path.len() > crate::PATH_PARTS_MAX {
                return Err(self.tokens.error(format!("`{}` has too many parts", written(&path))));
            }
        }
    }

    fn element(&mut self) -> Result<Part, ConditionError> {
        let part = match self.tokens.next() {
            Some(Token::Text(key)) => Part::Key(key.as_str().into()),
            // Wider than any list, it is not there.
            Some(Token::Number(index)) if index.fract() == 0.0 && *index >= 0.0 => {
                Part::Index(*index as usize)
            }
            _ => {
                return Err(self
                    .tokens
                    .expected("an element, counted from 0, or a key: `axes[0]`, `air[\"PM2.5\"]`"));
            }
        };
        self.tokens.skip();
        Ok(part)
    }

    fn at(&mut self, path: &[Part]) -> Reading {
        Ok(Read { node: Node::Slot(self.slot(path)?), sort: Sort::Anything, deep: 1 })
    }

    fn slot(&mut self, path: &[Part]) -> Result<usize, ConditionError> {
        self.shape.slot(path).ok_or(ConditionError::TooMany)
    }

    fn has(&mut self) -> Reading {
        let path = match self.tokens.next() {
            Some(Token::Word(word)) if !is_reserved(word) => {
                let word = *word;
                self.tokens.skip();
                self.path(Part::Key(word.into()))?
            }
            _ => match self.tokens.quoted_key() {
                Some(key) => self.path(Part::Key(key.into()))?,
                None => Vec::new(),
            },
        };
        let [within @ .., Part::Key(_)] = path.as_slice() else {
            return Err(self.tokens.expected("a key, as in `has(motor.rpm)`"));
        };
        let within = if within.is_empty() { None } else { Some(self.slot(within)?) };
        let slot = self.slot(&path)?;
        Ok(Read { node: Node::Has { slot, within }, sort: Sort::Switch, deep: 1 })
    }

    /// What is asked of a text.
    fn questions(&mut self, mut read: Read) -> Reading {
        while let Some(name) = self.tokens.question() {
            let test = match name {
                "startsWith" => TextTest::StartsWith,
                "endsWith" => TextTest::EndsWith,
                "contains" => TextTest::Contains,
                other => {
                    let why =
                        format!("`{other}` is no function: a text has startsWith, endsWith and contains");
                    return Err(self.tokens.error(why));
                }
            };
            let part = self.choice()?;
            self.expect(Sign::ClosesRound, "`)`")?;
            let why = "startsWith, endsWith and contains are for texts";
            let (left, right) = (self.is_a(read, Sort::Text, why)?, self.is_a(part, Sort::Text, why)?);
            let deep = left.deep.max(right.deep);
            read = self.made(Node::Text(test, Box::new([left.node, right.node])), Sort::Switch, deep)?;
        }
        if matches!(self.tokens.next(), Some(Token::Sign(Sign::Dot | Sign::Opens))) {
            let why = "`.` and `[]` are of things in the message: `motor.rpm`, `axes[0].load`";
            return Err(self.tokens.error(why.to_owned()));
        }
        Ok(read)
    }

    /// A value.
    fn literal(&mut self) -> Result<Option<(Literal, Sort)>, ConditionError> {
        let literal = match self.tokens.next() {
            Some(Token::Number(number)) => (Literal::Number(*number), Sort::Number),
            Some(Token::Text(text)) => (Literal::Text(text.as_str().into()), Sort::Text),
            Some(Token::Word("true")) => (Literal::Switch(true), Sort::Switch),
            Some(Token::Word("false")) => (Literal::Switch(false), Sort::Switch),
            Some(Token::Word("null")) => (Literal::Null, Sort::Null),
            _ => return Ok(None),
        };
        self.tokens.skip();
        Ok(Some(literal))
    }

    fn expect(&mut self, sign: Sign, what: &str) -> Result<(), ConditionError> {
        if self.tokens.take_sign(sign) { Ok(()) } else { Err(self.tokens.expected(what)) }
    }

    fn open(&mut self) -> Result<(), ConditionError> {
        self.open += 1;
        if self.open > DEEP_MAX + 1 { Err(ConditionError::TooDeep) } else { Ok(()) }
    }

    fn made(&self, node: Node, sort: Sort, deep: usize) -> Reading {
        if deep > DEEP_MAX { Err(ConditionError::TooDeep) } else { Ok(Read { node, sort, deep: deep + 1 }) }
    }

    fn switch(&self, read: Read) -> Reading {
        self.is_a(read, Sort::Switch, "it is neither true nor false: compare it with something")
    }

    fn is_a(&self, read: Read, wanted: Sort, why: &'static str) -> Reading {
        if read.sort == wanted || read.sort == Sort::Anything {
            return Ok(read);
        }
        Err(self.never(&read.node, why))
    }

    fn never(&self, node: &Node, why: &'static str) -> ConditionError {
        ConditionError::Never { text: node.text(self.shape), why }
    }
}
