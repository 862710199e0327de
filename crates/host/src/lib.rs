#![doc = include_str!("../README.md")]

mod authenticator;
mod awake;
mod breath;
mod busy_poll;
mod calibrate;
mod clock;
mod connection;
mod descriptors;
mod doors;
mod driver;
mod error;
mod fair_server;
mod gather;
mod handshake;
mod heart;
mod helpers;
mod journal;
mod memory;
mod network;
mod place;
mod poller;
pub mod realtime;
mod serve;
mod store;
mod systemd;
pub mod tls;
mod transport;
mod troubles;
mod websocket;
mod workers;

pub use authenticator::{Answer, Asked, Authentication, Authenticator};
pub use awake::Awake;
pub use calibrate::{Calibration, calibrate};
pub use clock::{fill_random, monotonic, now, random_number, worked};
pub use descriptors::{Shares, prepare_descriptors};
pub use doors::{Door, DoorLimits, Guests, PLACES_KEPT};
pub use driver::Driver;
pub use error::HostError;
pub use fair_server::FairServer;
pub use gather::Gather;
pub use handshake::{HandshakeSettings, Handshakes};
pub use heart::{Heart, HeartSettings};
pub use helpers::{Helpers, Loss, end_on_purpose, last_word};
pub use journal::{JournalFiles, JournalFilesError, JournalSync};
pub use memory::{Allowance, allowance};
pub use network::Network;
pub use place::{ADDRESSES_MAX, AskAgain, Place, Whereabouts, look_for};
pub use poller::{Poller, Ready};
pub use serve::{Partner, Serving, serve};
pub use store::{
    Before, CHANGE_BYTES, Found, Record, State, Store, StoreDoes, StoreError, StoreSettings, StoreWatch,
};
pub use systemd::Notifier;
pub use troubles::{Cause, Troubles};
pub use workers::{Movers, Occupancy, Staffing, Workers};
