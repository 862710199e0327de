//! Numbers of what a broker holds, each of its own type, so that none is taken for another.
//!
//! Streams and tickets are [`contract::StreamId`] and [`contract::Ticket`], since operators and other protocols name them too. What a
//! peer calls a stream on its connection is a bare number, which [`crate::store::numbers`] turns into one of these.

/// The place of a topic in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TopicId(pub(crate) u32);

impl TopicId {
    /// As an index.
    #[inline(always)]
    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}

/// The place of a subscriber's session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SessionId(pub(crate) u32);

impl SessionId {
    /// As an index.
    #[inline(always)]
    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}
