//! Messages that wait for sessions: each is kept once, however many wait for it.

use crate::ids::{BodyId, NO_BODY};
use crate::slab::Slab;
use contract::{Span, Time, invariant};

/// Buffers of messages that have gone, to be used again; and the largest that is kept.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 4 << 10;

/// A message that somebody waits for.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// Its name towards the backup and the store.
    pub(crate) id: u64,
    /// Topic, properties and payload.
    bytes: Vec<u8>,
    topic_len: usize,
    properties_len: usize,
    pub(crate) expires: Option<Time>,
    /// Whether others have been told of it.
    pub(crate) recorded: bool,
    /// In which telling a new backup has heard of it.
    pub(crate) told: u32,
    waiting: u32,
}

/// A message to be kept.
#[derive(Clone, Copy)]
pub(crate) struct NewBody<'a> {
    pub(crate) id: u64,
    pub(crate) topic: &'a str,
    pub(crate) properties: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) expires: Option<Time>,
}

impl NewBody<'_> {
    /// What it would take.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Body>() + self.topic.len() + self.properties.len() + self.payload.len()
    }
}

/// One that nobody waits for any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    pub(crate) id: u64,
    pub(crate) recorded: bool,
}

impl Body {
    pub(crate) fn topic(&self) -> &str {
        let topic = self
            .bytes
            .get(..self.topic_len)
            .unwrap_or_else(|| invariant!("a body begins with its topic", &[]));
        std::str::from_utf8(topic).unwrap_or_else(|_| invariant!("a body's topic is text", ""))
    }

    pub(crate) fn properties(&self) -> &[u8] {
        let properties = self.bytes.get(self.topic_len..self.topic_len + self.properties_len);
        properties.unwrap_or_else(|| invariant!("a body has its properties", &[]))
    }

    pub(crate) fn payload(&self) -> &[u8] {
        let payload = self.bytes.get(self.topic_len + self.properties_len..);
        payload.unwrap_or_else(|| invariant!("a body ends with its payload", &[]))
    }

    fn size(&self) -> usize {
        size_of::<Body>() + self.bytes.len()
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    all: Slab<BodyId, Body>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Bodies {
    /// The clock has been set: nothing expires sooner or later by that.
    pub(crate) fn move_times(&mut self, by: Span) {
        self.all.iter_mut().filter_map(|body| body.expires.as_mut()).for_each(|at| *at = at.moved(by));
    }

    /// Keeps a body, which its caller [`Bodies::release`]s when it has been given to whoever waits for it.
    pub(crate) fn insert(&mut self, new: &NewBody<'_>) -> BodyId {
        let &NewBody { id, topic, properties, payload, expires } = new;
        self.bytes += new.bytes();
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(topic.len() + properties.len() + payload.len());
        for piece in [topic.as_bytes(), properties, payload] {
            bytes.extend_from_slice(piece);
        }
        let (topic_len, properties_len) = (topic.len(), properties.len());
        let (recorded, told, waiting) = (false, 0, 1);
        self.all.insert(Body { id, bytes, topic_len, properties_len, expires, recorded, told, waiting })
    }

    /// One more waits for it.
    pub(crate) fn hold(&mut self, index: BodyId) {
        let Some(body) = self.all.get_mut(index) else {
            return invariant!("a body that somebody waits for is kept");
        };
        body.waiting += 1;
    }

    /// One less waits for it. Says what has gone if it was the last. Nobody waits for [`NO_BODY`].
    pub(crate) fn release(&mut self, index: BodyId) -> Option<Gone> {
        if index == NO_BODY {
            return None;
        }
        let Some(body) = self.all.get_mut(index) else {
            return invariant!("a body that somebody waits for is kept", None);
        };
        body.waiting = body.waiting.saturating_sub(1);
        if body.waiting > 0 {
            return None;
        }
        let Some(body) = self.all.remove(index) else {
            return invariant!("a body that was found is there", None);
        };
        self.bytes -= body.size();
        if self.spare.len() < SPARE_MAX && body.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(body.bytes);
        }
        Some(Gone { id: body.id, recorded: body.recorded })
    }

    pub(crate) fn get(&self, index: BodyId) -> Option<&Body> {
        self.all.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: BodyId) -> Option<&mut Body> {
        self.all.get_mut(index)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
