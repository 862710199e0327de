#![doc = include_str!("../README.md")]

mod calibrate;
mod clock;
mod driver;
mod network;
mod poller;
pub mod realtime;
mod serve;
mod systemd;
mod workers;

pub use calibrate::{Calibration, calibrate};
pub use clock::{now, random_number};
pub use driver::Driver;
pub use network::{HostError, Network};
pub use poller::{Poller, Ready};
pub use serve::{Serving, endings, hangups, serve};
pub use systemd::Notifier;
pub use workers::{Movers, Staffing, Workers};
