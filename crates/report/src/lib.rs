#![doc = include_str!("../README.md")]

mod broker;
mod function;
mod meeting;
mod pair;
mod rows;
mod site;

pub use broker::{LevelReport, NodeReport, OperatorReport, StreamReport};
pub use function::{FunctionReport, QualityReport, RuleReport, RunningReport, TracedReport, TracedRule};
pub use meeting::{ContractReport, KeptReport, MeetingEvent, NeedsReport, RefusalReport, VALUE_BYTES_MAX};
pub use pair::{BrokerRow, PairReport, Place, Role, SCHEMA, State, TopicRow};
pub use rows::{Before, LevelRow, OperatorRow};
pub use site::{
    CoordinationReport, FlowReport, GivenReport, KeeperReport, LinkReport, LinkUse, MissedReport,
    RefusedStream, RouterReport, SiteReport, UnwishedFilter,
};
