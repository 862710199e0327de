//! What an operator is: a small value that makes a payload of payloads.

use crate::memory::FOREIGN;
use crate::payload::PayloadType;
use contract::{Span, Time};
use std::collections::BTreeMap;

/// One input of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input<'a> {
    /// Which of the operator's inputs, in the order of its configuration.
    pub slot: usize,
    /// What it carries.
    pub payload: &'a [u8],
    /// From when on it is true: for a reading, its creation.
    pub created: Time,
}

/// What came of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The output holds a result.
    Result,
    /// There is nothing to say this time: below a threshold, not enough readings yet.
    Nothing,
}

/// Why a run gave no result. The inputs are consumed all the same.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A payload is shorter than its type.
    #[error("input {slot} has {bytes} bytes, and {needed} are needed")]
    TooShort {
        /// Which input.
        slot: usize,
        /// Its length.
        bytes: usize,
        /// What it must have.
        needed: usize,
    },
    /// A payload is not what its type says.
    #[error("input {slot} is malformed: {reason}")]
    Malformed {
        /// Which input.
        slot: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The step failed for a reason of its own.
    #[error("{0}")]
    Failed(&'static str),
    /// It used up its time and was stopped; its state is made anew.
    #[error("it did not end within its budget of {budget}")]
    Runaway {
        /// What it may take.
        budget: Span,
    },
    /// It broke off, or did what it must not, and was stopped; its state is made anew.
    #[error("{0}")]
    Stopped(&'static str),
    /// It panicked; its state is made anew.
    #[error("it panicked")]
    Panicked,
}

/// The kinds of faults, by what is to be done about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It did not end in time.
    Budget,
    /// Its code broke off.
    Trap,
    /// It had no result for what it was given.
    Refused,
}

impl Fault {
    /// Which kind it is of.
    pub fn cause(&self) -> Cause {
        match self {
            Fault::Runaway { .. } => Cause::Budget,
            Fault::Stopped(_) | Fault::Panicked => Cause::Trap,
            Fault::TooShort { .. } | Fault::Malformed { .. } | Fault::Failed(_) => Cause::Refused,
        }
    }
}

/// One step of processing. Its state is its own; one run at a time.
///
/// Results should depend on inputs and state alone: after a crash some inputs are processed again, and subscribers drop
/// what they have already had by its number.
pub trait Operator: Send {
    /// Appends a result to `output`, which is empty. Inputs come in the order of their slots: all of them for a join of all,
    /// one for a join of any.
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault>;

    /// Appends what it remembers; see [`Put`](crate::Put). Called only where [`Built::memory`] says that it can.
    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        let _ = memory;
        Ok(())
    }

    /// Goes on as the one that has saved this: its results are the same from now on, bit for bit. On an error it is as it was.
    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        if memory.is_empty() { Ok(()) } else { Err(FOREIGN) }
    }
}

/// What an operator knows of what it was given before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Nothing: a result depends on its inputs alone.
    Nothing,
    /// Something that survives a failover.
    Saved,
    /// Perhaps something, which a failover takes away.
    Lost,
}

/// Whether an operator has a result for every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// Always, unless it fails.
    Always,
    /// Now and then.
    Sometimes,
}

/// An operator that has been set up.
pub struct Built {
    /// It.
    pub operator: Box<dyn Operator>,
    /// What its results are.
    pub output: PayloadType,
    /// How often it has one.
    pub answers: Answers,
    /// What it remembers.
    pub memory: Memory,
}

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number, whole or not.
    Number(f64),
    /// `true` or `false`.
    Switch(bool),
    /// A word.
    Text(String),
    /// A time, written with its unit.
    Span(Span),
    /// A list of numbers.
    Numbers(Vec<f64>),
    /// A matrix, row by row.
    Matrix(Vec<Vec<f64>>),
    /// A list of texts.
    Texts(Vec<String>),
}

/// The parameters of an operator, by name.
pub type Parameters = BTreeMap<String, Value>;

/// What an operator is set up with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// What its inputs are.
    pub inputs: &'a [PayloadType],
    /// Its parameters; those that a kind does not know have been refused before.
    pub parameters: &'a Parameters,
}

/// Why an operator cannot be set up: the place is known to the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A parameter that must be given.
    #[error("`{name}` is missing: {doc}")]
    Missing {
        /// Its name.
        name: &'static str,
        /// What it means.
        doc: &'static str,
    },
    /// A parameter of the wrong type or out of its range.
    #[error("`{name}` {problem}: {doc}")]
    Unsuitable {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        problem: String,
        /// What it means.
        doc: &'static str,
    },
    /// A parameter that the kind does not have.
    #[error("`{name}` is no parameter of `{kind}`: it has {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The kind.
        kind: String,
        /// What it has.
        known: String,
    },
    /// No such kind.
    #[error("there is no operator of kind `{kind}`: there are {known}")]
    Kind {
        /// The kind.
        kind: String,
        /// What there is.
        known: String,
    },
    /// Too few or too many inputs.
    #[error("`{kind}` takes {wanted}, and it is given {given}")]
    Inputs {
        /// The kind.
        kind: String,
        /// How many it takes.
        wanted: String,
        /// How many there are.
        given: usize,
    },
    /// An input of the wrong type.
    #[error(
        "`{kind}` needs {wanted} as input {slot}, and that is {given}: give the source its `type`, or convert it before"
    )]
    Type {
        /// The kind.
        kind: String,
        /// Which input.
        slot: usize,
        /// What it needs.
        wanted: String,
        /// What it gets.
        given: String,
    },
    /// Something else.
    #[error("{0}")]
    Other(String),
}

/// A parameter of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParameterDoc {
    /// Its name.
    pub name: &'static str,
    /// What may be written, and its default.
    pub values: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// A kind of operator. [`crate::kinds::KINDS`] lists them; to add one, write a file and add its line there.
pub struct Kind {
    /// What users write.
    pub name: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// How many inputs it takes, from and to.
    pub inputs: (usize, usize),
    /// Its parameters.
    pub parameters: &'static [ParameterDoc],
    /// Sets one up.
    pub build: fn(&Setup<'_>) -> Result<Built, SetupError>,
}
