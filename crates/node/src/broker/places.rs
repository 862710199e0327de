//! Descriptors: how many a broker keeps for itself, and what it says where the host allows too few.

use crate::log::Lines;
use config::Config;
use host::{Shares, prepare_descriptors};

/// What is no connection of a client, about: only to make room at once; it is counted exactly when all is open.
const ABOUT: u64 = 80;
/// Below it, few places are kept for HTTP.
const SCARCE: u64 = 256;
/// Connections for metrics and health where descriptors are scarce.
const HTTP_WHERE_SCARCE: usize = 4;
/// What a request for the status of the pair opens, one at a time: a client of both brokers.
const STATUS: u64 = 6;
/// Files that are open for a moment: the configuration and what it names when it is read again, a store that is written anew, what the
/// kernel says of this process.
const MOMENTS: u64 = 4;

/// Raises the number of descriptors to what the host allows, and makes room for them. Returns how many are allowed.
pub fn prepare(config: &Config) -> Option<u64> {
    prepare_descriptors(u64::from(config.door_limits.clients) + ABOUT)
}

/// Connections for metrics and health.
pub fn http(allowed: Option<u64>) -> usize {
    if allowed.is_some_and(|allowed| allowed < SCARCE) { HTTP_WHERE_SCARCE } else { web::CONNECTIONS_MAX }
}

/// Descriptors that are opened and closed while a broker serves, beside those of connections at its doors.
pub fn later(allowed: Option<u64>, has_http: bool) -> u64 {
    // One more is accepted before another makes room for it.
    let watching = if has_http { http(allowed) as u64 + 1 + STATUS } else { 0 };
    MOMENTS + watching
}

/// Says where fewer clients get in than the configuration allows.
pub fn say(shares: &Shares, lines: &Lines) {
    let Some(allowed) = shares.allowed.filter(|_| shares.is_short()) else { return };
    lines.warn(&format!(
        "note: the host allows {allowed} descriptors, of which {} are kept for listeners, the partner, operators and HTTP: {} clients can \
         be connected, and not limits.connections = {}. Raise LimitNOFILE (ulimit -n)",
        shares.kept, shares.clients, shares.wanted
    ));
}
