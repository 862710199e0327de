//! What a node is told at start. The values have been checked by whoever read them.

use contract::Span;
use kv::{LinkKey, Setup};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where a node is.
#[derive(Clone, Debug)]
pub struct NodeAddress {
    /// Its name.
    pub name: String,
    /// Where the others reach it.
    pub address: SocketAddr,
}

/// One lane of a node.
#[derive(Clone, Debug)]
pub struct LaneSettings {
    /// What all its nodes have agreed on.
    pub setup: Arc<Setup>,
    /// The processor that its thread stays on; `None` for any.
    pub processor: Option<usize>,
    /// The priority of its thread under `SCHED_FIFO`; `None` for ordinary scheduling.
    pub priority: Option<u8>,
    /// Of so many of the newest stamps of each key it is kept what their values were made of.
    pub vectors: usize,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Its number among the nodes.
    pub me: kv::Node,
    /// All nodes, by number.
    pub nodes: Vec<NodeAddress>,
    /// The keys of its links, by number; its own is not used.
    pub links: Vec<LinkKey>,
    /// Its lanes, by number.
    pub lanes: Vec<LaneSettings>,
    /// Where tasks and tools ask.
    pub socket: PathBuf,
    /// How long it waits for all others before it begins with those that there are.
    pub start_wait: Span,
    /// An operator says that there is nothing to be known yet: it begins with an empty store, unless it finds others that run.
    pub founds: bool,
    /// While it is true, this node lies: it tells every peer something else. For demonstrations and measurements.
    pub lies: Option<Arc<AtomicBool>>,
}

/// Where a node says what an operator should know.
pub trait Journal: Send + Sync {
    /// All is well.
    fn note(&self, text: &str);
    /// Something should be looked at.
    fn warn(&self, text: &str);
}
