//! No client takes a broker of its own pair for one of another.
//!
//! Source: `docs/clients.md`. The brokers of a pair come to be of one reign within a failover, and say so. Beyond the fault model they may
//! be kept from hearing of each other for longer than a client waits for that.

pub(super) const NAME: &str = "strangers";
pub(super) const STATEMENT: &str = "no client takes a broker of its own pair for one of another";

/// A client called a broker one of another pair; `None` where it only came to follow another reign.
pub(super) fn agrees(host: usize, called: Option<u8>) -> Result<(), String> {
    let Some(broker) = called else { return Ok(()) };
    let name = ["a", "b"].get(usize::from(broker)).copied().unwrap_or("?");
    Err(format!("client {host} takes {name} for a broker of another pair"))
}
