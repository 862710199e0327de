//! Values as they were written, and as they are understood.

use super::bandwidth::Bandwidth;
use super::schema::Kind;
use super::site::ProxyAddress;
use contract::{LinkClass, Location, Loss, Span, TopicFilter};
use host::Place;
use processing::{Keep, PayloadType, RelativeSet};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use toml::de::DeValue;

/// A value as it was written, before it is known what it should be.
#[derive(Clone, PartialEq, Debug)]
pub enum Raw {
    /// A text in quotes.
    Text(String),
    /// A number.
    Number(String),
    /// `true` or `false`.
    Switch(bool),
    /// A list.
    List(Vec<Raw>),
    /// A table.
    Table(BTreeMap<String, Raw>),
    /// A date where a value should be.
    Other(&'static str),
}

impl Raw {
    /// What a parser has read.
    pub fn new(value: &DeValue<'_>) -> Raw {
        match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(number) => Raw::Number(number.as_str().to_owned()),
            DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
            DeValue::Boolean(switch) => Raw::Switch(*switch),
            DeValue::Array(items) => Raw::List(items.iter().map(|item| Raw::new(item.get_ref())).collect()),
            DeValue::Table(table) => {
                let pairs = table.iter();
                Raw::Table(
                    pairs
                        .map(|(key, value)| (key.get_ref().to_string(), Raw::new(value.get_ref())))
                        .collect(),
                )
            }
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
            Raw::Table(_) => f.write_str("a table"),
            Raw::Other(kind) => write!(f, "a {kind}"),
        }
    }
}

/// A value as it is understood.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A duration.
    Span(Span),
    /// A host and a port.
    Address(Place),
    /// One of several words.
    Word(String),
    /// A whole number.
    Integer(i64),
    /// A part of one.
    Share(f64),
    /// Yes or no.
    Switch(bool),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// A topic filter.
    Filter(TopicFilter),
    /// Topic filters.
    Filters(Vec<TopicFilter>),
    /// A loss bound.
    Loss(Loss),
    /// A link class.
    Link(LinkClass),
    /// Several words.
    Words(Vec<String>),
    /// What payloads are.
    Payload(PayloadType),
    /// Which events are kept.
    Keep(Keep),
    /// Inputs that belong together.
    Sets(Vec<RelativeSet>),
    /// How several values become one.
    Vote(VoteName),
    /// Hosts and ports.
    Addresses(Vec<Place>),
    /// A place on the earth.
    Location(Location),
    /// What the program finds out itself.
    Auto,
    /// `none`.
    Nothing,
}

/// A vote of the key-value store; the weights of a weighted mean are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VoteName {
    /// What most have proposed.
    Majority,
    /// The one in the middle.
    Median(kv::Format),
    /// The mean without the extremes.
    TrimmedMean(kv::Format),
    /// The mean by weights.
    WeightedMean(kv::Format),
    /// The smallest.
    Min(kv::Format),
    /// The largest.
    Max(kv::Format),
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

/// Understands a span of this kind; `None` for one that is out of its range.
fn understand_span(kind: Kind, raw: &Raw) -> Result<Option<Span>, String> {
    match (kind, understand_signed(raw)?) {
        (Kind::DurationWithin(least, most), span) => Ok((least..=most).contains(&span).then_some(span)),
        (_, span) if span < Span::ZERO => Err(format!("{span} is negative")),
        (_, span) => Ok(Some(span)),
    }
}

/// Whether a text is the name of a user, or empty.
fn is_user(text: &str) -> bool {
    text.is_empty() || access::check_user_name(text).is_ok()
}

/// Whether a text is the path of a node of a coordination service.
fn is_namespace(text: &str) -> bool {
    let parts = text.strip_prefix('/').map(|parts| parts.split('/'));
    parts.is_some_and(|mut parts| parts.all(|part| !["", ".", ".."].contains(&part)))
}

fn understand_places(words: &[String]) -> Result<Value, String> {
    words.iter().map(|word| understand_address(word)).collect::<Result<_, _>>().map(Value::Addresses)
}

/// What is read from its text when it is asked for, or nothing.
fn understand_word<T: FromStr<Err = String>>(kind: Kind, text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Nothing);
    }
    text.parse::<T>().map_err(|why| format!("{why}: give {}", kind.describe()))?;
    Ok(Value::Word(text.to_owned()))
}

fn integers(items: &[Raw]) -> Option<Vec<i64>> {
    let number = |item: &Raw| match item {
        Raw::Number(number) => number.parse::<i64>().ok().filter(|number| *number >= 0),
        _ => None,
    };
    items.iter().map(number).collect()
}

/// Understands a value, or says what is wrong with it and what to write.
pub fn understand(kind: Kind, raw: &Raw) -> Result<Value, String> {
    let expected = || format!("{raw} is not what this key takes: write {}", kind.expected());
    match (kind, raw) {
        (
            Kind::DurationOrAuto | Kind::IntegerOrAuto(..) | Kind::SwitchOrAuto | Kind::BytesOrAuto(..),
            Raw::Text(text),
        ) if text == "auto" => Ok(Value::Auto),
        (Kind::Duration | Kind::DurationWithin(..) | Kind::DurationOrAuto, Raw::Text(_) | Raw::Number(_)) => {
            understand_span(kind, raw)?.map(Value::Span).ok_or_else(expected)
        }
        (Kind::AddressOrNone | Kind::PathOrNone, Raw::Text(text)) if text == "none" => Ok(Value::Nothing),
        (Kind::Proxy, Raw::Text(text)) => understand_word::<ProxyAddress>(kind, text),
        (Kind::Bandwidth, Raw::Text(text)) => understand_word::<Bandwidth>(kind, text),
        (Kind::PathOrNone, Raw::Text(text)) if !text.is_empty() => Ok(Value::Word(text.clone())),
        (Kind::Address | Kind::AddressOrNone, Raw::Text(text)) => {
            understand_address(text).map(Value::Address)
        }
        (Kind::Places, raw) => words(raw).map_or_else(|| Err(expected()), |words| understand_places(&words)),
        (Kind::Namespace, Raw::Text(text)) if is_namespace(text) => Ok(Value::Word(text.clone())),
        (Kind::Path, Raw::Text(text)) => Ok(Value::Word(text.clone())),
        (Kind::User | Kind::Site, Raw::Text(text)) if is_user(text) => Ok(Value::Word(text.clone())),
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
        (
            Kind::BytesWithin(least, most) | Kind::BytesOrAuto(least, most),
            Raw::Number(text) | Raw::Text(text),
        ) => {
            let bytes = understand_bytes(text).filter(|bytes| (least..=most).contains(bytes));
            bytes.map(Value::Integer).ok_or_else(expected)
        }
        (Kind::Folder, Raw::Text(text)) => Ok(Value::Word(text.clone())),
        (Kind::Share, Raw::Number(number)) => {
            let share: f64 = number.parse().map_err(|_| expected())?;
            if share > 0.0 && share <= 1.0 { Ok(Value::Share(share)) } else { Err(expected()) }
        }
        (Kind::Switch | Kind::SwitchOrAuto, Raw::Switch(switch)) => Ok(Value::Switch(*switch)),
        (Kind::Integers, Raw::List(items)) => integers(items).map(Value::Integers).ok_or_else(expected),
        (Kind::Filters, raw) => filters(raw).unwrap_or_else(|| Err(expected())),
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
        (Kind::Name | Kind::Names | Kind::Payload | Kind::Keep | Kind::Level | Kind::Sets, raw) => {
            understand_processing(kind, raw).unwrap_or_else(|| Err(expected()))
        }
        (Kind::Location, Raw::Text(text)) => {
            understand_location(text).map_or_else(|| Err(expected()), |found| found.map(Value::Location))
        }
        (Kind::Dimensions | Kind::Profiles, raw) => words(raw).map(Value::Words).ok_or_else(expected),
        (Kind::Nodes | Kind::StoreKeys | Kind::Vote, raw) => {
            understand_kv(kind, raw).unwrap_or_else(|| Err(expected()))
        }
        _ => Err(expected()),
    }
}

/// Latitude and longitude; `None` for something else.
fn understand_location(text: &str) -> Option<Result<Location, String>> {
    let (lat, long) = text.split_once(',')?;
    let (lat, long) = (lat.trim().parse().ok()?, long.trim().parse().ok()?);
    Some(Location::new(lat, long).map_err(|error| error.to_string()))
}

/// Topic filters; `None` for something else.
fn filters(raw: &Raw) -> Option<Result<Value, String>> {
    let one = |text: &String| text.parse().map_err(|error: contract::TopicError| error.to_string());
    Some(words(raw)?.iter().map(one).collect::<Result<_, _>>().map(Value::Filters))
}

/// Understands what lanes of the key-value store have; `None` for something else than the key takes.
fn understand_kv(kind: Kind, raw: &Raw) -> Option<Result<Value, String>> {
    let value = match (kind, raw) {
        (Kind::Nodes, raw) => Value::Words(words(raw)?),
        (Kind::StoreKeys, raw) => {
            let keys: Result<Vec<_>, _> = words(raw)?.iter().map(|pattern| expand(pattern)).collect();
            return Some(keys.map(|keys| Value::Words(keys.concat())));
        }
        (Kind::Vote, Raw::Text(text)) => Value::Vote(understand_vote(text)?),
        _ => return None,
    };
    Some(Ok(value))
}

/// The names that `name/{0..99}` stands for; a plain name stands for itself.
fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.to_owned()]) };
    let form = || {
        format!(
            "`{pattern}` stands for no names: write for example \"sensor/{{0..99}}/value\", with one range"
        )
    };
    let (range, after) = rest.split_once('}').ok_or_else(form)?;
    let (first, last) = range.split_once("..").ok_or_else(form)?;
    let (first, last): (usize, usize) = first.parse().ok().zip(last.parse().ok()).ok_or_else(form)?;
    if after.contains('{') || first > last || last - first >= kv::Config::KEYS_MAX {
        return Err(form());
    }
    Ok((first..=last).map(|number| format!("{before}{number}{after}")).collect())
}

/// A vote by its name.
fn understand_vote(text: &str) -> Option<VoteName> {
    if text == "majority" {
        return Some(VoteName::Majority);
    }
    let (vote, format) = text.split_once(' ')?;
    let formats = [kv::Format::F64, kv::Format::I64, kv::Format::Decimal];
    let format = formats.into_iter().find(|known| known.name() == format)?;
    Some(match vote {
        "median" => VoteName::Median(format),
        "trimmed-mean" => VoteName::TrimmedMean(format),
        "weighted-mean" => VoteName::WeightedMean(format),
        "min" => VoteName::Min(format),
        "max" => VoteName::Max(format),
        _ => return None,
    })
}

/// Understands what operators and their sources have; `None` for something else than the key takes.
fn understand_processing(kind: Kind, raw: &Raw) -> Option<Result<Value, String>> {
    let value = match (kind, raw) {
        (Kind::Name, Raw::Text(text)) if text.is_empty() || text.contains('/') => return None,
        (Kind::Name, Raw::Text(text)) => Value::Word(text.clone()),
        (Kind::Names, raw) => Value::Words(words(raw)?),
        (Kind::Payload, Raw::Text(text)) => match text.parse() {
            Ok(payload) => Value::Payload(payload),
            Err(error) => return Some(Err(format!("{error}"))),
        },
        (Kind::Keep, Raw::Text(text)) if text == "latest" => Value::Keep(Keep::Latest),
        (Kind::Keep, Raw::Text(text)) if text == "all" => Value::Keep(KEEP_ALL),
        (Kind::Keep, Raw::Number(number)) => {
            let events = number.replace('_', "").parse().ok()?;
            Value::Keep((1..=Keep::MOST).contains(&events).then_some(Keep::All(events))?)
        }
        (Kind::Level, Raw::Text(text)) => {
            let named = ["high", "middle", "low"].iter().position(|name| name == text)?;
            Value::Integer(i64::try_from(named).ok()?)
        }
        (Kind::Level, Raw::Number(number)) => Value::Integer(number.parse::<u8>().ok()?.into()),
        (Kind::Sets, Raw::List(items)) => {
            let sets: Result<Vec<RelativeSet>, String> = items.iter().map(understand_set).collect();
            return Some(sets.map(Value::Sets));
        }
        _ => return None,
    };
    Some(Ok(value))
}

fn words(raw: &Raw) -> Option<Vec<String>> {
    let Raw::List(items) = raw else { return None };
    let word = |item: &Raw| match item {
        Raw::Text(text) => Some(text.clone()),
        _ => None,
    };
    items.iter().map(word).collect()
}

fn understand_set(raw: &Raw) -> Result<RelativeSet, String> {
    let form = || format!("{raw} is no set: write {{ inputs = [\"a\", \"b\"], within = \"5ms\" }}");
    let Raw::Table(table) = raw else { return Err(form()) };
    if let Some(other) = table.keys().find(|key| !["inputs", "within"].contains(&key.as_str())) {
        return Err(format!("a set has no `{other}`: write {{ inputs = [\"a\", \"b\"], within = \"5ms\" }}"));
    }
    let inputs = table.get("inputs").and_then(words).ok_or_else(form)?;
    match understand(Kind::Duration, table.get("within").ok_or_else(form)?)? {
        Value::Span(within) => Ok(RelativeSet { inputs, within }),
        _ => Err(form()),
    }
}

/// A parameter of a kind of operators. A text that is a time with its unit is one.
pub fn understand_parameter(raw: &Raw) -> Result<processing::Value, String> {
    let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
    let numbers = |items: &[Raw]| -> Option<Vec<f64>> {
        let one = |item: &Raw| match item {
            Raw::Number(text) => number(text),
            _ => None,
        };
        items.iter().map(one).collect()
    };
    let row = |item: &Raw| match item {
        Raw::List(items) => numbers(items),
        _ => None,
    };
    let value = match raw {
        Raw::Number(text) => number(text).map(processing::Value::Number),
        Raw::Switch(switch) => Some(processing::Value::Switch(*switch)),
        Raw::Text(text) => Some(understand_text(text)),
        Raw::List(items) => {
            let rows = || items.iter().map(row).collect::<Option<Vec<_>>>();
            let text = |item: &Raw| match item {
                Raw::Text(text) => Some(text.clone()),
                _ => None,
            };
            let texts = || items.iter().map(text).collect::<Option<_>>();
            numbers(items)
                .map(processing::Value::Numbers)
                .or_else(|| rows().map(processing::Value::Matrix))
                .or_else(|| texts().map(processing::Value::Texts))
        }
        Raw::Table(_) | Raw::Other(_) => None,
    };
    value.ok_or_else(|| {
        format!("{raw} is no parameter: write a number, true or false, a text, a list of numbers or of texts, or a matrix")
    })
}

fn understand_text(text: &str) -> processing::Value {
    let has_unit = text.ends_with(char::is_alphabetic) && !text.starts_with(char::is_alphabetic);
    match text.parse() {
        Ok(span) if has_unit => processing::Value::Span(span),
        _ => processing::Value::Text(text.to_owned()),
    }
}

/// What `keep = "all"` means.
pub const KEEP_ALL: Keep = Keep::All(1024);

/// What a name means is not asked for: it may be that of another host, and have no meaning at the moment.
fn understand_address(text: &str) -> Result<Place, String> {
    let remedy = "write \"host:port\", as in \"127.0.0.1:7571\"";
    text.parse().map_err(|reason| format!("`{text}` is no address ({reason}): {remedy}"))
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
        let most = Kind::BytesWithin(1, 1 << 20);
        assert_eq!(understand(most, &Raw::Text("1MiB".into())), Ok(Value::Integer(1 << 20)));
        let error = understand(most, &Raw::Text("2MiB".into())).unwrap_err();
        assert!(error.contains("from 1 to 1048576"), "{error}");
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
