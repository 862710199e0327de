#![doc = include_str!("../README.md")]

#[cfg(feature = "cyclone")]
pub mod cyclone;
#[cfg(feature = "cyclone")]
mod run;
mod survey;

#[cfg(feature = "cyclone")]
pub use run::{BridgeError, Options, run};
pub use survey::{Link, Survey, survey};
