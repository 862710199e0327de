#![doc = include_str!("../README.md")]

mod calibrate;
mod clock;
mod driver;
mod network;
mod poller;
pub mod realtime;
mod serve;
mod store;
mod workers;

pub use calibrate::{Calibration, calibrate};
pub use clock::{now, random_number};
pub use driver::Driver;
pub use network::{HostError, Network};
pub use poller::{Poller, Ready};
pub use serve::{Serving, hangups, serve};
pub use store::{Before, CHANGE_BYTES, Record, State, Store, StoreError, StoreSettings, StoreWatch};
pub use workers::{Movers, Staffing, Workers};
