//! A walk through a CBOR document, for all places at once. Where it goes, it goes as deep as conditions ask.

use super::{Kept, Place, Tuple};
use crate::numbers::cbor::{base_of, more, number, reason};
use minicbor::Decoder;
use minicbor::data::Type;

pub(super) fn read(payload: &[u8], tuple: &mut Tuple) -> Result<(), &'static str> {
    let mut document = Decoder::new(payload);
    walk(&mut document, Place::Root, tuple)?;
    if document.position() == payload.len() { Ok(()) } else { Err("something follows the document") }
}

fn walk(document: &mut Decoder<'_>, at: Place, tuple: &mut Tuple) -> Result<(), &'static str> {
    let base = base_of(document)?;
    if base.is_some() {
        let number = number(document, base)?;
        return keep_number(tuple, at, number);
    }
    match document.datatype().map_err(reason)? {
        Type::Array | Type::ArrayIndef => list(document, at, tuple),
        Type::Map | Type::MapIndef => map(document, at, tuple),
        Type::Bool => {
            let on = document.bool().map_err(reason)?;
            keep(tuple, at, Kept::Switch(on));
            Ok(())
        }
        Type::Null | Type::Undefined => {
            document.skip().map_err(reason)?;
            keep(tuple, at, Kept::Null);
            Ok(())
        }
        Type::String => {
            let text = document.str().map_err(reason)?;
            tuple.shape.steps_of(at).try_for_each(|step| tuple.keep_text(step, text))
        }
        Type::Bytes | Type::BytesIndef | Type::StringIndef | Type::Simple => {
            // No condition asks for these: they are taken as if they were not there.
            document.skip().map_err(reason)
        }
        _ => {
            let number = number(document, None)?;
            keep_number(tuple, at, number)
        }
    }
}

fn keep(tuple: &mut Tuple, at: Place, value: Kept) {
    tuple.shape.steps_of(at).for_each(|step| tuple.keep(step, value));
}

fn keep_number(tuple: &mut Tuple, at: Place, number: f64) -> Result<(), &'static str> {
    tuple.shape.steps_of(at).try_for_each(|step| tuple.keep_number(step, number))
}

fn list(document: &mut Decoder<'_>, at: Place, tuple: &mut Tuple) -> Result<(), &'static str> {
    tuple.keep_list(at);
    let mut left = document.array().map_err(reason)?;
    let mut index = 0;
    while more(document, &mut left)? {
        match tuple.shape.element_of(at, index) {
            Some(below) => walk(document, below, tuple)?,
            None => document.skip().map_err(reason)?,
        }
        index += 1;
    }
    Ok(())
}

fn map(document: &mut Decoder<'_>, at: Place, tuple: &mut Tuple) -> Result<(), &'static str> {
    let step = tuple.keep_document(at);
    let mut left = document.map().map_err(reason)?;
    while more(document, &mut left)? {
        let below = match step {
            Some(step) => key(document, step, tuple)?,
            None => {
                document.skip().map_err(reason)?;
                None
            }
        };
        match below {
            Some(below) => {
                tuple.see(below)?;
                walk(document, Place::At(below), tuple)?;
            }
            None => document.skip().map_err(reason)?,
        }
    }
    Ok(())
}

/// Reads a key: the step that it leads to. Whole numbers are keys as they are written.
fn key(document: &mut Decoder<'_>, step: usize, tuple: &Tuple) -> Result<Option<usize>, &'static str> {
    match document.datatype().map_err(reason)? {
        Type::String => {
            let key = document.str().map_err(reason)?;
            Ok(tuple.shape.key(step, key))
        }
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            let key = document.int().map_err(reason)?;
            Ok(tuple.shape.number(step, i128::from(key)))
        }
        _ => {
            document.skip().map_err(reason)?;
            Ok(None)
        }
    }
}
