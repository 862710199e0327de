//! What serves clients of MQTT.

use crate::config::{BrokerAddress, Config};
use broker::without_contract;
use host::random_number;
use mqtt::{Gateway, Open, Settings};

/// A gateway as it is configured.
pub fn new(config: &Config, partner: Option<&BrokerAddress>) -> Gateway<Open> {
    let elsewhere = partner.and_then(|partner| partner.listeners.mqtt);
    let settings = Settings {
        limits: config.mqtt,
        fallback: without_contract(),
        server_reference: elsewhere.map(|address| address.to_string().into()),
        node: random_number(),
    };
    Gateway::new(settings, Open)
}
