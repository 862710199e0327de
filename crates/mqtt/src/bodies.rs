//! Messages that wait for sessions: each is kept once, however many wait for it.

use crate::slab::Slab;
use contract::Time;

/// A message that somebody waits for.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// Its name towards the backup and the store.
    pub(crate) id: u64,
    pub(crate) topic: Box<str>,
    pub(crate) payload: Box<[u8]>,
    pub(crate) properties: Box<[u8]>,
    pub(crate) expires: Option<Time>,
    /// Whether others have been told of it.
    pub(crate) recorded: bool,
    waiting: u32,
}

impl Body {
    pub(crate) fn new(
        id: u64,
        topic: &str,
        payload: &[u8],
        properties: &[u8],
        expires: Option<Time>,
    ) -> Body {
        Body {
            id,
            topic: topic.into(),
            payload: payload.into(),
            properties: properties.into(),
            expires,
            recorded: false,
            waiting: 0,
        }
    }

    /// Whether nobody waits for it.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.waiting == 0
    }

    fn bytes(&self) -> usize {
        size_of::<Body>() + self.topic.len() + self.payload.len() + self.properties.len()
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    all: Slab<Body>,
    bytes: usize,
}

impl Bodies {
    /// Keeps a body for whoever [`Bodies::hold`]s it.
    pub(crate) fn insert(&mut self, body: Body) -> u32 {
        self.bytes += body.bytes();
        self.all.insert(body)
    }

    /// One more waits for it.
    pub(crate) fn hold(&mut self, index: u32) {
        if let Some(body) = self.all.get_mut(index) {
            body.waiting += 1;
        }
    }

    /// One less waits for it. Returns it if it was the last.
    pub(crate) fn release(&mut self, index: u32) -> Option<Body> {
        let body = self.all.get_mut(index)?;
        body.waiting = body.waiting.saturating_sub(1);
        if body.waiting > 0 {
            return None;
        }
        let body = self.all.remove(index)?;
        self.bytes -= body.bytes();
        Some(body)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Body> {
        self.all.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Body> {
        self.all.get_mut(index)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
