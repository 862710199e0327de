#![doc = include_str!("../README.md")]

mod client;
mod error;
mod events;
mod kept;
mod meetings;
mod peers;
mod places;
mod publisher;
mod subscription;

pub use client::{Builder, Client, places};
pub use contract::{Contract, Epoch, LinkClass, Loss, Needs, Remedies, Span, Time};
pub use endpoint::{Delivery, PublishError, Reigning};
pub use error::Error;
pub use host::tls::{ClientCertificates, TlsSettings, TlsVersion};
pub use kept::{Kept, KeptPage, KeptQuery, Put};
pub use meetings::{Announcement, Found};
pub use peers::{Met, Peers, Posting, ask_peer};
pub use places::Reach;
pub use publisher::{Batch, Publisher};
pub use report::{LevelReport, NodeReport, OperatorReport, StreamReport};
pub use subscription::{Account, Message, Subscription};
pub use wire::{ClockDifference, Concern, Shortfall, Standing, StoreState, TopicState};
