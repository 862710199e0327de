#![doc = include_str!("../README.md")]

mod bridge;
mod endpoint;
mod history;
mod names;
mod roster;
mod sample;
mod words;

pub use bridge::{BEAT, Bridge, Effect, LISTEN, LOCAL_MAX, Neighbour, Settings, Wish};
pub use endpoint::{
    Durability, Endpoint, Guid, History, Liveliness, Mismatch, Order, Ownership, Presentation, Qos,
    Reliability,
};
pub use history::{BYTES_MAX as HISTORY_BYTES_MAX, DEPTH_UNSAID};
pub use names::{ROOT, bad_bridge_name, place, topic, words_filter, words_topic};
pub use roster::{BRIDGES_MAX, ENDPOINTS_MAX, Heard, Heed, Remote};
pub use sample::{Carried, DISPOSED, HEADER_BYTES_MAX, Kind, Sample, UNREGISTERED};
pub use words::{BridgeId, Counts, Who, Word};
