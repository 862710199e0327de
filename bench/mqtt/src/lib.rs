//! What loads of MQTT brokers share with loads of other brokers: packets, connections, clocks and what a process has used.

pub mod link;
pub mod observed;
pub mod packet;
pub mod poller;
