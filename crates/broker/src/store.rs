//! What a broker holds: messages, streams, topics, connections, sessions and jobs. Nothing here knows of a broker.

use crate::store::links::Links;
use crate::store::memory::Memory;
use crate::store::sessions::Sessions;
use crate::store::table::Table;

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
