//! Where a broker listens, and how many may come in.

use super::value::Value;
use super::{BrokerAddress, Understanding};
use host::{Door, DoorLimits, Transport};
use std::net::SocketAddr;
use wire::Protocol;

/// A packet with what belongs to it must fit a frame between the brokers.
const PACKET_BYTES_MOST: usize = 1_000_000;

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

    pub(super) fn mqtt(&self) -> mqtt::Limits {
        let small = |path: &str| u16::try_from(self.integer(path)).unwrap_or(u16::MAX);
        mqtt::Limits {
            connections: self.size("limits.connections"),
            sessions: self.size("mqtt.sessions"),
            packet_bytes: self.size("mqtt.packet").min(mqtt::packet::PACKET_BYTES_MAX).min(PACKET_BYTES_MOST),
            receive_maximum: small("mqtt.receive_maximum"),
            topic_aliases: small("mqtt.topic_aliases"),
            inflight: small("mqtt.inflight"),
            queue_messages: self.size("mqtt.queue_messages"),
            queue_bytes: self.size("mqtt.queue"),
            backlog_bytes: self.size("mqtt.backlog"),
            subscriptions_per_session: self.size("mqtt.subscriptions_per_session"),
            subscriptions: self.size("mqtt.subscriptions"),
            retained_messages: self.size("mqtt.retained_messages"),
            retained_bytes: self.size("mqtt.retained"),
            topics_per_session: self.size("mqtt.topics_per_session"),
            greeting: self.span("mqtt.greeting"),
            session_expiry: self.span("mqtt.session_expiry"),
            keep_alive: self.span("mqtt.keep_alive"),
            hold: self.span("mqtt.hold"),
            grace: self.span("mqtt.grace"),
            sys_interval: self.span("mqtt.sys_interval"),
        }
    }

    pub(super) fn door_limits(&self) -> DoorLimits {
        let limit = |path: &str| u32::try_from(self.integer(path)).unwrap_or(u32::MAX);
        DoorLimits {
            per_second: limit("limits.accepts_per_second"),
            per_address: limit("limits.connections_per_address"),
        }
    }
}
