//! What payloads are, as the configuration declares it of the topics that operators take.

use config::Config;
use contract::TopicFilter;
use processing::{Element, PayloadType};
use std::borrow::Cow;

/// Topics whose payloads are numbers side by side.
pub struct Declared(Vec<(TopicFilter, Element)>);

impl Declared {
    /// What is declared in this configuration.
    pub fn of(config: &Config) -> Declared {
        let suppliers = config.processing.graphs.iter().flat_map(|graph| &graph.suppliers);
        let arrays = suppliers.filter_map(|supplier| match supplier.payload {
            PayloadType::Array(element) => Some((supplier.name.parse().ok()?, element)),
            _ => None,
        });
        Declared(arrays.collect())
    }

    /// The numbers of a payload, with blanks in between, where numbers are declared; `None` elsewhere, and for a payload that cannot be those.
    pub fn numbers(&self, topic: &str, payload: &[u8]) -> Option<String> {
        let (_, element) = self.0.iter().find(|(filter, _)| filter.matches(topic))?;
        let fits = !payload.is_empty() && payload.len().is_multiple_of(element.bytes());
        let numbers = payload.chunks_exact(element.bytes()).filter_map(|bytes| number(*element, bytes));
        fits.then(|| numbers.collect::<Vec<_>>().join(" "))
    }

    /// A payload as a text, if it is one or numbers are declared.
    pub fn text<'a>(&self, topic: &str, payload: &'a [u8]) -> Option<Cow<'a, str>> {
        let numbers = self.numbers(topic, payload).map(Cow::Owned);
        numbers.or_else(|| std::str::from_utf8(payload).ok().map(Cow::Borrowed))
    }
}

fn number(element: Element, bytes: &[u8]) -> Option<String> {
    Some(match element {
        Element::I16 => i16::from_le_bytes(bytes.try_into().ok()?).to_string(),
        Element::I32 => i32::from_le_bytes(bytes.try_into().ok()?).to_string(),
        Element::F32 => f32::from_le_bytes(bytes.try_into().ok()?).to_string(),
        Element::F64 => f64::from_le_bytes(bytes.try_into().ok()?).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_where_they_are_declared() {
        let declared =
            Declared(vec![("a/+".parse().unwrap(), Element::F64), ("b".parse().unwrap(), Element::I16)]);
        let two: Vec<u8> = [12.5_f64, -3.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(declared.numbers("a/x", &two).as_deref(), Some("12.5 -3"));
        assert_eq!(declared.numbers("b", &[1, 0, 255, 255]).as_deref(), Some("1 -1"));
        assert_eq!(declared.numbers("b", &[1, 0, 255]), None);
        assert_eq!(declared.text("c", b"warm").as_deref(), Some("warm"));
        assert_eq!(declared.text("c", &[0xff, 0xfe]), None);
    }
}
