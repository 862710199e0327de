//! Clients of MQTT and a pair of brokers on virtual time. Each test is a sentence.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../world/mod.rs"]
mod world;

mod aliases;
mod answers;
mod asking;
mod bridges;
mod clauses;
mod delivery;
mod failover;
mod long;
mod needs;
mod order;
mod refusals;
mod retained;
mod sessions;
mod shared;
mod stores;
mod words;
