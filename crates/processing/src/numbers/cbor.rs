//! A walk through a CBOR document, token by token.
//!
//! Tags before a value say what it means: a list of two is a number where the tag of decimal fractions stands before it. Those that are not
//! understood are refused, since what follows may be something else than it looks like.

use super::{NO_NUMBER, NOTHING_THERE, TRAILING, TWICE, start};
use crate::payload::step;
use minicbor::Decoder;
use minicbor::data::{Tag, Type};
use minicbor::decode::Error;

/// Tags that leave a value what it is: seconds since 1970, and the mark of a CBOR document.
const PLAIN: [u64; 2] = [1, 55_799];
/// A number is a list of its exponent and its digits, to the base of ten and of two.
const FRACTIONS: [(u64, f64); 2] = [(4, 10.0), (5, 2.0)];
const UNKNOWN_TAG: &str = "a CBOR tag in it is not understood: 1, 4, 5 and 55799 are";
const NO_FRACTION: &str = "a fraction in its CBOR is no list of two whole numbers";

pub(super) fn read(path: &str, payload: &[u8], numbers: &mut Vec<f64>) -> Result<(), &'static str> {
    let mut document = Decoder::new(payload);
    walk(&mut document, start(path), numbers)?;
    if document.position() == payload.len() { Ok(()) } else { Err(TRAILING) }
}

fn walk(document: &mut Decoder<'_>, path: Option<&str>, numbers: &mut Vec<f64>) -> Result<(), &'static str> {
    let base = base_of(document)?;
    match (document.datatype().map_err(reason)?, step(path)) {
        (_, None) if base.is_some() => {
            numbers.push(number(document, base)?);
            Ok(())
        }
        (Type::Array | Type::ArrayIndef, None) => {
            let mut left = document.array().map_err(reason)?;
            while more(document, &mut left)? {
                let base = base_of(document)?;
                numbers.push(number(document, base)?);
            }
            Ok(())
        }
        (_, None) => {
            numbers.push(number(document, None)?);
            Ok(())
        }
        _ if base.is_some() => Err(NOTHING_THERE),
        (Type::Array | Type::ArrayIndef, Some((part, rest))) => element(document, part, rest, numbers),
        (Type::Map | Type::MapIndef, Some((part, rest))) => entry(document, part, rest, numbers),
        _ => Err(NOTHING_THERE),
    }
}

fn element(
    document: &mut Decoder<'_>,
    part: &str,
    rest: Option<&str>,
    numbers: &mut Vec<f64>,
) -> Result<(), &'static str> {
    let wanted: u64 = part.parse().map_err(|_| NOTHING_THERE)?;
    let mut left = document.array().map_err(reason)?;
    let mut index = 0_u64;
    while more(document, &mut left)? {
        if index == wanted {
            walk(document, rest, numbers)?;
        } else {
            document.skip().map_err(reason)?;
        }
        index += 1;
    }
    if wanted < index { Ok(()) } else { Err(NOTHING_THERE) }
}

fn entry(
    document: &mut Decoder<'_>,
    part: &str,
    rest: Option<&str>,
    numbers: &mut Vec<f64>,
) -> Result<(), &'static str> {
    let mut left = document.map().map_err(reason)?;
    let mut found = false;
    while more(document, &mut left)? {
        let is_it = key_is(document, part)?;
        if !is_it {
            document.skip().map_err(reason)?;
        } else if found {
            return Err(TWICE);
        } else {
            walk(document, rest, numbers)?;
            found = true;
        }
    }
    if found { Ok(()) } else { Err(NOTHING_THERE) }
}

/// Whether the key is this part: the same text, or a whole number written so (sensors often number their keys).
fn key_is(document: &mut Decoder<'_>, part: &str) -> Result<bool, &'static str> {
    match document.datatype().map_err(reason)? {
        Type::String => Ok(document.str().map_err(reason)? == part),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
            let key = document.u64().map_err(reason)?;
            Ok(part.parse() == Ok(key))
        }
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            let key = document.i64().map_err(reason)?;
            Ok(part.parse() == Ok(key))
        }
        _ => {
            document.skip().map_err(reason)?;
            Ok(false)
        }
    }
}

/// Whether an element or entry follows; passes over the break that ends lists of unsaid length.
pub(crate) fn more(document: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, &'static str> {
    match left {
        Some(0) => Ok(false),
        Some(left) => {
            *left -= 1;
            Ok(true)
        }
        None if document.datatype().map_err(reason)? == Type::Break => {
            document.set_position(document.position() + 1);
            Ok(false)
        }
        None => Ok(true),
    }
}

/// Reads the tags of the next value. Returns the base of the fraction that it is, if it is one.
pub(crate) fn base_of(document: &mut Decoder<'_>) -> Result<Option<f64>, &'static str> {
    let mut base = None;
    while document.datatype().map_err(reason)? == Type::Tag {
        let tag: Tag = document.tag().map_err(reason)?;
        match FRACTIONS.iter().find(|(known, _)| *known == tag.as_u64()) {
            Some((_, of)) if base.is_none() => base = Some(*of),
            None if PLAIN.contains(&tag.as_u64()) && base.is_none() => {}
            _ => return Err(UNKNOWN_TAG),
        }
    }
    Ok(base)
}

/// A number; with a base, a fraction: its exponent and its digits.
pub(crate) fn number(document: &mut Decoder<'_>, base: Option<f64>) -> Result<f64, &'static str> {
    let Some(base) = base else { return plain(document) };
    if document.array().map_err(|_| NO_FRACTION)? != Some(2) {
        return Err(NO_FRACTION);
    }
    let mut whole = || document.i64().map_err(|_| NO_FRACTION);
    let (exponent, digits) = (whole()?, whole()? as f64);
    let power = base.powi(i32::try_from(exponent.unsigned_abs()).unwrap_or(i32::MAX));
    // Divided, what has few digits is the nearest number to what was meant.
    Ok(if exponent < 0 { digits / power } else { digits * power })
}

fn plain(document: &mut Decoder<'_>) -> Result<f64, &'static str> {
    let value = document.datatype().map_err(reason)?;
    let read = match value {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => document.u64().map(|number| number as f64),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
            document.int().map(|number| i128::from(number) as f64)
        }
        Type::F16 => document.f16().map(f64::from),
        Type::F32 => document.f32().map(f64::from),
        Type::F64 => document.f64(),
        _ => return Err(NO_NUMBER),
    };
    read.map_err(reason)
}

// By value: it is what `map_err` hands over.
#[expect(clippy::needless_pass_by_value)]
pub(crate) fn reason(error: Error) -> &'static str {
    if error.is_end_of_input() { "its CBOR ends too early" } else { "it is not CBOR" }
}
