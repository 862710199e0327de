//! Events that wait to be asked for.

use crate::Event;
use std::collections::VecDeque;

/// So many wait; of more, the oldest are forgotten.
const EVENTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    forgotten: u64,
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.waiting.len() >= EVENTS_MAX {
            self.waiting.pop_front();
            self.forgotten += 1;
        }
        self.waiting.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.forgotten) {
            0 => self.waiting.pop_front(),
            forgotten => Some(Event::Forgotten(forgotten)),
        }
    }
}
