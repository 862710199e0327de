//! Numbers out of payloads and back: arrays, and documents with numbers somewhere in them.
//!
//! Payloads come from outside, so whatever is wrong with one is a [`Fault`]. The rules: a reading has at least one number;
//! NaN and infinities are none; a path that a document has twice is an error, since readers would disagree on which counts.
//! Documents are walked, not built: numbers go straight to where they are wanted, and what is beside the path is skipped.
//! Skipping needs no recursion; following the path goes as deep as the path ([`PATH_PARTS_MAX`]).

use crate::operator::{Fault, Input, Setup, SetupError};
use crate::payload::{Element, PayloadType, path_parts};
use contract::Time;

pub(crate) mod cbor;
mod json;

/// The longest path into a document, in parts: deeper documents are rare, and every part costs stack.
pub const PATH_PARTS_MAX: usize = 16;

/// Appends the numbers of an input.
pub fn read(payload_type: &PayloadType, input: &Input<'_>, numbers: &mut Vec<f64>) -> Result<(), Fault> {
    let before = numbers.len();
    let malformed = |reason| Fault::Malformed { slot: input.slot, reason };
    match payload_type {
        PayloadType::Bytes => return Err(malformed("its type is bytes, which have no numbers")),
        PayloadType::Array(element) => read_array(*element, input, numbers)?,
        PayloadType::Text => read_text(input.payload, numbers).map_err(malformed)?,
        PayloadType::Json(path) => json::read(path, input.payload, numbers).map_err(malformed)?,
        PayloadType::Cbor(path) => cbor::read(path, input.payload, numbers).map_err(malformed)?,
    }
    let new = &numbers[before..];
    if new.is_empty() {
        return Err(malformed("its list of numbers is empty"));
    }
    if new.iter().all(|number| number.is_finite()) {
        Ok(())
    } else {
        Err(malformed("a number is NaN or infinite"))
    }
}

fn read_text(payload: &[u8], numbers: &mut Vec<f64>) -> Result<(), &'static str> {
    let text = std::str::from_utf8(payload).map_err(|_| NO_TEXT)?;
    for part in text.split([',', ';', ' ', '\t', '\r', '\n']).filter(|part| !part.is_empty()) {
        numbers.push(part.parse().map_err(|_| NO_TEXT)?);
    }
    Ok(())
}

fn read_array(element: Element, input: &Input<'_>, numbers: &mut Vec<f64>) -> Result<(), Fault> {
    let size = element.bytes();
    let bytes = input.payload.len();
    let needed = bytes.next_multiple_of(size).max(size);
    if bytes < needed {
        return Err(Fault::TooShort { slot: input.slot, bytes, needed });
    }
    match element {
        Element::I16 => extend(input.payload, numbers, |bytes| f64::from(i16::from_le_bytes(bytes))),
        Element::I32 => extend(input.payload, numbers, |bytes| f64::from(i32::from_le_bytes(bytes))),
        Element::F32 => extend(input.payload, numbers, |bytes| f64::from(f32::from_le_bytes(bytes))),
        Element::F64 => extend(input.payload, numbers, f64::from_le_bytes),
    }
    Ok(())
}

fn extend<const SIZE: usize>(payload: &[u8], numbers: &mut Vec<f64>, number: impl Fn([u8; SIZE]) -> f64) {
    let (whole, _) = payload.as_chunks::<SIZE>();
    numbers.extend(whole.iter().map(|bytes| number(*bytes)));
}

/// Appends numbers as an array. Whole elements take the nearest whole number. A number that does not fit is a fault: a
/// wrong reading is worse than none.
pub fn write(numbers: &[f64], element: Element, output: &mut Vec<u8>) -> Result<(), Fault> {
    output.reserve(numbers.len() * element.bytes());
    for &number in numbers {
        if !number.is_finite() {
            return Err(Fault::Failed("a result is NaN or infinite"));
        }
        let narrow = number as f32;
        let whole = number.round();
        let fits = match element {
            Element::I16 => (f64::from(i16::MIN)..=f64::from(i16::MAX)).contains(&whole),
            Element::I32 => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&whole),
            Element::F32 => narrow.is_finite(),
            Element::F64 => true,
        };
        if !fits {
            return Err(Fault::Failed("a result does not fit its type: set `as` to a wider one"));
        }
        match element {
            Element::I16 => output.extend_from_slice(&(whole as i16).to_le_bytes()),
            Element::I32 => output.extend_from_slice(&(whole as i32).to_le_bytes()),
            Element::F32 => output.extend_from_slice(&narrow.to_le_bytes()),
            Element::F64 => output.extend_from_slice(&number.to_le_bytes()),
        }
    }
    Ok(())
}

/// The numbers of the inputs of a run, in a vector that is used again.
pub(crate) struct Reader {
    types: Vec<PayloadType>,
    numbers: Vec<f64>,
}

impl Reader {
    /// Refuses inputs that have no numbers.
    pub(crate) fn new(kind: &str, setup: &Setup<'_>) -> Result<Reader, SetupError> {
        for (slot, given) in setup.inputs.iter().enumerate() {
            let wanted = match given {
                PayloadType::Bytes => "numbers (i16, i32, f32, f64, text, json:path or cbor:path)".to_owned(),
                PayloadType::Json(path) | PayloadType::Cbor(path)
                    if path_parts(path).count() > PATH_PARTS_MAX =>
                {
                    format!("a path of at most {PATH_PARTS_MAX} parts")
                }
                _ => continue,
            };
            return Err(SetupError::Type { kind: kind.to_owned(), slot, wanted, given: given.to_string() });
        }
        Ok(Reader { types: setup.inputs.to_vec(), numbers: Vec::new() })
    }

    /// How many inputs the operator has.
    pub(crate) fn slots(&self) -> usize {
        self.types.len()
    }

    /// The numbers of all inputs of a run, one after another.
    pub(crate) fn read(&mut self, inputs: &[Input<'_>]) -> Result<&[f64], Fault> {
        self.numbers.clear();
        for input in inputs {
            let payload_type = self.types.get(input.slot).ok_or(Fault::Failed("there is no such input"))?;
            read(payload_type, input, &mut self.numbers)?;
        }
        if self.numbers.is_empty() { Err(Fault::Failed("a run needs an input")) } else { Ok(&self.numbers) }
    }
}

/// When the newest of the inputs was created.
pub(crate) fn newest(inputs: &[Input<'_>]) -> Time {
    inputs.iter().map(|input| input.created).max().unwrap_or(Time::ZERO)
}

/// A path as the walks take it: the empty one means the document itself.
fn start(path: &str) -> Option<&str> {
    (!path.is_empty()).then_some(path)
}

const NOTHING_THERE: &str = "there is nothing at its path";
const NO_NUMBER: &str = "what is at its path is neither a number nor a list of numbers";
const NO_TEXT: &str = "it is no text of numbers";
const TWICE: &str = "a key of its path stands there twice";
const TRAILING: &str = "something follows the document";

#[cfg(test)]
mod tests;
