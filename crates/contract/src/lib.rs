#![doc = include_str!("../README.md")]

pub mod admission;
mod demand;
mod ids;
mod lazy;
mod mutant;
mod terms;
mod time;
pub mod timing;
mod topic;

pub use admission::{Admission, Plan, Refusal, Remedies};
pub use demand::{Job, Load, Overload, Supply};
pub use ids::{Epoch, NodeId, Receipt, Reign};
pub use lazy::{Every, Lazy, LazyPlan};
pub use mutant::Mutant;
pub use terms::{Contract, ContractError, LinkClass, LinkClassError, Loss};
pub use time::{Span, SpanError, Time};
pub use timing::{Delays, Links};
pub use topic::{TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX, TopicError, TopicFilter, TopicName, check_name};
