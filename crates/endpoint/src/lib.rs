#![doc = include_str!("../README.md")]

mod brokers;
mod carrying;
mod clock;
mod endpoint;
mod publication;
mod settings;
mod subscription;
mod tally;
mod window;
mod witness;

pub use carrying::{Carried, Passed};
pub use endpoint::{Asked, Endpoint, Outputs, Reigning, Unfit};
pub use publication::{AdvertiseError, PublicationState, PublishError, Retained};
pub use settings::{BROKERS_MAX, Credentials, Limits, Settings};
pub use subscription::{Confirmation, Delivery, StreamAccount};
pub use tally::Tally;
pub use window::Window;
