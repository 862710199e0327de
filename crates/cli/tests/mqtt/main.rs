//! Clients that people use, against a broker that runs: mosquitto's programs, paho in both of its APIs, MQTT.js, rumqttc, and
//! bytes by hand where no client goes. `VERGE_TEST_MQTT=mosquitto` tries the tests themselves, against mosquitto. What is not
//! installed is SKIPPED; `make tools` installs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod broker;
mod by_hand;
#[path = "../support/mod.rs"]
mod support;
mod tools;

mod door;
mod examples;
mod failover;
mod mosquitto_programs;
mod operator;
mod rubbish;
mod rumqttc_clients;
mod rumqttc_peer;
mod scenarios;
mod tls;
