//! What a topic knows of its operators, and a stream of the results that stand for its messages.

use contract::{Span, StreamId, Time};

/// How operators take a topic's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processing {
    /// Under which number.
    pub handle: u32,
    /// When the last result is due, counted from creation; forever if one has no deadline.
    pub within: Span,
    /// Whether operators of it remember.
    pub remembers: bool,
}

impl Processing {
    /// For admission.
    pub(crate) fn of(processing: Option<Processing>) -> contract::admission::Processing {
        match processing {
            None => contract::admission::Processing::Nothing,
            Some(Processing { remembers: false, .. }) => contract::admission::Processing::Results,
            Some(_) => contract::admission::Processing::Memories,
        }
    }
}

/// A stream of results, as the stream knows it whose messages they stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResultStream {
    pub(crate) output: u32,
    /// `None`: it was refused.
    pub(crate) stream: Option<StreamId>,
    /// Ask again then.
    pub(crate) ask_again: Time,
}
