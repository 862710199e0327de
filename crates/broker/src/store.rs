//! What a broker holds: messages, streams, topics, connections, sessions and jobs. Nothing here knows of a broker.

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
