#![doc = include_str!("../README.md")]

pub mod admission;
mod counters;
mod demand;
mod explain;
mod filters;
mod ids;
pub mod invariants;
mod lazy;
mod location;
mod looks;
mod mutant;
pub mod names;
mod needs;
pub mod path;
mod ring;
pub mod rounds;
mod terms;
mod thin;
mod time;
pub mod timing;
mod topic;

pub use admission::{Admission, BudgetShort, Plan, Receivers, Refusal, Remedies};
pub use counters::OperatorCounters;
pub use demand::{Job, Load, Overload, Supply};
pub use explain::Explanation;
pub use filters::{Filters, Kept};
pub use ids::{Epoch, NodeId, Receipt, Reign, StreamId, Ticket, first_missing, first_of_reign};
pub use lazy::{Every, Lazy, LazyPlan};
pub use location::{Location, NoLocation};
#[cfg(debug_assertions)]
pub use looks::looks;
pub use mutant::Mutant;
pub use needs::Needs;
pub use path::{AtHop, Crossing, Planned};
pub use ring::RingId;
pub use terms::{Contract, ContractError, LinkClass, LinkClassError, Loss};
pub use thin::{BANDWIDTH_MIN, Flow, MESSAGE_BYTES, Narrow, ThinLink, TrafficClass};
pub use time::{Span, SpanError, Time};
pub use timing::{Delays, LinkDelay, Links};
pub use topic::{
    FILTER_TEXT_COPIES, TOPIC_BYTES_MAX, TOPIC_BYTES_SHOWN, TOPIC_LEVELS_MAX, TopicError, TopicFilter,
    TopicName, check_name, filter_bytes, filters_bytes_max, levels, names_bytes_max, shortened, shown,
};
