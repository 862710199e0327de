#![doc = include_str!("../README.md")]

mod broker_node;
mod client_node;
mod commands;
pub mod driving;
mod gate;
mod keeper;
mod node;
mod peer;
mod processing;
mod relay;
mod reporter;
mod service;
mod serving;
#[cfg(feature = "testing")]
pub mod testing;
mod uplink;
mod wired;

pub use self::processing::{Made, NoOperators, Operators, Processor};
pub use broker_node::BrokerNode;
pub use client_node::{Application, ClientNode, ClientOutputs};
pub use gate::{Guarding, is_of_gate};
pub use keeper::{Keeper, KeeperNews, KeeperReporter, KeeperSettings, KeeperView, KeptTopics};
pub use mqtt::{Open, Rules};
pub use node::Node;
pub use peer::{
    Duty, FUNCTION_NAME_MAX, FUNCTIONS_MAX, LEASE, LOOK_MAX, NO_DUTY_FOR, NOTE_BYTES_MAX, Note, Nowhere,
    Peer, PeerEffects, PeerWord, Put, PutError, TEXT_BYTES_MAX, WHY_BYTES_MAX, Where, WorkWord,
    function_name, function_text, is_function_name,
};
pub use reporter::{Introduces, Keeps, KeepsNothing, KnowsEverybody, Reporter};
pub use uplink::{
    Coordinated, CoordinationView, LinkView, ROUTERS_MAX, RouterView, Traffic, Uplink, UplinkNews,
    UplinkReporter, UplinkSettings, UplinkView, WayView,
};
