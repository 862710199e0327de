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
    /// A number as a person writes it, or several with blanks, commas or semicolons between them: what many devices send by MQTT.
    Text,
    /// A JSON document with a number, or an array of numbers, at this path (`motor.rpm`, `axes.0.load` or `axes[0].load`, `air."PM2.5"`;
    /// empty: the document itself).
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
            PayloadType::Text => f.pad("text"),
            PayloadType::Json(path) => write!(f, "json:{path}"),
            PayloadType::Cbor(path) => write!(f, "cbor:{path}"),
        }
    }
}

/// Why a text names no payload type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no payload type: use bytes, i16, i32, f32, f64, text, json:path or cbor:path, where a key with a point or a bracket has quotes \
     (json:air.\"PM2.5\")"
)]
pub struct PayloadTypeError(pub String);

/// The first part of a path, and all that follows it. A part in quotes, or in brackets, is one whatever is in it. `None`: what was opened is
/// not closed.
fn first_part(path: &str) -> Option<(&str, &str)> {
    match path.as_bytes() {
        [b'[', b'"', ..] => path[2..].split_once("\"]"),
        [b'[', ..] => path[1..].split_once(']'),
        [b'"', ..] => path[1..].split_once('"'),
        _ => Some(path.split_at(path.find(['.', '[']).unwrap_or(path.len()))),
    }
}

/// The first part of a path and the rest; `None` at its end, or where what was opened is not closed.
pub(crate) fn step(path: Option<&str>) -> Option<(&str, Option<&str>)> {
    let (part, rest) = first_part(path?)?;
    Some((part, rest.strip_prefix('.').or((!rest.is_empty()).then_some(rest))))
}

/// The parts of a path into a document: keys, and places in lists.
pub fn path_parts(path: &str) -> impl Iterator<Item = &str> {
    let mut left = (!path.is_empty()).then_some(path);
    std::iter::from_fn(move || {
        let (part, rest) = step(left)?;
        left = rest;
        Some(part)
    })
}

/// Whether what was opened in a path is closed, nothing but a further part follows it, and each part is one: nothing between two points, and
/// a place before the first, are slips.
fn is_path(path: &str) -> bool {
    let mut left = (!path.is_empty()).then_some(path);
    while let Some(now) = left {
        let Some((part, rest)) = first_part(now) else { return false };
        let quoted = now.starts_with(['"']) || now.starts_with("[\"");
        let is_slip = !quoted && (part.is_empty() || now.starts_with("[-"));
        if is_slip || !(rest.is_empty() || rest.starts_with(['.', '['])) {
            return false;
        }
        left = step(left).and_then(|(_, rest)| rest);
    }
    true
}

impl FromStr for PayloadType {
    type Err = PayloadTypeError;

    fn from_str(text: &str) -> Result<PayloadType, PayloadTypeError> {
        match (text, text.split_once(':')) {
            ("bytes", _) => Ok(PayloadType::Bytes),
            ("i16", _) => Ok(PayloadType::Array(Element::I16)),
            ("i32", _) => Ok(PayloadType::Array(Element::I32)),
            ("f32", _) => Ok(PayloadType::Array(Element::F32)),
            ("f64", _) => Ok(PayloadType::Array(Element::F64)),
            ("text", _) => Ok(PayloadType::Text),
            ("json", _) | (_, Some(("json", ""))) => Ok(PayloadType::Json(String::new())),
            ("cbor", _) | (_, Some(("cbor", ""))) => Ok(PayloadType::Cbor(String::new())),
            (_, Some(("json", path))) if is_path(path) => Ok(PayloadType::Json(path.to_owned())),
            (_, Some(("cbor", path))) if is_path(path) => Ok(PayloadType::Cbor(path.to_owned())),
            _ => Err(PayloadTypeError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_in_a_path_are_refused() {
        for wrong in ["json:a..b", "json:a.", "json:.a", "json:a[-1]", "json:a[]", "cbor:a..b"] {
            assert!(wrong.parse::<PayloadType>().is_err(), "{wrong}");
        }
        for right in
            ["json:", "json:a.b", "json:a[0].b", "json:[0]", "json:\"\"", "json:a.\"b.c\"", "json:a[\"x\"]"]
        {
            assert!(right.parse::<PayloadType>().is_ok(), "{right}");
        }
    }

    #[test]
    fn a_type_is_written_as_it_is_read() {
        for text in [
            "bytes",
            "i16",
            "i32",
            "f32",
            "f64",
            "text",
            "json:motor.rpm",
            "cbor:axes.0.load",
            "json:",
            "json:a[\"b.c\"][0].\"d\"",
        ] {
            assert_eq!(text.parse::<PayloadType>().unwrap().to_string(), text);
        }
        assert!("f16".parse::<PayloadType>().is_err());
        assert!("xml:a".parse::<PayloadType>().is_err());
        for open in ["json:[a", "json:\"a", "json:[\"a]", "json:\"a\"b", "json:[a]b"] {
            assert!(open.parse::<PayloadType>().is_err(), "{open}");
        }
    }

    #[test]
    fn a_path_has_parts_with_whatever_is_in_them() {
        let parts = |path| path_parts(path).collect::<Vec<_>>();
        assert_eq!(parts(""), [""; 0]);
        assert_eq!(parts("motor.rpm"), ["motor", "rpm"]);
        assert_eq!(parts("axes[0].load"), ["axes", "0", "load"]);
        assert_eq!(parts("\"PM2.5\""), ["PM2.5"]);
        assert_eq!(parts("[PM2.5]"), ["PM2.5"]);
        assert_eq!(parts("air[\"a]b.c\"].\"d[0]\".e"), ["air", "a]b.c", "d[0]", "e"]);
        assert_eq!(parts("a..b"), ["a", "", "b"]);
    }
}
