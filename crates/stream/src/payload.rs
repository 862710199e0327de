//! What a payload is: bytes, numbers in an array, or a number somewhere in a document.

use std::fmt;
use std::str::FromStr;

/// A number as it lies in an array, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// 16 bits, signed.
    I16,
    /// 32 bits, signed.
    I32,
    /// 32 bits, floating point.
    F32,
    /// 64 bits, floating point.
    F64,
}

impl Element {
    /// The bytes that one takes.
    pub fn bytes(self) -> usize {
        match self {
            Element::I16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

/// What the payloads of a topic or of an operator are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PayloadType {
    /// Anything; nobody looks into it.
    #[default]
    Bytes,
    /// Numbers side by side.
    Array(Element),
    /// A JSON document with a number, or an array of numbers, at this path (`motor.rpm`, `axes.0.load`; empty: the
    /// document itself).
    Json(String),
    /// The same in CBOR.
    Cbor(String),
}

impl PayloadType {
    /// Whether numbers can be read from it.
    pub fn is_numeric(&self) -> bool {
        *self != PayloadType::Bytes
    }
}

impl fmt::Display for PayloadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PayloadType::Bytes => f.pad("bytes"),
            PayloadType::Array(Element::I16) => f.pad("i16"),
            PayloadType::Array(Element::I32) => f.pad("i32"),
            PayloadType::Array(Element::F32) => f.pad("f32"),
            PayloadType::Array(Element::F64) => f.pad("f64"),
            PayloadType::Json(path) => write!(f, "json:{path}"),
            PayloadType::Cbor(path) => write!(f, "cbor:{path}"),
        }
    }
}

/// Why a text names no payload type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no payload type: use bytes, i16, i32, f32, f64, json:path or cbor:path")]
pub struct PayloadTypeError(pub String);

impl FromStr for PayloadType {
    type Err = PayloadTypeError;

    fn from_str(text: &str) -> Result<PayloadType, PayloadTypeError> {
        match (text, text.split_once(':')) {
            ("bytes", _) => Ok(PayloadType::Bytes),
            ("i16", _) => Ok(PayloadType::Array(Element::I16)),
            ("i32", _) => Ok(PayloadType::Array(Element::I32)),
            ("f32", _) => Ok(PayloadType::Array(Element::F32)),
            ("f64", _) => Ok(PayloadType::Array(Element::F64)),
            ("json", _) | (_, Some(("json", ""))) => Ok(PayloadType::Json(String::new())),
            ("cbor", _) | (_, Some(("cbor", ""))) => Ok(PayloadType::Cbor(String::new())),
            (_, Some(("json", path))) => Ok(PayloadType::Json(path.to_owned())),
            (_, Some(("cbor", path))) => Ok(PayloadType::Cbor(path.to_owned())),
            _ => Err(PayloadTypeError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_written_as_it_is_read() {
        for text in ["bytes", "i16", "i32", "f32", "f64", "json:motor.rpm", "cbor:axes.0.load", "json:"] {
            assert_eq!(text.parse::<PayloadType>().unwrap().to_string(), text);
        }
        assert!("f16".parse::<PayloadType>().is_err());
        assert!("xml:a".parse::<PayloadType>().is_err());
    }
}
