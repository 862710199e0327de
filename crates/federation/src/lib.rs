#![doc = include_str!("../README.md")]

mod coordination;
mod leader;
mod matching;
mod member;
mod mirror;
mod owned;
mod policy;
mod records;
mod router;
mod site;
mod survey;
mod tree;
mod wishes;

pub use coordination::{Lasting, Node, Operation, Refusal, Reply, Request, Session, Stat, Ticket};
pub use leader::{LeaderNews, SHARD_TOPICS_MAX};
pub use matching::{Mismatch, mismatch};
pub use member::{MemberNews, Participant};
pub use mirror::REQUESTS_MAX;
pub use policy::{Fit, Policy, carrier, fit};
pub use records::{
    Durability, EndpointRecord, Holder, KeptRecord, Liveliness, Load, Refused, RouterRecord, ShardRecord,
    SiteRecord, Terms, TopicRecord,
};
pub use router::{Carried, Router, RouterNews, RouterSettings};
pub use site::{Keep, Route, Site, SiteNews, SiteSettings, TooManyTopics};
pub use survey::{Survey, SurveyedRouter, SurveyedTopic};
pub use tree::{Side, drain_path, escape, unescape};
