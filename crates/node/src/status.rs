//! How the brokers of a pair are, asked as any client may.

use crate::Trouble;
use crate::client::{Wanted, start};
use config::Config;
use report::{Before, NodeReport, PairReport, Place};
use std::time::{Duration, Instant};
use verge::{Client, Reach};
use wire::limits::ADMIN_NAMES;

/// How long brokers may take to be reached.
pub const PATIENCE: Duration = Duration::from_millis(1500);
/// Between two looks at who has answered.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How a client calls itself that only asks how brokers are, or moves the reign: a few places are kept for those where clients have
/// all of theirs.
pub fn admin_name() -> String {
    format!("{ADMIN_NAMES}{:016x}", host::random_number())
}

/// The same as `verge status --format json` shows.
pub fn as_json(config: &Config) -> Result<String, String> {
    let made = || {
        let client = start(config, &Wanted::default(), Some(&admin_name()))?;
        let report = look(&client, Instant::now() + PATIENCE, &mut Before::default())?;
        serde_json::to_string_pretty(&report).map_err(|error| Trouble(error.to_string()))
    };
    made().map(|text| text + "\n").map_err(|trouble| trouble.0)
}

/// Asks every broker. Waits until all have answered, or for as long as is left.
pub fn look(client: &Client, until: Instant, before: &mut Before) -> Result<PairReport, Trouble> {
    let mut reports: Vec<(String, NodeReport)> = Vec::new();
    let reaches = loop {
        reports.clear();
        let reaches = client.reaches()?;
        for reach in &reaches {
            if let Some(broker) = reach.broker
                && let Some(report) = client.status(broker, true)?
            {
                reports.push((reach.address.clone(), report));
            }
        }
        let all = client.has_asked()? && reports.len() == reaches.len();
        if all || Instant::now() >= until {
            // What was said meanwhile counts.
            break client.reaches()?;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let place = |reach: Reach| Place { address: reach.address, trouble: reach.trouble, reign: reach.reign };
    let places: Vec<Place> = reaches.into_iter().map(place).collect();
    Ok(PairReport::new(&places, &reports, before))
}
