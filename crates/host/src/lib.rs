#![doc = include_str!("../README.md")]

mod calibrate;
mod clock;
mod doors;
mod driver;
mod network;
mod poller;
pub mod realtime;
mod serve;
mod troubles;
mod workers;

pub use calibrate::{Calibration, calibrate};
pub use clock::{now, random_number};
pub use doors::{Door, DoorLimits, Transport};
pub use driver::Driver;
pub use network::{HostError, Network};
pub use poller::{Poller, Ready};
pub use serve::{Serving, hangups, serve};
pub use troubles::{Cause, Troubles};
pub use workers::{Movers, Staffing, Workers};
