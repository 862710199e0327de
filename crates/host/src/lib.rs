#![doc = include_str!("../README.md")]

mod breath;
mod calibrate;
mod clock;
mod connection;
mod descriptors;
mod doors;
mod driver;
mod error;
mod lobby;
mod network;
mod poller;
pub mod realtime;
mod serve;
mod shell;
mod store;
mod systemd;
pub mod tls;
mod troubles;
mod verifier;
mod websocket;
mod workers;

pub use calibrate::{Calibration, calibrate};
pub use clock::{fill_random, now, random_number};
pub use descriptors::prepare_descriptors;
pub use doors::{Door, DoorLimits};
pub use driver::Driver;
pub use error::HostError;
pub use lobby::{Lobby, LobbySettings};
pub use network::Network;
pub use poller::{Poller, Ready};
pub use serve::{Partner, Serving, endings, hangups, serve};
pub use store::{Before, CHANGE_BYTES, Record, State, Store, StoreError, StoreSettings, StoreWatch};
pub use systemd::Notifier;
pub use troubles::{Cause, Troubles};
pub use verifier::{Answer, Asked, Verifier, Vetting};
pub use workers::{Movers, Staffing, Workers};
