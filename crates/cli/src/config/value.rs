//! Values as they were written, and as they are understood.

use super::schema::Kind;
use contract::{LinkClass, Loss, Span, TopicFilter};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use toml::de::DeValue;

/// A value as it was written, before it is known what it should be.
#[derive(Clone, PartialEq, Debug)]
pub enum Raw {
    Text(String),
    Number(String),
    Switch(bool),
    List(Vec<Raw>),
    /// A table or a date where a value should be.
    Other(&'static str),
}

impl Raw {
    pub fn new(value: &DeValue<'_>) -> Raw {
        match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(number) => Raw::Number(number.as_str().to_owned()),
            DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
            DeValue::Boolean(switch) => Raw::Switch(*switch),
            DeValue::Array(items) => Raw::List(items.iter().map(|item| Raw::new(item.get_ref())).collect()),
            other => Raw::Other(other.type_str()),
        }
    }

    /// Reads what was given in the environment or on the command line, where quotes are usually left out.
    pub fn from_plain(text: &str) -> Raw {
        match DeValue::parse(text) {
            Ok(value) if !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Datetime(_)) => {
                Raw::new(value.get_ref())
            }
            _ => Raw::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Text(text) => write!(f, "\"{text}\""),
            Raw::Number(number) => f.write_str(number),
            Raw::Switch(switch) => write!(f, "{switch}"),
            Raw::List(items) => {
                let items: Vec<String> = items.iter().map(Raw::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Raw::Other(kind) => write!(f, "a {kind}"),
        }
    }
}

/// A value as it is understood.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Span(Span),
    Address(SocketAddr),
    Word(String),
    Integer(i64),
    Share(f64),
    Switch(bool),
    Integers(Vec<i64>),
    Filter(TopicFilter),
    Loss(Loss),
    Link(LinkClass),
    Auto,
}

/// Understands a span that may be negative.
pub fn understand_signed(raw: &Raw) -> Result<Span, String> {
    match raw {
        Raw::Text(text) => text.parse().map_err(|error: contract::SpanError| error.to_string()),
        Raw::Number(number) => {
            Err(format!("`{number}` has no unit: write for example \"{number}ms\", in quotes"))
        }
        other => Err(format!("{other} is not what this key takes: write a duration, such as \"-2s\"")),
    }
}

/// Understands a value, or says what is wrong with it and what to write.
pub fn understand(kind: Kind, raw: &Raw) -> Result<Value, String> {
    let expected = || format!("{raw} is not what this key takes: write a {}", kind.describe());
    match (kind, raw) {
        (Kind::DurationOrAuto | Kind::IntegerOrAuto(..) | Kind::SwitchOrAuto, Raw::Text(text))
            if text == "auto" =>
        {
            Ok(Value::Auto)
        }
        (Kind::Duration | Kind::DurationOrAuto, Raw::Text(text)) => {
            let span: Span = text.parse().map_err(|error: contract::SpanError| error.to_string())?;
            if span < Span::ZERO { Err(format!("{span} is negative")) } else { Ok(Value::Span(span)) }
        }
        (Kind::Duration | Kind::DurationOrAuto, Raw::Number(number)) => {
            Err(format!("`{number}` has no unit: write for example \"{number}ms\", in quotes"))
        }
        (Kind::Address, Raw::Text(text)) => understand_address(text).map(Value::Address),
        (Kind::Choice(words), Raw::Text(text)) if words.contains(&text.as_str()) => {
            Ok(Value::Word(text.clone()))
        }
        (Kind::Integer(min, max) | Kind::IntegerOrAuto(min, max), Raw::Number(number)) => {
            let number: i64 = number.replace('_', "").parse().map_err(|_| expected())?;
            if (min..=max).contains(&number) { Ok(Value::Integer(number)) } else { Err(expected()) }
        }
        (Kind::Bytes, Raw::Number(text) | Raw::Text(text)) => {
            understand_bytes(text).map(Value::Integer).ok_or_else(expected)
        }
        (Kind::Share, Raw::Number(number)) => {
            let share: f64 = number.parse().map_err(|_| expected())?;
            if share > 0.0 && share <= 1.0 { Ok(Value::Share(share)) } else { Err(expected()) }
        }
        (Kind::Switch | Kind::SwitchOrAuto, Raw::Switch(switch)) => Ok(Value::Switch(*switch)),
        (Kind::Integers, Raw::List(items)) => {
            let number = |item: &Raw| match item {
                Raw::Number(number) => number.parse::<i64>().ok().filter(|number| *number >= 0),
                _ => None,
            };
            items.iter().map(number).collect::<Option<Vec<_>>>().map(Value::Integers).ok_or_else(expected)
        }
        (Kind::Filter, Raw::Text(text)) => {
            text.parse().map(Value::Filter).map_err(|error: contract::TopicError| error.to_string())
        }
        (Kind::Loss, Raw::Text(text)) if text == "unbounded" => Ok(Value::Loss(Loss::Unbounded)),
        (Kind::Loss, Raw::Number(number)) => number
            .parse()
            .ok()
            .filter(|n| *n < u32::MAX)
            .map(|n| Value::Loss(Loss::AtMost(n)))
            .ok_or_else(expected),
        (Kind::Link, Raw::Text(text)) => {
            text.parse().map(Value::Link).map_err(|error: contract::LinkClassError| error.to_string())
        }
        _ => Err(expected()),
    }
}

fn understand_address(text: &str) -> Result<SocketAddr, String> {
    let remedy = "write \"host:port\", as in \"127.0.0.1:7571\"";
    let mut addresses =
        text.to_socket_addrs().map_err(|error| format!("`{text}` is no address ({error}): {remedy}"))?;
    addresses.next().ok_or_else(|| format!("`{text}` has no address: {remedy}"))
}

fn understand_bytes(text: &str) -> Option<i64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: i64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.replace('_', "").parse::<i64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_without_unit_says_what_to_write() {
        let error = understand(Kind::Duration, &Raw::Number("50".into())).unwrap_err();
        assert!(error.contains("\"50ms\""), "{error}");
        assert_eq!(understand(Kind::Duration, &Raw::Text("50ms".into())), Ok(Value::Span(Span::millis(50))));
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(understand(Kind::Bytes, &Raw::Text("64KiB".into())), Ok(Value::Integer(65_536)));
        assert_eq!(understand(Kind::Bytes, &Raw::Number("65_536".into())), Ok(Value::Integer(65_536)));
        assert!(understand(Kind::Bytes, &Raw::Text("64 parsec".into())).is_err());
    }

    #[test]
    fn plain_text_needs_no_quotes() {
        assert_eq!(Raw::from_plain("50ms"), Raw::Text("50ms".into()));
        assert_eq!(Raw::from_plain("true"), Raw::Switch(true));
        assert_eq!(Raw::from_plain("7"), Raw::Number("7".into()));
        assert_eq!(
            Raw::from_plain("[0, 1]"),
            Raw::List(vec![Raw::Number("0".into()), Raw::Number("1".into())])
        );
    }
}
