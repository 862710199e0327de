//! Other protocols: what their clients publish, and what their subscribers are given.
//!
//! Whoever serves them (the gateway) keeps their sessions, and is told of every message when it is dispatched. What their
//! clients publish is a stream like any other, numbered here, since the clients do not number it themselves. A client that
//! waits for word of a message gets it when the message is covered: when it has been dispatched to all, or copied to the backup
//! where it has to wait for somebody.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::arrive::Unstored;
use crate::store::ring::SlotFlags;
use contract::{StreamId, Time, first_of_reign, invariant};
use wire::{Message, Posting};

/// How messages of a topic are given to other protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Under which number.
    pub number: u32,
    /// To how many subscribers.
    pub receivers: u32,
}

/// What became of a posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// Its stream.
    pub stream: StreamId,
    /// Its number there.
    pub seq: u64,
}

/// Why a posting was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unposted {
    /// This broker does not reign.
    #[error("this broker does not reign")]
    NotReigning,
    /// The messages before it have not been dispatched yet, and it would overwrite them: let [`Broker::run`](crate::Broker::run) work.
    #[error("the messages before it have not been dispatched yet")]
    Crowded,
    /// A table of the broker is full.
    #[error("the broker's queue of jobs is full: publish less at a time, or raise limits.jobs")]
    Full,
    /// There is no memory for it.
    #[error("{0}")]
    Short(String),
    /// The contract is not admitted.
    #[error("{0}")]
    Refused(String),
}

impl Steps<'_> {
    /// Numbers and stores a message of a client of another protocol, in this stream.
    pub(crate) fn post(
        &mut self,
        now: Time,
        index: StreamId,
        posting: &Posting<'_>,
        out: &mut impl Outputs,
    ) -> Result<Posted, Unposted> {
        let first = first_of_reign(self.pair.reign.epoch);
        if self.is_crowded(index) {
            return Err(Unposted::Crowded);
        }
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a stream that was found or made is there", Err(Unposted::Full));
        };
        stream.record.silent_since = now;
        let seq = stream.next_seq.max(first);
        // A jump to the numbers of this reign is no loss.
        stream.next_seq = seq;
        let message =
            Message { stream: index.0, flags: posting.truths, seq, created: now, payload: posting.payload };
        let stored = self.store_message(now, None, index, &message, false, out);
        let ticket = stored.map_err(|unstored| match unstored {
            Unstored::Short(shortage) => Unposted::Short(shortage.to_string()),
            Unstored::Crowded | Unstored::NotTaken => Unposted::Full,
        })?;
        if posting.asks {
            let stream = self.flow.store.table.stream_mut(index);
            match stream.and_then(|stream| stream.ring.slot_mut(ticket)) {
                Some(slot) => slot.set(SlotFlags::ASKED),
                None => invariant!("a message that was just stored is there"),
            }
        }
        Ok(Posted { stream: index, seq })
    }
}
