#![doc = include_str!("../README.md")]

mod driver;
mod requests;
mod settings;
mod through;
mod watches;
mod zookeeper;

pub use settings::{BadSettings, Login, Proxy, Settings, Tls};
pub use zookeeper::{Event, Full, REQUESTS_QUEUED_MAX, TOLD_MAX, Trouble, Wake, ZooKeeper};
