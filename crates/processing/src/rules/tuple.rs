//! What a payload says, as far as conditions ask for it: values by number.

use super::condition::Unclear;
use super::tokens::{is_reserved, is_word, with_quotes};
use crate::numbers;
use crate::operator::{Fault, Input};
use crate::payload::PayloadType;
use contract::Time;
use std::fmt::Write;

mod cbor;
mod json;

/// The most places in a document that the rules of one set ask for.
pub const PATHS_MAX: usize = 256;
/// The most bytes of text that one tuple keeps of a payload, over all that is asked for.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// A step into a document.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    Key(Box<str>),
    Index(usize),
}

/// A path as it is written in a condition.
pub(super) fn written(path: &[Part]) -> String {
    let mut text = String::new();
    for part in path {
        // Writing to a text does not fail.
        _ = match part {
            Part::Key(key) if !is_word(key) || (text.is_empty() && is_reserved(key)) => {
                write!(text, "[{}]", with_quotes(key))
            }
            Part::Key(key) if text.is_empty() => write!(text, "{key}"),
            Part::Key(key) => write!(text, ".{key}"),
            Part::Index(index) => write!(text, "[{index}]"),
        };
    }
    text
}

/// A value, as conditions see it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Value<'a> {
    Number(f64),
    Switch(bool),
    Text(&'a str),
    Null,
    Document,
    List,
}

/// A value, as a tuple keeps it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kept {
    Missing,
    Number(f64),
    Switch(bool),
    Text(usize, usize),
    Null,
    Document,
    List,
}

/// A node of [`Shape`].
#[derive(Clone, Default, Debug)]
struct Step {
    slot: Option<usize>,
    below: Vec<(Part, usize)>,
}

/// Which places of a document are asked for.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// The first one is the document.
    steps: Vec<Step>,
    /// The path of each slot.
    paths: Vec<Box<[Part]>>,
}

impl Shape {
    pub(super) fn new() -> Shape {
        Shape { steps: vec![Step::default()], paths: Vec::new() }
    }

    /// The number of a place; `None`: there are too many.
    pub(super) fn slot(&mut self, path: &[Part]) -> Option<usize> {
        let mut at = 0;
        for part in path {
            let known = self.steps[at].below.iter().find(|(known, _)| known == part);
            at = match known {
                Some((_, below)) => *below,
                None => {
                    self.steps.push(Step::default());
                    let new = self.steps.len() - 1;
                    self.steps[at].below.push((part.clone(), new));
                    new
                }
            };
        }
        if let Some(slot) = self.steps[at].slot {
            return Some(slot);
        }
        if self.paths.len() >= PATHS_MAX {
            return None;
        }
        self.paths.push(path.into());
        self.steps[at].slot = Some(self.paths.len() - 1);
        self.steps[at].slot
    }

    pub(super) fn path(&self, slot: usize) -> String {
        self.paths.get(slot).map(|path| written(path)).unwrap_or_default()
    }

    /// A path that begins with another key than these.
    pub(super) fn first_outside(&self, keys: &[&str]) -> Option<String> {
        let is_inside =
            |path: &[Part]| matches!(path.first(), Some(Part::Key(key)) if keys.contains(&&**key));
        self.paths.iter().find(|path| !is_inside(path)).map(|path| written(path))
    }

    /// The step below, by key.
    fn key(&self, at: usize, key: &str) -> Option<usize> {
        let is_it = |part: &Part| matches!(part, Part::Key(known) if **known == *key);
        self.steps[at].below.iter().find(|(part, _)| is_it(part)).map(|(_, below)| *below)
    }

    /// The steps that what is at a place is kept at.
    fn steps_of(&self, place: Place) -> impl Iterator<Item = usize> + use<> {
        let steps = match place {
            Place::Root => [self.key(0, "value"), None],
            Place::At(step) => [Some(step), None],
            Place::Element(index) => [
                self.key(0, "values").and_then(|values| self.index(values, index)),
                self.key(0, "value").filter(|_| index == 0),
            ],
        };
        steps.into_iter().flatten()
    }

    /// Where an element of a list at a place is, if it is asked for.
    fn element_of(&self, list: Place, index: usize) -> Option<Place> {
        match list {
            Place::Root => self.steps_of(Place::Element(index)).next().map(|_| Place::Element(index)),
            _ => self.steps_of(list).find_map(|step| self.index(step, index)).map(Place::At),
        }
    }

    /// The step below, by a key that is a whole number: `["7"]`, or `[7]`.
    fn number(&self, at: usize, number: i128) -> Option<usize> {
        let is_it = |part: &Part| match part {
            Part::Key(key) => key.parse() == Ok(number),
            Part::Index(index) => i128::try_from(*index) == Ok(number),
        };
        self.steps[at].below.iter().find(|(part, _)| is_it(part)).map(|(_, below)| *below)
    }

    /// The step below, by place in a list.
    fn index(&self, at: usize, index: usize) -> Option<usize> {
        let below = &self.steps[at].below;
        below.iter().find(|(part, _)| *part == Part::Index(index)).map(|(_, below)| *below)
    }
}

/// Where in a document a walk is.
#[derive(Clone, Copy)]
enum Place {
    /// The payload itself.
    Root,
    /// At this step.
    At(usize),
    /// An element of a payload that is a list.
    Element(usize),
}

/// Why a payload gives no tuple.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TupleFault {
    /// It is not what its type says.
    #[error("{0}")]
    Malformed(&'static str),
    /// It is too short for its type.
    #[error("it has {bytes} bytes, and {needed} are needed")]
    TooShort {
        /// Its length.
        bytes: usize,
        /// What it must have.
        needed: usize,
    },
}

const TWICE: &str = "a key that is asked for stands there twice";
const TOO_LONG: &str = "the texts that are asked for are longer than 64 KiB";
const INFINITE: &str = "a number is NaN or infinite";

/// What one payload says.
#[derive(Clone, Debug)]
pub struct Tuple {
    pub(super) shape: Shape,
    values: Vec<Kept>,
    text: String,
    /// Keys that have been there, by step.
    seen: Vec<bool>,
    numbers: Vec<f64>,
}

impl Tuple {
    pub(super) fn new(shape: Shape) -> Tuple {
        let values = vec![Kept::Missing; shape.paths.len()];
        let seen = vec![false; shape.steps.len()];
        Tuple { shape, values, text: String::new(), seen, numbers: Vec::new() }
    }

    /// Reads a payload, in place of the one before. A payload that is no document is `value`; a list of several is `values` as well.
    pub fn read(&mut self, payload_type: &PayloadType, payload: &[u8]) -> Result<(), TupleFault> {
        self.values.fill(Kept::Missing);
        self.seen.fill(false);
        self.text.clear();
        let read = match payload_type {
            PayloadType::Json(_) => json::read(payload, self).map_err(TupleFault::Malformed),
            PayloadType::Cbor(_) => cbor::read(payload, self).map_err(TupleFault::Malformed),
            _ => self.read_numbers(payload_type, payload),
        };
        if read.is_err() {
            self.values.fill(Kept::Missing);
        }
        read
    }

    fn read_numbers(&mut self, payload_type: &PayloadType, payload: &[u8]) -> Result<(), TupleFault> {
        self.numbers.clear();
        let input = Input { slot: 0, payload, created: Time::ZERO };
        let mut found = std::mem::take(&mut self.numbers);
        let read = numbers::read(payload_type, &input, &mut found);
        self.numbers = found;
        read.map_err(|fault| match fault {
            Fault::TooShort { bytes, needed, .. } => TupleFault::TooShort { bytes, needed },
            Fault::Malformed { reason, .. } | Fault::Failed(reason) => TupleFault::Malformed(reason),
            _ => TupleFault::Malformed("it has no numbers"),
        })?;
        self.keep_list(Place::Root);
        for index in 0..self.numbers.len() {
            let number = self.numbers[index];
            for step in self.shape.steps_of(Place::Element(index)) {
                self.keep(step, Kept::Number(number));
            }
        }
        Ok(())
    }

    /// A list begins at a place.
    fn keep_list(&mut self, at: Place) {
        match at {
            Place::Root => {
                if let Some(values) = self.shape.key(0, "values") {
                    self.keep(values, Kept::List);
                }
            }
            _ => self.shape.steps_of(at).for_each(|step| self.keep(step, Kept::List)),
        }
    }

    /// A document begins at a place. Returns the step whose keys are its keys, if any of them is asked for.
    fn keep_document(&mut self, at: Place) -> Option<usize> {
        if let Place::Root = at {
            return Some(0);
        }
        let mut steps = self.shape.steps_of(at);
        let first = steps.next();
        first.into_iter().chain(steps).for_each(|step| self.keep(step, Kept::Document));
        first
    }

    fn keep(&mut self, at: usize, value: Kept) {
        if let Some(slot) = self.shape.steps[at].slot {
            self.values[slot] = value;
        }
    }

    fn keep_text(&mut self, at: usize, text: &str) -> Result<(), &'static str> {
        if self.shape.steps[at].slot.is_none() {
            return Ok(());
        }
        if self.text.len() + text.len() > TEXT_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let from = self.text.len();
        self.text.push_str(text);
        self.keep(at, Kept::Text(from, self.text.len()));
        Ok(())
    }

    fn keep_number(&mut self, at: usize, number: f64) -> Result<(), &'static str> {
        if !number.is_finite() {
            return Err(INFINITE);
        }
        self.keep(at, Kept::Number(number));
        Ok(())
    }

    /// A key is there. Twice is once too often: readers would disagree on which counts.
    fn see(&mut self, at: usize) -> Result<(), &'static str> {
        if std::mem::replace(&mut self.seen[at], true) { Err(TWICE) } else { Ok(()) }
    }

    /// The number at a place.
    #[inline]
    pub(super) fn number(&self, slot: usize) -> Option<f64> {
        match self.values.get(slot) {
            Some(Kept::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn at(&self, slot: usize) -> Result<Value<'_>, Unclear> {
        match self.values.get(slot).copied().unwrap_or(Kept::Missing) {
            Kept::Missing => Err(Unclear::Missing(slot)),
            Kept::Number(number) => Ok(Value::Number(number)),
            Kept::Switch(on) => Ok(Value::Switch(on)),
            Kept::Text(from, to) => Ok(Value::Text(self.text.get(from..to).unwrap_or_default())),
            Kept::Null => Ok(Value::Null),
            Kept::Document => Ok(Value::Document),
            Kept::List => Ok(Value::List),
        }
    }

    pub(super) fn path(&self, slot: usize) -> String {
        self.shape.path(slot)
    }
}
