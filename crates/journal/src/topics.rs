//! Topics of a journal, and where what they have is.

use crate::format::{NAME_BYTES_MAX, Note, Word};
use crate::settings::PRIORITIES;
use crate::{Counters, Files, Journal, LimitError, Position, TopicId, TopicSettings};
use contract::{Span, invariant};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Box<[u8]>,
    pub(crate) settings: TopicSettings,
    /// In which segments it has something, in order of its items.
    pub(crate) places: VecDeque<Place>,
    /// Bytes of its items that have not been given up.
    pub(crate) bytes: u64,
    pub(crate) counters: Counters,
    /// The priority whose segments it is in.
    pub(crate) lane: u8,
}

/// An entry of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) entry: usize,
}

impl Topic {
    pub(crate) fn new(name: &[u8], settings: TopicSettings) -> Topic {
        Topic {
            name: name.into(),
            settings,
            places: VecDeque::new(),
            bytes: 0,
            counters: Counters::default(),
            lane: settings.priority,
        }
    }

    /// What the log itself says of it.
    pub(crate) fn note(&self, id: TopicId) -> Note<'_> {
        let (second, value) = (u32::from(self.settings.priority), self.settings.keep.0.cast_unsigned());
        Note { word: Word::Topic, first: id.0, second, value, name: &self.name }
    }

    /// As the log says.
    pub(crate) fn from_note(note: &Note) -> Topic {
        let settings = TopicSettings {
            keep: Span(note.value.cast_signed()),
            priority: (note.second as u8).min(PRIORITIES as u8 - 1),
            ..TopicSettings::default()
        };
        Topic::new(note.name, settings)
    }
}

impl<F: Files> Journal<F> {
    /// A topic and how it is kept from now on. Topics that the log has and nobody names are kept as they were, without a limit of their own.
    pub fn topic(&mut self, name: &[u8], settings: TopicSettings) -> Result<TopicId, LimitError> {
        let priority = settings.priority.min(PRIORITIES as u8 - 1);
        let settings = TopicSettings { priority, ..settings };
        if let Some(id) = self.find_topic(name) {
            let Some(topic) = self.topics.get_mut(&id) else {
                return invariant!("a topic that was found is there", Ok(id));
            };
            if topic.settings == settings {
                return Ok(id);
            }
            topic.settings = settings;
            self.note_topic(id);
            self.judge_deaths();
            self.keep_topic_small(id);
            return Ok(id);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(LimitError::Name);
        }
        if self.topics.len() >= self.settings.topics_max {
            return Err(LimitError::Topics);
        }
        let id = TopicId(self.next_topic);
        self.next_topic += 1;
        self.topics.insert(id, Topic::new(name, settings));
        self.note_topic(id);
        Ok(id)
    }

    /// A topic by its name. Looks at all of them.
    pub fn find_topic(&self, name: &[u8]) -> Option<TopicId> {
        let mut found = self.topics.iter().rev().filter(|(_, topic)| *topic.name == *name);
        found.next().map(|(id, _)| *id)
    }

    /// All topics, with their names and settings.
    pub fn topics(&self) -> impl Iterator<Item = (TopicId, &[u8], TopicSettings)> {
        self.topics.iter().map(|(id, topic)| (*id, &*topic.name, topic.settings))
    }

    /// Forgets a topic of which nothing is kept and no receiver has a position. Returns whether it was so.
    pub fn forget_topic(&mut self, id: TopicId) -> bool {
        let is_empty = self.topics.get(&id).is_some_and(|topic| topic.places.is_empty());
        let is_free = is_empty && !self.notes.knows(id);
        if is_free {
            self.topics.remove(&id);
        }
        is_free
    }

    /// What has become of a topic's items.
    pub fn counters(&self, id: TopicId) -> Option<Counters> {
        self.topics.get(&id).map(|topic| topic.counters)
    }

    /// The bytes of a topic's items, with what belongs to each, those that are out of date and not deleted yet as well.
    pub fn topic_bytes(&self, id: TopicId) -> Option<u64> {
        self.topics.get(&id).map(|topic| topic.bytes)
    }

    /// The first item and the last that a topic has, those that are out of date and not deleted yet as well.
    pub fn range(&self, id: TopicId) -> Option<(Position, Position)> {
        let places = &self.topics.get(&id)?.places;
        let entry = |place: &Place| self.segments.get(&place.segment)?.entries.get(place.entry);
        let first = Position(entry(places.front()?)?.floor().0 + 1);
        Some((first, entry(places.back()?)?.last))
    }

    /// A topic that has too many bytes gives up its oldest items, but none of those that are being written.
    pub(crate) fn keep_topic_small(&mut self, id: TopicId) {
        while let Some(topic) = self.topics.get_mut(&id)
            && topic.bytes > topic.settings.bytes_max
            && let Some(place) = topic.places.front().copied()
            && let Some(segment) = self.segments.get_mut(&place.segment)
        {
            let (is_closed, items_per_mark) = (segment.is_closed, segment.items_per_mark);
            let Some(entry) = segment.entries.get_mut(place.entry) else {
                return invariant!("a topic's place is there");
            };
            if !is_closed && entry.given_up as usize + 1 >= entry.marks.len() {
                break;
            }
            let before = (entry.bytes_left(), entry.count_left(items_per_mark));
            entry.given_up += 1;
            topic.bytes -= before.0 - entry.bytes_left();
            topic.counters.topic_full += before.1 - entry.count_left(items_per_mark);
            if entry.has_given_up() {
                topic.places.pop_front();
            }
            self.judge_death(place.segment);
        }
    }
}
