//! Properties of messages, as they stand in a PUBLISH or in a will.

use super::Properties;
use super::property::{self, Kind};
use super::reader::variable;

impl<'a> Properties<'a> {
    /// Properties that [`Properties::forward`] gave before.
    pub fn stored(encoded: &'a [u8]) -> Properties<'a> {
        Properties(encoded)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// User properties, in their order.
    pub fn user(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        Entries(self.0).filter(|entry| entry.id == property::USER).filter_map(|entry| {
            let (name, rest) = binary(entry.value)?;
            let (value, _) = binary(rest)?;
            Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
        })
    }

    /// Whether [`Properties::forward`] appends anything.
    pub fn has_forwardable(&self) -> bool {
        Entries(self.0).any(|entry| entry.goes_on())
    }

    /// Whether these are what [`Properties::forward`] gives, and nothing else.
    pub(crate) fn are_forwarded(encoded: &[u8]) -> bool {
        property::check(&property::FORWARDED, encoded, |_, _| Ok(())).is_ok()
    }

    /// Appends what goes on to subscribers, without a length before it: payload format, content type, response topic,
    /// correlation data and user properties.
    pub fn forward(&self, out: &mut Vec<u8>) {
        for entry in Entries(self.0).filter(Entry::goes_on) {
            out.push(entry.id);
            out.extend_from_slice(entry.value);
        }
    }
}

/// One property.
struct Entry<'a> {
    id: u8,
    /// As it is encoded.
    value: &'a [u8],
}

impl Entry<'_> {
    fn goes_on(&self) -> bool {
        matches!(
            self.id,
            property::PAYLOAD_FORMAT
                | property::CONTENT_TYPE
                | property::RESPONSE_TOPIC
                | property::CORRELATION_DATA
                | property::USER
        )
    }
}

/// Goes through properties that have been checked. Ends at what is none.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (id, value) = self.0.split_first()?;
        let length = match property::kind(*id)? {
            Kind::Byte => 1,
            Kind::Two => 2,
            Kind::Four => 4,
            Kind::Variable => value.len() - variable(value).ok()??.1.len(),
            Kind::Text | Kind::Binary => value.len() - binary(value)?.1.len(),
            Kind::Pair => value.len() - binary(binary(value)?.1)?.1.len(),
        };
        let (value, rest) = value.split_at_checked(length)?;
        self.0 = rest;
        Some(Entry { id: *id, value })
    }
}

/// Bytes with their length in front, and what follows.
fn binary(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
