#![doc = include_str!("../README.md")]

mod control;
mod exposition;
mod metrics;
mod nodes;
mod probe;
mod process;
mod readiness;
mod server;
mod site;

pub use control::{Beat, Control};
pub use exposition::Samples;
pub use metrics::{Kind, METRICS, Metric, Reading, page, render};
pub use nodes::{NODE_METRICS, NodeBeat, NodeControl, NodeMetric, NodeSource, Turning, node_reasons};
pub use probe::{Answers, Probe, probe};
pub use process::ProcessUse;
pub use readiness::{Reason, judge, to_json};
pub use server::{CONNECTIONS_MAX, HEAD_BYTES_MAX, REQUEST_TIME, StatusSource};
pub use site::{SITE_METRICS, SiteMetric, SiteSource};
