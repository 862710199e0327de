//! Parameters out of a [`Setup`]: typed, in range, finite; or a sentence that names the parameter and the remedy.

use crate::numbers::Reader;
use crate::operator::{ParameterDoc, Setup, SetupError, Value};
use crate::payload::Element;
use contract::Span;

/// What the numbers of a result are written as; most kinds have it.
pub(super) const AS: ParameterDoc = ParameterDoc {
    name: "as",
    values: "i16, i32, f32 or f64 (default)",
    doc: "what the numbers of the result are; whole ones are rounded",
};

impl Setup<'_> {
    /// Reads the numbers of the inputs; refuses inputs that have none.
    pub(super) fn reader(&self, kind: &str) -> Result<Reader, SetupError> {
        Reader::new(kind, self)
    }

    /// What [`AS`] says.
    pub(super) fn element(&self) -> Result<Element, SetupError> {
        let names =
            [("i16", Element::I16), ("i32", Element::I32), ("f32", Element::F32), ("f64", Element::F64)];
        Ok(self.choice(&AS, &names)?.unwrap_or(Element::F64))
    }

    /// A finite number.
    pub(super) fn number(&self, doc: &ParameterDoc) -> Result<Option<f64>, SetupError> {
        match self.parameters.get(doc.name) {
            None => Ok(None),
            Some(Value::Number(number)) if number.is_finite() => Ok(Some(*number)),
            Some(Value::Number(number)) => Err(unsuitable(doc, format!("is {number}, and must be finite"))),
            Some(other) => Err(wrong(doc, other, "a number")),
        }
    }

    /// A number that is not below zero.
    pub(super) fn magnitude(&self, doc: &ParameterDoc) -> Result<Option<f64>, SetupError> {
        match self.number(doc)? {
            Some(number) if number < 0.0 => {
                Err(unsuitable(doc, format!("is {number}, and must not be negative")))
            }
            number => Ok(number),
        }
    }

    /// A whole number from 1 to `max`.
    pub(super) fn count(&self, doc: &ParameterDoc, max: usize) -> Result<Option<usize>, SetupError> {
        match self.number(doc)? {
            Some(number) if number.fract() != 0.0 || number < 1.0 || number > max as f64 => {
                Err(unsuitable(doc, format!("is {number}, and must be a whole number from 1 to {max}")))
            }
            number => Ok(number.map(|number| number as usize)),
        }
    }

    /// `true` or `false`.
    pub(super) fn switch(&self, doc: &ParameterDoc) -> Result<bool, SetupError> {
        match self.parameters.get(doc.name) {
            None => Ok(false),
            Some(Value::Switch(on)) => Ok(*on),
            Some(other) => Err(wrong(doc, other, "`true` or `false`")),
        }
    }

    /// A text.
    pub(super) fn text(&self, doc: &ParameterDoc) -> Result<Option<&str>, SetupError> {
        match self.parameters.get(doc.name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(doc, other, "a text")),
        }
    }

    /// Several texts; a single one is a list of one.
    pub(super) fn texts(&self, doc: &ParameterDoc) -> Result<Option<Vec<String>>, SetupError> {
        match self.parameters.get(doc.name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(vec![text.clone()])),
            Some(Value::Texts(texts)) => Ok(Some(texts.clone())),
            Some(other) => Err(wrong(doc, other, "a text, or a list of texts")),
        }
    }

    /// One word of several.
    pub(super) fn choice<T: Copy>(
        &self,
        doc: &ParameterDoc,
        words: &[(&str, T)],
    ) -> Result<Option<T>, SetupError> {
        let Some(word) = self.text(doc)? else { return Ok(None) };
        if let Some((_, meaning)) = words.iter().find(|(known, _)| *known == word) {
            return Ok(Some(*meaning));
        }
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        Err(unsuitable(doc, format!("is `{word}`, and may be {}", known.join(", "))))
    }

    /// A time, not negative and not forever.
    pub(super) fn span(&self, doc: &ParameterDoc) -> Result<Option<Span>, SetupError> {
        let span = match self.parameters.get(doc.name) {
            None => return Ok(None),
            Some(Value::Span(span)) => *span,
            Some(Value::Text(text)) => {
                text.parse().map_err(|error| unsuitable(doc, format!("is unclear: {error}")))?
            }
            Some(other) => return Err(wrong(doc, other, "a time with its unit, such as `50ms`")),
        };
        if span < Span::ZERO || span.is_forever() {
            return Err(unsuitable(doc, format!("is {span}, and must be neither negative nor forever")));
        }
        Ok(Some(span))
    }

    /// A time that is longer than zero.
    pub(super) fn period(&self, doc: &ParameterDoc) -> Result<Option<Span>, SetupError> {
        match self.span(doc)? {
            Some(Span::ZERO) => Err(unsuitable(doc, "is zero, and must be longer")),
            span => Ok(span),
        }
    }

    /// A list of finite numbers; a single number is a list of one.
    pub(super) fn numbers(&self, doc: &ParameterDoc) -> Result<Option<Vec<f64>>, SetupError> {
        let numbers = match self.parameters.get(doc.name) {
            None => return Ok(None),
            Some(Value::Number(number)) => vec![*number],
            Some(Value::Numbers(numbers)) => numbers.clone(),
            Some(other) => return Err(wrong(doc, other, "a list of numbers")),
        };
        if numbers.iter().all(|number| number.is_finite()) {
            Ok(Some(numbers))
        } else {
            Err(unsuitable(doc, "has a number that is not finite"))
        }
    }

    /// A matrix of finite numbers with rows of one length; a single number is a matrix of one.
    pub(super) fn matrix(&self, doc: &ParameterDoc) -> Result<Option<Vec<Vec<f64>>>, SetupError> {
        let rows = match self.parameters.get(doc.name) {
            None => return Ok(None),
            Some(Value::Number(number)) => vec![vec![*number]],
            Some(Value::Matrix(rows)) => rows.clone(),
            Some(other) => return Err(wrong(doc, other, "a matrix: a list of rows of numbers")),
        };
        let width = rows.first().map_or(0, Vec::len);
        if width == 0 || rows.iter().any(|row| row.len() != width) {
            return Err(unsuitable(doc, "must have rows of one length, longer than zero"));
        }
        if rows.iter().flatten().all(|number| number.is_finite()) {
            Ok(Some(rows))
        } else {
            Err(unsuitable(doc, "has a number that is not finite"))
        }
    }
}

/// A parameter that must be given.
pub(super) fn missing(doc: &ParameterDoc) -> SetupError {
    SetupError::Missing { name: doc.name, doc: doc.doc }
}

/// A parameter out of its range.
pub(super) fn unsuitable(doc: &ParameterDoc, problem: impl Into<String>) -> SetupError {
    SetupError::Unsuitable { name: doc.name, problem: problem.into(), doc: doc.doc }
}

fn wrong(doc: &ParameterDoc, given: &Value, wanted: &str) -> SetupError {
    let given = match given {
        Value::Number(_) => "a number",
        Value::Switch(_) => "`true` or `false`",
        Value::Text(_) => "a text",
        Value::Span(_) => "a time",
        Value::Numbers(_) => "a list of numbers",
        Value::Matrix(_) => "a matrix",
        Value::Texts(_) => "a list of texts",
    };
    unsuitable(doc, format!("is {given}, and must be {wanted}"))
}
