//! Where a broker listens, and how many may come in.

use super::value::Value;
use super::{BrokerAddress, Understanding};
use host::{Door, DoorLimits, Transport};
use std::net::SocketAddr;
use wire::Protocol;

/// Where a broker listens besides the two addresses that it always has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Listeners {
    pub mqtt: Option<SocketAddr>,
}

impl BrokerAddress {
    /// All its doors, each with its key.
    pub fn doors(&self) -> Vec<(&'static str, Door)> {
        let listeners = &self.listeners;
        let all = [
            ("clients", Some(self.clients), Protocol::Verge, Transport::Plain),
            ("pair", Some(self.pair), Protocol::Verge, Transport::Plain),
            ("mqtt", listeners.mqtt, Protocol::Mqtt, Transport::Plain),
        ];
        let door = |(key, address, protocol, transport): (_, Option<SocketAddr>, _, _)| {
            Some((key, Door { address: address?, protocol, transport }))
        };
        all.into_iter().filter_map(door).collect()
    }
}

impl Understanding {
    pub(super) fn listeners(&self, broker: &str) -> Listeners {
        let address = |key: &str| match self.values.get(&format!("brokers.{broker}.{key}")) {
            Some(Value::Address(address)) => Some(*address),
            _ => None,
        };
        Listeners { mqtt: address("mqtt") }
    }

    pub(super) fn door_limits(&self) -> DoorLimits {
        let limit = |path: &str| u32::try_from(self.integer(path)).unwrap_or(u32::MAX);
        DoorLimits {
            per_second: limit("limits.accepts_per_second"),
            per_address: limit("limits.connections_per_address"),
        }
    }
}
