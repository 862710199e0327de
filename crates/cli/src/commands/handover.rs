//! `verge handover`: gives the reign to the backup.

use super::{admin_name, connect};
use crate::arguments::{BrokerArguments, Format};
use config::Config;
use console::{Outcome, Trouble, complain, json, line, yes};
use serde::Serialize;
use std::time::{Duration, Instant};
use verge::{Client, Error, Reach};

#[derive(Serialize)]
struct Done {
    done: bool,
    epoch: Option<u64>,
    reason: String,
}

/// Brokers of one pair agree on who reigns, but for a moment.
const AGREE_WITHIN: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(20);

/// Whether all that answer are of one pair: nobody may mean two.
fn check_one_pair(client: &Client) -> Result<(), Trouble> {
    let until = Instant::now() + AGREE_WITHIN;
    loop {
        let reaches: Vec<Reach> = client.reaches()?;
        let known: Vec<&Reach> = reaches.iter().filter(|reach| reach.reign.is_some()).collect();
        let agree = known.windows(2).all(|two| two[0].reign == two[1].reign);
        // Who is not reached yet looks like who never will be, so everybody is waited for.
        if agree && (known.len() == reaches.len() || Instant::now() >= until) {
            return Ok(());
        }
        if Instant::now() >= until {
            let addresses: Vec<&str> = known.iter().map(|reach| reach.address.as_str()).collect();
            return Err(Trouble(format!(
                "{} are brokers of different pairs, and only one may hand over: name the brokers of one pair (-h), or correct the addresses",
                addresses.join(" and ")
            )));
        }
        std::thread::sleep(NAP);
    }
}

/// Asks the primary, and says what came of it.
pub fn run(config: &Config, brokers: &BrokerArguments, format: Format) -> Outcome {
    let client = connect(config, brokers, Some(&admin_name()))?;
    check_one_pair(&client)?;
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
