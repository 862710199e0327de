//! What a broker holds: messages, streams, topics, connections, sessions and jobs. Nothing here knows of a broker.

use crate::settings::Bound;
use crate::store::links::Links;
use crate::store::memory::{Memory, ORDER_LEAST};
use crate::store::ring::SlotFlags;
use crate::store::sessions::Sessions;
use crate::store::table::Table;
use contract::{StreamId, Ticket, invariant};

pub(crate) mod bitset;
pub(crate) mod copying;
pub(crate) mod far;
pub(crate) mod ids;
pub(crate) mod links;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod pace;
pub(crate) mod prefetch;
pub(crate) mod queue;
pub(crate) mod quiet;
pub(crate) mod results;
pub(crate) mod ring;
pub(crate) mod sessions;
pub(crate) mod table;
pub(crate) mod terms;

/// All that a broker holds of others: their messages, their streams and topics, their connections, and what they subscribed to.
#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) table: Table,
    pub(crate) links: Links,
    pub(crate) sessions: Sessions,
    pub(crate) memory: Memory,
}

impl Store {
    /// Whether a message has been given to all who wanted its topic, or is gone.
    pub(crate) fn was_dispatched(&self, stream: StreamId, seq: u64) -> bool {
        let ring = self.table.stream(stream).map(|stream| &stream.ring);
        let slot = ring.and_then(|ring| ring.slot(ring.find(seq)?));
        slot.is_none_or(|slot| slot.flags.has(SlotFlags::DISPATCHED.or(SlotFlags::OFFERED)))
    }

    /// The ring of a stream of best effort is too small for those who have not read yet: it grows, if there is memory.
    pub(crate) fn grow_loose(&mut self, index: StreamId, bound: &Bound) {
        let left = self.memory.left_for_messages(bound);
        let Some(stream) = self.table.stream_mut(index) else {
            return invariant!("a stream that needs room is there");
        };
        let slots = (2 * stream.ring.slots()).min(stream.ring.bounds().1);
        if stream.ring.is_reserved() || slots <= stream.ring.slots() || stream.ring.oldest().is_none() {
            return;
        }
        let growth = stream.ring.grown_bytes(slots) - stream.ring.bytes();
        if self.memory.loose + growth <= left {
            stream.ring.grow(slots);
            self.memory.loose += growth;
        }
    }

    /// Forgets the places of messages that are not there any more.
    pub(crate) fn forget_gone(&mut self) {
        let table = &self.table;
        let there = |(index, ticket): &(StreamId, Ticket)| {
            table.stream(*index).is_some_and(|stream| stream.ring.holds(*ticket))
        };
        self.memory.order.retain(there);
        // Half of them have to be new before it is worth another look.
        self.memory.tidy_at = (2 * self.memory.order.len()).max(ORDER_LEAST);
    }
}
