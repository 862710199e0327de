//! What a stream knows of its topic's terms, so that a plain message needs no more; see [`crate::steps::plain`].

use crate::store::ids::SessionId;
use crate::store::table::Topic;
use contract::Span;

/// What a topic says about its plain messages. Each stream of the topic has it, in few bytes, and without the rarest: where one of its
/// times is no whole number of microseconds, or more than an hour and not for ever, messages are stored on the general way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct PlainTerms {
    /// The shortest time between two messages, in microseconds; zero where there is none.
    pub(crate) period: u32,
    /// How long after its creation a message is to be dispatched, in microseconds; zero where that cannot be said.
    pub(crate) within: u32,
    /// The session to which messages go, and nowhere else.
    pub(crate) receiver: SessionId,
    /// The class of contract that it is counted in.
    pub(crate) class: u16,
    /// Which of two equal deadlines goes first.
    pub(crate) priority: u8,
    /// Whether the contract needs copies.
    pub(crate) replicate: bool,
}

/// No message is so.
pub(crate) const NEVER: u32 = u32::MAX;
/// However late it is, it is in time.
const FOREVER: u32 = u32::MAX;
/// Messages go to several, to nobody, to somebody who has to confirm them, or not only to sessions.
const OTHERS: SessionId = SessionId(u32::MAX);

impl PlainTerms {
    /// Of a topic that is not known yet.
    pub(crate) const NOTHING: PlainTerms =
        PlainTerms { period: NEVER, within: 0, receiver: OTHERS, class: 0, priority: 0, replicate: false };

    /// As they are now.
    pub(crate) fn of(topic: &Topic) -> PlainTerms {
        let receiver = match *topic.subscribers {
            [only] if !topic.confirms() && !topic.has_others() => only,
            _ => OTHERS,
        };
        let (class, priority, replicate) = (topic.class, topic.contract.priority, topic.plan.replicate);
        let (period, within) = (topic.contract.period, topic.plan.pseudo.dispatch);
        let period = if period.is_forever() { Some(0) } else { micros(period) };
        let within = if within.is_forever() { Some(FOREVER) } else { micros(within) };
        let (period, within) = period.zip(within).unwrap_or((NEVER, 0));
        PlainTerms { period, within, receiver, class, priority, replicate }
    }

    /// How long after its creation a message is to be dispatched.
    #[inline]
    pub(crate) fn within(&self) -> Span {
        if self.within == FOREVER { Span::FOREVER } else { Span::micros(self.within.into()) }
    }
}

/// A time in whole microseconds, if it can be said so.
fn micros(span: Span) -> Option<u32> {
    let micros = u32::try_from(span.0 / 1_000).ok().filter(|micros| *micros != u32::MAX);
    micros.filter(|_| span.0 % 1_000 == 0)
}
