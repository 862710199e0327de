//! A walk through a JSON document, for all places at once.

use super::{Kept, Place, Tuple};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use std::fmt;

pub(super) fn read(payload: &[u8], tuple: &mut Tuple) -> Result<(), &'static str> {
    let mut reason = None;
    let mut document = serde_json::Deserializer::from_slice(payload);
    let walk = Walk { at: Place::Root, tuple, reason: &mut reason };
    if let Err(error) = walk.deserialize(&mut document) {
        return Err(reason.unwrap_or(match error.classify() {
            Category::Eof => "its JSON ends too early",
            _ => "it is not JSON, or too deep",
        }));
    }
    document.end().map_err(|_| "something follows the document")
}

struct Walk<'a> {
    at: Place,
    tuple: &'a mut Tuple,
    reason: &'a mut Option<&'static str>,
}

impl Walk<'_> {
    fn steps(&self) -> impl Iterator<Item = usize> + use<> {
        self.tuple.shape.steps_of(self.at)
    }

    fn keep<E>(self, value: Kept) -> Result<(), E> {
        self.steps().for_each(|step| self.tuple.keep(step, value));
        Ok(())
    }

    fn number<E: Error>(self, number: f64) -> Result<(), E> {
        for step in self.steps() {
            if let Err(reason) = self.tuple.keep_number(step, number) {
                *self.reason = Some(reason);
                return Err(E::custom(reason));
            }
        }
        Ok(())
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
        f.write_str("any JSON")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<(), E> {
        self.keep(Kept::Switch(on))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.keep(Kept::Null)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.number(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        for step in self.steps() {
            if let Err(reason) = self.tuple.keep_text(step, text) {
                *self.reason = Some(reason);
                return Err(E::custom(reason));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.tuple.keep_list(self.at);
        for index in 0.. {
            let more = match self.tuple.shape.element_of(self.at, index) {
                Some(at) => {
                    let walk = Walk { at, tuple: &mut *self.tuple, reason: &mut *self.reason };
                    list.next_element_seed(walk)?.is_some()
                }
                None => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some(step) = self.tuple.keep_document(self.at) else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while let Some(below) = map.next_key_seed(Key(step, self.tuple))? {
            let Some(below) = below else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if let Err(reason) = self.tuple.see(below) {
                *self.reason = Some(reason);
                return Err(A::Error::custom(reason));
            }
            map.next_value_seed(Walk {
                at: Place::At(below),
                tuple: &mut *self.tuple,
                reason: &mut *self.reason,
            })?;
        }
        Ok(())
    }
}

/// A key: the step that it leads to.
struct Key<'a>(usize, &'a Tuple);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Option<usize>, E> {
        Ok(self.1.shape.key(self.0, key))
    }
}
