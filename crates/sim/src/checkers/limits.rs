//! Every table, queue and buffer of a broker stays within its limit.
//!
//! Source: `broker::Limits`. The limit of jobs is one for arrivals; who takes over or gets a backup may add one for each
//! message that it keeps. A connection above the limit is expelled, and may be seen for as long as that takes.

use crate::port::Port;
use crate::scenario::Scenario;
use broker::Broker;

pub(super) const NAME: &str = "limits";
pub(super) const STATEMENT: &str = "every table, queue and buffer of a broker stays within its limit";

#[derive(Clone)]
pub(super) struct Limits {
    limits: broker::Limits,
    first_device: usize,
}

/// Connections that a broker makes to its partner are not refused for want of room; there are never more of them.
const OWN_LINKS: usize = 8;
/// Beyond the limit of a subscriber's backlog there may be the message that reached it, and what is not data.
const MARGIN_BYTES: usize = wire::limits::PAYLOAD_BYTES_MAX + (64 << 10);

impl Limits {
    pub(super) fn new(scenario: &Scenario) -> Limits {
        let first_device = 2 + scenario.publishers.len() + scenario.subscribers.len();
        Limits { limits: scenario.limits, first_device }
    }

    pub(super) fn looks_at(&self, broker: &Broker, port: &Port) -> Result<(), String> {
        let (limits, occupancy) = (&self.limits, broker.occupancy());
        let extra = if occupancy.jobs > limits.jobs { broker.slots() } else { 0 };
        let within = [
            ("jobs", occupancy.jobs, limits.jobs + extra),
            ("streams", occupancy.streams, limits.streams),
            ("sessions", occupancy.sessions, limits.sessions),
            ("links", occupancy.links, limits.links + OWN_LINKS),
            ("bytes stored", occupancy.store_bytes, limits.store_bytes),
            ("messages deferred for a subscriber", occupancy.deferred, limits.deferred_per_subscriber),
        ];
        for (what, count, limit) in within {
            if count > limit {
                return Err(format!("a broker has {count} {what}, above its limit of {limit}"));
            }
        }
        let natives = 2..self.first_device;
        let backlog =
            port.sockets.iter().map(|(_, socket)| socket).filter(|socket| natives.contains(&socket.peer));
        let longest = backlog.map(|socket| socket.outbox.len()).max().unwrap_or(0);
        if longest > limits.subscriber_backlog_bytes + MARGIN_BYTES {
            let limit = limits.subscriber_backlog_bytes;
            return Err(format!("{longest} bytes wait for one client, above the limit of {limit}"));
        }
        Ok(())
    }
}
