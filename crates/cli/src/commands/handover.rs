//! `verge handover`: gives the reign to the backup.

use super::{connect, operator};
use crate::arguments::{BrokerArguments, Format};
use crate::config::Config;
use crate::output::{Outcome, complain, json, line, yes};
use serde::Serialize;
use verge::Error;

#[derive(Serialize)]
struct Done {
    done: bool,
    epoch: Option<u64>,
    reason: String,
}

/// Asks the primary, and says what came of it.
pub fn run(config: &Config, brokers: &BrokerArguments, format: Format) -> Outcome {
    let client = connect(config, brokers, Some(&operator()))?;
    let done = match client.handover() {
        Ok(epoch) => Done { done: true, epoch: Some(epoch.0), reason: String::new() },
        Err(Error::Handover(reason)) => Done { done: false, epoch: None, reason },
        Err(error) => return Err(error.into()),
    };
    match (format, done.epoch) {
        (Format::Json, _) => json(&done)?,
        (Format::Table, Some(epoch)) => line(&format!("handed over: epoch {epoch} reigns"))?,
        (Format::Table, None) => complain(&format!("verge: no handover: {}", done.reason)),
    }
    Ok(yes(done.done))
}
