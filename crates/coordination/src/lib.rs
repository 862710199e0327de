#![doc = include_str!("../README.md")]

mod driver;
mod requests;
mod settings;
mod watches;
mod zookeeper;

pub use settings::{BadSettings, Login, Settings, Tls};
pub use zookeeper::{Event, Full, REQUESTS_QUEUED_MAX, TOLD_MAX, Trouble, Wake, ZooKeeper};
