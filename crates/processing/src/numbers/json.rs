//! A walk through a JSON document. `serde_json` checks its syntax, beside the path too.
//!
//! It takes memory in two cases, once a run: for keys with escapes, and for what is nested two deep beside the path, of which
//! it remembers a byte a level. Walking through that by ourselves would take memory for texts with escapes instead, and
//! recursion.

use super::{NO_NUMBER, NOTHING_THERE, TRAILING, TWICE, start};
use crate::payload::step;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use std::fmt;

pub(super) fn read(path: &str, payload: &[u8], numbers: &mut Vec<f64>) -> Result<(), &'static str> {
    let mut reason = None;
    let mut document = serde_json::Deserializer::from_slice(payload);
    let walk = Walk { path: start(path), numbers, reason: &mut reason };
    if let Err(error) = walk.deserialize(&mut document) {
        return Err(reason.unwrap_or(match error.classify() {
            Category::Eof => "its JSON ends too early",
            Category::Data => NO_NUMBER,
            Category::Syntax | Category::Io => "it is not JSON, or too deep",
        }));
    }
    document.end().map_err(|_| TRAILING)
}

/// Follows the path, then takes numbers.
struct Walk<'a> {
    path: Option<&'a str>,
    numbers: &'a mut Vec<f64>,
    reason: &'a mut Option<&'static str>,
}

impl<'a> Walk<'a> {
    fn fail<E: Error>(&mut self, reason: &'static str) -> E {
        *self.reason = Some(reason);
        E::custom(reason)
    }

    fn take<E: Error>(&mut self, number: f64) -> Result<(), E> {
        if self.path.is_some() {
            return Err(self.fail(NOTHING_THERE));
        }
        self.numbers.push(number);
        Ok(())
    }

    fn below<'b>(&'b mut self, path: Option<&'b str>) -> Walk<'b> {
        Walk { path, numbers: self.numbers, reason: self.reason }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list of numbers")
    }

    fn visit_f64<E: Error>(mut self, number: f64) -> Result<(), E> {
        self.take(number)
    }

    fn visit_i64<E: Error>(mut self, number: i64) -> Result<(), E> {
        self.take(number as f64)
    }

    fn visit_u64<E: Error>(mut self, number: u64) -> Result<(), E> {
        self.take(number as f64)
    }

    /// Gateways write numbers as texts.
    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        match text.parse() {
            Ok(number) => self.take(number),
            Err(_) if self.path.is_some() => Err(self.fail(NOTHING_THERE)),
            Err(_) => Err(self.fail(NO_NUMBER)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let Some((part, rest)) = step(self.path) else {
            while list.next_element_seed(One(self.numbers))?.is_some() {}
            return Ok(());
        };
        let index: usize = part.parse().map_err(|_| self.fail(NOTHING_THERE))?;
        for _ in 0..index {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Err(self.fail(NOTHING_THERE));
            }
        }
        if list.next_element_seed(self.below(rest))?.is_none() {
            return Err(self.fail(NOTHING_THERE));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let Some((part, rest)) = step(self.path) else {
            return Err(self.fail(NO_NUMBER));
        };
        let mut found = false;
        while let Some(is_it) = map.next_key_seed(Key(part))? {
            if !is_it {
                map.next_value::<IgnoredAny>()?;
            } else if found {
                return Err(self.fail(TWICE));
            } else {
                map.next_value_seed(self.below(rest))?;
                found = true;
            }
        }
        if found { Ok(()) } else { Err(self.fail(NOTHING_THERE)) }
    }
}

/// A key: whether it is the one.
struct Key<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// An element of a list of numbers.
struct One<'a>(&'a mut Vec<f64>);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.0.push(number);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }
}
