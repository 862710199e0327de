#![doc = include_str!("../README.md")]

mod calibrate;
mod clock;
mod driver;
mod network;
mod poller;
pub mod realtime;
mod serve;
mod verifier;
mod workers;

pub use calibrate::{Calibration, calibrate};
pub use clock::{now, random_number};
pub use driver::Driver;
pub use network::{HostError, Network};
pub use poller::{Poller, Ready};
pub use serve::{Serving, hangups, serve};
pub use verifier::{Answer, Asked, Verifier, Vetting};
pub use workers::{Movers, Staffing, Workers};
