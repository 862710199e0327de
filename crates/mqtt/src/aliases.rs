//! Numbers that stand for topics in what one connection is sent.
//!
//! A topic gets its number with the first message that is sent, and keeps it as long as the connection lasts. Who comes first
//! has one; nothing gives way. Giving the number of a topic that is seldom to another one would save more bytes for few clients,
//! and cost all of them the search for what is seldom.

use std::collections::BTreeMap;

/// Topics below this many bytes are not longer than the number would be.
const TOPIC_BYTES_MIN: usize = 5;

/// The numbers of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aliases {
    /// So many at most: what the client takes and what the broker gives.
    most: u16,
    by_topic: BTreeMap<Box<str>, u16>,
    /// How long those topics are together.
    bytes: usize,
}

/// How a topic is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alias {
    /// By its name.
    None,
    /// By its name and this number, which the client does not know yet: [`Aliases::taught`] when it has been sent.
    New(u16),
    /// By this number.
    Known(u16),
}

impl Aliases {
    /// Of a new connection.
    pub(crate) fn new(most: u16) -> Aliases {
        Aliases { most, by_topic: BTreeMap::new(), bytes: 0 }
    }

    pub(crate) fn find(&self, topic: &str) -> Alias {
        if self.most == 0 || topic.len() < TOPIC_BYTES_MIN {
            return Alias::None;
        }
        let has_room = || {
            self.by_topic.len() < usize::from(self.most)
                && self.bytes + topic.len() <= contract::names_bytes_max(self.most.into())
        };
        match self.by_topic.get(topic) {
            Some(number) => Alias::Known(*number),
            None if has_room() => Alias::New(self.by_topic.len() as u16 + 1),
            None => Alias::None,
        }
    }

    /// A message with the topic and its number is on its way.
    pub(crate) fn taught(&mut self, topic: &str, number: u16) {
        if self.by_topic.insert(topic.into(), number).is_none() {
            self.bytes += topic.len();
        }
    }
}
