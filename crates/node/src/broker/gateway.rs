//! What serves clients of MQTT.

use super::logins::UserRules;
use config::BrokerAddress;
use contract::Contract;
use host::random_number;
use mqtt::{Gateway, Settings};

/// A gateway as it is configured, with what a store has kept.
pub fn new(
    partner: Option<&BrokerAddress>,
    limits: mqtt::Limits,
    rules: UserRules,
    kept: &[u8],
) -> Gateway<UserRules> {
    let settings = Settings {
        limits,
        fallback: Contract::unstated(),
        server_references: partner
            .map(|partner| partner.listeners.mqtt_references.clone())
            .unwrap_or_default(),
        node: random_number(),
    };
    let mut gateway = Gateway::new(settings, rules);
    gateway.restore(kept);
    gateway
}
