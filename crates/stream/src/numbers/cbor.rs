//! A walk through a CBOR document, token by token. Tags before a value say what it means, not what it is, and are passed over.

use super::{NO_NUMBER, NOTHING_THERE, TRAILING, TWICE, start};
use crate::payload::step;
use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;

pub(super) fn read(path: &str, payload: &[u8], numbers: &mut Vec<f64>) -> Result<(), &'static str> {
    let mut document = Decoder::new(payload);
    walk(&mut document, start(path), numbers)?;
    if document.position() == payload.len() { Ok(()) } else { Err(TRAILING) }
}

fn walk(document: &mut Decoder<'_>, path: Option<&str>, numbers: &mut Vec<f64>) -> Result<(), &'static str> {
    match (value_type(document)?, step(path)) {
        (Type::Array | Type::ArrayIndef, None) => {
            let mut left = document.array().map_err(reason)?;
            while more(document, &mut left)? {
                let element = value_type(document)?;
                numbers.push(number(document, element)?);
            }
            Ok(())
        }
        (value, None) => {
            numbers.push(number(document, value)?);
            Ok(())
        }
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
    match value_type(document)? {
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
fn more(document: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, &'static str> {
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

/// The type of the next value, after its tags.
fn value_type(document: &mut Decoder<'_>) -> Result<Type, &'static str> {
    loop {
        match document.datatype().map_err(reason)? {
            Type::Tag => document.tag().map_err(reason).map(|_| ())?,
            other => return Ok(other),
        }
    }
}

fn number(document: &mut Decoder<'_>, value: Type) -> Result<f64, &'static str> {
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
fn reason(error: Error) -> &'static str {
    if error.is_end_of_input() { "its CBOR ends too early" } else { "it is not CBOR" }
}
